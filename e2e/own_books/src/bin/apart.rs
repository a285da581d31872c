//! The programs of `inside.rs`, with a recorder that records from its first call on.

use heapledger::{Heapledger, Options};

#[path = "../inside.rs"]
mod inside;

#[global_allocator]
static HEAP: Heapledger<inside::Inside> = Heapledger::with(inside::Inside, Options::new());

fn main() {
    inside::main();
}
