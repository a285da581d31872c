//! `heapledger-metadata` for C, on Linux and on chips: a static library, and `include/heapledger-metadata.h`, which says what each function is
//! for. C brings the allocator, the frames and the lock.
//!
//! It is `no_std`, depends on no library, allocates nothing and cannot unwind.
#![no_std]
#![deny(unsafe_code)]
#![deny(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::unreachable
)]

mod functions;

// Only compilers and lints look at a build that unwinds; what C gets aborts, as the profile `release` says.
#[cfg(panic = "unwind")]
extern crate std;
