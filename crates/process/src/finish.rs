//! The ledger written out by the process itself, when it ends and nobody waits for it: a copy in place (FORMAT.md), by plain writes
//! and without an allocation.
//!
//! Other threads may still be in the middle of a call: each record is taken as a reader takes it, and what refers to something is
//! written before that. The header comes last, so that what is cut short is no ledger.
#![forbid(unsafe_code)]

use crate::ledger;
use crate::section::Section;
use crate::shared::{Phase, Shared};
use core::ffi::CStr;
use core::sync::atomic::{Ordering, fence};
use heapledger_format::header::{HEADER_BYTES_MAX, flag};
use heapledger_format::record::{HISTORY_WORDS, RECORD_WORDS};
use heapledger_format::section::{COPIED_FIRST, COPIED_LAST, SectionRow};
use heapledger_format::session::process as key;
use heapledger_format::{Header, SectionKind};
use heapledger_linux::memory::PATH_BYTES_MAX;
use heapledger_linux::syscall::{self, Errno, open_flag};
use heapledger_linux::text::Text;

/// What is written at once: so much of the history is given back at once, too.
const CHUNK_WORDS: usize = 512;

/// A file that is being written.
struct Out {
    file: usize,
    at: u64,
    bytes_max: u64,
}

impl Out {
    fn write(&mut self, bytes: &[u8]) -> Result<(), Errno> {
        // Beyond the limit of file sizes a write would be a signal.
        if self.at.saturating_add(bytes.len() as u64) > self.bytes_max {
            return Err(Errno::NOSPC);
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            match syscall::write(self.file, rest)? {
                0 => return Err(Errno::NOSPC),
                written => rest = rest.get(written..).unwrap_or(&[]),
            }
        }
        self.at = self.at.wrapping_add(bytes.len() as u64);
        Ok(())
    }

    /// Zeros up to the next word.
    fn align(&mut self) -> Result<(), Errno> {
        let more = self.at.wrapping_neg() as usize & 7;
        self.write([0; 8].get(..more).unwrap_or(&[]))
    }
}

/// Writes the ledger of a process that has stopped recording to `path`, which is replaced if it exists.
///
/// # Errors
/// If there is no ledger, it is still written, or the file cannot be written; nothing is left behind then.
pub fn finish(shared: &Shared, path: &CStr) -> Result<(), Errno> {
    if shared.phase.load(Ordering::Acquire) != Phase::Off as u8 || shared.ledger().mapping().is_none() {
        return Err(Errno::INVAL);
    }
    // Whoever finds the name finds all of it.
    let mut temporary = Text::<PATH_BYTES_MAX>::new();
    temporary.push(path.to_bytes()).push(b".").push_number(u64::from(syscall::getpid())).push(b".part");
    if temporary.is_cut() {
        return Err(Errno::INVAL);
    }
    let flags =
        open_flag::WRITE | open_flag::CREATE | open_flag::EXCLUSIVE | open_flag::NO_FOLLOW | open_flag::CLOSE_ON_EXEC;
    let file = syscall::open(temporary.c_str(), flags, 0o600)?;
    let bytes_max = syscall::limit(syscall::LIMIT_FILE_BYTES).unwrap_or(u64::MAX);
    let written = write_all(shared, &mut Out { file, at: 0, bytes_max });
    syscall::close(file);
    let placed = written.and_then(|()| syscall::rename(temporary.c_str(), path));
    if placed.is_err() {
        syscall::unlink(temporary.c_str());
    }
    placed
}

fn write_all(shared: &Shared, out: &mut Out) -> Result<(), Errno> {
    let ledger = shared.ledger();
    let mut rows = [None::<SectionRow>; COPIED_FIRST.len() + COPIED_LAST.len()];
    out.write(&[0; HEADER_BYTES_MAX])?;
    let kinds = COPIED_FIRST.iter().chain(COPIED_LAST).filter(|kind| ledger::is_written(**kind));
    for (kind, row) in kinds.zip(&mut rows) {
        let section = ledger.section(*kind);
        let (offset, element_bytes) = (out.at, section.element_bytes() as u64);
        let mut count = section.used().min(section.backed());
        write_section(shared, *kind, section, count, out)?;
        if *kind == SectionKind::Process {
            count = count.wrapping_add(write_moment(shared, out)?);
        }
        *row = Some(SectionRow {
            kind: *kind as u16,
            element_bytes: element_bytes as u16,
            offset,
            capacity: count,
            used: count,
            backed: count,
        });
        out.align()?;
    }
    // Counters last: by then they hold at least what the records hold.
    let mut page = [0; HEADER_BYTES_MAX];
    ledger.copy_header(&mut page);
    let mut header = Header::parse(&page).map_err(|_| Errno::INVAL)?;
    header.flags |= flag::COPY;
    for place in header.sections_mut() {
        if let Some(row) = rows.iter().flatten().find(|row| row.kind == place.kind) {
            *place = *row;
        }
    }
    page.fill(0);
    header.write(&mut page).ok_or(Errno::INVAL)?;
    if syscall::write_at(out.file, &page, 0)? == HEADER_BYTES_MAX { Ok(()) } else { Err(Errno::NOSPC) }
}

fn write_section(
    shared: &Shared,
    kind: SectionKind,
    section: &Section,
    count: u64,
    out: &mut Out,
) -> Result<(), Errno> {
    let mut left = (count as usize).wrapping_mul(section.element_bytes());
    for chunk in 0.. {
        let bytes = left.min(CHUNK_WORDS * 8);
        if bytes == 0 {
            break;
        }
        let mut words = [0; CHUNK_WORDS];
        let first = (chunk as usize).wrapping_mul(CHUNK_WORDS);
        match kind {
            SectionKind::Records => take_whole::<RECORD_WORDS>(section, first, 0, &mut words),
            // What was given back must not be touched: there may be no storage.
            SectionKind::History if shared.history.is_retired(chunk) => {}
            SectionKind::History => take_whole::<HISTORY_WORDS>(section, first, 4, &mut words),
            _ => section.copy_words(first, &mut words),
        }
        let mut text = [0; CHUNK_WORDS * 8];
        for (place, word) in text.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        out.write(text.get(..bytes).unwrap_or(&[]))?;
        left = left.wrapping_sub(bytes);
    }
    Ok(())
}

/// Copies elements with a commit word, each of them as a reader takes it; those that change meanwhile are left out.
fn take_whole<const WORDS: usize>(section: &Section, first: usize, commit: usize, words: &mut [u64; CHUNK_WORDS]) {
    let at = |index: usize| first.wrapping_add(index.wrapping_mul(WORDS)).wrapping_add(commit);
    let mut before = [0; CHUNK_WORDS];
    for (index, place) in before.iter_mut().enumerate().take(const { CHUNK_WORDS / WORDS }) {
        *place = section.word(at(index));
    }
    section.copy_words(first, words);
    fence(Ordering::Acquire);
    for (index, (element, before)) in words.chunks_exact_mut(WORDS).zip(before).enumerate() {
        if section.word(at(index)) != before
            && let Some(place) = element.get_mut(commit)
        {
            *place = 0;
        }
    }
}

/// Which moment it is of. Returns how many bytes that took.
fn write_moment(shared: &Shared, out: &mut Out) -> Result<u64, Errno> {
    let mut page = [0; HEADER_BYTES_MAX];
    shared.ledger().copy_header(&mut page);
    let start_unix_ns = Header::parse(&page).map_or(0, |header| header.start_unix_ns);
    let mut text = Text::<128>::new();
    text.push(key::COPIED_UNIX_NS.as_bytes()).push(b"=");
    text.push_number(start_unix_ns.saturating_add(shared.clock.now_ns())).push(b"\0");
    text.push(key::MOMENT.as_bytes()).push(b"=").push(key::AT_END.as_bytes()).push(b"\0");
    out.write(text.bytes())?;
    Ok(text.bytes().len() as u64)
}
