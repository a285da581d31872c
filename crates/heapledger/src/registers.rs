//! The registers from which a stack is taken: of a caller, or of what a signal has interrupted.
//!
//! A room with `unsafe`: reads registers, in assembly, and the kernel's structure of them.

use core::ffi::c_void;
use heapledger_unwind::Registers;

/// Writes the registers of its caller, as they will be when it has returned.
#[unsafe(naked)]
pub(crate) extern "C" fn of_caller(into: &mut Registers) {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "endbr64",
        "mov rax, [rsp]
        mov [rdi], rax
        lea rax, [rsp + 8]
        mov [rdi + 8], rax
        mov [rdi + 16], rbp
        mov [rdi + 24], rbx
        mov [rdi + 32], r12
        mov [rdi + 40], r13
        mov [rdi + 48], r14
        mov [rdi + 56], r15
        ret",
        ".cfi_endproc",
    )
}

/// Of what a signal has interrupted: from the third argument of its handler.
///
/// # Safety
/// It must be that argument, or what `getcontext` has filled.
pub(crate) unsafe fn of_context(context: *const c_void) -> Registers {
    // `ucontext_t`: flags, link and stack come first, and then r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip.
    const FIRST: usize = 5;
    let register = |index: usize| {
        // SAFETY: the caller's.
        unsafe { context.cast::<u64>().add(FIRST.wrapping_add(index)).read_unaligned() }
    };
    Registers {
        // The instruction itself was interrupted, and none before it.
        ip: register(16).wrapping_add(1),
        sp: register(15),
        bp: register(10),
        bx: register(11),
        r12: register(4),
        r13: register(5),
        r14: register(6),
        r15: register(7),
    }
}
