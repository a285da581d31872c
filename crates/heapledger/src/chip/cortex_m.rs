//! What a [`Board`](super::Board) with a Cortex-M can say of itself.
//!
//! # Safety
//! A room with `unsafe`: it reads and writes registers of the processor.

use core::arch::asm;
use core::ptr::with_exposed_provenance_mut;

/// Runs something with interrupts off, as [`Board::alone`](super::Board::alone). They are as they were afterwards. (Where code does not run
/// privileged, they stay on: then tell the system to keep others away.)
#[inline(always)]
pub fn without_interrupts<T>(work: impl FnOnce() -> T) -> T {
    let mask: u32;
    // SAFETY: only whether interrupts are taken changes. What follows is not moved before it: it may use memory.
    unsafe { asm!("mrs {}, primask", "cpsid i", out(reg) mask, options(nostack, preserves_flags)) };
    let result = work();
    // SAFETY: as above; it is as it was.
    unsafe { asm!("msr primask, {}", in(reg) mask, options(nostack, preserves_flags)) };
    result
}

/// Whether a handler runs, as [`Board::is_in_interrupt`](super::Board::is_in_interrupt).
#[inline(always)]
pub fn is_in_interrupt() -> bool {
    let number: u32;
    // SAFETY: reads a register.
    unsafe { asm!("mrs {}, ipsr", out(reg) number, options(nomem, nostack, preserves_flags)) };
    number != 0
}

/// The stack pointer of tasks.
#[inline(always)]
pub(super) fn process_stack() -> usize {
    let pointer: usize;
    // SAFETY: reads a register.
    unsafe { asm!("mrs {}, psp", out(reg) pointer, options(nomem, nostack, preserves_flags)) };
    pointer
}

/// The timer SysTick, as [`Board::ticks`](super::Board::ticks), where it runs through all of its 24 bits (`LOAD` is 0xFF_FFFF); it counts down.
/// Its [`Clock`](super::Clock) has 24 bits.
#[inline(always)]
pub fn systick() -> u32 {
    const CURRENT: usize = 0xE000_E018;
    // SAFETY: reads a register that every Cortex-M with this timer has there.
    let left = unsafe { with_exposed_provenance_mut::<u32>(CURRENT).read_volatile() };
    0xFF_FFFF_u32.wrapping_sub(left)
}

/// The cycle counter of the debug unit, as [`Board::ticks`](super::Board::ticks). Its [`Clock`](super::Clock) has 32 bits. It counts
/// after [`start_cycles`], on a processor that has one (no Cortex-M0).
#[inline(always)]
pub fn cycles() -> u32 {
    const COUNT: usize = 0xE000_1004;
    // SAFETY: reads a register.
    unsafe { with_exposed_provenance_mut::<u32>(COUNT).read_volatile() }
}

/// Lets the cycle counter count.
pub fn start_cycles() {
    const DEBUG_CONTROL: usize = 0xE000_EDFC;
    const TRACE_ENABLED: u32 = 1 << 24;
    const CONTROL: usize = 0xE000_1000;
    for (register, bit) in [(DEBUG_CONTROL, TRACE_ENABLED), (CONTROL, 1)] {
        let register = with_exposed_provenance_mut::<u32>(register);
        // SAFETY: registers that nobody else changes at the same time, at worst a debugger; only these bits change.
        unsafe { register.write_volatile(register.read_volatile() | bit) };
    }
}
