//! What a call means: from arguments and results to the recorder's words.
//!
//! Compiled here, once, whatever the program's allocator is.
#![forbid(unsafe_code)]

use crate::begin;
use crate::entry::{CallFrame, ReallocFrame};
use crate::forward;
use crate::guard;
use crate::told;
use heapledger_format::Kind;
use heapledger_process::backtrace::leads_through;
use heapledger_process::errors::FailedCall;
use heapledger_process::families::GivenBack;
use heapledger_process::guarded::GUARD;
use heapledger_process::hooks::{self, AboutBlock, NewBlock, Ready, ReallocEnd, Usable};
use heapledger_process::layouts::{SaidLayout, Says};
use heapledger_process::reallocation::Reallocation;
use heapledger_process::shared::SHARED;
use heapledger_watch::state::{self, FORWARDED, ON};
use heapledger_watch::traces;
use heapledger_watch::watched::{self, Block};

/// What blocks come from: there is one heap in the ledger, and nobody tells how long its blocks really are.
#[inline(always)]
fn new_block(frame: &CallFrame, kind: Kind, address: usize, size: usize, align: usize) -> NewBlock {
    let (usable, is_apart) = (Usable::Known(0), frame.heap().spacing.is_apart());
    let about = if is_apart { AboutBlock::Apart } else { AboutBlock::Nothing };
    NewBlock { kind, address, size, usable, heap: 0, about, alignment: Some(align) }
}

#[inline(always)]
fn book_block(thread: Option<Ready>, frame: &CallFrame, kind: Kind, address: usize, heap: u8) {
    let [_, size, align, ..] = frame.args;
    match address {
        0 => hooks::call_failed(&SHARED, &frame.registers, &FailedCall::new(kind, size, align)),
        _ => {
            let block = NewBlock { heap, ..new_block(frame, kind, address, size, align) };
            hooks::block_begins(&SHARED, thread, &frame.registers, &block);
        }
    }
}

/// What follows the real call of a function that gives a block. Returns the block.
pub(crate) extern "C" fn gave<const KIND: u8>(frame: &CallFrame, block: usize) -> usize {
    gave_of(frame, Kind(KIND), block, 0)
}

#[inline(always)]
fn gave_of(frame: &CallFrame, kind: Kind, block: usize, heap: u8) -> usize {
    match hooks::ready(&SHARED) {
        Some(thread) => book_block(Some(thread), frame, kind, block, heap),
        // The thread's first call.
        None if hooks::is_on(&SHARED) => book_block(None, frame, kind, block, heap),
        None => rests(),
    }
    block
}

/// The arguments of `dealloc` or `realloc`, which of both.
#[derive(Clone, Copy)]
struct Returned<'a, const BY: u8>(&'a CallFrame);

impl<const BY: u8> Says for Returned<'_, BY> {
    #[inline(always)]
    fn layout(&self) -> Option<SaidLayout> {
        let [_, _, size, alignment, ..] = self.0.args;
        Some(SaidLayout { by: Kind(BY), size, alignment })
    }
}

/// The same where blocks are guarded: frees of what is no block are told, too.
#[derive(Clone, Copy)]
struct Guarded<S>(S, Kind);

impl<S: Says> Says for Guarded<S> {
    #[inline(always)]
    fn layout(&self) -> Option<SaidLayout> {
        self.0.layout()
    }

    #[inline(always)]
    fn given_back(&self) -> Option<GivenBack> {
        Some(GivenBack {
            by: self.1,
            size: None,
            alignment: 0,
            asked_alignment: 0,
            operators_are_shared: || false,
            // Of what others have from the allocator inside nobody knows anything.
            all_call_us: || false,
            is_glibc: || false,
            is_no_block: guard::is_no_block,
        })
    }
}

#[inline(always)]
fn block_ends(frame: &CallFrame, thread: Option<Ready>, block: usize, says: impl Says) {
    hooks::block_ends(&SHARED, thread, &frame.registers, block, Kind::RUST_DEALLOC, says);
}

/// What precedes the real `dealloc`.
pub(crate) extern "C" fn frees(frame: &CallFrame) {
    frees_saying(frame, Returned::<{ Kind::RUST_DEALLOC.0 }>(frame));
}

#[inline(always)]
fn frees_saying(frame: &CallFrame, says: impl Says) {
    let [_, block, ..] = frame.args;
    match hooks::ready(&SHARED) {
        Some(thread) => block_ends(frame, Some(thread), block, says),
        None => frees_otherwise(frame, block, says),
    }
}

#[cold]
#[inline(never)]
fn frees_otherwise(frame: &CallFrame, block: usize, says: impl Says) {
    if hooks::follows(&SHARED) {
        let thread = hooks::ready_while_paused(&SHARED);
        block_ends(frame, thread, block, says);
    } else {
        rests();
    }
}

/// As [`frees`], where blocks are guarded.
#[cold]
#[inline(never)]
fn frees_guarded(frame: &CallFrame) {
    frees_saying(frame, Guarded(Returned::<{ Kind::RUST_DEALLOC.0 }>(frame), Kind::RUST_DEALLOC));
}

/// What precedes the real `realloc`.
pub(crate) extern "C" fn resizes(frame: &mut ReallocFrame) {
    let [_, block, ..] = frame.call.args;
    let says = Returned::<{ Kind::RUST_REALLOC.0 }>(&frame.call);
    frame.kept = hooks::realloc_begins(&SHARED, &frame.call.registers, block, says);
}

/// As [`resizes`], where blocks are guarded.
#[cold]
#[inline(never)]
fn resizes_guarded(frame: &mut ReallocFrame) {
    let [_, block, ..] = frame.call.args;
    let says = Guarded(Returned::<{ Kind::RUST_REALLOC.0 }>(&frame.call), Kind::RUST_REALLOC);
    frame.kept = hooks::realloc_begins(&SHARED, &frame.call.registers, block, says);
}

/// What follows the real `realloc`. Returns the block.
pub(crate) extern "C" fn resized(frame: &ReallocFrame, block: usize) -> usize {
    resized_of(frame, block, 0)
}

#[inline(always)]
fn resized_of(frame: &ReallocFrame, block: usize, heap: u8) -> usize {
    if !hooks::follows(&SHARED) {
        rests();
    } else if !hooks::realloc_ends(&SHARED, &frame.call.registers, &resize(frame, block, heap)) {
        resized_slowly(frame, block, heap);
    }
    block
}

#[cold]
#[inline(never)]
fn resized_slowly(frame: &ReallocFrame, block: usize, heap: u8) {
    hooks::realloc_ends_slowly(&SHARED, &frame.call.registers, &resize(frame, block, heap));
}

#[inline(always)]
fn resize(frame: &ReallocFrame, block: usize, heap: u8) -> ReallocEnd<'_> {
    let [_, old, _, align, new_size, _] = frame.call.args;
    let of = |frame| NewBlock { heap, ..new_block(frame, Kind::RUST_REALLOC, block, new_size, align) };
    let new = (block != 0).then(|| of(&frame.call));
    let refused = FailedCall { block: old, ..FailedCall::new(Kind::RUST_REALLOC, new_size, align) };
    ReallocEnd { begun: &frame.kept, by: Kind::RUST_REALLOC, new, frees: false, is_inner: false, refused }
}

/// Nothing is entered. If that is because this is a forked child, calls need not come here any more.
#[cold]
#[inline(never)]
fn rests() {
    hooks::note_fork(&SHARED);
    begin::look();
}

/// What precedes the real call of a function that gives a block, in a program that is watched. False if it is to fail.
pub(crate) extern "C" fn watched_asks(frame: &CallFrame) -> bool {
    watched::is_made(&|code| leads_through(&frame.registers, code))
}

/// What follows it. Returns the block.
pub(crate) extern "C" fn watched_gave<const KIND: u8>(frame: &CallFrame, address: usize) -> usize {
    let [_, size, align, ..] = frame.args;
    match state::base() {
        ON => _ = gave_of(frame, Kind(KIND), address, guard::heap(address)),
        FORWARDED => forward::gave(frame, Kind(KIND), address),
        _ => {}
    }
    traces::gave(&frame.registers, address, size);
    watched::gave(Block { kind: Kind(KIND), address, size, counted: size, align, heap: 0 }, told::call);
    address
}

/// What precedes the real `dealloc`, in a program that is watched. False if it is not to be made.
pub(crate) extern "C" fn watched_frees(frame: &CallFrame) -> bool {
    let [_, address, size, align, ..] = frame.args;
    let is_made =
        watched::frees(Block { kind: Kind::RUST_DEALLOC, address, size, counted: size, align, heap: 0 }, told::call);
    if is_made {
        traces::frees(&frame.registers, address);
        match state::base() {
            ON if GUARD.is_on() => frees_guarded(frame),
            ON => frees(frame),
            FORWARDED => forward::frees(frame),
            _ => {}
        }
    }
    is_made
}

/// What precedes the real `realloc`, in a program that is watched. False if it is to fail.
pub(crate) extern "C" fn watched_resizes(frame: &mut ReallocFrame) -> bool {
    let [_, address, size, align, ..] = frame.call.args;
    frame.kept = Reallocation::default();
    let is_made = watched::is_made(&|code| leads_through(&frame.call.registers, code))
        && watched::resizes(
            Block { kind: Kind::RUST_REALLOC, address, size, counted: size, align, heap: 0 },
            told::call,
        );
    if is_made {
        traces::resizes(address);
        match state::base() {
            ON if GUARD.is_on() => resizes_guarded(frame),
            ON => resizes(frame),
            FORWARDED => forward::resizes(frame),
            _ => {}
        }
    }
    frame.is_made = u8::from(is_made);
    is_made
}

/// What follows it. Returns the block.
pub(crate) extern "C" fn watched_resized(frame: &ReallocFrame, address: usize) -> usize {
    let [_, old, old_size, align, size, _] = frame.call.args;
    match state::base() {
        ON => _ = resized_of(frame, address, guard::heap(address)),
        FORWARDED => forward::resized(frame, address),
        _ => {}
    }
    if frame.is_made != 0 {
        traces::gave_anew(&frame.call.registers, old, (address != 0).then_some((address, size)));
    }
    let new = Block { kind: Kind::RUST_REALLOC, address, size, counted: size, align, heap: 0 };
    let old = Block { address: old, size: old_size, counted: old_size, ..new };
    watched::gave_anew(old, new, frame.is_made != 0, told::call);
    address
}
