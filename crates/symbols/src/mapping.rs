//! Files as byte slices. The only module with `unsafe` code.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::path::Path;

/// A file mapped for reading. An empty file is an empty slice.
#[derive(Debug, Default)]
pub(crate) struct Mapping(Option<memmap2::Mmap>);

impl Mapping {
    /// Maps a regular file; anything else (a directory, a FIFO, a device) is refused, and
    /// refused *before* opening, because opening a FIFO blocks.
    pub(crate) fn open(path: &Path) -> io::Result<Mapping> {
        let refuse = || io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file");
        if !std::fs::metadata(path)?.is_file() {
            return Err(refuse());
        }
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(refuse());
        }
        if metadata.len() == 0 {
            return Ok(Mapping(None));
        }
        // SAFETY: `Mmap::map` asks that the file is not changed or shortened while it is
        // mapped. The mapping is private and read-only, so we never change it ourselves.
        // Another process may still write in place; the readers behind this treat every
        // byte as untrusted, keep no pointer or length derived from an earlier read of the
        // same byte, and so see at worst nonsense. Shortening the file under us would end
        // the reading program with SIGBUS; package managers and linkers replace binaries
        // by renaming, which leaves the mapped file whole, and reading files of hundreds
        // of megabytes into memory instead is the worse bargain.
        let map = unsafe { memmap2::Mmap::map(&file)? };
        Ok(Mapping(Some(map)))
    }
}

impl Deref for Mapping {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.as_deref().unwrap_or(&[])
    }
}
