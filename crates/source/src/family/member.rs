//! One program of a session's process, and where its ledger is.

use std::path::{Path, PathBuf};

use super::line::{FamilyProcess, ProcessKey};
use crate::{Ledger, SourceError};

/// Where the ledger of a process is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberLedger {
    /// Finished, in the session's directory.
    Finished(PathBuf),
    /// Being written, or left by a `run` that was killed.
    Live(PathBuf),
    /// There is none: the process was not recorded, and why.
    Unrecorded(String),
    /// There should be one, of this name, and it is gone.
    Missing(String),
    /// Nothing is said of one: a forked child that did nothing, or a process that has just begun.
    NotYet,
}

/// One program of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// What is known of it; of one without a line, what its ledger says.
    pub process: FamilyProcess,
    /// Whether the session's file has a line for it: else only its ledger lies there.
    pub is_listed: bool,
    /// Where its ledger is.
    pub ledger: MemberLedger,
}

impl Member {
    /// The file of its ledger, if there is one.
    pub fn path(&self) -> Option<&Path> {
        match &self.ledger {
            MemberLedger::Finished(path) | MemberLedger::Live(path) => Some(path),
            _ => None,
        }
    }

    /// Opens its ledger; `None` if there is none.
    ///
    /// # Errors
    /// Those of [`Ledger::open`], and if the file is the ledger of another process.
    pub fn open(&self) -> Result<Option<Ledger>, SourceError> {
        let Some(path) = self.path() else { return Ok(None) };
        let ledger = Ledger::open(path)?;
        let said = key_of(&ledger);
        if said.is_some_and(|said| said != self.process.key()) && matches!(self.ledger, MemberLedger::Live(_)) {
            let owner = ledger.process().pid().map_or_else(|| "unknown".to_owned(), |pid| pid.to_string());
            return Err(SourceError::OtherProcess { pid: self.process.pid, path: path.to_owned(), owner });
        }
        Ok(Some(ledger))
    }

    /// Whether it had not ended when the file was last written.
    pub fn is_unended(&self) -> bool {
        self.process.end.is_none() && self.process.ended_unix_ns.is_none()
    }
}

/// What names the process, as its ledger says; `None` if it does not say it all.
pub(super) fn key_of(ledger: &Ledger) -> Option<ProcessKey> {
    let process = ledger.process();
    let image = process.number(heapledger_format::session::process::IMAGE).unwrap_or(0);
    Some(ProcessKey {
        pid: process.pid()?,
        start_ticks: process.start_ticks()?,
        image: u32::try_from(image).unwrap_or(u32::MAX),
    })
}
