//! An allocator around another one, on a chip.
//!
//! # Safety
//! A room with `unsafe`: it passes calls on to the allocator inside.

use super::books::{Books, Moved};
use super::{Address, Kind, Placed, entry};
use core::alloc::{GlobalAlloc, Layout};
use core::marker::PhantomData;

/// An allocator around another one, which records each block in the ledger of a [`Board`](super::Board). See the [module](super) for
/// an example.
pub struct ChipAllocator<A, B> {
    allocator: A,
    board: PhantomData<fn() -> B>,
}

impl<A, B: Placed> ChipAllocator<A, B> {
    /// Around an allocator.
    pub const fn new(allocator: A) -> Self {
        ChipAllocator { allocator, board: PhantomData }
    }

    /// The allocator inside.
    pub const fn inner(&self) -> &A {
        &self.allocator
    }

    /// The books, to give tasks their names, and to enter blocks that were allocated otherwise.
    pub const fn books(&self) -> Books<B> {
        Books::of()
    }
}

// (Compiled into their callers: the innermost frame is theirs.)
// SAFETY: every call goes on to an allocator that keeps the contract, once, with the same arguments.
unsafe impl<A: GlobalAlloc, B: Placed> GlobalAlloc for ChipAllocator<A, B> {
    #[inline(always)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the program's own call.
        let block = unsafe { self.allocator.alloc(layout) };
        entry::begin::<B>(block, layout.size(), Kind::RUST_ALLOC);
        block
    }

    #[inline(always)]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the program's own call.
        let block = unsafe { self.allocator.alloc_zeroed(layout) };
        entry::begin::<B>(block, layout.size(), Kind::RUST_ALLOC_ZEROED);
        block
    }

    #[inline(always)]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // Before: then nobody can have been given the address again.
        entry::end::<B>(block, Kind::RUST_DEALLOC, 0);
        // SAFETY: the program's own call.
        unsafe { self.allocator.dealloc(block, layout) }
    }

    #[inline(always)]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // Between the two others may allocate: interrupts are not off for as long as the allocator takes.
        let detached = Books::<B>::of().realloc_begins(block as usize as Address);
        // SAFETY: the program's own call.
        let new = unsafe { self.allocator.realloc(block, layout, new_size) };
        entry::reallocate::<B>(
            &Moved { detached, old: block as usize as Address, new: new as usize as Address },
            new_size,
            Kind::RUST_REALLOC,
        );
        new
    }
}
