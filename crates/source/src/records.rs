//! Records and history entries, each whole or absent.
//!
//! In a live ledger the writer goes on. The commit word of an element is its unique number: the writer
//! zeroes it first and stores it last, and never uses a number twice. So what is read *between* two reads
//! of the same non-zero commit word was not touched meanwhile. A chunk is read three times, A, B, C:
//! system calls are in order, bytes within one are not, therefore the words of A and C frame the body of B. Where all of A
//! is vacant, that is what was there, and B and C are not read: a program that has freed its memory leaves much room so.

use std::sync::atomic::{AtomicUsize, Ordering};

use heapledger_format::layout::Field;
use heapledger_format::{Entry, FreedEntry, LabelId, SectionKind};

use crate::SourceError;
use crate::decode::Decoder;
use crate::finished::Unpacker;
use crate::labels::LabelColumn;
use crate::ledger::{CHUNK_BYTES, Ledger, Store};
use crate::live::{Extent, Live};

/// How often an element that changed while it was read is read again.
const RETRIES: usize = 8;
/// How often the `wide` section is read again for figures of blocks that came later.
const WIDE_SCANS: usize = 16;

/// The elements of a section that are published one by one. Several threads may read at once, each with its own
/// [`Buffers`].
pub(crate) struct Elements<'a> {
    pub(crate) ledger: &'a Ledger,
    kind: SectionKind,
    element_bytes: usize,
    commit: fn(&Decoder, &[u8]) -> u64,
    pub(crate) decoder: Decoder,
    /// Nobody writes meanwhile: reading once is enough.
    still: bool,
    /// The labels beside the elements, if they are asked for and there are any.
    labels: Option<LabelColumn<'a>>,
}

/// What reading needs of memory, kept from one chunk to the next.
#[derive(Default)]
pub(crate) struct Buffers {
    copies: [Vec<u8>; 3],
    unpacker: Unpacker,
    column: Vec<LabelId>,
}

/// What was read at a time.
#[derive(Clone, Copy, Default)]
pub(crate) struct Step {
    /// Elements that were looked at; pieces, in a finished ledger.
    pub(crate) passed: u64,
    /// Elements that changed each time they were looked at.
    pub(crate) in_flight: u64,
}

impl<'a> Elements<'a> {
    fn new(ledger: &'a Ledger, kind: SectionKind, commit: fn(&Decoder, &[u8]) -> u64) -> Elements<'a> {
        let element_bytes = ledger.element_bytes(kind);
        let header = ledger.header();
        let decoder = Decoder::new(&header.layout, header.codec, element_bytes);
        Elements { ledger, kind, element_bytes, commit, decoder, still: false, labels: None }
    }

    /// With the labels that stand beside the records, if there are any.
    pub(crate) fn with_column(mut self) -> Elements<'a> {
        self.labels = LabelColumn::of(self.ledger);
        self
    }

    /// The same, where records have no room for a label of their own.
    pub(crate) fn labelled(self) -> Elements<'a> {
        if self.ledger.header().layout.has(Field::Label) { self } else { self.with_column() }
    }

    /// The same of a ledger that nobody writes as long as it is read.
    pub(crate) fn over_still(mut self) -> Elements<'a> {
        self.still = true;
        self
    }

    pub(crate) fn records(ledger: &'a Ledger) -> Elements<'a> {
        Self::new(ledger, SectionKind::Records, Decoder::commit)
    }

    pub(crate) fn history(ledger: &'a Ledger) -> Elements<'a> {
        Self::new(ledger, SectionKind::History, Decoder::freed_commit)
    }

    /// Bytes of each.
    pub(crate) fn element_bytes(&self) -> usize {
        self.element_bytes
    }

    /// How far [`Elements::read`] goes at a time, in its own measure.
    pub(crate) fn stride(&self) -> u64 {
        match &self.ledger.store {
            Store::Finished(_) => 1,
            Store::Live(_) => (CHUNK_BYTES / self.element_bytes.max(1)).max(1) as u64,
        }
    }

    /// The end, in the measure of [`Elements::read`]; it may move in a live ledger.
    pub(crate) fn end(&self) -> u64 {
        match &self.ledger.store {
            Store::Finished(pieces) => pieces.of(self.kind).len() as u64,
            Store::Live(live) => live.extent(self.ledger.header(), self.kind).map_or(0, |extent| extent.count),
        }
    }

    /// Calls `each` with the elements from `first` on, a chunk of them: a piece of a finished ledger, which `first`
    /// counts, or elements of a live one, only those that are not vacant; with what stands beside each, if labels do.
    /// Nothing has passed at the end.
    pub(crate) fn read(
        &self,
        first: u64,
        buffers: &mut Buffers,
        each: &mut impl FnMut(&Decoder, &[u8], Option<LabelId>),
    ) -> Result<Step, SourceError> {
        if self.element_bytes == 0 {
            return Ok(Step::default());
        }
        match &self.ledger.store {
            Store::Finished(pieces) => {
                let piece = usize::try_from(first).ok().and_then(|first| pieces.of(self.kind).get(first));
                let Some(piece) = piece else { return Ok(Step::default()) };
                let [bytes, ..] = &mut buffers.copies;
                let whole = pieces.load(piece, self.element_bytes, &mut buffers.unpacker, bytes)?;
                // Of a part of a piece nobody knows which labels are its own.
                self.read_labels(piece.first, if whole { piece.count } else { 0 }, &mut buffers.column)?;
                for (index, element) in bytes.chunks_exact(self.element_bytes).enumerate() {
                    each(&self.decoder, element, self.beside(&buffers.column, index));
                }
                Ok(Step { passed: 1, in_flight: 0 })
            }
            Store::Live(live) => self.read_live(live, first, self.stride(), buffers, each),
        }
    }

    /// The same of `count` elements of a live ledger at most, and of no more than a chunk. A finished one gives nothing.
    pub(crate) fn read_some(
        &self,
        first: u64,
        count: u64,
        buffers: &mut Buffers,
        each: &mut impl FnMut(&Decoder, &[u8], Option<LabelId>),
    ) -> Result<Step, SourceError> {
        match &self.ledger.store {
            Store::Live(live) if self.element_bytes != 0 => self.read_live(live, first, count, buffers, each),
            _ => Ok(Step::default()),
        }
    }

    /// Calls `each` with the places and commit words of elements of a live ledger, from `first` on, a chunk of them,
    /// without those that are vacant. They may change at once, and may have been read half: they are a hint. Gives how
    /// many elements were looked at.
    pub(crate) fn glance(
        &self,
        first: u64,
        buffers: &mut Buffers,
        each: &mut impl FnMut(u64, u64),
    ) -> Result<u64, SourceError> {
        let Store::Live(live) = &self.ledger.store else { return Ok(0) };
        let extent = live.extent(self.ledger.header(), self.kind)?;
        let count = self.stride().min(extent.count.saturating_sub(first));
        let [bytes, ..] = &mut buffers.copies;
        bytes.resize(count as usize * self.element_bytes, 0);
        if bytes.is_empty() {
            return Ok(0);
        }
        let count = live.read(&extent, first, bytes)?;
        for (place, element) in (first..first + count).zip(bytes.chunks_exact(self.element_bytes)) {
            match (self.commit)(&self.decoder, element) {
                0 => {}
                commit => each(place, commit),
            }
        }
        Ok(count)
    }

    fn read_live(
        &self,
        live: &Live,
        first: u64,
        count: u64,
        buffers: &mut Buffers,
        each: &mut impl FnMut(&Decoder, &[u8], Option<LabelId>),
    ) -> Result<Step, SourceError> {
        let Buffers { copies, column, .. } = buffers;
        let extent = live.extent(self.ledger.header(), self.kind)?;
        let count = count.min(self.stride()).min(extent.count.saturating_sub(first));
        let room = count as usize * self.element_bytes;
        let mut count = count;
        if self.still {
            let [_, body, _] = copies;
            body.resize(room, 0);
            let count = live.read(&extent, first, body)?;
            self.read_labels(first, count, column)?;
            for (index, element) in body.chunks_exact(self.element_bytes).take(count as usize).enumerate() {
                if (self.commit)(&self.decoder, element) != 0 {
                    each(&self.decoder, element, self.beside(column, index));
                }
            }
            return Ok(Step { passed: count, in_flight: 0 });
        }
        for (number, copy) in copies.iter_mut().enumerate() {
            copy.resize(room, 0);
            count = count.min(live.read(&extent, first, copy)?);
            if number == 0 && self.is_vacant(copy, count) {
                return Ok(Step { passed: count, in_flight: 0 });
            }
            // Like the bodies, between two looks at the commit words.
            if number == 1 {
                self.read_labels(first, count, column)?;
            }
        }
        let mut step = Step { passed: count, in_flight: 0 };
        let [before, body, after] = &*copies;
        let elements = before.chunks_exact(self.element_bytes).zip(body.chunks_exact(self.element_bytes));
        let elements = elements.zip(after.chunks_exact(self.element_bytes)).take(count as usize);
        for (index, ((before, body), after)) in elements.enumerate() {
            let commit = (self.commit)(&self.decoder, body);
            let framed = [before, after].map(|bytes| (self.commit)(&self.decoder, bytes));
            if framed == [commit, commit] {
                if commit != 0 {
                    each(&self.decoder, body, self.beside(column, index));
                }
            } else {
                let mut beside = Vec::new();
                match self.again(live, &extent, first + index as u64, &mut beside)? {
                    Again::Whole(element) => each(&self.decoder, &element, self.beside(&beside, 0)),
                    Again::Vacant => {}
                    Again::Changing => step.in_flight += 1,
                }
            }
        }
        Ok(step)
    }

    /// Whether none of the first `count` elements in these bytes is there.
    fn is_vacant(&self, bytes: &[u8], count: u64) -> bool {
        let mut elements = bytes.chunks_exact(self.element_bytes).take(count as usize);
        elements.all(|element| (self.commit)(&self.decoder, element) == 0)
    }

    /// The labels of some elements, if labels are read: into `column`, one for each element that there is one for.
    fn read_labels(&self, first: u64, count: u64, column: &mut Vec<LabelId>) -> Result<(), SourceError> {
        column.clear();
        match &self.labels {
            Some(labels) => labels.read(first, count, column),
            None => Ok(()),
        }
    }

    /// What `column` says of an element, if labels are read.
    #[inline]
    fn beside(&self, column: &[LabelId], index: usize) -> Option<LabelId> {
        self.labels.as_ref().map(|_| column.get(index).copied().unwrap_or_default())
    }

    /// Reads an element that changed again, alone, and its label into `label`.
    fn again(&self, live: &Live, extent: &Extent, index: u64, label: &mut Vec<LabelId>) -> Result<Again, SourceError> {
        let mut bytes: [Vec<u8>; 3] = std::array::from_fn(|_| vec![0u8; self.element_bytes]);
        for _ in 0..RETRIES {
            for (number, copy) in bytes.iter_mut().enumerate() {
                if live.read(extent, index, copy)? == 0 {
                    return Ok(Again::Vacant);
                }
                if number == 1 {
                    self.read_labels(index, 1, label)?;
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

    /// Adds what stands in the `wide` section to records whose figures did not fit. A live ledger may have got such a
    /// figure after the section was read; but it is not read again for each of many whose figure was lost: `scans`
    /// counts how often it was.
    pub(crate) fn add_wide(&self, entries: &mut [Entry], scans: &AtomicUsize) -> Result<(), SourceError> {
        for entry in entries.iter_mut().filter(|entry| self.decoder.escaped(entry)) {
            if scans.load(Ordering::Relaxed) < WIDE_SCANS || self.ledger.is_finished() {
                match self.ledger.wide(entry.number)? {
                    Some((size, actual)) => {
                        entry.size = Some(size);
                        entry.actual = Some(actual).filter(|_| self.decoder.records_actual());
                    }
                    None => drop(scans.fetch_add(1, Ordering::Relaxed)),
                }
            }
        }
        Ok(())
    }
}

/// A walk over the elements of a section, as bytes of elements that are whole.
pub(crate) struct Walk<'a> {
    elements: Elements<'a>,
    buffers: Buffers,
    next: u64,
    pub(crate) in_flight: u64,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(elements: Elements<'a>) -> Walk<'a> {
        Walk { elements, buffers: Buffers::default(), next: 0, in_flight: 0 }
    }

    /// Calls `each` with the elements of the next chunk; false at the end.
    pub(crate) fn step(
        &mut self,
        each: &mut impl FnMut(&Decoder, &[u8], Option<LabelId>),
    ) -> Result<bool, SourceError> {
        let step = self.elements.read(self.next, &mut self.buffers, each)?;
        self.next += step.passed;
        self.in_flight += step.in_flight;
        Ok(step.passed != 0)
    }

    /// How far the walk is, from 0 to 1.
    pub(crate) fn progress(&self) -> f32 {
        let end = self.elements.end();
        if end == 0 { 1.0 } else { (self.next as f32 / end as f32).min(1.0) }
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
    wide_scans: AtomicUsize,
}

impl<'a> Records<'a> {
    pub(crate) fn new(ledger: &'a Ledger) -> Records<'a> {
        let walk = Walk::new(Elements::records(ledger).labelled());
        Records { walk, entries: Vec::new(), wide_scans: AtomicUsize::new(0) }
    }

    /// The next records; `None` at the end. A chunk may be empty.
    ///
    /// # Errors
    /// If the file can no longer be read. Damage is no error: see [`Ledger::damage`].
    pub fn next_chunk(&mut self) -> Result<Option<&[Entry]>, SourceError> {
        let entries = &mut self.entries;
        entries.clear();
        if !self.walk.step(&mut |decoder, bytes, label| entries.extend(decoder.labelled(bytes, label)))? {
            return Ok(None);
        }
        self.walk.elements.add_wide(entries, &self.wide_scans)?;
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
        FreedRecords { walk: Walk::new(Elements::history(ledger)), entries: Vec::new() }
    }

    /// The next entries; `None` at the end. A chunk may be empty.
    ///
    /// # Errors
    /// If the file can no longer be read. Damage is no error: see [`Ledger::damage`].
    pub fn next_chunk(&mut self) -> Result<Option<&[FreedEntry]>, SourceError> {
        let entries = &mut self.entries;
        entries.clear();
        let more = self.walk.step(&mut |decoder, bytes, _| entries.extend(decoder.freed(bytes)))?;
        Ok(more.then_some(entries.as_slice()))
    }

    /// Entries that changed each time they were looked at.
    pub fn in_flight(&self) -> u64 {
        self.walk.in_flight
    }
}
