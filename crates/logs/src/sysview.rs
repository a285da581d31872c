//! ESP-IDF's heap tracing to a host: streams of SystemView, of one core each or of both in one.

use std::collections::HashMap;
use std::io::{self, BufRead};

use crate::counted;
use crate::log::{LogKind, LogLedger};
use crate::made::MadeLedgers;

mod books;
mod host_json;
mod host_report;
mod line;
mod runs;
mod stream;

pub use host_report::{HostForm, HostNames};
pub use line::SysLine;

use books::{Happened, HeapEvent, SysBooks, SysNames};
use runs::HappenedRuns;
use stream::{Broken, NoEvent, SysEvent, SysStream, heading, numbers_of};

/// What the module calls itself whose events are those of the heap.
const HEAP_MODULE: &str = "Heap Tracing";
/// Most tasks, and most interrupts, that have names.
const NAMES_MAX: usize = 10_000;
/// Times of a ledger have so many bits.
const TIME_BITS: u32 = 43;

/// Whether a file begins as such a stream: with heading lines, or with the bytes that streams synchronize by.
pub(crate) fn is_stream(begin: &[u8]) -> bool {
    const SYNC: [u8; 10] = [0; 10];
    begin.starts_with(b";") && begin.windows(SYNC.len()).any(|part| part == SYNC)
        || begin.starts_with(&SYNC)
            && begin.get(SYNC.len()..).is_some_and(|rest| rest.starts_with(&[24]) || rest.starts_with(&[10]))
}

/// Streams that are being read, one after another.
#[derive(Default)]
pub(crate) struct SysTrace {
    events: HappenedRuns,
    names: SysNames,
    stacks: Vec<Vec<u64>>,
    stack_of: HashMap<Vec<u64>, u32>,
    streams: u8,
    heap_events: u64,
    /// Events of any kind, and messages among them.
    all_events: u64,
    messages: u64,
    lost: u64,
    broken: Vec<String>,
    has_module: bool,
    seen_module: bool,
    /// Whether all events are kept, and not those of heaps only.
    all: bool,
}

/// An event as the stream has it: its number, its figures, and a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct KeptEvent {
    id: u32,
    numbers: Vec<u32>,
    text: String,
}

/// What is known while a stream is read.
#[derive(Clone, Copy, Debug, Default)]
struct StreamState {
    clock: SysClock,
    /// The number of the first event of the heap.
    heap_events: Option<u32>,
}

/// Time on one core.
#[derive(Clone, Copy, Debug, Default)]
struct SysClock {
    hertz: Option<u32>,
    ticks: u64,
}

impl SysClock {
    fn ns(&self) -> u64 {
        let hertz = u128::from(self.hertz.unwrap_or(1).max(1));
        u64::try_from(u128::from(self.ticks) * 1_000_000_000 / hertz).unwrap_or(u64::MAX)
    }
}

impl SysTrace {
    /// Reads a file, of one core or of several.
    ///
    /// # Errors
    /// Those of the input.
    pub(crate) fn file(&mut self, mut input: impl BufRead) -> io::Result<()> {
        let heading = heading(&mut input)?;
        let first = self.streams;
        let mut at_byte = 0;
        for core in 0..heading.offsets.len().clamp(1, 8) as u8 {
            let mut stream = SysStream::new(input, &heading, core, at_byte);
            self.stream(&mut stream, first)?;
            stream.pass_over_rest()?;
            (input, at_byte) = stream.into_rest();
        }
        Ok(())
    }

    fn stream<R: BufRead>(&mut self, stream: &mut SysStream<R>, first: u8) -> io::Result<()> {
        self.streams = self.streams.saturating_add(1);
        let mut state = StreamState::default();
        stream.all_figures(self.all);
        stream.pass_over_zeros()?;
        loop {
            match stream.next_event() {
                Ok((core, event, ticks)) => self.next(core.saturating_add(first), event, ticks, &mut state)?,
                Err(NoEvent::Failed(error)) => return Err(error),
                Err(NoEvent::End { cut }) => {
                    if cut {
                        self.cut();
                    }
                    return Ok(());
                }
                Err(NoEvent::Broken(broken)) => {
                    self.broken(broken);
                    return Ok(());
                }
            }
        }
    }

    /// The last stream has ended within an event.
    fn cut(&mut self) {
        self.broken.push(format!("The stream of core {} ends within an event.", self.streams.saturating_sub(1)));
    }

    /// The last stream cannot be read any further.
    fn broken(&mut self, Broken { at_byte, what }: Broken) {
        self.broken.push(format!(
            "The stream of core {} is damaged at byte {at_byte}: {what}. What follows was not read.",
            self.streams.saturating_sub(1)
        ));
    }

    fn next(&mut self, core: u8, event: SysEvent, ticks: u32, state: &mut StreamState) -> io::Result<()> {
        if event == SysEvent::TraceStart {
            state.clock.ticks = 0;
        } else {
            if let SysEvent::Init(hertz) = event {
                state.clock.hertz = Some(hertz);
            }
            // Before the clock is known, ticks are those of another one.
            if state.clock.hertz.is_some() {
                state.clock.ticks = state.clock.ticks.saturating_add(u64::from(ticks));
            }
        }
        self.all_events += 1;
        let kept = self.all.then(|| kept(&event));
        let event = self.event(event, &mut state.heap_events);
        self.heap_events += u64::from(matches!(event, Some(HeapEvent::Alloc { .. } | HeapEvent::Free { .. })));
        match event.or(self.all.then_some(HeapEvent::Other)) {
            Some(event) => self.events.push(Happened { ns: state.clock.ns(), core, event }, kept),
            None => Ok(()),
        }
    }

    /// Whether the events of a heap are in it.
    pub(crate) fn is_any(&self) -> bool {
        self.heap_events != 0
    }

    /// All stacks, in the order of their numbers.
    pub(crate) fn stacks(&self) -> &[Vec<u64>] {
        &self.stacks
    }

    /// What an event means for heaps, if it means anything.
    fn event(&mut self, event: SysEvent, heap_events: &mut Option<u32>) -> Option<HeapEvent> {
        match event {
            SysEvent::Overflow(events) => self.lost = self.lost.saturating_add(u64::from(events)),
            SysEvent::TaskInfo(task, _, name) => {
                if self.names.tasks.len() < NAMES_MAX {
                    self.names.tasks.insert(task, name);
                }
            }
            SysEvent::Description(text) => self.description(&text),
            SysEvent::Module(_, offset, name) => {
                self.seen_module = true;
                if name.contains(HEAP_MODULE) {
                    self.has_module = true;
                    *heap_events = Some(offset);
                }
            }
            SysEvent::TaskStart(task) => return Some(HeapEvent::Task(task)),
            SysEvent::TaskStop | SysEvent::Idle => return Some(HeapEvent::Idle),
            SysEvent::IsrEnter(number) => return Some(HeapEvent::IsrEnter(number)),
            SysEvent::IsrExit { .. } => return Some(HeapEvent::IsrExit),
            SysEvent::OfModule(id, payload) => {
                // A stream that was joined late does not say whose events these are: those of the first module.
                let offset = heap_events.unwrap_or(stream::FIRST_OF_MODULES);
                if heap_events.is_none() && self.seen_module {
                    return None;
                }
                return match (id.checked_sub(offset), numbers_of(&payload).as_slice()) {
                    (Some(0), [address, size, frames @ ..]) => {
                        Some(HeapEvent::Alloc { address: *address, size: *size, stack: self.stack(frames) })
                    }
                    (Some(1), [address, frames @ ..]) => {
                        Some(HeapEvent::Free { address: *address, stack: self.stack(frames) })
                    }
                    _ => None,
                };
            }
            SysEvent::Message(..) => self.messages += 1,
            SysEvent::TraceStart | SysEvent::Init(_) | SysEvent::Other(..) => {}
        }
        None
    }

    /// `I#5=SysTick` names an interrupt; several may stand in one text.
    fn description(&mut self, text: &str) {
        for part in text.split(',') {
            let interrupt = part.trim().strip_prefix("I#").and_then(|rest| rest.split_once('='));
            if let Some((number, name)) = interrupt
                && let Ok(number) = number.parse()
                && self.names.interrupts.len() < NAMES_MAX
            {
                self.names.interrupts.insert(number, name.to_owned());
            }
        }
    }

    fn stack(&mut self, frames: &[u32]) -> u32 {
        let frames: Vec<u64> = frames.iter().take_while(|frame| **frame != 0).map(|frame| u64::from(*frame)).collect();
        if let Some(stack) = self.stack_of.get(&frames) {
            return *stack;
        }
        let stack = self.stacks.len() as u32;
        self.stacks.push(frames.clone());
        self.stack_of.insert(frames, stack);
        stack
    }

    /// What is missing, in sentences.
    fn missing(&self) -> Vec<String> {
        let mut missing = self.broken.clone();
        if self.lost != 0 {
            missing.push(format!("The device dropped {} for want of room.", counted(self.lost, "event", "events")));
        }
        missing
    }

    /// The ledger of all that was read so far; `None` if no event was one of a heap.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn ledger(&self) -> io::Result<Option<LogLedger>> {
        if self.heap_events == 0 {
            return Ok(None);
        }
        let tick_ns = if self.events.last >> TIME_BITS == 0 { 1 } else { 1000 };
        let mut books = SysBooks::new(tick_ns, self.names.clone(), &self.stacks);
        self.events.each(&mut |happened, _| books.take(happened))?;
        let mut draft = books.finish()?;
        draft.process(heapledger_format::session::process::LOG, "systemview");
        for sentence in self.missing() {
            draft.missing(&sentence);
        }
        if !self.has_module {
            draft.remark(
                "The stream does not say which events are those of the heap: those of the first module were taken.",
            );
        }
        let name = format!("{} of SystemView", counted(self.heap_events, "heap event", "heap events"));
        let mut made = MadeLedgers::default();
        made.add(0, draft, LogKind::SystemView, name)?;
        Ok(made.end().pop())
    }
}

/// An event as it is kept where all of them are.
fn kept(event: &SysEvent) -> KeptEvent {
    let with = |id, numbers: &[u32], text: &str| KeptEvent { id, numbers: numbers.to_vec(), text: text.to_owned() };
    match event {
        SysEvent::Overflow(events) => with(1, &[*events], ""),
        SysEvent::IsrEnter(number) => with(2, &[*number], ""),
        SysEvent::IsrExit { to_scheduler } => with(if *to_scheduler { 18 } else { 3 }, &[], ""),
        SysEvent::TaskStart(task) => with(4, &[*task], ""),
        SysEvent::TaskStop => with(5, &[], ""),
        SysEvent::TaskInfo(task, priority, name) => with(9, &[*task, *priority], name),
        SysEvent::TraceStart => with(10, &[], ""),
        SysEvent::Description(text) => with(14, &[], text),
        SysEvent::Idle => with(17, &[], ""),
        SysEvent::Module(module, offset, text) => with(22, &[*module, *offset], text),
        SysEvent::Init(hertz) => with(24, &[*hertz], ""),
        SysEvent::Message(text, level) => with(26, &[*level], text),
        SysEvent::OfModule(id, payload) => with(*id, &numbers_of(payload), ""),
        SysEvent::Other(id, numbers) => with(*id, numbers, ""),
    }
}

/// Streams that were read for what ESP-IDF's own script prints of them.
pub struct HostTrace(SysTrace);

impl HostTrace {
    /// Reads streams, one of each core or all in one, for a report in that form.
    ///
    /// # Errors
    /// Those of the inputs.
    pub fn read<R: BufRead>(inputs: impl IntoIterator<Item = R>, form: HostForm) -> io::Result<HostTrace> {
        let mut trace = SysTrace { all: form == HostForm::Json, ..SysTrace::default() };
        for input in inputs {
            trace.file(input)?;
        }
        Ok(HostTrace(trace))
    }

    /// Whether there are heap events.
    pub fn is_any(&self) -> bool {
        self.0.is_any()
    }

    /// Every stack in it, innermost frame first.
    pub fn stacks(&self) -> &[Vec<u64>] {
        self.0.stacks()
    }

    /// Writes the report in words; what is missing in it, in sentences. `names` gives a line for each frame of a stack, or none where
    /// they are to stay addresses.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn report(self, names: &mut HostNames<'_>, out: &mut dyn io::Write) -> io::Result<Vec<String>> {
        self.0.report(names, out)
    }

    /// Writes all events as JSON; what is missing, in sentences.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn json(self, out: &mut dyn io::Write) -> io::Result<Vec<String>> {
        self.0.json(out)
    }
}
