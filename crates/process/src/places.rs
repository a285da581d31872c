//! Who owns which place: the pure protocol, which knows nothing of what lies there.
//!
//! A place has a word and a state. The word says that nobody has filled it yet, that it is free, that it changes hands, or
//! which thread owns it. Only two may touch a state: the thread that owns its place, and who has claimed the place, which
//! is done by one compare-and-swap of a word that said free, or that its owner is gone.
//!
//! - A place is counted before it is filled. Until then its word is 0, and nobody takes that for free.
//! - The kernel gives ids of threads out again. Between the question whether an owner is gone and the claim, a new thread of the
//!   same id may have come and be the owner now. So a word also has a number that each claim moves on.
#![forbid(unsafe_code)]

use crate::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering, const_unless_loom};

/// Bits of a thread's and of a process's id: Linux gives out no larger ones.
const ID_BITS: u32 = 22;
const ID_MASK: u64 = (1 << ID_BITS) - 1;
/// The two ids below the number of claims. Without a process id they say what else a place is.
const WHO_MASK: u64 = (1 << (2 * ID_BITS)) - 1;
const FREE: u64 = 1;
const CLAIMED: u64 = 2;
/// Nobody has filled the place: all of the word is 0.
const UNFILLED: u64 = 0;

/// A thread, as the kernel knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadIds {
    /// Its process.
    pub tgid: u32,
    /// Its own id.
    pub tid: u32,
}

impl ThreadIds {
    /// Stands for a process of which the kernel did not tell the id.
    pub const TGID_UNKNOWN: u32 = ID_MASK as u32;

    /// `None` if the thread's id cannot be one. A process's that cannot be is unknown.
    pub fn new(tgid: u32, tid: u32) -> Option<ThreadIds> {
        let is_id = |id: u32| id != 0 && u64::from(id) <= ID_MASK;
        is_id(tid).then(|| ThreadIds { tgid: if is_id(tgid) { tgid } else { ThreadIds::TGID_UNKNOWN }, tid })
    }

    fn word(self) -> u64 {
        u64::from(self.tgid) << ID_BITS | u64::from(self.tid)
    }

    /// The owner that a word names.
    fn of(word: u64) -> Option<ThreadIds> {
        let (tgid, tid) = (word >> ID_BITS & ID_MASK, word & ID_MASK);
        (tgid != 0).then_some(ThreadIds { tgid: tgid as u32, tid: tid as u32 })
    }
}

/// A place.
pub struct OwnedPlace {
    word: AtomicU64,
    state: AtomicUsize,
}

impl OwnedPlace {
    const_unless_loom! {
        /// A place that nobody has filled.
        pub fn new() -> OwnedPlace {
            OwnedPlace { word: AtomicU64::new(UNFILLED), state: AtomicUsize::new(0) }
        }
    }

    /// Claims the place, if its word still is what was seen.
    fn claim(&self, seen: u64) -> Option<Claimed<'_>> {
        let word = (seen & !WHO_MASK).wrapping_add(WHO_MASK + 1) | CLAIMED;
        self.word.compare_exchange(seen, word, Ordering::AcqRel, Ordering::Relaxed).ok()?;
        Some(Claimed { place: self, word, state: self.state.load(Ordering::Relaxed) })
    }
}

impl Default for OwnedPlace {
    fn default() -> Self {
        Self::new()
    }
}

/// The places, in memory that all zeros are valid for.
pub struct Places<P> {
    places: P,
    count: AtomicUsize,
    /// Places that are free. Counted before they are, so it may be ahead, and never falls below 0.
    free: AtomicU32,
    cursor: AtomicUsize,
}

/// A place that changes hands: nobody else touches its state, until it is [settled](Claimed::settle) or
/// [given up](Places::give_up).
#[must_use]
pub struct Claimed<'p> {
    place: &'p OwnedPlace,
    word: u64,
    state: usize,
}

impl Claimed<'_> {
    /// The state that lies there; never 0.
    pub fn state(&self) -> usize {
        self.state
    }

    /// Whose it is from now on.
    pub fn settle(self, who: ThreadIds) {
        self.place.word.store(self.word & !WHO_MASK | who.word(), Ordering::Release);
    }
}

/// A new place, which has no state yet.
#[must_use]
pub struct Reserved<'p> {
    place: &'p OwnedPlace,
    /// Its number.
    pub index: usize,
}

impl<'p> Reserved<'p> {
    /// The state of the place, not 0. Still nobody else takes it.
    pub fn fill(self, state: usize) -> Claimed<'p> {
        // The word, which is stored later, publishes it.
        self.place.state.store(state, Ordering::Relaxed);
        Claimed { place: self.place, word: UNFILLED, state }
    }
}

impl<P: AsRef<[OwnedPlace]>> Places<P> {
    const_unless_loom! {
        /// These places, of which none is filled.
        pub fn over(places: P) -> Places<P> {
            Places { places, count: AtomicUsize::new(0), free: AtomicU32::new(0), cursor: AtomicUsize::new(0) }
        }
    }

    fn counted(&self) -> &[OwnedPlace] {
        self.places.as_ref().get(..self.count()).unwrap_or(&[])
    }

    /// Places that were ever reserved.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Places that are not free, or are about to be taken: at least as many as have owners.
    pub fn in_use(&self) -> u64 {
        let free = self.free.load(Ordering::Acquire);
        (self.count() as u64).saturating_sub(u64::from(free))
    }

    /// The states of all places that were ever owned.
    pub fn states(&self) -> impl Iterator<Item = usize> {
        let filled = self.counted().iter().filter(|place| place.word.load(Ordering::Acquire) != UNFILLED);
        filled.map(|place| place.state.load(Ordering::Relaxed))
    }

    /// The state that a thread owns.
    pub fn state_of(&self, tid: u32) -> Option<usize> {
        let is_its =
            |place: &&OwnedPlace| ThreadIds::of(place.word.load(Ordering::Acquire)).is_some_and(|who| who.tid == tid);
        self.counted().iter().find(is_its).map(|place| place.state.load(Ordering::Relaxed))
    }

    /// Claims the place of an earlier thread with this id, which therefore is gone, or is the caller.
    pub fn claim_earlier(&self, tid: u32) -> Option<Claimed<'_>> {
        self.counted().iter().find_map(|place| {
            let seen = place.word.load(Ordering::Acquire);
            ThreadIds::of(seen).filter(|who| who.tid == tid).and_then(|_| place.claim(seen))
        })
    }

    /// Looks at the next place in turn, and claims it if it has an owner who does not exist any more.
    pub fn claim_next_gone(&self, exists: impl FnOnce(ThreadIds) -> bool) -> Option<Claimed<'_>> {
        let counted = self.counted();
        let index = self.cursor.fetch_add(1, Ordering::Relaxed).checked_rem(counted.len())?;
        let place = counted.get(index)?;
        let seen = place.word.load(Ordering::Acquire);
        let owner = ThreadIds::of(seen).filter(|who| who.tgid != ThreadIds::TGID_UNKNOWN)?;
        if exists(owner) { None } else { place.claim(seen) }
    }

    /// Claims a free place.
    pub fn claim_free(&self) -> Option<Claimed<'_>> {
        if self.free.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let claimed = self.counted().iter().find_map(|place| {
            let seen = place.word.load(Ordering::Relaxed);
            (seen & WHO_MASK == FREE).then(|| place.claim(seen)).flatten()
        })?;
        self.free.fetch_sub(1, Ordering::Relaxed);
        Some(claimed)
    }

    /// Reserves a place that nobody had before.
    pub fn reserve(&self) -> Option<Reserved<'_>> {
        let places = self.places.as_ref();
        let more = |count: usize| (count < places.len()).then_some(count.wrapping_add(1));
        let index = self.count.fetch_update(Ordering::AcqRel, Ordering::Relaxed, more).ok()?;
        Some(Reserved { place: places.get(index)?, index })
    }

    /// A claimed place becomes free.
    pub fn give_up(&self, claimed: Claimed) {
        self.free.fetch_add(1, Ordering::Release);
        claimed.place.word.store(claimed.word & !WHO_MASK | FREE, Ordering::Release);
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn who(tid: u32) -> ThreadIds {
        ThreadIds::new(7, tid).expect("an id")
    }

    #[test]
    fn a_place_that_is_only_counted_is_nobodys() {
        let places = Places::over([const { OwnedPlace::new() }; 2]);
        let reserved = places.reserve().expect("a place");
        let second = places.reserve().expect("a place").fill(5);
        places.give_up(second);
        assert_eq!(places.claim_free().map(|claimed| claimed.state()), Some(5), "the one that has a state");
        assert!(places.claim_free().is_none() && places.claim_earlier(0).is_none() && places.state_of(0).is_none());
        assert!(places.claim_next_gone(|_| false).is_none() && places.reserve().is_none());
        reserved.fill(4).settle(who(1));
        assert_eq!((places.state_of(1), places.states().collect::<Vec<_>>()), (Some(4), [4, 5].into()));
    }

    #[test]
    fn who_was_asked_about_and_came_again_keeps_its_place() {
        let places = Places::over([const { OwnedPlace::new() }; 1]);
        places.reserve().expect("a place").fill(4).settle(who(9));
        let stale = places.claim_next_gone(|_| {
            // While the kernel answers, another thread of this id registers.
            places.claim_earlier(9).expect("its own").settle(who(9));
            false
        });
        assert!(stale.is_none(), "the new thread's state was taken from it");
        assert_eq!(places.claim_next_gone(|_| false).map(|claimed| claimed.state()), Some(4));
    }

    #[test]
    fn ids_that_cannot_be_are_none() {
        assert_eq!(ThreadIds::new(0, 1 << 22), None);
        assert_eq!(ThreadIds::new(5, 0), None);
        assert_eq!(ThreadIds::new(u32::MAX, 8), Some(ThreadIds { tgid: ThreadIds::TGID_UNKNOWN, tid: 8 }));
        let places = Places::over([const { OwnedPlace::new() }; 1]);
        let highest = ThreadIds::new(1, (1 << 22) - 1).expect("an id");
        places.reserve().expect("a place").fill(4).settle(highest);
        assert_eq!(places.state_of(highest.tid), Some(4));
        let claimed = places.claim_next_gone(|who| who != highest).expect("its place");
        places.give_up(claimed);
        assert_eq!(places.state_of(highest.tid), None);
    }
}
