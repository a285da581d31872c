//! What was found for a module, and what was not.

use std::fmt;
use std::path::PathBuf;

use thiserror::Error;

/// How much of a module can be seen.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Seen {
    /// Nothing: its addresses stay numbers.
    Nothing,
    /// Function names from a symbol table of this file.
    Symbols(PathBuf),
    /// Functions, lines and inline frames from the debug information of this file.
    Debug(PathBuf),
}

/// What is known about a module: what names come from, and what stood in the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleStatus {
    /// Where names come from.
    pub seen: Seen,
    /// One sentence each, in the order of the search. Empty when all went well.
    pub notes: Vec<Note>,
}

impl ModuleStatus {
    /// Whether somebody who has the file, or its debug information, could see more of it.
    pub fn lacks_debug_info(&self) -> bool {
        let is_file = !self.notes.iter().any(|note| matches!(note, Note::NotAFile { .. }));
        is_file && !matches!(self.seen, Seen::Debug(_))
    }

    /// Whether a file was refused because it is not the one that was recorded.
    pub fn is_build_id_mismatch(&self) -> bool {
        self.notes.iter().any(|note| matches!(note, Note::Rebuilt { .. }))
    }
}

/// Something a reader of a report should know about a module. Displays as a sentence.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Note {
    /// The module is no file: `[vdso]`, anonymous code, an empty name.
    #[error("{} is not a file, so its functions have no names", shown(name))]
    NotAFile {
        /// The recorded name.
        name: PathBuf,
    },
    /// No file at the recorded path.
    #[error("{} is not there", path.display())]
    NotFound {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// A file that is there but cannot be used.
    #[error("{} cannot be read: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The file at the recorded path is another build.
    #[error("{} was rebuilt since: its build id is {}, the ledger has {}", path.display(), Hex(found), Hex(expected))]
    Rebuilt {
        /// The file refused.
        path: PathBuf,
        /// The build id recorded.
        expected: Vec<u8>,
        /// The build id of the file.
        found: Vec<u8>,
    },
    /// A separate debug file belongs to another build.
    #[error("the debug file {} belongs to another build: its build id is {}, not {}", path.display(), Hex(found), Hex(expected))]
    OtherDebugFile {
        /// The file refused.
        path: PathBuf,
        /// The build id of the module.
        expected: Vec<u8>,
        /// The build id of the debug file.
        found: Vec<u8>,
    },
    /// A debug file with the wrong checksum.
    #[error("the debug file {} is not the one that belongs to {}: its checksum is {found:08x}, not {expected:08x}", path.display(), module.display())]
    WrongChecksum {
        /// The file refused.
        path: PathBuf,
        /// The file that named it.
        module: PathBuf,
        /// The CRC-32 that the module gives.
        expected: u32,
        /// The CRC-32 of the file.
        found: u32,
    },
    /// Nothing proves that the file is the one recorded.
    #[error("{} could not be checked: {side} no build id, so it is taken to be the file that ran", path.display())]
    Unchecked {
        /// The file used.
        path: PathBuf,
        /// `the ledger has` or `the file has`.
        side: &'static str,
    },
    /// Symbols only, though more was asked for.
    #[error("no debug information was found for {}: functions have names, but no lines and no inlined callers", path.display())]
    NoDebugInfo {
        /// The module.
        path: PathBuf,
    },
    /// Not even symbols.
    #[error("{} was stripped of its symbols", path.display())]
    NoSymbols {
        /// The module.
        path: PathBuf,
    },
    /// Debug information that somebody elsewhere may have, and that could not be had.
    #[error("debug information of {} could not be fetched: {reason}", path.display())]
    NotFetched {
        /// The module.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The file that `dwz` moved shared debug information to is missing.
    #[error("{} needs the shared debug file {}, which was not found: some inlined functions have no names", path.display(), wanted.display())]
    NoSharedDebugFile {
        /// The debug file.
        path: PathBuf,
        /// What it refers to.
        wanted: PathBuf,
    },
    /// Split DWARF.
    #[error("{} keeps debug information of {units} units in .dwo files, which are not read: their inlined functions are not shown", path.display())]
    SplitDebugInfo {
        /// The debug file.
        path: PathBuf,
        /// How many units.
        units: usize,
    },
    /// Debug information that does not parse, or exceeds the bounds of this reader.
    #[error("part of the debug information of {} is damaged and was passed over: {what}", path.display())]
    Damaged {
        /// The debug file.
        path: PathBuf,
        /// Which part.
        what: String,
    },
    /// Addresses that were named from symbols only because time ran out.
    #[error("there was no time to read the debug information of {} for {addresses} addresses: they have plain function names", path.display())]
    OutOfTime {
        /// The debug file.
        path: PathBuf,
        /// How many addresses of the last batch.
        addresses: usize,
    },
}

/// A build id as it is written: in hexadecimal digits, or `none`.
#[derive(Clone, Copy, Debug)]
pub struct Hex<'a>(pub &'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

fn shown(name: &std::path::Path) -> String {
    if name.as_os_str().is_empty() { "code without a file name".to_owned() } else { name.display().to_string() }
}
