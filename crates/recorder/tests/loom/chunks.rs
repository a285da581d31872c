//! Chunks of the history ring.

use crate::{check, race};
use heapledger_recorder::linux::chunks::{Chunks, RETIRED, Ring, release};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// A ring with storage for so many chunks.
struct Memory {
    chunks: Chunks,
    owners: Vec<AtomicU32>,
    grown: AtomicU64,
    /// Who writes into a chunk right now. Loom must see these, too: it skips orders that differ in nothing
    /// that it sees. They are only exchanged, because an exchange always finds the latest value.
    writers: Vec<AtomicU64>,
    given_back: Vec<AtomicBool>,
}

impl Ring for Memory {
    fn owner(&self, chunk: u64) -> &AtomicU32 {
        &self.owners[chunk as usize]
    }
    fn grow(&self) -> Option<u64> {
        let room = self.owners.len() as u64;
        self.grown.fetch_update(Ordering::AcqRel, Ordering::Acquire, |grown| (grown < room).then_some(grown + 1)).ok()
    }
    fn chunks(&self) -> u64 {
        self.grown.load(Ordering::Acquire)
    }
    fn give_back(&self, chunk: u64) -> bool {
        let writer = self.writers[chunk as usize].fetch_add(0, Ordering::Relaxed);
        assert_eq!(writer, 0, "storage of a leased chunk was given back");
        !self.given_back[chunk as usize].swap(true, Ordering::Relaxed)
    }
}

impl Memory {
    fn new(chunks: usize) -> Arc<Memory> {
        Arc::new(Memory {
            chunks: Chunks::new(),
            owners: (0..chunks).map(|_| AtomicU32::new(0)).collect(),
            grown: AtomicU64::new(0),
            writers: (0..chunks).map(|_| AtomicU64::new(0)).collect(),
            given_back: (0..chunks).map(|_| AtomicBool::new(false)).collect(),
        })
    }

    /// Leases a chunk, writes into it, gives it back.
    fn write_one(&self, owner: u32) -> bool {
        let Some(chunk) = self.chunks.lease(self, owner) else { return false };
        let index = chunk as usize;
        let other = self.writers[index].swap(u64::from(owner), Ordering::Relaxed);
        assert_eq!(other, 0, "two threads write into one chunk");
        let given_back = self.given_back[index].fetch_or(false, Ordering::Relaxed);
        assert!(!given_back, "a chunk without storage was leased");
        let other = self.writers[index].swap(0, Ordering::Relaxed);
        assert_eq!(other, u64::from(owner), "two threads write into one chunk");
        release(&self.owners[index]);
        true
    }
}

/// Fails if a chunk that the ring has just grown by is claimed by a store, as it first was: another thread
/// finds the ring full, goes round, and gets the same chunk.
#[test]
fn a_chunk_has_one_writer_at_a_time() {
    check(3, || {
        let memory = Memory::new(2);
        let twice = |owner| {
            let memory = Arc::clone(&memory);
            move || {
                memory.write_one(owner);
                memory.write_one(owner);
            }
        };
        race(twice(1), twice(2));
    });
}

/// Fails likewise, and if `shrink` retires without looking at the owner.
#[test]
fn storage_that_was_given_back_is_not_written_to() {
    check(3, || {
        let memory = Memory::new(2);
        assert!(memory.write_one(1), "the ring has a chunk");
        let (writer, shrinker) = (Arc::clone(&memory), Arc::clone(&memory));
        race(move || writer.write_one(2), move || shrinker.chunks.shrink(&*shrinker));
        memory.write_one(1);
        let retired = memory.owners.iter().map(|owner| owner.load(Ordering::Acquire) == RETIRED);
        let given = memory.given_back.iter().map(|given| given.load(Ordering::Acquire));
        assert!(retired.eq(given));
    });
}
