//! What a person or a program sees: plain values to any [`Write`](std::io::Write), as text or as JSON.
//!
//! You supply values of `heapledger-analysis` and a writer; this crate opens nothing, looks at no terminal
//! and reads no clock. Blocks and events are written one by one, so a report of any length needs no memory.
//!
//! * Text is for people: numbers with units and the exact figure beside, no colour unless asked for.
//! * JSON is for programs: one object a line, described in `docs/json.md`.
//! * Figures of a sampled ledger that are estimates are marked: `~` in text, `sampled` in JSON.
//! * Both end with what they could not see, if there is anything.
#![forbid(unsafe_code)]

mod ascii;
mod brief;
mod check;
mod columns;
mod diff;
mod diff_groups;
mod diff_json;
mod dump;
pub mod ecos;
mod ecos_stats;
mod event_columns;
mod fit;
mod flame;
mod format;
mod frames;
mod groups;
mod history;
mod json;
mod json_lives;
mod json_parts;
mod json_stats;
mod json_whereis;
mod lives;
mod memory;
mod outside;
mod record;
mod seen;
mod snapshot;
mod stats;
mod stats_chosen;
mod stats_csv;
mod table;
mod top;
mod tree;
mod units;
mod whereis;
mod whereis_csv;

pub use ascii::{AsciiWriter, Signs, ascii};
pub use check::{CheckOutcome, CheckReport};
pub use columns::{block_cell, block_column};
pub use diff::{DiffSide, DiffText};
pub use diff_groups::{
    DiffGroups, DiffGroupsCsv, diff_groups, diff_groups_end, diff_groups_header, diff_groups_interval, group_label,
};
pub use diff_json::DiffJson;
pub use dump::{DumpText, dump_begin, dump_end};
pub use ecos_stats::ecos_stats;
pub use event_columns::{EventStacks, event_cell, event_column, history_begin, history_end};
pub use flame::{FlameFacts, FlameJson, FlameSource, FlameView, flame_html, flame_json, flame_svg, folded, limited};
pub use format::{Abilities, CONVERSIONS, Format, FormatError};
pub use frames::{Context, callers, short_name};
pub use groups::{groups_csv, groups_json, groups_text};
pub use history::HistoryText;
pub use json::{DumpJson, HistoryJson, SCHEMA, dump_json_header, history_json_header, json_end};
pub use json_lives::LivesJson;
pub use json_stats::stats_json;
pub use json_whereis::WhereisJson;
pub use lives::LivesText;
pub use outside::{Net, steers};
pub use seen::{missing_events, missing_frees, part_of_frees, sentence};
pub use snapshot::{SnapshotReport, snapshot_json, snapshot_text};
pub use stats::{StatsOptions, stats_text};
pub use stats_csv::stats_csv;
pub use table::{Cell, Column, Table, TableForm, TableStyle};
pub use top::{Look, LookColumn, LookRow, LookState, LooksCsv, LooksJson, look_text};
pub use tree::{TreeView, history_gap, measure_name, thread_name, tree_csv, tree_json, tree_text};
pub use units::{Figures, Paint, clean, count, counted, growth_counted, moment, percent, plain_bytes, span};
pub use whereis::WhereisText;
pub use whereis_csv::WhereisCsv;

pub use heapledger_analysis as analysis;

/// How a report ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ending {
    /// Blocks or events shown.
    pub shown: u64,
    /// Those that there are and that the limit left out.
    pub left_out: u64,
    /// Elements that were being written when they were read.
    pub in_flight: u64,
}
