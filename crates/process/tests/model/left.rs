//! A guard that was left by a jump is not believed, although the recorder is linked into the program itself: our own code is
//! the entry points, and not the module that they are in.

use std::arch::naked_asm;
use std::mem;

use heapledger_process::access::{Access, Refused, Sign};
use heapledger_process::entry;
use heapledger_process::options::Request;
use heapledger_unwind::Registers;

use crate::linux::{RING, SHARED, run_child, start_as};

/// The registers of the caller, as they are when this has returned.
#[unsafe(naked)]
extern "C" fn take_registers(into: &mut Registers) {
    naked_asm!(
        "mov rax, [rsp]",
        "mov [rdi + {ip}], rax",
        "lea rax, [rsp + 8]",
        "mov [rdi + {sp}], rax",
        "mov [rdi + {bp}], rbp",
        "mov [rdi + {bx}], rbx",
        "mov [rdi + {r12}], r12",
        "mov [rdi + {r13}], r13",
        "mov [rdi + {r14}], r14",
        "mov [rdi + {r15}], r15",
        "ret",
        ip = const mem::offset_of!(Registers, ip),
        sp = const mem::offset_of!(Registers, sp),
        bp = const mem::offset_of!(Registers, bp),
        bx = const mem::offset_of!(Registers, bx),
        r12 = const mem::offset_of!(Registers, r12),
        r13 = const mem::offset_of!(Registers, r13),
        r14 = const mem::offset_of!(Registers, r14),
        r15 = const mem::offset_of!(Registers, r15),
    )
}

/// As a stub calls what a call means.
#[unsafe(naked)]
#[unsafe(link_section = "heapledger_entry")]
extern "C" fn entry_point(what: extern "C" fn()) {
    naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "call rdi",
        "pop rbp",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
    )
}

/// Enters further down on the stack, as a signal handler would, or a later hook.
#[inline(never)]
fn enter() -> Result<(), Refused> {
    let sign = Sign::new();
    let mut registers = Registers::default();
    take_registers(&mut registers);
    Access::enter(&SHARED, &registers, &sign).map(drop)
}

/// Leaves a hook without a word, as a jump does; its sign stays where it is.
#[inline(never)]
fn leave_a_hook(sign: &Sign) {
    let mut registers = Registers::default();
    take_registers(&mut registers);
    mem::forget(Access::enter(&SHARED, &registers, sign).expect("nobody is inside"));
}

extern "C" fn interrupted() {
    let sign = Sign::new();
    leave_a_hook(&sign);
    assert_eq!(enter(), Err(Refused::Busy), "an entry point is on the stack: its hook was interrupted");
    std::hint::black_box(&sign);
}

#[test]
#[ignore = "run by the test below, in a process of its own"]
fn jumps() {
    if std::env::var_os(RING).is_none() {
        return;
    }
    assert!(entry::code().contains(&(entry_point as *const () as usize)));
    assert!(!entry::code().contains(&(jumps as *const () as usize)));
    start_as(&Request::of_environment());
    std::thread::spawn(|| {
        assert_eq!(enter(), Ok(()));
        entry_point(interrupted);
        let sign = Sign::new();
        leave_a_hook(&sign);
        assert_eq!(enter(), Ok(()), "no entry point is on the stack: the hook was left");
        std::hint::black_box(&sign);
    })
    .join()
    .expect("the thread");
}

#[test]
fn a_guard_left_by_a_jump_is_not_believed() {
    run_child("left::jumps", 64);
}
