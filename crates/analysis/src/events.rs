//! The history: allocations and frees in the order in which they happened, of one ledger or of several of one run.

use std::collections::{BTreeMap, HashSet};

use heapledger_source::format::{Entry, FreedEntry, TallyCounter};
use heapledger_source::{Ledger, SourceError};

use crate::notes::records_frees;
use crate::query::{Evaluator, Subject};
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

    /// Time, number, and of the two halves of a `realloc`, which share a number, the free first. Nothing else that
    /// happened to this block has the same.
    fn key(&self) -> Key {
        let is_allocation = matches!(self.kind, EventKind::Allocation { .. });
        (self.time().unwrap_or(0), self.number(), is_allocation, self.block.number)
    }
}

/// Events in order.
#[derive(Clone, Debug, Default)]
pub struct Events {
    /// The events to show.
    pub events: Vec<Event>,
    /// How many the ledgers hold in all of those that were asked for. A block that is freed while it is being read
    /// may count twice.
    pub total: u64,
    /// Frees that are counted and no longer in the history: with them the allocations of their blocks. An
    /// estimate if the ledger is sampled.
    pub frees_missing: u64,
    /// Whether the last ledger recorded freed blocks at all.
    pub frees_recorded: bool,
    /// The same as `frees_missing` for each ledger, in the order given: frees since the one before it that neither has.
    pub gaps: Vec<u64>,
    /// What estimates come from; `None` if every block was entered.
    pub sampled: Option<Sampled>,
    /// Elements that were being written.
    pub in_flight: u64,
    /// Which events are meant, in the language of filters; `None` if all are.
    pub filter: Option<String>,
}

type Key = (u64, u64, bool, u64);

/// Which of a run's events are shown.
pub struct Wanted<'w, 'l> {
    /// The last event first.
    pub reverse: bool,
    /// So many at most; 0 is all of them.
    pub limit: usize,
    /// Of those that this means; of all if there is none.
    pub filter: Option<&'w mut Evaluator<'l>>,
}

impl Wanted<'_, '_> {
    /// Finds at once all names that the filter needs.
    pub(crate) fn prepare(&mut self, ledgers: &[&Ledger], progress: &mut dyn FnMut(f32)) -> Result<(), SourceError> {
        if let Some(filter) = &mut self.filter {
            filter.prepare_blocks(progress)?;
            for ledger in ledgers {
                filter.prepare_freed(ledger, progress)?;
            }
        }
        Ok(())
    }

    /// Whether the filter means this.
    pub(crate) fn means(&mut self, subject: &Subject<'_>) -> Result<bool, SourceError> {
        self.filter.as_mut().map_or(Ok(true), |filter| filter.subject(subject))
    }

    /// Adds the allocations of blocks that live to `chosen`; says how many were being written, and how many there are.
    fn add_living(
        &mut self,
        ledger: &Ledger,
        chosen: &mut Chosen,
        progress: &mut dyn FnMut(f32),
    ) -> Result<(u64, u64), SourceError> {
        let event = |block: &Entry| Event { block: *block, kind: EventKind::Allocation { freed: false } };
        let (decided, reverse, limit) = (self.filter.as_deref(), self.reverse, self.limit);
        let scanned = ledger.scan_records(
            usize::MAX,
            &|| (Chosen::new(reverse, limit), Vec::new(), 0u64),
            &|(chosen, undecided, blocks), entries| {
                *blocks += entries.len() as u64;
                for block in entries {
                    match decided.map_or(Some(true), |filter| filter.known(block)) {
                        Some(true) => chosen.add(event(block)),
                        Some(false) => {}
                        None => undecided.push(*block),
                    }
                }
            },
            progress,
        )?;
        let mut all = 0;
        for (part, undecided, blocks) in scanned.states {
            all += blocks;
            chosen.join(part);
            for block in &undecided {
                if self.means(&Subject::live(block))? {
                    chosen.add(event(block));
                }
            }
        }
        Ok((scanned.in_flight, all))
    }

    /// Adds what the history of `ledger` tells to `chosen`.
    fn add_freed(&mut self, ledger: &Ledger, chosen: &mut Chosen, sampling: Sampling) -> Result<Freed, SourceError> {
        let (decided, reverse, limit) = (self.filter.as_deref(), self.reverse, self.limit);
        let known = |subject: Subject<'_>| decided.map_or(Some(true), |filter| filter.known_subject(&subject));
        let scanned = ledger.scan_freed(
            usize::MAX,
            &|| (Chosen::new(reverse, limit), Vec::new(), Freed::default()),
            &|(chosen, undecided, freed), entries| {
                for entry in entries {
                    freed.add(entry, sampling);
                    match (known(Subject::allocation(entry)), known(Subject::free(entry))) {
                        (Some(allocation), Some(free)) => chosen.add_both(entry, allocation, free),
                        _ => undecided.push(*entry),
                    }
                }
            },
            &mut |_| {},
        )?;
        let mut all = Freed { in_flight: scanned.in_flight, ..Freed::default() };
        for (part, undecided, freed) in scanned.states {
            all.blocks += freed.blocks;
            all.weight = all.weight.saturating_add(freed.weight);
            chosen.join(part);
            for entry in &undecided {
                let allocation = self.means(&Subject::allocation(entry))?;
                chosen.add_both(entry, allocation, self.means(&Subject::free(entry))?);
            }
        }
        Ok(all)
    }

    /// The same without blocks that are `known` from another ledger. What is known is one set, so one thread must do.
    fn add_new_freed(
        &mut self,
        ledger: &Ledger,
        chosen: &mut Chosen,
        known: &mut HashSet<u64>,
        sampling: Sampling,
    ) -> Result<Freed, SourceError> {
        let mut all = Freed::default();
        let mut freed = ledger.freed();
        while let Some(chunk) = freed.next_chunk()? {
            for entry in chunk {
                if known.insert(entry.block.number) {
                    all.add(entry, sampling);
                    let allocation = self.means(&Subject::allocation(entry))?;
                    chosen.add_both(entry, allocation, self.means(&Subject::free(entry))?);
                }
            }
        }
        all.in_flight = freed.in_flight();
        Ok(all)
    }

    /// The filter, as it can be read again.
    pub(crate) fn text(&self) -> Option<String> {
        self.filter.as_ref().filter(|filter| !filter.is_all()).map(|filter| filter.text().to_owned())
    }
}

/// What a history told.
#[derive(Default)]
struct Freed {
    blocks: u64,
    /// How many they stand for.
    weight: u64,
    in_flight: u64,
}

impl Freed {
    fn add(&mut self, entry: &FreedEntry, sampling: Sampling) {
        self.blocks += 1;
        self.weight = self.weight.saturating_add(sampling.weight(&entry.block));
    }
}

/// The events that come first, as many as are wanted. In memory there are never more.
struct Chosen {
    best: BTreeMap<Key, Event>,
    /// Instead, if all are wanted.
    all: Vec<(Key, Event)>,
    limit: usize,
    reverse: bool,
    total: u64,
}

impl Chosen {
    fn new(reverse: bool, limit: usize) -> Chosen {
        Chosen { best: BTreeMap::new(), all: Vec::new(), limit, reverse, total: 0 }
    }

    /// Adds what another has chosen.
    fn join(&mut self, mut other: Chosen) {
        let kept = (other.best.len() + other.all.len()) as u64;
        self.total += other.total.saturating_sub(kept);
        if self.limit == 0 {
            self.total += kept;
            self.all.append(&mut other.all);
        }
        other.best.into_values().for_each(|event| self.add(event));
    }

    /// The two events of a freed block, as far as they are meant.
    fn add_both(&mut self, entry: &FreedEntry, allocation: bool, free: bool) {
        if allocation {
            self.add(Event { block: entry.block, kind: EventKind::Allocation { freed: true } });
        }
        if free {
            self.add(Event { block: entry.block, kind: EventKind::Free(*entry) });
        }
    }

    fn add(&mut self, event: Event) {
        self.total += 1;
        let (time, number, half, block) = event.key();
        let key = if self.reverse { (!time, !number, !half, !block) } else { (time, number, half, block) };
        if self.limit == 0 {
            self.all.push((key, event));
            return;
        }
        if self.best.len() >= self.limit && self.best.last_key_value().is_some_and(|(last, _)| *last < key) {
            return;
        }
        // A block that was freed while it was read is found twice; what came later is what holds.
        if self.best.insert(key, event).is_some() {
            self.total -= 1;
        } else if self.best.len() > self.limit {
            self.best.pop_last();
        }
    }

    fn into_events(mut self) -> (Vec<Event>, u64) {
        if self.limit != 0 {
            return (self.best.into_values().collect(), self.total);
        }
        // In place. Of two that are the same, the later one stays: that which knows of the free.
        let freed = |event: &Event| matches!(event.kind, EventKind::Allocation { freed: true });
        self.all.sort_unstable_by_key(|(key, event)| (*key, freed(event)));
        self.all.dedup_by(|later, kept| {
            let same = later.0 == kept.0;
            if same {
                std::mem::swap(later, kept);
            }
            same
        });
        let total = self.all.len() as u64;
        (self.all.into_iter().map(|(_, event)| event).collect(), total)
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
        Events::of_run(&[ledger], Wanted { reverse, limit, filter: None }, progress)
    }

    /// The events of several ledgers of [one run](crate::in_order), oldest first, as one history: what was freed by
    /// all of them, each once, and what lives by the last.
    ///
    /// # Errors
    /// If a ledger can no longer be read.
    pub fn of_run(
        ledgers: &[&Ledger],
        mut wanted: Wanted<'_, '_>,
        progress: &mut dyn FnMut(f32),
    ) -> Result<Events, SourceError> {
        let Some((last, _)) = ledgers.split_last() else { return Ok(Events::default()) };
        wanted.prepare(ledgers, progress)?;
        let sampling = Sampling::of(last);
        let Wanted { reverse, limit, .. } = wanted;
        let mut chosen = Chosen::new(reverse, limit);
        // First what lives: a block of a running program that is freed before its history is read is found in both.
        let (mut in_flight, mut blocks) = wanted.add_living(last, &mut chosen, progress)?;
        let mut known = HashSet::new();
        let (mut gaps, mut frees_before) = (Vec::new(), 0u64);
        for ledger in ledgers {
            let freed = match ledgers {
                [_] => wanted.add_freed(ledger, &mut chosen, sampling)?,
                _ => wanted.add_new_freed(ledger, &mut chosen, &mut known, sampling)?,
            };
            blocks += freed.blocks;
            in_flight += freed.in_flight;
            let entered = freed.weight;
            let frees = ledger.tallies()?.get(TallyCounter::Frees).max(frees_before);
            gaps.push((frees - frees_before).saturating_sub(entered));
            frees_before = frees;
        }
        let (events, total) = chosen.into_events();
        Ok(Events {
            events,
            total,
            frees_missing: gaps.iter().fold(0, |sum, gap| sum.saturating_add(*gap)),
            frees_recorded: records_frees(last),
            gaps,
            sampled: sampling.from(blocks),
            in_flight,
            filter: wanted.text(),
        })
    }

    /// Events that there are and that are not shown.
    pub fn left_out(&self) -> u64 {
        self.total.saturating_sub(self.events.len() as u64)
    }
}
