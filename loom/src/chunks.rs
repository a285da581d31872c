//! Entries of the history ring.

use crate::{check, race};
use heapledger_process::chunks::{Chunks, Lease, RETIRED, Ring};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Entries of a chunk of the model: the least that can be shared.
const ENTRIES: u64 = 2;

/// A ring with storage for so many chunks.
struct Memory {
    chunks: Chunks<ENTRIES>,
    ended: Vec<AtomicU32>,
    grown: AtomicU64,
    /// The entries. Loom sees to it that nobody writes one while another one does, or before what that one did is seen.
    entries: Vec<UnsafeCell<u64>>,
    given_back: Vec<AtomicBool>,
}

impl Ring for Memory {
    fn ended(&self, chunk: u64) -> Option<&AtomicU32> {
        self.ended.get(chunk as usize)
    }
    fn grow(&self, entries: u64) -> Option<u64> {
        let room = self.entries.len() as u64;
        let more = |grown| (grown + entries <= room).then_some(grown + entries);
        self.grown.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).ok()
    }
    fn entries(&self) -> u64 {
        self.grown.load(Ordering::Acquire)
    }
    fn entries_max(&self) -> u64 {
        64 * ENTRIES // so that leases of whole chunks are given while it grows
    }
    fn give_back(&self, chunk: u64) -> bool {
        for entry in chunk * ENTRIES..(chunk + 1) * ENTRIES {
            self.touch(entry);
        }
        !self.given_back[chunk as usize].swap(true, Ordering::Relaxed)
    }
}

impl Memory {
    fn new(chunks: u64) -> Arc<Memory> {
        Arc::new(Memory {
            chunks: Chunks::new(),
            ended: (0..chunks).map(|_| AtomicU32::new(0)).collect(),
            grown: AtomicU64::new(0),
            entries: (0..chunks * ENTRIES).map(|_| UnsafeCell::new(0)).collect(),
            given_back: (0..chunks).map(|_| AtomicBool::new(false)).collect(),
        })
    }

    fn touch(&self, entry: u64) {
        // SAFETY: loom fails the model if it is not alone.
        self.entries[entry as usize].with_mut(|entry| unsafe { *entry += 1 });
    }

    /// Leases entries, writes them, gives them back.
    fn write(&self, filled: u64) -> bool {
        let Some(lease) = self.chunks.lease(self, filled) else { return false };
        let Lease { first, count } = lease;
        assert!(count >= 1 && count <= filled.max(1));
        for entry in first..first + count {
            let given_back = self.given_back[(entry / ENTRIES) as usize].fetch_or(false, Ordering::Relaxed);
            assert!(!given_back, "an entry without storage was leased");
            self.touch(entry);
        }
        self.chunks.release(self, lease);
        true
    }

    /// One lease after another; 0: none.
    fn writes(memory: &Arc<Memory>, filled: [u64; 2]) -> impl FnOnce() -> [bool; 2] + 'static {
        let memory = Arc::clone(memory);
        move || filled.map(|filled| filled != 0 && memory.write(filled))
    }
}

/// Fails if a chunk may be leased anew that is fresh, of which not all is handed out, or of which a lease has not ended, and
/// if a lease ends relaxed.
#[test]
fn an_entry_has_one_writer_at_a_time() {
    for (preemptions, chunks, first, second) in [(2, 1, [1, 1], [1, 0]), (1, 2, [2, 2], [1, 0])] {
        check(preemptions, move || {
            // Less room than for all leases, so that the ring begins to go round in the middle.
            let memory = Memory::new(chunks);
            race(Memory::writes(&memory, first), Memory::writes(&memory, second));
        });
    }
}

/// The same where the ring goes round already. Fails if what is left of the open chunk is taken without an exchange.
#[test]
fn a_ring_that_goes_round_has_one_writer_to_an_entry() {
    for (first, second) in [([1, 1], [1, 1]), ([1, 2], [1, 2])] {
        check(2, move || {
            let memory = Memory::new(4);
            (0..4).for_each(|_| assert!(memory.write(2)));
            let (one, other) = race(Memory::writes(&memory, first), Memory::writes(&memory, second));
            assert!(one == [true; 2] && other == [true; 2], "there is room for all");
            assert!((0..8).all(|_| memory.write(1)), "what has ended is leased anew");
        });
    }
}

/// Fails if `shrink` retires without looking whether all leases have ended.
#[test]
fn storage_that_was_given_back_is_not_written_to() {
    check(3, || {
        let memory = Memory::new(2);
        assert!(memory.write(2) && memory.write(2), "the ring has two chunks");
        let shrinker = Arc::clone(&memory);
        race(Memory::writes(&memory, [1, 1]), move || shrinker.chunks.shrink(&*shrinker));
        memory.write(1);
        let retired = memory.ended.iter().map(|ended| ended.load(Ordering::Acquire) == RETIRED);
        let given = memory.given_back.iter().map(|given| given.load(Ordering::Acquire));
        assert!(retired.eq(given));
    });
}
