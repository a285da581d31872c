//! Who may write where in a ring of entries.
//!
//! Entries are leased: a few to a thread that has freed little, up to a chunk to one that frees much, never more than
//! it has filled before. The ring grows as long as there is storage. What is leased and not filled is then no more than
//! what is filled, so at least half of the ring holds something when it begins to go round, however many threads there
//! are or were; and from then on an entry only makes place for a newer one.
//!
//! For each chunk the entries are counted whose leases have ended. A chunk of which all have is leased anew, and no other: not
//! one that is fresh, nor one of which something is yet to be handed out. Chunks are taken in their order, and those that are
//! still leased are passed over. One whose storage was given back is never leased again.
#![forbid(unsafe_code)]

use crate::sync::{AtomicU32, AtomicU64, Ordering, const_unless_loom};

/// Stands in the place of a count: the storage was given back.
pub const RETIRED: u32 = u32::MAX;
/// One in so many chunks may be kept from others by a lease that is not ended, or two. With more leases than that,
/// entries are leased one by one.
const LEASES_ONE_IN: u64 = 4;
/// Bits of what is left of the open chunk.
const LEFT_BITS: u32 = 8;

/// Where entries lie.
pub trait Ring {
    /// Of how many of a chunk's entries the leases have ended; 0 while fresh. There is one for each chunk that it can have.
    fn ended(&self, chunk: u64) -> Option<&AtomicU32>;
    /// The first of so many entries that nobody had before; `None` if there is no storage, or others are at it.
    fn grow(&self, entries: u64) -> Option<u64>;
    /// Whether there is no storage for so many more, as far as anybody knows.
    fn is_short_of(&self, entries: u64) -> bool {
        let _ = entries;
        true
    }
    /// How many entries it has grown by.
    fn entries(&self) -> u64;
    /// How many it can have at most.
    fn entries_max(&self) -> u64;
    /// Gives the storage of a retired chunk back.
    fn give_back(&self, chunk: u64) -> bool;
}

/// Entries that their holder alone may write, until it [releases](Chunks::release) them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The first.
    pub first: u64,
    /// How many; not 0.
    pub count: u64,
}

/// The state of a ring with chunks of `ENTRIES` entries.
pub struct Chunks<const ENTRIES: u64> {
    /// Chunks that the ring goes round in; 0 while it still grows.
    round: AtomicU64,
    cursor: AtomicU64,
    /// The chunk from which small leases come, once the ring goes round, and how much of it is left.
    open: AtomicU64,
    /// Leases of more than one entry that have not ended.
    leases: AtomicU64,
}

impl<const ENTRIES: u64> Chunks<ENTRIES> {
    /// How many leased chunks are passed over before a lease is given up.
    const PASSES_MAX: u64 = 16 * ENTRIES;
    /// How often a thread asks again for more storage where others are at it.
    const PATIENCE: u32 = 3;

    const_unless_loom! {
        /// A ring that grows.
        pub fn new() -> Self {
            const { assert!(ENTRIES > 0 && ENTRIES < 1 << LEFT_BITS) };
            Chunks {
                round: AtomicU64::new(0),
                cursor: AtomicU64::new(0),
                open: AtomicU64::new(0),
                leases: AtomicU64::new(0),
            }
        }
    }

    /// The chunk that an entry lies in; the chunks that so many entries fill.
    #[inline(always)]
    fn chunk_of(entry: u64) -> u64 {
        entry.checked_div(ENTRIES).unwrap_or(0) // never 0: see `new`
    }

    /// The first entry of a chunk.
    #[inline(always)]
    fn first_of(chunk: u64) -> u64 {
        chunk.wrapping_mul(ENTRIES)
    }

    /// Leases entries to a thread that has filled so many before: as many again at most, and at least one.
    pub fn lease(&self, ring: &impl Ring, filled: u64) -> Option<Lease> {
        let wanted = filled.clamp(1, ENTRIES);
        if wanted == 1 {
            return self.find(ring, 1);
        }
        let chunks = match self.round.load(Ordering::Relaxed) {
            0 => Self::chunk_of(ring.entries_max()),
            round => round,
        };
        let may_keep = self.leases.fetch_add(1, Ordering::Relaxed) < chunks / LEASES_ONE_IN;
        let lease = self.find(ring, if may_keep { wanted } else { 1 });
        if lease.is_none_or(|lease| lease.count == 1) {
            self.leases.fetch_sub(1, Ordering::Relaxed);
        }
        lease
    }

    fn find(&self, ring: &impl Ring, wanted: u64) -> Option<Lease> {
        // One after the other, not one inside of the other: that takes less stack.
        if self.round.load(Ordering::Acquire) == 0
            && let Some(lease) = self.grow(ring, wanted)
        {
            return Some(lease);
        }
        self.go_round(ring, wanted)
    }

    #[inline(never)]
    fn grow(&self, ring: &impl Ring, wanted: u64) -> Option<Lease> {
        let (mut count, mut tries) = (wanted, 0u32);
        while count > 0 {
            if let Some(first) = ring.grow(count) {
                return Some(Lease { first, count });
            }
            if ring.is_short_of(count) {
                count /= 2;
                continue;
            }
            // Others make it longer, and take long: no reason to make do with what there is for good.
            tries = tries.wrapping_add(1);
            if tries > Self::PATIENCE {
                return None;
            }
        }
        let _ = self.round.compare_exchange(0, Self::chunk_of(ring.entries()), Ordering::AcqRel, Ordering::Relaxed);
        None
    }

    #[inline(never)]
    fn go_round(&self, ring: &impl Ring, wanted: u64) -> Option<Lease> {
        let is_whole = wanted == ENTRIES;
        for _ in 0..Self::PASSES_MAX {
            let open = self.open.load(Ordering::Acquire);
            let (chunk, left) = (open >> LEFT_BITS, open & ((1 << LEFT_BITS) - 1));
            let leave = |chunk: u64, left| {
                let now = chunk << LEFT_BITS | left;
                self.open.compare_exchange(open, now, Ordering::AcqRel, Ordering::Relaxed).is_ok()
            };
            if left != 0 && !is_whole {
                let count = wanted.min(left);
                if leave(chunk, left.wrapping_sub(count)) {
                    return Some(Lease { first: Self::first_of(chunk.wrapping_add(1)).wrapping_sub(left), count });
                }
                continue;
            }
            let chunk = self.cursor.fetch_add(1, Ordering::Relaxed).checked_rem(self.round.load(Ordering::Acquire))?;
            let (ended, all) = (ring.ended(chunk)?, ENTRIES as u32);
            if ended.load(Ordering::Relaxed) != all
                || ended.compare_exchange(all, 0, Ordering::AcqRel, Ordering::Relaxed).is_err()
            {
                continue;
            }
            if is_whole || leave(chunk, ENTRIES.wrapping_sub(wanted)) {
                return Some(Lease { first: Self::first_of(chunk), count: wanted });
            }
            // Somebody else has opened one: this one stays as it was.
            ended.store(all, Ordering::Release);
        }
        None
    }

    /// How often it has begun to go round.
    pub fn rounds(&self) -> u64 {
        match self.round.load(Ordering::Relaxed) {
            0 => 0,
            round => self.cursor.load(Ordering::Relaxed).div_ceil(round),
        }
    }

    /// Ends a lease. To be done once.
    pub fn release(&self, ring: &impl Ring, lease: Lease) {
        let Lease { first, count } = lease;
        let end = first.wrapping_add(count);
        let mut at = first;
        while at < end {
            let chunk = Self::chunk_of(at);
            let next = end.min(Self::first_of(chunk.wrapping_add(1)));
            if let Some(ended) = ring.ended(chunk) {
                ended.fetch_add(next.wrapping_sub(at) as u32, Ordering::Release);
            }
            at = next;
        }
        if count > 1 {
            self.leases.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Halves the ring and gives the storage of the upper half back. Returns whether something was given back.
    pub fn shrink(&self, ring: &impl Ring) -> bool {
        let grown = Self::chunk_of(ring.entries());
        let chunks = |round| if round == 0 { grown } else { round };
        let half = |round| Some(chunks(round) / 2).filter(|keep| *keep != 0);
        let Ok(before) = self.round.fetch_update(Ordering::AcqRel, Ordering::Acquire, half) else { return false };
        let mut given = false;
        for chunk in chunks(before) / 2..chunks(before) {
            // Who still leases of a chunk of the upper half keeps it; nobody leases it after him.
            let retire = |ended: &AtomicU32| {
                ended.compare_exchange(ENTRIES as u32, RETIRED, Ordering::AcqRel, Ordering::Relaxed).is_ok()
            };
            if ring.ended(chunk).is_some_and(retire) {
                given |= ring.give_back(chunk);
            }
        }
        given
    }
}

impl<const ENTRIES: u64> Default for Chunks<ENTRIES> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;
    use core::cell::Cell;
    use std::vec::Vec;

    const ENTRIES: u64 = 64;

    struct Memory {
        chunks: Chunks<ENTRIES>,
        ended: Vec<AtomicU32>,
        grown: Cell<u64>,
        /// The free that each entry holds.
        held: Vec<Cell<Option<u64>>>,
        frees: Cell<u64>,
        lost: Cell<u64>,
        /// How often somebody else is at it who makes it longer.
        busy: Cell<u32>,
    }

    impl Ring for Memory {
        fn ended(&self, chunk: u64) -> Option<&AtomicU32> {
            self.ended.get(chunk as usize)
        }
        fn grow(&self, entries: u64) -> Option<u64> {
            if let Some(busy) = self.busy.get().checked_sub(1) {
                self.busy.set(busy);
                return None;
            }
            let first = self.grown.get();
            (first + entries <= self.entries_max()).then(|| {
                self.grown.set(first + entries);
                first
            })
        }
        fn is_short_of(&self, entries: u64) -> bool {
            self.grown.get() + entries > self.entries_max()
        }
        fn entries(&self) -> u64 {
            self.grown.get()
        }
        fn entries_max(&self) -> u64 {
            self.held.len() as u64
        }
        fn give_back(&self, _chunk: u64) -> bool {
            true
        }
    }

    #[derive(Default)]
    struct Thread {
        lease: Option<Lease>,
        next: u64,
        filled: u64,
    }

    impl Memory {
        fn new(chunks: u64) -> Memory {
            Memory {
                chunks: Chunks::new(),
                ended: (0..chunks).map(|_| AtomicU32::new(0)).collect(),
                grown: Cell::new(0),
                held: (0..chunks * ENTRIES).map(|_| Cell::new(None)).collect(),
                frees: Cell::new(0),
                lost: Cell::new(0),
                busy: Cell::new(0),
            }
        }

        fn free(&self, thread: &mut Thread) {
            self.frees.set(self.frees.get() + 1);
            if thread.lease.is_none_or(|lease| thread.next == lease.first + lease.count) {
                self.end(thread);
                let Some(lease) = self.chunks.lease(self, thread.filled) else {
                    self.lost.set(self.lost.get() + 1);
                    return;
                };
                thread.next = lease.first;
                thread.lease = Some(lease);
            }
            self.held[thread.next as usize].set(Some(self.frees.get()));
            (thread.next, thread.filled) = (thread.next + 1, thread.filled + 1);
            if thread.lease.is_some_and(|lease| lease.count == 1) {
                self.end(thread);
            }
        }

        fn end(&self, thread: &mut Thread) {
            if let Some(lease) = thread.lease.take() {
                self.chunks.release(self, lease);
            }
        }

        fn expect_held(&self, what: &str) {
            let held = self.held.iter().filter(|entry| entry.get().is_some()).count() as u64;
            let (frees, capacity) = (self.frees.get(), self.held.len() as u64);
            assert!(held >= frees.min(capacity / 2), "{what}: {held} of {frees} frees are held, {capacity} have room");
            assert_eq!(self.lost.get(), 0, "{what}: frees found no room");
        }

        /// The newest frees are there, and nothing is much older than its time.
        fn expect_newest(&self, what: &str, newest: u64) {
            let held: std::collections::BTreeSet<u64> = self.held.iter().filter_map(Cell::get).collect();
            let frees = self.frees.get();
            assert!((frees - newest + 1..=frees).all(|free| held.contains(&free)), "{what}");
        }
    }

    #[test]
    fn threads_that_free_little_do_not_use_up_the_ring() {
        for (threads, each, chunks) in
            [(5000, 2, 1024), (5000, 20, 1024), (20_000, 1, 64), (3, 1000, 2), (1, 70_000, 1024)]
        {
            let memory = Memory::new(chunks);
            let mut living: Vec<Thread> = (0..threads).map(|_| Thread::default()).collect();
            for _ in 0..each {
                for thread in &mut living {
                    memory.free(thread);
                    memory.expect_held_now_and_then();
                }
            }
            memory.expect_held(&std::format!("{threads} threads with {each} frees each"));
            memory.expect_newest("all live", (chunks * ENTRIES / 4).min(memory.frees.get()));
        }
    }

    impl Memory {
        fn expect_held_now_and_then(&self) {
            if self.frees.get().is_multiple_of(4099) {
                self.expect_held("meanwhile");
            }
        }
    }

    #[test]
    fn however_threads_come_and_go_half_of_the_ring_is_held() {
        let mut random = 1u64;
        let mut below = |limit: u64| {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (random >> 33) % limit
        };
        for round in 0..60 {
            let memory = Memory::new(1 + below(64));
            let mut living: Vec<Thread> = Vec::new();
            let (most, patience) = (1 + below(600), 1 + below(200));
            for _ in 0..20_000 {
                match below(patience) {
                    0 if !living.is_empty() => {
                        let mut gone = living.swap_remove(below(living.len() as u64) as usize);
                        memory.end(&mut gone);
                    }
                    _ if (living.len() as u64) < most => living.push(Thread::default()),
                    _ => {}
                }
                if !living.is_empty() {
                    // Few are busy, the others idle with what they have leased.
                    let busy = 1 + below(living.len() as u64);
                    memory.free(&mut living[below(busy) as usize]);
                }
                memory.expect_held_now_and_then();
            }
            memory.expect_held(&std::format!("round {round}"));
        }
    }

    #[test]
    fn who_finds_others_at_it_does_not_make_do_with_what_there_is() {
        let (memory, mut thread) = (Memory::new(4), Thread::default());
        for busy in [1, 3, 4, 100] {
            memory.busy.set(busy);
            memory.free(&mut thread);
        }
        assert_eq!(memory.lost.get(), 2, "only of those who asked as often as they may");
        memory.busy.set(0);
        while memory.grown.get() < memory.entries_max() {
            memory.free(&mut thread);
        }
        let held = memory.held.iter().filter(|entry| entry.get().is_some()).count() as u64;
        assert!(held >= memory.entries_max() - ENTRIES, "{held} entries");
    }

    #[test]
    fn what_is_leased_is_nobody_elses_also_after_the_ring_was_halved() {
        let memory = Memory::new(8);
        let mut busy = Thread::default();
        (0..2000).for_each(|_| memory.free(&mut busy));
        assert!(memory.chunks.shrink(&memory));
        let retired = || memory.ended.iter().filter(|ended| ended.load(Ordering::Relaxed) == RETIRED).count();
        assert!(retired() >= 3, "{}", retired());
        let before = retired();
        (0..2000).for_each(|_| memory.free(&mut busy));
        assert_eq!((retired(), memory.lost.get()), (before, 0));
        while memory.chunks.shrink(&memory) {}
        (0..500).for_each(|_| memory.free(&mut busy));
        assert_eq!(memory.lost.get(), 0, "one chunk is always left");
    }
}
