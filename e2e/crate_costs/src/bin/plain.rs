//! Nobody looks on, but for what is preloaded.

use std::alloc::System;

#[path = "../work.rs"]
mod work;

// As the others name one: what the standard library brings is compiled with optimisation, and this with the program.
#[global_allocator]
static HEAP: System = System;

fn main() {
    work::main();
}
