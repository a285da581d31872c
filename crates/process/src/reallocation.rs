//! What is remembered between the two halves of a `realloc` hook.
#![forbid(unsafe_code)]

use crate::access::{Access, Sign};
use crate::family::forks;
use crate::hooks::{self, NewBlock, Ready};
use crate::layouts::Says;
use crate::shared::Shared;
use heapledger_format::record::{ADDRESS_MAX, TIME_MAX};
use heapledger_format::{Site, Ticks};
use heapledger_recorder::backend::{Number, Slot};
use heapledger_recorder::policy::{self, Detached, Reallocated};
use heapledger_unwind::Registers;

/// A block taken out of the index while the real `realloc` runs, in three words on the hook's stack. All zeros: none.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Reallocation {
    /// Slot plus 1, and above that the lower half of the time.
    slot: u64,
    /// Address, and above that what is left of the time.
    address: u64,
    /// Number, and above that of which process it is: a signal handler may fork while the real function runs, and the child come back
    /// here with a ledger of its own.
    number: u64,
}

/// What stands for the address of a block that was not taken out because it is a parent's.
const INHERITED: u64 = 1;
const NUMBER_BITS: u32 = 48;
const NUMBER_MASK: u64 = (1 << NUMBER_BITS) - 1;

impl Reallocation {
    pub(crate) fn of(detached: Detached) -> Reallocation {
        let (slot, address, number, time) = detached.into_parts();
        let (number, time) = (number.0, time.min(TIME_MAX).0);
        Reallocation {
            slot: (u64::from(slot.0) + 1) | time << 32,
            address: address | (time >> 32) << 48,
            number: number | u64::from(forks()) << NUMBER_BITS,
        }
    }

    /// Nothing was taken out. Whether the block is one that a forked child has inherited is asked before the real function runs, which takes
    /// off what tells that.
    #[inline(always)]
    pub(crate) const fn of_none(is_inherited: bool) -> Reallocation {
        Reallocation { slot: 0, address: if is_inherited { INHERITED } else { 0 }, number: 0 }
    }

    /// Whether the block is one that this process has inherited: it was so when this began, or this process is a child that was forked since.
    pub(crate) fn is_of_inherited(&self) -> bool {
        match self.slot as u32 {
            0 => self.address == INHERITED,
            _ => self.number >> NUMBER_BITS != u64::from(forks()),
        }
    }

    pub(crate) fn detached(&self) -> Option<Detached> {
        let slot =
            (self.slot as u32).checked_sub(1).filter(|_| self.number >> NUMBER_BITS == u64::from(forks())).map(Slot)?;
        let time = self.slot >> 32 | (self.address >> 48) << 32;
        Some(Detached::from_parts((slot, self.address & ADDRESS_MAX, Number(self.number & NUMBER_MASK), Ticks(time))))
    }
}

/// [`realloc_begins`](hooks::realloc_begins), where the caller has found that all [is usual](hooks::is_usual). `None`: nothing was done, the thread may not
/// enter at once.
#[inline(always)]
pub fn begins_at_once(
    shared: &'static Shared,
    ready: Ready,
    registers: &Registers,
    address: usize,
    says: impl Says,
) -> Option<Reallocation> {
    let sign = Sign::new();
    let access = Access::enter_at_once(shared, ready.state, registers, &sign, true)?;
    Some(hooks::detach(access, registers, address, says))
}

/// [`realloc_ends`](hooks::realloc_ends) of a block that was taken out and has a new place now, where all is usual. False: nothing was done.
#[inline(always)]
#[must_use]
pub fn ends_at_once(
    shared: &'static Shared,
    ready: Ready,
    registers: &Registers,
    begun: &Reallocation,
    new: &NewBlock,
) -> bool {
    let Some(detached) = begun.detached() else { return false };
    let sign = Sign::new();
    let Some(mut access) = Access::enter_at_once(shared, ready.state, registers, &sign, true) else { return false };
    let block = hooks::describe_begin(&mut access, registers, new);
    policy::settle(&mut access, Some(detached), new.kind, &Reallocated::Gave(block), |_| Site::NONE);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_detached_is_kept_in_three_words() {
        for parts in
            [(0, 0, 0, 0), (u32::MAX - 1, ADDRESS_MAX, (1 << 48) - 1, TIME_MAX.0), (7, 0x7f12_3456_7890, 99, 1 << 33)]
        {
            let (slot, address, number, time) = parts;
            let parts = (Slot(slot), address, Number(number), Ticks(time));
            let kept = Reallocation::of(Detached::from_parts(parts));
            assert_eq!(kept.detached().map(Detached::into_parts), Some(parts));
        }
        assert_eq!(Reallocation::default().detached(), None);
        assert!(!Reallocation::default().is_of_inherited());
    }

    #[test]
    fn a_block_of_a_parents_is_told_from_none() {
        let inherited = Reallocation::of_none(true);
        assert!(inherited.is_of_inherited() && inherited.detached().is_none());
        // Who has taken it out is the parent: this process was forked while the real function ran.
        let own = Reallocation::of(Detached::from_parts((Slot(3), 0x5000, Number(9), Ticks(1))));
        assert!(!own.is_of_inherited());
        let parents = Reallocation { number: own.number ^ 1 << NUMBER_BITS, ..own };
        assert!(parents.is_of_inherited() && parents.detached().is_none());
    }
}
