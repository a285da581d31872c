//! What is done beside recording, at each call of a program that asked for it: counting, faults, hooks.
//!
//! Entries come here only if something was asked for (`state`), so that it costs nothing where nobody did.
#![forbid(unsafe_code)]

use crate::event::{EventCall, Stage};
use crate::state::{self, Want};
use crate::{counting, faults, inside, told};
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

/// Of which block a call is.
#[derive(Clone, Copy)]
pub(crate) struct Block {
    pub(crate) address: usize,
    pub(crate) size: usize,
    pub(crate) align: usize,
}

impl Block {
    fn told(self, stage: Stage, call: EventCall) {
        if state::wants(Want::Asked) {
            told::tell(stage, call, &self);
        }
    }

    /// Of a call that has come back with this one, or none.
    fn told_of_request(self, call: EventCall) {
        self.told(if self.address == 0 { Stage::Refused } else { Stage::Gave }, call);
    }
}

/// Whether a block may be given back or resized: not by a hook that is just told of it.
fn may_go(block: usize) -> bool {
    !(state::wants(Want::Asked) && inside::refuses(block))
}

/// A call has given a block, or none.
pub(crate) fn gave(call: EventCall, block: Block) {
    if state::wants(Want::Counted) {
        match block.address {
            0 => counting::failed(),
            _ => counting::allocated(block.size),
        }
    }
    block.told_of_request(call);
}

/// A block is about to be given back. False if it is to stay.
pub(crate) fn frees(block: Block) -> bool {
    if !may_go(block.address) {
        return false;
    }
    block.told(Stage::TakesBack, EventCall::Dealloc);
    if state::wants(Want::Counted) {
        counting::freed(block.size);
        if state::wants(Want::Asked) {
            told::fell();
        }
    }
    true
}

/// A block is about to be resized. False if that is to fail.
pub(crate) fn resizes(block: Block) -> bool {
    if !may_go(block.address) {
        return false;
    }
    block.told(Stage::TakesBack, EventCall::Realloc);
    true
}

/// A call has given a block for another one, or none; or it has not been made.
pub(crate) fn gave_anew(old: Block, new: Block, was_made: bool) {
    if state::wants(Want::Counted) {
        match new.address {
            0 => counting::failed(),
            _ => counting::resized(old.size, new.size),
        }
        if state::wants(Want::Asked) {
            told::fell();
        }
    }
    new.told_of_request(EventCall::Realloc);
    if was_made && new.address == 0 {
        old.told(Stage::Stays, EventCall::Realloc);
    }
}
