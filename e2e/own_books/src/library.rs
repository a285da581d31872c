//! A library with the crate inside, for programs that load it and unload it.

use std::alloc::System;
use std::hint::black_box;

use heapledger::Heapledger;

#[global_allocator]
static HEAP: Heapledger<System> = Heapledger::system();

/// A size that nobody else asks for.
const KEPT_BYTES: usize = 1_234;

#[inline(never)]
fn keeps() {
    std::mem::forget(black_box(Box::new([7u8; KEPT_BYTES])));
}

/// Allocates, and keeps one block. Returns the length of some numbers.
#[unsafe(no_mangle)]
pub extern "C" fn library_works(numbers: usize) -> usize {
    let numbers: Vec<String> = (0..numbers).map(|number| number.to_string()).collect();
    keeps();
    numbers.iter().map(String::len).sum()
}

/// Whether something is recorded in this process, and speaks to whoever does it.
#[unsafe(no_mangle)]
pub extern "C" fn library_tells() -> bool {
    let _label = heapledger::label("library", "yes");
    heapledger::mark_thread("library") && heapledger::recording() == heapledger::Recording::On
}
