//! Each block, with its stack.

use std::alloc::System;

use heapledger::{AtExit, Heapledger, Options};

#[path = "../work.rs"]
mod work;

#[global_allocator]
static HEAP: Heapledger<System> = Heapledger::with(System, Options::new().at_exit(AtExit::Remove));

fn main() {
    work::main();
}
