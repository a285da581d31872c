//! Functions that do nothing: debuggers stop there.
//!
//! # Safety
//! A room with `unsafe`: the functions have names of their own in the program, which nobody else defines. Each does something else, which
//! is nothing: two that do the same could become one, and a debugger that stops at the rare one would stop at the frequent one. They are in
//! assembly, without a frame. As far as the compiler knows they look at memory: what was stored before is there.

#[cfg(target_os = "none")]
mod functions {
    macro_rules! break_here {
        ($name:ident, $number:literal) => {
            #[cfg(target_arch = "arm")]
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            extern "C" fn $name() {
                // A number into a register that the function may use. Debuggers know from tables who called.
                core::arch::naked_asm!(
                    ".cfi_sections .debug_frame",
                    ".cfi_startproc",
                    concat!("movs r0, #", $number),
                    "bx lr",
                    ".cfi_endproc",
                )
            }

            #[cfg(any(target_arch = "riscv32", target_arch = "riscv64"))]
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            extern "C" fn $name() {
                core::arch::naked_asm!(
                    ".cfi_sections .debug_frame",
                    ".cfi_startproc",
                    concat!("li a0, ", $number),
                    "ret",
                    ".cfi_endproc",
                )
            }

            #[cfg(not(any(target_arch = "arm", target_arch = "riscv32", target_arch = "riscv64")))]
            #[unsafe(no_mangle)]
            #[inline(never)]
            extern "C" fn $name() {
                // SAFETY: no instruction at all, but another comment.
                unsafe { core::arch::asm!(concat!("/* ", $number, " */"), options(nostack)) };
            }
        };
    }

    break_here!(heapledger_update_done, "1");
    break_here!(heapledger_history_full, "2");
    break_here!(heapledger_records_full, "3");
    break_here!(heapledger_sites_full, "4");
    break_here!(heapledger_window_starts, "5");
    break_here!(heapledger_window_stops, "6");
    break_here!(heapledger_line_full, "7");
    break_here!(heapledger_error, "8");

    #[inline(always)]
    pub(crate) fn update_done() {
        heapledger_update_done();
    }

    #[inline(always)]
    pub(crate) fn history_full() {
        heapledger_history_full();
    }

    #[cold]
    pub(crate) fn records_full() {
        heapledger_records_full();
    }

    #[cold]
    pub(crate) fn sites_full() {
        heapledger_sites_full();
    }

    #[cold]
    pub(crate) fn window_starts() {
        heapledger_window_starts();
    }

    #[cold]
    pub(crate) fn window_stops() {
        heapledger_window_stops();
    }

    #[cold]
    pub(crate) fn line_full() {
        heapledger_line_full();
    }

    #[cold]
    pub(crate) fn error_found() {
        heapledger_error();
    }
}

/// Where there is an operating system, the names are not ours to give.
#[cfg(not(target_os = "none"))]
mod functions {
    pub(crate) fn update_done() {}
    pub(crate) fn history_full() {}
    pub(crate) fn records_full() {}
    pub(crate) fn sites_full() {}
    pub(crate) fn window_starts() {}
    pub(crate) fn window_stops() {}
    pub(crate) fn line_full() {}
    pub(crate) fn error_found() {}
}

pub(super) use functions::{
    error_found, history_full, line_full, records_full, sites_full, update_done, window_starts, window_stops,
};
