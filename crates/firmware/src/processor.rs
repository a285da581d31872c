//! What the processor tells, where the firmware gives no function for it; and clocks that many have, ready for the header.
//!
//! # Safety
//! A room with `unsafe`: it reads and writes registers.

use core::arch::asm;

#[cfg(target_arch = "arm")]
use heapledger::chip::cortex_m as own;
#[cfg(target_arch = "riscv32")]
use heapledger::chip::riscv as own;

/// Turns interrupts off. Returns what [`heapledger_interrupts_back`] is to be told. What the header names, where the firmware says nothing else.
#[cfg(not(feature = "fixed"))]
#[unsafe(no_mangle)]
extern "C" fn heapledger_interrupts_off() -> u32 {
    interrupts_off()
}

/// The same, for this library.
#[inline(always)]
pub(crate) fn interrupts_off() -> u32 {
    let before: u32;
    #[cfg(target_arch = "arm")]
    // SAFETY: only whether interrupts are taken changes. What follows is not moved before it: it may use memory.
    unsafe {
        asm!("mrs {}, primask", "cpsid i", out(reg) before, options(nostack, preserves_flags));
    }
    #[cfg(target_arch = "riscv32")]
    // SAFETY: as above.
    unsafe {
        asm!("csrrci {}, mstatus, 8", out(reg) before, options(nostack));
    }
    before
}

/// They are as they were.
#[cfg(not(feature = "fixed"))]
#[unsafe(no_mangle)]
extern "C" fn heapledger_interrupts_back(before: u32) {
    interrupts_back(before);
}

/// The same, for this library.
#[inline(always)]
pub(crate) fn interrupts_back(before: u32) {
    #[cfg(target_arch = "arm")]
    // SAFETY: only whether interrupts are taken changes.
    unsafe {
        asm!("msr primask, {}", in(reg) before, options(nostack, preserves_flags));
    }
    #[cfg(target_arch = "riscv32")]
    // SAFETY: as above.
    unsafe {
        asm!("csrs mstatus, {}", in(reg) before & 8, options(nostack));
    }
}

/// The number of the interrupt whose handler runs; 0 if none does, or the processor does not tell.
#[cfg(not(feature = "fixed"))]
#[unsafe(no_mangle)]
extern "C" fn heapledger_interrupt() -> usize {
    interrupt()
}

/// The same, for this library.
#[cfg(any(target_arch = "arm", not(feature = "fixed")))]
#[inline(always)]
pub(crate) fn interrupt() -> usize {
    #[cfg(target_arch = "arm")]
    {
        let number: usize;
        // SAFETY: reads a register.
        unsafe { asm!("mrs {}, ipsr", out(reg) number, options(nomem, nostack, preserves_flags)) };
        number
    }
    #[cfg(not(target_arch = "arm"))]
    0
}

/// Whether an address is on the stack that handlers have, and not where the interrupted task's registers lie.
#[inline(always)]
pub(crate) fn is_of_handler(within: usize) -> bool {
    #[cfg(target_arch = "arm")]
    {
        let process: usize;
        // SAFETY: reads a register.
        unsafe { asm!("mrs {}, psp", out(reg) process, options(nomem, nostack, preserves_flags)) };
        interrupt() != 0 && within != process
    }
    #[cfg(not(target_arch = "arm"))]
    {
        let _ = within;
        false
    }
}

/// SysTick, counted upwards, where it runs through all of its 24 bits.
#[cfg(target_arch = "arm")]
#[unsafe(no_mangle)]
extern "C" fn heapledger_systick() -> u32 {
    own::systick()
}

/// The cycle counter: the debug unit's, or `mcycle`.
#[unsafe(no_mangle)]
extern "C" fn heapledger_cycles() -> u32 {
    own::cycles()
}

/// Lets the debug unit's cycle counter count.
#[cfg(target_arch = "arm")]
#[unsafe(no_mangle)]
extern "C" fn heapledger_start_cycles() {
    own::start_cycles();
}
