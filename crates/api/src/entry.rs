//! Where functions come in that look at their caller's stack, in assembly: they save the caller's registers and hand them on.

/// A function of up to five arguments, as which `$inner` takes a sixth: the registers of the caller as they will be when it has
/// returned.
macro_rules! with_registers {
    ($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)? = $inner:ident) => {
        $(#[$doc])*
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        #[unsafe(link_section = "heapledger_entry")]
        pub unsafe extern "C" fn $name($($argument: $type),*) $(-> $result)? {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "endbr64",
                "push rbp
                .cfi_def_cfa_offset 16
                .cfi_offset rbp, -16
                mov rbp, rsp
                .cfi_def_cfa_register rbp
                sub rsp, 64
                mov rax, [rbp + 8]
                mov [rsp], rax
                lea rax, [rbp + 16]
                mov [rsp + 8], rax
                mov rax, [rbp]
                mov [rsp + 16], rax
                mov [rsp + 24], rbx
                mov [rsp + 32], r12
                mov [rsp + 40], r13
                mov [rsp + 48], r14
                mov [rsp + 56], r15
                mov r9, rsp
                call {inner}
                leave
                .cfi_def_cfa rsp, 8
                ret",
                ".cfi_endproc",
                inner = sym $inner,
            )
        }
    };
}

pub(crate) use with_registers;

// As the assembly above fills it.
const _: () = {
    use core::mem::{offset_of, size_of};
    use heapledger_unwind::Registers;
    assert!(size_of::<Registers>() == 64 && offset_of!(Registers, ip) == 0 && offset_of!(Registers, sp) == 8);
    assert!(offset_of!(Registers, bp) == 16 && offset_of!(Registers, bx) == 24 && offset_of!(Registers, r12) == 32);
    assert!(offset_of!(Registers, r13) == 40 && offset_of!(Registers, r14) == 48 && offset_of!(Registers, r15) == 56);
};
