//! Blocks of the program's own, asked for as a collection does it.

use std::alloc::{Layout, alloc, dealloc};
use std::hint::black_box;

pub fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 32).expect("a layout")
}

pub fn takes(size: usize) -> *mut u8 {
    // SAFETY: its size is not 0.
    black_box(unsafe { alloc(layout(size)) })
}

pub fn gives_back(block: *mut u8, size: usize) {
    // SAFETY: it was asked for so, once.
    unsafe { dealloc(block, layout(size)) }
}
