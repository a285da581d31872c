//! One look at a ledger.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use heapledger_format::{Entry, GlobalCounter, Kind, Site, TallyCounter, ThreadRow, Ticks};
use heapledger_source::{Ledger, SourceError, Thread};

use super::mark::{Mark, SeenNumbers};
use crate::fold::{Act, Fold, Folded, fold};
use crate::peak::{PeakBounds, PeakMoment};
use crate::query::Evaluator;
use crate::{Amount, Clock, Identity, Sampling, Seen};

/// Most cells of one reading. A program has some ten thousands; a forged ledger may have as many as records.
const CELLS_MAX: usize = 1 << 20;
/// Sites up to here are found without hashing, at four bytes each.
const DIRECT_SITES: usize = 1 << 24;

/// What blocks have in common that are added up in one cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CellKey {
    /// The call site; 0: none.
    pub site: Site,
    /// The row of the thread.
    pub thread: Option<ThreadRow>,
    /// The function that allocated.
    pub kind: Kind,
}

/// The live blocks of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// What they have in common.
    pub key: CellKey,
    /// All of them.
    pub live: Amount,
    /// Those that came after the mark; none without a mark.
    pub young: Amount,
    /// When the first of them was allocated; of the young ones if there is a mark and any are young.
    pub oldest: Option<Ticks>,
    /// When the last of them was allocated.
    pub newest: Option<Ticks>,
}

impl Cell {
    /// None of this key yet.
    pub(super) fn none(key: CellKey) -> Cell {
        Cell { key, live: Amount::default(), young: Amount::default(), oldest: None, newest: None }
    }

    /// Adds other blocks to it, of the same key or of one that is not told apart from it.
    #[inline]
    pub(super) fn join(&mut self, other: &Cell) {
        self.live.join(other.live);
        let (own_young, young) = (self.young.samples != 0, other.young.samples != 0);
        self.young.join(other.young);
        if young && !own_young {
            (self.oldest, self.newest) = (other.oldest, other.newest);
        } else if young || !own_young {
            self.oldest = self.oldest.into_iter().chain(other.oldest).min();
            self.newest = self.newest.max(other.newest);
        }
    }
}

/// Figures that cost little to read.
#[derive(Clone, Debug)]
pub struct Totals {
    /// When, on the watcher's own clock, in nanoseconds.
    pub at_ns: u64,
    /// The program, and whether it runs.
    pub identity: Identity,
    /// The ledger's clock at that time.
    pub clock: Clock,
    /// How blocks were chosen.
    pub sampling: Sampling,
    /// Blocks entered since the start.
    pub allocations: u64,
    /// Of them, freed.
    pub frees: u64,
    /// Bytes asked for in all blocks entered.
    pub bytes_allocated: u64,
    /// Bytes that live, as the totals say.
    pub live_bytes: u64,
    /// Blocks that live, as the totals say.
    pub live_blocks: u64,
    /// The highest that live bytes were.
    pub peak_bytes: u64,
    /// Calls that began blocks, by function.
    pub kinds: Vec<(Kind, u64)>,
    /// The threads that have a row.
    pub threads: Vec<Thread>,
    /// What is not seen.
    pub seen: Seen,
}

/// All live blocks, added up by [`CellKey`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// When the reading ended, on the watcher's own clock, in nanoseconds.
    pub at_ns: u64,
    /// How long it took.
    pub took_ns: u64,
    /// The cells, by key.
    pub cells: Arc<Vec<Cell>>,
    /// All blocks.
    pub live: Amount,
    /// Those that came after the mark.
    pub young: Amount,
    /// Records that were being written.
    pub in_flight: u64,
    /// Records whose cell there was no room for: they are added up without a call site.
    pub folded: u64,
    pub(super) numbers: SeenNumbers,
}

impl Sample {
    /// The same later: nothing was allocated or freed since.
    #[must_use]
    pub fn again(&self, at_ns: u64) -> Sample {
        Sample { at_ns, ..self.clone() }
    }
}

/// Reads one ledger as often as asked.
#[derive(Debug)]
pub struct Reader<'a> {
    ledger: &'a Ledger,
    sampling: Sampling,
    began: Instant,
}

impl<'a> Reader<'a> {
    /// A reader whose clock counts from `began`.
    pub fn new(ledger: &'a Ledger, began: Instant) -> Reader<'a> {
        Reader { ledger, sampling: Sampling::of(ledger), began }
    }

    /// The time on its clock.
    pub fn now_ns(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// The totals as they are at `now`.
    ///
    /// # Errors
    /// If the ledger can no longer be read.
    pub fn totals(&self, now: SystemTime) -> Result<Totals, SourceError> {
        // In the order in which bounds of the peak want them, see `PeakBounds::of`.
        let (points, tallies) = (self.ledger.timeline()?, self.ledger.tallies()?);
        let bounds = PeakBounds::from(&points, &tallies, &self.ledger.current_header()?);
        let get = |counter| tallies.get(counter);
        // Counters of several threads are read one after the other: a free may be seen whose allocation was not.
        let live_bytes = get(TallyCounter::BytesAllocated).saturating_sub(get(TallyCounter::BytesFreed));
        let live_blocks = get(TallyCounter::Allocations).saturating_sub(get(TallyCounter::Frees));
        let clock = Clock::new(self.ledger, now)?;
        let live = PeakMoment { bytes: live_bytes, blocks: live_blocks, ..PeakMoment::default() };
        Ok(Totals {
            at_ns: self.now_ns(),
            identity: Identity::of(self.ledger),
            clock,
            sampling: self.sampling,
            allocations: get(TallyCounter::Allocations),
            frees: get(TallyCounter::Frees),
            bytes_allocated: get(TallyCounter::BytesAllocated),
            live_bytes,
            live_blocks,
            peak_bytes: bounds.with_live(live).peak(&clock).bytes,
            kinds: tallies.begun().into_iter().map(|(kind, calls)| (Kind(kind), calls)).collect(),
            threads: self.ledger.threads()?,
            seen: Seen::of(self.ledger, 0)?,
        })
    }

    /// Reads all records that `filter` means. With a `mark`, the young ones are added up apart, too. One thread does it:
    /// the others are the watched program's.
    ///
    /// # Errors
    /// If the ledger can no longer be read.
    pub fn sample(&self, mark: Option<&Mark>, filter: Option<&mut Evaluator<'_>>) -> Result<Sample, SourceError> {
        let start = self.now_ns();
        let header = self.ledger.current_header()?;
        let next = header.global(GlobalCounter::NextNumber);
        let fresh = || Sums {
            mark,
            cells: Vec::new(),
            latest: Vec::new(),
            places: HashMap::default(),
            sample: Sample { numbers: SeenNumbers::from(next, u64::from(header.order_bound)), ..Sample::default() },
        };
        let Folded { sum: mut sums, in_flight } = fold(self.ledger, filter, 1, &fresh, &mut |_| {})?;
        let mut sample = sums.sample;
        sample.in_flight = in_flight;
        sums.cells.sort_unstable_by_key(|cell| cell.key);
        sample.cells = Arc::new(sums.cells);
        sample.numbers.finish();
        sample.at_ns = self.now_ns();
        sample.took_ns = sample.at_ns - start;
        Ok(sample)
    }
}

/// A sample in the making.
struct Sums<'m> {
    mark: Option<&'m Mark>,
    cells: Vec<Cell>,
    /// By site: the cell that was used last, plus one. Mostly it is the one needed.
    latest: Vec<u32>,
    places: HashMap<CellKey, u32, BuildHasherDefault<KeyHasher>>,
    sample: Sample,
}

impl Fold<Entry> for Sums<'_> {
    /// Also what is not wanted now is old for a mark that is set now: what is wanted may change.
    #[inline]
    fn meet(&mut self, entry: &Entry, _: u64) -> bool {
        self.sample.numbers.note(entry.number);
        true
    }

    #[inline]
    fn add(&mut self, entry: &Entry, _: Act, weight: u64) {
        let young = self.mark.is_some_and(|mark| mark.is_young(entry.number));
        let mut amount = Amount::default();
        amount.add(entry, weight);
        let key = CellKey { site: entry.site, thread: entry.thread, kind: entry.kind };
        let young_amount = if young { amount } else { Amount::default() };
        self.put(&Cell { key, live: amount, young: young_amount, oldest: entry.time, newest: entry.time });
    }

    fn join(&mut self, other: Self) {
        other.cells.iter().for_each(|cell| self.put(cell));
        self.sample.numbers.join(other.sample.numbers);
        self.sample.folded += other.sample.folded;
    }
}

impl Sums<'_> {
    /// Adds a cell to what there is of its key.
    #[inline]
    fn put(&mut self, part: &Cell) {
        let place = self.place(part.key);
        let Some(cell) = self.cells.get_mut(place) else { return };
        self.sample.live.join(part.live);
        self.sample.young.join(part.young);
        cell.join(part);
    }

    #[inline]
    fn place(&mut self, key: CellKey) -> usize {
        let latest = self.latest.get(key.site.index()).map_or(0, |latest| *latest as usize);
        match latest.checked_sub(1) {
            Some(place) if self.cells.get(place).is_some_and(|cell| cell.key == key) => place,
            _ => self.look_up(key),
        }
    }

    fn look_up(&mut self, mut key: CellKey) -> usize {
        if !self.places.contains_key(&key) && self.cells.len() >= CELLS_MAX && key.site != Site::NONE {
            self.sample.folded += 1;
            key.site = Site::NONE;
        }
        let next = self.cells.len() as u32;
        let place = *self.places.entry(key).or_insert(next);
        if place == next {
            self.cells.push(Cell::none(key));
        }
        let site = key.site.index();
        if site < DIRECT_SITES {
            if site >= self.latest.len() {
                self.latest.resize((site + 1).max(self.latest.len() * 2).min(DIRECT_SITES), 0);
            }
            self.latest[site] = place + 1;
        }
        place as usize
    }
}

/// Keys are few and not chosen by an enemy who gains anything.
#[derive(Default)]
struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u8(&mut self, value: u8) {
        self.write_u64(u64::from(value));
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    fn write_isize(&mut self, value: isize) {
        self.write_u64(value as u64);
    }
}

#[cfg(test)]
mod tests;
