//! Totals: the nine fields of `ecosmdd stats`, and what a process has besides.

mod chosen;
mod csv;
mod ecos;
mod json;
mod json_parts;
mod memory;
pub(crate) mod text;

pub use csv::stats_csv;
pub use ecos::ecos_stats;
pub use json::stats_json;
pub use text::{StatsOptions, stats_text};
