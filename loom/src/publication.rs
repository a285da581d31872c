//! Elements that are whole for a reader whom nobody waits for.

use crate::{check, race};
use heapledger_process::publication::{publish, retract};
use heapledger_process::slots::{Pool, Vacant};
use heapledger_recorder::backend::Slot;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use loom::thread;

const WORDS: usize = 3;
const COMMIT: usize = 0;

struct Element([AtomicU64; WORDS]);

impl Element {
    fn new() -> Element {
        Element(std::array::from_fn(|_| AtomicU64::new(0)))
    }

    /// Enters a block whose every word is its number.
    fn publish(&self, number: u64) {
        publish(&self.0, COMMIT, &[number; WORDS]);
    }

    fn retract(&self) {
        retract(&self.0[COMMIT]);
    }

    /// What a reader does. The contract is in FORMAT.md.
    fn expect_whole_or_absent(&self) {
        let before = self.0[COMMIT].load(Ordering::Acquire);
        let words: [u64; WORDS - 1] = std::array::from_fn(|index| self.0[index + 1].load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        let after = self.0[COMMIT].load(Ordering::Relaxed);
        if before == after && before != 0 {
            assert_eq!(words, [before; WORDS - 1], "a mixture was published as {before}");
        }
    }
}

/// Fails if `retract` leaves out its store, and if `publish` leaves out its fence, or stores the commit
/// word relaxed or first.
#[test]
fn a_slot_that_is_used_twice_never_shows_a_mixture() {
    check(3, || {
        let reader = Arc::new(Element::new());
        let writer = Arc::clone(&reader);
        let write = move || {
            writer.publish(1);
            writer.retract();
            writer.publish(2);
        };
        let read = move || {
            reader.expect_whole_or_absent();
            reader.expect_whole_or_absent();
        };
        race(write, read);
    });
}

/// Fails if `publish` leaves out its fence: the thread that retracted is not the one that writes.
#[test]
fn a_slot_that_another_thread_retracted_never_shows_a_mixture() {
    check(3, || {
        let shared = Arc::new((Element::new(), AtomicBool::new(false)));
        shared.0.publish(1);
        let reader = Arc::clone(&shared);
        let reader = thread::spawn(move || reader.0.expect_whole_or_absent());
        let (first, second) = (Arc::clone(&shared), Arc::clone(&shared));
        let retract = move || {
            first.0.retract();
            first.1.store(true, Ordering::Release); // the slot goes to the pool
        };
        let reuse = move || {
            if second.1.load(Ordering::Acquire) {
                second.0.publish(2);
            }
        };
        race(retract, reuse);
        reader.join().expect("reader");
    });
}

struct Records([Element; 2]);

impl Vacant for Records {
    fn next(&self, slot: Slot) -> u64 {
        self.0[slot.0 as usize].0[1].load(Ordering::Relaxed)
    }
    fn set_next(&self, slot: Slot, link: u64) {
        self.0[slot.0 as usize].0[1].store(link, Ordering::Relaxed);
    }
    fn next_batch(&self, slot: Slot) -> u64 {
        self.0[slot.0 as usize].0[2].load(Ordering::Relaxed)
    }
    fn set_next_batch(&self, slot: Slot, link: u64) {
        self.0[slot.0 as usize].0[2].store(link, Ordering::Relaxed);
    }
}

/// Fails if `Pool::push` leaves out its fence: its links lie in words of records that a thread, now gone, has retracted.
#[test]
fn links_of_vacant_slots_are_never_taken_for_a_record() {
    check(3, || {
        let shared = Arc::new((Records([Element::new(), Element::new()]), Pool::new(), AtomicBool::new(false)));
        shared.0.0[0].publish(7);
        let reader = Arc::clone(&shared);
        let reader = thread::spawn(move || reader.0.0[0].expect_whole_or_absent());
        let (gone, heir) = (Arc::clone(&shared), Arc::clone(&shared));
        let end = move || {
            gone.0.0[0].retract();
            gone.2.store(true, Ordering::Release); // the thread ends
        };
        let inherit = move || {
            if heir.2.load(Ordering::Acquire) {
                heir.1.push(&heir.0, &[Slot(0), Slot(1)]);
            }
        };
        race(end, inherit);
        reader.join().expect("reader");
    });
}
