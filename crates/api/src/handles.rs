//! Numbers for what is there for a while, which name nothing any more when it has gone.
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicU32, Ordering};

/// Bits of a number that say which place.
const PLACE_BITS: u32 = 7;
/// Numbers are those of an `int`, above 0.
const ROUNDS_MAX: u32 = (1 << (31 - PLACE_BITS)) - 1;

/// For each of so many places how often it was taken: a number holds both.
pub(crate) struct Handles<const PLACES: usize> {
    /// Twice the how manieth that is, plus 1 while it is taken.
    rounds: [AtomicU32; PLACES],
}

impl<const PLACES: usize> Handles<PLACES> {
    pub(crate) const fn new() -> Self {
        const { assert!(PLACES <= 1 << PLACE_BITS) };
        Handles { rounds: [const { AtomicU32::new(0) }; PLACES] }
    }

    /// A place was taken: its number.
    pub(crate) fn give(&self, place: usize) -> u32 {
        let Some(rounds) = self.rounds.get(place) else { return 0 };
        let now = rounds.load(Ordering::Relaxed).wrapping_add(2) | 1;
        rounds.store(now, Ordering::Release);
        (now >> 1 & ROUNDS_MAX) << PLACE_BITS | place as u32
    }

    /// The place of a number, if it is still that one's.
    pub(crate) fn place(&self, handle: u32) -> Option<usize> {
        let place = (handle & ((1 << PLACE_BITS) - 1)) as usize;
        let now = self.rounds.get(place)?.load(Ordering::Acquire);
        (now & 1 != 0 && now >> 1 & ROUNDS_MAX == handle >> PLACE_BITS).then_some(place)
    }

    /// It is nobody's any more. True for one caller.
    pub(crate) fn take_back(&self, handle: u32) -> bool {
        let Some(place) = self.place(handle) else { return false };
        let Some(rounds) = self.rounds.get(place) else { return false };
        let now = rounds.load(Ordering::Acquire);
        let is_its = now & 1 != 0 && now >> 1 & ROUNDS_MAX == handle >> PLACE_BITS;
        is_its && rounds.compare_exchange(now, now & !1, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

impl<const PLACES: usize> Handles<PLACES> {
    /// It has not gone after all. Only for who has taken it back, as long as nobody else can have its place.
    pub(crate) fn keep(&self, handle: u32) {
        let place = (handle & ((1 << PLACE_BITS) - 1)) as usize;
        if let Some(rounds) = self.rounds.get(place) {
            rounds.fetch_or(1, Ordering::AcqRel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_names_one_thing() {
        let handles: Handles<3> = Handles::new();
        let first = handles.give(2);
        assert!(first > 0 && handles.place(first) == Some(2) && handles.place(first + 1).is_none());
        assert!(handles.take_back(first) && !handles.take_back(first) && handles.place(first).is_none());
        handles.keep(first);
        assert!(handles.place(first) == Some(2) && handles.take_back(first));
        let second = handles.give(2);
        assert!(second != first && handles.place(second) == Some(2) && handles.place(first).is_none());
        assert!(handles.place(u32::MAX).is_none() && handles.place(0).is_none());
    }
}
