//! The books of one device, from one of its starts to the next.

use std::collections::{BTreeMap, HashMap};
use std::io;

use heapledger_format::{Entry, FreedEntry, GlobalCounter, Kind, Site, TallyCounter, ThreadRow, Ticks};
use heapledger_wire::message::Mark;
use heapledger_wire::{Frame, Message, VERSION};

use crate::counted;
use crate::draft::{DraftShape, LedgerDraft};

/// Most tasks that are told apart.
const TASKS_MAX: usize = 60_000;
/// Most stacks that are remembered by number.
const STACKS_MAX: usize = 4 << 20;

/// What is known of a device.
#[derive(Debug)]
pub(super) struct DeviceBooks {
    draft: LedgerDraft,
    boot: Option<u32>,
    sequence: Option<u8>,
    stacks: HashMap<u32, Site>,
    tasks: HashMap<u32, ThreadRow>,
    names: HashMap<u32, String>,
    live: BTreeMap<u32, Entry>,
    /// The blocks of a list that is being told.
    listing: Option<BTreeMap<u32, Entry>>,
    /// Frames and events that were missing when it began.
    missing_before: u64,
    /// Lists of which parts are missing.
    part_lists: u64,
    listed: bool,
    task: u32,
    /// The time of the last event, where wrapping is undone.
    time: u64,
    live_bytes: u64,
    peak: (u64, u64, u64),
    frames: u64,
    gaps: u64,
    repeats: u64,
    lost: u64,
    failed: u64,
    unknown_stacks: u64,
    cut: u64,
    newer: Option<u8>,
    pub(super) events: u64,
}

/// Whether a frame belongs to these books.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    Yes,
    /// The device has started anew: it is the first of other books.
    OfAnotherStart,
}

impl DeviceBooks {
    pub(super) fn new() -> DeviceBooks {
        let shape =
            DraftShape { addresses: true, threads: true, history: true, tick_ns: Some(0), ..DraftShape::default() };
        DeviceBooks {
            draft: LedgerDraft::new(shape),
            boot: None,
            sequence: None,
            stacks: HashMap::new(),
            tasks: HashMap::new(),
            names: HashMap::new(),
            live: BTreeMap::new(),
            listing: None,
            missing_before: 0,
            part_lists: 0,
            listed: false,
            task: 0,
            time: 0,
            live_bytes: 0,
            peak: (0, 0, 0),
            frames: 0,
            gaps: 0,
            repeats: 0,
            lost: 0,
            failed: 0,
            unknown_stacks: 0,
            cut: 0,
            newer: None,
            events: 0,
        }
    }

    /// Takes a frame.
    pub(super) fn frame(&mut self, frame: &Frame<'_>) -> io::Result<Taken> {
        let boot = frame.messages().find_map(|message| match message {
            Message::Begin { boot, .. } => Some(boot),
            _ => None,
        });
        if boot.is_some() && self.boot.is_some() && boot != self.boot {
            return Ok(Taken::OfAnotherStart);
        }
        match self.sequence {
            Some(last) if last == frame.sequence && boot.is_none() => {
                self.repeats += 1;
                return Ok(Taken::Yes);
            }
            Some(last) => self.gaps += u64::from(frame.sequence.wrapping_sub(last).wrapping_sub(1)),
            None => {}
        }
        self.sequence = Some(frame.sequence);
        self.frames += 1;
        self.task = 0;
        let mut messages = frame.messages();
        for message in messages.by_ref() {
            self.message(&message)?;
        }
        self.cut += u64::from(!messages.whole);
        Ok(Taken::Yes)
    }

    fn message(&mut self, message: &Message<'_>) -> io::Result<()> {
        match *message {
            Message::Begin { version, tick_ns, boot, .. } => {
                self.boot = Some(boot);
                self.draft.tick_ns(tick_ns);
                self.stacks.clear();
                if version > VERSION {
                    self.newer = Some(version);
                }
            }
            Message::Stack { number, frames } => {
                if self.stacks.len() < STACKS_MAX {
                    let frames: Vec<u64> = frames.iter().map(|frame| u64::from(*frame)).collect();
                    let site = self.draft.stack(&frames);
                    self.stacks.insert(number, site);
                }
            }
            Message::Task { number, name } => {
                let name = String::from_utf8_lossy(name).into_owned();
                if let Some(row) = self.tasks.get(&number) {
                    self.draft.rename(*row, &name);
                }
                if self.names.len() < TASKS_MAX {
                    self.names.insert(number, name);
                }
            }
            Message::Switch(task) => self.task = task,
            Message::Lost(events) => self.lost += u64::from(events),
            Message::Mark(mark) => self.mark(mark)?,
            Message::Alloc { kind, address, size, stack, time } => {
                let site = self.site(stack);
                self.alloc(Kind(kind), address, size, site, time)?;
            }
            Message::Free { kind, address, stack, time } => {
                let site = self.site(stack);
                self.free(kind, address, site, time)?;
            }
        }
        Ok(())
    }

    fn site(&mut self, stack: u32) -> Site {
        let site = self.stacks.get(&stack).copied();
        self.unknown_stacks += u64::from(stack != 0 && site.is_none());
        site.unwrap_or(Site::NONE)
    }

    /// Undoes the wrapping of 32 bits: events of a task may come a little out of order, never by half of it.
    fn ticks(&mut self, time: u32) -> Ticks {
        let step = time.wrapping_sub(self.time as u32);
        if step < 1 << 31 {
            self.time += u64::from(step);
            Ticks(self.time)
        } else {
            Ticks(self.time.saturating_sub(u64::from(step.wrapping_neg())))
        }
    }

    fn row(&mut self) -> Option<ThreadRow> {
        let task = self.task;
        if let Some(row) = self.tasks.get(&task) {
            return Some(*row);
        }
        if self.tasks.len() >= TASKS_MAX {
            self.draft.count(TallyCounter::ThreadsUnnamed, 1);
            return None;
        }
        let name = self.names.get(&task).cloned().unwrap_or_default();
        let row = self.draft.thread(&name, task, u64::from(task));
        self.tasks.insert(task, row);
        Some(row)
    }

    fn alloc(&mut self, kind: Kind, address: u32, size: u32, site: Site, time: u32) -> io::Result<()> {
        let (thread, time) = (self.row(), Some(self.ticks(time)));
        if let Some(listing) = &mut self.listing {
            // What is known of it already is more than the list says.
            let known = self.live.get(&address).filter(|block| block.size == Some(u64::from(size)));
            if let Some(known) = known {
                listing.insert(address, *known);
                return Ok(());
            }
        }
        let number = self.draft.number();
        let (address_64, size) = (u64::from(address), Some(u64::from(size)));
        let block = Entry { number, address: address_64, size, kind, site, thread, time, ..Entry::NONE };
        if let Some(listing) = &mut self.listing {
            listing.insert(address, block);
            return Ok(());
        }
        self.events += 1;
        if let Some(displaced) = self.live.remove(&address) {
            self.draft.count(TallyCounter::Displaced, 1);
            self.end(displaced, Kind::UNSEEN, Site::NONE, (None, time))?;
        }
        self.live.insert(address, block);
        self.live_bytes += size.unwrap_or(0);
        if self.live_bytes > self.peak.0 {
            self.peak = (self.live_bytes, self.live.len() as u64, self.time);
        }
        Ok(())
    }

    fn free(&mut self, kind: u8, address: u32, site: Site, time: u32) -> io::Result<()> {
        self.events += 1;
        let (thread, time) = (self.row(), Some(self.ticks(time)));
        // While a list is told, its blocks come and go as well.
        let listed = self.listing.as_mut().and_then(|listing| listing.remove(&address));
        match self.live.remove(&address).or(listed) {
            Some(block) => self.end(block, Kind::ended_by(kind), site, (thread, time)),
            None => {
                self.draft.count(TallyCounter::UnknownFrees, 1);
                Ok(())
            }
        }
    }

    fn end(
        &mut self,
        block: Entry,
        by: Kind,
        site: Site,
        (thread, time): (Option<ThreadRow>, Option<Ticks>),
    ) -> io::Result<()> {
        self.live_bytes -= block.size.unwrap_or(0).min(self.live_bytes);
        let number = self.draft.number();
        let freed = FreedEntry { block, number, later: 0, by, site, thread, time, core: None };
        self.draft.freed(&freed)
    }

    fn mark(&mut self, mark: Mark) -> io::Result<()> {
        match mark {
            Mark::LiveBegins => {
                self.listing = Some(BTreeMap::new());
                self.missing_before = self.gaps + self.lost;
            }
            Mark::LiveEnds => {
                let Some(mut listing) = self.listing.take() else { return Ok(()) };
                if self.gaps + self.lost != self.missing_before {
                    // What is not in it may be in a frame that never came.
                    self.part_lists += 1;
                    listing.append(&mut self.live);
                }
                let before = std::mem::take(&mut self.live);
                for (address, block) in before {
                    if listing.get(&address).is_none_or(|known| known.number != block.number) {
                        self.draft.count(TallyCounter::Displaced, 1);
                        self.end(block, Kind::UNSEEN, Site::NONE, (None, Some(Ticks(self.time))))?;
                    }
                }
                self.live = listing;
                self.live_bytes = self.live.values().map(|block| block.size.unwrap_or(0)).sum();
                self.listed |= self.gaps + self.lost == self.missing_before;
            }
            Mark::Failed(_) => self.failed += 1,
            Mark::Starts | Mark::Stops | Mark::Pauses | Mark::Resumes => {}
        }
        Ok(())
    }

    /// The ledger of what is known now. The books go on.
    pub(super) fn ledger(&self, bad_frames: u64) -> io::Result<LedgerDraft> {
        let mut draft = self.draft.copy()?;
        for block in self.live.values() {
            draft.block(block)?;
        }
        draft.count(TallyCounter::FailedCalls, self.failed);
        let (bytes, blocks, time) = self.peak;
        draft.set(GlobalCounter::PeakBytes, bytes);
        draft.set(GlobalCounter::PeakBlocks, blocks);
        draft.set(GlobalCounter::PeakTime, time);
        draft.set(GlobalCounter::LastTime, self.time);
        let mut missing = |number: u64, [one, many]: [&str; 2], what: &str| {
            if number != 0 {
                draft.missing(&format!("{} {what}", counted(number, one, many)));
            }
        };
        missing(self.lost, ["event was", "events were"], "dropped on the device: the line was too slow.");
        missing(self.gaps, ["frame", "frames"], "(or more, by 256 at a time) never came, with all their events.");
        missing(bad_frames, ["frame came damaged and was", "frames came damaged and were"], "not read.");
        missing(self.part_lists, ["list", "lists"], "of all live blocks came in part: blocks may be missing.");
        missing(self.unknown_stacks, ["event has", "events have"], "stacks that were told in frames which never came.");
        missing(self.cut, ["frame has", "frames have"], "messages of a later version, which were not read.");
        if let Some(version) = self.newer {
            draft.missing(&format!("The device sends version {version}, and this heapledger reads up to {VERSION}."));
        }
        if self.boot.is_none() && !self.listed {
            draft.missing("The beginning was not received: blocks from before are not known.");
        }
        if self.repeats != 0 {
            draft.remark(&format!("{} came twice.", counted(self.repeats, "frame", "frames")));
        }
        draft.process(heapledger_format::session::process::LOG, "events");
        Ok(draft)
    }
}
