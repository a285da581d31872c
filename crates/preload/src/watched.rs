//! What is done beside recording at each call, while a program has asked for something through the C API: hooks, faults, figures, traces.
//!
//! Stubs come here only then (`next::look_who_watches`). A call that is to fail is made with a size that no allocator has: so `errno`, an
//! answer of `posix_memalign` and an exception of `operator new` are those that the program would see.

use crate::SHARED;
use crate::calls::{self, alignment_asked, argument, booked_call_ends, failed_inside, size_asked};
use crate::emulated;
use crate::frame::{BookedBy, CallFrame, SPARE_ARGUMENT};
use crate::hooked::{Family, Hooked, Shape};
use crate::next;
use heapledger_api::hooks as told;
use heapledger_format::Kind;
use heapledger_process::backtrace::leads_through;
use heapledger_process::{entry, hooks, look};
use heapledger_watch::watched::{self, Block};
use heapledger_watch::{state, traces};

/// What is carried from the first half of a call to the second, with a number in the frame's spare argument: of a call that was made to
/// fail what it asked for, else bytes of the block that is resized.
#[derive(Clone, Copy, Default)]
#[repr(transparent)]
pub(crate) struct Watched(u32);

/// It is told of when it has come back.
const TOLD: u32 = 1;
/// It was made to fail.
const FAILS: u32 = 2;
/// It is made for another call's sake.
const INNER: u32 = 4;
/// More than any allocator has.
const TOO_MANY_BYTES: usize = usize::MAX - 0xFFFF;

impl Watched {
    /// Whether something is to be done when the call has come back.
    pub(crate) fn is_any(self) -> bool {
        self.0 != 0
    }

    fn is(self, flag: u32) -> bool {
        self.0 & flag != 0
    }
}

/// Keeps a number until the call has come back.
fn keep(frame: &mut CallFrame, number: usize) {
    if let Some(place) = frame.caller.args.get_mut(SPARE_ARGUMENT) {
        *place = number;
    }
}

fn kept(frame: &CallFrame) -> usize {
    argument(frame, SPARE_ARGUMENT)
}

/// Whether something is wanted of calls.
#[inline(always)]
pub(crate) fn is_on() -> bool {
    state::flags() & state::WATCHED != 0
}

/// Bytes of a block: what it was asked for if the ledger knows it, else what its allocator says.
fn bytes_of(block: usize) -> usize {
    let asked = look::size_of(&SHARED, block as u64, false);
    asked.map_or_else(|| next::usable_size(block), |size| size as usize)
}

fn is_to_fail(frame: &CallFrame) -> bool {
    !watched::is_made(&|code| leads_through(&frame.registers, code))
}

/// The argument that says how many bytes; of several, the last.
fn size_argument(shape: Shape) -> Option<usize> {
    match shape {
        Shape::Block(bytes) | Shape::StoresBlock(bytes) | Shape::Resizes(bytes) => Some(bytes),
        Shape::BlockOfItems(_, bytes) | Shape::ResizesItems(_, bytes) => Some(bytes),
        Shape::Frees | Shape::Asks | Shape::Unloads | Shape::JumpsOn(_) => None,
    }
}

/// Makes a call fail.
fn fail(shape: Shape, frame: &mut CallFrame) {
    frame.watched.0 |= FAILS;
    keep(frame, size_asked(shape, frame));
    if let Some(bytes) = size_argument(shape).and_then(|index| frame.caller.args.get_mut(index)) {
        *bytes = TOO_MANY_BYTES;
    }
}

/// Whether a function has no other way to say that there is no block.
fn throws(kind: Kind) -> bool {
    matches!(kind, Kind::NEW | Kind::NEW_ARRAY | Kind::NEW_ALIGN | Kind::NEW_ARRAY_ALIGN)
}

/// A call that is about to fail does not come back to say so: it is told of now.
fn never_comes_back(hooked: &Hooked, frame: &mut CallFrame, size: usize) {
    frame.watched.0 &= !TOLD;
    hooks::call_failed(&SHARED, &frame.registers, &calls::refused(hooked, frame));
    refused(Block { kind: hooked.kind, address: 0, size, counted: 0, align: 0, heap: 0 });
}

/// Its arguments as they were.
fn restore(shape: Shape, frame: &mut CallFrame) {
    let items = match shape {
        Shape::BlockOfItems(items, _) | Shape::ResizesItems(items, _) => argument(frame, items),
        _ => 1,
    };
    let asked = kept(frame);
    if let Some(bytes) = size_argument(shape).and_then(|index| frame.caller.args.get_mut(index)) {
        *bytes = asked.checked_div(items).unwrap_or(0);
    }
}

/// A call that is booked, or told of, begins. False if it is not to be made.
pub(crate) fn begins(hook: usize, hooked: &Hooked, frame: &mut CallFrame) -> bool {
    told::look_at_history();
    let block = argument(frame, 0);
    let size = size_asked(hooked.shape, frame);
    let ends = match hooked.shape {
        Shape::Frees => true,
        Shape::Resizes(_) | Shape::ResizesItems(..) => size == 0 && block != 0,
        Shape::Block(_) | Shape::BlockOfItems(..) | Shape::StoresBlock(_) => false,
        Shape::Asks | Shape::Unloads | Shape::JumpsOn(_) => return true,
    };
    let is_freed = hooked.shape == Shape::Frees;
    if !is_freed {
        frame.watched.0 = TOLD;
    }
    if ends {
        return ends_block(hooked, frame, block);
    }
    // With no items at all there is nothing to fail.
    let asks_nothing = size == 0 && matches!(hooked.shape, Shape::BlockOfItems(..));
    if !next::fails_inside(hook, hooked) && !asks_nothing && is_to_fail(frame) {
        if throws(hooked.kind) {
            never_comes_back(hooked, frame, size);
        }
        fail(hooked.shape, frame);
        return true;
    }
    if block_is_old(hooked.shape) && block != 0 {
        let size = bytes_of(block);
        let old = Block { kind: hooked.kind, address: block, size, counted: size, align: 0, heap: 0 };
        if !watched::resizes(old, told::call) {
            return false;
        }
        keep(frame, old.size);
        traces::resizes(block);
    }
    true
}

fn block_is_old(shape: Shape) -> bool {
    matches!(shape, Shape::Resizes(_) | Shape::ResizesItems(..))
}

/// A block is about to be freed.
fn ends_block(hooked: &Hooked, frame: &CallFrame, block: usize) -> bool {
    if block == 0 {
        return true;
    }
    let size = bytes_of(block);
    let may_go =
        watched::frees(Block { kind: hooked.kind, address: block, size, counted: size, align: 0, heap: 0 }, told::call);
    if may_go {
        traces::frees(&frame.registers, block);
    }
    may_go
}

/// A call that is made for another one's sake begins.
pub(crate) fn inner_begins(hooked: &Hooked, frame: &mut CallFrame) {
    let gives = size_argument(hooked.shape).is_some() && hooked.family == Family::C;
    if !gives {
        return;
    }
    frame.watched = Watched(INNER);
    let caller = frame.return_address();
    let is_for_us = entry::code().contains(&caller) || next::in_operator_body(caller);
    if is_for_us && size_asked(hooked.shape, frame) != 0 && is_to_fail(frame) {
        fail(hooked.shape, frame);
    }
}

/// A call begins where nothing is recorded: returns whom to call.
pub(crate) fn unrecorded_begins(hook: usize, hooked: &Hooked, frame: &mut CallFrame, function: usize) -> usize {
    let caller = frame.return_address();
    if entry::code().contains(&caller) || next::in_operator_body(caller) {
        inner_begins(hooked, frame);
        return function;
    }
    if begins(hook, hooked, frame) { function } else { emulated::nothing as *const () as usize }
}

/// What follows a call for which [`Watched::is_any`]; returns its result.
#[cold]
#[inline(never)]
pub(crate) fn ends(hook: usize, hooked: &Hooked, frame: &mut CallFrame, result: usize) -> usize {
    let watched = frame.watched;
    if watched.is(FAILS) {
        restore(hooked.shape, frame);
    }
    if frame.booked_by == BookedBy::THIS {
        booked_call_ends(hook, hooked, frame, result);
    }
    if watched.is(INNER) {
        inner_ends(hook, hooked, frame, result);
    } else if watched.is(TOLD) {
        tell(hook, hooked, frame, result);
    }
    result
}

/// A call that an operator of C++ made has come back. If it has no block, the operator may throw, and never come back to say so.
fn inner_ends(hook: usize, hooked: &Hooked, frame: &CallFrame, result: usize) {
    let is_without = block_of(hooked.shape, frame, result) == 0;
    if is_without && next::in_operator_body(frame.return_address()) {
        failed_inside(hook, frame);
        let size = size_asked(hooked.shape, frame);
        refused(Block { kind: hooked.kind, address: 0, size, counted: 0, align: 0, heap: 0 });
    }
}

/// A call gave no block.
fn refused(block: Block) {
    watched::gave(block, told::call);
    told::refused(block.size, None);
}

/// The block that a call has given, or 0.
fn block_of(shape: Shape, frame: &CallFrame, result: usize) -> usize {
    match shape {
        // SAFETY: the call succeeded, so it has stored a pointer there.
        Shape::StoresBlock(_) if result as i32 == 0 => unsafe { *(argument(frame, 0) as *const usize) },
        Shape::StoresBlock(_) => 0,
        _ => result,
    }
}

/// Tells of a call that has come back.
fn tell(hook: usize, hooked: &Hooked, frame: &CallFrame, result: usize) {
    let address = block_of(hooked.shape, frame, result);
    let asked = size_asked(hooked.shape, frame);
    let counted = if address == 0 { 0 } else { bytes_of(address) };
    let align = alignment_asked(hooked.kind, frame);
    let new = Block { kind: hooked.kind, address, size: asked, counted, align, heap: 0 };
    let old = if block_is_old(hooked.shape) { argument(frame, 0) } else { 0 };
    if old != 0 && asked != 0 {
        let is_made = !frame.watched.is(FAILS);
        if is_made {
            traces::gave_anew(&frame.registers, old, (address != 0).then_some((address, asked)));
        }
        let bytes = if is_made { kept(frame) } else { 0 };
        let old = Block { address: old, size: bytes, counted: bytes, ..new };
        watched::gave_anew(old, new, is_made, told::call);
        if address == 0 {
            told::refused(asked, None);
        }
        return;
    }
    if address != 0 {
        traces::gave(&frame.registers, address, asked);
        watched::gave(new, told::call);
    } else if old == 0 && !(hooked.family == Family::Cxx && next::fails_inside(hook, hooked)) {
        refused(new);
    }
}
