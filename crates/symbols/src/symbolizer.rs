//! The front: modules in, frames out.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use crate::called;
use crate::dwarf::{Batch, DebugInfo, Opened};
use crate::fetch::Fetch;
use crate::frame::{Frame, Resolved};
use crate::generated::GeneratedFile;
use crate::given::Assigned;
use crate::intern::Interner;
use crate::locate::Located;
use crate::status::{ModuleStatus, Note, Seen};
use crate::symtab::SymbolTable;

/// Threads used at most, unless asked otherwise: beyond this the disk sets the pace.
const THREADS_MAX: usize = 8;

/// A module as it was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ModuleId<'a> {
    /// The path in the process that ran. May be empty or no file at all, as `[vdso]`.
    pub path: &'a Path,
    /// Its GNU build id; empty if it was not recorded.
    pub build_id: &'a [u8],
}

/// How far to look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// Symbol tables only. No debug information is opened and no checksum is reckoned, so
    /// that this fits into the few milliseconds at the end of a program.
    SymbolsOnly,
    /// Functions, lines and inline frames.
    #[default]
    Full,
}

/// What to look for, and where.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Where separate debug files lie. `/usr/lib/debug` by default.
    pub debug_dirs: Vec<PathBuf>,
    /// Files that are read for modules wherever these lie. That they are those modules is for the caller to see to.
    pub files: Vec<Assigned>,
    /// Whether [`Frame::function`] is made readable. On by default.
    pub demangle: bool,
    /// Whether files and lines are looked up. On by default.
    pub source_lines: bool,
    /// Where the files of the machine that ran are mounted, if it is not this one.
    pub sysroot: Option<PathBuf>,
    /// Whether somebody who has no debug information may be told of servers that do.
    pub suggests_servers: bool,
    /// How far to look.
    pub level: Level,
    /// How many threads read debug information; by default as many as there are
    /// processors, up to eight. The answers do not depend on it.
    pub threads: Option<NonZeroUsize>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            debug_dirs: vec![PathBuf::from("/usr/lib/debug")],
            files: Vec::new(),
            suggests_servers: false,
            demangle: true,
            source_lines: true,
            sysroot: None,
            level: Level::Full,
            threads: None,
        }
    }
}

/// Names addresses, and remembers what it has named.
#[derive(Debug)]
pub struct Symbolizer {
    options: Options,
    interner: Interner,
    modules: HashMap<(PathBuf, Vec<u8>), Module>,
    fetch: Option<Box<dyn Fetch>>,
    generated: Option<GeneratedFile>,
}

#[derive(Debug)]
struct Module {
    located: Located,
    symbols: Option<SymbolTable>,
    /// Opened when the first address needs it.
    debug: Option<Opened>,
    known: HashMap<u64, Resolved>,
    status: ModuleStatus,
}

impl Symbolizer {
    /// A symbolizer that has opened nothing yet.
    pub fn new(options: Options) -> Self {
        let interner = Interner::new(options.demangle);
        Symbolizer { options, interner, modules: HashMap::new(), fetch: None, generated: None }
    }

    /// Whether `link` leads to `file`, both as they were recorded.
    pub fn leads_to(&self, link: &Path, file: &Path) -> bool {
        let real = |path: &Path| under(self.options.sysroot.as_deref(), path).canonicalize().ok();
        real(link).is_some_and(|link| Some(link) == real(file))
    }

    /// What it was made with.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The same, with somebody who is asked for debug information that is not on this machine. Not with
    /// [`Level::SymbolsOnly`].
    #[must_use]
    pub fn with_fetch(self, fetch: Box<dyn Fetch>) -> Self {
        Symbolizer { fetch: Some(fetch), ..self }
    }

    /// The same, with a file in which the program wrote down what code it made at run time, as engines do for `perf`
    /// (`/tmp/perf-PID.map`). It is read when the first such address is asked for.
    #[must_use]
    pub fn with_generated_code(self, path: PathBuf) -> Self {
        Symbolizer { generated: Some(GeneratedFile::new(path)), ..self }
    }

    /// The same for another process: none is `None`.
    pub fn set_generated_code(&mut self, path: Option<PathBuf>) {
        self.generated = path.map(GeneratedFile::new);
    }

    /// Names addresses in no module, as [`Symbolizer::resolve`] does those in one. Of a script's function the line is that where
    /// it begins. A file that has grown since is read again.
    pub fn resolve_generated(&mut self, addresses: &[u64]) -> Vec<Resolved> {
        match &mut self.generated {
            Some(file) => file.resolve(addresses),
            None => vec![Resolved::default(); addresses.len()],
        }
    }

    /// Whether there is such a file.
    pub fn knows_generated_code(&self) -> bool {
        self.generated.is_some()
    }

    /// Names a batch of addresses of one module. The answers are in the order of
    /// `addresses`, one for each, innermost frame first, and empty where nothing is known.
    ///
    /// An address is an ELF virtual address: the address at run time less the load bias.
    /// It is looked up as it is, so pass return addresses less one. A batch should be as
    /// large as possible: the work is by compilation unit, not by address.
    ///
    /// `progress` hears `(done, total)` now and then. When `deadline` passes, the addresses
    /// still open get names from the symbol table, which are [hasty](Resolved::hasty) and not remembered.
    pub fn resolve(
        &mut self,
        module: &ModuleId<'_>,
        addresses: &[u64],
        progress: &mut dyn FnMut(usize, usize),
        deadline: Option<Instant>,
    ) -> Vec<Resolved> {
        let key = self.open(module);
        let (options, interner) = (&self.options, &self.interner);
        let Some(module) = self.modules.get_mut(&key) else { return vec![Resolved::default(); addresses.len()] };
        let mut wanted: Vec<u64> = addresses.iter().copied().filter(|at| !module.known.contains_key(at)).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let hasty = module.name_all(&wanted, options, interner, progress, deadline);
        addresses.iter().map(|at| module.known.get(at).or_else(|| hasty.get(at)).cloned().unwrap_or_default()).collect()
    }

    /// The same from symbol tables alone, at once: no debug information is opened for it. Where there is some, the answers are
    /// [hasty](Resolved::hasty).
    pub fn resolve_from_symbols(&mut self, module: &ModuleId<'_>, addresses: &[u64]) -> Vec<Resolved> {
        let key = self.open(module);
        let interner = &self.interner;
        let Some(module) = self.modules.get_mut(&key) else { return vec![Resolved::default(); addresses.len()] };
        let hasty = self.options.level == Level::Full
            && module.located.debug.as_ref().is_some_and(|image| image.has_debug_info());
        let images = module.located.images();
        let few = match module.symbols {
            Some(_) => None,
            None => {
                let wanted = addresses.iter().copied().filter(|at| !module.known.contains_key(at));
                SymbolTable::read_for(&images, &wanted.collect::<Vec<_>>())
            }
        };
        let symbols = match &few {
            Some(few) => few,
            None => module.symbols.get_or_insert_with(|| SymbolTable::read(&images)),
        };
        let named = |at: &u64| {
            let frame = || Vec::from_iter(symbol_frame(symbols, interner, *at));
            module.known.get(at).cloned().unwrap_or_else(|| Resolved { frames: Arc::from(frame()), hasty })
        };
        addresses.iter().map(named).collect()
    }

    /// The function that the call before this return address is of, as the linker knows it, where the call leads out of the module:
    /// by the call's own code, on x86-64 only. That function may have passed on to another and left no frame.
    pub fn called(&mut self, module: &ModuleId<'_>, return_address: u64) -> Option<Arc<str>> {
        let key = self.open(module);
        let name = called::name(self.modules.get(&key)?.located.binary.as_ref()?, return_address)?;
        Some(self.interner.name(&name).raw)
    }

    /// What was found for a module. Opens it if no address of it was asked for yet; what
    /// its debug information holds is only known after [`Symbolizer::resolve`].
    pub fn status(&mut self, module: &ModuleId<'_>) -> ModuleStatus {
        let key = self.open(module);
        match self.modules.get(&key) {
            Some(module) => module.status.clone(),
            None => ModuleStatus { seen: Seen::Nothing, notes: Vec::new() },
        }
    }

    fn open(&mut self, id: &ModuleId<'_>) -> (PathBuf, Vec<u8>) {
        let key = (id.path.to_owned(), id.build_id.to_vec());
        if !self.modules.contains_key(&key) {
            self.modules.insert(key.clone(), Module::open(id, &self.options, self.fetch.as_deref_mut()));
        }
        key
    }
}

impl Module {
    fn open(id: &ModuleId<'_>, options: &Options, fetch: Option<&mut (dyn Fetch + 'static)>) -> Module {
        let mut located = Located::find(id, options, fetch);
        let mut notes = std::mem::take(&mut located.notes);
        let images = located.images();
        let with_debug = located.debug.as_ref().filter(|image| options.level == Level::Full && image.has_debug_info());
        let with_symbols =
            images.iter().find(|image| image.symbol_tables.iter().any(|table| !table.entries.is_empty()));
        let seen = match (with_debug, with_symbols) {
            (Some(image), _) => Seen::Debug(image.path.clone()),
            (None, Some(image)) => Seen::Symbols(image.path.clone()),
            (None, None) => Seen::Nothing,
        };
        if !images.is_empty() && with_debug.is_none() {
            if with_symbols.is_none() {
                notes.push(Note::NoSymbols { path: id.path.to_owned() });
            } else if options.level == Level::Full {
                notes.push(Note::NoDebugInfo { path: id.path.to_owned() });
            }
        }
        let status = ModuleStatus { seen, notes };
        Module { located, symbols: None, debug: None, known: HashMap::new(), status }
    }

    /// Names `wanted`, which is sorted. What is certain goes to `known`; what was named in
    /// haste is returned.
    fn name_all(
        &mut self,
        wanted: &[u64],
        options: &Options,
        interner: &Interner,
        progress: &mut dyn FnMut(usize, usize),
        deadline: Option<Instant>,
    ) -> HashMap<u64, Resolved> {
        let mut hasty = HashMap::new();
        if wanted.is_empty() {
            return hasty;
        }
        let images = self.located.images();
        let symbols = self.symbols.get_or_insert_with(|| SymbolTable::read(&images));
        let mut frames: Vec<Option<Vec<Frame>>> = vec![None; wanted.len()];
        let mut late = 0;
        if options.level == Level::Full {
            let status = &mut self.status;
            status.notes.retain(|note| !matches!(note, Note::OutOfTime { .. }));
            let opened = self.debug.take().unwrap_or_else(|| open_debug(&self.located, status, deadline));
            if matches!(opened, Opened::Late)
                && let Some(image) = &self.located.debug
            {
                late = wanted.len();
                status.notes.push(Note::OutOfTime { path: image.path.clone(), addresses: late });
            }
            if let Opened::Ready(debug) = &opened {
                let batch = Batch {
                    debug,
                    symbols,
                    interner,
                    source_lines: options.source_lines,
                    threads: threads(options),
                    deadline,
                };
                let outcome = batch.resolve(wanted, progress);
                frames = outcome.frames;
                late = outcome.late;
                for note in outcome.notes {
                    if !status.notes.contains(&note) {
                        status.notes.push(note);
                    }
                }
            }
            // What was late may be in time the next time.
            self.debug = Some(opened).filter(|opened| !matches!(opened, Opened::Late));
        }
        for (address, found) in wanted.iter().zip(frames) {
            let is_late = found.is_none() && late > 0;
            let found = found.or_else(|| Some(vec![symbol_frame(symbols, interner, *address)?]));
            let resolved = Resolved { frames: Arc::from(found.unwrap_or_default()), hasty: is_late };
            let place = if is_late { &mut hasty } else { &mut self.known };
            place.insert(*address, resolved);
        }
        progress(wanted.len(), wanted.len());
        hasty
    }
}

fn open_debug(located: &Located, status: &mut ModuleStatus, deadline: Option<Instant>) -> Opened {
    let Some(image) = located.debug.as_ref().filter(|image| image.has_debug_info()) else { return Opened::Unusable };
    let (opened, notes) = DebugInfo::open(image, located.shared.as_ref(), deadline);
    if !matches!(opened, Opened::Late) {
        status.notes.extend(notes);
    }
    opened
}

fn symbol_frame(symbols: &SymbolTable, interner: &Interner, address: u64) -> Option<Frame> {
    let found = symbols.find(address)?;
    let name = interner.name(found.name);
    Some(Frame {
        function: Some(name.shown),
        raw_name: Some(name.raw),
        offset: Some(address - found.start),
        ..Frame::default()
    })
}

fn threads(options: &Options) -> usize {
    options.threads.map_or_else(
        || std::thread::available_parallelism().map_or(1, NonZeroUsize::get).min(THREADS_MAX),
        NonZeroUsize::get,
    )
}

/// `path` below `root`, even if it is absolute, and without ways out of it.
pub(crate) fn under(root: Option<&Path>, path: &Path) -> PathBuf {
    let Some(root) = root else { return path.to_owned() };
    let mut inside = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => inside.push(name),
            Component::ParentDir => {
                inside.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::CurDir => {}
        }
    }
    root.join(inside)
}
