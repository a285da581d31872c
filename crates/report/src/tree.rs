//! A call tree.

mod csv;
pub(crate) mod json;
mod line;
pub(crate) mod text;
mod walk;

pub use csv::tree_csv;
pub use json::{thread_name, tree_json};
pub use text::{TreeView, history_gap, measure_name, tree_text};
