//! `realloc`: a block ends and another begins, in one call that takes time and may fail.
//!
//! Before the real call the block is taken out of the index ([`detach`]); after it, [`settle`] decides what it came to.

use super::block::{displaced, record, reserve, retire, unknown};
use crate::backend::{Backend, Begun, Ended, Inserted, Number, Slot};
use heapledger_format::record::LATER_MAX;
use heapledger_format::{Kind, Site, TallyCounter, Ticks};

/// A block taken out of the index while `realloc` decides over it. Readers still see its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detached {
    slot: Slot,
    address: u64,
    number: Number,
    time: Ticks,
}

impl Detached {
    /// Where its record is.
    pub fn slot(&self) -> Slot {
        self.slot
    }

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
///
/// Compiled into its caller, and what books is not: it calls one after the other what takes room on the program's stack.
#[cfg_attr(target_arch = "x86_64", inline(always))]
pub fn settle<B: Backend>(
    backend: &mut B,
    detached: Option<Detached>,
    by: Kind,
    outcome: &Reallocated<Begun>,
    site: impl FnOnce(&mut B) -> Site,
) -> bool {
    match (outcome, detached) {
        (Reallocated::Gave(block), Some(detached)) => replace(backend, &detached, block, by),
        (Reallocated::Gave(block), None) => begin_unknown(backend, block, by),
        (Reallocated::Freed, Some(detached)) => {
            let ended = Ended { by, site: site(backend) };
            backend.expect_history();
            close_detached(backend, &detached, &ended);
            backend.expected_history();
            false
        }
        (Reallocated::Freed, None) => {
            unknown(backend, by);
            false
        }
        (Reallocated::Failed, detached) => {
            backend.count(TallyCounter::FailedCalls, 1);
            if let Some(detached) = detached {
                reattach(backend, &detached);
            }
            false
        }
    }
}

/// Only the new block is known. One after the other: that takes less stack.
#[cfg_attr(target_arch = "x86_64", inline(always))]
fn begin_unknown<B: Backend>(backend: &mut B, block: &Begun, by: Kind) -> bool {
    unknown(backend, by);
    let Some((slot, begins)) = reserve_unknown(backend, block) else { return false };
    record_anew(backend, slot, &begins, block)
}

#[inline(never)]
fn reserve_unknown<B: Backend>(backend: &mut B, block: &Begun) -> Option<(Slot, Begins)> {
    let (slot, (number, time)) = reserve(backend, block)?;
    Some((slot, Begins { number, time }))
}

#[inline(never)]
fn close_detached<B: Backend>(backend: &mut B, detached: &Detached, ended: &Ended) {
    retire(backend, detached.slot, (detached.number, 0), ended, detached.time);
    backend.vacate(detached.slot);
    backend.release_slot(detached.slot);
}

/// Nothing has changed.
#[cold]
#[inline(never)]
fn reattach<B: Backend>(backend: &mut B, detached: &Detached) {
    match backend.insert(detached.address, detached.slot) {
        Inserted::Done => backend.count(TallyCounter::NumbersUnused, 1),
        Inserted::Displaced(other) => {
            // Someone was given an address that was not free: the allocator's books are broken. Keep ours whole.
            displaced(backend, other, detached.number, detached.time);
        }
        Inserted::Full => {
            // Its free could never be followed: it leaves the ledger now.
            backend.count(TallyCounter::LostNoIndex, 1);
            close_detached(backend, detached, &Ended { by: Kind::UNSEEN, site: Site::NONE });
            backend.expected_history();
        }
    }
}

/// `block` in place of the detached one: both halves share one number, if they can.
#[cfg_attr(target_arch = "x86_64", inline(always))]
fn replace<B: Backend>(backend: &mut B, detached: &Detached, block: &Begun, by: Kind) -> bool {
    let number = backend.number_of_moved(detached.number, block);
    let time = if number == detached.number { detached.time } else { backend.now() };
    let begins = Begins { number, time };
    backend.expect_history();
    retire_detached(backend, detached, &begins, &Ended { by, site: block.site });
    backend.expected_history();
    record_anew(backend, detached.slot, &begins, block)
}

/// How the second half of a realloc is entered.
struct Begins {
    number: Number,
    time: Ticks,
}

#[inline(never)]
fn retire_detached<B: Backend>(backend: &mut B, detached: &Detached, begins: &Begins, ended: &Ended) {
    // Somebody may have been given the old place meanwhile: its end keeps the number that was taken before.
    let (ends, time) = match begins.number.0.wrapping_sub(detached.number.0) {
        later if later <= u64::from(LATER_MAX) => ((detached.number, later as u32), detached.time),
        _ => ((begins.number, 0), begins.time),
    };
    retire(backend, detached.slot, ends, ended, time);
    backend.vacate(detached.slot);
}

#[inline(never)]
fn record_anew<B: Backend>(backend: &mut B, slot: Slot, begins: &Begins, block: &Begun) -> bool {
    record(backend, block, slot, (begins.number, begins.time))
}
