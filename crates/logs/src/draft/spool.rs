//! Elements one after another, in a file without a name.

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
    pub(super) fn new(first: u64) -> io::Result<Spool> {
        let file = if first == 0 { None } else { Some(nameless()?) };
        Ok(Spool { file, kept: Vec::new(), first, at: first })
    }

    /// Another one with the same elements.
    pub(super) fn copy(&self) -> io::Result<Spool> {
        let mut copy = Spool::new(self.first)?;
        let mut at = self.first;
        if let Some(file) = &self.file {
            let mut buffer = vec![0u8; KEPT_BYTES];
            while at < self.at {
                let wanted = buffer.len().min((self.at - at) as usize);
                let Some(part) = buffer.get_mut(..wanted) else { break };
                file.read_exact_at(part, at)?;
                copy.add(part)?;
                at += wanted as u64;
            }
        }
        copy.add(&self.kept)?;
        Ok(copy)
    }

    pub(super) fn add(&mut self, element: &[u8]) -> io::Result<()> {
        self.kept.extend_from_slice(element);
        if self.kept.len() >= KEPT_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(nameless()?),
        };
        file.write_all_at(&self.kept, self.at)?;
        self.at += self.kept.len() as u64;
        self.kept.clear();
        Ok(())
    }

    /// The file, and where it ends.
    pub(super) fn end(mut self) -> io::Result<(File, u64)> {
        self.flush()?;
        let file = self.file.ok_or_else(|| io::Error::other("there is no file"))?;
        Ok((file, self.at))
    }

    /// Copies all elements to `at` of another file; how many bytes that were.
    pub(super) fn copy_to(mut self, to: &File, at: u64) -> io::Result<u64> {
        let Some(file) = self.file.take() else {
            to.write_all_at(&self.kept, at)?;
            return Ok(self.kept.len() as u64);
        };
        file.write_all_at(&self.kept, self.at)?;
        let end = self.at + self.kept.len() as u64;
        let mut buffer = vec![0u8; KEPT_BYTES];
        let mut done = 0;
        while self.first + done < end {
            let wanted = buffer.len().min((end - self.first - done) as usize);
            let Some(part) = buffer.get_mut(..wanted) else { break };
            file.read_exact_at(part, self.first + done)?;
            to.write_all_at(part, at + done)?;
            done += wanted as u64;
        }
        Ok(done)
    }
}

/// A file that is gone when nobody has it open any more.
fn nameless() -> io::Result<File> {
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
