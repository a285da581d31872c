//! Many addresses at once, unit by unit, on several threads.
//!
//! A unit is parsed, asked for all addresses in it, and dropped: memory stays that of a
//! few units, however large the file and the batch are.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use super::functions::{Found, Functions, Inlined};
use super::lines::{Line, Lines};
use super::meter::{Meter, Trouble};
use super::names::{Named, Names};
use super::sections::Sections;
use super::units::{Language, Tables};
use super::{DebugInfo, Dwarf, Unit};
use crate::frame::Frame;
use crate::intern::{Interner, Name};
use crate::status::Note;
use crate::symtab::SymbolTable;

/// Units tried for one address, if several claim it.
const CLAIMS_MAX: usize = 4;
/// Steps allowed for each address, besides those for the size of the file: the functions
/// around an address may have to be walked again for it.
const STEPS_PER_ADDRESS: u64 = 1024;
/// Units that a thread should have to be worth its start.
const UNITS_PER_THREAD: usize = 4;

/// A question about many addresses of one module.
pub(crate) struct Batch<'b> {
    pub(crate) debug: &'b DebugInfo,
    pub(crate) symbols: &'b SymbolTable,
    pub(crate) interner: &'b Interner,
    pub(crate) source_lines: bool,
    pub(crate) threads: usize,
    pub(crate) deadline: Option<Instant>,
}

/// The answers.
pub(crate) struct Outcome {
    /// For each address its frames, or `None` if debug information has none.
    pub(crate) frames: Vec<Option<Vec<Frame>>>,
    /// How many addresses were not looked up because the deadline passed.
    pub(crate) late: usize,
    pub(crate) notes: Vec<Note>,
}

/// The addresses of one unit, by their place in the batch.
struct Task {
    unit: usize,
    places: Vec<usize>,
}

/// What the threads of a batch share.
#[derive(Default)]
struct Progress {
    next: AtomicUsize,
    done: AtomicUsize,
    late: AtomicUsize,
    damaged: AtomicUsize,
    too_much: AtomicUsize,
}

type Answers = Vec<(usize, Vec<Frame>)>;

impl Batch<'_> {
    /// Looks up `addresses`, which are sorted and all different.
    pub(crate) fn resolve(&self, addresses: &[u64], progress: &mut dyn FnMut(usize, usize)) -> Outcome {
        let mut frames: Vec<Option<Vec<Frame>>> = vec![None; addresses.len()];
        let size = self.debug.main.len() + self.debug.shared.as_ref().map_or(0, Sections::len);
        let steps = super::budget(size) + STEPS_PER_ADDRESS * addresses.len() as u64;
        let meter = Meter::new(self.deadline, steps);
        let dwarf = self.debug.main.dwarf(self.debug.shared.as_ref());
        let shared = Progress::default();
        // Nearly all is answered in the first round; the others ask the next unit that
        // claims an address, if the first one did not know it after all.
        for round in 0..CLAIMS_MAX {
            let tasks = self.tasks(addresses, &frames, round);
            if tasks.is_empty() {
                break;
            }
            shared.next.store(0, Ordering::Relaxed);
            for (place, found) in self.run(&dwarf, &meter, addresses, &tasks, &shared, progress) {
                frames[place] = Some(found);
            }
            if shared.late.load(Ordering::Relaxed) > 0 {
                break;
            }
        }
        let path = &self.debug.image.path;
        let late = shared.late.into_inner();
        let mut notes = Vec::new();
        let damaged = shared.damaged.into_inner();
        if damaged > 0 {
            notes.push(Note::Damaged { path: path.clone(), what: format!("{damaged} parts of units do not parse") });
        }
        if shared.too_much.into_inner() > 0 {
            notes.push(Note::Damaged { path: path.clone(), what: "it would take too much work to read".to_owned() });
        }
        if late > 0 {
            notes.push(Note::OutOfTime { path: path.clone(), addresses: late });
        }
        Outcome { frames, late, notes }
    }

    /// The open addresses by the unit that claims them, in the order of the file.
    fn tasks(&self, addresses: &[u64], frames: &[Option<Vec<Frame>>], round: usize) -> Vec<Task> {
        let mut tasks: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (place, address) in addresses.iter().enumerate() {
            if frames[place].is_none()
                && let Some(unit) = self.debug.index.around(*address).nth(round)
            {
                tasks.entry(unit).or_default().push(place);
            }
        }
        tasks.into_iter().map(|(unit, places)| Task { unit, places }).collect()
    }

    fn run(
        &self,
        dwarf: &Dwarf<'_>,
        meter: &Meter,
        addresses: &[u64],
        tasks: &[Task],
        shared: &Progress,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Answers {
        let helpers = (tasks.len() / UNITS_PER_THREAD).min(self.threads).saturating_sub(1);
        let gathered: Mutex<Answers> = Mutex::default();
        let gather = |answers: Answers| {
            gathered.lock().unwrap_or_else(std::sync::PoisonError::into_inner).extend(answers);
        };
        let total = addresses.len();
        std::thread::scope(|scope| {
            for _ in 0..helpers {
                // A thread that cannot be started is one helper fewer, no more.
                let work = || gather(self.work(dwarf, meter, addresses, tasks, shared, &mut |_| {}));
                let _ = std::thread::Builder::new().name("symbols".to_owned()).spawn_scoped(scope, work);
            }
            gather(self.work(dwarf, meter, addresses, tasks, shared, &mut |done| progress(done.min(total), total)));
        });
        gathered.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Takes tasks until there are none. The order in which threads take them does not
    /// show in the answers, as every answer carries its place.
    fn work(
        &self,
        dwarf: &Dwarf<'_>,
        meter: &Meter,
        addresses: &[u64],
        tasks: &[Task],
        shared: &Progress,
        progress: &mut dyn FnMut(usize),
    ) -> Answers {
        let mut answers = Vec::new();
        let mut names = Names::new(self.debug, dwarf, meter);
        let mut tables = Tables::default();
        while let Some(task) = tasks.get(shared.next.fetch_add(1, Ordering::Relaxed)) {
            let before = answers.len();
            let worker = Worker { batch: self, dwarf, meter, shared };
            let result = worker.unit(task, addresses, &mut names, &mut tables, &mut answers);
            match result {
                Ok(()) => {}
                Err(Trouble::Late) => {
                    let open = task.places.len() - (answers.len() - before);
                    shared.late.fetch_add(open, Ordering::Relaxed);
                }
                Err(Trouble::TooMuch) => {
                    shared.too_much.fetch_add(1, Ordering::Relaxed);
                }
                Err(Trouble::Damaged) => {
                    shared.damaged.fetch_add(1, Ordering::Relaxed);
                }
            }
            let done = shared.done.fetch_add(task.places.len(), Ordering::Relaxed) + task.places.len();
            progress(done);
        }
        answers
    }
}

struct Worker<'b, 'a> {
    batch: &'b Batch<'b>,
    dwarf: &'b Dwarf<'a>,
    meter: &'b Meter,
    shared: &'b Progress,
}

impl<'a> Worker<'_, 'a> {
    fn unit(
        &self,
        task: &Task,
        addresses: &[u64],
        names: &mut Names<'_, 'a>,
        tables: &mut Tables,
        answers: &mut Answers,
    ) -> Result<(), Trouble> {
        let Batch { debug, source_lines, .. } = *self.batch;
        self.meter.spend(1)?;
        let (unit, root) = debug.index.catalogue.unit(self.dwarf, task.unit, tables, self.meter)?;
        let unit = Rc::new(unit);
        let functions = Functions::read(self.dwarf, &unit, root.language, &debug.image, self.meter);
        let functions = self.tolerate(functions)?;
        if let Some(scopes) = functions.as_ref().and_then(|functions| functions.scopes.as_ref()) {
            names.keep_scopes(&unit, scopes);
        }
        let program = root.lines.filter(|_| source_lines);
        let mut lines = match program {
            Some(offset) => self.tolerate(Lines::read(self.dwarf, &unit, offset, &debug.image, self.meter))?,
            None => None,
        };
        // Addresses are sorted, so those of one function follow each other.
        let mut current: Option<(Found, Option<Inlined>)> = None;
        for place in &task.places {
            let address = addresses[*place];
            let function = functions.as_ref().and_then(|functions| functions.find(address));
            let line = lines.as_mut().and_then(|lines| lines.find(self.dwarf, &unit, self.batch.interner, address));
            let frames = match function {
                Some(found) => {
                    if current.as_ref().is_none_or(|(last, _)| last.entry != found.entry) {
                        let inlined = self.tolerate(Inlined::read(self.dwarf, &unit, found.entry, self.meter))?;
                        current = Some((found, inlined));
                    }
                    let inlined = current.as_ref().and_then(|(_, inlined)| inlined.as_ref());
                    self.frames(&unit, root.language, address, found, inlined, &mut lines, line, names)?
                }
                // A unit in assembly has lines, but its functions are only symbols.
                None => match line {
                    Some(line) => vec![self.outermost(&Named::default(), root.language, address, None, line, names)?],
                    None => continue,
                },
            };
            answers.push((*place, frames));
        }
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "they are the state of the loop it is called from")]
    fn frames(
        &self,
        unit: &Rc<Unit<'a>>,
        language: Language,
        address: u64,
        found: Found,
        inlined: Option<&Inlined>,
        lines: &mut Option<Lines<'a>>,
        line: Option<Line>,
        names: &mut Names<'_, 'a>,
    ) -> Result<Vec<Frame>, Trouble> {
        let interner = self.batch.interner;
        let mut frames = Vec::new();
        let mut line = line.unwrap_or_default();
        let calls = inlined.map(|inlined| inlined.around(address)).unwrap_or_default();
        for call in calls.iter().rev() {
            let named = names.find(unit, language, call.entry)?;
            let name = self.name(named.linkage, &named, names)?;
            frames.push(frame(name, line, true));
            // The next frame is where this one was called.
            line = match lines {
                Some(lines) => lines.line(self.dwarf, unit, interner, call.file, call.line, call.column),
                None => Line::default(),
            };
        }
        let named = names.find(unit, language, found.entry)?;
        frames.push(self.outermost(&named, language, address, Some(found.begin), line, names)?);
        Ok(frames)
    }

    /// The frame of the function itself. Without a linkage name, which compilers leave out
    /// for functions that no other file can see, the symbol table knows the full name.
    fn outermost(
        &self,
        named: &Named<'a>,
        language: Language,
        address: u64,
        begin: Option<u64>,
        line: Line,
        names: &mut Names<'_, 'a>,
    ) -> Result<Frame, Trouble> {
        let plain = named.plain.filter(|_| language == Language::C);
        let symbol = || {
            let found = self.batch.symbols.find(address)?;
            // A symbol that begins elsewhere is another function's.
            let fits = named.plain.is_none() || begin == Some(found.start);
            fits.then_some(found.name)
        };
        let bytes = named.linkage.or(plain).or_else(symbol);
        Ok(frame(self.name(bytes, named, names)?, line, false))
    }

    /// The function's name by what the linker calls it. Where it does not call it anything, or what cannot be read, by what
    /// debug information says.
    fn name(
        &self,
        linkage: Option<&[u8]>,
        named: &Named<'a>,
        names: &mut Names<'_, 'a>,
    ) -> Result<Option<Name>, Trouble> {
        let interner = self.batch.interner;
        let known = linkage.map(|linkage| interner.name(linkage));
        if known.as_ref().is_some_and(|name| !interner.is_unreadable(name)) {
            return Ok(known);
        }
        let qualified = names.qualified(named)?;
        Ok(match (known, qualified) {
            (Some(known), Some(qualified)) => Some(interner.readable(known, &qualified)),
            (None, Some(qualified)) => Some(interner.name(qualified.as_bytes())),
            (known, None) => known,
        })
    }

    /// Lets damage cost only the part that is damaged.
    fn tolerate<T>(&self, result: Result<T, Trouble>) -> Result<Option<T>, Trouble> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(Trouble::Damaged) => {
                self.shared.damaged.fetch_add(1, Ordering::Relaxed);
                Ok(None)
            }
            Err(trouble) => Err(trouble),
        }
    }
}

fn frame(name: Option<Name>, line: Line, inlined: bool) -> Frame {
    let (function, raw_name) = name.map(|name| (name.shown, name.raw)).unzip();
    Frame { function, raw_name, file: line.file, line: line.line, column: line.column, inlined, offset: None }
}
