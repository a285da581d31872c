//! A program of a process of a session, as it is seen from outside.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use heapledger_source::{FamilyProcess, Ledger, MemberEnd};

use super::told_end::ToldEnd;
use crate::error::LaunchError;
use crate::finish;
use crate::live::Live;

/// A program of a process that is recorded.
pub(super) struct Child {
    pub(super) live: Live,
    /// Held open, as long as there are not too many: somebody may remove it.
    pub(super) file: Option<File>,
    pub(super) appeared: Instant,
    /// What its ledger says, once it does.
    pub(super) process: Option<FamilyProcess>,
    /// Tells of its end.
    pub(super) end: Option<ToldEnd>,
    /// When it was seen to be over, in nanoseconds since 1970, and how that came, if it is known.
    pub(super) over: Option<(u64, Option<MemberEnd>)>,
}

impl Child {
    pub(super) fn new(live: Live) -> Child {
        Child { live, file: None, appeared: Instant::now(), process: None, end: None, over: None }
    }

    pub(super) fn file(&self) -> io::Result<File> {
        self.file.as_ref().map_or_else(|| open(&self.live.path), File::try_clone)
    }

    /// Whether it has recorded nothing, and will not: its process is gone, or nobody tells of that.
    pub(super) fn never_begins(&self) -> bool {
        self.process.is_none() && self.end.as_ref().is_none_or(ToldEnd::is_over)
    }

    /// Its ledger; `None` as long as nothing is in it.
    pub(super) fn ledger(&self) -> Result<Option<Ledger>, LaunchError> {
        finish::open_file(self.file().map_err(LaunchError::of(&self.live.path))?, &self.live)
    }
}

/// By its process's number, and which program of that it is: those of one process are beside each other.
pub(super) type Key = (u32, u32, PathBuf);

pub(super) fn key_of(live: &Live) -> Key {
    (live.pid.unwrap_or_default(), live.image, live.path.clone())
}

pub(super) fn open(path: &Path) -> io::Result<File> {
    let mut options = fs::OpenOptions::new();
    options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)
}
