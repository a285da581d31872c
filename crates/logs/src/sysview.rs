//! ESP-IDF's heap tracing to a host: streams of SystemView, of one core each or of both in one.

use std::collections::HashMap;
use std::io::{self, BufRead};

use crate::log::{LogKind, LogLedger};
use crate::made::MadeLedgers;

mod books;
mod host_report;
mod stream;

pub use host_report::HostNames;

use books::{Happened, HeapEvent, SysBooks, SysNames};
use stream::{Broken, NoEvent, SysEvent, SysStream, heading, numbers_of};

/// What the module calls itself whose events are those of the heap.
const HEAP_MODULE: &str = "Heap Tracing";
/// Most events that are kept until all streams are read.
const EVENTS_MAX: usize = 64 << 20;
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
    events: Vec<Happened>,
    names: SysNames,
    stacks: Vec<Vec<u64>>,
    stack_of: HashMap<Vec<u64>, u32>,
    streams: u8,
    heap_events: u64,
    /// Events of any kind, and messages among them.
    all_events: u64,
    messages: u64,
    lost: u64,
    dropped: u64,
    broken: Vec<String>,
    has_module: bool,
    seen_module: bool,
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
        let mut clock = SysClock::default();
        let mut heap_events = None;
        stream.pass_over_zeros()?;
        loop {
            let (core, event, ticks) = match stream.next_event() {
                Ok(next) => next,
                Err(NoEvent::Failed(error)) => return Err(error),
                Err(NoEvent::End { cut }) => {
                    if cut {
                        self.broken.push(format!("The stream of core {} ends within an event.", self.streams - 1));
                    }
                    return Ok(());
                }
                Err(NoEvent::Broken(Broken { at_byte, what })) => {
                    self.broken.push(format!(
                        "The stream of core {} is damaged at byte {at_byte}: {what}. What follows was not read.",
                        self.streams - 1
                    ));
                    return Ok(());
                }
            };
            if event == SysEvent::TraceStart {
                clock.ticks = 0;
            } else {
                if let SysEvent::Init(hertz) = event {
                    clock.hertz = Some(hertz);
                }
                // Before the clock is known, ticks are those of another one.
                if clock.hertz.is_some() {
                    clock.ticks = clock.ticks.saturating_add(u64::from(ticks));
                }
            }
            self.all_events += 1;
            self.messages += u64::from(event == SysEvent::Message);
            self.event(core.saturating_add(first), event, clock, &mut heap_events);
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

    fn event(&mut self, core: u8, event: SysEvent, clock: SysClock, heap_events: &mut Option<u32>) {
        let event = match event {
            SysEvent::Overflow(events) => return self.lost = self.lost.saturating_add(u64::from(events)),
            SysEvent::TaskInfo(task, name) => {
                if self.names.tasks.len() < NAMES_MAX {
                    self.names.tasks.insert(task, name);
                }
                return;
            }
            SysEvent::Description(text) => return self.description(&text),
            SysEvent::Module(offset, name) => {
                self.seen_module = true;
                if name.contains(HEAP_MODULE) {
                    self.has_module = true;
                    *heap_events = Some(offset);
                }
                return;
            }
            SysEvent::TaskStart(task) => HeapEvent::Task(task),
            SysEvent::TaskStop | SysEvent::Idle => HeapEvent::Idle,
            SysEvent::IsrEnter(number) => HeapEvent::IsrEnter(number),
            SysEvent::IsrExit => HeapEvent::IsrExit,
            SysEvent::OfModule(id, payload) => {
                // A stream that was joined late does not say whose events these are: those of the first module.
                let offset = heap_events.unwrap_or(stream::FIRST_OF_MODULES);
                if heap_events.is_none() && self.seen_module {
                    return;
                }
                match (id.checked_sub(offset), numbers_of(&payload).as_slice()) {
                    (Some(0), [address, size, frames @ ..]) => {
                        HeapEvent::Alloc { address: *address, size: *size, stack: self.stack(frames) }
                    }
                    (Some(1), [address, frames @ ..]) => {
                        HeapEvent::Free { address: *address, stack: self.stack(frames) }
                    }
                    _ => return,
                }
            }
            SysEvent::TraceStart | SysEvent::Init(_) | SysEvent::Message | SysEvent::Other => return,
        };
        self.heap_events += u64::from(matches!(event, HeapEvent::Alloc { .. } | HeapEvent::Free { .. }));
        if self.events.len() < EVENTS_MAX {
            self.events.push(Happened { ns: clock.ns(), core, event });
        } else {
            self.dropped += 1;
        }
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

    /// The ledger of all that was read; `None` if no event was one of a heap.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn end(mut self) -> io::Result<Option<LogLedger>> {
        if self.heap_events == 0 {
            return Ok(None);
        }
        // Of one core they are in order; of several, by time.
        self.events.sort_by_key(|happened| happened.ns);
        let last = self.events.last().map_or(0, |happened| happened.ns);
        let tick_ns = if last >> TIME_BITS == 0 { 1 } else { 1000 };
        let mut books = SysBooks::new(tick_ns, std::mem::take(&mut self.names), &self.stacks);
        for happened in &self.events {
            books.take(happened)?;
        }
        let mut draft = books.finish()?;
        draft.process(heapledger_format::session::process::LOG, "systemview");
        for sentence in &self.broken {
            draft.missing(sentence);
        }
        if self.lost != 0 {
            draft.missing(&format!("The device dropped {} events for want of room.", self.lost));
        }
        if self.dropped != 0 {
            draft.missing(&format!("{} events at the end were not read: there are too many.", self.dropped));
        }
        if !self.has_module {
            draft.remark(
                "The stream does not say which events are those of the heap: those of the first module were taken.",
            );
        }
        let name = format!("{} heap events of SystemView", self.heap_events);
        let mut made = MadeLedgers::default();
        made.add(0, draft, LogKind::SystemView, name)?;
        Ok(made.end().pop())
    }
}

/// Streams that were read for what ESP-IDF's own script prints of them.
pub struct HostTrace(SysTrace);

impl HostTrace {
    /// Reads streams, one of each core or all in one.
    ///
    /// # Errors
    /// Those of the inputs.
    pub fn read<R: BufRead>(inputs: impl IntoIterator<Item = R>) -> io::Result<HostTrace> {
        let mut trace = SysTrace::default();
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

    /// Writes the report. `names` gives a line for each frame of a stack, or none where they are to stay addresses.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn report(self, names: &mut HostNames<'_>, out: &mut dyn io::Write) -> io::Result<()> {
        self.0.report(names, out)
    }
}
