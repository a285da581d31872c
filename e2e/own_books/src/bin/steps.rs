//! A program for a debugger: it keeps three blocks that it knows, stands still in a function for that, and then calls each of Rust's four
//! functions once more.

use std::alloc::{Layout, System, alloc, alloc_zeroed, dealloc, realloc};
use std::hint::black_box;

use heapledger::Heapledger;

#[global_allocator]
static HEAP: Heapledger<System> = Heapledger::new(System);

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn steps_stands_here(blocks: &[*mut u8; 3]) {
    black_box(blocks);
}

/// Each of the four.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn steps_calls_each(size: usize) {
    let (layout, larger) =
        (Layout::array::<u64>(size).expect("a layout"), Layout::array::<u64>(2 * size).expect("a layout"));
    // SAFETY: sizes are not 0; each block goes back once, as it was asked for.
    unsafe {
        let block = black_box(alloc(layout));
        let zeroed = black_box(alloc_zeroed(layout));
        let block = black_box(realloc(block, layout, larger.size()));
        dealloc(block, larger);
        dealloc(zeroed, layout);
    }
}

#[inline(never)]
fn keeps(size: usize) -> *mut u8 {
    // SAFETY: its size is not 0.
    black_box(unsafe { alloc(Layout::from_size_align(size, 8).expect("a layout")) })
}

fn main() {
    let blocks = [11_111, 22_222, 33_333].map(keeps);
    for size in 1..100 {
        steps_calls_each(size);
    }
    steps_stands_here(&blocks);
    for _ in 0..20 {
        steps_calls_each(7);
    }
    println!("done");
}
