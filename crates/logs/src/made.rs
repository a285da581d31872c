//! Ledgers that a log has given. There may be thousands, and a process cannot have so many files open: all but a few of them lie in
//! one file.

use std::fs::File;
use std::io;
use std::sync::Arc;

use crate::draft::{LedgerDraft, copy_part, nameless};
use crate::log::LogKind;

/// So many ledgers have a file of their own.
const FILES_MAX: usize = 64;
/// So many are kept; of more, the last one.
const LEDGERS_MAX: usize = 10_000;

/// A ledger that was made of a part of a log.
#[derive(Debug)]
pub struct LogLedger {
    place: LedgerPlace,
    /// What it is of.
    pub kind: LogKind,
    /// What it is of, in words: half a sentence.
    pub name: String,
}

/// Where it lies.
#[derive(Debug)]
enum LedgerPlace {
    Own(File),
    Shared { file: Arc<File>, at: u64, bytes: u64 },
}

impl LogLedger {
    /// The ledger, in a file without a name.
    ///
    /// # Errors
    /// If there is no room for a file.
    pub fn into_file(self) -> io::Result<File> {
        match self.place {
            LedgerPlace::Own(file) => Ok(file),
            LedgerPlace::Shared { file, at, bytes } => {
                let own = nameless()?;
                copy_part(&file, at, &own, 0, bytes)?;
                Ok(own)
            }
        }
    }
}

/// Ledgers that are made one after another.
#[derive(Debug, Default)]
pub(crate) struct MadeLedgers {
    /// With the lines that they begin in.
    made: Vec<(u64, LogLedger)>,
    shared: Option<(Arc<File>, u64)>,
    /// A file without a name in which the next one is made that goes into the shared one.
    spare: Option<File>,
    left: u64,
}

impl MadeLedgers {
    /// One more, which begins in that line.
    pub(crate) fn add(&mut self, line: u64, mut draft: LedgerDraft, kind: LogKind, name: String) -> io::Result<()> {
        if self.made.len() >= LEDGERS_MAX {
            self.left += u64::from(self.made.pop().is_some());
            draft.missing(&format!(
                "The log holds more ledgers than are kept: {} before this one are left out.",
                self.left
            ));
        }
        // The last one of many comes and goes.
        let place = if self.made.len() < FILES_MAX || self.left != 0 {
            LedgerPlace::Own(draft.finish()?)
        } else {
            let own = draft.finish_in(self.spare.take())?;
            let place = self.share(&own)?;
            own.set_len(0)?;
            self.spare = Some(own);
            place
        };
        self.made.push((line, LogLedger { place, kind, name }));
        Ok(())
    }

    fn share(&mut self, own: &File) -> io::Result<LedgerPlace> {
        let (file, end) = match &mut self.shared {
            Some(shared) => shared,
            none => none.insert((Arc::new(nameless()?), 0)),
        };
        let (at, bytes) = (*end, own.metadata()?.len());
        copy_part(own, 0, file, at, bytes)?;
        *end += bytes;
        Ok(LedgerPlace::Shared { file: Arc::clone(file), at, bytes })
    }

    /// All of them, in the order of lines.
    pub(crate) fn end(mut self) -> Vec<LogLedger> {
        self.made.sort_by_key(|(line, _)| *line);
        self.made.into_iter().map(|(_, ledger)| ledger).collect()
    }
}
