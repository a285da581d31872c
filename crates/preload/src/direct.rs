//! Calls that a stub makes, or jumps on to, itself: for the commonest functions of the C family, glibc's own or those of an allocator that is
//! known not to put its functions together from each other, what is left to be done is compiled for each one by itself, and for each way of
//! guarding.
#![forbid(unsafe_code)]

use crate::SHARED;
use crate::calls::{
    after_call, argument, before_call, book_guarded, call_failed, failed_inside, is_own_call, is_part_of,
    may_lie_elsewhere, new_block, new_in_glibc, note_library, size_asked,
};
use crate::frame::{BookedBy, CallFrame, Caller};
use crate::guard;
use crate::hooked::{Family, hooked_at};
use crate::next;
use crate::says::{SaysNothing, SaysNothingOfOld, given_back};
use crate::watched::Watched;
#[cfg(not(feature = "wrapped"))]
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering;
#[cfg(not(feature = "wrapped"))]
use heapledger_linux::loader::Module;
use heapledger_process::enclosing::Call;
use heapledger_process::hooks::{self, NewBlock, Ready};
use heapledger_process::reallocation::{self, Reallocation};

/// What precedes a call of an allocator may be left out: its functions call no other replaced one.
#[cfg(not(feature = "wrapped"))]
static CALLS_NO_OTHER: AtomicBool = AtomicBool::new(false);

/// Functions that jemalloc, tcmalloc and mimalloc have and others have not. They define `malloc` and its like as names for functions of their
/// own, and call those.
#[cfg(not(feature = "wrapped"))]
const SIGNS: [&[u8]; 3] = [b"mallocx", b"tc_malloc", b"mi_malloc"];

/// Notes which module has the next `malloc`.
#[cfg(not(feature = "wrapped"))]
pub(crate) fn note_allocator(module: &Module) {
    let is_known = SIGNS.iter().any(|name| module.symbol(name).is_some());
    CALLS_NO_OTHER.store(is_known, Ordering::Release);
}

/// Whether stubs may call the next functions without asking, if nobody watches calls. Others than glibc's only where blocks are not guarded.
#[cfg(not(feature = "wrapped"))]
pub(crate) fn is_possible() -> bool {
    next::is_glibc() || CALLS_NO_OTHER.load(Ordering::Acquire) && !guard::is_on()
}

/// What follows the real call of a function that gives a block of so many bytes, of the C family and an allocator whose functions
/// call no other replaced one. Returns the block. (The stub has made the call: nothing is to be done before.)
///
/// Each way is a function of its own, to which this jumps: so none has to keep registers for another one.
pub(crate) extern "C" fn gave<const HOOK: usize>(frame: &Caller, block: usize) -> usize {
    if guard::is_on() {
        gave_guarded::<HOOK>(frame, block)
    } else if !hooks::is_usual(&SHARED) {
        gave_alone::<HOOK, false, false>(frame, block)
    } else if next::is_glibc() {
        gave_alone::<HOOK, true, true>(frame, block)
    } else {
        gave_alone::<HOOK, true, false>(frame, block)
    }
}

/// [`gave`] where blocks are not guarded, by whether all else [is usual](hooks::is_usual), and whether the allocator
/// is known to be glibc's.
#[inline(never)]
extern "C" fn gave_alone<const HOOK: usize, const IS_USUAL: bool, const IS_GLIBC: bool>(
    frame: &Caller,
    block: usize,
) -> usize {
    gave_to::<HOOK>(frame, block, |thread, size| {
        let thread = thread.map(|thread| if IS_USUAL { thread.as_usual() } else { thread });
        let hooked = &const { hooked_at(HOOK) };
        let new = match IS_GLIBC && (hooked.family == Family::C || next::gives_malloc_blocks(HOOK, hooked.family)) {
            true => new_in_glibc(hooked, block, size, false),
            false => new_of::<HOOK>(block, size, false),
        };
        hooks::block_begins(&SHARED, thread, &frame.registers, &new);
        block
    })
}

/// The same where blocks are guarded. What is cold is compiled to be small, and slow: this is the way there, and no more.
#[cold]
#[inline(never)]
extern "C" fn gave_guarded<const HOOK: usize>(frame: &Caller, block: usize) -> usize {
    if guard::is_sampled() { gave_sampled::<HOOK>(frame, block) } else { gave_dressed::<HOOK>(frame, block) }
}

/// [`gave`] where each block is guarded.
#[inline(never)]
extern "C" fn gave_dressed<const HOOK: usize>(frame: &Caller, block: usize) -> usize {
    gave_to::<HOOK>(frame, block, |thread, size| {
        let new = new_of::<HOOK>(block, size, guard::is_of_all());
        hooks::block_begins(&SHARED, thread, &frame.registers, &new);
        block
    })
}

/// [`gave`] where one block in so many is guarded, and lies elsewhere then.
#[inline(never)]
extern "C" fn gave_sampled<const HOOK: usize>(frame: &Caller, block: usize) -> usize {
    gave_to::<HOOK>(frame, block, |thread, size| {
        if may_lie_elsewhere(HOOK, &const { hooked_at(HOOK) }, frame) {
            return guard::gives_elsewhere(thread, &frame.registers, &new_of::<HOOK>(block, size, false));
        }
        book_guarded(HOOK, thread, frame, block, size)
    })
}

#[inline(always)]
fn new_of<const HOOK: usize>(block: usize, size: usize, is_guarded: bool) -> NewBlock {
    new_block(HOOK, &const { hooked_at(HOOK) }, block, size, is_guarded)
}

/// [`gave`]; `book` enters the block of so many bytes and says where it lies.
#[inline(always)]
fn gave_to<const HOOK: usize>(frame: &Caller, block: usize, book: impl Fn(Option<Ready>, usize) -> usize) -> usize {
    let hooked = &const { hooked_at(HOOK) };
    let size = size_asked(hooked.shape, frame);
    note_library(HOOK, frame, size);
    let thread = hooks::ready(&SHARED);
    if let Some(thread) = &thread
        && (is_own_call(frame) || thread.enclosing_call().is_some_and(|call| is_part_of(call, frame, size)))
    {
        if block == 0 {
            failed_inside(HOOK, frame);
        }
        return block;
    }
    // None: the thread's first call, or that of a forked child.
    if thread.is_some() || hooks::is_on(&SHARED) || hooks::note_fork(&SHARED) {
        if block != 0 {
            return book(thread, size);
        }
        call_failed(HOOK, frame);
    }
    block
}

/// [`before_call`] of a function that no second half follows: its stub keeps no room for one on the program's stack.
#[cold]
#[inline(never)]
fn before_free(hook: usize, caller: &Caller) -> usize {
    before_call(hook, &mut CallFrame::of(*caller))
}

/// What precedes `realloc`; returns the real one. Where glibc's is next, all [is usual](hooks::is_usual) and the call is the program's own, that is
/// less than what [`before_call`] has to ask.
pub(crate) extern "C" fn resizes<const HOOK: usize>(_: usize, frame: &mut CallFrame) -> usize {
    let function = next::DIRECT.get(HOOK).map_or(0, |function| function.load(Ordering::Acquire));
    if function != 0
        && hooks::is_usual(&SHARED)
        && next::is_glibc()
        && !is_own_call(frame)
        && let Some(thread) = hooks::ready(&SHARED)
        && thread.enclosing_call().is_none()
    {
        let says = const { SaysNothingOfOld(hooked_at(HOOK).kind) };
        let kept = match argument(frame, 0) {
            0 => Some(Reallocation::default()),
            block => reallocation::begins_at_once(&SHARED, thread, &frame.registers, block, says),
        };
        if let Some(kept) = kept {
            frame.kept = kept;
            frame.booked_by = BookedBy::THIS;
            frame.watched = Watched::default();
            frame.enclosing = Call::default();
            return function;
        }
    }
    before_call(HOOK, frame)
}

/// What follows it; returns the block.
pub(crate) extern "C" fn resized<const HOOK: usize>(_: usize, frame: &mut CallFrame, block: usize) -> usize {
    // All of that may have changed since.
    if block != 0
        && frame.booked_by == BookedBy::THIS
        && !frame.watched.is_any()
        && hooks::is_usual(&SHARED)
        && next::is_glibc()
        && let Some(thread) = hooks::ready(&SHARED)
    {
        if argument(frame, 0) == 0 {
            return gave_alone::<HOOK, true, true>(frame, block);
        }
        let hooked = &const { hooked_at(HOOK) };
        let new = new_in_glibc(hooked, block, size_asked(hooked.shape, frame), false);
        if reallocation::ends_at_once(&SHARED, thread, &frame.registers, &frame.kept, &new) {
            return block;
        }
    }
    after_call(HOOK, frame, block)
}

/// What precedes `free`; returns the real one, to which the stub jumps.
pub(crate) extern "C" fn frees<const HOOK: usize>(frame: &Caller) -> usize {
    if hooks::is_usual(&SHARED) { frees_by::<HOOK, true>(frame) } else { frees_by::<HOOK, false>(frame) }
}

/// The same, by whether all [is usual](hooks::is_usual).
#[inline(never)]
extern "C" fn frees_by<const HOOK: usize, const IS_USUAL: bool>(frame: &Caller) -> usize {
    let function = next::free();
    let Some(thread) = hooks::ready(&SHARED).filter(|_| function != 0) else {
        return before_free(HOOK, frame); // the first call of all, or of a thread, or watched, or nothing is recorded
    };
    let block = argument(frame, 0);
    if block != 0 && !is_own_call(frame) && !thread.enclosing_call().is_some_and(|call| is_part_of(call, frame, block))
    {
        let thread = if IS_USUAL { thread.as_usual() } else { thread };
        let by = const { hooked_at(HOOK).kind };
        hooks::block_ends(&SHARED, Some(thread), &frame.registers, block, by, SaysNothing::<HOOK>);
    }
    function
}

/// What precedes the `free` that an operator `delete` of a C++ runtime comes down to; returns the real `free`, to which the stub jumps. 0: the
/// operator is to be called, as if this had not been.
pub(crate) extern "C" fn deletes<const HOOK: usize>(frame: &Caller) -> usize {
    if hooks::is_usual(&SHARED) { deletes_by::<HOOK, true>(frame) } else { deletes_by::<HOOK, false>(frame) }
}

/// The same, by whether all [is usual](hooks::is_usual).
#[inline(never)]
extern "C" fn deletes_by<const HOOK: usize, const IS_USUAL: bool>(frame: &Caller) -> usize {
    let function = next::free();
    let Some(thread) = hooks::ready(&SHARED).filter(|_| function != 0) else { return 0 };
    let block = argument(frame, 0);
    if block != 0 && !is_own_call(frame) && !thread.enclosing_call().is_some_and(|call| is_part_of(call, frame, block))
    {
        let thread = if IS_USUAL { thread.as_usual() } else { thread };
        let by = const { hooked_at(HOOK).kind };
        hooks::block_ends(&SHARED, Some(thread), &frame.registers, block, by, given_back(by, frame));
    }
    function
}
