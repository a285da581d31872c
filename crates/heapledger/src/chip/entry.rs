//! Where an allocator's calls are entered. On chips a few instructions stand before it: what is pushed there is the frame of the
//! function that was called, with or without frame pointers, so that the address behind the call is certain.
//!
//! # Safety
//! A room with `unsafe`: functions in assembly, which hand their arguments on.

use super::books::{Books, Moved};
use super::{Address, Frame, Kind, Placed};
use heapledger_recorder::policy::Reallocated;

/// A function that calls another one with its own arguments, up to three, and the address of its frame.
macro_rules! with_frame {
    ($(#[$doc:meta])* $name:ident, $work:ident, ($($argument:ident: $type:ty),*)) => {
        $(#[$doc])*
        #[cfg(target_arch = "arm")]
        #[unsafe(naked)]
        pub(super) extern "C" fn $name<B: Placed>($($argument: $type),*) {
            core::arch::naked_asm!(
                "push {{r7, lr}}",
                "mov r3, sp",
                "bl {work}",
                "pop {{r7, pc}}",
                work = sym $work::<B>,
            )
        }

        $(#[$doc])*
        #[cfg(target_arch = "riscv32")]
        #[unsafe(naked)]
        pub(super) extern "C" fn $name<B: Placed>($($argument: $type),*) {
            core::arch::naked_asm!(
                "addi sp, sp, -16",
                "sw ra, 12(sp)",
                "sw s0, 8(sp)",
                "addi a3, sp, 16",
                "call {work}",
                "lw ra, 12(sp)",
                "addi sp, sp, 16",
                "ret",
                work = sym $work::<B>,
            )
        }

        $(#[$doc])*
        #[cfg(not(any(target_arch = "arm", target_arch = "riscv32")))]
        pub(super) fn $name<B: Placed>($($argument: $type),*) {
            $work::<B>($($argument,)* core::ptr::null());
        }
    };
}

with_frame!(
    /// A call has returned a block, or null.
    begin, begins, (block: *mut u8, size: usize, kind: Kind)
);
with_frame!(
    /// A block is about to end.
    end, ends, (block: *mut u8, kind: Kind, _unused: usize)
);
with_frame!(
    /// A `realloc` has returned.
    reallocate, reallocates, (moved: &Moved, size: usize, kind: Kind)
);

#[inline(never)]
extern "C" fn begins<B: Placed>(block: *mut u8, size: usize, kind: Kind, frame: *const usize) {
    // SAFETY: pushed by the function that calls this; null where there is none.
    let frame = unsafe { Frame::at(frame) };
    Books::<B>::of().begins(kind, block as usize as Address, size as Address, frame);
}

#[inline(never)]
extern "C" fn ends<B: Placed>(block: *mut u8, kind: Kind, _unused: usize, frame: *const usize) {
    // SAFETY: as above.
    let frame = unsafe { Frame::at(frame) };
    Books::<B>::of().freed(block as usize as Address, kind, frame);
}

#[inline(never)]
extern "C" fn reallocates<B: Placed>(moved: &Moved, size: usize, kind: Kind, frame: *const usize) {
    let outcome = match moved.new {
        0 => Reallocated::Failed,
        new => Reallocated::Gave(super::books::new_block(kind, new, size as Address)),
    };
    // SAFETY: as above.
    let frame = unsafe { Frame::at(frame) };
    Books::<B>::of().realloc_ended(moved.detached, moved.old, kind, outcome, frame);
}
