//! Heap events on a line: a device sends them as they happen, a host makes a ledger of them.
//!
//! *You supply* events and a line that takes whole frames or refuses them; *this crate says* what stands in a frame, and
//! reads it again. It is `no_std`, allocates nothing, waits for nothing and knows no ledger. No input makes it panic.
//!
//! * [`Sender`] collects events into frames. Each stack is sent once, then its number. A line that refuses a frame loses its
//!   events, and the count of them travels with the next frame.
//! * [`line`](mod@line) has the ways to send a frame: bytes between zeros (COBS) for a line of one's own, a line of text for a
//!   console, and a ring in memory that a debugger reads ([`rtt`]).
//! * [`message`] reads frames. `FORMAT.md` draws them byte by byte.
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

pub mod cobs;
mod crc;
pub mod line;
pub mod message;
pub mod rtt;
mod sender;
mod varint;

pub use line::Line;
pub use message::{BadFrame, Frame, Message, Messages};
pub use sender::{Sender, WireEvent};

/// Most bytes of a frame before it is packed for a line.
pub const FRAME_BYTES_MAX: usize = 256;
/// Most frames of a stack.
pub const DEPTH_MAX: usize = 32;
/// The version of what is sent.
pub const VERSION: u8 = 1;
