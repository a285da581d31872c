//! Totals, of all and of each thread.

use std::alloc::System;

use heapledger::{Heapledger, Options};

#[path = "../work.rs"]
mod work;

#[global_allocator]
static HEAP: Heapledger<System> = Heapledger::with(System, Options::new().counting());

fn main() {
    work::main();
}
