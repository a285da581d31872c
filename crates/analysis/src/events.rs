//! The history: allocations and frees in the order in which they happened.

use std::collections::{BinaryHeap, HashSet};

use heapledger_source::format::{Entry, FreedEntry, TallyCounter};
use heapledger_source::{Ledger, SourceError};

use crate::{Sampled, Sampling};

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A block was allocated; whether it is freed by now.
    Allocation {
        /// Whether it is freed by now.
        freed: bool,
    },
    /// A block was freed.
    Free(FreedEntry),
}

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The block.
    pub block: Entry,
    /// What happened to it.
    pub kind: EventKind,
}

impl Event {
    /// Sequence number of the event.
    pub fn number(&self) -> u64 {
        match &self.kind {
            EventKind::Allocation { .. } => self.block.number,
            EventKind::Free(freed) => freed.number,
        }
    }

    /// When it happened, in ticks.
    pub fn time(&self) -> Option<u64> {
        match &self.kind {
            EventKind::Allocation { .. } => self.block.time,
            EventKind::Free(freed) => freed.time,
        }
    }

    /// Who did it: the row of the thread.
    pub fn thread(&self) -> Option<u32> {
        match &self.kind {
            EventKind::Allocation { .. } => self.block.thread,
            EventKind::Free(freed) => freed.thread,
        }
    }

    /// Where it was done from.
    pub fn site(&self) -> u32 {
        match &self.kind {
            EventKind::Allocation { .. } => self.block.site,
            EventKind::Free(freed) => freed.site,
        }
    }

    /// Time, number, and of the two halves of a `realloc`, which share a number, the free first.
    fn key(&self) -> (u64, u64, bool) {
        (self.time().unwrap_or(0), self.number(), matches!(self.kind, EventKind::Allocation { .. }))
    }
}

/// Events in order.
#[derive(Clone, Debug, Default)]
pub struct Events {
    /// The events to show.
    pub events: Vec<Event>,
    /// How many the ledger holds in all.
    pub total: u64,
    /// Frees that are counted and no longer in the history: with them the allocations of their blocks. An
    /// estimate if the ledger is sampled.
    pub frees_missing: u64,
    /// What estimates come from; `None` if every block was entered.
    pub sampled: Option<Sampled>,
    /// Elements that were being written.
    pub in_flight: u64,
}

struct Ranked {
    key: (u64, u64, bool),
    event: Event,
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}
impl Eq for Ranked {}
impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key.cmp(&other.key)
    }
}

struct Chosen {
    best: BinaryHeap<Ranked>,
    limit: usize,
    reverse: bool,
    total: u64,
}

impl Chosen {
    fn add(&mut self, event: Event) {
        self.total += 1;
        let (time, number, half) = event.key();
        let key = if self.reverse { (!time, !number, !half) } else { (time, number, half) };
        if self.limit == 0 || self.best.len() < self.limit {
            self.best.push(Ranked { key, event });
        } else if let Some(mut last) = self.best.peek_mut()
            && key < last.key
        {
            *last = Ranked { key, event };
        }
    }
}

impl Events {
    /// The first `limit` events, or the last ones first; 0 is all of them.
    ///
    /// # Errors
    /// If the ledger can no longer be read.
    pub fn of(
        ledger: &Ledger,
        reverse: bool,
        limit: usize,
        progress: &mut dyn FnMut(f32),
    ) -> Result<Events, SourceError> {
        let mut chosen = Chosen { best: BinaryHeap::new(), limit, reverse, total: 0 };
        let mut in_flight = 0;
        // A block that is freed between the reading of the records and that of the history is found in both.
        // It must show up once, as freed; so the live ones of a running program wait.
        let mut seen = HashSet::new();
        let sampling = Sampling::of(ledger);
        let (mut freed_blocks, mut entries) = (0u64, 0u64);
        let mut live: Vec<Entry> = Vec::new();
        let keep_live = ledger.is_running();
        let mut records = ledger.records();
        loop {
            progress(records.progress());
            let Some(chunk) = records.next_chunk()? else { break };
            if keep_live {
                live.extend_from_slice(chunk);
            } else {
                for block in chunk {
                    chosen.add(Event { block: *block, kind: EventKind::Allocation { freed: false } });
                }
            }
        }
        in_flight += records.in_flight();
        let mut freed = ledger.freed();
        while let Some(chunk) = freed.next_chunk()? {
            for entry in chunk {
                entries += 1;
                freed_blocks = freed_blocks.saturating_add(sampling.weight(&entry.block));
                if keep_live {
                    seen.insert(entry.block.number);
                }
                chosen.add(Event { block: entry.block, kind: EventKind::Allocation { freed: true } });
                chosen.add(Event { block: entry.block, kind: EventKind::Free(*entry) });
            }
        }
        in_flight += freed.in_flight();
        for block in live.into_iter().filter(|block| !seen.contains(&block.number)) {
            chosen.add(Event { block, kind: EventKind::Allocation { freed: false } });
        }
        let frees = ledger.tallies()?.get(TallyCounter::Frees);
        let mut events: Vec<Ranked> = chosen.best.into_vec();
        events.sort_unstable_by_key(|ranked| ranked.key);
        Ok(Events {
            events: events.into_iter().map(|ranked| ranked.event).collect(),
            total: chosen.total,
            frees_missing: frees.saturating_sub(freed_blocks),
            sampled: sampling.from(chosen.total - entries),
            in_flight,
        })
    }

    /// Events that there are and that are not shown.
    pub fn left_out(&self) -> u64 {
        self.total.saturating_sub(self.events.len() as u64)
    }
}
