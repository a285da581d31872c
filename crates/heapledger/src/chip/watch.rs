//! Watchpoints that a firmware sets itself: whoever writes there next is told, without a debugger.
//!
//! # Safety
//! A room with `unsafe`: it reads and writes registers of the processor.

#[cfg(target_arch = "arm")]
use super::dwt::{self, Registers};
#[cfg(target_arch = "riscv32")]
use super::triggers::{self, Triggers};

/// Why there is no watchpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CannotWatch {
    /// The processor has none that the firmware could use: a Cortex-M0, say, or one without a debug unit.
    NoWatchpoints,
    /// All are in use.
    NoneLeft,
    /// 1, 2 or 4 bytes can be watched, at a multiple of that.
    Unaligned,
}

impl core::fmt::Display for CannotWatch {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            CannotWatch::NoWatchpoints => "the processor has no watchpoints that a firmware can set",
            CannotWatch::NoneLeft => "all watchpoints of the processor are in use",
            CannotWatch::Unaligned => "1, 2 or 4 bytes can be watched, at a multiple of that",
        })
    }
}

impl core::error::Error for CannotWatch {}

/// A watch that is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChipWatch {
    /// Its number.
    pub number: u8,
    /// So many bytes are watched. 1, where more were asked for: the processor compares with one address only, and tells of writes that begin with the first byte.
    pub bytes: u8,
}

/// What a watchpoint has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The number of the watch.
    pub watch: u8,
    /// The first byte that is watched.
    pub address: usize,
    /// How many.
    pub bytes: usize,
    /// The watch is over: the processor tells before the instruction, and would again.
    pub is_over: bool,
}

/// Watches 1, 2 or 4 bytes: from now on an exception follows whatever writes there. On a Cortex-M3, M4 or M7 (comparators of the debug unit) it is `DebugMonitor`, behind the
/// instruction; on RISC-V (triggers, in machine mode) it is cause 3, before the instruction on most, and the watch is over with the first write. The handler asks
/// [`Books::written`](super::Books::written).
///
/// With a debugger attached the processor halts instead. On a RISC-V processor with `tcontrol` its bit `mte` must be set (interrupts' handlers clear it).
///
/// # Errors
/// Where there is none: it says why.
pub fn watch(address: usize, bytes: usize) -> Result<ChipWatch, CannotWatch> {
    if !matches!(bytes, 1 | 2 | 4) || address & bytes.wrapping_sub(1) != 0 {
        return Err(CannotWatch::Unaligned);
    }
    #[cfg(target_arch = "arm")]
    return dwt::set(&mut Own, address as u32, bytes as u32);
    #[cfg(target_arch = "riscv32")]
    return triggers::set(&mut Own, address as u32, bytes as u32);
    #[cfg(not(any(target_arch = "arm", target_arch = "riscv32")))]
    Err(CannotWatch::NoWatchpoints)
}

/// Ends a watch. Whether there was one of this number.
pub fn unwatch(watch: u8) -> bool {
    #[cfg(target_arch = "arm")]
    return dwt::end(&mut Own, watch);
    #[cfg(target_arch = "riscv32")]
    return triggers::end(&mut Own, watch);
    #[cfg(not(any(target_arch = "arm", target_arch = "riscv32")))]
    {
        let _ = watch;
        false
    }
}

/// Which watchpoint it was, in the handler of the exception that followed.
pub(super) fn hit() -> Option<Hit> {
    #[cfg(target_arch = "arm")]
    return dwt::hit(&mut Own);
    #[cfg(target_arch = "riscv32")]
    {
        let (cause, value): (u32, u32);
        // SAFETY: reads registers.
        unsafe {
            core::arch::asm!("csrr {}, mcause", "csrr {}, mtval", out(reg) cause, out(reg) value, options(nomem, nostack));
        }
        const BREAKPOINT: u32 = 3;
        return if cause == BREAKPOINT { triggers::hit(&mut Own, value) } else { None };
    }
    #[cfg(not(any(target_arch = "arm", target_arch = "riscv32")))]
    None
}

/// The registers of this processor.
#[cfg(any(target_arch = "arm", target_arch = "riscv32"))]
struct Own;

#[cfg(target_arch = "arm")]
impl Registers for Own {
    fn read(&self, register: u32) -> u32 {
        // SAFETY: a register of the system control space or the debug unit, which is one on every Cortex-M.
        unsafe { core::ptr::with_exposed_provenance::<u32>(register as usize).read_volatile() }
    }
    fn write(&mut self, register: u32, value: u32) {
        // SAFETY: as above. Only comparators are written that nobody uses, and bits that let them tell.
        unsafe { core::ptr::with_exposed_provenance_mut::<u32>(register as usize).write_volatile(value) };
    }
}

#[cfg(target_arch = "riscv32")]
macro_rules! csr {
    ($read:ident, $write:ident, $number:literal) => {
        fn $read() -> u32 {
            let value: u32;
            // SAFETY: a register of the triggers, which a processor in machine mode has.
            unsafe { core::arch::asm!(concat!("csrr {}, ", $number), out(reg) value, options(nostack)) };
            value
        }
        fn $write(value: u32) {
            // SAFETY: as above. Only triggers are written that nobody uses.
            unsafe { core::arch::asm!(concat!("csrw ", $number, ", {}"), in(reg) value, options(nostack)) };
        }
    };
}

#[cfg(target_arch = "riscv32")]
impl Own {
    csr!(selected, set_selected, "0x7A0");
    csr!(data_1, set_data_1, "0x7A1");
    csr!(data_2, set_data_2, "0x7A2");
}

#[cfg(target_arch = "riscv32")]
impl Triggers for Own {
    fn select(&mut self, nth: u32) -> bool {
        Own::set_selected(nth);
        // One that is not there is not kept, or has no type.
        Own::selected() == nth && Own::data_1() >> 28 != 0
    }
    fn control(&self) -> u32 {
        Own::data_1()
    }
    fn set_control(&mut self, value: u32) {
        Own::set_data_1(value);
    }
    fn address(&self) -> u32 {
        Own::data_2()
    }
    fn set_address(&mut self, value: u32) {
        Own::set_data_2(value);
    }
}
