//! The ledger's layout: the one thing that the recording half and the reading half share.
//!
//! *You supply* memory or bytes; *this crate says* where in them which figure lies. It knows no
//! operating system and has no policy: it neither maps, nor reads files, nor decides what is
//! entered. It is `no_std`, allocates nothing, and no input makes it panic.
//!
//! A ledger is a header ([`header`]) followed by sections ([`section`]) of fixed-size elements.
//! Where a field of a record lies is said by descriptors in the header ([`layout`]), because on a
//! small target each optional field can be left out. A *finished* ledger is the same header
//! followed by self-describing pieces ([`piece`]). `FORMAT.md` draws all of it byte by byte.
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

pub mod account;
pub mod anchor;
pub mod bytes;
pub mod chip_guard;
pub mod counter;
pub mod crc;
mod element;
pub mod errors;
pub mod family;
mod free_depth;
pub mod guard;
pub mod handover;
pub mod header;
pub mod ids;
pub mod kind;
pub mod label;
pub mod layout;
pub mod mark;
pub mod pc;
pub mod piece;
pub mod record;
pub mod region;
pub mod sample;
pub mod section;
pub mod session;
pub mod sums;
pub mod timeline;

pub use bytes::{ByteOrder, WordSize};
pub use counter::{GlobalCounter, TallyCounter};
pub use element::Word;
pub use free_depth::FreeDepth;
pub use header::MAGIC;
pub use header::{FormatError, Header};
pub use ids::{CodeId, LabelId, Site, ThreadRow, ThreadRowPlus1, Ticks};
pub use kind::Kind;
pub use layout::{Field, RecordLayout};
pub use record::{Entry, FreedEntry};
pub use section::SectionKind;

/// The version of the format that this crate writes. A reader refuses a higher one.
pub const VERSION: u8 = 1;
