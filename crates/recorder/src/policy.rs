//! What an allocation, a free and a realloc mean for the ledger.
//!
//! Where speed counts the steps are compiled into their callers: they run twice per block.
//!
//! The order of steps is what other threads and readers rely on: a record is complete before the
//! index leads to it, and out of the index before the allocator can hand its address out again.
//!
//! Recording can be paused: then the library of hooks begins no block, and goes on to end those that are in the ledger. What
//! follows from that for the counts is said where the word is kept (`switch.rs` of `heapledger-process`).

mod block;
mod realloc;

pub use block::{begin, end, end_looked_at};
pub use realloc::{Detached, Reallocated, detach, settle};
