//! One block for each 512 KiB.

use std::alloc::System;

use heapledger::{AtExit, Heapledger, Options};

#[path = "../work.rs"]
mod work;

#[global_allocator]
static HEAP: Heapledger<System> = Heapledger::with(System, Options::new().at_exit(AtExit::Remove).sampled(512 << 10));

fn main() {
    work::main();
}
