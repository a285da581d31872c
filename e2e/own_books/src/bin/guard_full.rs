//! A program with the crate that has its blocks guarded as at `full`, around the system's allocator. See `wrongs.rs`.

#[path = "../wrongs.rs"]
mod wrongs;

use std::alloc::System;

use heapledger::{GuardLevel, Heapledger, Options};

#[global_allocator]
static HEAP: Heapledger<System> =
    Heapledger::with(System, Options::new().guard(GuardLevel::Full).quarantine_bytes(1 << 20));

fn main() {
    wrongs::run();
}
