//! What is entered in the ledger, and when.
//!
//! [`policy`] knows what an allocation, a free and a realloc mean for the ledger. A [`backend::Backend`] knows how records, index, call sites and
//! counters are kept: that of `heapledger-process`, a crate of its own, in a shared file mapping, with a shadow map, lock-free tables, per-thread state.
//!
//! [`chip`] is for one region of memory under the caller's critical section: small hash, plain trie, all laid out by the compiler. What calls mean is
//! the same there, and written for a chip's words; one model holds both.
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
