//! Why a ledger could not be opened, in sentences for a person.

use std::io;
use std::path::PathBuf;

use heapledger_format::FormatError;
use thiserror::Error;

/// Why a ledger could not be opened or read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SourceError {
    /// Nothing is there.
    #[error("{} does not exist", .0.display())]
    NotFound(PathBuf),
    /// The reader may not read it.
    #[error("{} may not be read by you (permission denied)", .0.display())]
    NoPermission(PathBuf),
    /// A directory, a device, a socket.
    #[error("{} is {what}, not a ledger", path.display())]
    NotAFile {
        /// What was to be opened.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// A file without a byte in it.
    #[error("{} is empty, not a ledger", .0.display())]
    Empty(PathBuf),
    /// A file whose first bytes are wrong.
    #[error("{}: {reason}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: FormatError,
    },
    /// The system failed to read.
    #[error("{} cannot be read: {reason}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: io::Error,
    },
    /// The system failed to write.
    #[error("{} cannot be written: {reason}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: io::Error,
    },
    /// A number that is neither a process nor a file.
    #[error("there is no process {0}, and no file of that name")]
    NoProcess(u32),
    /// A process of somebody else.
    #[error("process {0} may not be looked into: it belongs to another user, or this user lacks the right to trace it")]
    ProcessNotYours(u32),
    /// A process without our library, or one that ended recording.
    #[error(
        "process {pid} ({name}) is not recorded by heapledger: `heapledger attach {pid}` records it from now on, `heapledger run -- {name}` from its start"
    )]
    NotRecorded {
        /// The process.
        pid: u32,
        /// Its name.
        name: String,
    },
    /// The file was removed while its process runs, and there is no way to it.
    #[error(
        "the ledger of process {pid} was removed while it runs ({} is gone); it can be read by root, or while its \
         `heapledger run` lives",
        path.display()
    )]
    LedgerRemoved {
        /// The process.
        pid: u32,
        /// Where it was.
        path: PathBuf,
    },
    /// A ledger that is mapped by a process other than the one that it tells of.
    #[error("process {pid} is not recorded: the ledger that it maps ({}) is that of process {owner}; forked children are not \
         recorded", path.display())]
    OtherProcess {
        /// The process asked for.
        pid: u32,
        /// The ledger.
        path: PathBuf,
        /// Whose it is.
        owner: String,
    },
    /// A forked child of a process whose children are recorded, which has not begun.
    #[error(
        "process {pid} has no ledger yet: it was forked by process {owner}, whose children are recorded, each from its first call \
         of the allocator on, and it has made none"
    )]
    NotYet {
        /// The process asked for.
        pid: u32,
        /// Whose ledger it still maps.
        owner: String,
    },
    /// A core dump, or another ELF file, whose headers make no sense.
    #[error("{} is a damaged core dump: {what}", path.display())]
    CoreDamaged {
        /// The file.
        path: PathBuf,
        /// What is wrong, as a sentence.
        what: &'static str,
    },
    /// A hex file with a line that is none.
    #[error("{} is a damaged Intel HEX file: line {line}: {reason}", path.display())]
    HexDamaged {
        /// The file.
        path: PathBuf,
        /// The line, from 1 on.
        line: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// A core dump of ESP-IDF as text, with a line that is none.
    #[error("{} is a damaged core dump of ESP-IDF: line {line}: {reason}", path.display())]
    EspLines {
        /// The file.
        path: PathBuf,
        /// The line, from 1 on.
        line: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// It was said where memory was in a file that says so itself.
    #[error("{} says itself where its memory was: leave --base away", .0.display())]
    HasAddresses(PathBuf),
    /// It was said that memory was where there are not so many addresses.
    #[error("{} is longer than there are addresses from --base on", .0.display())]
    BeyondAddresses(PathBuf),
    /// A ledger of an image was asked for that is not there.
    #[error("{} has no such ledger: those that are there begin at {}", path.display(), addresses(at))]
    NoSuchLedger {
        /// The image.
        path: PathBuf,
        /// Where ledgers begin.
        at: Vec<u64>,
    },
    /// A core dump without a ledger, and without a way to one.
    #[error(
        "{} holds no ledger and leads to none: {}",
        path.display(),
        if *cut { "the file ends early, and what is missing may have been it" }
        else if *is_esp { "ESP-IDF saves stacks of tasks alone, unless CONFIG_ESP_COREDUMP_CAPTURE_DRAM says more (or HEAPLEDGER_SECTION has the ledger in \".dram2.coredump\")" }
        else { "its process was not recorded by heapledger" }
    )]
    CoreWithout {
        /// The core dump.
        path: PathBuf,
        /// Whether the file ends before its headers say.
        cut: bool,
        /// Whether ESP-IDF has written it.
        is_esp: bool,
    },
    /// A core dump of a forked child, which is not recorded.
    #[error(
        "{} is of a forked child of a recorded process, and children are not recorded; the ledger of its parent is {}",
        path.display(), parent.display()
    )]
    CoreOfChild {
        /// The core dump.
        path: PathBuf,
        /// The live file of its parent.
        parent: PathBuf,
    },
    /// A core dump whose ledger lies nowhere that was looked at.
    #[error(
        "{} leads to {}, which is gone, and its finished ledger is not in {searched}; name that ledger instead",
        path.display(), live.display()
    )]
    CoreLost {
        /// The core dump.
        path: PathBuf,
        /// The live file.
        live: PathBuf,
        /// Directories, with "or" between.
        searched: String,
    },
    /// A program that has ended, and left no memory.
    #[error(
        "{} is of a program that has ended, and its memory is gone: what was found while it ran is shown by `heapledger errors`",
        .0.display()
    )]
    NoMemory(PathBuf),
    /// A process whose memory may not be read.
    #[error(
        "the memory of process {0} may not be read: only root may, and, where /proc/sys/kernel/yama/ptrace_scope is 0, its own user; the program itself can look at its blocks: heapledger_check_integrity, `heapledger run --check-every`"
    )]
    MemoryNotYours(u32),
    /// A program without a guard.
    #[error(
        "the blocks of {0} are not guarded; start it with `heapledger run --guard=light -- {0}`, or with --guard=full"
    )]
    NotGuarded(String),
    /// A firmware without a guard.
    #[error(
        "the blocks of this firmware are not guarded: `GuardedAllocator` in Rust, HEAPLEDGER_GUARD in C (docs/firmware.md)"
    )]
    ChipNotGuarded,
    /// A guard that was asked for and is not there.
    #[error("the guard of {0} has not begun: it begins with the first block, and not where there is no memory for it")]
    GuardNotBegun(String),
    /// A guard that cannot be found.
    #[error("the guard of {0} cannot be found: that part of its memory cannot be read")]
    GuardUnread(String),
    /// A guard of another heapledger.
    #[error("{name} is guarded by another version of heapledger, of whose tables ({version}) this one knows nothing")]
    GuardOther {
        /// The program.
        name: String,
        /// The version.
        version: u64,
    },
    /// A directory without a list of processes.
    #[error("{} is a directory, not a ledger, and no session of `heapledger run --children -o DIR`: it has no session.jsonl", .0.display())]
    NotASession(PathBuf),
    /// A list of processes whose first line is something else.
    #[error("{} is not the list of a session's processes: {what}", path.display())]
    SessionUnread {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// A finished ledger was given where only a live one makes sense.
    #[error("{} is finished already", .0.display())]
    AlreadyFinished(PathBuf),
}

/// Numbers and addresses of ledgers, the first of them.
fn addresses(at: &[u64]) -> String {
    const SHOWN: usize = 8;
    let shown = at.iter().zip(1..).take(SHOWN).map(|(address, number)| format!("{address:#x} (@{number})"));
    let more = if at.len() > SHOWN { ", …" } else { "" };
    shown.collect::<Vec<_>>().join(", ") + more
}

impl SourceError {
    pub(crate) fn opening(path: PathBuf, reason: io::Error) -> SourceError {
        match reason.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => SourceError::NotFound(path),
            io::ErrorKind::PermissionDenied => SourceError::NoPermission(path),
            _ => SourceError::Read { path, reason },
        }
    }
}
