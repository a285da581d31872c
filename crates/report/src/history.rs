//! What happened, event by event.

mod columns;
mod json;
pub(crate) mod text;

pub use columns::{EventStacks, event_cell, event_column, history_begin, history_end};
pub(crate) use json::HistoryGaps;
pub use json::{HistoryJson, history_json_header};
pub use text::HistoryText;
