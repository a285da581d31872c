//! What a [`Board`](super::Board) with a RISC-V processor can say of itself, in machine mode.
//!
//! # Safety
//! A room with `unsafe`: it reads and writes registers of the processor.

use core::arch::asm;

/// Runs something with interrupts off, as [`Board::alone`](super::Board::alone). They are as they were afterwards.
#[inline(always)]
pub fn without_interrupts<T>(work: impl FnOnce() -> T) -> T {
    /// The bit of `mstatus` that says whether interrupts are taken.
    const MIE: usize = 8;
    let status: usize;
    // SAFETY: only whether interrupts are taken changes. What follows is not moved before it: it may use memory.
    unsafe { asm!("csrrci {}, mstatus, 8", out(reg) status, options(nostack)) };
    let result = work();
    // SAFETY: as above; it is as it was.
    unsafe { asm!("csrs mstatus, {}", in(reg) status & MIE, options(nostack)) };
    result
}

/// The lower half of the cycle counter, as [`Board::ticks`](super::Board::ticks). Its [`Clock`](super::Clock) has 32 bits.
#[inline(always)]
pub fn cycles() -> u32 {
    let cycles: u32;
    // SAFETY: reads a register.
    unsafe { asm!("csrr {}, mcycle", out(reg) cycles, options(nomem, nostack)) };
    cycles
}
