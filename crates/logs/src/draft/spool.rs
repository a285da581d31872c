//! Elements one after another, in a file without a name as soon as they are many.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes that are kept back before they are written.
const KEPT_BYTES: usize = 256 << 10;
/// So many names are tried.
const NAMES: u32 = 1000;

#[derive(Debug)]
pub(super) struct Spool {
    /// Made when it is first needed.
    file: Option<File>,
    kept: Vec<u8>,
    first: u64,
    at: u64,
}

impl Spool {
    /// One whose first element lies at `first`.
    pub(super) fn new(first: u64) -> Spool {
        Spool { file: None, kept: Vec::new(), first, at: first }
    }

    /// Another one with the same elements.
    pub(super) fn copy(&self) -> io::Result<Spool> {
        let mut copy = Spool::new(self.first);
        if let Some(file) = &self.file {
            let to = copy.file.insert(nameless()?);
            copy_part(file, self.first, to, self.first, self.at - self.first)?;
            copy.at = self.at;
        }
        copy.add(&self.kept)?;
        Ok(copy)
    }

    pub(super) fn add(&mut self, element: &[u8]) -> io::Result<()> {
        self.kept.extend_from_slice(element);
        if self.kept.len() >= KEPT_BYTES { self.flush().map(drop) } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<&File> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(nameless()?),
        };
        file.write_all_at(&self.kept, self.at)?;
        self.at += self.kept.len() as u64;
        self.kept.clear();
        Ok(file)
    }

    /// The file, and where it ends. Without one so far it is `spare`.
    pub(super) fn end(mut self, spare: Option<File>) -> io::Result<(File, u64)> {
        self.file = self.file.take().or(spare);
        self.flush()?;
        let file = self.file.ok_or_else(|| io::Error::other("there is no file"))?;
        Ok((file, self.at))
    }

    /// Copies all elements to `at` of another file; how many bytes that were.
    pub(super) fn copy_to(self, to: &File, at: u64) -> io::Result<u64> {
        let written = self.at - self.first;
        if let Some(file) = &self.file {
            copy_part(file, self.first, to, at, written)?;
        }
        to.write_all_at(&self.kept, at + written)?;
        Ok(written + self.kept.len() as u64)
    }
}

/// Copies so many bytes of a file to a place of another one.
pub(crate) fn copy_part(from: &File, from_at: u64, to: &File, to_at: u64, bytes: u64) -> io::Result<()> {
    let mut buffer = vec![0u8; KEPT_BYTES.min(bytes as usize)];
    let mut done = 0;
    while done < bytes {
        let wanted = buffer.len().min((bytes - done) as usize);
        let Some(part) = buffer.get_mut(..wanted) else { break };
        from.read_exact_at(part, from_at + done)?;
        to.write_all_at(part, to_at + done)?;
        done += wanted as u64;
    }
    Ok(())
}

/// A file that is gone when nobody has it open any more.
pub(crate) fn nameless() -> io::Result<File> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    for _ in 0..NAMES {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!(".heapledger-{}-{number}.tmp", std::process::id()));
        match OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path) {
            Ok(file) => {
                std::fs::remove_file(&path)?;
                return Ok(file);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("no name is free for a temporary file"))
}
