//! What was freed, summed by call site.

use crate::{check, race};
use heapledger_format::sums::Tagged;
use heapledger_process::sums::{self, CutWords, Freed, Generation, SumWords};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

struct Shared {
    row: SumWords,
    present: AtomicU64,
    peak: AtomicU64,
    cut: CutWords,
}

fn shared() -> Arc<Shared> {
    let zero = || AtomicU64::new(0);
    Arc::new(Shared {
        row: std::array::from_fn(|_| zero()),
        present: zero(),
        peak: zero(),
        cut: std::array::from_fn(|_| zero()),
    })
}

fn freed(blocks: u64) -> Freed {
    Freed { blocks, bytes: blocks * 100, is_temporary: blocks == 2 }
}

/// Two threads add to one row: all of it is there. Fails if a word is changed by a load and a store.
#[test]
fn two_add_to_a_row() {
    check(3, || {
        let shared = shared();
        let adds = |blocks: u64| {
            let shared = Arc::clone(&shared);
            move || {
                sums::add_freed(&shared.row, freed(blocks), false);
                sums::add_lived(&shared.row, blocks * 10, false);
            }
        };
        race(adds(2), adds(3));
        let [_, blocks, bytes, temporary, _, _, temporary_bytes, lived] =
            shared.row.each_ref().map(|word| word.load(Ordering::Relaxed));
        assert_eq!([blocks, bytes, temporary, temporary_bytes, lived], [5, 500, 2, 200, 50]);
    });
}

/// Adds for the peak that is there now, as who adds up what it has freed does.
fn add_at_peak(shared: &Shared, blocks: u64) -> u64 {
    let peak = shared.peak.load(Ordering::SeqCst);
    if let Some((generation, _)) = Generation::find_or_begin(&shared.present, peak) {
        sums::add_at_peak(&shared.row, freed(blocks), generation, false);
    }
    peak
}

/// Two threads add for peaks, while a third raises it. What is there in the end for the last peak is all that was added for that, and
/// nothing else. Fails if an amount is added without a look whether there is a later generation, and if that look comes before the word
/// is loaded.
#[test]
fn what_was_added_for_an_earlier_peak_is_void() {
    check(2, || {
        let shared = shared();
        shared.peak.store(10, Ordering::Relaxed);
        let adds = |blocks: u64| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || (add_at_peak(&shared, blocks), blocks))
        };
        let raises = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.peak.fetch_max(20, Ordering::SeqCst))
        };
        let adding = [adds(2), adds(3)];
        raises.join().expect("it ends");
        let added = adding.map(|thread| thread.join().expect("it ends"));
        let expected: u64 = added.iter().filter(|(peak, _)| *peak == 20).map(|(_, blocks)| blocks).sum();
        let present = Tagged(shared.present.load(Ordering::Relaxed));
        let [.., blocks, bytes, _, _] = shared.row.each_ref().map(|word| Tagged(word.load(Ordering::Relaxed)));
        let of_last = |word: Tagged| if present.amount() == 20 { word.of(present.generation()) } else { 0 };
        assert_eq!((of_last(blocks), of_last(bytes)), (expected, expected * 100));
    });
}

/// Making rows void that are of earlier generations takes nothing from the present one. Fails if a word is stored into.
#[test]
fn making_void_leaves_what_is_of_now() {
    check(3, || {
        let shared = shared();
        let earlier = Generation::find_or_begin(&shared.present, 5).expect("the first").0;
        sums::add_at_peak(&shared.row, freed(7), earlier, false);
        Generation::find_or_begin(&shared.present, 10).expect("a later one");
        let generation = Tagged(shared.present.load(Ordering::Relaxed)).generation();
        let adds = {
            let shared = Arc::clone(&shared);
            move || {
                let peak = Generation::find(&shared.present, 10).expect("it is the present one");
                sums::add_at_peak(&shared.row, freed(2), peak, false);
            }
        };
        let voids = {
            let shared = Arc::clone(&shared);
            move || Generation::find(&shared.present, 10).expect("it is the present one").make_void(&shared.row)
        };
        race(adds, voids);
        let [.., blocks, bytes, _, _] = shared.row.each_ref().map(|word| Tagged(word.load(Ordering::Relaxed)));
        assert_eq!((blocks.of(generation), bytes.of(generation)), (2, 200));
    });
}

/// A thread notes its cut for one peak and for the next. Whoever asks for the later one is told that of the later one, or that there is
/// none yet. Fails if the number is stored last.
#[test]
fn a_cut_is_that_of_its_peak() {
    check(3, || {
        let shared = shared();
        sums::note_cut(&shared.cut, 5, 10);
        let notes = {
            let shared = Arc::clone(&shared);
            move || sums::note_cut(&shared.cut, 9, 20)
        };
        let asks = {
            let shared = Arc::clone(&shared);
            move || sums::cut(&shared.cut, 20)
        };
        let ((), told) = race(notes, asks);
        assert!(told.is_none_or(|number| number == 9), "{told:?}");
        assert_eq!(sums::cut(&shared.cut, 20), Some(9));
    });
}

/// A reader that finds an entry marked finds it in the row. Fails if the mark is relaxed.
#[test]
fn what_is_freed_and_not_marked_is_never_missing() {
    check(3, || {
        let shared = shared();
        // An entry: 1 once it is marked as added.
        let entry = Arc::new(AtomicU64::new(0));
        let adds = {
            let (shared, entry) = (Arc::clone(&shared), Arc::clone(&entry));
            move || {
                sums::add_freed(&shared.row, freed(1), false);
                sums::mark(&entry, 1);
            }
        };
        let reads = {
            let (shared, entry) = (Arc::clone(&shared), Arc::clone(&entry));
            move || {
                let is_marked = entry.load(Ordering::Acquire) == 1;
                (is_marked, shared.row[1].load(Ordering::Relaxed))
            }
        };
        let ((), (is_marked, summed)) = race(adds, reads);
        assert!(!is_marked || summed == 1, "marked, and nowhere");
    });
}
