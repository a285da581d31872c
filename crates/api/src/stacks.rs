//! Call stacks for a program's own use.

use crate::entry::with_registers;
use crate::error::{ApiError, answer};
use crate::recording::recorder;
use core::ffi::{c_int, c_void};
use heapledger_format::Site;
use heapledger_linux::context::{Interrupted, interrupted};
use heapledger_process::backtrace::{StackMethod, take};
use heapledger_unwind::Registers;

/// More frames than any memory has room for.
const ROOM_MAX: usize = isize::MAX as usize >> 3;

with_registers! {
    /// The stack of the caller, whose frame is the first: stores so many frames and gives their number.
    ///
    /// # Safety
    /// There must be room.
    heapledger_backtrace(frames: *mut usize, room: usize, without: usize) -> usize = backtrace
}

unsafe extern "C" fn backtrace(
    frames: *mut usize,
    room: usize,
    without: usize,
    _: usize,
    _: usize,
    registers: &Registers,
) -> usize {
    // SAFETY: the caller's.
    unsafe { stored(registers, frames, room, without) }
}

/// # Safety
/// There must be room.
unsafe fn stored(registers: &Registers, frames: *mut usize, room: usize, without: usize) -> usize {
    if frames.is_null() || room > ROOM_MAX {
        return 0;
    }
    // SAFETY: the caller's.
    let into = unsafe { core::slice::from_raw_parts_mut(frames, room) };
    take(registers, StackMethod::Auto, (without, 0), into).frames
}

/// The stack that a signal has interrupted.
///
/// # Safety
/// The context must be the third argument of a handler, or what `getcontext` has filled, and there must be room.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapledger_backtrace_of(
    context: *const c_void,
    frames: *mut usize,
    room: usize,
    without: usize,
) -> usize {
    if context.is_null() {
        return 0;
    }
    // SAFETY: the caller's.
    let Interrupted { ip, sp, bp, bx, r12, r13, r14, r15 } = unsafe { interrupted(context) };
    // The instruction itself was interrupted, and none before it.
    let registers = Registers { ip: ip.wrapping_add(1), sp, bp, bx, r12, r13, r14, r15 };
    // SAFETY: the caller's.
    unsafe { stored(&registers, frames, room, without) }
}

/// Keeps a stack in the ledger; gives its number.
///
/// # Safety
/// The frames must be there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapledger_stack_put(frames: *const usize, count: usize) -> c_int {
    if frames.is_null() || count > ROOM_MAX {
        return ApiError::INVALID.0;
    }
    // SAFETY: the caller's.
    let frames = unsafe { core::slice::from_raw_parts(frames, count) };
    answer(recorder().and_then(|way| Ok(way.put_stack(frames)?.0)))
}

/// The frames of a stack that is kept: stores as many as there is room for, and gives how many there are.
///
/// # Safety
/// There must be room.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapledger_stack_get(stack: c_int, frames: *mut usize, room: usize) -> c_int {
    let Ok(stack) = u32::try_from(stack) else { return ApiError::INVALID.0 };
    if frames.is_null() && room > 0 || room > ROOM_MAX {
        return ApiError::INVALID.0;
    }
    let first = if room == 0 { core::ptr::NonNull::dangling().as_ptr() } else { frames };
    // SAFETY: the caller's.
    let into = unsafe { core::slice::from_raw_parts_mut(first, room) };
    answer(recorder().and_then(|way| Ok(way.get_stack(Site(stack), into)? as u32)))
}
