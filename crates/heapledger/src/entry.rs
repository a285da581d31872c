//! Where the program's calls come in, in assembly.
//!
//! Each function takes the arguments of a method of `GlobalAlloc`, and then the function that calls the allocator inside. It saves
//! the caller's registers that an unwinder can need, and the arguments, in a [`CallFrame`], calls that function from its own
//! frame, and hands on what came of it. An unwinding allocator passes only this frame, which has call-frame information and no
//! Rust code. Where nothing is recorded it jumps on.

use core::mem::offset_of;
use heapledger_format::Kind;
use heapledger_process::reallocation::Reallocation;
use heapledger_process::sampling::{COUNTERS, FIRST_SHIFT, SECOND_SHIFT, Sampling};
use heapledger_process::shared::{SHARED, Shared};
use heapledger_unwind::Registers;

use crate::Options;
use crate::allocator::Heap;
use heapledger_watch::state::{ASKED, BASE, COUNTING, GUARDED, OFF, STATE, WATCHED};

/// What an entry knows of its caller.
#[repr(C)]
pub(crate) struct CallFrame {
    /// As they came: the heap, and what the method takes.
    pub(crate) args: [usize; 6],
    /// The registers as they will be when the entry has returned.
    pub(crate) registers: Registers,
}

impl CallFrame {
    /// The heap that is called.
    #[inline(always)]
    pub(crate) fn heap(&self) -> &Heap {
        let [heap, ..] = self.args;
        // SAFETY: each entry is called with the address of a `Heapledger`, which begins with this and is there while its method runs.
        unsafe { &*(heap as *const Heap) }
    }
}

/// What the entry of `realloc` leaves on its stack.
#[repr(C)]
pub(crate) struct ReallocFrame {
    pub(crate) call: CallFrame,
    /// Between both halves.
    pub(crate) kept: Reallocation,
    /// In a program that is watched: 1, the call is made. (A number, since nobody else sets it.)
    pub(crate) is_made: u8,
}

const _: () = assert!(size_of::<CallFrame>() == 112 && size_of::<ReallocFrame>() <= 144);

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
        mov rax, [rbp + 8]
        mov [rsp + 48], rax
        mov rax, [rbp]
        mov [rsp + 64], rax
        mov [rsp + 72], rbx
        mov [rsp + 80], r12
        mov [rsp + 88], r13
        mov [rsp + 96], r14
        mov [rsp + 104], r15
        lea rax, [rbp + 16]
        mov [rsp + 56], rax"
        )
    };
}

/// Saves the arguments that [`save_call_frame`] does not, up to the fifth.
macro_rules! save_arguments {
    () => {
        "mov [rsp + 24], rcx
        mov [rsp + 32], r8"
    };
}

/// Takes the first five arguments out of the [`CallFrame`].
macro_rules! load_arguments {
    () => {
        "mov rdi, [rsp]
        mov rsi, [rsp + 8]
        mov rdx, [rsp + 16]
        mov rcx, [rsp + 24]
        mov r8, [rsp + 32]"
    };
}

/// Asks what becomes of the first call of all ([`crate::begin::FirstCall`]). Arguments stay where they are.
macro_rules! first_call {
    () => {
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
        .cfi_adjust_cfa_offset 8
        call {first}
        add rsp, 8
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
        .cfi_adjust_cfa_offset -8
        cmp al, 1"
    };
}

/// Jumps to `3:` unless blocks are sampled and one of the bytes in `$size` is no sample. The thread's gap is 0 where
/// nothing is sampled.
macro_rules! go_on_if_sample {
    ($size:literal) => {
        concat!(
            "mov rax, [rip + heapledger_thread_gap@GOTTPOFF]
            mov r10, fs:[rax]
            test r10, r10
            je 3f
            test ",
            $size,
            ", ",
            $size,
            "
            je 3f
            sub r10, ",
            $size,
            "
            jbe 3f
            mov fs:[rax], r10"
        )
    };
}

/// Jumps to `3:` if the block in `rsi` may be in the ledger; see `heapledger_process::sampling`.
macro_rules! go_on_if_known {
    () => {
        "cmp byte ptr [r10 + {is_on_at}], 0
        je 3f
        mov rax, rsi
        shr rax, {first_shift}
        mov r11, rsi
        shr r11, {second_shift}
        add rax, r11
        and eax, {counters} - 1
        lea r11, [r10 + {counters_at}]
        cmp byte ptr [r11 + rax], 0
        jne 3f"
    };
}

/// Tells of the real call's result, in `rax`, and returns what comes of that. `$tells` takes the frame and the result.
macro_rules! tells_and_returns {
    ($tells:literal) => {
        concat!(
            "mov rdi, rsp
        mov rsi, rax
        call ",
            $tells,
            "
        leave
        .cfi_def_cfa rsp, 8
        ret"
        )
    };
}

/// Goes on at `9:` with no block if the call is to fail.
macro_rules! asks_first {
    () => {
        "mov rdi, rsp
        call {asks}
        test al, al
        mov eax, 0
        je 9f"
    };
}

/// Calls `$real`, or the guard in its place where blocks are guarded.
macro_rules! calls_it {
    ($real:literal) => {
        concat!(
            "test byte ptr [rip + {state}], {guarded}
        je 23f
        call {guard}
        jmp 24f
        23: call ",
            $real,
            "
        24:"
        )
    };
}

macro_rules! alloc_entry {
    ($(#[$doc:meta])* $name:ident: $kind:ident) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// `heap` is a `Heapledger`, of which `real` is the function, and the method may be called so.
        #[unsafe(naked)]
        #[unsafe(link_section = "heapledger_entry")]
        pub(crate) unsafe extern "C-unwind" fn $name(
            heap: *const Options,
            size: usize,
            align: usize,
            real: *const (),
        ) -> *mut u8 {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "endbr64",
                "cmp byte ptr [rip + {state}], {off}",
                "je 4f",
                "jl 5f",
                "2:",
                go_on_if_sample!("rsi"),
                "jmp rcx",
                "3:",
                ".cfi_remember_state",
                save_call_frame!(112),
                "call rcx",
                tells_and_returns!("{gave}"),
                ".cfi_restore_state",
                "4:",
                "jmp rcx",
                "5:",
                "test byte ptr [rip + {state}], {base}",
                "jne 6f",
                first_call!(),
                "je 2b",
                "jb 4b",
                // Watched: if only counted, without a frame.
                "6:",
                "cmp byte ptr [rip + {state}], {counting}",
                "jne 7f",
                "push rsi
                .cfi_adjust_cfa_offset 8
                call rcx
                pop rdi
                .cfi_adjust_cfa_offset -8
                mov rsi, rax
                jmp {counts}",
                "7:",
                ".cfi_remember_state",
                save_call_frame!(112),
                save_arguments!(),
                "test byte ptr [rip + {state}], {asked}
                je 8f",
                asks_first!(),
                load_arguments!(),
                "8:",
                calls_it!("rcx"),
                "9:",
                tells_and_returns!("{tells}"),
                ".cfi_restore_state",
                ".cfi_endproc",
                state = sym STATE,
                off = const OFF,
                first = sym crate::begin::first_call,
                gave = sym crate::calls::gave::<{ Kind::$kind.0 }>,
                base = const BASE,
                counting = const COUNTING,
                asked = const ASKED,
                guarded = const GUARDED,
                guard = sym crate::guard::$name,
                counts = sym heapledger_watch::counting::gave,
                asks = sym crate::calls::watched_asks,
                tells = sym crate::calls::watched_gave::<{ Kind::$kind.0 }>,
            )
        }
    };
}

alloc_entry! {
    /// `GlobalAlloc::alloc`.
    alloc: RUST_ALLOC
}
alloc_entry! {
    /// `GlobalAlloc::alloc_zeroed`.
    alloc_zeroed: RUST_ALLOC_ZEROED
}

/// `GlobalAlloc::dealloc`. Jumps to the real one and is gone.
///
/// # Safety
/// As of `alloc`.
#[unsafe(naked)]
#[unsafe(link_section = "heapledger_entry")]
pub(crate) unsafe extern "C-unwind" fn dealloc(
    heap: *const Options,
    block: *mut u8,
    size: usize,
    align: usize,
    real: *const (),
) {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "endbr64",
        "cmp byte ptr [rip + {state}], {off}",
        "jle 5f",
        "lea r10, [rip + {shared}]",
        go_on_if_known!(),
        "4:",
        "jmp r8",
        "3:",
        ".cfi_remember_state",
        save_call_frame!(112),
        save_arguments!(),
        "mov rdi, rsp",
        "call {frees}",
        load_arguments!(),
        "leave",
        ".cfi_def_cfa rsp, 8",
        "jmp r8",
        ".cfi_restore_state",
        "5:",
        "je 4b",
        "cmp byte ptr [rip + {state}], {counting}",
        "jne 7f",
        "push rdx
        .cfi_adjust_cfa_offset 8
        call r8
        pop rdi
        .cfi_adjust_cfa_offset -8
        jmp {counts}",
        "7:",
        // Not only whether it is watched *now*: what made this call come here may have gone meanwhile, and its block is in the ledger.
        // Passed on is what comes before the first call of all.
        "test byte ptr [rip + {state}], {started_or_watched}",
        "je 4b",
        save_call_frame!(112),
        save_arguments!(),
        "mov rdi, rsp",
        "call {tells}
        test al, al",
        load_arguments!(),
        "leave",
        ".cfi_def_cfa rsp, 8",
        "je 8f",
        "test byte ptr [rip + {state}], {guarded}",
        "jne 23f",
        "jmp r8",
        "23:",
        "jmp {guard}",
        "8:",
        "ret",
        ".cfi_endproc",
        state = sym STATE,
        off = const OFF,
        shared = sym SHARED,
        is_on_at = const IS_ON_AT,
        counters_at = const COUNTERS_AT,
        counters = const COUNTERS,
        first_shift = const FIRST_SHIFT,
        second_shift = const SECOND_SHIFT,
        frees = sym crate::calls::frees,
        counting = const COUNTING,
        started_or_watched = const BASE | WATCHED,
        guarded = const GUARDED,
        guard = sym crate::guard::dealloc,
        counts = sym heapledger_watch::counting::frees,
        tells = sym crate::calls::watched_frees,
    )
}

/// `GlobalAlloc::realloc`.
///
/// # Safety
/// As of `alloc`.
#[unsafe(naked)]
#[unsafe(link_section = "heapledger_entry")]
pub(crate) unsafe extern "C-unwind" fn realloc(
    heap: *const Options,
    block: *mut u8,
    size: usize,
    align: usize,
    new_size: usize,
    real: *const (),
) -> *mut u8 {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "endbr64",
        "cmp byte ptr [rip + {state}], {off}",
        "je 4f",
        "jl 5f",
        "2:",
        "lea r10, [rip + {shared}]",
        go_on_if_known!(),
        go_on_if_sample!("r8"),
        "4:",
        "jmp r9",
        "3:",
        ".cfi_remember_state",
        save_call_frame!(144),
        save_arguments!(),
        "mov [rsp + 40], r9
        mov rdi, rsp",
        "call {resizes}",
        load_arguments!(),
        "call [rsp + 40]",
        tells_and_returns!("{resized}"),
        ".cfi_restore_state",
        "5:",
        "test byte ptr [rip + {state}], {base}",
        "jne 6f",
        first_call!(),
        "je 2b",
        "jb 4b",
        "6:",
        "cmp byte ptr [rip + {state}], {counting}",
        "jne 7f",
        "push rdx
        .cfi_adjust_cfa_offset 8
        push r8
        .cfi_adjust_cfa_offset 8
        sub rsp, 8
        .cfi_adjust_cfa_offset 8
        call r9
        add rsp, 8
        .cfi_adjust_cfa_offset -8
        pop rsi
        .cfi_adjust_cfa_offset -8
        pop rdi
        .cfi_adjust_cfa_offset -8
        mov rdx, rax
        jmp {counts}",
        "7:",
        save_call_frame!(144),
        save_arguments!(),
        "mov [rsp + 40], r9",
        asks_first!(),
        load_arguments!(),
        calls_it!("[rsp + 40]"),
        "9:",
        tells_and_returns!("{tells}"),
        ".cfi_endproc",
        state = sym STATE,
        off = const OFF,
        first = sym crate::begin::first_call,
        shared = sym SHARED,
        is_on_at = const IS_ON_AT,
        counters_at = const COUNTERS_AT,
        counters = const COUNTERS,
        first_shift = const FIRST_SHIFT,
        second_shift = const SECOND_SHIFT,
        resizes = sym crate::calls::resizes,
        resized = sym crate::calls::resized,
        base = const BASE,
        counting = const COUNTING,
        guarded = const GUARDED,
        guard = sym crate::guard::realloc,
        counts = sym heapledger_watch::counting::gave_anew,
        asks = sym crate::calls::watched_resizes,
        tells = sym crate::calls::watched_resized,
    )
}

/// Places in [`SHARED`] that entries look at.
const IS_ON_AT: usize = offset_of!(Shared, sampling) + offset_of!(Sampling, is_on);
/// See [`IS_ON_AT`].
const COUNTERS_AT: usize = offset_of!(Shared, sampling) + offset_of!(Sampling, counters);
