//! From events to blocks: who ran where, what lives, what was freed.

use std::collections::{BTreeMap, HashMap};
use std::io;

use heapledger_format::errors::{ErrorEntry, ErrorKind, ErrorStack, FoundAt, FoundBy, StackTag, Whereabouts};
use heapledger_format::{Entry, FreedEntry, GlobalCounter, Kind, Site, TallyCounter, ThreadRow, ThreadRowPlus1, Ticks};

use crate::draft::{Cores, DraftShape, LedgerDraft};

/// What happened on a core, as far as heaps need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeapEvent {
    Alloc {
        address: u32,
        size: u32,
        stack: u32,
    },
    Free {
        address: u32,
        stack: u32,
    },
    Task(u32),
    Idle,
    IsrEnter(u32),
    IsrExit,
    /// Nothing that heaps need.
    Other,
}

/// It, with its time in nanoseconds and its core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Happened {
    pub(super) ns: u64,
    pub(super) core: u8,
    pub(super) event: HeapEvent,
}

/// Who runs on a core.
#[derive(Clone, Debug, Default)]
pub(super) struct Running {
    /// Nothing: nobody has said it yet.
    task: Option<Runner>,
    interrupts: Vec<u32>,
}

/// A task, an interrupt, or nobody in particular.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Runner {
    Task(u32),
    Idle(u8),
    Interrupt(u32),
}

impl Running {
    /// Takes an event of this core.
    pub(super) fn take(&mut self, core: u8, event: &HeapEvent) {
        match event {
            HeapEvent::Task(task) => self.task = Some(Runner::Task(*task)),
            HeapEvent::Idle => self.task = Some(Runner::Idle(core)),
            HeapEvent::IsrEnter(number) if self.interrupts.len() < NESTED_MAX => self.interrupts.push(*number),
            HeapEvent::IsrExit => drop(self.interrupts.pop()),
            HeapEvent::IsrEnter(_) | HeapEvent::Alloc { .. } | HeapEvent::Free { .. } | HeapEvent::Other => {}
        }
    }

    fn runner(&self) -> Option<Runner> {
        self.interrupts.last().map(|number| Runner::Interrupt(*number)).or(self.task)
    }

    /// Who runs, by name, and whether that is an interrupt. Nothing: nobody has said it yet.
    pub(super) fn name(&self, names: &SysNames) -> Option<(String, bool)> {
        let named =
            |names: &HashMap<u32, String>, number: u32, other: String| names.get(&number).cloned().unwrap_or(other);
        Some(match self.runner()? {
            Runner::Task(task) => (named(&names.tasks, task, format!("{task:#x}")), false),
            Runner::Idle(core) => (format!("IDLE{core}"), false),
            Runner::Interrupt(number) => (named(&names.interrupts, number, number.to_string()), true),
        })
    }

    /// Who runs, in words: `task "main"`, `IRQ "SysTick"`.
    pub(super) fn called(&self, names: &SysNames) -> String {
        match self.name(names) {
            Some((name, true)) => format!("IRQ \"{name}\""),
            Some((name, false)) => format!("task \"{name}\""),
            None => "an unknown task".to_owned(),
        }
    }
}

/// What tasks and interrupts are called.
#[derive(Clone, Debug, Default)]
pub(super) struct SysNames {
    pub(super) tasks: HashMap<u32, String>,
    pub(super) interrupts: HashMap<u32, String>,
}

/// The ledger of a stream, while its events are taken in order.
pub(super) struct SysBooks {
    pub(super) draft: LedgerDraft,
    names: SysNames,
    sites: Vec<Site>,
    rows: HashMap<Runner, ThreadRow>,
    running: HashMap<u8, Running>,
    live: BTreeMap<u32, Entry>,
    tick_ns: u64,
    live_bytes: u64,
    peak: (u64, u64, u64),
    last: u64,
    failed: u64,
}

/// Interrupts do not nest deeper than this; a stream that says so is damaged.
const NESTED_MAX: usize = 64;
/// Most tasks and interrupts that are told apart.
const ROWS_MAX: usize = 60_000;
/// Wrong frees that are kept.
const ERRORS_MAX: u64 = 1000;

impl SysBooks {
    /// Books with that length of a tick, for these stacks.
    pub(super) fn new(tick_ns: u32, names: SysNames, stacks: &[Vec<u64>]) -> SysBooks {
        let shape = DraftShape {
            addresses: true,
            threads: true,
            history: true,
            cores: Cores::OfBoth,
            tick_ns: Some(tick_ns),
            ..DraftShape::default()
        };
        let mut draft = LedgerDraft::new(shape);
        let sites = stacks.iter().map(|frames| draft.stack(frames)).collect();
        SysBooks {
            draft,
            names,
            sites,
            rows: HashMap::new(),
            running: HashMap::new(),
            live: BTreeMap::new(),
            tick_ns: u64::from(tick_ns.max(1)),
            live_bytes: 0,
            peak: (0, 0, 0),
            last: 0,
            failed: 0,
        }
    }

    fn row(&mut self, runner: Runner) -> Option<ThreadRow> {
        if let Some(row) = self.rows.get(&runner) {
            return Some(*row);
        }
        if self.rows.len() >= ROWS_MAX {
            self.draft.count(TallyCounter::ThreadsUnnamed, 1);
            return None;
        }
        let (name, id, handle) = match runner {
            Runner::Task(task) => (self.names.tasks.get(&task).cloned().unwrap_or_default(), 0, task),
            Runner::Idle(core) => (format!("IDLE{core}"), u32::from(core), 0),
            Runner::Interrupt(number) => {
                let name = self.names.interrupts.get(&number).map_or_else(|| number.to_string(), Clone::clone);
                (format!("IRQ {name}"), number, 0)
            }
        };
        let row = self.draft.thread(&name, id, u64::from(handle));
        self.rows.insert(runner, row);
        Some(row)
    }

    fn who(&mut self, core: u8) -> Option<ThreadRow> {
        let runner = self.running.entry(core).or_default().runner();
        runner.and_then(|runner| self.row(runner))
    }

    /// Takes the next event.
    pub(super) fn take(&mut self, happened: &Happened) -> io::Result<()> {
        let Happened { ns, core, event } = *happened;
        let time = ns / self.tick_ns;
        self.last = self.last.max(time);
        self.running.entry(core).or_default().take(core, &event);
        match event {
            HeapEvent::Task(_) | HeapEvent::Idle | HeapEvent::IsrEnter(_) | HeapEvent::IsrExit | HeapEvent::Other => {}
            HeapEvent::Alloc { address: 0, .. } => self.failed += 1,
            HeapEvent::Free { address: 0, .. } => {}
            HeapEvent::Alloc { address, size, stack } => {
                let (thread, site) = (self.who(core), self.site(stack));
                if let Some(displaced) = self.live.remove(&address) {
                    let number = self.draft.number();
                    self.draft.count(TallyCounter::Displaced, 1);
                    self.end(displaced, (number, Kind::UNSEEN), (Site::NONE, None), (time, core))?;
                }
                let entry = Entry {
                    number: self.draft.number(),
                    address: u64::from(address),
                    size: Some(u64::from(size)),
                    kind: Kind::HEAP_CAPS_MALLOC,
                    site,
                    thread,
                    time: Some(Ticks(time)),
                    core: Some(core),
                    ..Entry::NONE
                };
                self.live.insert(address, entry);
                self.live_bytes += u64::from(size);
                if self.live_bytes > self.peak.0 {
                    self.peak = (self.live_bytes, self.live.len() as u64, time);
                }
            }
            HeapEvent::Free { address, stack } => {
                let (thread, site) = (self.who(core), self.site(stack));
                let number = self.draft.number();
                match self.live.remove(&address) {
                    Some(block) => {
                        self.end(block, (number, Kind::HEAP_CAPS_FREE), (site, thread), (time, core))?;
                    }
                    None => self.unknown(address, (site, thread), time),
                }
            }
        }
        Ok(())
    }

    fn site(&self, stack: u32) -> Site {
        self.sites.get(stack as usize).copied().unwrap_or(Site::NONE)
    }

    fn end(
        &mut self,
        block: Entry,
        (number, by): (u64, Kind),
        (site, thread): (Site, Option<ThreadRow>),
        (time, core): (u64, u8),
    ) -> io::Result<()> {
        self.live_bytes -= block.size.unwrap_or(0).min(self.live_bytes);
        let freed = FreedEntry { block, number, later: 0, by, site, thread, time: Some(Ticks(time)), core: Some(core) };
        self.draft.freed(&freed)
    }

    /// A free of what was never seen: from before the trace, or of a place within a block.
    fn unknown(&mut self, address: u32, (site, thread): (Site, Option<ThreadRow>), time: u64) {
        self.draft.count(TallyCounter::UnknownFrees, 1);
        let around = self.live.range(..address).next_back().map(|(_, block)| *block);
        let Some(block) =
            around.filter(|block| u64::from(address) < block.address.saturating_add(block.size.unwrap_or(0)))
        else {
            return;
        };
        if self.draft.errors() >= ERRORS_MAX {
            self.draft.count(TallyCounter::ErrorsLost, 1);
            return;
        }
        let plus_1 = |row: Option<ThreadRow>| ThreadRowPlus1(row.map_or(0, |row| row.0 + 1));
        let stack = |tag: StackTag, site, row, time| ErrorStack {
            time,
            site,
            thread: plus_1(row),
            tag: tag as u16,
            ..ErrorStack::default()
        };
        let at = Ticks(time.max(1));
        let entry = ErrorEntry {
            kind: ErrorKind::BadFree as u16,
            found_by: FoundBy::Log as u8,
            found_at: FoundAt::Call as u8,
            whereabouts: Whereabouts::Block as u8,
            called: Kind::HEAP_CAPS_FREE.number(),
            address: u64::from(address),
            block: block.address,
            block_bytes: block.size.unwrap_or(0),
            allocated: block.number + 1,
            first_time: at,
            last_time: at,
            stacks: [
                stack(StackTag::Allocation, block.site, block.thread, block.time.unwrap_or_default()),
                stack(StackTag::Access, site, thread, at),
                ErrorStack::default(),
            ],
            ..ErrorEntry::default()
        };
        self.draft.error(entry, "");
    }

    /// The ledger, with the blocks that live.
    pub(super) fn finish(mut self) -> io::Result<LedgerDraft> {
        // Tasks that did nothing with the heap are there as well.
        let mut tasks: Vec<u32> = self.names.tasks.keys().copied().collect();
        tasks.sort_unstable();
        for task in tasks {
            self.row(Runner::Task(task));
        }
        for block in std::mem::take(&mut self.live).into_values() {
            self.draft.block(&block)?;
        }
        self.draft.count(TallyCounter::FailedCalls, self.failed);
        let (bytes, blocks, time) = self.peak;
        self.draft.set(GlobalCounter::PeakBytes, bytes);
        self.draft.set(GlobalCounter::PeakBlocks, blocks);
        self.draft.set(GlobalCounter::PeakTime, time);
        self.draft.set(GlobalCounter::LastTime, self.last);
        Ok(self.draft)
    }
}
