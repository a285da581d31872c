//! Places for records: a short list per thread, and a shared pool of batches.
//!
//! A thread takes the slot that it gave back last, because its line is still in the cache. Its list
//! is bounded, so that one thread that only allocates and another that only frees do not make the
//! table grow: surplus goes to the pool a whole batch at a time, which is one compare-and-swap per
//! [`BATCH`] blocks. The pool's links lie in the vacant records themselves, three slots beside each other: what was given back
//! long ago is in no cache, and each record that has to be read before the next is known takes as long as all else that an
//! allocation does.
#![forbid(unsafe_code)]

use crate::publication::before_changing;
use crate::sync::{AtomicU64, Ordering, const_unless_loom};
use heapledger_recorder::backend::Slot;

/// Slots of a full batch.
pub const BATCH: usize = 64;
/// Slots that a thread keeps at most.
pub const LOCAL_MAX: usize = 2 * BATCH;

/// Where records lie, as far as the pool needs to know: two words of a vacant record.
pub trait Vacant {
    /// Reads the word that links the slots of a batch.
    fn next(&self, slot: Slot) -> u64;
    /// Writes it.
    fn set_next(&self, slot: Slot, link: u64);
    /// Reads the word that links batches.
    fn next_batch(&self, slot: Slot) -> u64;
    /// Writes it.
    fn set_next_batch(&self, slot: Slot, link: u64);
}

/// The shared pool: a stack of batches. The head holds a tag that changes with every push and
/// pop, so that a head seen twice is the same stack.
pub struct Pool {
    head: AtomicU64,
}

const NONE: u64 = 0;
/// Slots that are known by one record: its own, and one beside each of its two links.
const GROUP: usize = 3;
const LINK_BITS: u32 = 32;
const LINK_MASK: u64 = u32::MAX as u64;

fn link(slot: Slot) -> u64 {
    u64::from(slot.0) + 1
}

fn slot_of(link: u64) -> Option<Slot> {
    u32::try_from(link).ok()?.checked_sub(1).map(Slot)
}

/// A link, and beside it a slot.
fn with_beside(link_below: u64, beside: Option<&Slot>) -> u64 {
    link_below | beside.map_or(NONE, |slot| link(*slot)) << LINK_BITS
}

/// The slot beside a link.
fn beside(word: u64) -> Option<Slot> {
    slot_of(word >> LINK_BITS)
}

impl Pool {
    const_unless_loom! {
        /// An empty pool.
        pub fn new() -> Pool {
            Pool { head: AtomicU64::new(NONE) }
        }
    }

    /// Puts slots into the pool as one batch.
    pub fn push(&self, records: &impl Vacant, slots: &[Slot]) {
        let Some(first) = slots.first() else { return };
        before_changing(); // links lie in words of retracted records
        let mut groups = slots.chunks(GROUP);
        let mut group = groups.next();
        while let Some([at, others @ ..]) = group {
            group = groups.next();
            let next = group.and_then(<[Slot]>::first).map_or(NONE, |next| link(*next));
            records.set_next(*at, with_beside(next, others.first()));
            // The first one's has the batch below, too.
            records.set_next_batch(*at, with_beside(NONE, others.get(1)));
        }
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            records.set_next_batch(*first, with_beside(head & LINK_MASK, slots.get(2)));
            let new = (head >> LINK_BITS).wrapping_add(1) << LINK_BITS | link(*first);
            match self.head.compare_exchange_weak(head, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Takes a batch out of the pool and into `slots`, which has room for a full one; returns how many there are.
    pub fn pop(&self, records: &impl Vacant, slots: &mut [Slot]) -> usize {
        let mut head = self.head.load(Ordering::Acquire);
        let first = loop {
            let Some(first) = slot_of(head & LINK_MASK) else { return 0 };
            // Another thread may own `first` by now; then this is a stale value and the exchange fails.
            let below = records.next_batch(first) & LINK_MASK;
            let new = (head >> LINK_BITS).wrapping_add(1) << LINK_BITS | below;
            match self.head.compare_exchange_weak(head, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => break first,
                Err(now) => head = now,
            }
        };
        let mut places = slots.iter_mut();
        let mut count = 0usize;
        let mut group = Some(first);
        while let Some(at) = group {
            let (next, batch) = (records.next(at), records.next_batch(at));
            for slot in [Some(at), beside(next), beside(batch)].into_iter().flatten() {
                let Some(place) = places.next() else { return count };
                *place = slot;
                count = count.wrapping_add(1);
            }
            group = slot_of(next & LINK_MASK);
        }
        count
    }
}

impl Default for Pool {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::sync::Arc;
    use std::vec::Vec;

    struct Table(Vec<[AtomicU64; 2]>);

    impl Table {
        fn new(slots: usize) -> Table {
            Table((0..slots).map(|_| [AtomicU64::new(0), AtomicU64::new(0)]).collect())
        }
    }

    impl Vacant for Table {
        fn next(&self, slot: Slot) -> u64 {
            self.0[slot.0 as usize][0].load(Ordering::Relaxed)
        }
        fn set_next(&self, slot: Slot, link: u64) {
            self.0[slot.0 as usize][0].store(link, Ordering::Relaxed);
        }
        fn next_batch(&self, slot: Slot) -> u64 {
            self.0[slot.0 as usize][1].load(Ordering::Relaxed)
        }
        fn set_next_batch(&self, slot: Slot, link: u64) {
            self.0[slot.0 as usize][1].store(link, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_batch_of_any_length_comes_back_whole() {
        let (pool, table) = (Pool::new(), Table::new(BATCH));
        for length in 1..=BATCH {
            // Not in the order in which they lie.
            let batch: Vec<Slot> = (0..length as u32).map(|slot| Slot(slot * 37 % BATCH as u32)).collect();
            pool.push(&table, &batch);
            let mut slots = [Slot(u32::MAX); BATCH];
            assert_eq!(pool.pop(&table, &mut slots), length);
            assert_eq!(slots[..length], batch);
            assert_eq!(pool.pop(&table, &mut slots), 0);
        }
    }

    #[test]
    fn threads_trade_batches_and_no_slot_is_lost_or_doubled() {
        const THREADS: u32 = 4;
        const PER_THREAD: u32 = 4 * BATCH as u32;
        let shared = Arc::new((Pool::new(), Table::new((THREADS * PER_THREAD) as usize)));
        let workers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || {
                    let (pool, table) = &*shared;
                    let mut held: Vec<Slot> = (thread * PER_THREAD..(thread + 1) * PER_THREAD).map(Slot).collect();
                    for round in 0..20_000usize {
                        if round % 3 == 0 && held.len() >= BATCH {
                            let batch: Vec<Slot> = held.drain(..BATCH - round % 7).collect();
                            pool.push(table, &batch);
                        } else {
                            let mut slots = [Slot(0); BATCH];
                            let count = pool.pop(table, &mut slots);
                            held.extend_from_slice(&slots[..count]);
                        }
                    }
                    held
                })
            })
            .collect();
        let mut all: Vec<Slot> = workers.into_iter().flat_map(|worker| worker.join().expect("worker")).collect();
        let mut slots = [Slot(0); BATCH];
        loop {
            let count = shared.0.pop(&shared.1, &mut slots);
            if count == 0 {
                break;
            }
            all.extend_from_slice(&slots[..count]);
        }
        assert_eq!(all.len(), (THREADS * PER_THREAD) as usize);
        assert_eq!(all.iter().copied().collect::<BTreeSet<_>>().len(), all.len());
    }
}
