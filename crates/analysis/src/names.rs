//! Names for the stacks that are shown, and only for those.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use heapledger_format::session::process as key;
use heapledger_format::{CodeId, Site};
use heapledger_source::{Code, Ledger, Module, QuickMap, SourceError};
use heapledger_symbols::{ModuleId, Resolved, SourceReader, Symbolizer};

use crate::ProgramFile;
use crate::passing::Passing;
use crate::program_files::ProgramFiles;

mod notes;
mod options;
mod remedies;
mod scripts;

pub use options::NamingOptions;

/// One line of a stack. An address has several when functions were inlined into each other there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedFrame {
    /// The return address in the program that ran, or where a signal interrupted it; `None` if the ledger does not say.
    pub address: Option<u64>,
    /// The module's path; `None` if the code belongs to no known module.
    pub module: Option<Arc<str>>,
    /// The module's build id, in hexadecimal digits; `None` if it has none. Two files of one path differ in it.
    pub build_id: Option<Arc<str>>,
    /// The address less the load bias: what tools that read the module's file want.
    pub offset: Option<u64>,
    /// The function.
    pub function: Option<Arc<str>>,
    /// The function's name as the linker knows it.
    pub raw_name: Option<Arc<str>>,
    /// How far behind the start of the symbol, where that is all that is known.
    pub symbol_offset: Option<u64>,
    /// The source file.
    pub file: Option<Arc<str>>,
    /// The line in it.
    pub line: Option<u32>,
    /// The text of that line.
    pub source: Option<Arc<str>>,
    /// Whether this function was inlined into the next one.
    pub inlined: bool,
    /// Whether the next one says more: see [`Passing`].
    pub passed_over: bool,
    /// Whether it was found along frame pointers, for want of unwind tables: it need not be right, and some may be missing.
    pub guessed: bool,
}

impl NamedFrame {
    /// Whether it is of a script that the program runs, and not of code of its own: as the ledger says.
    pub fn is_script(&self) -> bool {
        self.address.is_none() && self.module.is_none() && self.file.is_some()
    }
}

/// A stack, innermost frame first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedStack {
    /// The frames.
    pub frames: Vec<NamedFrame>,
    /// Whether the ledger's own data of it is damaged.
    pub damaged: bool,
}

/// Finds names in batches and remembers them.
#[derive(Debug)]
pub struct Names<'a> {
    ledger: &'a Ledger,
    symbolizer: Symbolizer,
    sources: SourceReader,
    modules: BTreeMap<u16, (Module, Arc<str>)>,
    /// In hexadecimal digits, of those that have one.
    build_ids: BTreeMap<u16, Arc<str>>,
    codes: QuickMap<CodeId, Option<Code>>,
    frames: QuickMap<Code, Resolved>,
    texts: HashMap<(Arc<str>, u32), Option<Arc<str>>>,
    asked: BTreeSet<u16>,
    damaged: u64,
    passing: Passing,
    stripped: Vec<String>,
    scripts: scripts::Scripts,
    /// Of a ledger without modules: the files whose code addresses it has.
    files: ProgramFiles,
}

/// The frame between a signal handler and what it interrupted. No call returns there, so what stands before it is no
/// function of its own.
const SIGNAL_FRAME: &str = "<signal handler called>";

/// What the program was started as, where its file is called otherwise: through a link, say.
#[derive(Clone, Debug)]
pub(crate) struct Started {
    /// The path of its module, as it is shown.
    pub(crate) module: Arc<str>,
    /// The path of its file.
    pub(crate) file: String,
    /// The first word of its command line.
    pub(crate) name: String,
}

impl<'a> Names<'a> {
    /// Names for stacks of `ledger`.
    ///
    /// # Errors
    /// If the ledger can no longer be read.
    pub fn new(ledger: &'a Ledger, symbolizer: Symbolizer, sources: SourceReader) -> Result<Names<'a>, SourceError> {
        let modules = with_paths(ledger, &symbolizer)?;
        let hex = |id: &[u8]| id.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let known = modules.iter().filter(|(_, (module, _))| !module.build_id.is_empty());
        let build_ids = known.map(|(row, (module, _))| (*row, Arc::from(hex(&module.build_id)))).collect();
        Ok(Names {
            build_ids,
            ledger,
            symbolizer,
            sources,
            modules,
            codes: QuickMap::default(),
            frames: QuickMap::default(),
            stripped: Vec::new(),
            texts: HashMap::new(),
            asked: BTreeSet::new(),
            damaged: 0,
            passing: Passing::default(),
            files: ProgramFiles::default(),
            scripts: scripts::Scripts::default(),
        })
    }

    /// What has found the names: it knows the modules that it has opened, for the next ledger.
    pub fn into_symbolizer(self) -> Symbolizer {
        self.symbolizer
    }

    /// All code addresses of the ledger, which has no modules, are those of this file; of several files (a program and what a chip
    /// has in its ROM) those of the first that knows them.
    pub fn of_file(&mut self, file: ProgramFile) {
        self.files.add(file, self.ledger.process().text(key::BUILD_ID));
    }

    /// Paths of source files are shown without the first of these that they begin with.
    pub fn strip(&mut self, prefixes: Vec<String>) {
        self.stripped = prefixes;
    }

    /// A path of a source file as it is shown.
    fn shown(&self, file: &Arc<str>) -> Arc<str> {
        let rest = self.stripped.iter().find_map(|prefix| file.strip_prefix(prefix.as_str()));
        let rest = rest.map(|rest| rest.trim_start_matches('/')).filter(|rest| !rest.is_empty());
        rest.map_or_else(|| Arc::clone(file), Arc::from)
    }

    /// Which files are looked through: those of headers, unless asked otherwise.
    pub fn pass_over(&mut self, passing: Passing) {
        self.passing = passing;
    }

    /// Looks up all frames of all these `sites`, module by module. Call it once with all that will be shown:
    /// debug information is gone through once a call.
    ///
    /// # Errors
    /// If the ledger can no longer be read.
    pub fn resolve(
        &mut self,
        sites: impl IntoIterator<Item = Site>,
        options: NamingOptions,
        progress: &mut dyn FnMut(f32),
    ) -> Result<(), SourceError> {
        // Many blocks have one site: these are to take no memory each.
        let distinct: HashSet<Site> = sites.into_iter().filter(|site| *site != Site::NONE).collect();
        let sites = BTreeSet::from_iter(distinct);
        let mut ids = BTreeSet::new();
        for site in sites {
            let stack = self.ledger.stack(site)?;
            self.damaged += u64::from(stack.damaged);
            ids.extend(stack.codes);
        }
        self.resolve_codes(ids, options, progress)
    }

    /// The same for code addresses by their numbers.
    ///
    /// # Errors
    /// As there.
    pub fn resolve_codes(
        &mut self,
        ids: impl IntoIterator<Item = CodeId>,
        options: NamingOptions,
        progress: &mut dyn FnMut(f32),
    ) -> Result<(), SourceError> {
        let mut wanted: BTreeMap<u16, BTreeSet<u64>> = BTreeMap::new();
        let mut generated: BTreeSet<u64> = BTreeSet::new();
        let ids: BTreeSet<CodeId> = ids.into_iter().collect();
        let known: u64 = ids.len() as u64;
        let mut shown = BTreeSet::new();
        for id in ids {
            let code = self.code(id)?;
            shown.extend(code);
            if code.is_none() && options.source_text {
                self.read_script_text(id)?;
            }
            let Some(code) = code.filter(|code| self.frames.get(code).is_none_or(|resolved| resolved.hasty)) else {
                continue;
            };
            match code.module {
                Some(module) => wanted.entry(module).or_default().insert(code.offset),
                None => generated.insert(code.offset),
            };
        }
        // As below, return addresses less one. What has no name may get one later, if the program runs.
        let generated: Vec<u64> = generated.into_iter().collect();
        let addresses: Vec<u64> = generated.iter().map(|address| address.saturating_sub(1)).collect();
        if self.files.is_empty() {
            let named = self.symbolizer.resolve_generated(&addresses);
            for (offset, resolved) in generated.into_iter().zip(named).filter(|(_, named)| !named.frames.is_empty()) {
                self.frames.insert(Code { module: None, offset }, resolved);
            }
        } else {
            let ours = &mut self.frames;
            let mut found = |code, resolved| drop(ours.insert(code, resolved));
            self.files.resolve(&mut self.symbolizer, addresses, options, &mut found);
        }
        // A module may have come since the table was read: the program may be running.
        if wanted.keys().any(|row| !self.modules.contains_key(row)) {
            self.modules = with_paths(self.ledger, &self.symbolizer)?;
        }
        let mut done = 0;
        for (row, offsets) in wanted {
            let Some((module, _)) = self.modules.get(&row) else { continue };
            self.asked.insert(row);
            let offsets: Vec<u64> = offsets.into_iter().collect();
            // A return address may already belong to the next line or function.
            let addresses: Vec<u64> = offsets.iter().map(|offset| offset.saturating_sub(1)).collect();
            let id = ModuleId { path: &module.path, build_id: &module.build_id };
            let mut hear = |part: usize, of: usize| {
                let part = part as f32 / of.max(1) as f32 * offsets.len() as f32;
                progress((done as f32 + part) / known.max(1) as f32);
            };
            let resolved = options.ask(&mut self.symbolizer, &id, &addresses, &mut hear);
            done += offsets.len();
            for (offset, resolved) in offsets.into_iter().zip(resolved) {
                self.frames.insert(Code { module: Some(row), offset }, resolved);
            }
        }
        if options.source_text {
            // Not only for those that are new: they may have been named before without their text.
            for frame in
                shown.iter().filter_map(|code| self.frames.get(code)).flat_map(|resolved| resolved.frames.iter())
            {
                if let (Some(file), Some(line)) = (&frame.file, frame.line) {
                    let sources = &mut self.sources;
                    let text = || sources.line(file.as_ref(), line).map(Arc::from);
                    self.texts.entry((Arc::clone(file), line)).or_insert_with(text);
                }
            }
        }
        Ok(())
    }

    /// The stack of `site`, with the names found so far.
    ///
    /// # Errors
    /// If the ledger can no longer be read.
    pub fn stack(&mut self, site: Site) -> Result<NamedStack, SourceError> {
        let stack = self.ledger.stack(site)?;
        Ok(NamedStack { damaged: stack.damaged, ..self.stack_of(&stack.codes)? })
    }

    /// The frames of code addresses that follow each other in a stack, from its innermost on, with the names found so far.
    ///
    /// # Errors
    /// If the ledger can no longer be read.
    pub fn stack_of(&mut self, codes: &[CodeId]) -> Result<NamedStack, SourceError> {
        let mut named = NamedStack::default();
        let (mut guessed, mut interrupted) = (false, false);
        for id in codes.iter().copied() {
            let before = named.frames.len();
            self.add_frames(id, &mut named.frames)?;
            let own = named.frames.get_mut(before..).unwrap_or_default();
            for frame in own.iter_mut().filter(|frame| !frame.is_script()) {
                frame.guessed = guessed;
                if interrupted {
                    // It is no return address, so there it was, not one before.
                    frame.address = frame.address.map(|address| address.wrapping_sub(1));
                    frame.offset = frame.offset.map(|offset| offset.wrapping_sub(1));
                }
            }
            if self.script_line(id)?.is_some() {
                continue;
            }
            let marks = self.ledger.code_marks(id)?;
            guessed |= marks.guesses_caller;
            interrupted = marks.is_signal_frame;
        }
        Ok(named)
    }

    /// Whether a frame of `site` was found along frame pointers.
    ///
    /// # Errors
    /// If the ledger can no longer be read.
    pub fn is_guessed(&self, site: Site) -> Result<bool, SourceError> {
        let codes = self.ledger.stack(site)?.codes;
        let callees = codes.len().saturating_sub(1);
        for id in codes.into_iter().take(callees) {
            if self.ledger.code_marks(id)?.guesses_caller {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a code address has a name that debug information may better.
    ///
    /// # Errors
    /// If the ledger can no longer be read.
    pub fn is_hasty(&mut self, id: CodeId) -> Result<bool, SourceError> {
        Ok(self.code(id)?.and_then(|code| self.frames.get(&code)).is_some_and(|resolved| resolved.hasty))
    }

    /// Whether it is code of no module: what an engine has made, or a line of a script.
    ///
    /// # Errors
    /// If the ledger can no longer be read.
    pub fn is_of_no_module(&mut self, id: CodeId) -> Result<bool, SourceError> {
        Ok(self.code(id)?.is_none_or(|code| code.module.is_none()))
    }

    /// The ids of the code addresses of `site`, innermost first.
    ///
    /// # Errors
    /// If the ledger can no longer be read.
    pub fn codes(&self, site: Site) -> Result<Vec<CodeId>, SourceError> {
        Ok(self.ledger.stack(site)?.codes)
    }

    /// The frames of one code address, innermost first, with the names found so far.
    ///
    /// # Errors
    /// If the ledger can no longer be read.
    pub fn frames(&mut self, id: CodeId) -> Result<Vec<NamedFrame>, SourceError> {
        let mut frames = Vec::new();
        self.add_frames(id, &mut frames)?;
        Ok(frames)
    }

    fn add_frames(&mut self, id: CodeId, to: &mut Vec<NamedFrame>) -> Result<(), SourceError> {
        let Some(code) = self.code(id)? else {
            let frame = self.script_frame(id)?;
            to.push(frame);
            return Ok(());
        };
        let before = to.len();
        let module = code.module.and_then(|row| self.modules.get(&row));
        let bias = module.map_or(0, |(module, _)| module.bias);
        let everything = self.files.shown(code);
        let plain = NamedFrame {
            address: Some(code.offset.wrapping_add(bias)).filter(|_| code.module.is_none() || module.is_some()),
            offset: code.module.map(|_| code.offset).or(everything.as_ref().map(|_| code.offset)),
            module: module.map(|(_, path)| Arc::clone(path)).or(everything),
            build_id: code.module.and_then(|row| self.build_ids.get(&row)).map(Arc::clone),
            ..NamedFrame::default()
        };
        let found = self.frames.get(&code).map(|resolved| &resolved.frames).filter(|frames| !frames.is_empty());
        match found {
            _ if self.ledger.code_marks(id)?.is_signal_frame => {
                to.push(NamedFrame { function: Some(Arc::from(SIGNAL_FRAME)), ..plain });
            }
            None => to.push(plain),
            Some(frames) => to.extend(frames.iter().map(|frame| {
                let place = frame.file.clone().zip(frame.line);
                NamedFrame {
                    function: frame.function.clone(),
                    raw_name: frame.raw_name.clone(),
                    symbol_offset: frame.offset,
                    file: frame.file.as_ref().map(|file| self.shown(file)),
                    line: frame.line,
                    source: place.and_then(|place| self.texts.get(&place).cloned().flatten()),
                    inlined: frame.inlined,
                    ..plain.clone()
                }
            })),
        }
        self.passing.apply(to.get_mut(before..).unwrap_or_default());
        Ok(())
    }

    /// The function that the call of this frame is of, where it is one of another module: by the code of the call.
    pub fn called(&mut self, frame: &NamedFrame) -> Option<Arc<str>> {
        let (offset, shown) = (frame.offset?, frame.module.as_ref()?);
        let bias = frame.address?.wrapping_sub(offset);
        let is_its = |module: &Module, path: &Arc<str>| path == shown && module.bias == bias;
        let (module, _) = self.modules.values().find(|(module, path)| is_its(module, path))?;
        self.symbolizer.called(&ModuleId { path: &module.path, build_id: &module.build_id }, offset)
    }

    /// The paths of all modules.
    pub(crate) fn module_paths(&self) -> Vec<Arc<str>> {
        self.modules.values().map(|(_, path)| Arc::clone(path)).collect()
    }

    /// What the program was started as; `None` if the ledger does not say which module it is.
    pub(crate) fn started(&self) -> Option<Started> {
        let process = self.ledger.process();
        let (exe, name) = (process.text(key::EXE)?, process.args().into_iter().next()?);
        let (_, path) = self.modules.values().find(|(module, _)| module.path.to_string_lossy() == *exe)?;
        Some(Started { module: Arc::clone(path), file: exe, name })
    }

    /// The modules that were asked for: path and build id.
    pub fn asked(&self) -> impl Iterator<Item = (&std::path::Path, &[u8])> {
        let asked = self.modules.values().filter(|(module, _)| self.asked.contains(&module.row));
        asked.map(|(module, _)| (&*module.path, &*module.build_id))
    }

    fn code(&mut self, id: CodeId) -> Result<Option<Code>, SourceError> {
        if let Some(code) = self.codes.get(&id) {
            return Ok(*code);
        }
        let code = self.ledger.code(id)?;
        self.codes.insert(id, code);
        Ok(code)
    }
}

/// By their rows, with the paths that are shown.
fn with_paths(ledger: &Ledger, symbolizer: &Symbolizer) -> Result<BTreeMap<u16, (Module, Arc<str>)>, SourceError> {
    let (program, link) = (ledger.process().exe(), started_link(ledger, symbolizer));
    let shown = |module: &Module| match (module.path.to_string_lossy(), &link) {
        (path, _) if path.is_empty() => Arc::from("[code without a file]"),
        (_, Some(link)) if Some(&module.path) == program.as_ref() => Arc::from(link.to_string_lossy()),
        (path, _) => Arc::from(path),
    };
    Ok(ledger.modules()?.into_iter().map(|module| (module.row, (module.clone(), shown(&module)))).collect())
}

/// The link by which the program was started, if its file is called otherwise: several programs may be links to one file,
/// and who started `redis-server` does not know it as `redis-check-rdb`.
fn started_link(ledger: &Ledger, symbolizer: &Symbolizer) -> Option<PathBuf> {
    let process = ledger.process();
    let (file, typed) = (process.exe()?, PathBuf::from(process.args().into_iter().next()?));
    let name = typed.file_name().filter(|name| Some(*name) != file.file_name())?.to_owned();
    let from_there = PathBuf::from(process.text(key::CWD)?).join(&typed);
    let typed_path = typed.components().nth(1).is_some() || typed.is_absolute();
    // Found by PATH, it mostly lies beside its file.
    let link = if typed_path { from_there } else { file.with_file_name(name) };
    symbolizer.leads_to(&link, &file).then_some(link)
}
