//! Entry points of the commonest operators of C++, in assembly.
//!
//! The operators of the C++ runtimes are `malloc` and `free` with a loop around them for want of memory (libstdc++'s `new_op.cc`, libc++'s
//! `new.cpp`). Where both are known ([`crate::next::DIRECT`]) `new_stub` calls glibc's `malloc` itself and enters what that gives, which
//! saves two calls of replaced functions, the mark that tells that one belongs to the other, and all that is asked about it. If there is no
//! memory the operator is called after all, which asks its handler, or throws. `delete_stub` enters the end and jumps to `free`.

macro_rules! new_stub {
    ($name:ident, $symbol:literal, $index:expr) => {
        #[unsafe(naked)]
        #[unsafe(link_section = "heapledger_entry")]
        #[cfg_attr(not(feature = "wrapped"), unsafe(export_name = $symbol))]
        #[allow(non_snake_case, reason = "named after its row in the list")]
        extern "C" fn $name() {
            core::arch::naked_asm!(
                crate::offered::wrap_name!($symbol),
                ".cfi_startproc",
                "endbr64",
                "mov r11, [rip + {direct} + 8 * {index}]",
                "test r11, r11",
                "je 2f",
                ".cfi_remember_state",
                crate::stubs::save_call_frame!(96),
                "call r11",
                "test rax, rax",
                "je 3f",
                ".cfi_remember_state",
                "mov rdi, rsp",
                "mov rsi, rax",
                "call {gave}",
                "leave",
                ".cfi_def_cfa rsp, 8",
                "ret",
                // No memory: the operator says what becomes of that.
                ".cfi_restore_state",
                "3:",
                crate::stubs::restore_arguments!(),
                "leave",
                ".cfi_restore_state",
                "2:",
                crate::stubs::pass_or_call!(),
                ".cfi_endproc",
                index = const $index,
                bypass = sym crate::next::BYPASS,
                direct = sym crate::next::DIRECT,
                gave = sym crate::direct::gave::<{ $index }>,
                before_call = sym crate::calls::before_call,
                after_call = sym crate::calls::after_call,
            )
        }
    };
}

macro_rules! delete_stub {
    ($name:ident, $symbol:literal, $index:expr) => {
        #[unsafe(naked)]
        #[unsafe(link_section = "heapledger_entry")]
        #[cfg_attr(not(feature = "wrapped"), unsafe(export_name = $symbol))]
        #[allow(non_snake_case, reason = "named after its row in the list")]
        extern "C" fn $name() {
            core::arch::naked_asm!(
                crate::offered::wrap_name!($symbol),
                ".cfi_startproc",
                "endbr64",
                "cmp qword ptr [rip + {direct} + 8 * {index}], 0",
                "je 2f",
                ".cfi_remember_state",
                crate::stubs::save_call_frame!(96),
                "mov rdi, rsp",
                "call {deletes}",
                crate::stubs::restore_arguments!(),
                "leave",
                ".cfi_restore_state",
                "test rax, rax",
                "je 2f",
                "jmp rax",
                "2:",
                crate::stubs::pass_or_call!(),
                ".cfi_endproc",
                index = const $index,
                bypass = sym crate::next::BYPASS,
                direct = sym crate::next::DIRECT,
                deletes = sym crate::direct::deletes::<{ $index }>,
                before_call = sym crate::calls::before_call,
                after_call = sym crate::calls::after_call,
            )
        }
    };
}

pub(crate) use {delete_stub, new_stub};
