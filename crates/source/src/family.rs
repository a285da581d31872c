//! A session of several processes: the directory that `run --children` makes, with a ledger for each process and one
//! file, `session.jsonl`, that says which processes there were, which one began which, and how they ended.
//!
//! The file is appended to, a line at a time, and each line is one write: it can be read at every moment, and after whoever
//! wrote it was killed. Nothing in it is believed further than it must be: a line that makes no sense is passed over and counted.

mod line;
mod member;
mod reader;
mod tree;
mod writer;

pub use line::{FamilyEnded, FamilyHead, FamilyLine, FamilyMemory, FamilyProcess, MemberEnd, ProcessKey};
pub use member::{Member, MemberLedger};
pub use reader::{Family, FamilyLoss};
pub use tree::{ProcessTree, TreeProcess};
pub use writer::FamilyWriter;

/// The file of a session's directory that lists its processes.
pub const SESSION_FILE: &str = "session.jsonl";
/// Most bytes of a line, with its line end.
const LINE_BYTES_MAX: usize = 64 << 10;
