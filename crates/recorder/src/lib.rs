//! What is entered in the ledger, and when.
//!
//! [`policy`] knows what an allocation, a free and a realloc mean for the ledger; it is the same
//! on a server and on a chip. A [`backend::Backend`] knows how records, index, call sites and
//! counters are kept there:
//!
//! - `heapledger-process`, a crate of its own: a shared file mapping, a shadow map, lock-free tables, per-thread state;
//! - [`chip`]: one region of memory, small hash, plain trie, under the caller's critical section.
//!
//! [`trace`] keeps exact books of a while, in memory of the caller's. [`inspect`] says what heaps and tasks hold, in figures and as text.
//!
//! The recorder does not know how a program's allocations reach it, and it never calls the
//! program's allocator, unwinds, or waits without bound.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable
    )
)]

#[cfg(test)]
extern crate std;

pub mod policy;

pub mod backend;

pub mod chip;

pub mod inspect;

pub mod trace;
