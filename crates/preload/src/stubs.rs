//! Entry points in assembly.
//!
//! A stub saves the caller's registers that an unwinder can need, and the arguments, in a
//! [`CallFrame`]; then
//! - `call_stub`: asks [`crate::calls::enter`] whom to call, calls it from its own frame, hands the
//!   result to [`crate::calls::leave`]. An exception thrown by `operator new`, or a `longjmp`,
//!   passes only this frame, which carries call-frame information and no Rust code;
//! - `jump_stub`: the same without `leave`: it jumps, and is gone when the real function runs. Not for
//!   functions that may themselves jump to another one of the list (`operator delete` to `free`): the
//!   second hook must see that the call comes from the first.

use heapledger_unwind::Registers;

/// What a stub leaves on its stack.
#[repr(C)]
pub(crate) struct CallFrame {
    pub(crate) args: [usize; 4],
    bx: u64,
    r12: u64,
    r13: u64,
    r14: u64,
    r15: u64,
    bp: u64,
    ip: u64,
    sp: u64,
    /// Carried from `enter` to `leave`.
    pub(crate) kept: heapledger_recorder::linux::hooks::Reallocation,
    /// Not 0: the call comes from a C++ operator of the next allocator, whose own hook books the block.
    pub(crate) nested: u64,
    /// The call that encloses this one, to be put back when this one has returned.
    pub(crate) enclosing: heapledger_recorder::linux::hooks::Call,
    padding: [u64; 1],
}

const _: () = assert!(core::mem::size_of::<CallFrame>() == 160);

impl CallFrame {
    /// The registers as they will be when the hook has returned.
    pub(crate) fn registers(&self) -> Registers {
        Registers {
            ip: self.ip,
            sp: self.sp,
            bp: self.bp,
            bx: self.bx,
            r12: self.r12,
            r13: self.r13,
            r14: self.r14,
            r15: self.r15,
        }
    }

    /// The address to which the hook will return.
    pub(crate) fn return_address(&self) -> usize {
        self.ip as usize
    }

    /// The stack pointer after the hook has returned.
    pub(crate) fn stack_pointer(&self) -> usize {
        self.sp as usize
    }
}

macro_rules! save_call_frame {
    () => {
        "endbr64
        push rbp
        .cfi_def_cfa_offset 16
        .cfi_offset rbp, -16
        mov rbp, rsp
        .cfi_def_cfa_register rbp
        sub rsp, 160
        mov [rsp], rdi
        mov [rsp + 8], rsi
        mov [rsp + 16], rdx
        mov [rsp + 24], rcx
        mov [rsp + 32], rbx
        mov [rsp + 40], r12
        mov [rsp + 48], r13
        mov [rsp + 56], r14
        mov [rsp + 64], r15
        mov rax, [rbp]
        mov [rsp + 72], rax
        mov rax, [rbp + 8]
        mov [rsp + 80], rax
        lea rax, [rbp + 16]
        mov [rsp + 88], rax"
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

macro_rules! call_stub {
    ($name:ident, $symbol:literal, $index:expr) => {
        #[unsafe(naked)]
        #[unsafe(export_name = $symbol)]
        #[allow(non_snake_case, reason = "named after its row in the list")]
        extern "C" fn $name() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                crate::stubs::save_call_frame!(),
                "mov edi, {index}",
                "mov rsi, rsp",
                "call {enter}",
                crate::stubs::restore_arguments!(),
                "call rax",
                "mov edi, {index}",
                "mov rsi, rsp",
                "mov rdx, rax",
                "call {leave}",
                "leave",
                ".cfi_def_cfa rsp, 8",
                "ret",
                ".cfi_endproc",
                index = const $index,
                enter = sym crate::calls::enter,
                leave = sym crate::calls::leave,
            )
        }
    };
}

macro_rules! jump_stub {
    ($name:ident, $symbol:literal, $index:expr) => {
        #[unsafe(naked)]
        #[unsafe(export_name = $symbol)]
        #[allow(non_snake_case, reason = "named after its row in the list")]
        extern "C" fn $name() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                crate::stubs::save_call_frame!(),
                "mov edi, {index}",
                "mov rsi, rsp",
                "call {enter}",
                crate::stubs::restore_arguments!(),
                "leave",
                ".cfi_def_cfa rsp, 8",
                "jmp rax",
                ".cfi_endproc",
                index = const $index,
                enter = sym crate::calls::enter,
            )
        }
    };
}

pub(crate) use {call_stub, jump_stub, restore_arguments, save_call_frame};
