//! What is done beside recording, at each call of a program that asked for it: counting, faults.
//!
//! Entries come here only if something was asked for (`state`), so that it costs nothing where nobody did.
#![forbid(unsafe_code)]

use crate::state::{self, Want};
use crate::{counting, faults};
use core::ops::Range;

/// A call comes: the first one of all says what is wanted.
#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
#[inline]
pub(crate) fn begins(options: &crate::Options) {
    if state::flags() & state::BASE == state::UNSTARTED {
        // A second one that comes at the same time is not counted twice, but for the number of those who want it.
        if options.counts {
            counting::count_all();
        }
        state::set_base(state::OFF);
    }
}

/// Whether the call that comes is to be made, or fails. `is_within` says whether its stack has some code in it.
pub(crate) fn is_made(is_within: &dyn Fn(&Range<usize>) -> bool) -> bool {
    !(state::wants(Want::Asked) && faults::fails(is_within))
}

/// A call has given a block, or none.
pub(crate) fn gave(block: usize, bytes: usize) {
    if !state::wants(Want::Counted) {
        return;
    }
    match block {
        0 => counting::failed(),
        _ => counting::allocated(bytes),
    }
}

/// A block is about to be given back.
pub(crate) fn frees(_block: usize, bytes: usize) {
    if state::wants(Want::Counted) {
        counting::freed(bytes);
    }
}

/// A call has given a block for another one, or none.
pub(crate) fn gave_anew((_, old_bytes): (usize, usize), (block, new_bytes): (usize, usize)) {
    if !state::wants(Want::Counted) {
        return;
    }
    match block {
        0 => counting::failed(),
        _ => counting::resized(old_bytes, new_bytes),
    }
}
