//! Places for records: a short list per thread, and a shared pool of batches.
//!
//! A thread takes the slot that it gave back last, because its line is still in the cache. Its list
//! is bounded, so that one thread that only allocates and another that only frees do not make the
//! table grow: surplus goes to the pool a whole batch at a time, which is one compare-and-swap per
//! [`BATCH`] blocks. The pool's links lie in the vacant records themselves.
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

fn link(slot: Slot) -> u64 {
    u64::from(slot.0) + 1
}

fn slot_of(link: u64) -> Option<Slot> {
    u32::try_from(link).ok()?.checked_sub(1).map(Slot)
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
        let Some((first, rest)) = slots.split_first() else { return };
        before_changing(); // links lie in words of retracted records
        let mut at = *first;
        for next in rest {
            records.set_next(at, link(*next));
            at = *next;
        }
        records.set_next(at, NONE);
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            records.set_next_batch(*first, head & u64::from(u32::MAX));
            let new = (head >> 32).wrapping_add(1) << 32 | link(*first);
            match self.head.compare_exchange_weak(head, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Takes a batch out of the pool and into `slots`; returns how many there are.
    pub fn pop(&self, records: &impl Vacant, slots: &mut [Slot]) -> usize {
        let mut head = self.head.load(Ordering::Acquire);
        let first = loop {
            let Some(first) = slot_of(head & u64::from(u32::MAX)) else { return 0 };
            // Another thread may own `first` by now; then this is a stale value and the exchange fails.
            let below = records.next_batch(first) & u64::from(u32::MAX);
            let new = (head >> 32).wrapping_add(1) << 32 | below;
            match self.head.compare_exchange_weak(head, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => break first,
                Err(now) => head = now,
            }
        };
        let mut count = 0usize;
        let mut next = Some(first);
        for place in slots.iter_mut() {
            let Some(slot) = next else { break };
            *place = slot;
            count = count.wrapping_add(1);
            next = slot_of(records.next(slot));
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
