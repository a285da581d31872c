//! A compressed backtrace in front of each block of an allocator, and a list of all that live: what libwebsockets'
//! `lws_alloc_metadata` does, for any allocator, on Linux and on chips.
//!
//! *You supply* the allocator, the frames of its caller and a lock; *this crate* says how much more to ask for
//! ([`Prepared`]), puts the backtrace and a node of a list before the block ([`Owner::adjust`]), and takes both away again
//! ([`Owner::trim`]). It is `no_std` and allocates nothing.
//!
//! ```text
//! true start | gap | backtrace, its length of 2 bytes at its end | node of the list, 3 words | user's block
//! ```
//!
//! As in the original, with these differences: the user's block is at a multiple of 16 if the allocator's is; a backtrace
//! that does not fit is one without frames, which can be read; what 64-bit builds of the original destroy is kept, in the
//! extension of [`heapledger_lws`]; and whoever wants is told of each block that comes and goes.
//!
//! A list has no lock of its own, and is not `Sync`: hold the allocator's lock, and allocate nothing meanwhile.
#![no_std]
#![deny(unsafe_code)]
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

mod list;
mod prepared;

pub use list::{Came, Owner, Told};
pub use prepared::{BLOB_BYTES_MAX, POST, PRE, Prepared, snip};
