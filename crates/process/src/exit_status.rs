//! With what status a process of a family ends itself. Its parent is told that, and `run` only of those that live long enough to be seen.
#![forbid(unsafe_code)]

use crate::family::ForkedChildren;
use crate::shared::{Phase, Shared};
use core::sync::atomic::Ordering;
use heapledger_format::GlobalCounter;

/// Whether somebody will ask.
pub fn is_wanted(shared: &Shared) -> bool {
    shared.phase.load(Ordering::Acquire) == Phase::On as u8
        && shared.settings().forked_children == ForkedChildren::Begin
}

/// This process is about to end with a status, of which others are told eight bits. A child that has its parent's ledger, or its memory, says
/// nothing there.
pub fn note(shared: &Shared, status: i32) {
    // A forked child that has not begun may have forbidden itself all system calls but its last: it is not asked for its number.
    let is_own = || shared.switch.follows() && shared.switch.is_owned();
    if is_wanted(shared) && shared.ledger().mapping().is_some() && is_own() {
        let told = u64::from(status as u8).wrapping_add(1);
        shared.ledger().global(GlobalCounter::ExitStatus).store(told, Ordering::Relaxed);
    }
}
