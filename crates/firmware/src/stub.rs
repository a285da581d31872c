//! What stands before a function of this library, in assembly: it pushes arguments and a frame, so that the address behind the call is certain,
//! and calls the function with the address of both.
//!
//! # Safety
//! A room with `unsafe`: it reads arguments behind what was pushed.

/// What was pushed: four arguments or more, then the frame.
#[repr(C)]
pub(crate) struct Pushed {
    /// The first four.
    pub(crate) arguments: [usize; 4],
    /// The fifth, and nothing.
    #[cfg(target_arch = "riscv32")]
    fifth: [usize; 2],
    frame: [usize; 2],
}

impl Pushed {
    /// The frame, as walks begin with it.
    #[inline(always)]
    pub(crate) fn frame(&self) -> *const usize {
        let frame = (&raw const self.frame).cast::<usize>();
        // Behind it, where frame pointers point to that.
        if cfg!(target_arch = "riscv32") { frame.wrapping_add(2) } else { frame }
    }

    /// The fifth argument.
    ///
    /// # Safety
    /// The function has five.
    #[inline(always)]
    pub(crate) unsafe fn fifth(&self) -> usize {
        #[cfg(target_arch = "arm")]
        // SAFETY: the caller has pushed it before.
        unsafe {
            (&raw const self.frame).cast::<usize>().wrapping_add(2).read()
        }
        #[cfg(target_arch = "riscv32")]
        {
            let [fifth, _] = self.fifth;
            fifth
        }
    }

    /// The fourth argument, before a mark lies there.
    #[cfg(not(feature = "guard"))]
    #[inline(always)]
    pub(crate) fn fourth(&self) -> usize {
        let [_, _, _, fourth] = self.arguments;
        fourth
    }

    /// Where a mark of this call may lie: the fourth argument is not needed any more.
    #[inline(always)]
    pub(crate) fn cookie(&mut self) -> *mut usize {
        let [_, _, _, fourth] = &mut self.arguments;
        fourth
    }
}

/// Defines a function that is called by C: it calls another one with what was [`Pushed`], and with the address of a static.
macro_rules! stub {
    ($name:ident, $work:path, $static:path) => {
        #[cfg(target_arch = "arm")]
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        extern "C" fn $name() {
            core::arch::naked_asm!(
                // For debuggers, not for flash.
                ".cfi_sections .debug_frame",
                ".cfi_startproc",
                "push {{r7, lr}}",
                ".cfi_def_cfa_offset 8",
                ".cfi_offset r7, -8",
                ".cfi_offset lr, -4",
                "push {{r0, r1, r2, r3}}",
                ".cfi_def_cfa_offset 24",
                "mov r0, sp",
                "ldr r1, ={told}",
                "bl {work}",
                "add sp, #16",
                ".cfi_def_cfa_offset 8",
                "pop {{r7, pc}}",
                ".cfi_endproc",
                told = sym $static,
                work = sym $work,
            )
        }

        #[cfg(target_arch = "riscv32")]
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        extern "C" fn $name() {
            core::arch::naked_asm!(
                ".cfi_sections .debug_frame",
                ".cfi_startproc",
                "addi sp, sp, -32",
                ".cfi_def_cfa_offset 32",
                ".cfi_offset ra, -4",
                ".cfi_offset s0, -8",
                "sw a0, 0(sp)",
                "sw a1, 4(sp)",
                "sw a2, 8(sp)",
                "sw a3, 12(sp)",
                "sw a4, 16(sp)",
                "sw s0, 24(sp)",
                "sw ra, 28(sp)",
                "mv a0, sp",
                "la a1, {told}",
                "call {work}",
                "lw ra, 28(sp)",
                "addi sp, sp, 32",
                ".cfi_def_cfa_offset 0",
                "ret",
                ".cfi_endproc",
                told = sym $static,
                work = sym $work,
            )
        }
    };
}

pub(crate) use stub;
