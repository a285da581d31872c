//! What handlers of exceptions in C tell: who has written to what is watched, and where the processor could not go on.
//!
//! # Safety
//! A room with `unsafe`: C calls these, with what it has found when the handler began.

use heapledger::chip::{Books, CannotWatch, Interrupted, Placed, unwatch, watch};

/// There is no watchpoint that could be set.
const ABSENT: i32 = -6;
/// All are in use.
const NO_ROOM: i32 = -2;
/// An argument cannot be.
const INVALID: i32 = -5;

/// In the number of a watch: of its first byte only.
const FIRST_BYTE: i32 = 0x100;

/// Who has written: `struct heapledger_written`.
#[repr(C)]
pub(crate) struct ToldWritten {
    address: usize,
    bytes: usize,
    code: usize,
    link: usize,
    watch: i32,
    is_over: i32,
}

/// Where the processor could not go on: `struct heapledger_fault`.
#[repr(C)]
pub(crate) struct ToldFault {
    code: usize,
    link: usize,
    status: usize,
    address: usize,
}

/// What a handler has found when it began.
///
/// # Safety
/// It has.
unsafe fn interrupted<B: Placed>(found: *const [usize; 4]) -> Interrupted {
    // SAFETY: the caller's promise.
    let found = unsafe { *found };
    #[cfg(target_arch = "arm")]
    // SAFETY: the firmware says where its stacks end.
    return unsafe { Interrupted::of_handler(found, B::stack_end) };
    #[cfg(target_arch = "riscv32")]
    {
        let [link, frame, ..] = found;
        Interrupted::of_trap(link, frame)
    }
}

/// # Safety
/// The handler has found that when it began, and there is room for what it is to know.
pub(crate) unsafe fn written<B: Placed>(found: *const [usize; 4], to: *mut ToldWritten) -> i32 {
    // SAFETY: the caller's promise.
    let Some(written) = Books::<B>::of().written(unsafe { interrupted::<B>(found) }) else { return 0 };
    let (hit, by) = (written.hit, written.by);
    let told = ToldWritten {
        address: hit.address,
        bytes: hit.bytes,
        code: by.code,
        link: by.link,
        watch: hit.watch.into(),
        is_over: hit.is_over.into(),
    };
    // SAFETY: as above.
    unsafe { to.write(told) };
    1
}

/// # Safety
/// As [`written`].
pub(crate) unsafe fn faulted<B: Placed>(found: *const [usize; 4], to: *mut ToldFault) {
    // SAFETY: the caller's promise.
    let fault = Books::<B>::of().faulted(unsafe { interrupted::<B>(found) });
    let told = ToldFault { code: fault.at.code, link: fault.at.link, status: fault.status, address: fault.address };
    // SAFETY: as above.
    unsafe { to.write(told) };
}

/// Watches some bytes.
#[unsafe(no_mangle)]
extern "C" fn heapledger_watch(address: usize, bytes: usize) -> i32 {
    match watch(address, bytes) {
        Ok(watch) if usize::from(watch.bytes) == bytes => watch.number.into(),
        Ok(watch) => i32::from(watch.number) | FIRST_BYTE,
        Err(CannotWatch::NoneLeft) => NO_ROOM,
        Err(CannotWatch::Unaligned) => INVALID,
        Err(_) => ABSENT,
    }
}

/// Ends a watch.
#[unsafe(no_mangle)]
extern "C" fn heapledger_unwatch(watch: i32) -> i32 {
    let is_over = u8::try_from(watch & !FIRST_BYTE).is_ok_and(unwatch);
    if is_over { 0 } else { -4 }
}
