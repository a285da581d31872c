//! The lives of an address.

mod json;
mod text;

pub use json::LivesJson;
pub use text::LivesText;
