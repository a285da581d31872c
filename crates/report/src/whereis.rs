//! Where addresses belong.

mod csv;
mod json;
mod text;

pub use csv::WhereisCsv;
pub use json::WhereisJson;
pub use text::WhereisText;
