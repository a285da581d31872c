//! Positioned reads that stop at the end of the file instead of failing there.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::{Path, PathBuf};

use crate::SourceError;

/// A file, its name for messages, and how long it was when it was last asked.
#[derive(Debug)]
pub(crate) struct LedgerFile {
    file: File,
    path: PathBuf,
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
        Ok(LedgerFile { file, path: shown.to_owned() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn metadata(&self) -> Result<std::fs::Metadata, SourceError> {
        self.file.metadata().map_err(|reason| self.failed(reason))
    }

    /// Reads at `at` until `bytes` is full or the file ends; returns how many bytes there were.
    pub(crate) fn read_at(&self, bytes: &mut [u8], at: u64) -> Result<usize, SourceError> {
        let mut done = 0;
        while let Some(rest) = bytes.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let Some(place) = at.checked_add(done as u64).filter(|place| *place <= i64::MAX as u64) else { break };
            match self.file.read_at(rest, place) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(reason) if reason.kind() == io::ErrorKind::Interrupted => {}
                Err(reason) => return Err(self.failed(reason)),
            }
        }
        Ok(done)
    }

    fn failed(&self, reason: io::Error) -> SourceError {
        SourceError::Read { path: self.path.clone(), reason }
    }
}
