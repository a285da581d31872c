//! What became of the blocks between two ledgers.

mod groups;
mod json;
pub(crate) mod text;

pub use groups::{DiffGroups, DiffGroupsCsv, diff_groups_end, diff_groups_header, diff_groups_interval, group_label};
pub use json::DiffJson;
pub use text::{DiffSide, DiffText};
