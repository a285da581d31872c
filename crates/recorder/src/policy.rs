//! What an allocation, a free and a realloc mean for the ledger.
//!
//! Where speed counts the steps are compiled into their callers: they run twice per block.
//!
//! The order of steps is what other threads and readers rely on: a record is complete before the
//! index leads to it, and out of the index before the allocator can hand its address out again.

mod block;
mod realloc;

pub use block::{begin, end};
pub use realloc::{Detached, Reallocated, detach, settle};
