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

/// Of the third argument of a signal's handler.
///
/// # Safety
/// It must be that argument, or what `getcontext` has filled.
pub unsafe fn interrupted(context: *const c_void) -> Interrupted {
    // `ucontext_t`: flags, link and stack come first, and then r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip.
    const FIRST: usize = 5;
    let register = |index: usize| {
        // SAFETY: the caller's.
        unsafe { context.cast::<u64>().add(FIRST.wrapping_add(index)).read_unaligned() }
    };
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
