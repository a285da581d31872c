//! A block begins where one in so many is guarded: it may be put elsewhere.
#![forbid(unsafe_code)]

use crate::access::{Access, Sign, count_refused, note_range};
use crate::arenas;
use crate::hooks::{NewBlock, Ready, Usable, describe_begin};
use crate::shared::Shared;
use crate::switch::Recording;
use heapledger_linux::apart;
use heapledger_recorder::backend::CallEffect;
use heapledger_recorder::policy;
use heapledger_unwind::Registers;

/// As [`block_begins`](crate::hooks::block_begins), where one block in so many is guarded. Returns where the block lies: `block.address`, or, if it was chosen, where
/// the guard has put it, and then the allocator is to have its own back.
#[inline(always)]
pub fn block_begins_somewhere(
    shared: &'static Shared,
    ready: Option<Ready>,
    registers: &Registers,
    block: &NewBlock,
    guard_heap: u8,
) -> usize {
    let sign = Sign::new();
    match ready.and_then(|ready| Access::enter_at_once(shared, ready.state, registers, &sign, false)) {
        Some(access) => book_begin_somewhere(access, registers, block, guard_heap),
        None => block_begins_somewhere_slowly(shared, registers, *block, guard_heap),
    }
}

#[inline(always)]
fn book_begin_somewhere(mut access: Access, registers: &Registers, block: &NewBlock, guard_heap: u8) -> usize {
    if !access.takes(block.size) {
        return block.address;
    }
    let mut begun = describe_begin(&mut access, registers, block);
    if crate::rarely::chooses(begun.site, &mut access.state.turns)
        && let Some(address) = arenas::allocate_sample(block.size)
    {
        let actual = arenas::actual(address, block.size);
        let guarded = NewBlock { address, usable: Usable::Known(actual), heap: guard_heap, ..*block };
        access.prepare(&guarded);
        note_range(&mut access, &guarded, actual);
        begun.address = address as u64;
        begun.actual = begun.actual.map(|_| actual as u64);
        begun.heap = guard_heap;
    }
    policy::begin(&mut access, &begun);
    begun.address as usize
}

/// Of all threads, wherever they stand: else call sites whose stack is a bit deeper than others' would have no turn.
#[cold]
#[inline(never)]
fn block_begins_somewhere_slowly(
    shared: &'static Shared,
    registers: &Registers,
    block: NewBlock,
    guard_heap: u8,
) -> usize {
    if shared.switch.get() == Recording::Paused {
        return block.address;
    }
    let sign = Sign::new();
    let mut address = block.address;
    let mut begin = || match Access::enter(shared, registers, &sign) {
        Ok(access) => address = book_begin_somewhere(access, registers, &block, guard_heap),
        Err(refused) => count_refused(shared, refused, CallEffect::Gives),
    };
    match block.usable {
        // As below.
        Usable::Ask(_) => begin(),
        Usable::Known(_) => apart::run(&mut begin),
    }
    address
}
