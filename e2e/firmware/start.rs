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
    "str r2, [r0]",
    "adds r0, #4",
    "b 0b",
    "1: ldr r0, =data_start",
    "ldr r1, =data_end",
    "ldr r3, =data_load",
    "2: cmp r0, r1",
    "bhs 3f",
    "ldr r2, [r3]",
    "str r2, [r0]",
    "adds r0, #4",
    "adds r3, #4",
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
    // Where there are two cores, the second one goes on elsewhere.
    "csrr t0, mhartid",
    "beqz t0, 4f",
    "j Second",
    "4:",
    ".option push",
    ".option norelax",
    "la sp, stack_top",
    "la t0, Trap",
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
    ".global Fault",
    "Fault: li a0, 99",
    "call fail",
    // An interrupt: what functions may change is kept. All else is a fault.
    ".balign 4",
    "Trap: addi sp, sp, -64",
    "sw ra, 0(sp)",
    "sw t0, 4(sp)",
    "sw t1, 8(sp)",
    "sw t2, 12(sp)",
    "sw t3, 16(sp)",
    "sw t4, 20(sp)",
    "sw t5, 24(sp)",
    "sw t6, 28(sp)",
    "sw a0, 32(sp)",
    "sw a1, 36(sp)",
    "sw a2, 40(sp)",
    "sw a3, 44(sp)",
    "sw a4, 48(sp)",
    "sw a5, 52(sp)",
    "sw a6, 56(sp)",
    "sw a7, 60(sp)",
    "csrr t0, mcause",
    "bgez t0, Fault",
    "call Tick",
    "lw ra, 0(sp)",
    "lw t0, 4(sp)",
    "lw t1, 8(sp)",
    "lw t2, 12(sp)",
    "lw t3, 16(sp)",
    "lw t4, 20(sp)",
    "lw t5, 24(sp)",
    "lw t6, 28(sp)",
    "lw a0, 32(sp)",
    "lw a1, 36(sp)",
    "lw a2, 40(sp)",
    "lw a3, 44(sp)",
    "lw a4, 48(sp)",
    "lw a5, 52(sp)",
    "lw a6, 56(sp)",
    "lw a7, 60(sp)",
    "addi sp, sp, 64",
    "mret",
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

/// Stores into a register of a device.
#[allow(dead_code, reason = "not every firmware does")]
pub(crate) fn write(register: usize, value: u32) {
    // SAFETY: a register of the machine.
    unsafe { core::ptr::with_exposed_provenance_mut::<u32>(register).write_volatile(value) };
}

/// Asks for a reset. QEMU was told to stop there.
#[allow(dead_code, reason = "not every firmware does")]
pub(crate) fn reset() -> ! {
    #[cfg(target_arch = "arm")]
    write(0xE000_ED0C, 0x05FA_0004);
    #[cfg(target_arch = "riscv32")]
    write(0x10_0000, 0x7777);
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
