//! How anything is written: figures, text that fits, tables, JSON, and sentences on what is missing.

pub(crate) mod ascii;
mod attached;
pub(crate) mod family_notes;
pub(crate) mod fit;
pub(crate) mod json;
pub(crate) mod notes;
pub(crate) mod outside;
pub(crate) mod table;
pub(crate) mod units;
