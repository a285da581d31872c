//! Live blocks, one by one.

mod json;
pub(crate) mod text;

pub(crate) use json::BlockLine;
pub use json::{DumpJson, dump_json_header};
pub use text::{DumpText, dump_begin, dump_end};
