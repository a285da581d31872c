//! The memory of a program whose ledger was opened: of the process that runs, or as its core dump has it.
//!
//! Read by positioned reads, as ledgers are. The process is not stopped.

use std::fs::File;
use std::io;
use std::path::Path;

use heapledger_format::guard::{GuardTables, MORE_WORDS, NoGuard, WORDS};
use heapledger_format::session::process as key;

use crate::coredump::{Elf, MemoryImage};
use crate::file::LedgerFile;
use crate::{Ledger, SourceError, system};

/// Memory by its addresses.
#[derive(Debug)]
pub struct ProgramMemory {
    file: LedgerFile,
}

impl ProgramMemory {
    /// Memory that was saved, by its addresses.
    pub(crate) fn of_image(file: LedgerFile) -> ProgramMemory {
        ProgramMemory { file }
    }

    /// Reads from an address on, as far as there is memory: how many bytes. What cannot be read is not there.
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> usize {
        // The system gives what lies in front of a gap, and fails at the gap.
        self.file.read_as_far(bytes, address).0
    }

    /// So many words of 64 bits; `None` if not all of them can be read.
    fn words<const WORDS: usize>(&self, address: u64) -> Option<[u64; WORDS]> {
        let mut words = [0; WORDS];
        for (at, word) in (address..).step_by(8).zip(&mut words) {
            let mut bytes = [0; 8];
            if self.read(at, &mut bytes) < bytes.len() {
                return None;
            }
            *word = u64::from_le_bytes(bytes);
        }
        Some(words)
    }
}

impl Ledger {
    /// The memory of the program that this ledger is of: it must run here, or the ledger must have been found by its core dump.
    ///
    /// # Errors
    /// If it is gone, or may not be read.
    pub fn memory(&self) -> Result<ProgramMemory, SourceError> {
        if let Some(found) = self.found() {
            let file = LedgerFile::open(&found.image, &found.image)?;
            return match MemoryImage::open(&file)? {
                Elf::Core(core) => Ok(ProgramMemory { file: file.within(core.parts_from(0)) }),
                _ => Err(SourceError::NoMemory(found.image.clone())),
            };
        }
        let Some(pid) = self.pid_if_running() else { return Err(SourceError::NoMemory(self.path().to_owned())) };
        match LedgerFile::open(&system::memory(pid), Path::new(&format!("/proc/{pid}/mem"))) {
            Ok(file) => Ok(ProgramMemory { file }),
            Err(SourceError::NoPermission(_)) => Err(SourceError::MemoryNotYours(pid)),
            Err(SourceError::Read { reason, .. }) if reason.kind() == io::ErrorKind::PermissionDenied => {
                Err(SourceError::MemoryNotYours(pid))
            }
            Err(SourceError::NotFound(_)) => Err(SourceError::NoProcess(pid)),
            Err(other) => Err(other),
        }
    }

    /// The same, where somebody who may has opened it.
    pub fn memory_in(&self, file: File) -> ProgramMemory {
        let shown = format!("/proc/{}/mem", self.pid_if_running().unwrap_or_default());
        ProgramMemory { file: LedgerFile::of_file(file, Path::new(&shown)) }
    }

    /// Where the tables of the program's guard lie in its memory.
    ///
    /// # Errors
    /// If its blocks are not guarded, or the guard is one of another version.
    pub fn guard(&self, memory: &ProgramMemory) -> Result<GuardTables, SourceError> {
        let name = self.process().program().unwrap_or_else(|| "the program".to_owned());
        let Some(at) = self.process().number(key::GUARD_AT) else { return Err(SourceError::NotGuarded(name)) };
        let Some(words) = memory.words::<WORDS>(at) else { return Err(SourceError::GuardUnread(name)) };
        let more = if GuardTables::wants_more(&words) {
            let Some(more) = memory.words::<MORE_WORDS>(at.wrapping_add(8 * WORDS as u64)) else {
                return Err(SourceError::GuardUnread(name));
            };
            Some(more)
        } else {
            None
        };
        GuardTables::of_words(&words, more.as_ref()).map_err(|none| match none {
            NoGuard::NotBegun => SourceError::GuardNotBegun(name),
            NoGuard::Version(version) => SourceError::GuardOther { name, version },
        })
    }
}
