//! What stands before the functions of a library that is built for one firmware, in assembly: it calls the real function with what was passed, and
//! tells of the block. What is pushed ends with a frame, so that the address behind the call is certain.
//!
//! # Safety
//! A room with `unsafe`: functions that C calls, which hand their arguments on.

/// A function that gives blocks: which argument says how many bytes, and which how often; what stands before and behind it on ARM.
macro_rules! gives {
    ($wrap:ident $real:ident $kind:ident ($size:expr, $times:expr) [$($begins:literal)*] [$($ends:literal)*]) => {
        #[cfg(target_arch = "arm")]
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        extern "C" fn $wrap() {
            core::arch::naked_asm!(
                $($begins,)*
                ".cfi_sections .debug_frame",
                ".cfi_startproc",
                "push {{r4, r5, r7, lr}}",
                ".cfi_def_cfa_offset 16",
                ".cfi_offset r4, -16",
                ".cfi_offset r5, -12",
                ".cfi_offset r7, -8",
                ".cfi_offset lr, -4",
                "mov r4, r{size}",
                ".if {times} < 4",
                "muls r4, r{factor}, r4",
                ".endif",
                "bl {real}",
                "mov r5, r0",
                "mov r1, r0",
                "mov r2, r4",
                "add r3, sp, #8",
                "movs r0, #{kind}",
                "bl {gave}",
                "mov r0, r5",
                "pop {{r4, r5, r7, pc}}",
                ".cfi_endproc",
                $($ends,)*
                size = const $size,
                times = const $times & 15,
                factor = const $times & 3,
                kind = const Kind::$kind.0,
                real = sym $real,
                gave = sym crate::fixed::gave,
            )
        }

        #[cfg(target_arch = "riscv32")]
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        extern "C" fn $wrap() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "addi sp, sp, -16",
                ".cfi_def_cfa_offset 16",
                "sw ra, 12(sp)",
                "sw s0, 8(sp)",
                "sw s1, 4(sp)",
                ".cfi_offset ra, -4",
                ".cfi_offset s0, -8",
                ".cfi_offset s1, -12",
                "mv s1, a{size}",
                ".if {times} < 4",
                "mul s1, s1, a{factor}",
                ".endif",
                "call {real}",
                "sw a0, 0(sp)",
                "mv a1, a0",
                "mv a2, s1",
                "addi a3, sp, 16",
                "li a0, {kind}",
                "call {gave}",
                "lw a0, 0(sp)",
                "lw s1, 4(sp)",
                "lw ra, 12(sp)",
                "addi sp, sp, 16",
                "ret",
                ".cfi_endproc",
                size = const $size,
                times = const $times & 15,
                factor = const $times & 3,
                kind = const Kind::$kind.0,
                real = sym $real,
                gave = sym crate::fixed::gave,
            )
        }
    };
}

/// One that takes them back: which argument is the block. (Before it does: then nobody can have been given the address again.)
macro_rules! takes {
    ($wrap:ident $real:ident $kind:ident ($block:expr)) => {
        #[cfg(target_arch = "arm")]
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        extern "C" fn $wrap() {
            core::arch::naked_asm!(
                ".cfi_sections .debug_frame",
                ".cfi_startproc",
                "push {{r0, r1, r2, r3, r7, lr}}",
                ".cfi_def_cfa_offset 24",
                ".cfi_offset r7, -8",
                ".cfi_offset lr, -4",
                "mov r1, r{block}",
                "add r2, sp, #16",
                "movs r0, #{kind}",
                "bl {takes}",
                "pop {{r0, r1, r2, r3}}",
                ".cfi_def_cfa_offset 8",
                "bl {real}",
                "pop {{r7, pc}}",
                ".cfi_endproc",
                block = const $block,
                kind = const Kind::$kind.0,
                real = sym $real,
                takes = sym crate::fixed::takes,
            )
        }

        #[cfg(target_arch = "riscv32")]
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        extern "C" fn $wrap() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "addi sp, sp, -32",
                ".cfi_def_cfa_offset 32",
                "sw ra, 28(sp)",
                "sw s0, 24(sp)",
                ".cfi_offset ra, -4",
                ".cfi_offset s0, -8",
                "sw a0, 0(sp)",
                "sw a1, 4(sp)",
                "sw a2, 8(sp)",
                "mv a1, a{block}",
                "addi a2, sp, 32",
                "li a0, {kind}",
                "call {takes}",
                "lw a0, 0(sp)",
                "lw a1, 4(sp)",
                "lw a2, 8(sp)",
                "lw ra, 28(sp)",
                "addi sp, sp, 32",
                ".cfi_def_cfa_offset 0",
                "tail {real}",
                ".cfi_endproc",
                block = const $block,
                kind = const Kind::$kind.0,
                real = sym $real,
                takes = sym crate::fixed::takes,
            )
        }
    };
}

pub(crate) use {gives, takes};
