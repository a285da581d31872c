//! The language in which blocks and events are chosen, the same for every command. `docs/queries.md` tells it to
//! people.
//!
//! * [`Filter`] is what somebody typed: `size >= 4K and fn ~ "parse"`, or `size_min=4096` in the classic manner.
//! * [`Filter::check`] says whether a ledger records what it asks for.
//! * [`Evaluator`] decides for blocks and events. What concerns names is decided once for each call site.
//! * [`SortKeys`] is an order: `size:desc,number`, or `Ns` in the classic manner.
//!
//! No text makes this hang or exhaust memory: its length, the depth of its parentheses, the number of its conditions
//! and the size of its patterns are bounded.

mod check;
mod classic;
mod columns;
mod error;
mod eval;
mod event_columns;
mod expr;
mod group;
mod keys;
mod lex;
mod moments;
mod parse;
mod plan;
mod rows;
mod sort;
mod stacks;
mod timeline;
mod tree_order;
mod unknown;
mod value;

pub use check::{Scope, Unsupported};
pub use error::SyntaxError;
pub use eval::{Evaluator, Subject};
pub use event_columns::EventColumn;
pub use expr::{Expr, Filter, Test};
pub use group::{GroupField, GroupOrder};
pub use sort::{SortKey, SortKeys};
pub use tree_order::{TreeField, TreeOrder};
pub use unknown::Unknown;
pub use value::{Value, address};

pub(crate) use error::nearest;
pub(crate) use plan::checked_pattern as pattern;
pub(crate) use stacks::without_parameters;
pub(crate) use timeline::Timeline;
