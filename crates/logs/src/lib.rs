//! Ledgers of what devices print: logs of libwebsockets and ESP-IDF, and streams of events.
//!
//! *You supply* a text or a stream; *this crate gives* a ledger for each heap that is told of in it, in a file without a
//! name, which every reader of ledgers opens. It opens nothing, names nothing and says nothing to anybody: what was missing
//! or odd is told in the ledger itself.
//!
//! * What is not known is absent in the ledger, never 0.
//! * No input makes it panic. Memory grows with what is different (stacks, tasks, live blocks of a stream), not with how much
//!   there is.
#![forbid(unsafe_code)]

pub mod draft;
mod esp;
pub mod events;
pub mod lines;
pub mod live;
pub mod log;
pub mod lws;
mod made;
pub mod sysview;
pub mod trace_ledger;

/// A number and what it counts: `1 frame`, `2 frames`.
fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}
