//! What a signal has interrupted, as the kernel tells its handler.
//!
//! A room with `unsafe`: reads the kernel's structure.

use core::ffi::c_void;

/// Registers that an unwinder can need, as they were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interrupted {
    /// The instruction that was not executed yet.
    pub ip: u64,
    /// The stack pointer.
    pub sp: u64,
    /// The frame pointer, and what else a function keeps for its caller.
    pub bp: u64,
    /// See `bp`.
    pub bx: u64,
    /// See `bp`.
    pub r12: u64,
    /// See `bp`.
    pub r13: u64,
    /// See `bp`.
    pub r14: u64,
    /// See `bp`.
    pub r15: u64,
}

/// An access that the processor has refused, as a handler of that signal is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// As in [`Interrupted`].
    pub interrupted: Interrupted,
    /// All general registers, as instructions number them: `rax`, `rcx`, `rdx`, `rbx`, `rsp`, `rbp`, `rsi`, `rdi`, `r8` to `r15`.
    pub registers: [u64; 16],
    /// Whether it was to be written.
    pub is_write: bool,
    /// Whether it was to be executed.
    pub is_fetch: bool,
}

/// Of the third argument of a handler of `SIGSEGV` or `SIGBUS`.
///
/// # Safety
/// It must be that argument.
pub unsafe fn fault(context: *const c_void) -> Fault {
    const ERROR: usize = 19;
    const WRITE: u64 = 2;
    const FETCH: u64 = 16;
    // Where the kernel has put each of the sixteen.
    const PLACES: [usize; 16] = [13, 14, 12, 11, 15, 10, 9, 8, 0, 1, 2, 3, 4, 5, 6, 7];
    // SAFETY: the caller's.
    let word = |index: usize| unsafe { register(context, index) };
    // SAFETY: the caller's.
    let interrupted = unsafe { interrupted(context) };
    let error = word(ERROR);
    Fault { interrupted, registers: PLACES.map(word), is_write: error & WRITE != 0, is_fetch: error & FETCH != 0 }
}

/// # Safety
/// As of [`interrupted`].
unsafe fn register(context: *const c_void, index: usize) -> u64 {
    // `ucontext_t`: flags, link and stack come first, and then r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip.
    const FIRST: usize = 5;
    // SAFETY: the caller's.
    unsafe { context.cast::<u64>().add(FIRST.wrapping_add(index)).read_unaligned() }
}

/// Of the third argument of a signal's handler.
///
/// # Safety
/// It must be that argument, or what `getcontext` has filled.
pub unsafe fn interrupted(context: *const c_void) -> Interrupted {
    // SAFETY: the caller's.
    let register = |index: usize| unsafe { register(context, index) };
    Interrupted {
        ip: register(16),
        sp: register(15),
        bp: register(10),
        bx: register(11),
        r12: register(4),
        r13: register(5),
        r14: register(6),
        r15: register(7),
    }
}
