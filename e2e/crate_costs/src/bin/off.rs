//! Nothing, until somebody says so.

use std::alloc::System;

use heapledger::{AtExit, Heapledger, Options};

#[path = "../work.rs"]
mod work;

#[global_allocator]
static HEAP: Heapledger<System> = Heapledger::with(System, Options::new().at_exit(AtExit::Remove).off());

fn main() {
    work::main();
}
