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

mod check;
mod decoded;
mod diff;
mod dump;
mod errors;
mod family;
mod flame;
mod form;
mod groups;
mod history;
mod lifetimes;
mod lives;
mod record;
mod report;
mod run;
mod snapshot;
mod stats;
mod timeline;
mod top;
mod tree;
mod verify;
mod whereis;

pub use check::{CheckOutcome, CheckReport, CheckedPart, FamilyCheck};
pub use decoded::{DecodedTrace, decoded_end, decoded_header};
pub use diff::{Compared, DiffBlocks, DiffGroups, DiffReport, DiffSide, FamilyDiff, group_label};
pub use dump::{BlockTable, BlocksReport};
pub use errors::{ErrorBrief, ErrorOrigin, ErrorsReport, OriginBlock, OriginFree, OriginProcess, nothing_found};
pub use family::{
    FamilyGroupsReport, FamilyLookReport, FamilyReport, FamilyRun, family_seen, largest_holder, process_name,
};
pub use flame::{
    FlameFacts, FlameReport, FlameSource, FlameView, family_facts, flame_html, flame_svg, folded, limited,
};
pub use form::ascii::{AsciiWriter, Signs, ascii};
pub use form::json::SCHEMA;
pub use form::notes::{MissingFrees, missing_events, missing_frees, part_of_frees, sentence};
pub use form::outside::{Net, clean, steers};
pub use form::table::{Cell, Column, Table, TableForm, TableStyle};
pub use form::units::{Figures, Paint, count, counted, growth_counted, moment, percent, plain_bytes, span};
pub use groups::GroupsReport;
pub use history::{EventTable, EventsReport};
pub use lives::LivesReport;
pub use record::conversions::{Abilities, Format, FormatError, conversions};
pub use record::ecos;
pub use record::frames::{Context, callers, callers_and_levels, name_of, nameless};
pub use report::{Form, Report, ReportError, Stacks, Stepwise};
pub use run::{ProgramEnd, RunFigures, RunLedger, RunSite, RunSites, RunSummary};
pub use snapshot::SnapshotReport;
pub use stats::StatsReport;
pub use timeline::{FamilyTimelineReport, RunSparks, TimelineReport};
pub use top::{Look, LookColumn, LookReport, LookState, Namer, ending_words, look_columns, row_label};
pub use tree::{TreeReport, history_gap, measure_name, thread_name};
pub use verify::VerifyReport;
pub use whereis::WhereisReport;

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
