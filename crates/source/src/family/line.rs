//! The lines of `session.jsonl`, for who writes and who reads them. FORMAT.md has the fields.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The version of the file that this build writes, and the highest that it reads.
pub(super) const VERSION: u32 = 1;

/// The first line: which session, of what.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FamilyHead {
    /// The version of the file.
    #[serde(rename = "heapledger_session")]
    pub version: u32,
    /// The session, 16 hexadecimal digits: also in the section `process` of its ledgers.
    pub session: String,
    /// The process id of `run`.
    #[serde(default)]
    pub run_pid: u32,
    /// When it began, in nanoseconds since 1970.
    #[serde(default)]
    pub started_unix_ns: u64,
    /// What was started, with its arguments.
    #[serde(default)]
    pub command: Vec<String>,
    /// The version of the `run`.
    #[serde(default, rename = "version")]
    pub run_version: String,
}

impl FamilyHead {
    /// A head of this version of the file.
    pub fn new(
        session: &str,
        run_pid: u32,
        started_unix_ns: u64,
        command: Vec<String>,
        run_version: &str,
    ) -> FamilyHead {
        let run_version = run_version.to_owned();
        FamilyHead { version: VERSION, session: session.to_owned(), run_pid, started_unix_ns, command, run_version }
    }
}

/// What names an image of a process: process ids come again, and a process may become another program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessKey {
    /// The process id.
    pub pid: u32,
    /// When the process started, in ticks: field 22 of `/proc/PID/stat`.
    pub start_ticks: u64,
    /// How often it had called exec before.
    pub image: u32,
}

/// How a program of a process ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
pub enum MemberEnd {
    /// With this status.
    Exit(i32),
    /// By this signal.
    Signal(i32),
    /// It is gone; nobody who would tell its status has waited for it here.
    Exited,
    /// It became another program.
    Exec,
    /// Nobody knows whether it ended.
    #[default]
    Unknown,
}

impl fmt::Display for MemberEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MemberEnd::Exit(status) => write!(f, "exit:{status}"),
            MemberEnd::Signal(signal) => write!(f, "signal:{signal}"),
            MemberEnd::Exited => f.write_str("exited"),
            MemberEnd::Exec => f.write_str("exec"),
            MemberEnd::Unknown => f.write_str("unknown"),
        }
    }
}

impl From<MemberEnd> for String {
    fn from(end: MemberEnd) -> String {
        end.to_string()
    }
}

impl From<String> for MemberEnd {
    /// What later versions may write is an end that is not known.
    fn from(text: String) -> MemberEnd {
        match (text.as_str(), text.split_once(':')) {
            ("exited", _) => MemberEnd::Exited,
            ("exec", _) => MemberEnd::Exec,
            (_, Some(("exit", status))) => status.parse().map_or(MemberEnd::Unknown, MemberEnd::Exit),
            (_, Some(("signal", signal))) => signal.parse().map_or(MemberEnd::Unknown, MemberEnd::Signal),
            _ => MemberEnd::Unknown,
        }
    }
}

/// One program of a process. A later line with the same [`FamilyProcess::key`] is in place of an earlier one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FamilyProcess {
    /// The process id, as `run` sees it.
    pub pid: u32,
    /// When the process started, in ticks.
    pub start_ticks: u64,
    /// How often it had called exec before.
    #[serde(default)]
    pub image: u32,
    /// Its parent's process id when it began.
    #[serde(default)]
    pub ppid: u32,
    /// The process id of who forked it, which may have ended by then, if that is known.
    #[serde(default, skip_serializing_if = "is_none")]
    pub parent_pid: u32,
    /// What the program is called.
    #[serde(default)]
    pub program: String,
    /// Whether it is a copy of its parent that called no exec.
    #[serde(default)]
    pub forked: bool,
    /// The name of its finished ledger in this directory.
    #[serde(default)]
    pub ledger: Option<String>,
    /// The path of its live ledger, as long as that is not finished.
    #[serde(default)]
    pub live: Option<String>,
    /// When it began, in nanoseconds since 1970.
    #[serde(default)]
    pub began_unix_ns: u64,
    /// When it ended.
    #[serde(default)]
    pub ended_unix_ns: Option<u64>,
    /// How it ended; `None`: it had not when the line was written.
    #[serde(default)]
    pub end: Option<MemberEnd>,
    /// Why it was not recorded; `None`: it was, or is.
    #[serde(default)]
    pub unrecorded: Option<String>,
    /// Its arguments, if they were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
}

fn is_none(pid: &u32) -> bool {
    *pid == 0
}

impl FamilyProcess {
    /// What names it.
    pub fn key(&self) -> ProcessKey {
        ProcessKey { pid: self.pid, start_ticks: self.start_ticks, image: self.image }
    }
}

/// The memory of all processes at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FamilyMemory {
    /// When, in nanoseconds since 1970.
    pub at_unix_ns: u64,
    /// Bytes of live blocks, of all recorded processes.
    #[serde(default)]
    pub live_bytes: u64,
    /// Resident bytes: pages that processes share count for each of them.
    #[serde(default)]
    pub rss_bytes: u64,
    /// The same by proportional shares; `None` where the system did not tell.
    #[serde(default)]
    pub pss_bytes: Option<u64>,
    /// Processes that were there.
    #[serde(default)]
    pub processes: u32,
    /// Those with the most live bytes, most first: process id, start in ticks, live bytes.
    #[serde(default)]
    pub most: Vec<(u32, u64, u64)>,
}

/// The last line: how the session ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FamilyEnded {
    /// When, in nanoseconds since 1970.
    #[serde(default)]
    pub unix_ns: u64,
    /// How the program that `run` started ended.
    #[serde(default)]
    pub exit: MemberEnd,
    /// Processes that were seen from outside and never began to record: an environment that was emptied on the way.
    #[serde(default)]
    pub not_seen: u64,
    /// Processes that wanted to record and could not.
    #[serde(default)]
    pub not_recorded: u64,
    /// Sentences: what was limited, and by what.
    #[serde(default)]
    pub limits: Vec<String>,
}

/// A line behind the first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FamilyLine {
    /// A process began, or something became of it.
    Process(FamilyProcess),
    /// Memory at a moment.
    Memory(FamilyMemory),
    /// The end of the session.
    Ended(FamilyEnded),
}
