//! Records and history entries, each whole or absent.
//!
//! In a live ledger the writer goes on. The commit word of an element is its unique number: the writer
//! zeroes it first and stores it last, and never uses a number twice. So what is read *between* two reads
//! of the same non-zero commit word was not touched meanwhile. A chunk is read three times, A, B, C:
//! system calls are in order, bytes within one are not, therefore the words of A and C frame the body of B.

use heapledger_format::{Entry, FreedEntry, SectionKind};

use crate::SourceError;
use crate::decode::Decoder;
use crate::ledger::{CHUNK_BYTES, Ledger, Store};
use crate::live::{Extent, Live};

/// How often an element that changed while it was read is read again.
const RETRIES: usize = 8;
/// How often the `wide` section is read again for figures of blocks that came later.
const WIDE_SCANS: usize = 16;

/// A walk over the elements of a section, as bytes of elements that are whole.
pub(crate) struct Walk<'a> {
    ledger: &'a Ledger,
    kind: SectionKind,
    element_bytes: usize,
    commit: fn(&Decoder, &[u8]) -> u64,
    decoder: Decoder,
    next: u64,
    pub(crate) in_flight: u64,
    /// Nobody writes meanwhile: reading once is enough.
    still: bool,
    buffers: [Vec<u8>; 3],
}

impl<'a> Walk<'a> {
    pub(crate) fn new(ledger: &'a Ledger, kind: SectionKind, commit: fn(&Decoder, &[u8]) -> u64) -> Walk<'a> {
        let element_bytes = ledger.element_bytes(kind);
        let header = ledger.header();
        Walk {
            ledger,
            kind,
            element_bytes,
            commit,
            decoder: Decoder::new(&header.layout, header.codec, element_bytes),
            next: 0,
            in_flight: 0,
            still: false,
            buffers: Default::default(),
        }
    }

    /// The same over a ledger that nobody writes as long as this walk lasts.
    pub(crate) fn over_still(mut self) -> Walk<'a> {
        self.still = true;
        self
    }

    /// Calls `each` with the elements of the next chunk; false at the end.
    pub(crate) fn step(&mut self, each: &mut dyn FnMut(&Decoder, &[u8])) -> Result<bool, SourceError> {
        if self.element_bytes == 0 {
            return Ok(false);
        }
        match &self.ledger.store {
            Store::Finished(pieces) => {
                let Some(piece) = pieces.of(self.kind).get(self.next as usize) else { return Ok(false) };
                self.next += 1;
                for element in
                    pieces.load(piece, self.element_bytes)?.unwrap_or_default().chunks_exact(self.element_bytes)
                {
                    if (self.commit)(&self.decoder, element) != 0 {
                        each(&self.decoder, element);
                    }
                }
                Ok(true)
            }
            Store::Live(live) => {
                let extent = live.extent(self.ledger.header(), self.kind)?;
                self.step_live(live, &extent, each)
            }
        }
    }

    fn step_live(
        &mut self,
        live: &Live,
        extent: &Extent,
        each: &mut dyn FnMut(&Decoder, &[u8]),
    ) -> Result<bool, SourceError> {
        let room = ((CHUNK_BYTES / self.element_bytes).max(1) as u64).min(extent.count.saturating_sub(self.next));
        let room = room as usize * self.element_bytes;
        let mut count = u64::MAX;
        if self.still {
            let [_, body, _] = &mut self.buffers;
            body.resize(room, 0);
            count = live.read(extent, self.next, body)?;
            self.next += count;
            for element in body.chunks_exact(self.element_bytes).take(count as usize) {
                if (self.commit)(&self.decoder, element) != 0 {
                    each(&self.decoder, element);
                }
            }
            return Ok(count != 0);
        }
        for buffer in &mut self.buffers {
            buffer.resize(room, 0);
            count = count.min(live.read(extent, self.next, buffer)?);
        }
        if count == 0 {
            return Ok(false);
        }
        let first = self.next;
        self.next += count;
        let [before, body, after] = &self.buffers;
        let elements = before.chunks_exact(self.element_bytes).zip(body.chunks_exact(self.element_bytes));
        let elements = elements.zip(after.chunks_exact(self.element_bytes)).take(count as usize);
        for (index, ((before, body), after)) in elements.enumerate() {
            let commit = (self.commit)(&self.decoder, body);
            let framed = [before, after].map(|bytes| (self.commit)(&self.decoder, bytes));
            if framed == [commit, commit] {
                if commit != 0 {
                    each(&self.decoder, body);
                }
            } else {
                match self.again(live, extent, first + index as u64)? {
                    Again::Whole(element) => each(&self.decoder, &element),
                    Again::Vacant => {}
                    Again::Changing => self.in_flight += 1,
                }
            }
        }
        Ok(true)
    }

    /// How far the walk is, from 0 to 1.
    pub(crate) fn progress(&self) -> f32 {
        let end = match &self.ledger.store {
            Store::Finished(pieces) => pieces.of(self.kind).len() as u64,
            Store::Live(live) => live.extent(self.ledger.header(), self.kind).map_or(0, |extent| extent.count),
        };
        if end == 0 { 1.0 } else { (self.next as f32 / end as f32).min(1.0) }
    }

    /// Reads an element that changed again, alone.
    fn again(&self, live: &Live, extent: &Extent, index: u64) -> Result<Again, SourceError> {
        let mut bytes: [Vec<u8>; 3] = std::array::from_fn(|_| vec![0u8; self.element_bytes]);
        for _ in 0..RETRIES {
            for copy in &mut bytes {
                if live.read(extent, index, copy)? == 0 {
                    return Ok(Again::Vacant);
                }
            }
            let commits = bytes.each_ref().map(|bytes| (self.commit)(&self.decoder, bytes));
            if commits == [commits[0]; 3] {
                let [_, body, _] = bytes;
                return Ok(if commits[0] == 0 { Again::Vacant } else { Again::Whole(body) });
            }
        }
        Ok(Again::Changing)
    }
}

enum Again {
    Whole(Vec<u8>),
    Vacant,
    Changing,
}

/// The records of a ledger, chunk by chunk. See [`Ledger::records`].
pub struct Records<'a> {
    walk: Walk<'a>,
    entries: Vec<Entry>,
    wide_scans: usize,
}

impl<'a> Records<'a> {
    pub(crate) fn new(ledger: &'a Ledger) -> Records<'a> {
        Records { walk: Walk::new(ledger, SectionKind::Records, Decoder::commit), entries: Vec::new(), wide_scans: 0 }
    }

    /// The next records; `None` at the end. A chunk may be empty.
    ///
    /// # Errors
    /// If the file can no longer be read. Damage is no error: see [`Ledger::damage`].
    pub fn next_chunk(&mut self) -> Result<Option<&[Entry]>, SourceError> {
        let entries = &mut self.entries;
        entries.clear();
        if !self.walk.step(&mut |decoder, bytes| entries.extend(decoder.entry(bytes)))? {
            return Ok(None);
        }
        for entry in entries.iter_mut().filter(|entry| self.walk.decoder.escaped(entry)) {
            // A live ledger may have got its wide figure after the section was read; but do not
            // read it again for each of many whose figure was lost.
            if self.wide_scans < WIDE_SCANS || self.walk.ledger.is_finished() {
                self.wide_scans += 1;
                if let Some((size, actual)) = self.walk.ledger.wide(entry.number)? {
                    self.wide_scans -= 1;
                    entry.size = Some(size);
                    entry.actual = Some(actual).filter(|_| self.walk.decoder.records_actual());
                }
            }
        }
        Ok(Some(entries))
    }

    /// Records that changed each time they were looked at.
    pub fn in_flight(&self) -> u64 {
        self.walk.in_flight
    }

    /// How far the walk is, from 0 to 1.
    pub fn progress(&self) -> f32 {
        self.walk.progress()
    }
}

/// The history of a ledger, chunk by chunk. See [`Ledger::freed`].
pub struct FreedRecords<'a> {
    walk: Walk<'a>,
    entries: Vec<FreedEntry>,
}

impl<'a> FreedRecords<'a> {
    pub(crate) fn new(ledger: &'a Ledger) -> FreedRecords<'a> {
        FreedRecords { walk: Walk::new(ledger, SectionKind::History, Decoder::freed_commit), entries: Vec::new() }
    }

    /// The next entries; `None` at the end. A chunk may be empty.
    ///
    /// # Errors
    /// If the file can no longer be read. Damage is no error: see [`Ledger::damage`].
    pub fn next_chunk(&mut self) -> Result<Option<&[FreedEntry]>, SourceError> {
        let entries = &mut self.entries;
        entries.clear();
        let more = self.walk.step(&mut |decoder, bytes| entries.extend(decoder.freed(bytes)))?;
        Ok(more.then_some(entries.as_slice()))
    }

    /// Entries that changed each time they were looked at.
    pub fn in_flight(&self) -> u64 {
        self.walk.in_flight
    }
}
