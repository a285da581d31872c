//! Entry points in assembly, a kind for each way of judging a call:
//!
//! - `before`: looks whether one of the registers holds an address of memory that has blocks. If not, it jumps to the real function at
//!   once. Else the call is judged, all registers are what they were, and it jumps.
//! - `after`: the same; but what a call has done its result tells, so the real function is called from here, and judged is after it.
//! - `does`: the same; but a function of ours calls the real one, or another that does the same and tells more.
//! - `formats` and `does_formats`: the same of functions that take any number of arguments.
//!
//! `[any]` in place of registers: it is not to be seen from these whether the call concerns a block, so that all are looked at as long as
//! there are blocks.
//!
//! A stub that jumps is gone when the real function runs: stacks of what that allocates or reads do not have it. One that calls has
//! call-frame information and no Rust code on the stack meanwhile (`does` excepted): a thread that is cancelled in `read` unwinds past it.

/// Jumps to `4:` if a register holds such an address. Uses registers that hold no argument. `r11` is not 0.
macro_rules! filter {
    (any) => {
        "cmp qword ptr [r11 + 8], 0
        jne 4f"
    };
    ($($register:ident)*) => {
        concat!($(
            "mov r10, ", stringify!($register), "
            sub r10, [r11]
            cmp r10, [r11 + 8]
            jb 4f
            ",
        )*)
    };
}

/// As far as the real function is known and nothing is to be judged; `4:` follows.
macro_rules! begin {
    ($($register:ident)*) => {
        concat!(
            ".cfi_startproc
            endbr64
            mov r11, [rip + {range}]
            test r11, r11
            je 3f
            ",
            crate::stubs::filter!($($register)*),
            "
            3:
            mov r11, [rip + {next} + 8 * {index}]
            test r11, r11
            je 5f
            jmp r11
            4:
            "
        )
    };
}

macro_rules! save {
    () => {
        concat!(
            "push rbp
            .cfi_def_cfa_offset 16
            .cfi_offset rbp, -16
            mov rbp, rsp
            .cfi_def_cfa_register rbp
            sub rsp, {frame_bytes}
            mov [rsp], rdi
            mov [rsp + 8], rsi
            mov [rsp + 16], rdx
            mov [rsp + 24], rcx
            mov [rsp + 32], r8
            mov [rsp + 40], r9
            mov [rsp + {rax}], rax
            mov r11, [rbp + 8]
            mov [rsp + {registers}], r11
            lea r11, [rbp + 16]
            mov [rsp + {registers} + 8], r11
            mov r11, [rbp]
            mov [rsp + {registers} + 16], r11
            mov [rsp + {registers} + 24], rbx
            mov [rsp + {registers} + 32], r12
            mov [rsp + {registers} + 40], r13
            mov [rsp + {registers} + 48], r14
            mov [rsp + {registers} + 56], r15
            "
        )
    };
}

macro_rules! save_vectors {
    () => {
        "movaps [rsp + 48], xmm0
        movaps [rsp + 64], xmm1
        movaps [rsp + 80], xmm2
        movaps [rsp + 96], xmm3
        movaps [rsp + 112], xmm4
        movaps [rsp + 128], xmm5
        movaps [rsp + 144], xmm6
        movaps [rsp + 160], xmm7
        "
    };
}

macro_rules! restore_vectors {
    () => {
        "movaps xmm0, [rsp + 48]
        movaps xmm1, [rsp + 64]
        movaps xmm2, [rsp + 80]
        movaps xmm3, [rsp + 96]
        movaps xmm4, [rsp + 112]
        movaps xmm5, [rsp + 128]
        movaps xmm6, [rsp + 144]
        movaps xmm7, [rsp + 160]
        "
    };
}

macro_rules! restore {
    () => {
        "mov rdi, [rsp]
        mov rsi, [rsp + 8]
        mov rdx, [rsp + 16]
        mov rcx, [rsp + 24]
        mov r8, [rsp + 32]
        mov r9, [rsp + 40]
        mov rax, [rsp + {rax}]
        "
    };
}

/// `5:`: who the real function is has to be asked.
macro_rules! asked {
    ($save:expr, $restore:expr) => {
        concat!(
            "5:
            ",
            crate::stubs::save!(),
            $save,
            "mov edi, {index}
            call {ask}
            mov r11, rax
            ",
            $restore,
            crate::stubs::restore!(),
            "leave
            .cfi_def_cfa rsp, 8
            jmp r11
            .cfi_endproc"
        )
    };
}

macro_rules! stub {
    ($symbol:literal, $hook:expr, $judge:path, $text:expr) => {
        #[unsafe(naked)]
        #[unsafe(export_name = $symbol)]
        extern "C" fn stub() {
            core::arch::naked_asm!(
                $text,
                index = const $hook as usize,
                frame_bytes = const crate::frame::FRAME_BYTES,
                rax = const crate::frame::RAX,
                registers = const crate::frame::REGISTERS,
                range = sym crate::next::RANGE,
                next = sym crate::next::NEXT,
                ask = sym crate::next::ask,
                judge = sym $judge,
            )
        }
    };
}

macro_rules! before {
    ($symbol:literal, $hook:expr, [$($register:ident)*], $judge:expr) => {
        extern "C" fn judge(frame: &crate::frame::Frame) {
            crate::call::before(frame, $hook, $judge);
        }
        crate::stubs::stub!($symbol, $hook, judge, concat!(
            crate::stubs::begin!($($register)*),
            ".cfi_remember_state
            ",
            crate::stubs::save!(),
            "mov rdi, rsp
            call {judge}
            ",
            crate::stubs::restore!(),
            "leave
            .cfi_def_cfa rsp, 8
            jmp 3b
            .cfi_restore_state
            ",
            crate::stubs::asked!("", ""),
        ));
    };
}

macro_rules! after {
    ($symbol:literal, $hook:expr, [$($register:ident)*], $judge:expr) => {
        extern "C" fn judge(frame: &mut crate::frame::Frame, stage: usize) {
            crate::call::around(frame, $hook, stage, $judge);
        }
        crate::stubs::stub!($symbol, $hook, judge, concat!(
            crate::stubs::begin!($($register)*),
            "cmp qword ptr [rip + {next} + 8 * {index}], 0
            je 5f
            .cfi_remember_state
            ",
            crate::stubs::save!(),
            "mov rdi, rsp
            xor esi, esi
            call {judge}
            ",
            crate::stubs::restore!(),
            "call [rip + {next} + 8 * {index}]
            mov [rsp + {rax}], rax
            mov rdi, rsp
            mov esi, 1
            call {judge}
            mov rax, [rsp + {rax}]
            leave
            .cfi_def_cfa rsp, 8
            ret
            .cfi_restore_state
            ",
            crate::stubs::asked!("", ""),
        ));
    };
}

macro_rules! does {
    ($symbol:literal, $hook:expr, [$($register:ident)*], $judge:expr) => {
        extern "C" fn judge(frame: &crate::frame::Frame) -> usize {
            crate::call::before(frame, $hook, $judge)
        }
        crate::stubs::stub!($symbol, $hook, judge, concat!(
            crate::stubs::begin!($($register)*),
            "cmp qword ptr [rip + {next} + 8 * {index}], 0
            je 5f
            .cfi_remember_state
            ",
            crate::stubs::save!(),
            "mov rdi, rsp
            call {judge}
            leave
            .cfi_def_cfa rsp, 8
            ret
            .cfi_restore_state
            ",
            crate::stubs::asked!("", ""),
        ));
    };
}

macro_rules! formats {
    ($symbol:literal, $hook:expr, [$($register:ident)*], $judge:expr) => {
        extern "C" fn judge(frame: &crate::frame::Frame) {
            crate::call::before(frame, $hook, $judge);
        }
        crate::stubs::stub!($symbol, $hook, judge, concat!(
            crate::stubs::begin!($($register)*),
            ".cfi_remember_state
            ",
            crate::stubs::save!(),
            crate::stubs::save_vectors!(),
            "mov rdi, rsp
            call {judge}
            ",
            crate::stubs::restore_vectors!(),
            crate::stubs::restore!(),
            "leave
            .cfi_def_cfa rsp, 8
            jmp 3b
            .cfi_restore_state
            ",
            crate::stubs::asked!(crate::stubs::save_vectors!(), crate::stubs::restore_vectors!()),
        ));
    };
}

macro_rules! does_formats {
    ($symbol:literal, $hook:expr, [$($register:ident)*], $judge:expr) => {
        extern "C" fn judge(frame: &crate::frame::Frame) -> usize {
            crate::call::before(frame, $hook, $judge)
        }
        crate::stubs::stub!($symbol, $hook, judge, concat!(
            crate::stubs::begin!($($register)*),
            "cmp qword ptr [rip + {next} + 8 * {index}], 0
            je 5f
            .cfi_remember_state
            ",
            crate::stubs::save!(),
            crate::stubs::save_vectors!(),
            "mov rdi, rsp
            call {judge}
            leave
            .cfi_def_cfa rsp, 8
            ret
            .cfi_restore_state
            ",
            crate::stubs::asked!(crate::stubs::save_vectors!(), crate::stubs::restore_vectors!()),
        ));
    };
}

pub(crate) use {
    after, asked, before, begin, does, does_formats, filter, formats, restore, restore_vectors, save, save_vectors,
    stub,
};
