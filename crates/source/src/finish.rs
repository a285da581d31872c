//! Writes a finished ledger from a live one.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use heapledger_format::bytes::{ByteOrder, Codec, WordSize};
use heapledger_format::counter::{TALLY_KINDS_AT, TALLY_WORDS};
use heapledger_format::crc::crc32;
use heapledger_format::header::{HEADER_BYTES_MAX, Header, flag};
use heapledger_format::kind::KIND_LIMIT;
use heapledger_format::piece::ALIGN_BYTES;
use heapledger_format::section::{SectionRow, label_column, wide};
use heapledger_format::session::process as key;
use heapledger_format::timeline::TimePoint;
use heapledger_format::{LabelId, SectionKind, TallyCounter};

use crate::SourceError;
use crate::ledger::Ledger;
use crate::records::{Elements, Walk};
use crate::storage;

mod history;
mod out;

use out::{Beside, Filler, Out, PIECE_BYTES, Target, write_pieces};

const CODEC: Codec = Codec { order: ByteOrder::Little, word: WordSize::W64 };

/// Sections in the order in which they are written: small ones first, so that a ledger cut while it is
/// copied still names what it has. Others, known or not, follow as they are.
const FIRST_SECTIONS: &[SectionKind] = &[
    SectionKind::Process,
    SectionKind::Modules,
    SectionKind::Strings,
    SectionKind::Heaps,
    SectionKind::Threads,
    SectionKind::Tallies,
    SectionKind::Labels,
    SectionKind::Marks,
    SectionKind::Windows,
    SectionKind::Errors,
    SectionKind::Accounts,
    SectionKind::AccountFrees,
    SectionKind::Pcs,
    SectionKind::Sites,
];
/// What comes behind all others. The labels of records come with these.
const LAST_SECTIONS: &[SectionKind] = &[SectionKind::Wide, SectionKind::History, SectionKind::Records];

/// The sections of a ledger that are kept, in the order in which they are written. The index is left out: records move.
fn kept(rows: &[SectionRow]) -> Vec<u16> {
    let named = |kinds: &[SectionKind]| kinds.iter().map(|kind| *kind as u16).collect::<Vec<_>>();
    let (first, last) = (named(FIRST_SECTIONS), named(LAST_SECTIONS));
    let apart = [SectionKind::Index as u16, SectionKind::LabelColumn as u16];
    let is_other = |kind: &u16| ![&first, &last].iter().any(|known| known.contains(kind)) && !apart.contains(kind);
    let others: Vec<u16> = rows.iter().map(|row| row.kind).filter(is_other).collect();
    let mut kept: Vec<u16> = Vec::new();
    for kind in first.into_iter().chain(others).chain(last) {
        if rows.iter().any(|row| row.kind == kind) && !kept.contains(&kind) {
            kept.push(kind);
        }
    }
    kept
}

/// What was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Finished {
    /// Bytes of the finished ledger.
    pub bytes: u64,
    /// Records in it.
    pub records: u64,
    /// History entries in it.
    pub history: u64,
    /// Elements that were being written and are not in it. A program that has ended leaves at most one a thread.
    pub in_flight: u64,
}

/// What is added to a ledger that is finished.
#[derive(Clone, Copy, Debug, Default)]
pub struct More<'a> {
    /// Appended to what is known of the process.
    pub pairs: &'a [(&'a str, String)],
    /// What somebody saw who stood beside the process, intervals in order and without an overlap.
    pub timeline: &'a [TimePoint],
}

/// As [`finish_with`], with what is known of the process alone.
///
/// # Errors
/// As there.
pub fn finish(
    live: &Ledger,
    path: &Path,
    extra: &[(&str, String)],
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Finished, SourceError> {
    finish_with(live, path, More { pairs: extra, timeline: &[] }, progress)
}

/// Writes the finished ledger of `live` to `path`, replacing what is there: first under a temporary name
/// beside it, then renamed. `progress` hears of bytes done and bytes in all, at most once a piece.
///
/// Meant for a program that has ended. Of one that runs on, take a [`Snapshot`](crate::Snapshot).
///
/// # Errors
/// If `live` is finished already, cannot be read, or `path` cannot be written; then nothing is left behind.
pub fn finish_with(
    live: &Ledger,
    path: &Path,
    more: More<'_>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Finished, SourceError> {
    if live.is_finished() {
        return Err(SourceError::AlreadyFinished(live.path().to_owned()));
    }
    let failed = |reason| SourceError::Write { path: path.to_owned(), reason };
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = Temporary(Some(path.with_file_name(name)));
    let temporary_path = temporary.0.clone().unwrap_or_default();
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary_path);
    let finished = write_all(live, file.map_err(failed)?, more, progress, &failed)?;
    std::fs::rename(&temporary_path, path).map_err(failed)?;
    temporary.keep();
    Ok(finished)
}

/// Removes the file when something fails half way.
struct Temporary(Option<PathBuf>);

impl Temporary {
    fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // Nothing better can be done about a file that cannot be removed.
            let _ = std::fs::remove_file(path);
        }
    }
}

fn write_all(
    live: &Ledger,
    file: File,
    more: More<'_>,
    progress: &mut dyn FnMut(u64, u64),
    failed: &dyn Fn(io::Error) -> SourceError,
) -> Result<Finished, SourceError> {
    let mut header = live.current_header()?;
    let (rows, timeline) = rows_and_timeline(live, &header, more.timeline)?;
    let kept = kept(&rows);
    let labelled = rows.iter().any(|row| row.kind == SectionKind::LabelColumn as u16);
    let mut finished_header = Header::new(header.codec, header.layout, header.options);
    finished_header.limit_counters(header.global_count(), header.counter_count());
    for kind in kept.iter().copied().chain(labelled.then_some(SectionKind::LabelColumn as u16)) {
        finished_header.add_section(SectionRow { kind, ..SectionRow::default() });
    }
    let pieces_at = (finished_header.bytes() as u64 + 4).next_multiple_of(ALIGN_BYTES as u64);
    let mut total = 0u64;
    for kind in &kept {
        total += live.count(*kind)?.saturating_mul(live.element_bytes(*kind) as u64);
    }

    let mut finished = Finished::default();
    let target = Target { file: &file, failed, at: pieces_at, total, progress };
    let (bytes, counts) = write_pieces(target, |out| {
        let mut counts = BTreeMap::new();
        for kind in &kept {
            let written = if *kind == SectionKind::Timeline as u16 {
                write_timeline(live, &timeline, out)?
            } else {
                write_section(live, *kind, more.pairs, out)?
            };
            counts.insert(*kind, written.count);
            if *kind == SectionKind::Records as u16 {
                counts.insert(SectionKind::LabelColumn as u16, written.labels);
            }
            finished.in_flight += written.in_flight;
        }
        Ok(counts)
    })?;
    finished.bytes = bytes;
    // Counters last: by then they hold at least what the records hold.
    header = live.current_header()?;
    finished.records = counts.get(&(SectionKind::Records as u16)).copied().unwrap_or(0);
    finished.history = counts.get(&(SectionKind::History as u16)).copied().unwrap_or(0);
    for row in &rows {
        let place = finished_header.sections_mut().iter_mut().find(|kept| kept.kind == row.kind);
        if let (Some(place), Some(count)) = (place, counts.get(&row.kind).copied()) {
            let element_bytes = row.element_bytes;
            // The capacity stays: it tells how much history there was room for.
            let capacity = row.capacity;
            *place = SectionRow { kind: row.kind, element_bytes, offset: 0, capacity, used: count, backed: count };
        }
    }
    copy_figures(&header, &mut finished_header);
    finished_header.flags |= flag::FINISHED;
    let mut bytes = vec![0u8; HEADER_BYTES_MAX + 16];
    let length = finished_header.write(&mut bytes).ok_or_else(|| failed(io::Error::other("the header is too long")))?;
    let crc = crc32(bytes.get(..length).unwrap_or(&[]));
    CODEC.put(&mut bytes, length, 4, u64::from(crc));
    file.write_all_at(bytes.get(..pieces_at as usize).unwrap_or(&[]), 0).map_err(failed)?;
    Ok(finished)
}

/// All but layout and sections.
pub(crate) fn copy_figures(from: &Header, to: &mut Header) {
    use heapledger_format::GlobalCounter;
    to.machine = from.machine;
    to.flags = from.flags;
    to.tick_ns = from.tick_ns;
    to.start_unix_ns = from.start_unix_ns;
    to.id = from.id;
    to.order_bound = from.order_bound;
    to.busy = from.busy;
    to.state = from.state;
    to.depth_limit = from.depth_limit;
    for counter in GlobalCounter::ALL {
        to.set_global(*counter, from.global(*counter));
    }
    for counter in TallyCounter::ALL {
        to.set_tally(*counter, from.tally(*counter));
    }
}

/// The sections that there will be, and the figures over time. What somebody saw from outside may be all that there is of these.
fn rows_and_timeline(
    live: &Ledger,
    header: &Header,
    outside: &[TimePoint],
) -> Result<(Vec<SectionRow>, Vec<TimePoint>), SourceError> {
    let timeline = live.timeline_with(outside)?;
    let mut rows = header.sections().to_vec();
    let kind = SectionKind::Timeline as u16;
    if !timeline.is_empty() && !rows.iter().any(|row| row.kind == kind) {
        rows.push(SectionRow { kind, ..SectionRow::default() });
    }
    // As we write them, whoever had written them before.
    for row in rows.iter_mut().filter(|row| row.kind == kind) {
        row.element_bytes = TimePoint::bytes(header.codec.word) as u16;
        row.capacity = row.capacity.max(timeline.len() as u64);
    }
    Ok((rows, timeline))
}

/// Writes figures over time as they come.
fn write_timeline(live: &Ledger, points: &[TimePoint], out: &mut Out<'_>) -> Result<Written, SourceError> {
    let codec = live.header().codec;
    let mut element = vec![0u8; TimePoint::bytes(codec.word)];
    let mut filler = Filler::new(SectionKind::Timeline as u16, element.len(), out);
    for point in points {
        point.write(codec, &mut element);
        filler.add(&element)?;
    }
    filler.flush()?;
    Ok(Written { count: filler.count, ..Written::default() })
}

/// What was written of a section.
#[derive(Default)]
struct Written {
    count: u64,
    /// Of the records: how many labels stand beside them.
    labels: u64,
    /// Elements that were being written.
    in_flight: u64,
}

/// Writes a section, and the labels beside it.
fn write_section(
    live: &Ledger,
    kind: u16,
    extra: &[(&str, String)],
    out: &mut Out<'_>,
) -> Result<Written, SourceError> {
    let element_bytes = live.element_bytes(kind);
    if element_bytes == 0 {
        return Ok(Written::default());
    }
    let mut filler = Filler::new(kind, element_bytes, out).with_room(live.count(kind)?);
    let mut written = Written::default();
    match SectionKind::from_number(kind).unwrap_or(SectionKind::Events) {
        SectionKind::Process => {
            for byte in process_bytes(live, extra)?.chunks(PIECE_BYTES) {
                filler.add(byte)?;
            }
        }
        SectionKind::Tallies => {
            let element = folded_tallies(live, element_bytes)?;
            filler.add(&element)?;
        }
        SectionKind::Wide => live.for_each_chunk(kind, &mut |_, bytes| {
            filler.out.seen += bytes.len() as u64;
            let entered = |element: &&[u8]| live.header().codec.u64(element, wide::NUMBER) != 0;
            bytes.chunks_exact(element_bytes).filter(entered).try_for_each(|element| filler.add(element))
        })?,
        SectionKind::Records => {
            let mut walk = Walk::new(Elements::records(live).with_column());
            let mut labels = Beside::new(SectionKind::LabelColumn as u16, live.element_bytes(SectionKind::LabelColumn));
            let (mut chunk, mut beside) = (Vec::new(), Vec::new());
            loop {
                chunk.clear();
                beside.clear();
                let step = walk.step(&mut |_, element, label| {
                    chunk.extend_from_slice(element);
                    beside.extend(label);
                })?;
                if !step {
                    break;
                }
                filler.out.seen += crate::ledger::CHUNK_BYTES as u64;
                // Labels first: a ledger that is cut has the labels of the records that it has.
                labels.add(&label_bytes(live, &beside), filler.out)?;
                filler.add(&chunk)?;
            }
            written = Written { count: 0, labels: labels.finish(filler.out)?, in_flight: walk.in_flight };
        }
        SectionKind::History => {
            written.in_flight = history::in_order(&Elements::history(live), &mut |elements| {
                filler.out.seen += elements.len() as u64;
                filler.add(elements)
            })?;
        }
        _ => live.for_each_chunk(kind, &mut |_, bytes| {
            filler.out.seen += bytes.len() as u64;
            filler.add(bytes)
        })?,
    }
    filler.flush()?;
    Ok(Written { count: filler.count, ..written })
}

/// Labels as elements of their section.
pub(crate) fn label_bytes(ledger: &Ledger, labels: &[LabelId]) -> Vec<u8> {
    let element_bytes = ledger.element_bytes(SectionKind::LabelColumn);
    let mut bytes = vec![0u8; labels.len() * element_bytes];
    for (element, label) in bytes.chunks_exact_mut(element_bytes.max(1)).zip(labels) {
        ledger.header().codec.put(element, 0, label_column::BYTES, u64::from(label.0));
    }
    bytes
}

/// The process section with `extra` behind it; an older value of the same key goes.
fn process_bytes(live: &Ledger, extra: &[(&str, String)]) -> Result<Vec<u8>, SourceError> {
    let taken = [
        (key::LEDGER_BYTES, live.storage()?.ledger_bytes.to_string()),
        (storage::SECTIONS_KEY, storage::sections_text(&live.current_header()?)),
    ];
    let mut bytes = Vec::new();
    let mut add = |key: &str, value: &[u8]| {
        bytes.extend_from_slice(key.as_bytes());
        bytes.push(b'=');
        bytes.extend(value.iter().filter(|byte| **byte != 0));
        bytes.push(0);
    };
    // What somebody else knows better: a copy takes other storage than the ledger that it was made of.
    let taken = taken.into_iter().filter(|(key, _)| !extra.iter().any(|(known, _)| known == key)).collect::<Vec<_>>();
    for (key, value) in live.process().pairs() {
        if !extra.iter().chain(&taken).any(|(newer, _)| newer == key) {
            add(key, value);
        }
    }
    for (key, value) in extra.iter().chain(&taken) {
        add(key, value.as_bytes());
    }
    Ok(bytes)
}

/// All elements of the tallies summed into one. The header's share stays in the header.
fn folded_tallies(live: &Ledger, element_bytes: usize) -> Result<Vec<u8>, SourceError> {
    let codec = live.header().codec;
    let word_bytes = codec.word.bytes();
    let mut sums = [0u64; TALLY_WORDS];
    live.for_each_chunk(SectionKind::Tallies, &mut |_, bytes| {
        for element in bytes.chunks_exact(element_bytes) {
            for (index, sum) in sums.iter_mut().enumerate() {
                *sum = sum.wrapping_add(codec.word(element, index * word_bytes));
            }
        }
        Ok(())
    })?;
    const { assert!(TALLY_WORDS == TALLY_KINDS_AT + 2 * KIND_LIMIT) };
    let mut element = vec![0u8; element_bytes];
    for (index, sum) in sums.iter().enumerate() {
        codec.put(&mut element, index * word_bytes, word_bytes, *sum);
    }
    Ok(element)
}
