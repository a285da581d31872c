//! Files for the viewers that people know, made from ledgers: pprof, speedscope, heaptrack, DHAT, massif and others.
//!
//! You supply a [`Profile`]: stacks with what they hold, read from a ledger by [`Profile::read`]. [`FORMATS`] is the one list of
//! what can be written; command, help, documentation and tests follow it, and each of its rows has a file here. This crate opens
//! nothing, looks at no terminal and reads no clock.
//!
//! * Nothing is invented. A figure that the ledger does not have is not in the file, and what a format has no place for is told by
//!   [`ExportFormat::untold`] and [`ExportFormat::remarks`].
//! * Memory is in proportion to the stacks, not to the blocks.
//! * Totals are those of `heapledger stats`, to the byte, for what a format holds.
#![forbid(unsafe_code)]

mod about;
mod callgrind;
mod columns;
mod compression;
mod curve;
mod dhat;
mod firefox;
mod folded;
mod formats;
mod frames;
mod heaptrack;
mod massif;
mod merged;
mod otlp;
mod perfetto;
mod pprof;
mod profile;
mod protobuf;
mod reading;
mod speedscope;
mod text;

pub use about::{KnownFigures, ProfileAbout};
pub use compression::Compression;
pub use formats::{Comparison, ExportFormat, FORMATS, format_named};
pub use profile::{
    CodePlace, LoadedModule, PlaceLine, Profile, ProfileFunction, StackBlocks, StackNode, StackSum, TextId, Texts,
    TimePoint,
};
pub use reading::LedgerSums;
