//! The compressed backtraces of libwebsockets, byte for byte, both ways: an allocation's size and call stack in some
//! twenty bytes, or in one line of a log.
//!
//! *You supply* frames and a buffer, or a blob; *this crate says* what the original would write, or what a blob says. It
//! is `no_std`, allocates nothing and knows no ledger, so firmware can use it alone. No input makes it panic.
//!
//! * [`encode()`] writes blobs that every build of the original reads, and refuses values that it would destroy;
//!   [`encode_any`] writes those in a marked extension ([`extension`]), which the original refuses.
//! * [`decode()`] reads what any build of the original wrote, in one of three dialects ([`Dialect`]), and says of what
//!   it had to read leniently, from which bit on.
//! * [`line`](mod@line) and [`base64`] make the lines `~m#…` and `~b#…` of logs, and read them.
//!
//! ```
//! use heapledger_lws::{Width, decode, encode, line};
//!
//! let (frames, mut blob) = ([0x406651u64, 0x406852, 0x406c1b, 0x406294], [0u8; 64]);
//! let bytes = encode(&frames, 7520, &mut blob)?;
//! let mut text = String::new();
//! line::write_compressed(&blob[..bytes], &mut text).expect("a String has room");
//! assert_eq!(text, "~m#IF0BmUQugNCkgCnkhdAYpQa6wAAV");
//!
//! let mut back = [0; 31];
//! let decoded = decode(&blob[..bytes], Width::W64, &mut back)?;
//! assert_eq!((decoded.size, decoded.frames), (7520, &frames[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
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

pub mod base64;
mod bits;
mod decode;
mod encode;
mod error;
pub mod extension;
pub mod line;
mod word;

pub use decode::{Decoded, Dialect, decode};
pub use encode::{Flavour, encode, encode_any, encode_as};
pub use error::{DecodeError, EncodeError, Problem, What};
pub use word::{Width, Word};

/// Most frames of a blob: its depth has five bits.
pub const DEPTH_MAX: usize = 31;
/// Bytes of the length at the end of a blob.
pub const LENGTH_BYTES: usize = 2;
/// Most bytes of a blob with 32-bit values.
pub const BLOB_BYTES_MAX_32: usize = 175;
/// Most bytes of any blob, extensions included.
pub const BLOB_BYTES_MAX: usize = 2309;
