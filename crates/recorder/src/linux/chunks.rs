//! Who may write where in a ring of chunks.
//!
//! A chunk has one owner at a time, or none. The ring grows as long as there is storage; then it goes
//! round, and the chunk leased longest ago is leased anew. A chunk that is leased is passed over, and
//! one whose storage was given back is never leased again.

use crate::sync::{AtomicU32, AtomicU64, Ordering, const_unless_loom};

/// Owner of a chunk that nobody has leased.
pub const FREE: u32 = 0;
/// Owner of a chunk whose storage was given back.
pub const RETIRED: u32 = u32::MAX;
/// How many leased chunks are passed over before a lease is given up.
const PASSES_MAX: u64 = 64;

/// Where chunks lie.
pub trait Ring {
    /// The owner's word of a chunk; 0 while fresh.
    fn owner(&self, chunk: u64) -> &AtomicU32;
    /// A chunk that nobody had before; `None` if there is no storage.
    fn grow(&self) -> Option<u64>;
    /// How many chunks there are.
    fn chunks(&self) -> u64;
    /// Gives the storage of a retired chunk back.
    fn give_back(&self, chunk: u64) -> bool;
}

/// The state of the ring.
pub struct Chunks {
    /// Chunks that the ring goes round in; 0 while it still grows.
    round: AtomicU64,
    cursor: AtomicU64,
}

impl Chunks {
    const_unless_loom! {
        /// A ring that grows.
        pub fn new() -> Chunks {
            Chunks { round: AtomicU64::new(0), cursor: AtomicU64::new(0) }
        }
    }

    /// Leases a chunk to `owner` (not [`FREE`], not [`RETIRED`]).
    pub fn lease(&self, ring: &impl Ring, owner: u32) -> Option<u64> {
        let claim =
            |chunk| ring.owner(chunk).compare_exchange(FREE, owner, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if self.round.load(Ordering::Acquire) == 0 {
            match ring.grow() {
                // From here on the chunk can be found by others, too, if the ring has stopped growing meanwhile.
                Some(chunk) if claim(chunk) => return Some(chunk),
                Some(_) => {}
                None => {
                    let _ = self.round.compare_exchange(0, ring.chunks(), Ordering::AcqRel, Ordering::Relaxed);
                }
            }
        }
        for _ in 0..PASSES_MAX {
            let round = self.round.load(Ordering::Acquire);
            if round == 0 {
                return None;
            }
            let chunk = self.cursor.fetch_add(1, Ordering::Relaxed) % round;
            if claim(chunk) {
                return Some(chunk);
            }
        }
        None
    }

    /// Halves the ring and gives the storage of the upper half back. Returns whether something was given back.
    pub fn shrink(&self, ring: &impl Ring) -> bool {
        let now = match self.round.load(Ordering::Acquire) {
            0 => ring.chunks(),
            round => round,
        };
        let keep = now / 2;
        if keep == 0 {
            return false;
        }
        self.round.store(keep, Ordering::Release);
        let mut given = false;
        for chunk in keep..now {
            // Who still leases a chunk of the upper half keeps it; nobody leases it after him.
            if ring.owner(chunk).compare_exchange(FREE, RETIRED, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                given |= ring.give_back(chunk);
            }
        }
        given
    }
}

/// Ends a lease: of the chunk whose owner's word this is. To be done once.
pub fn release(owner: &AtomicU32) {
    owner.store(FREE, Ordering::Release);
}

impl Default for Chunks {
    fn default() -> Self {
        Self::new()
    }
}
