//! Entry points in assembly.
//!
//! A stub saves the caller's registers that an unwinder can need, and the arguments, in a
//! [`CallFrame`]; then
//! - `call_stub`: asks [`crate::calls::before_call`] whom to call, calls it from its own frame, hands the
//!   result to [`crate::calls::after_call`]. An exception thrown by `operator new`, or a `longjmp`,
//!   passes only this frame, which carries call-frame information and no Rust code;
//! - `jump_stub`: the same without `leave`: it jumps, and is gone when the real function runs. Not for
//!   functions that may themselves jump to another one of the list (`operator delete` to `free`): the
//!   second hook must see that the call comes from the first;
//! - `block_stub` and `free_stub` do the same for the functions that are called most. Where the next one is glibc's and known
//!   ([`crate::next::DIRECT`]), `block_stub` calls it at once and only then [`crate::direct::gave`], which is compiled for the
//!   one function; `free_stub` calls [`crate::direct::frees`].

use core::mem::offset_of;
use heapledger_process::sampling::Sampling;
use heapledger_process::shared::Shared;

macro_rules! save_call_frame {
    ($bytes:literal) => {
        concat!(
            "push rbp
        .cfi_def_cfa_offset 16
        .cfi_offset rbp, -16
        mov rbp, rsp
        .cfi_def_cfa_register rbp
        sub rsp, ",
            $bytes,
            "
        mov [rsp], rdi
        mov [rsp + 8], rsi
        mov [rsp + 16], rdx
        mov [rsp + 24], rcx
        mov rax, [rbp + 8]
        mov [rsp + 32], rax
        mov rax, [rbp]
        mov [rsp + 48], rax
        mov [rsp + 56], rbx
        mov [rsp + 64], r12
        mov [rsp + 72], r13
        mov [rsp + 80], r14
        mov [rsp + 88], r15
        lea rax, [rbp + 16]
        mov [rsp + 40], rax"
        )
    };
}

macro_rules! restore_arguments {
    () => {
        "mov rdi, [rsp]
        mov rsi, [rsp + 8]
        mov rdx, [rsp + 16]
        mov rcx, [rsp + 24]"
    };
}

/// Where blocks are sampled: a block of `r11` bytes (set by `$size`) that is no sample goes straight to the real function.
/// The thread's gap is 0 where nothing is sampled. Uses registers that hold no argument.
macro_rules! pass_if_no_sample {
    ($size:literal) => {
        concat!(
            "mov rax, [rip + heapledger_thread_gap@GOTTPOFF]
            mov r10, fs:[rax]
            test r10, r10
            je 4f
            ",
            $size,
            "
            test r11, r11
            je 4f
            sub r10, r11
            jbe 4f
            mov r11, [rip + {direct} + 8 * {index}]
            test r11, r11
            je 4f
            mov fs:[rax], r10
            jmp r11
            4:"
        )
    };
}

/// Jumps to `4:` if the block in `rdi` may be in the ledger; see `heapledger_process::sampling`.
macro_rules! go_on_if_known {
    () => {
        "cmp byte ptr [rip + {shared} + {is_on_at}], 0
        je 4f
        mov rax, rdi
        shr rax, {first_shift}
        mov r11, rdi
        shr r11, {second_shift}
        add rax, r11
        and eax, {counters} - 1
        lea r11, [rip + {shared} + {counters_at}]
        cmp byte ptr [r11 + rax], 0
        jne 4f"
    };
}

macro_rules! call_stub {
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
                crate::stubs::pass_or_call!(),
                ".cfi_endproc",
                index = const $index,
                bypass = sym crate::next::BYPASS,
                before_call = sym crate::calls::before_call,
                after_call = sym crate::calls::after_call,
            )
        }
    };
}

/// From entry to return: both halves around the real call.
macro_rules! call {
    () => {
        concat!(
            crate::stubs::save_call_frame!(160),
            "
            mov edi, {index}
            mov rsi, rsp
            call {before_call}
            ",
            crate::stubs::restore_arguments!(),
            "
            call rax
            mov edi, {index}
            mov rsi, rsp
            mov rdx, rax
            call {after_call}
            leave
            .cfi_def_cfa rsp, 8
            ret"
        )
    };
}

/// On to the real function if nobody books it, else [`call`].
macro_rules! pass_or_call {
    () => {
        concat!(
            "mov rax, [rip + {bypass} + 8 * {index}]
            test rax, rax
            je 4f
            jmp rax
            4:
            ",
            crate::stubs::call!()
        )
    };
}

macro_rules! realloc_stub {
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
                crate::offered::pass_where_over!(),
                crate::stubs::go_on_if_known!(),
                crate::stubs::pass_if_no_sample!("mov r11, rsi"),
                crate::stubs::call!(),
                ".cfi_endproc",
                index = const $index,
                bypass = sym crate::next::BYPASS,
                direct = sym crate::next::DIRECT,
                shared = sym crate::SHARED,
                is_on_at = const crate::stubs::IS_ON_AT,
                counters_at = const crate::stubs::COUNTERS_AT,
                counters = const heapledger_process::sampling::COUNTERS,
                first_shift = const heapledger_process::sampling::FIRST_SHIFT,
                second_shift = const heapledger_process::sampling::SECOND_SHIFT,
                before_call = sym crate::direct::resizes::<{ $index }>,
                after_call = sym crate::direct::resized::<{ $index }>,
            )
        }
    };
}

macro_rules! block_stub {
    ($size:literal, $name:ident, $symbol:literal, $index:expr) => {
        #[unsafe(naked)]
        #[unsafe(link_section = "heapledger_entry")]
        #[cfg_attr(not(feature = "wrapped"), unsafe(export_name = $symbol))]
        #[allow(non_snake_case, reason = "named after its row in the list")]
        extern "C" fn $name() {
            core::arch::naked_asm!(
                crate::offered::wrap_name!($symbol),
                ".cfi_startproc",
                "endbr64",
                crate::offered::pass_where_over!(),
                crate::stubs::pass_if_no_sample!($size),
                "mov r11, [rip + {direct} + 8 * {index}]",
                "test r11, r11",
                "je 2f",
                ".cfi_remember_state",
                crate::stubs::save_call_frame!(96),
                "call r11",
                "mov rdi, rsp",
                "mov rsi, rax",
                "call {gave}",
                "leave",
                ".cfi_def_cfa rsp, 8",
                "ret",
                ".cfi_restore_state",
                "2:",
                crate::stubs::call!(),
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

macro_rules! free_stub {
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
                crate::offered::pass_where_over!(),
                crate::stubs::go_on_if_known!(),
                "mov rax, [rip + {free}]",
                "test rax, rax",
                "je 4f",
                "jmp rax",
                "4:",
                crate::stubs::save_call_frame!(96),
                "mov rdi, rsp",
                "call {frees}",
                crate::stubs::restore_arguments!(),
                "leave",
                ".cfi_def_cfa rsp, 8",
                "jmp rax",
                ".cfi_endproc",
                free = sym crate::next::FREE,
                index = const $index,
                bypass = sym crate::next::BYPASS,
                shared = sym crate::SHARED,
                is_on_at = const crate::stubs::IS_ON_AT,
                counters_at = const crate::stubs::COUNTERS_AT,
                counters = const heapledger_process::sampling::COUNTERS,
                first_shift = const heapledger_process::sampling::FIRST_SHIFT,
                second_shift = const heapledger_process::sampling::SECOND_SHIFT,
                frees = sym crate::direct::frees::<{ $index }>,
            )
        }
    };
}

/// Notes that memory changes, and jumps on. All arguments stay where they are: `mremap` has five.
#[cfg(not(feature = "wrapped"))]
macro_rules! remap_stub {
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
                "lock inc dword ptr [rip + {shared} + {changes_at}]",
                "mov rax, [rip + {next} + 8 * {index}]",
                "test rax, rax",
                "je 4f",
                "jmp rax",
                "4:",
                "push rdi
                .cfi_adjust_cfa_offset 8
                push rsi
                .cfi_adjust_cfa_offset 8
                push rdx
                .cfi_adjust_cfa_offset 8
                push rcx
                .cfi_adjust_cfa_offset 8
                push r8
                .cfi_adjust_cfa_offset 8
                push r9
                .cfi_adjust_cfa_offset 8
                sub rsp, 8
                .cfi_adjust_cfa_offset 8",
                "mov edi, {index}",
                "call {real_function}",
                "add rsp, 8
                .cfi_adjust_cfa_offset -8
                pop r9
                .cfi_adjust_cfa_offset -8
                pop r8
                .cfi_adjust_cfa_offset -8
                pop rcx
                .cfi_adjust_cfa_offset -8
                pop rdx
                .cfi_adjust_cfa_offset -8
                pop rsi
                .cfi_adjust_cfa_offset -8
                pop rdi
                .cfi_adjust_cfa_offset -8",
                "jmp rax",
                ".cfi_endproc",
                index = const $index,
                next = sym crate::next::NEXT,
                shared = sym crate::SHARED,
                changes_at = const crate::stubs::CHANGES_AT,
                real_function = sym crate::calls::real_function,
            )
        }
    };
}

/// Looks at the arguments and jumps on. All of them stay where they are: `prctl` has five, `syscall` seven.
#[cfg(not(feature = "wrapped"))]
macro_rules! watch_stub {
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
                "sub rsp, 56
                .cfi_adjust_cfa_offset 56
                mov [rsp], rdi
                mov [rsp + 8], rsi
                mov [rsp + 16], rdx
                mov [rsp + 24], rcx
                mov [rsp + 32], r8
                mov [rsp + 40], r9",
                "mov edi, {index}",
                "mov rsi, rsp",
                "call {restricts}",
                "mov rdi, [rsp]
                mov rsi, [rsp + 8]
                mov rdx, [rsp + 16]
                mov rcx, [rsp + 24]
                mov r8, [rsp + 32]
                mov r9, [rsp + 40]
                add rsp, 56
                .cfi_adjust_cfa_offset -56",
                "jmp rax",
                ".cfi_endproc",
                index = const $index,
                restricts = sym crate::restrictions::restricts,
            )
        }
    };
}

/// `dlopen`: two arguments, of which the flags may be changed. The call has to come from where the program made it, so the stub jumps on.
#[cfg(not(feature = "wrapped"))]
macro_rules! open_stub {
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
                "test esi, {deep_bind}",
                "jne 4f",
                "mov rax, [rip + {next} + 8 * {index}]",
                "test rax, rax",
                "je 4f",
                "jmp rax",
                "4:",
                "push rdi
                .cfi_adjust_cfa_offset 8
                push rsi
                .cfi_adjust_cfa_offset 8
                sub rsp, 8
                .cfi_adjust_cfa_offset 8",
                "lea rdx, [rsp + 8]", // the flags
                "mov rsi, rdi",
                "mov edi, {index}",
                "call {opens}",
                "add rsp, 8
                .cfi_adjust_cfa_offset -8
                pop rsi
                .cfi_adjust_cfa_offset -8
                pop rdi
                .cfi_adjust_cfa_offset -8",
                "jmp rax",
                ".cfi_endproc",
                index = const $index,
                deep_bind = const crate::calls::RTLD_DEEPBIND,
                next = sym crate::next::NEXT,
                opens = sym crate::calls::opens,
            )
        }
    };
}

/// Of what is asked and not recorded: where nobody looks at it, it goes on at once.
macro_rules! jump_stub {
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
                crate::offered::pass_where_over!(),
                "mov rax, [rip + {direct} + 8 * {index}]",
                "test rax, rax",
                "je 4f",
                "jmp rax",
                "4:",
                crate::stubs::save_call_frame!(176),
                "mov edi, {index}",
                "mov rsi, rsp",
                "call {before_call}",
                crate::stubs::restore_arguments!(),
                "leave",
                ".cfi_def_cfa rsp, 8",
                "jmp rax",
                ".cfi_endproc",
                index = const $index,
                bypass = sym crate::next::BYPASS,
                direct = sym crate::next::DIRECT,
                before_call = sym crate::calls::before_call,
            )
        }
    };
}

/// Places in [`crate::SHARED`] that stubs look at.
pub(crate) const IS_ON_AT: usize = offset_of!(Shared, sampling) + offset_of!(Sampling, is_on);
/// See [`IS_ON_AT`].
pub(crate) const COUNTERS_AT: usize = offset_of!(Shared, sampling) + offset_of!(Sampling, counters);

/// See [`IS_ON_AT`].
pub(crate) const CHANGES_AT: usize = offset_of!(Shared, memory_changes);

pub(crate) use crate::operators::{delete_stub, new_stub};
pub(crate) use {
    block_stub, call, call_stub, free_stub, go_on_if_known, jump_stub, pass_if_no_sample, pass_or_call, realloc_stub,
    restore_arguments, save_call_frame,
};
#[cfg(not(feature = "wrapped"))]
pub(crate) use {open_stub, remap_stub, watch_stub};
