//! A ledger written out by its own process, in place (FORMAT.md), by plain writes and without an allocation: sections, one after
//! the other.
//!
//! Other threads may be in the middle of a call, or go on: each record is taken as a reader takes it, and what refers to
//! something is written before that. The header comes last, so that what is cut short is no ledger.
#![forbid(unsafe_code)]

use crate::history::FREED_COMMIT;
use crate::ledger;
use crate::private::Loan;
use crate::section::Section;
use crate::shared::Shared;
use core::sync::atomic::{Ordering, fence};
use heapledger_format::header::{HEADER_BYTES_MAX, flag};
use heapledger_format::record::{HISTORY_WORDS, NUMBER_MAX, RECORD_WORDS};
use heapledger_format::section::{COPIED_FIRST, COPIED_LAST, SectionRow, label_column};
use heapledger_format::session::process as key;
use heapledger_format::{Header, SectionKind, TallyCounter, timeline};
use heapledger_linux::apart;
use heapledger_linux::syscall::{self, Errno};
use heapledger_linux::text::Text;
use heapledger_recorder::backend::Slot;

/// What is written at once: so much of the history is given back at once, too.
const CHUNK_WORDS: usize = 512;
const CHUNK_BYTES: usize = CHUNK_WORDS * 8;
const LABEL_BYTES: usize = label_column::BYTES;
/// How often an element that changes is looked at again.
const TRIES_MAX: usize = 64;
/// The bits of a record's first word that are its number, plus 1.
const NUMBER: u64 = NUMBER_MAX.wrapping_add(1);

/// Which moment a copy is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyOf {
    /// The end of recording.
    End,
    /// The present one, while the program goes on.
    Present,
}

/// Words that were taken, and looks at them before and after.
struct Taken<'a> {
    before: &'a mut [u64],
    words: &'a mut [u64],
    after: &'a mut [u64],
}

/// A copy that is being written.
pub(crate) struct Copying<'a> {
    shared: &'a Shared,
    of: CopyOf,
    file: usize,
    at: u64,
    bytes_max: u64,
    /// What is about to be written, as words (see [`Taken`]) and as bytes. Not on the stack: who calls may have little of that.
    words: Loan<u64>,
    bytes: Loan<u8>,
    /// Records that were being written, and are not in it.
    in_flight: u64,
    begun_unix_ns: u64,
    /// Allocations and frees then.
    before: [u64; 2],
}

impl<'a> Copying<'a> {
    /// To an open file, from its beginning.
    pub(crate) fn new(shared: &'a Shared, of: CopyOf, file: usize) -> Result<Copying<'a>, Errno> {
        let bytes_max = syscall::limit(syscall::LIMIT_FILE_BYTES).unwrap_or(u64::MAX);
        let (words, bytes) = Loan::of(CHUNK_WORDS * 3).zip(Loan::of(CHUNK_BYTES)).ok_or(Errno::NOMEM)?;
        let (in_flight, begun_unix_ns) = (0, start_unix_ns(shared).saturating_add(shared.clock.now_ns()));
        let before = [TallyCounter::Allocations, TallyCounter::Frees].map(|counter| shared.ledger().total(counter));
        Ok(Copying { shared, of, file, at: 0, bytes_max, words, bytes, in_flight, begun_unix_ns, before })
    }

    /// Writes all of it.
    pub(crate) fn write_all(mut self) -> Result<(), Errno> {
        let ledger = self.shared.ledger();
        let mut rows = [None::<SectionRow>; COPIED_FIRST.len() + COPIED_LAST.len() + 1];
        let mut labels = None;
        write(&mut self.at, self.file, self.bytes_max, &self.bytes)?;
        const { assert!(CHUNK_BYTES == HEADER_BYTES_MAX) };
        let kinds = COPIED_FIRST.iter().chain(COPIED_LAST).filter(|kind| ledger::is_written(**kind));
        for (kind, row) in kinds.zip(&mut rows) {
            let section = ledger.section(*kind);
            let (offset, element_bytes) = (self.at, section.element_bytes() as u64);
            let mut count = section.used().min(section.backed());
            let mut column = None;
            if *kind == SectionKind::Records {
                let behind = self.at.wrapping_add(count.wrapping_mul(element_bytes));
                column = Some(column_of(self.shared, behind, count));
                labels = column;
            }
            self.write_section(*kind, section, count, column.as_ref())?;
            self.at = self.at.wrapping_add(column.map_or(0, |column| column.used.wrapping_mul(LABEL_BYTES as u64)));
            if *kind == SectionKind::Process {
                count = count.wrapping_add(self.write_moment()?);
            }
            *row = Some(SectionRow {
                kind: *kind as u16,
                element_bytes: element_bytes as u16,
                offset,
                capacity: count,
                used: count,
                backed: count,
            });
            let more = self.at.wrapping_neg() as usize & 7;
            self.write([0; 8].get(..more).unwrap_or(&[]))?;
        }
        if let Some(place) = rows.last_mut() {
            *place = labels;
        }
        if self.of == CopyOf::Present {
            self.forget_later_frees(&rows)?;
        }
        self.write_header(&rows)
    }

    fn taken(&mut self) -> Taken<'_> {
        let (words, looks) = self.words.split_at_mut(CHUNK_WORDS);
        let (before, after) = looks.split_at_mut(CHUNK_WORDS);
        Taken { before, words, after }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Errno> {
        write(&mut self.at, self.file, self.bytes_max, bytes)
    }

    /// `column`: where the labels of records go.
    fn write_section(
        &mut self,
        kind: SectionKind,
        section: &Section,
        count: u64,
        column: Option<&SectionRow>,
    ) -> Result<(), Errno> {
        let mut left = (count as usize).wrapping_mul(section.element_bytes());
        for chunk in 0.. {
            let bytes = left.min(CHUNK_BYTES);
            if bytes == 0 {
                break;
            }
            let first = (chunk as usize).wrapping_mul(CHUNK_WORDS);
            match kind {
                SectionKind::Records => {
                    let copy = |at, into: &mut [u64]| section.copy_words(at, into);
                    let changing = take_whole::<RECORD_WORDS, 0>(copy, first, self.taken());
                    self.in_flight = self.in_flight.wrapping_add(changing);
                }
                // What was given back must not be touched: there may be no storage.
                SectionKind::History if self.shared.history.is_retired(chunk) => self.taken().words.fill(0),
                SectionKind::History => {
                    let copy = |at, into: &mut [u64]| section.copy_words_if_there(at, into);
                    take_whole::<HISTORY_WORDS, FREED_COMMIT>(copy, first, self.taken());
                }
                SectionKind::Timeline => {
                    let copy = |at, into: &mut [u64]| section.copy_words(at, into);
                    take_whole::<{ timeline::WORDS }, 0>(copy, first, self.taken());
                }
                _ => section.copy_words(first, self.taken().words),
            }
            if let Some(column) = column {
                self.write_labels(first / RECORD_WORDS, column)?;
            }
            for (place, word) in self.bytes.chunks_exact_mut(8).zip(&*self.words) {
                place.copy_from_slice(&word.to_ne_bytes());
            }
            write(&mut self.at, self.file, self.bytes_max, self.bytes.get(..bytes).unwrap_or(&[]))?;
            left = left.wrapping_sub(bytes);
        }
        Ok(())
    }

    /// Writes the labels of the records that were taken, from this slot on. A block that has ended since is left out.
    fn write_labels(&mut self, first: usize, column: &SectionRow) -> Result<(), Errno> {
        const RECORDS: usize = CHUNK_WORDS / RECORD_WORDS;
        let (shared, file, bytes_max) = (self.shared, self.file, self.bytes_max);
        let records = shared.ledger().section(SectionKind::Records);
        let mut text = [0; RECORDS * LABEL_BYTES];
        let left = column.used.saturating_sub(first as u64).min(RECORDS as u64) as usize;
        let taken = self.taken().words.as_chunks_mut::<RECORD_WORDS>().0;
        let mut changing = 0u64;
        for ((slot, record), place) in (first..).zip(taken).zip(text.chunks_exact_mut(LABEL_BYTES)).take(left) {
            let label = shared.label_of(Slot(slot as u32)).load(Ordering::Relaxed);
            fence(Ordering::Acquire);
            let mut commit = [0];
            records.copy_words(slot.wrapping_mul(RECORD_WORDS), &mut commit);
            if record.first() == commit.first() {
                place.copy_from_slice(&label.to_ne_bytes());
            } else if record.first() != Some(&0) {
                record.fill(0);
                changing = changing.wrapping_add(1);
            }
        }
        self.in_flight = self.in_flight.wrapping_add(changing);
        let mut at = column.offset.wrapping_add(first.wrapping_mul(LABEL_BYTES) as u64);
        write(&mut at, file, bytes_max, text.get(..left.wrapping_mul(LABEL_BYTES)).unwrap_or(&[]))
    }

    /// Which moment it is of. Returns how many bytes that took.
    fn write_moment(&mut self) -> Result<u64, Errno> {
        let mut text = Text::<320>::new();
        let mut pair = |key: &str, value: &[u8]| {
            // The text is C's, which has no zeros: they are put in below.
            text.push(key.as_bytes()).push(b"=").push(value).push(b"\n");
        };
        let number = |value| {
            let mut text = Text::<24>::new();
            text.push_number(value);
            text
        };
        match self.of {
            CopyOf::End => {
                pair(key::COPIED_UNIX_NS, number(self.begun_unix_ns).bytes());
                pair(key::MOMENT, key::AT_END.as_bytes());
            }
            CopyOf::Present => {
                let moment = number(self.begun_unix_ns);
                let [allocations, frees] = self.before;
                let mut before = Text::<48>::new();
                before.push_number(allocations).push(b":").push_number(frees);
                for key in [key::COPIED_UNIX_NS, key::SNAPSHOT_UNIX_NS, key::MOMENT] {
                    pair(key, moment.bytes());
                }
                pair(key::SNAPSHOT_IN_FLIGHT, number(self.in_flight).bytes());
                pair(key::SNAPSHOT_BEFORE, before.bytes());
            }
        }
        for line in text.bytes().split_inclusive(|byte| *byte == b'\n') {
            self.write(line.strip_suffix(b"\n").unwrap_or(line))?;
            self.write(b"\0")?;
        }
        Ok(text.bytes().len() as u64)
    }

    /// A block that was freed while the copy was made may be in it twice, as a record and in the history. The record was
    /// read first, so that is the moment, and the free came after it: it is not in the copy.
    fn forget_later_frees(&mut self, rows: &[Option<SectionRow>]) -> Result<(), Errno> {
        let row = |kind: SectionKind| rows.iter().flatten().find(|row| row.kind == kind as u16);
        let (Some(records), Some(history)) = (row(SectionKind::Records), row(SectionKind::History)) else {
            return Ok(());
        };
        if history.used == 0 {
            return Ok(());
        }
        // The numbers of freed blocks, and where in the file their entries say that they are there. At least a half is vacant.
        let places = usize::try_from(history.used.saturating_mul(2)).ok().and_then(usize::checked_next_power_of_two);
        let mut freed = Loan::<[u64; 2]>::of(places.ok_or(Errno::NOMEM)?).ok_or(Errno::NOMEM)?;
        self.each_written::<HISTORY_WORDS>(history, |at, entry| {
            let place = find(&mut freed, entry[0] & NUMBER).filter(|_| entry[FREED_COMMIT] != 0);
            if let Some(place) = place {
                *place = [entry[0] & NUMBER, at.wrapping_add(const { FREED_COMMIT as u64 * 8 })];
            }
            Ok(())
        })?;
        let file = self.file;
        self.each_written::<RECORD_WORDS>(records, |_, record| match find(&mut freed, record[0] & NUMBER) {
            Some([number, commit_at]) if *number != 0 => write_at(file, &[0; 8], *commit_at),
            _ => Ok(()),
        })
    }

    /// The elements of a section as they were written, and where.
    fn each_written<const WORDS: usize>(
        &mut self,
        row: &SectionRow,
        mut each: impl FnMut(u64, &[u64; WORDS]) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let mut left = row.used.wrapping_mul(u64::from(row.element_bytes));
        let mut at = row.offset;
        while left != 0 {
            let bytes = left.min(CHUNK_BYTES as u64);
            let room = self.bytes.get_mut(..bytes as usize).unwrap_or_default();
            if syscall::read_at(self.file, room, at)? != bytes as usize {
                return Err(Errno::NOSPC);
            }
            for (element, from) in room.chunks_exact(const { WORDS * 8 }).zip((at..).step_by(const { WORDS * 8 })) {
                let mut words = [0; WORDS];
                for (word, bytes) in words.iter_mut().zip(element.as_chunks().0) {
                    *word = u64::from_ne_bytes(*bytes);
                }
                each(from, &words)?;
            }
            (left, at) = (left.wrapping_sub(bytes), at.wrapping_add(bytes));
        }
        Ok(())
    }

    /// Counters last: by then they hold at least what the records hold.
    fn write_header(mut self, rows: &[Option<SectionRow>]) -> Result<(), Errno> {
        let (shared, of, page) = (self.shared, self.of, &mut self.bytes);
        apart::result_of(Err(Errno::INVAL), || copy_header(shared, of, rows, page))?;
        write_at(self.file, &self.bytes, 0)
    }
}

/// Where the labels of so many records come to lie, behind these.
fn column_of(shared: &Shared, offset: u64, records: u64) -> SectionRow {
    let column = shared.ledger().section(SectionKind::LabelColumn);
    let there = if shared.labels.is_used() { column.used().min(column.backed()).min(records) } else { 0 };
    SectionRow {
        kind: SectionKind::LabelColumn as u16,
        element_bytes: LABEL_BYTES as u16,
        offset,
        capacity: there,
        used: there,
        backed: there,
    }
}

fn write(at: &mut u64, file: usize, bytes_max: u64, bytes: &[u8]) -> Result<(), Errno> {
    // Beyond the limit of file sizes a write would be a signal.
    if at.saturating_add(bytes.len() as u64) > bytes_max {
        return Err(Errno::NOSPC);
    }
    let mut rest = bytes;
    while !rest.is_empty() {
        match syscall::write_at(file, rest, *at)? {
            0 => return Err(Errno::NOSPC),
            written => {
                rest = rest.get(written..).unwrap_or(&[]);
                *at = at.wrapping_add(written as u64);
            }
        }
    }
    Ok(())
}

fn write_at(file: usize, bytes: &[u8], at: u64) -> Result<(), Errno> {
    if syscall::write_at(file, bytes, at)? == bytes.len() { Ok(()) } else { Err(Errno::NOSPC) }
}

fn header_of(shared: &Shared, page: &mut [u8]) -> Result<Header, Errno> {
    let page = page.first_chunk_mut::<HEADER_BYTES_MAX>().ok_or(Errno::INVAL)?;
    page.fill(0);
    shared.ledger().copy_header(page);
    Header::parse(page).map_err(|_| Errno::INVAL)
}

/// Writes the header of a copy to a page.
fn copy_header(shared: &Shared, of: CopyOf, rows: &[Option<SectionRow>], page: &mut [u8]) -> Result<(), Errno> {
    let mut header = header_of(shared, page)?;
    header.flags |= flag::COPY | if of == CopyOf::Present { flag::SNAPSHOT } else { 0 };
    for place in header.sections_mut() {
        if let Some(row) = rows.iter().flatten().find(|row| row.kind == place.kind) {
            *place = *row;
        }
    }
    page.fill(0);
    header.write(page).map(drop).ok_or(Errno::INVAL)
}

/// When the ledger began.
fn start_unix_ns(shared: &Shared) -> u64 {
    let Some(mut page) = Loan::<u8>::of(HEADER_BYTES_MAX) else { return 0 };
    apart::result_of(0, || header_of(shared, &mut page).map_or(0, |header| header.start_unix_ns))
}

/// Copies elements with a commit word, each of them as a reader takes it: between two looks at that word. One that changes all the
/// time is left out. Returns how many are.
fn take_whole<const WORDS: usize, const COMMIT: usize>(
    copy: impl Fn(usize, &mut [u64]),
    first: usize,
    into: Taken,
) -> u64 {
    let Taken { before, words, after } = into;
    for room in [&mut *before, &mut *words, &mut *after] {
        copy(first, room);
        fence(Ordering::Acquire);
    }
    let commit = |element: &[u64; WORDS]| element.get(COMMIT).copied().unwrap_or(0);
    let mut changing = 0u64;
    let looks = before.as_chunks::<WORDS>().0.iter().zip(after.as_chunks::<WORDS>().0);
    for ((at, element), (before, after)) in (first..).step_by(WORDS).zip(words.as_chunks_mut::<WORDS>().0).zip(looks) {
        let mut is_whole = commit(before) == commit(element) && commit(element) == commit(after);
        for _ in 0..TRIES_MAX {
            if is_whole {
                break;
            }
            let [mut before, mut after] = [[0], [0]];
            copy(at.wrapping_add(COMMIT), &mut before);
            fence(Ordering::Acquire);
            copy(at, element);
            fence(Ordering::Acquire);
            copy(at.wrapping_add(COMMIT), &mut after);
            is_whole = before == after && before == [commit(element)];
        }
        if !is_whole {
            element.fill(0);
            changing = changing.wrapping_add(1);
        }
    }
    changing
}

/// Where the number of a block is, or would be; none for no block.
fn find(freed: &mut [[u64; 2]], number: u64) -> Option<&mut [u64; 2]> {
    let mask = freed.len().wrapping_sub(1);
    let first = (number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize;
    let place = (0..freed.len())
        .map(|step| first.wrapping_add(step) & mask)
        .find(|place| freed.get(*place).is_some_and(|[known, _]| *known == 0 || *known == number))?;
    freed.get_mut(place).filter(|_| number != 0)
}
