//! A program whose ledger is memory, and written out at its end.

use std::alloc::System;
use std::hint::black_box;

use heapledger::{Heapledger, Options, Recording};

#[global_allocator]
static HEAP: Heapledger<System> =
    Heapledger::with(System, Options::new().off().in_memory().output("books.hl").history(1000));

#[inline(never)]
fn keeps() -> Vec<u8> {
    black_box(Vec::with_capacity(black_box(12_345)))
}

fn main() {
    assert_eq!(heapledger::recording(), Recording::Off);
    let passed_by = black_box(vec![1u8; 23_456]);
    heapledger::start().expect("nothing else is recorded");
    assert_eq!(heapledger::start(), Err(heapledger::Error::Begun));
    std::mem::forget(keeps());
    drop(passed_by);
    for bytes in 0..10_000 {
        drop(black_box(Vec::<u8>::with_capacity(black_box(bytes + 1))));
    }
}
