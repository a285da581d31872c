//! The three layouts: what each records, and the most that its fields can hold. The header has the same numbers.
#![forbid(unsafe_code)]

use heapledger::chip::{Clock, Config, HeapDescription};

/// Most frames of a stack: room for them is on the stack of whoever allocates.
pub const DEPTH_MAX: usize = 16;

/// So many heaps can be told apart.
const HEAPS: &[HeapDescription] = &[HeapDescription { name: "heap", low: 0, high: 0 }; 4];

/// Bytes of a heap's name that are kept: there is room for so many of each.
pub const HEAP_NAME_BYTES: usize = 16;

/// Who holds which block, with call stacks. A record takes 12 bytes: sizes up to 65,534 are exact, and there are up to 1,024 nodes of stacks.
pub const MINIMAL: Config<'static> =
    Config { depth: DEPTH_MAX as u16, largest_bytes: 0xFFFE, ..Config::minimal(0xFFFE, 1024) };

/// And when, in which task; and freed blocks. A record takes 20 bytes, a freed block 32: sizes up to 1,048,574 are exact, there are up to 4,096
/// nodes and 254 tasks.
pub const TASKS: Config<'static> = Config {
    sites: 4096,
    largest_bytes: 0xF_FFFE,
    history: 0xFFFF,
    tasks: 254,
    clock: Some(Clock { tick_ns: 0, bits: 32 }),
    process: b"\0",
    ..MINIMAL
};

/// Heaps that are guarded at most: a row of the ledger for each.
pub const GUARDED_MAX: u8 = 4;

/// The same layout in a library whose blocks are guarded.
pub const fn guarded(layout: Config<'static>) -> Config<'static> {
    Config { errors: 0xFFFF, guarded_heaps: GUARDED_MAX, ..layout }
}

/// And in which of up to four heaps, with the bytes that blocks really have. It takes no more.
pub const EVERYTHING: Config<'static> = Config { actual_sizes: true, heaps: HEAPS, ..TASKS };
