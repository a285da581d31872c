//! Address space: the ledger is mapped with room to grow, and gives it back when the program is allowed less.
//!
//! Under a limit the ledger may take an eighth of what the program has not mapped itself. A fourth of that stays mapped,
//! because whoever maps next may come to lie in what was given back; the rest is mapped when the ledger grows.
#![forbid(unsafe_code)]

use crate::ledger::Ledger;
use crate::shared::{Phase, Shared};
use core::sync::atomic::Ordering;
use heapledger_linux::{process, syscall};

/// The ledger's part of the address space that is left under a limit.
pub(crate) const PART: u64 = 8;
/// The part of that which stays mapped.
const RESERVED_PART: u64 = 4;

/// The program is about to limit its address space; `None`: not any more. Limits set by others are not heard of.
pub fn address_space_is_limited(shared: &Shared, limit: Option<u64>) {
    if let Some((ledger, is_child)) = ledger(shared) {
        fit(ledger, limit, is_child);
    }
}

/// The program is about to lock all that is mapped: the kernel counts what has no storage yet, and refuses.
pub fn memory_is_locked(shared: &Shared) {
    let (Some((ledger, is_child)), Some(limit)) = (ledger(shared), syscall::limit(syscall::LIMIT_LOCKED_BYTES)) else {
        return;
    };
    let mapped = process::mapped_bytes();
    if mapped > limit && mapped.saturating_sub(ledger.mapped_bytes()) < limit {
        ledger.give_address_room(u64::MAX, 0, is_child);
    }
}

/// The ledger of this process, and whether nobody enters anything there (any more).
fn ledger(shared: &Shared) -> Option<(&Ledger, bool)> {
    let phase = shared.phase.load(Ordering::Acquire);
    if phase != Phase::On as u8 && phase != Phase::Off as u8 {
        return None;
    }
    let records = phase == Phase::On as u8 && shared.switch.follows();
    // After `vfork` it is the child that is limited, and the parent's memory that would be changed.
    let is_another = records && !shared.switch.is_owned();
    let ledger = shared.ledger();
    (ledger.mapping().is_some() && !is_another).then_some((ledger, !records))
}

/// Leaves the program as much of a limited address space as the ledger can spare.
pub(crate) fn fit(ledger: &Ledger, limit: Option<u64>, is_child: bool) {
    let ours = ledger.mapped_bytes();
    let left = limit.map(|limit| limit.saturating_sub(process::mapped_bytes().saturating_sub(ours)));
    match left {
        Some(left) if ours > left / PART => {
            let share = left / PART;
            ledger.give_address_room(share, if is_child { 0 } else { share / RESERVED_PART }, is_child);
        }
        _ => ledger.give_address_room(u64::MAX, u64::MAX, is_child),
    }
}
