//! The history: allocations and frees in the order in which they happened, of one ledger or of several of one run.

use heapledger_format::{Entry, FreedEntry, Site, ThreadRow, Ticks};
use heapledger_source::{Ledger, Shown, SourceError};

use crate::fold::{Act, Fold, fold};
use crate::frees::FreesBefore;
use crate::notes::records_frees;
use crate::query::{Evaluator, SortKeys, Subject};
use crate::{Sampled, Sampling};

use self::order::FirstEvents;

mod order;
mod packed;

pub use order::{EventIter, EventList};

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A block was allocated.
    Allocation {
        /// Its free; `None` if it lives.
        freed: Option<FreedEntry>,
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

    /// When it happened.
    pub fn time(&self) -> Option<Ticks> {
        match &self.kind {
            EventKind::Allocation { .. } => self.block.time,
            EventKind::Free(freed) => freed.time,
        }
    }

    /// Who did it: the row of the thread.
    pub fn thread(&self) -> Option<ThreadRow> {
        match &self.kind {
            EventKind::Allocation { .. } => self.block.thread,
            EventKind::Free(freed) => freed.thread,
        }
    }

    /// Where it was done from.
    pub fn site(&self) -> Site {
        match &self.kind {
            EventKind::Allocation { .. } => self.block.site,
            EventKind::Free(freed) => freed.site,
        }
    }

    /// The free of the block, whichever event this is; `None` if it lives.
    pub fn end(&self) -> Option<&FreedEntry> {
        match &self.kind {
            EventKind::Allocation { freed } => freed.as_ref(),
            EventKind::Free(freed) => Some(freed),
        }
    }

    /// The block with the number, time, thread, function and stack of the event.
    pub fn as_entry(&self) -> Entry {
        match &self.kind {
            EventKind::Allocation { .. } => self.block,
            EventKind::Free(freed) => as_freed(freed),
        }
    }

    /// Time, number, and of the two halves of a `realloc`, which mostly share a number, the free first. Nothing else that
    /// happened to this block has the same. Earlier recorders numbered frees of what other threads had allocated too low now and
    /// then, and gave them too early a time: those come right behind their allocations.
    fn key(&self) -> order::EventKey {
        const FREE: u8 = 0;
        const ALLOCATION: u8 = 1;
        const FREE_BEHIND: u8 = 2;
        let began = (self.block.time.unwrap_or_default(), self.block.number);
        let own = (self.time().unwrap_or_default(), self.number());
        let ((time, number), half) = match self.kind {
            EventKind::Allocation { .. } => (began, ALLOCATION),
            EventKind::Free(_) if own <= began => (began, FREE_BEHIND),
            EventKind::Free(_) => (own, FREE),
        };
        (time.0, number, half, self.block.number)
    }
}

/// The block with the number, time, thread, function and stack of its free.
pub fn as_freed(freed: &FreedEntry) -> Entry {
    let FreedEntry { block, number, by: kind, site, thread, time, core, .. } = *freed;
    Entry { number, kind, site, thread, time, core, cycles: None, ..block }
}

/// Events in order.
#[derive(Clone, Debug, Default)]
pub struct Events {
    /// The events to show.
    pub events: EventList,
    /// How many the ledgers hold in all of those that were asked for. A block that is freed while it is being read
    /// may count twice.
    pub total: u64,
    /// Frees that are counted and not in `events`: with them the allocations of their blocks. An estimate if the ledger
    /// is sampled.
    pub frees_missing: u64,
    /// Those of `frees_missing` that are left out because an earlier copy of the ledger shows them.
    pub frees_shown_before: u64,
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

/// Which of a run's events are shown.
pub struct Wanted<'w, 'l> {
    /// The order; by time, then number, if there is none.
    pub keys: Option<&'w SortKeys>,
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

    /// Hands the allocations of blocks that live to `sink`; says how many were being written, and how many there are.
    fn add_living<S: Sink>(
        &mut self,
        ledger: &Ledger,
        (sink, fresh): (&mut S, &(dyn Fn() -> S + Sync)),
        progress: &mut dyn FnMut(f32),
    ) -> Result<(u64, u64), SourceError> {
        let filter = self.filter.as_deref_mut();
        let folded = fold(ledger, filter, usize::MAX, &|| Living { sink: fresh(), blocks: 0 }, progress)?;
        sink.join(folded.sum.sink);
        Ok((folded.in_flight, folded.sum.blocks))
    }

    /// Hands what the history of `ledger` tells to `sink`, without blocks that are `known` from ledgers before it, and those
    /// that were `shown` before all of them. Adds its own to the known ones if there are `further` ledgers.
    fn add_freed<S: Sink>(
        &mut self,
        ledger: &Ledger,
        (sink, fresh): (&mut S, &(dyn Fn() -> S + Sync)),
        (shown, before): (Shown, FreesBefore),
        known: &mut Vec<u64>,
        further: bool,
    ) -> Result<Freed, SourceError> {
        let earlier = known.as_slice();
        let fresh = || History { sink: fresh(), earlier, shown, before, further, freed: Freed::default() };
        let folded = fold(ledger, self.filter.as_deref_mut(), usize::MAX, &fresh, &mut |_| {})?;
        let (in_flight, History { sink: gathered, mut freed, .. }) = (folded.in_flight, folded.sum);
        sink.join(gathered);
        known.append(&mut freed.numbers);
        known.sort();
        Ok(Freed { in_flight, ..freed })
    }

    /// Hands every event of these ledgers of one run to a sink; says what they do not have.
    pub(crate) fn gather<S: Sink>(
        &mut self,
        ledgers: &[&Ledger],
        fresh: &(dyn Fn() -> S + Sync),
        progress: &mut dyn FnMut(f32),
    ) -> Result<(S, Coverage), SourceError> {
        let mut sink = fresh();
        let Some((last, _)) = ledgers.split_last() else { return Ok((sink, Coverage::default())) };
        self.prepare(ledgers, progress)?;
        let sampling = Sampling::of(last);
        let mut found = Coverage { frees_recorded: records_frees(last), ..Coverage::default() };
        let mut samples = 0;
        let mut add_living = |wanted: &mut Self, sink: &mut S, found: &mut Coverage| {
            let (in_flight, blocks) = wanted.add_living(last, (sink, fresh), progress)?;
            found.in_flight += in_flight;
            Ok::<u64, SourceError>(blocks)
        };
        // A block of a running program that is freed between the two readings is found in both, or in neither.
        if S::KNOWS_THE_SAME {
            samples += add_living(self, &mut sink, &mut found)?;
        }
        // Numbers of the freed blocks that earlier ledgers have, in order.
        let (mut known, mut frees_before) = (Vec::new(), 0u64);
        // What was shown before the first is left out of all. What came between them is in one of them or in several.
        let shown = ledgers.first().map_or_else(Shown::default, |first| first.shown_before());
        for (index, ledger) in ledgers.iter().enumerate() {
            let further = index + 1 < ledgers.len();
            let before = FreesBefore::of(ledger)?;
            let freed = self.add_freed(ledger, (&mut sink, fresh), (shown, before), &mut known, further)?;
            samples += freed.blocks;
            found.in_flight += freed.in_flight;
            if index == 0 {
                found.frees_shown_before = freed.shown;
            }
            let frees = before.frees.max(frees_before);
            found.gaps.push((frees - frees_before).saturating_sub(freed.weight));
            frees_before = frees;
        }
        if !S::KNOWS_THE_SAME {
            samples += add_living(self, &mut sink, &mut found)?;
        }
        found.frees_missing = found.gaps.iter().fold(0, |sum, gap| sum.saturating_add(*gap));
        found.sampled = sampling.from(samples);
        Ok((sink, found))
    }

    /// The filter, as it can be read again.
    pub(crate) fn text(&self) -> Option<String> {
        self.filter.as_ref().filter(|filter| !filter.is_all()).map(|filter| filter.text().to_owned())
    }
}

/// What events are gathered in, from several ledgers.
pub(crate) trait Sink: Fold<Event> {
    /// Whether it notices an event that it was handed before.
    const KNOWS_THE_SAME: bool;
}

/// The allocations of blocks that live.
struct Living<S> {
    sink: S,
    /// How many blocks there are, whatever a filter means.
    blocks: u64,
}

impl<S: Sink> Fold<Entry> for Living<S> {
    #[inline]
    fn meet(&mut self, _: &Entry, _: u64) -> bool {
        self.blocks += 1;
        true
    }

    #[inline]
    fn add(&mut self, block: &Entry, act: Act, weight: u64) {
        self.sink.add(&Event { block: *block, kind: EventKind::Allocation { freed: None } }, act, weight);
    }

    fn join(&mut self, other: Self) {
        self.sink.join(other.sink);
        self.blocks += other.blocks;
    }
}

/// The events of blocks that were freed.
struct History<'n, S> {
    sink: S,
    /// Numbers of blocks that are known from ledgers before it, in order.
    earlier: &'n [u64],
    /// What was shown before all of them.
    shown: Shown,
    /// What it had to show when it was read.
    before: FreesBefore,
    /// Whether there are further ledgers.
    further: bool,
    freed: Freed,
}

impl<S: Sink> Fold<FreedEntry> for History<'_, S> {
    const ACTS: &'static [Act] = &[Act::Allocation, Act::Free];

    #[inline]
    fn meet(&mut self, entry: &FreedEntry, weight: u64) -> bool {
        if self.earlier.binary_search(&entry.block.number).is_ok() {
            return false;
        }
        if self.shown.has(entry) {
            self.freed.shown = self.freed.shown.saturating_add(weight);
            return false;
        }
        self.freed.blocks += 1;
        self.freed.weight = self.freed.weight.saturating_add(self.before.of_these(entry, weight));
        if self.further {
            self.freed.numbers.push(entry.block.number);
        }
        true
    }

    #[inline]
    fn add(&mut self, entry: &FreedEntry, act: Act, weight: u64) {
        let kind = match act {
            Act::Allocation => EventKind::Allocation { freed: Some(*entry) },
            Act::Free => EventKind::Free(*entry),
        };
        self.sink.add(&Event { block: entry.block, kind }, act, weight);
    }

    fn join(&mut self, other: Self) {
        self.sink.join(other.sink);
        self.freed.join(other.freed);
    }
}

/// What several ledgers of one run have of its history, and what not.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Coverage {
    /// Frees that are counted and were not gathered: with them the allocations of their blocks. An estimate if the
    /// ledger is sampled.
    pub frees_missing: u64,
    /// Those of `frees_missing` that are left out because an earlier copy of the ledger shows them.
    pub frees_shown_before: u64,
    /// Whether the last ledger recorded freed blocks at all.
    pub frees_recorded: bool,
    /// The same as `frees_missing` for each ledger, in the order given: frees since the one before it that neither has.
    pub gaps: Vec<u64>,
    /// What estimates come from; `None` if every block was entered.
    pub sampled: Option<Sampled>,
    /// Elements that were being written.
    pub in_flight: u64,
}

/// What a history told.
#[derive(Default)]
struct Freed {
    blocks: u64,
    /// How many they stand for.
    weight: u64,
    /// For how many those stand that were shown before.
    shown: u64,
    in_flight: u64,
    /// Numbers of the blocks, if they are needed.
    numbers: Vec<u64>,
}

impl Freed {
    fn join(&mut self, other: Freed) {
        self.blocks += other.blocks;
        self.weight = self.weight.saturating_add(other.weight);
        self.shown = self.shown.saturating_add(other.shown);
        self.in_flight += other.in_flight;
        self.numbers.extend(other.numbers);
    }
}

impl Events {
    /// The first `limit` events; 0 is all of them.
    ///
    /// # Errors
    /// If the ledger can no longer be read.
    pub fn first(ledger: &Ledger, limit: usize, progress: &mut dyn FnMut(f32)) -> Result<Events, SourceError> {
        Events::of_run(&[ledger], Wanted { keys: None, reverse: false, limit, filter: None }, progress)
    }

    /// The last `limit` events, the last one first; 0 is all of them.
    ///
    /// # Errors
    /// If the ledger can no longer be read.
    pub fn last(ledger: &Ledger, limit: usize, progress: &mut dyn FnMut(f32)) -> Result<Events, SourceError> {
        Events::of_run(&[ledger], Wanted { keys: None, reverse: true, limit, filter: None }, progress)
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
        let Wanted { keys, reverse, limit, .. } = wanted;
        let (chosen, found) = wanted.gather(ledgers, &|| FirstEvents::new(keys, reverse, limit), progress)?;
        let (events, total) = chosen.sorted(ledgers.last().is_some_and(|last| !last.is_finished()));
        let Coverage { frees_missing, frees_shown_before, frees_recorded, gaps, sampled, in_flight } = found;
        let filter = wanted.text();
        Ok(Events {
            events,
            total,
            frees_missing,
            frees_shown_before,
            frees_recorded,
            gaps,
            sampled,
            in_flight,
            filter,
        })
    }

    /// What the ledgers have of the history, and what not.
    pub fn coverage(&self) -> Coverage {
        Coverage {
            frees_missing: self.frees_missing,
            frees_shown_before: self.frees_shown_before,
            frees_recorded: self.frees_recorded,
            gaps: self.gaps.clone(),
            sampled: self.sampled,
            in_flight: self.in_flight,
        }
    }

    /// Events that there are and that are not shown.
    pub fn left_out(&self) -> u64 {
        self.total.saturating_sub(self.events.len() as u64)
    }
}
