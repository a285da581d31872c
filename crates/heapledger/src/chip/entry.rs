//! Where an allocator's calls are entered. On chips a few instructions stand before it: what is pushed there is the frame of the
//! function that was called, with or without frame pointers, so that the address behind the call is certain.
//!
//! # Safety
//! A room with `unsafe`: functions in assembly, which hand their arguments on.

use super::books::{Books, Moved};
use super::guard::{By, TakenBack};
use super::{Address, BlockPlan, FoundAt, Frame, Kind, Placed};
use heapledger_recorder::policy::Reallocated;

/// A function that calls another one with its own arguments, up to three, and the address of its frame.
macro_rules! with_frame {
    ($(#[$doc:meta])* $name:ident, $work:ident, ($($argument:ident: $type:ty),*) $(-> $answer:ty)?) => {
        $(#[$doc])*
        #[cfg(target_arch = "arm")]
        #[unsafe(naked)]
        pub(super) extern "C" fn $name<B: Placed>($($argument: $type),*) $(-> $answer)? {
            core::arch::naked_asm!(
                // For debuggers, not for flash.
                ".cfi_sections .debug_frame",
                ".cfi_startproc",
                "push {{r7, lr}}",
                ".cfi_def_cfa_offset 8",
                ".cfi_offset r7, -8",
                ".cfi_offset lr, -4",
                "mov r3, sp",
                "bl {work}",
                "pop {{r7, pc}}",
                ".cfi_endproc",
                work = sym $work::<B>,
            )
        }

        $(#[$doc])*
        #[cfg(target_arch = "riscv32")]
        #[unsafe(naked)]
        pub(super) extern "C" fn $name<B: Placed>($($argument: $type),*) $(-> $answer)? {
            core::arch::naked_asm!(
                ".cfi_sections .debug_frame",
                ".cfi_startproc",
                "addi sp, sp, -16",
                ".cfi_def_cfa_offset 16",
                ".cfi_offset ra, -4",
                ".cfi_offset s0, -8",
                "sw ra, 12(sp)",
                "sw s0, 8(sp)",
                "addi a3, sp, 16",
                "call {work}",
                "lw ra, 12(sp)",
                "addi sp, sp, 16",
                ".cfi_def_cfa_offset 0",
                "ret",
                ".cfi_endproc",
                work = sym $work::<B>,
            )
        }

        $(#[$doc])*
        #[cfg(not(any(target_arch = "arm", target_arch = "riscv32")))]
        pub(super) fn $name<B: Placed>($($argument: $type),*) $(-> $answer)? {
            $work::<B>($($argument,)* core::ptr::null())
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

with_frame!(
    /// A block that was asked for is dressed, and has begun: what the program is to have.
    dress, dresses, (given: *mut u8, asked: &GuardedCall, _unused: usize) -> *mut u8
);
with_frame!(
    /// A block is about to end: whether and how the allocator is to have it back.
    undress, undresses, (block: *mut u8, asked: &GuardedCall, taken: &mut TakenBack)
);
with_frame!(
    /// A `realloc` of a dressed block has returned: what the program is to have.
    dress_anew, dresses_anew, (moved: &Moved, asked: &GuardedCall, kept: usize) -> *mut u8
);
with_frame!(
    /// A block is about to be resized.
    undress_to_resize, undresses_to_resize, (block: *mut u8, asked: &GuardedCall, taken: &mut TakenBack)
);

/// What a guarded allocator is asked for, or told.
pub(super) struct GuardedCall {
    /// Bytes.
    pub(super) size: usize,
    /// What the block is aligned to.
    pub(super) alignment: usize,
    /// By which function.
    pub(super) kind: Kind,
    /// So many bytes of it are to stay as they are.
    pub(super) kept: usize,
}

impl GuardedCall {
    /// How it is dressed; `None`: it is not.
    pub(super) fn plan(&self) -> Option<BlockPlan> {
        BlockPlan::new(self.size, self.alignment)
    }
}

#[inline(never)]
extern "C" fn dresses<B: Placed>(given: *mut u8, asked: &GuardedCall, _unused: usize, frame: *const usize) -> *mut u8 {
    // SAFETY: as below.
    let frame = unsafe { Frame::at(frame) };
    let books = Books::<B>::of();
    let block = match asked.plan() {
        // SAFETY: the allocator inside has just given as much as the plan says.
        Some(plan) if !given.is_null() => unsafe {
            books.dress(given.expose_provenance(), &plan, asked.kept, asked.kind, frame)
        },
        Some(_) => 0,
        None => {
            books.count_guarded_less();
            given.expose_provenance()
        }
    };
    books.begins(asked.kind, block as Address, asked.size as Address, frame);
    core::ptr::with_exposed_provenance_mut(block)
}

/// Looks at a block that ends or is resized, and at what its owner says of it.
#[inline(always)]
fn undressed<B: Placed>(block: *mut u8, asked: &GuardedCall, at: FoundAt, frame: Frame) -> TakenBack {
    let (books, address) = (Books::<B>::of(), block.expose_provenance());
    // SAFETY: what the program passes.
    let taken = unsafe { books.undress(address, asked.kind, at, frame) };
    if let TakenBack::Dressed { given, size, .. } = taken {
        let lead = address.wrapping_sub(given);
        if size != asked.size || lead != asked.alignment.max(8) {
            let by = By { kind: asked.kind, from: frame, at: FoundAt::Call };
            books.tell_layout(address, (size, lead), (asked.size, asked.alignment), by);
        }
    }
    taken
}

#[inline(never)]
extern "C" fn undresses<B: Placed>(block: *mut u8, asked: &GuardedCall, taken: &mut TakenBack, frame: *const usize) {
    // SAFETY: as below.
    let frame = unsafe { Frame::at(frame) };
    *taken = undressed::<B>(block, asked, FoundAt::Free, frame);
    Books::<B>::of().freed(block.expose_provenance() as Address, asked.kind, frame);
}

#[inline(never)]
extern "C" fn undresses_to_resize<B: Placed>(
    block: *mut u8,
    asked: &GuardedCall,
    taken: &mut TakenBack,
    frame: *const usize,
) {
    // SAFETY: as below.
    *taken = undressed::<B>(block, asked, FoundAt::Realloc, unsafe { Frame::at(frame) });
}

#[inline(never)]
extern "C" fn dresses_anew<B: Placed>(moved: &Moved, asked: &GuardedCall, kept: usize, frame: *const usize) -> *mut u8 {
    // SAFETY: as below.
    let frame = unsafe { Frame::at(frame) };
    let books = Books::<B>::of();
    let new = moved.new as usize;
    let block = match asked.plan() {
        // SAFETY: as in `dresses`.
        Some(plan) if new != 0 => unsafe { books.dress(new, &plan, kept, asked.kind, frame) },
        _ => new,
    };
    let outcome = match block {
        0 => Reallocated::Failed,
        new => Reallocated::Gave(super::books::new_block(asked.kind, new as Address, asked.size as Address)),
    };
    books.realloc_ended(moved.detached, moved.old, asked.kind, outcome, frame);
    core::ptr::with_exposed_provenance_mut(block)
}

#[inline(never)]
extern "C" fn begins<B: Placed>(block: *mut u8, size: usize, kind: Kind, frame: *const usize) {
    // SAFETY: pushed by the function that calls this; null where there is none, which is on no chip.
    let frame = unsafe {
        core::hint::assert_unchecked(cfg!(not(any(target_arch = "arm", target_arch = "riscv32"))) || !frame.is_null());
        Frame::at(frame)
    };
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
