//! The registers from which a stack is taken: of a caller, or of what a signal has interrupted.
//!
//! A room with `unsafe`: reads registers, in assembly, and passes on what a handler promises of those that the kernel tells.

use core::ffi::c_void;
use heapledger_linux::context::{Interrupted, interrupted};
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
    // SAFETY: the caller's.
    let Interrupted { ip, sp, bp, bx, r12, r13, r14, r15 } = unsafe { interrupted(context) };
    // The instruction itself was interrupted, and none before it.
    Registers { ip: ip.wrapping_add(1), sp, bp, bx, r12, r13, r14, r15 }
}
