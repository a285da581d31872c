//! `session.jsonl`, appended to.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::Serialize;

use super::line::{FamilyHead, FamilyLine};
use super::{LINE_BYTES_MAX, SESSION_FILE};

/// Appends lines, each by one write at the end of the file: what several processes append stays whole, and whoever is
/// killed leaves whole lines.
#[derive(Debug)]
pub struct FamilyWriter {
    file: File,
    /// Whether the last line has no end: a full disk took only part of it.
    is_cut: bool,
}

impl FamilyWriter {
    /// Makes the file in `directory`, which is there, with its first line. There is none if that cannot be written.
    ///
    /// # Errors
    /// If there is one already, or it cannot be written.
    pub fn create(directory: &Path, head: &FamilyHead) -> io::Result<FamilyWriter> {
        let mut options = OpenOptions::new();
        let path = directory.join(SESSION_FILE);
        let file = options.append(true).create_new(true).mode(0o600).open(&path)?;
        let mut writer = FamilyWriter { file, is_cut: false };
        let mut head = head.clone();
        let begun = writer.put(&mut |shorter| {
            if shorter {
                head.command.truncate(1);
                head.command.iter_mut().for_each(|name| *name = beginning(name));
            }
            line_of(&head)
        });
        if begun.is_err() {
            let _ = fs::remove_file(&path);
        }
        begun.map(|()| writer)
    }

    /// Goes on with the file of `directory`: whoever recovers a session.
    ///
    /// # Errors
    /// If there is none, or it cannot be written.
    pub fn reopen(directory: &Path) -> io::Result<FamilyWriter> {
        let mut file = OpenOptions::new().read(true).append(true).open(directory.join(SESSION_FILE))?;
        let mut last = [b'\n'];
        if file.seek(SeekFrom::End(-1)).is_ok() {
            file.read_exact(&mut last)?;
        }
        Ok(FamilyWriter { file, is_cut: last != *b"\n" })
    }

    /// Appends `line`. Arguments of a process are left out where the line would become too long for readers.
    ///
    /// # Errors
    /// If it cannot be written, or has names longer than any line.
    pub fn append(&mut self, line: &FamilyLine) -> io::Result<()> {
        let mut line = line.clone();
        self.put(&mut |shorter| {
            if shorter && let FamilyLine::Process(process) = &mut line {
                process.arguments.clear();
            }
            line_of(&line)
        })
    }

    /// Writes what `text` makes; asks for a shorter one if it is too long.
    fn put(&mut self, text: &mut dyn FnMut(bool) -> io::Result<Vec<u8>>) -> io::Result<()> {
        let mut bytes = text(false)?;
        if bytes.len() > LINE_BYTES_MAX {
            bytes = text(true)?;
        }
        if bytes.len() > LINE_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a line of the session is too long"));
        }
        if self.is_cut {
            bytes.insert(0, b'\n');
        }
        loop {
            match self.file.write(&bytes) {
                Ok(written) => {
                    self.is_cut = written < bytes.len();
                    return if self.is_cut { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) };
                }
                Err(reason) if reason.kind() == io::ErrorKind::Interrupted => {}
                Err(reason) => return Err(reason),
            }
        }
    }
}

fn line_of(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(value)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// The beginning of a text that may be of any length.
fn beginning(text: &str) -> String {
    const LETTERS: usize = 1024;
    text.chars().take(LETTERS).collect()
}
