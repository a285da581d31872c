//! What firmware of these tests has in common: it knows what it keeps, in a table beside the ledger, and ends with a reset, at which QEMU stops.
//! Read by `e2e/tests/firmware_own.rs`.
#![no_std]

extern crate alloc;

use alloc::vec::Vec;
use core::hint::black_box;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use cortex_m::peripheral::SCB;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    // No image is taken: the test ends there.
    loop {
        core::hint::spin_loop();
    }
}

/// Bytes for an allocator's heap.
pub const HEAP_BYTES: usize = 16 << 10;

/// What is live: address, size, and who allocated it (the task's number).
#[repr(C)]
struct Truth {
    magic: [u8; 16],
    count: AtomicU32,
    blocks: [[AtomicU32; 3]; 120],
}

#[used]
static TRUTH: Truth = Truth {
    magic: *b"what is live is:",
    count: AtomicU32::new(0),
    blocks: [const { [const { AtomicU32::new(0) }; 3] }; 120],
};

/// Says that a block is kept, for ever.
pub fn keep(block: Vec<u8>, who: u32) {
    let words = [block.as_ptr().addr() as u32, block.capacity() as u32, who];
    let at = TRUTH.count.fetch_add(1, Relaxed);
    if let Some(row) = TRUTH.blocks.get(at as usize) {
        row.iter().zip(words).for_each(|(to, word)| to.store(word, Relaxed));
    }
    core::mem::forget(block);
}

/// One turn of a task: of three blocks one is kept, one grows and goes, one just goes.
#[inline(never)]
pub fn turn(number: u32, who: u32) {
    let bytes = (8 + number * 7 % 90) as usize;
    let block = black_box(Vec::<u8>::with_capacity(bytes));
    match number % 3 {
        0 => keep(block, who),
        1 => {
            let mut block = block;
            block.reserve_exact(bytes + 50);
            black_box(block);
        }
        _ => drop(block),
    }
    black_box(());
}

/// It is over.
pub fn end() -> ! {
    SCB::sys_reset()
}
