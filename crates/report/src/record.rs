//! Blocks, events, threads and stacks, as parts of reports.

pub(crate) mod brief;
pub(crate) mod columns;
pub(crate) mod conversions;
pub mod ecos;
pub(crate) mod frames;
pub(crate) mod json;
pub(crate) mod written;
