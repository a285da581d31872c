//! Blocks of allocators inside of the program: an allocator that was linked in, a pool, an arena. Whoever makes them tells.
//!
//! Where such an allocator has its memory from a `malloc` that is recorded too, a block may begin where a block of that one does. So
//! they have an [index](crate::shared::Shared::inner) of their own, and each is found by those alone who told of it.
#![forbid(unsafe_code)]

use crate::access::{Access, Sign};
use crate::errors::FailedCall;
use crate::family::follows;
use crate::hooks::{self, AboutBlock, NewBlock, ReallocEnd, Usable};
use crate::layouts::{SaidLayout, Says};
use crate::look;
use crate::reallocation::Reallocation;
use crate::shared::Shared;
use crate::walk;
use crate::ways::InnerBlock;
use core::sync::atomic::Ordering;
use heapledger_format::Kind;
use heapledger_linux::tls;
use heapledger_unwind::Registers;

/// Whoever gives such a block back says nothing but that it is one.
#[derive(Clone, Copy)]
struct IsInner;

impl Says for IsInner {
    #[inline(always)]
    fn layout(&self) -> Option<SaidLayout> {
        None
    }

    #[inline(always)]
    fn is_inner(&self) -> bool {
        true
    }
}

fn kind(block: &InnerBlock) -> Kind {
    Kind(block.kind as u8)
}

fn new_block(block: &InnerBlock) -> NewBlock {
    NewBlock {
        kind: kind(block),
        address: block.address,
        size: block.bytes,
        usable: Usable::Known(0),
        heap: block.heap as u8,
        about: AboutBlock::Inner,
        alignment: None,
    }
}

fn refused(asked: &InnerBlock) -> FailedCall {
    FailedCall::new(kind(asked), asked.bytes, asked.alignment)
}

/// A block was given. False if nothing is followed in this process (any more).
pub fn gives(shared: &'static Shared, registers: &Registers, block: &InnerBlock) -> bool {
    let follows = follows(shared);
    if follows && block.address != 0 {
        hooks::block_begins(shared, hooks::ready(shared), registers, &new_block(block));
        if !look::holds(shared, block.address as u64) {
            shared.heap_books.note_missed(block.heap);
        }
    }
    follows
}

/// A block is about to be given back.
pub fn takes(shared: &'static Shared, registers: &Registers, address: usize, by: Kind) {
    if follows(shared) && address != 0 && shared.sampling.may_hold(address as u64) {
        let thread = hooks::ready(shared).or_else(|| hooks::ready_while_paused(shared));
        hooks::block_ends(shared, thread, registers, address, by, IsInner);
        note_if_it_stays(shared, address as u64);
    }
}

/// A block that was given back and is in the ledger still, because the thread was inside of it: its heap's books are wrong.
fn note_if_it_stays(shared: &Shared, address: u64) {
    if !shared.heap_books.are_there() {
        return;
    }
    let block = walk::next_block(shared, address, address.wrapping_add(1), walk::Direction::OwnUp);
    if let Some(block) = block {
        shared.heap_books.note_missed(block.heap);
    }
}

/// A block is about to be resized: as long as that lasts nobody finds it.
pub fn resizes(shared: &'static Shared, registers: &Registers, address: usize) -> Reallocation {
    if !follows(shared) || address == 0 {
        return Reallocation::default();
    }
    hooks::realloc_begins(shared, registers, address, IsInner)
}

/// It was, if `block` has an address; else it is as it was before.
pub fn resized(shared: &'static Shared, registers: &Registers, kept: &Reallocation, block: &InnerBlock) {
    if !follows(shared) {
        return;
    }
    let new = (block.address != 0).then(|| new_block(block));
    let end = ReallocEnd { begun: kept, by: kind(block), new, frees: false, is_inner: true, refused: refused(block) };
    if !hooks::realloc_ends(shared, registers, &end) {
        hooks::realloc_ends_slowly(shared, registers, &end);
    }
}

/// There was no block.
pub fn refuses(shared: &'static Shared, registers: &Registers, asked: &InnerBlock) {
    if follows(shared) {
        hooks::call_failed(shared, registers, &refused(asked));
    }
}

/// How many calls of the `malloc` that is recorded come from this thread while `work` runs; none of them is entered. `None`: nobody
/// knows, because nothing is recorded at this moment.
///
/// An inner allocator whose own functions are called by `work` has its blocks from there, if there are as many as it gives.
/// `registers` are those of a frame that has our [entry](crate::entry) for its code, so that a hook knows what it is in.
pub fn calls_inside(shared: &'static Shared, registers: &Registers, work: impl FnOnce()) -> Option<usize> {
    if !hooks::is_on(shared) {
        return None;
    }
    let sign = Sign::new();
    let access = Access::enter(shared, registers, &sign).ok()?;
    // Where blocks are sampled, those that are none would not come here.
    let gap = tls::gap();
    tls::set_gap(0);
    let asking = &access.state.thread().asking;
    asking.store(1, Ordering::Relaxed);
    work();
    let calls = asking.swap(0, Ordering::Relaxed).saturating_sub(1);
    tls::set_gap(gap);
    Some(calls)
}
