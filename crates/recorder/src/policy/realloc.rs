//! `realloc`: a block ends and another begins, in one call that takes time and may fail.
//!
//! Before the real call the block is taken out of the index ([`detach`]); after it, [`settle`] decides what it came to.

use super::block::{begin, close, displaced, record, retire, unknown};
use crate::backend::{Backend, Begun, Ended, Inserted, Number, Site, Slot, Ticks};
use heapledger_format::record::LATER_MAX;
use heapledger_format::{Kind, TallyCounter};

/// A block taken out of the index while `realloc` decides over it. Readers still see its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detached {
    slot: Slot,
    address: u64,
    number: Number,
    time: Ticks,
}

impl Detached {
    /// Takes it apart, to be kept in raw words between two hooks.
    pub fn into_parts(self) -> (Slot, u64, Number, Ticks) {
        (self.slot, self.address, self.number, self.time)
    }

    /// Undoes [`Detached::into_parts`].
    pub fn from_parts((slot, address, number, time): (Slot, u64, Number, Ticks)) -> Self {
        Detached { slot, address, number, time }
    }
}

/// What a real `realloc` came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reallocated<N> {
    /// It gave this block, and the old one is gone.
    Gave(N),
    /// The old block is gone, and there is no new one to be entered.
    Freed,
    /// It gave none, and the old block is as it was.
    Failed,
}

impl<N> Reallocated<N> {
    /// From what it returned; `frees`: it was called with a size at which it frees (0).
    pub fn of(new: Option<N>, frees: bool) -> Reallocated<N> {
        match new {
            Some(new) => Reallocated::Gave(new),
            None if frees => Reallocated::Freed,
            None => Reallocated::Failed,
        }
    }

    /// The same with the new block as the policy knows it; `None`: it is not to be entered.
    #[inline(always)]
    pub fn and_then<M>(self, begun: impl FnOnce(N) -> Option<M>) -> Reallocated<M> {
        match self {
            Reallocated::Gave(new) => begun(new).map_or(Reallocated::Freed, Reallocated::Gave),
            Reallocated::Freed => Reallocated::Freed,
            Reallocated::Failed => Reallocated::Failed,
        }
    }
}

/// Before the real `realloc`: takes the block out of the index, so that nobody who gets its address
/// next can be confused with it. `None` if the ledger does not know the block.
pub fn detach<B: Backend>(backend: &mut B, address: u64) -> Option<Detached> {
    let slot = backend.remove(address)?;
    let number = backend.number_of_end(slot, address).unwrap_or(Number::LAST);
    Some(Detached { slot, address, number, time: backend.now() })
}

/// After the real `realloc`, a call of the function `by`. `detached`: what [`detach`] gave before. `site` tells who calls, and is asked
/// only if that is to be entered with a free and there is no new block that says it. Returns whether there is a new block in the
/// ledger now.
pub fn settle<B: Backend>(
    backend: &mut B,
    detached: Option<Detached>,
    by: Kind,
    outcome: &Reallocated<Begun>,
    site: impl FnOnce(&mut B) -> Site,
) -> bool {
    match (outcome, detached) {
        (Reallocated::Gave(block), Some(detached)) => replace(backend, detached, block, by),
        (Reallocated::Gave(block), None) => {
            unknown(backend, by);
            begin(backend, block)
        }
        (Reallocated::Freed, Some(detached)) => {
            let ended = Ended { by, site: site(backend) };
            close(backend, detached.slot, detached.number, &ended, detached.time);
            false
        }
        (Reallocated::Freed, None) => {
            unknown(backend, by);
            false
        }
        (Reallocated::Failed, detached) => {
            backend.count(TallyCounter::FailedCalls, 1);
            if let Some(detached) = detached {
                reattach(backend, detached);
            }
            false
        }
    }
}

/// Nothing has changed.
fn reattach<B: Backend>(backend: &mut B, detached: Detached) {
    match backend.insert(detached.address, detached.slot) {
        Inserted::Done => backend.count(TallyCounter::NumbersUnused, 1),
        Inserted::Displaced(other) => {
            // Someone was given an address that was not free: the allocator's books are broken. Keep ours whole.
            displaced(backend, other, detached.number, detached.time);
        }
        Inserted::Full => {
            // Its free could never be followed: it leaves the ledger now.
            backend.count(TallyCounter::LostNoIndex, 1);
            close(
                backend,
                detached.slot,
                detached.number,
                &Ended { by: Kind::UNSEEN, site: Site::NONE },
                detached.time,
            );
        }
    }
}

/// `block` in place of the detached one: both halves share one number, if they can.
fn replace<B: Backend>(backend: &mut B, detached: Detached, block: &Begun, by: Kind) -> bool {
    let number = backend.number_of_moved(detached.number, block);
    let begins = (number, if number == detached.number { detached.time } else { backend.now() });
    // Somebody may have been given the old place meanwhile: its end keeps the number that was taken before.
    let (ends, time) = match number.0.wrapping_sub(detached.number.0) {
        later if later <= u64::from(LATER_MAX) => ((detached.number, later as u32), detached.time),
        _ => ((number, 0), begins.1),
    };
    let weight = backend.weight(block.size, number);
    retire(backend, detached.slot, ends, &Ended { by, site: block.site }, time);
    backend.vacate(detached.slot);
    record(backend, block, detached.slot, begins, weight)
}
