//! Measurements that are under way: a place for each, for those who can keep nothing but a number.

use crate::counting::{self, Begun};
use crate::live::Highest;
use crate::state::{self, Want};
use crate::{Stats, thread_word};
use core::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

/// Measurements at the same time. (Of all threads no more than 32 of these.)
pub const REGIONS_MAX: usize = 64;

/// What a place holds: nothing, or it is being filled; a measurement of all threads, or of one.
const VACANT: u8 = 0;
const FILLED: u8 = 1;
const OF_ALL: u8 = 2;
const OF_THREAD: u8 = 3;

struct RegionPlace {
    holds: AtomicU8,
    thread: AtomicUsize,
    /// Figures when it began, and what [`Highest`] or [`Begun`] are made of.
    words: [AtomicUsize; 7],
}

static PLACES: [RegionPlace; REGIONS_MAX] = [const {
    RegionPlace { holds: AtomicU8::new(VACANT), thread: AtomicUsize::new(0), words: [const { AtomicUsize::new(0) }; 7] }
}; REGIONS_MAX];

impl RegionPlace {
    fn put(&self, words: [usize; 7], holds: u8) {
        for (place, word) in self.words.iter().zip(words) {
            place.store(word, Ordering::Relaxed);
        }
        self.thread.store(thread_word::id(), Ordering::Relaxed);
        self.holds.store(holds, Ordering::Release);
    }

    fn words(&self) -> [usize; 7] {
        self.words.each_ref().map(|word| word.load(Ordering::Relaxed))
    }

    fn is_of_own_thread(&self) -> bool {
        self.thread.load(Ordering::Relaxed) == thread_word::id()
    }
}

fn begin_with(holds: u8, words: impl FnOnce() -> Option<[usize; 7]>) -> Option<usize> {
    if !state::join(Want::Counted) {
        return None;
    }
    let claim =
        |place: &RegionPlace| place.holds.compare_exchange(VACANT, FILLED, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    let begun = PLACES.iter().position(claim).and_then(|index| {
        let place = PLACES.get(index)?;
        match words() {
            Some(words) => place.put(words, holds),
            None => {
                place.holds.store(VACANT, Ordering::Release);
                return None;
            }
        }
        Some(index)
    });
    if begun.is_none() {
        state::leave(Want::Counted);
    }
    begun
}

/// Measures what all threads do from now on. `None` if there is no place.
pub fn begin() -> Option<usize> {
    begin_with(OF_ALL, || {
        let [index, before] = Highest::begin()?.into_words();
        let [a, b, c, d, e] = counting::sums();
        Some([a, b, c, d, e, index, before])
    })
}

/// Measures what the calling thread does from now on. `None` if there is no place.
pub fn begin_of_thread() -> Option<usize> {
    begin_with(OF_THREAD, || {
        let (level, [a, b, c, d, e]) = counting::begin_region()?.into_parts();
        Some([a, b, c, d, e, level, 0])
    })
}

/// What was done in it until now. `None` if there is none there, or it is another thread's.
pub fn stats(region: usize) -> Option<Stats> {
    let place = PLACES.get(region)?;
    let holds = place.holds.load(Ordering::Acquire);
    let [a, b, c, d, e, first, second] = place.words();
    match holds {
        OF_ALL => Some(counting::sums_since(&[a, b, c, d, e], Highest::bytes_of([first, second]))),
        OF_THREAD if place.is_of_own_thread() => Some(counting::region(&Begun::of_parts(first, [a, b, c, d, e]))),
        _ => None,
    }
}

/// Whether the calling thread may end it.
pub fn may_end(region: usize) -> bool {
    PLACES.get(region).is_some_and(|place| match place.holds.load(Ordering::Acquire) {
        OF_ALL => true,
        OF_THREAD => place.is_of_own_thread(),
        _ => false,
    })
}

/// It is over. To be called once, by who [may](may_end).
pub fn end(region: usize) {
    let Some(place) = PLACES.get(region) else { return };
    let [a, b, c, d, e, first, second] = place.words();
    match place.holds.swap(FILLED, Ordering::AcqRel) {
        OF_ALL => drop(Highest::of_words([first, second])),
        OF_THREAD => counting::end_region(&Begun::of_parts(first, [a, b, c, d, e])),
        other => return place.holds.store(other, Ordering::Release),
    }
    place.holds.store(VACANT, Ordering::Release);
    state::leave(Want::Counted);
}
