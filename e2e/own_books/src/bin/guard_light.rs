//! A program with the crate that has its blocks guarded as at `light`, around an allocator that ends the program if a block comes back with another
//! layout than it was asked for with. See `wrongs.rs`.

#[path = "../wrongs.rs"]
mod wrongs;

use std::alloc::{GlobalAlloc, Layout, System};
use std::process::abort;

use heapledger::{GuardLevel, Heapledger, Options};

#[global_allocator]
static HEAP: Heapledger<Strict> = Heapledger::with(Strict, Options::new().guard(GuardLevel::Light));

/// In front of each block lies a mark with its layout, so far away that nobody's underflow of 16 bytes reaches it.
struct Strict;

const MARK: usize = 0x00AB_5EED_1A70_0715;
const MARK_BYTES: usize = size_of::<[usize; 3]>();

fn room(layout: Layout) -> usize {
    layout.align().max(64)
}

fn with_room(layout: Layout) -> Layout {
    match Layout::from_size_align(layout.size() + room(layout), room(layout)) {
        Ok(layout) => layout,
        Err(_) => abort(),
    }
}

// SAFETY: blocks are `System`'s, with room in front of them.
unsafe impl GlobalAlloc for Strict {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: its size is not 0.
        let block = unsafe { System.alloc_zeroed(with_room(layout)) };
        if block.is_null() {
            return block;
        }
        // SAFETY: there is so much room in front, and it is aligned to more than words are.
        unsafe {
            let block = block.add(room(layout));
            block.sub(room(layout)).cast::<[usize; 3]>().write([MARK, layout.size(), layout.align()]);
            // As far from zeros as can be, where nobody asked for them.
            block.write_bytes(0xA7, layout.size());
            block
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's; so many bytes are there.
        unsafe {
            let block = self.alloc(layout);
            if !block.is_null() {
                block.write_bytes(0, layout.size());
            }
            block
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: of a block of ours; others are found out by that, or the program ends by a fault.
        unsafe {
            let first = block.sub(room(layout));
            if first.cast::<[usize; 3]>().read() != [MARK, layout.size(), layout.align()] {
                abort();
            }
            first.write_bytes(0, MARK_BYTES);
            System.dealloc(first, with_room(layout));
        }
    }
}

fn main() {
    wrongs::run();
}
