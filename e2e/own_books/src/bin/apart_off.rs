//! The programs of `inside.rs`, with a recorder that does not record by itself.

use heapledger::{Heapledger, Options};

#[path = "../inside.rs"]
mod inside;

#[global_allocator]
static HEAP: Heapledger<inside::Inside> = Heapledger::with(inside::Inside, Options::new().off());

fn main() {
    inside::main();
}
