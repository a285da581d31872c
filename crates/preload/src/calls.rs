//! What a call means: from arguments and results to the recorder's words.

use crate::SHARED;
use crate::emulated;
use crate::frame::{BookedBy, CallFrame, Caller};
use crate::guard;
use crate::hooked::{Family, HOOKED, Hook, Hooked, Shape};
use crate::life;
use crate::next;
use crate::others;
use crate::says::{SaysNothingOfOld, given_back};
use crate::watched::{self, Watched};
use heapledger_format::Kind;
use heapledger_format::errors::ErrorKind;
use heapledger_process::code;
use heapledger_process::enclosing::{self, Call};
use heapledger_process::entry;
use heapledger_process::errors::FailedCall;
use heapledger_process::hooks::{self, AboutBlock, NewBlock, Ready, ReallocEnd, Usable};
use heapledger_process::ledger::PAGE_BYTES;
use heapledger_process::reallocation::Reallocation;
use heapledger_process::start;
use heapledger_process::unknown;

/// Starts recording at the first call of all.
#[inline(always)]
pub(crate) fn ensure_started() {
    if start::is_unstarted(&SHARED) {
        life::begin();
    }
}

/// Whether another hook of this thread books this call, because it is made for that one's sake:
/// it comes from us (a function that was called from a stub jumped on to it), from the body of a C++
/// operator that a hook has called, or from another library that stands behind us, as part of a call
/// `about` the same size or block.
fn is_nested(frame: &Caller, about: usize) -> bool {
    is_own_call(frame)
        || enclosing::enclosing_call(&SHARED).is_some_and(|enclosing| is_part_of(enclosing, frame, about))
}

#[inline(always)]
pub(crate) fn is_own_call(frame: &Caller) -> bool {
    entry::code().contains(&frame.return_address()) && is_booked(frame)
}

/// Whether the hook to which a call will return books it. It does not if it has only passed its own call on.
#[cold]
fn is_booked(frame: &Caller) -> bool {
    // SAFETY: the function that a stub called has jumped on to here, so what follows the return address is the stub's frame. (Or one
    // of `block_stub`'s that is shorter: then it is the program's word behind it, and the call is booked as it is.)
    unsafe { (*(frame.registers.sp as *const CallFrame)).booked_by != BookedBy::NOBODY }
}

#[cold]
#[inline(never)]
pub(crate) fn is_part_of(enclosing: Call, frame: &Caller, about: usize) -> bool {
    let caller = frame.return_address();
    // A mark that an exception left behind can be found on a later, deeper call; but an operator's body is
    // entered through a hook, which sets the mark anew.
    enclosing.stack_pointer > frame.stack_pointer()
        && (next::in_operator_body(caller)
            || enclosing.is_inside() && next::in_library_behind_us(caller)
            || enclosing.about.contains(&about)
                && (next::in_library_behind_us(caller) || next::in_new_operator_body(caller)))
}

#[inline(always)]
pub(crate) fn argument(frame: &Caller, index: usize) -> usize {
    frame.args.get(index).copied().unwrap_or(0)
}

/// Bytes that an allocation function was asked for; too many to count are one failed call.
#[inline(always)]
pub(crate) fn size_asked(shape: Shape, frame: &Caller) -> usize {
    match shape {
        Shape::Block(bytes) | Shape::StoresBlock(bytes) | Shape::Resizes(bytes) => argument(frame, bytes),
        Shape::BlockOfItems(items, bytes) | Shape::ResizesItems(items, bytes) => {
            argument(frame, items).saturating_mul(argument(frame, bytes))
        }
        Shape::Frees | Shape::Asks | Shape::Unloads | Shape::JumpsOn(_) => 0,
    }
}

/// The real function of a stub that does nothing but note the call; asked only until it is known.
pub(crate) extern "C" fn real_function(hook: usize) -> usize {
    next::next(hook)
}

/// What precedes `dlopen` where its flags matter, or it is not known yet; returns the real one, to which the stub jumps.
///
/// Where blocks are guarded no library is bound past us: one that frees a block of the program's, or gives it one to free, would have
/// glibc's `free` take what it has not given.
pub(crate) extern "C" fn opens(hook: usize, file: usize, flags: &mut u32) -> usize {
    const RTLD_NOLOAD: u32 = 4;
    ensure_started();
    if file != 0 && *flags & (RTLD_DEEPBIND | RTLD_NOLOAD) == RTLD_DEEPBIND {
        if guard::is_on() {
            *flags &= !RTLD_DEEPBIND;
            code::is_not_bound_past_us(&SHARED);
        } else {
            code::is_bound_past_us(&SHARED);
        }
    }
    next::next(hook)
}

/// Looks into the library and what it needs before it looks elsewhere: finds the C library's functions, and not ours.
pub(crate) const RTLD_DEEPBIND: u32 = 8;

/// First half of every hook; returns the function to call.
pub(crate) extern "C" fn before_call(hook: usize, frame: &mut CallFrame) -> usize {
    ensure_started();
    let next = next::next(hook);
    let function = if guard::is_on() { others::instead_of(hook, next, argument(frame, 0)) } else { next };
    frame.booked_by = BookedBy::ANOTHER;
    frame.watched = Watched::default();
    let Some(hooked) = HOOKED.get(hook) else { return function };
    if hooked.shape == Shape::Unloads {
        // Also where nothing is recorded: C++ calls are passed on there too.
        code::unloads(&SHARED);
        next::unloading_begins();
        return function;
    }
    if hooked.family == Family::Cxx && SHARED.sampling.is_on() && next::calls_malloc(hook) {
        // Sampled at `malloc`, which they call, and which is cheaper.
        next::bypass(hook, function);
        frame.booked_by = BookedBy::NOBODY;
        return function;
    }
    if hooked.family == Family::Cxx && next::cxx_is_before_us()
        || !hooks::follows(&SHARED) && !hooks::note_fork(&SHARED)
    {
        frame.booked_by = BookedBy::NOBODY;
        return if watched::is_on() { watched::unrecorded_begins(hook, hooked, frame, function) } else { function };
    }
    // What a second call made for this one's sake will have in common with it.
    let about = match hooked.shape {
        Shape::Frees | Shape::Resizes(_) | Shape::ResizesItems(..) => argument(frame, 0),
        shape => size_asked(shape, frame),
    };
    note_library(hook, frame, about);
    if is_nested(frame, about) {
        if watched::is_on() {
            watched::inner_begins(hooked, frame);
        }
        return if guard::is_on() { others::of_inner(hook, frame.return_address(), function) } else { function };
    }
    frame.booked_by = BookedBy::THIS;
    frame.kept = Reallocation::default();
    if watched::is_on() && !watched::begins(hook, hooked, frame) {
        frame.booked_by = BookedBy::NOBODY;
        return emulated::nothing as *const () as usize;
    }
    match hooked.shape {
        Shape::Frees => {
            if about != 0 {
                book_end(frame, about, hooked.kind);
            }
        }
        Shape::Resizes(_) | Shape::ResizesItems(..) => {
            if about != 0 {
                let says = SaysNothingOfOld(hooked.kind);
                frame.kept = hooks::realloc_begins(&SHARED, &frame.registers, about, says);
            }
        }
        Shape::Block(_) | Shape::BlockOfItems(..) | Shape::StoresBlock(_) => {}
        // Programs ask it of each block: where nobody looks at them that must cost nothing.
        Shape::Asks if guard::is_on() => size_is_asked(frame, hooked.kind),
        Shape::Asks | Shape::Unloads | Shape::JumpsOn(_) => {}
    }
    if may_call_others(hooked) {
        // `realloc` may be made of `malloc` and `free`: both its size and its block.
        let about = [about, size_asked(hooked.shape, frame)];
        let call = Call { stack_pointer: frame.stack_pointer(), about, gap: 0 };
        frame.enclosing = enclosing::call_begins(&SHARED, call);
    }
    function
}

/// Not compiled into its caller, on whose stack all other calls stand too.
#[inline(never)]
fn book_end(frame: &CallFrame, block: usize, by: Kind) {
    let says = given_back(by, frame);
    hooks::block_ends(&SHARED, hooks::ready_to_follow(&SHARED), &frame.registers, block, by, says);
}

/// Neither is this.
#[inline(never)]
fn size_is_asked(frame: &CallFrame, by: Kind) {
    let block = argument(frame, 0);
    if block != 0 {
        unknown::size_asked(&SHARED, &frame.registers, block, given_back(by, frame));
    }
}

/// Second half; returns the result.
///
/// What it calls it calls last, so that their frames take the place of its own.
pub(crate) extern "C" fn after_call(hook: usize, frame: &mut CallFrame, result: usize) -> usize {
    let Some(hooked) = HOOKED.get(hook) else { return result };
    if hooked.shape == Shape::Unloads {
        code::unloaded(&SHARED);
        next::unloading_ends();
    }
    if frame.watched.is_any() {
        return watched::ends(hook, hooked, frame, result);
    }
    if frame.booked_by != BookedBy::THIS {
        return result;
    }
    booked_call_ends(hook, hooked, frame, result)
}

/// What follows a call that is booked here.
#[inline(always)]
pub(crate) fn booked_call_ends(hook: usize, hooked: &Hooked, frame: &mut CallFrame, result: usize) -> usize {
    if may_call_others(hooked) {
        enclosing::call_ends(&SHARED, &frame.enclosing);
    }
    match hooked.shape {
        Shape::Resizes(_) | Shape::ResizesItems(..) if argument(frame, 0) != 0 => resized(hook, frame, result),
        Shape::Frees | Shape::Asks | Shape::Unloads | Shape::JumpsOn(_) => result,
        _ => given(hook, frame, result),
    }
}

/// The same, of which the compiler does not know that it is: a function that returns it can be called last.
#[inline(always)]
fn unknown(mut result: usize) -> usize {
    // SAFETY: no instruction at all.
    unsafe { core::arch::asm!("/* {0} */", inout(reg) result, options(pure, nomem, nostack, preserves_flags)) };
    result
}

/// [`after_call`] of a function that was given none.
#[inline(never)]
extern "C" fn given(hook: usize, frame: &mut CallFrame, result: usize) -> usize {
    let Some(hooked) = HOOKED.get(hook) else { return result };
    let block = match hooked.shape {
        // SAFETY: the call succeeded, so it has stored a pointer there.
        Shape::StoresBlock(_) if result as i32 == 0 => unsafe { *(argument(frame, 0) as *const usize) },
        Shape::StoresBlock(_) => 0,
        _ => result,
    };
    let given = book_block(hook, hooked, hooks::ready(&SHARED), frame, block, size_asked(hooked.shape, frame));
    unknown(if given == block { result } else { given })
}

/// [`after_call`] of a function that was given a block.
#[inline(never)]
extern "C" fn resized(hook: usize, frame: &mut CallFrame, result: usize) -> usize {
    let Some(hooked) = HOOKED.get(hook) else { return result };
    if guard::is_on() {
        return resized_guarded(hook, frame, result);
    }
    if hooks::realloc_ends(&SHARED, &frame.registers, &resize(hook, hooked, frame, result, false)) {
        return unknown(result);
    }
    resized_slowly(hook, frame, result)
}

/// The same where blocks are guarded, as [`book_guarded`].
#[cold]
#[inline(never)]
extern "C" fn resized_guarded(hook: usize, frame: &mut CallFrame, result: usize) -> usize {
    if let Some(hooked) = HOOKED.get(hook)
        && hooks::realloc_ends(&SHARED, &frame.registers, &resize(hook, hooked, frame, result, guard::is_of_all()))
    {
        return unknown(result);
    }
    resized_slowly(hook, frame, result)
}

#[cold]
#[inline(never)]
extern "C" fn resized_slowly(hook: usize, frame: &mut CallFrame, result: usize) -> usize {
    if let Some(hooked) = HOOKED.get(hook) {
        hooks::realloc_ends_slowly(&SHARED, &frame.registers, &resize(hook, hooked, frame, result, guard::is_of_all()));
    }
    unknown(result)
}

#[inline(always)]
fn resize<'f>(hook: usize, hooked: &Hooked, frame: &'f CallFrame, result: usize, is_guarded: bool) -> ReallocEnd<'f> {
    let size = size_asked(hooked.shape, frame);
    let new = (result != 0).then(|| new_block(hook, hooked, result, size, is_guarded));
    ReallocEnd {
        begun: &frame.kept,
        by: hooked.kind,
        new,
        frees: size == 0,
        is_inner: false,
        refused: refused(hooked, frame),
    }
}

/// Whether the real function may call another replaced one for this call's sake. glibc's do not, but a
/// library in between may put its functions together from each other. (`free` jumps and never comes back
/// to take its mark away; it is what others end with.)
fn may_call_others(hooked: &Hooked) -> bool {
    let comes_back = hooked.kind != Kind::FREE && hooked.shape != Shape::Asks;
    hooked.always_calls_others() || hooked.family == Family::C && comes_back && !next::is_glibc()
}

#[inline(always)]
pub(crate) fn new_block(hook: usize, hooked: &Hooked, address: usize, size: usize, is_guarded: bool) -> NewBlock {
    let is_apart = next::gives_malloc_blocks(hook, hooked.family) && next::is_glibc();
    let (usable, heap) = if is_apart {
        in_glibc(address, size, is_guarded)
    } else if next::gives_malloc_blocks(hook, hooked.family) {
        (Usable::Ask(next::usable_size), if is_guarded { guard::heap_of_others(address) } else { 0 })
    } else {
        (Usable::Known(0), 0)
    };
    let about = if is_apart { AboutBlock::Apart } else { AboutBlock::Nothing };
    NewBlock { kind: hooked.kind, address, size, usable, heap, about, alignment: None }
}

/// [`new_block`] of glibc's `malloc` or one of its family.
#[inline(always)]
pub(crate) fn new_in_glibc(hooked: &Hooked, address: usize, size: usize, is_guarded: bool) -> NewBlock {
    let (usable, heap) = in_glibc(address, size, is_guarded);
    NewBlock { kind: hooked.kind, address, size, usable, heap, about: AboutBlock::Apart, alignment: None }
}

/// Returns where the block lies: one of a few that are guarded does so elsewhere.
#[inline(always)]
fn book_block(
    hook: usize,
    hooked: &Hooked,
    thread: Option<Ready>,
    frame: &Caller,
    address: usize,
    size: usize,
) -> usize {
    if address == 0 {
        call_failed(hook, frame);
        return 0;
    }
    if guard::is_on() {
        return book_guarded(hook, thread, frame, address, size);
    }
    hooks::block_begins(&SHARED, thread, &frame.registers, &new_block(hook, hooked, address, size, false));
    address
}

/// The same where blocks are guarded. Compiled for itself: what it asks and has in memory, others have in registers.
#[cold]
#[inline(never)]
pub(crate) fn book_guarded(hook: usize, thread: Option<Ready>, frame: &Caller, address: usize, size: usize) -> usize {
    book_guarded_fast(hook, thread, frame, address, size)
}

/// Not cold: what is so compiled is small, and slow.
#[inline(never)]
fn book_guarded_fast(hook: usize, thread: Option<Ready>, frame: &Caller, address: usize, size: usize) -> usize {
    let Some(hooked) = HOOKED.get(hook) else { return address };
    let block = new_block(hook, hooked, address, size, guard::is_of_all());
    if guard::is_sampled() && may_lie_elsewhere(hook, hooked, frame) {
        return guard::gives_elsewhere(thread, &frame.registers, &block);
    }
    hooks::block_begins(&SHARED, thread, &frame.registers, &block);
    address
}

/// Whether a block of this call may lie anywhere: it comes back by the next allocator's `free`, in front of which we stand (an allocator's
/// own operators of C++ do not call it), nobody asks for an alignment, nor was told of it.
pub(crate) fn may_lie_elsewhere(hook: usize, hooked: &Hooked, frame: &Caller) -> bool {
    next::gives_malloc_blocks(hook, hooked.family)
        && (hooked.family == Family::C || next::calls_malloc(hook))
        && matches!(hooked.shape, Shape::Block(_) | Shape::BlockOfItems(..))
        && alignment_asked(hooked.kind, frame) == 0
        && !watched::is_on()
}

/// A call gave no block. Compiled once, for all hooks.
#[cold]
#[inline(never)]
pub(crate) fn call_failed(hook: usize, frame: &Caller) {
    let is_new = |hooked: &&Hooked| hooked.family == Family::Cxx && hooks::has_failed_inside(&frame.registers);
    if let Some(hooked) = HOOKED.get(hook).filter(|hooked| !is_new(hooked)) {
        hooks::call_failed(&SHARED, &frame.registers, &refused(hooked, frame));
    }
}

/// A call that an operator of C++ makes gave no block. If that throws, it does not come back to say so: what it called does. An
/// operator that gives no block instead does come back.
#[cold]
#[inline(never)]
pub(crate) fn failed_inside(hook: usize, frame: &Caller) {
    if let Some(hooked) = HOOKED.get(hook).filter(|_| next::in_operator_body(frame.return_address())) {
        hooks::call_failed_inside(&SHARED, &frame.registers, &refused(hooked, frame));
    }
}

/// What a call asked for that gave no block, and why that was refused, if its arguments tell.
#[inline(always)]
pub(crate) fn refused(hooked: &Hooked, frame: &Caller) -> FailedCall {
    let size = size_asked(hooked.shape, frame);
    let is_array = hooked.kind == Kind::REALLOCARRAY;
    let items = match hooked.shape {
        Shape::BlockOfItems(items, bytes) | Shape::ResizesItems(items, bytes) => {
            [argument(frame, items), argument(frame, bytes)]
        }
        _ => [0, 0],
    };
    let block = match hooked.shape {
        Shape::Resizes(_) | Shape::ResizesItems(..) => argument(frame, 0),
        _ => 0,
    };
    let alignment = alignment_asked(hooked.kind, frame);
    let is_aligned = alignment.is_power_of_two() || alignment == 0;
    let (why, operands) = match hooked.kind {
        Kind::ALIGNED_ALLOC if !is_aligned => (ErrorKind::InvalidAlignedAllocAlignment, [size, alignment]),
        Kind::POSIX_MEMALIGN if !is_aligned || alignment < size_of::<usize>() => {
            (ErrorKind::InvalidPosixMemalignAlignment, [size, alignment])
        }
        Kind::MEMALIGN if !is_aligned => (ErrorKind::InvalidAllocationAlignment, [size, alignment]),
        Kind::PVALLOC if size > usize::MAX - PAGE_BYTES => (ErrorKind::PvallocOverflow, [1, size]),
        _ if items[0].checked_mul(items[1]).is_some() => (ErrorKind::FailedAllocation, items),
        _ if is_array => (ErrorKind::ReallocarrayOverflow, items),
        _ => (ErrorKind::CallocOverflow, items),
    };
    FailedCall { why, kind: hooked.kind, size, alignment, operands, block }
}

/// Of the functions that take one; else 0.
#[inline(always)]
pub(crate) fn alignment_asked(kind: Kind, frame: &Caller) -> usize {
    match kind {
        Kind::ALIGNED_ALLOC | Kind::MEMALIGN => argument(frame, 0),
        Kind::POSIX_MEMALIGN | Kind::NEW_ALIGN | Kind::NEW_ARRAY_ALIGN => argument(frame, 1),
        Kind::NEW_ALIGN_NOTHROW | Kind::NEW_ARRAY_ALIGN_NOTHROW => argument(frame, 1),
        Kind::VALLOC | Kind::PVALLOC => PAGE_BYTES,
        _ => 0,
    }
}

/// glibc's word before a block says how long the chunk is and where it comes from: what `malloc_usable_size` reads, too.
#[inline(always)]
fn in_glibc(address: usize, size: usize, is_guarded: bool) -> (Usable, u8) {
    if is_guarded {
        let (bytes, heap) = guard::room(address, size);
        // Chosen here and now: chosen later, it is stored as a byte and loaded as a word, which waits for all stores before it.
        return (Usable::Known(bytes), unknown(heap) as u8);
    }
    let (bytes, is_mapped, is_elsewhere) = crate::real::in_glibc(address);
    (Usable::Known(bytes), if is_mapped { 2 } else { u8::from(is_elsewhere) })
}

/// If the loader may be making this call for a library that it is about to load, code that was known is no longer trusted.
#[inline(always)]
pub(crate) fn note_library(hook: usize, frame: &Caller, size: usize) {
    if hook == Hook::Calloc as usize
        && code::is_like_a_library(size)
        && (code::is_loader(&SHARED, frame.return_address())
            || next::c_is_before_us() && code::is_behind_loader(&SHARED, &frame.registers))
    {
        code::loads(&SHARED);
    }
}
