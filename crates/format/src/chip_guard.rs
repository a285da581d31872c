//! The section `guard`: what the guard of a chip says. Rows of four words; the first is of all of it, each other one of a heap.

/// Words of a row.
pub const ROW_WORDS: usize = 4;
/// In the first row: the level, 1 light, 2 full.
pub const LEVEL: usize = 0;
/// The address of the ledger's own first byte: by it an image of memory without addresses is known to begin.
pub const LEDGER: usize = 1;
/// How many heaps.
pub const HEAPS: usize = 2;
/// In the row of a heap: its first address.
pub const FIRST: usize = 0;
/// Its bytes.
pub const BYTES: usize = 1;
/// The address of a bit for each eight bytes, in words of 32 bits: a dressed block begins there.
pub const BEGINS: usize = 2;
/// The same: they are free and filled. 0 if freed memory is not filled.
pub const FILLED: usize = 3;
