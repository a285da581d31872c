//! Positioned reads that stop at the end of the file instead of failing there.
//!
//! A ledger may also lie inside another file, in parts: in a core dump or an image of memory. Then places are
//! counted from the start of the ledger, and a part that was not dumped reads like the end of the file.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::SourceError;

/// A file, its name for messages, and how long it was when it was last asked.
#[derive(Debug)]
pub(crate) struct LedgerFile {
    file: Arc<File>,
    path: PathBuf,
    /// Where the ledger lies in the file; `None`: it is the file. In order, none overlaps another.
    parts: Option<Vec<FilePiece>>,
}

/// A part of a ledger that lies in one piece in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FilePiece {
    /// From the start of the ledger.
    pub(crate) at: u64,
    pub(crate) bytes: u64,
    /// From the start of the file.
    pub(crate) place: u64,
}

impl LedgerFile {
    /// Opens `path`; messages speak of `shown`.
    pub(crate) fn open(path: &Path, shown: &Path) -> Result<LedgerFile, SourceError> {
        // A look before opening: opening a named pipe would wait for its writer.
        let kind =
            std::fs::metadata(path).map_err(|reason| SourceError::opening(shown.to_owned(), reason))?.file_type();
        let what = match () {
            () if kind.is_file() => None,
            () if kind.is_dir() => Some("a directory"),
            () if kind.is_fifo() => Some("a named pipe"),
            () if kind.is_socket() => Some("a socket"),
            () => Some("a device"),
        };
        if let Some(what) = what {
            return Err(SourceError::NotAFile { path: shown.to_owned(), what });
        }
        let file = File::open(path).map_err(|reason| SourceError::opening(shown.to_owned(), reason))?;
        Ok(LedgerFile { file: Arc::new(file), path: shown.to_owned(), parts: None })
    }

    /// A file that is open already.
    pub(crate) fn of_file(file: File, shown: &Path) -> LedgerFile {
        LedgerFile { file: Arc::new(file), path: shown.to_owned(), parts: None }
    }

    /// Whether the ledger is only part of the file.
    pub(crate) fn is_in_parts(&self) -> bool {
        self.parts.is_some()
    }

    /// The inode, if the file is the ledger and nothing more.
    pub(crate) fn inode(&self) -> u64 {
        self.parts.as_ref().map_or_else(|| self.metadata().map_or(0, |meta| meta.ino()), |_| 0)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The ledger that lies in the file in `parts`, each within the file.
    pub(crate) fn within(&self, parts: Vec<FilePiece>) -> LedgerFile {
        LedgerFile { file: Arc::clone(&self.file), path: self.path.clone(), parts: Some(parts) }
    }

    /// Where in the file the first byte of the ledger lies.
    pub(crate) fn first_place(&self) -> u64 {
        self.parts.as_ref().and_then(|parts| parts.first()).map_or(0, |part| part.place)
    }

    /// The file itself, whatever part of it is the ledger.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// The part that holds the byte `at`.
    fn part(parts: &[FilePiece], at: u64) -> Option<&FilePiece> {
        let index = parts.partition_point(|part| part.at <= at).checked_sub(1)?;
        parts.get(index).filter(|part| at - part.at < part.bytes)
    }

    /// One past the last byte that can be read from `at` on without a gap.
    pub(crate) fn end_from(&self, mut at: u64) -> Result<u64, SourceError> {
        match &self.parts {
            None => Ok(self.metadata()?.len()),
            Some(parts) => {
                while let Some(part) = Self::part(parts, at) {
                    at = part.at.saturating_add(part.bytes);
                }
                Ok(at)
            }
        }
    }

    /// Bytes of storage that the ledger takes, holes not counted.
    pub(crate) fn stored_bytes(&self) -> Result<u64, SourceError> {
        match &self.parts {
            None => Ok(self.metadata()?.blocks().saturating_mul(512)),
            Some(parts) => Ok(parts.iter().fold(0, |sum, part| part.bytes.saturating_add(sum))),
        }
    }

    pub(crate) fn metadata(&self) -> Result<std::fs::Metadata, SourceError> {
        self.file.metadata().map_err(|reason| self.failed(reason))
    }

    /// Reads at `at` until `bytes` is full or the file ends; returns how many bytes there were.
    pub(crate) fn read_at(&self, bytes: &mut [u8], at: u64) -> Result<usize, SourceError> {
        match self.read_as_far(bytes, at) {
            (done, None) => Ok(done),
            (_, Some(reason)) => Err(self.failed(reason)),
        }
    }

    /// The same; where the system fails, how many bytes there were before, and why.
    pub(crate) fn read_as_far(&self, bytes: &mut [u8], at: u64) -> (usize, Option<io::Error>) {
        let mut done = 0;
        while let Some(rest) = bytes.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let Some(at) = at.checked_add(done as u64) else { break };
            let (place, room) = match &self.parts {
                None => (at, u64::MAX),
                Some(parts) => match Self::part(parts, at) {
                    Some(part) => (part.place.saturating_add(at - part.at), part.bytes - (at - part.at)),
                    None => break,
                },
            };
            let room = usize::try_from(room).unwrap_or(usize::MAX).min(rest.len());
            let Some(rest) = rest.get_mut(..room).filter(|_| place <= i64::MAX as u64) else { break };
            match self.file.read_at(rest, place) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(reason) if reason.kind() == io::ErrorKind::Interrupted => {}
                Err(reason) => return (done, Some(reason)),
            }
        }
        (done, None)
    }

    pub(crate) fn failed(&self, reason: io::Error) -> SourceError {
        SourceError::Read { path: self.path.clone(), reason }
    }
}
