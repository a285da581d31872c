//! What is done beside recording, at each call of a program that asked for it: counting, faults, hooks.

use crate::hooks::{Caller, Stage, Told, When};
use crate::state::{self, Want};
use crate::{counting, faults, hooks, inside};
use core::ops::Range;
use heapledger_format::Kind;

/// Whether the call that comes is to be made, or fails. `is_within` says whether its stack has some code in it.
pub fn is_made(is_within: &dyn Fn(&Range<usize>) -> bool) -> bool {
    !(state::wants(Want::Asked) && faults::fails(is_within))
}

/// Of which block a call is.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// The function that is called.
    pub kind: Kind,
    /// Where it is; 0: there is none.
    pub address: usize,
    /// Its bytes, or those that were asked for.
    pub size: usize,
    /// Bytes with which it is counted: the same when it is given and when it is given back.
    pub counted: usize,
    /// Its alignment, if that is known, or asked for.
    pub align: usize,
    /// Row of its heap.
    pub heap: u32,
}

impl Block {
    fn told(self, stage: Stage, caller: Caller) {
        if state::wants(Want::Asked) {
            let when = When::Gave;
            hooks::tell(&Told { stage, when, block: self }, caller);
        }
    }

    /// Of a call that has come back with this one, or none.
    fn told_of_request(self, caller: Caller) {
        self.told(if self.address == 0 { Stage::Refused } else { Stage::Gave }, caller);
    }
}

/// Whether a block may be given back or resized: not by a hook that is just told of it.
fn may_go(block: usize) -> bool {
    !(state::wants(Want::Asked) && inside::refuses(block))
}

/// Of live bytes that may have become fewer.
fn fell() {
    if state::wants(Want::Asked) {
        hooks::fell();
    }
}

/// A call has given a block, or none.
pub fn gave(block: Block, caller: Caller) {
    if state::wants(Want::Counted) {
        match block.address {
            0 => counting::failed(),
            _ => counting::allocated(block.counted),
        }
    }
    block.told_of_request(caller);
}

/// A block is about to be given back. False if it is to stay.
pub fn frees(block: Block, caller: Caller) -> bool {
    if !may_go(block.address) {
        return false;
    }
    block.told(Stage::TakesBack, caller);
    if state::wants(Want::Counted) {
        counting::freed(block.counted);
        fell();
    }
    true
}

/// A block is about to be resized. False if that is to fail.
pub fn resizes(block: Block, caller: Caller) -> bool {
    if !may_go(block.address) {
        return false;
    }
    block.told(Stage::TakesBack, caller);
    true
}

/// A call has given a block for another one, or none; or it has not been made.
pub fn gave_anew(old: Block, new: Block, was_made: bool, caller: Caller) {
    if state::wants(Want::Counted) {
        match new.address {
            0 => counting::failed(),
            _ => counting::resized(old.counted, new.counted),
        }
        fell();
    }
    new.told_of_request(caller);
    if was_made && new.address == 0 {
        old.told(Stage::Stays, caller);
    }
}
