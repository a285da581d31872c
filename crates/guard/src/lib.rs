//! Blocks dressed so that who writes past an end of one is found out: canaries on both sides, and what is checked of them.
//!
//! # What you supply, what you get
//!
//! You supply a block of an allocator's, larger than what the program asked for as [`Plan`] says. [`dress`] puts a header
//! with a canary in front of what the program gets, and a canary right behind its last byte; [`check`] says later whether
//! a byte of these was changed, which, and what should be there. [`Dressed`] knows where dressed blocks begin.
//!
//! # How a block lies in memory
//!
//! ```text
//!  what the allocator gave                what the program gets
//!  |                                      |
//!  [ for alignment ][ 12 bytes ][ canary ][ block, any size ][ canary ][ slack ]
//!                    size, lead, ABBA1234                     BAAD5678  BD BD …
//!                    checksum
//! ```
//!
//! Next to the block stands the canary, so that one byte of underflow does not change what a checker goes by. Size and lead
//! carry a checksum over the address and a secret of the process, and nothing is read by them before it was compared. If
//! one byte of these is damaged, it is found which, and the block is known nevertheless.
//!
//! On a chip blocks are dressed with less ([`small`]).
//!
//! All addresses are numbers of 64 bits, also where a target's have 32 ([`Width`]), and all memory is read through a
//! [`Memory`]: so the layout for a chip is tested on the host, and the next user reads another process.
//!
//! # Memory of the guard's own
//!
//! Blocks that are dressed lie in the program's allocator, beside what that one keeps of them. Where more is wanted, blocks come
//! from ranges of addresses that the caller reserves: from [`Full`], far apart, filled, and kept back for a while when they
//! are freed; or from [`Closed`], each at a page without access. What is known of them lies elsewhere, in tables. See `arena.rs`.
//!
//! # Not for
//!
//! Stacks, files, system calls, and what is done about damage.

#![no_std]
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

#[cfg(all(target_has_atomic = "64", not(feature = "loom")))]
pub mod alone;
#[cfg(all(target_has_atomic = "64", not(feature = "loom")))]
mod arena;
#[cfg(not(feature = "loom"))]
mod check;
#[cfg(all(target_has_atomic = "32", not(feature = "loom")))]
mod dressed;
#[cfg(all(target_has_atomic = "64", not(feature = "loom")))]
pub mod judging;
#[cfg(not(feature = "loom"))]
mod layout;
#[cfg(all(target_has_atomic = "32", not(feature = "loom")))]
mod leaf;
#[cfg(not(feature = "loom"))]
mod memory;
#[cfg(all(target_has_atomic = "64", not(feature = "loom")))]
mod outside;
#[cfg(not(feature = "loom"))]
mod pattern;
#[cfg(not(feature = "loom"))]
pub mod small;

// What threads do without a lock; with the feature `loom` that is all there is, for the model checks in `/loom`.
#[cfg(target_has_atomic = "64")]
pub mod groups;
#[cfg(target_has_atomic = "64")]
pub mod queue;
#[cfg(target_has_atomic = "64")]
pub mod stack;
#[cfg(target_has_atomic = "64")]
mod sync;

#[cfg(all(target_has_atomic = "64", not(feature = "loom")))]
pub use arena::{
    Closed, ClosedCounts, ClosedLimits, Cursor, Fill, Finding, Found, Full, FullCounts, Life, Limits, NotFreed,
    Position, Refused, Request, Side, Slot, System, Tables, Used,
};
#[cfg(not(feature = "loom"))]
pub use check::{Bytes, Checked, Damage, Region, block_at, check, whole};
#[cfg(all(target_has_atomic = "32", not(feature = "loom")))]
pub use dressed::{Dressed, Marked};
#[cfg(not(feature = "loom"))]
pub use layout::{
    Block, HEAD_CANARY, HEADER_BYTES, Plan, SLACK_FILL, Secret, TAIL_BYTES, TAIL_CANARY, Width, dress, lead_of_new,
    undress,
};
#[cfg(all(target_has_atomic = "32", not(feature = "loom")))]
pub use leaf::{Leaf, Pages};
#[cfg(not(feature = "loom"))]
pub use memory::{Around, Memory, Window};
#[cfg(all(target_has_atomic = "64", not(feature = "loom")))]
pub use outside::{Bits, NextBit, Rows, RowsOf};
