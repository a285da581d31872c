//! How firmware begins on a Cortex-M3 and on a RISC-V processor as QEMU has them, and what it can say: a status, and text.

use core::arch::{asm, global_asm};

#[cfg(target_arch = "arm")]
global_asm!(
    ".section .vectors, \"a\"",
    ".word stack_top, Reset",
    ".rept 13",
    ".word Fault",
    ".endr",
    ".word Tick",
    ".text",
    ".thumb_func",
    ".global Reset",
    "Reset:",
    // The outermost frame: frame pointers end here.
    "movs r7, #0",
    "ldr r0, =bss_start",
    "ldr r1, =bss_end",
    "movs r2, #0",
    "0: cmp r0, r1",
    "bhs 1f",
    "str r2, [r0], #4",
    "b 0b",
    "1: ldr r0, =data_start",
    "ldr r1, =data_end",
    "ldr r3, =data_load",
    "2: cmp r0, r1",
    "bhs 3f",
    "ldr r2, [r3], #4",
    "str r2, [r0], #4",
    "b 2b",
    "3: bl start",
    ".thumb_func",
    ".global Fault",
    "Fault: movs r0, #99",
    "bl fail",
);

#[cfg(target_arch = "riscv32")]
global_asm!(
    ".section .vectors, \"ax\"",
    ".global Reset",
    "Reset:",
    ".option push",
    ".option norelax",
    "la sp, stack_top",
    "la t0, Fault",
    "csrw mtvec, t0",
    ".option pop",
    "li s0, 0",
    "la t0, bss_start",
    "la t1, bss_end",
    "0: bgeu t0, t1, 1f",
    "sw zero, 0(t0)",
    "addi t0, t0, 4",
    "j 0b",
    "1: la t0, data_start",
    "la t1, data_end",
    "la t2, data_load",
    "2: bgeu t0, t1, 3f",
    "lw t3, 0(t2)",
    "sw t3, 0(t0)",
    "addi t0, t0, 4",
    "addi t2, t2, 4",
    "j 2b",
    "3: call start",
    ".balign 4",
    "Fault: li a0, 99",
    "call fail",
    // A call of the debugger's is three instructions, which may not lie on two pages.
    ".text",
    ".balign 16",
    ".option push",
    ".option norvc",
    ".global semihosting",
    "semihosting:",
    "slli zero, zero, 0x1f",
    "ebreak",
    "srai zero, zero, 7",
    "ret",
    ".option pop",
);

/// Asks the debugger, which here is QEMU.
fn ask(what: usize, about: *const u32) {
    #[cfg(target_arch = "arm")]
    // SAFETY: a semihosting call; what it is about is there.
    unsafe {
        asm!("bkpt #0xab", inout("r0") what => _, in("r1") about, options(nostack))
    };
    #[cfg(target_arch = "riscv32")]
    // SAFETY: as above.
    unsafe {
        asm!("call semihosting", inout("a0") what => _, in("a1") about, out("ra") _, options(nostack))
    };
}

/// Ends QEMU with this status.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn fail(status: u32) -> ! {
    const SYS_EXIT_EXTENDED: usize = 0x20;
    let block = [0x2_0026, status];
    ask(SYS_EXIT_EXTENDED, &raw const block[0]);
    loop {}
}

/// Writes a word and a number, in a line of QEMU's console.
#[allow(dead_code, reason = "not every firmware says something")]
pub(crate) fn say(word: &str, number: u32) {
    const SYS_WRITEC: usize = 3;
    let write = |byte: u8| {
        let character = u32::from(byte);
        ask(SYS_WRITEC, &raw const character);
    };
    word.bytes().for_each(write);
    write(b' ');
    let mut place = 1_000_000_000;
    while place > 0 {
        if place <= number || place == 1 {
            write(b'0' + (number / place % 10) as u8);
        }
        place /= 10;
    }
    write(b'\n');
}
