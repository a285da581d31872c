//! What a ledger must hold after a sequence of calls, by the plainest means.

use std::collections::BTreeMap;

use heapledger_format::header::flag;
use heapledger_format::layout::Field;
use heapledger_format::{Entry, GlobalCounter, Kind, TallyCounter};
use heapledger_recorder::policy::Reallocated;
use heapledger_source::Ledger;

use crate::accounts;

/// A block that an allocation function returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) kind: Kind,
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) actual: Option<u64>,
}

/// A backend, called as a library of hooks calls it.
pub(crate) trait Subject {
    fn begin(&mut self, block: &Block) -> bool;
    fn end(&mut self, address: u64, by: Kind) -> bool;
    /// A `realloc`; `between` begins while it is under way.
    fn realloc(&mut self, old: u64, kind: Kind, outcome: Reallocated<Block>, between: Option<&Block>) -> bool;
    /// The ledger as it is now.
    fn read(&mut self) -> Ledger;
}

/// What a thread keeps to itself: `linux::peak::ALLOWANCE_MAX`.
const PENDING_BYTES_MAX: u64 = 32 << 10;

/// The number of the beginning, the block.
type Live = (u64, Block);
/// The number of the end, the function, what ended.
type Freed = (u64, Kind, Live);

/// The model.
#[derive(Default)]
pub(crate) struct Model {
    capacity: usize,
    ring: usize,
    pub(crate) live: BTreeMap<u64, Live>,
    freed: Vec<Freed>,
    next_number: u64,
    /// Blocks taken out while `realloc` is under way.
    detached: usize,
    counts: BTreeMap<&'static str, u64>,
    peak: u64,
    /// Blocks that begin pass by.
    is_paused: bool,
    /// Blocks may have passed by.
    was_paused: bool,
    /// Bytes of blocks without room are counted.
    pub(crate) counts_lost_bytes: bool,
}

impl Model {
    /// Of a ledger with room for so many live blocks, and for so many in its history ring.
    pub(crate) fn new(capacity: usize, ring: usize) -> Model {
        Model { capacity, ring, ..Model::default() }
    }

    pub(crate) fn pause(&mut self) {
        (self.is_paused, self.was_paused) = (true, true);
    }

    pub(crate) fn resume(&mut self) {
        self.is_paused = false;
    }

    fn unknown(&mut self) {
        self.count(TallyCounter::UnknownFrees, u64::from(!self.was_paused));
    }

    fn count(&mut self, counter: TallyCounter, amount: u64) {
        *self.counts.entry(counter.name()).or_default() += amount;
    }

    fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number - 1
    }

    fn live_bytes(&self) -> u64 {
        self.live.values().map(|(_, block)| block.size).sum()
    }

    pub(crate) fn begin(&mut self, block: &Block) -> bool {
        if self.is_paused {
            return false;
        }
        if self.live.len() + self.detached == self.capacity {
            self.count(TallyCounter::LostNoRecord, 1);
            self.count(TallyCounter::LostBytes, if self.counts_lost_bytes { block.size } else { 0 });
            return false;
        }
        let number = self.number();
        self.enter(block, number);
        true
    }

    fn enter(&mut self, block: &Block, number: u64) {
        if let Some(old) = self.live.remove(&block.address) {
            self.count(TallyCounter::Displaced, 1);
            self.retire(old, number, Kind::UNSEEN);
        }
        self.live.insert(block.address, (number, *block));
        self.count(TallyCounter::Allocations, 1);
        self.count(TallyCounter::BytesAllocated, block.size);
        self.peak = self.peak.max(self.live_bytes());
    }

    fn retire(&mut self, old: Live, number: u64, by: Kind) {
        self.count(TallyCounter::Frees, 1);
        self.count(TallyCounter::BytesFreed, old.1.size);
        self.count(TallyCounter::HistoryEntered, 1);
        self.freed.push((number, by, old));
    }

    pub(crate) fn end(&mut self, address: u64, by: Kind) -> bool {
        let Some(old) = self.live.remove(&address) else {
            self.unknown();
            return false;
        };
        let number = self.number();
        self.retire(old, number, by);
        true
    }

    pub(crate) fn realloc(
        &mut self,
        old: u64,
        kind: Kind,
        outcome: Reallocated<Block>,
        between: Option<&Block>,
    ) -> bool {
        let detached = self.live.remove(&old).map(|old| (old, self.number()));
        self.detached = usize::from(detached.is_some());
        // Until the call has ended, the block is as alive as before.
        let held = detached.map_or(0, |(old, _)| old.1.size);
        if let Some(between) = between {
            let before = self.peak;
            if self.begin(between) {
                self.peak = before.max(self.live_bytes() + held);
            }
        }
        self.detached = 0;
        match (outcome, detached) {
            (_, None) if self.is_paused => false,
            (Reallocated::Gave(_), Some((old, number))) if self.is_paused => {
                self.retire(old, number, kind);
                false
            }
            (Reallocated::Gave(new), Some((old, number))) => {
                self.retire(old, number, kind);
                self.enter(&new, number);
                true
            }
            (Reallocated::Gave(new), None) => {
                self.unknown();
                self.begin(&new)
            }
            (Reallocated::Freed, Some((old, number))) => {
                self.retire(old, number, kind);
                false
            }
            (Reallocated::Freed, None) => {
                self.unknown();
                false
            }
            (Reallocated::Failed, detached) => {
                self.count(TallyCounter::FailedCalls, 1);
                if let Some((old, _)) = detached {
                    self.count(TallyCounter::NumbersUnused, 1);
                    self.live.insert(old.1.address, old);
                }
                false
            }
        }
    }

    /// Compares a ledger with the model.
    pub(crate) fn expect(&self, ledger: &Ledger, what: &str) {
        let mut live = BTreeMap::new();
        let mut records = ledger.records();
        while let Some(entries) = records.next_chunk().expect("records") {
            for entry in entries {
                assert!(live.insert(entry.address, read(entry)).is_none(), "{what}: an address twice");
            }
        }
        assert_eq!(live, self.live, "{what}: live blocks");
        let mut freed = Vec::new();
        let mut history = ledger.freed();
        while let Some(entries) = history.next_chunk().expect("history") {
            freed.extend(entries.iter().map(|entry| (entry.number, entry.by, read(&entry.block))));
        }
        let mut expected = self.freed[self.freed.len().saturating_sub(self.ring)..].to_vec();
        let escape = ledger.header().layout.all_ones(Field::Size).expect("sizes");
        for (_, _, (_, block)) in &mut expected {
            // A history entry has one place for a figure that does not fit, and the size comes first.
            block.actual = block.actual.filter(|_| block.size < escape);
        }
        for frees in [&mut freed, &mut expected] {
            frees.sort_by_key(|(number, _, (begun, _))| (*number, *begun));
        }
        assert_eq!(freed, expected, "{what}: the last frees");
        self.expect_counters(ledger, what);
        self.expect_accounts(ledger, what);
    }

    fn expect_accounts(&self, ledger: &Ledger, what: &str) {
        if let [only] = accounts::expect_agreement(ledger, what)[..] {
            assert_eq!((only.peak_bytes.0, only.frees_by_others.0), (self.peak, 0), "{what}: one thread's peak");
        }
    }

    fn expect_counters(&self, ledger: &Ledger, what: &str) {
        let tallies = ledger.tallies().expect("tallies");
        for counter in TallyCounter::ALL {
            let expected = self.counts.get(counter.name()).copied().unwrap_or(0);
            let is = tallies.get(*counter);
            let word_bits = ledger.header().codec.word.bits() as u32;
            let wrapped = expected & (u64::MAX >> (64 - word_bits));
            assert_eq!(is, wrapped, "{what}: {}", counter.name());
        }
        let global = |counter| ledger.global(counter).expect("a counter");
        assert_eq!(tallies.get(TallyCounter::Allocations) - tallies.get(TallyCounter::Frees), self.live.len() as u64);
        // Where there are threads, each keeps a little to itself; the peak is exact all the same.
        let lag = global(GlobalCounter::LiveBytes).abs_diff(self.live_bytes());
        let has_threads = ledger.header().flags & flag::PUBLISHED_SINGLY != 0;
        let may_lag = if has_threads { PENDING_BYTES_MAX } else { 0 };
        assert!(lag <= may_lag, "{what}: live bytes lag by {lag}");
        assert_eq!(global(GlobalCounter::PeakBytes), self.peak, "{what}: peak");
        assert_eq!(global(GlobalCounter::PeakError), 0, "{what}");
    }
}

fn read(entry: &Entry) -> Live {
    let block =
        Block { kind: entry.kind, address: entry.address, size: entry.size.expect("a size"), actual: entry.actual };
    (entry.number, block)
}
