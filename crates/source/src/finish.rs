//! Writes a finished ledger from a live one.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Mutex, PoisonError};

use heapledger_format::bytes::{ByteOrder, Codec, WordSize};
use heapledger_format::counter::{TALLY_KINDS_AT, TALLY_WORDS};
use heapledger_format::crc::crc32;
use heapledger_format::header::{HEADER_BYTES_MAX, Header, flag};
use heapledger_format::kind::KIND_LIMIT;
use heapledger_format::piece::{
    ALIGN_BYTES, END_MAGIC, HEADER_BYTES, INDEX_BYTES, INDEX_KIND, Packing, PieceHeader, TRAILER_BYTES,
};
use heapledger_format::section::{SectionRow, wide};
use heapledger_format::{SectionKind, TallyCounter};

use crate::SourceError;
use crate::ledger::Ledger;
use crate::planes::to_planes;
use crate::records::{Elements, Walk};
use crate::storage;

/// Bytes of a piece before it is packed.
const PIECE_BYTES: usize = 1 << 20;
/// Measured on 20 million records as planes: level 3 takes a third longer for the same size, level -1 makes pieces a
/// quarter larger.
const ZSTD_LEVEL: i32 = 1;
/// Threads that pack. More would take the machine from the person who waits for it.
const PACKERS: usize = 2;
/// Pieces on their way at a time.
const PIECES_UNDER_WAY: usize = 6;

const CODEC: Codec = Codec { order: ByteOrder::Little, word: WordSize::W64 };

/// Sections in the order in which they are written: small ones first, so that a ledger cut while it is
/// copied still names what it has. The index is left out: records move.
const ORDER: &[SectionKind] = &[
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
    SectionKind::Anchors,
    SectionKind::Pcs,
    SectionKind::Sites,
    SectionKind::Wide,
    SectionKind::History,
    SectionKind::Records,
];

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

/// Writes the finished ledger of `live` to `path`, replacing what is there: first under a temporary name
/// beside it, then renamed. `extra` is appended to what is known of the process. `progress` hears of bytes
/// done and bytes in all, at most once a piece.
///
/// Meant for a program that has ended. Of one that runs on, take a [`Snapshot`](crate::Snapshot).
///
/// # Errors
/// If `live` is finished already, cannot be read, or `path` cannot be written; then nothing is left behind.
pub fn finish(
    live: &Ledger,
    path: &Path,
    extra: &[(&str, String)],
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
    let finished = write_all(live, file.map_err(failed)?, extra, progress, &failed)?;
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
    extra: &[(&str, String)],
    progress: &mut dyn FnMut(u64, u64),
    failed: &dyn Fn(io::Error) -> SourceError,
) -> Result<Finished, SourceError> {
    let mut header = live.current_header()?;
    let rows: Vec<SectionRow> = header.sections().to_vec();
    let kept: Vec<SectionKind> =
        ORDER.iter().copied().filter(|kind| rows.iter().any(|row| row.kind == *kind as u16)).collect();
    let mut finished_header = Header::new(header.codec, header.layout, header.options);
    finished_header.limit_counters(header.global_count(), header.counter_count());
    for kind in &kept {
        finished_header.add_section(SectionRow { kind: *kind as u16, ..SectionRow::default() });
    }
    let pieces_at = (finished_header.bytes() as u64 + 4).next_multiple_of(ALIGN_BYTES as u64);
    let mut total = 0u64;
    for kind in &kept {
        total += live.count(*kind)?.saturating_mul(live.element_bytes(*kind) as u64);
    }

    let (jobs, job_queue) = sync_channel::<Job>(PIECES_UNDER_WAY);
    let (results, done) = channel::<Packed>();
    let job_queue = Mutex::new(job_queue);
    let mut finished = Finished::default();
    let (index, end) = std::thread::scope(|scope| {
        for _ in 0..PACKERS {
            let results: Sender<Packed> = results.clone();
            let job_queue = &job_queue;
            scope.spawn(move || pack_all(job_queue, &results));
        }
        drop(results);
        let mut out = Out {
            file: &file,
            failed,
            jobs,
            done,
            numbered: 0,
            written: 0,
            waiting: BTreeMap::new(),
            at: pieces_at,
            index: Vec::new(),
            seen: 0,
            total,
            progress,
        };
        let mut counts = BTreeMap::new();
        for kind in &kept {
            let (count, in_flight) = write_section(live, *kind, extra, &mut out)?;
            counts.insert(*kind as u16, count);
            finished.in_flight += in_flight;
        }
        out.flush()?;
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
        Ok::<_, SourceError>((std::mem::take(&mut out.index), out.at))
    })?;

    finished.bytes = write_index(&file, &index, end).map_err(failed)?;
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

/// Writes a section; returns how many elements it has now, and how many were being written.
fn write_section(
    live: &Ledger,
    kind: SectionKind,
    extra: &[(&str, String)],
    out: &mut Out<'_>,
) -> Result<(u64, u64), SourceError> {
    let element_bytes = live.element_bytes(kind);
    if element_bytes == 0 {
        return Ok((0, 0));
    }
    let mut filler = Filler { kind, element_bytes, bytes: Vec::new(), count: 0, out };
    let mut in_flight = 0;
    match kind {
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
            let mut walk = Walk::new(Elements::records(live));
            let mut chunk = Vec::new();
            loop {
                chunk.clear();
                if !walk.step(&mut |_, element| chunk.extend_from_slice(element))? {
                    break;
                }
                filler.out.seen += crate::ledger::CHUNK_BYTES as u64;
                filler.add(&chunk)?;
            }
            in_flight = walk.in_flight;
        }
        SectionKind::History => {
            let mut walk = Walk::new(Elements::history(live));
            let mut held: Vec<u8> = Vec::new();
            let mut order: Vec<(u64, usize)> = Vec::new();
            while walk.step(&mut |decoder, element| {
                order.push((decoder.freed_commit(element), held.len()));
                held.extend_from_slice(element);
            })? {}
            filler.out.seen += held.len() as u64;
            order.sort_unstable();
            for (_, at) in order {
                filler.add(held.get(at..at + element_bytes).unwrap_or(&[]))?;
            }
            in_flight = walk.in_flight;
        }
        _ => live.for_each_chunk(kind, &mut |_, bytes| {
            filler.out.seen += bytes.len() as u64;
            filler.add(bytes)
        })?,
    }
    filler.flush()?;
    Ok((filler.count, in_flight))
}

/// The process section with `extra` behind it; an older value of the same key goes.
fn process_bytes(live: &Ledger, extra: &[(&str, String)]) -> Result<Vec<u8>, SourceError> {
    let taken = [
        ("ledger_bytes", live.storage()?.ledger_bytes.to_string()),
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

fn write_index(file: &File, index: &[u8], at: u64) -> io::Result<u64> {
    let header = PieceHeader {
        kind: INDEX_KIND,
        element_bytes: INDEX_BYTES as u16,
        packing: Packing::None,
        payload_crc: crc32fast::hash(index),
        first: 0,
        count: (index.len() / INDEX_BYTES) as u64,
        packed_bytes: index.len() as u32,
        unpacked_bytes: index.len() as u32,
    };
    let mut bytes = header.to_bytes().to_vec();
    bytes.extend_from_slice(index);
    bytes.resize(header.stride() as usize, 0);
    let mut trailer = [0u8; TRAILER_BYTES];
    CODEC.put(&mut trailer, 0, 8, at);
    for (place, byte) in trailer.iter_mut().skip(8).zip(END_MAGIC) {
        *place = byte;
    }
    bytes.extend_from_slice(&trailer);
    file.write_all_at(&bytes, at)?;
    Ok(at + bytes.len() as u64)
}

/// Gathers elements until they make a piece.
struct Filler<'a, 'b> {
    kind: SectionKind,
    element_bytes: usize,
    bytes: Vec<u8>,
    count: u64,
    out: &'a mut Out<'b>,
}

impl Filler<'_, '_> {
    /// Adds whole elements.
    fn add(&mut self, mut elements: &[u8]) -> Result<(), SourceError> {
        let room = (PIECE_BYTES / self.element_bytes).max(1) * self.element_bytes;
        while !elements.is_empty() {
            let (now, later) = elements.split_at(elements.len().min(room - self.bytes.len()));
            self.bytes.extend_from_slice(now);
            elements = later;
            if self.bytes.len() == room {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), SourceError> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        let bytes = std::mem::replace(&mut self.bytes, Vec::with_capacity(PIECE_BYTES));
        let count = (bytes.len() / self.element_bytes) as u64;
        let first = self.count;
        self.count += count;
        self.out.push(Job { number: 0, kind: self.kind, element_bytes: self.element_bytes as u16, first, count, bytes })
    }
}

struct Job {
    number: u64,
    kind: SectionKind,
    element_bytes: u16,
    first: u64,
    count: u64,
    bytes: Vec<u8>,
}

struct Packed {
    number: u64,
    header: PieceHeader,
    /// Header, payload and padding.
    bytes: Vec<u8>,
}

fn pack_all(jobs: &Mutex<Receiver<Job>>, results: &Sender<Packed>) {
    let mut compressor = zstd::bulk::Compressor::new(ZSTD_LEVEL).ok();
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = job else { return };
        let (packing, turned) = match usize::from(job.element_bytes) {
            0 | 1 => (Packing::Zstd, None),
            element_bytes => (Packing::ZstdPlanes, Some(to_planes(&job.bytes, element_bytes))),
        };
        let bytes = turned.as_ref().unwrap_or(&job.bytes);
        let packed = compressor.as_mut().and_then(|compressor| compressor.compress(bytes).ok());
        let (packing, payload) = match packed {
            Some(packed) if packed.len() < job.bytes.len() => (packing, packed),
            _ => (Packing::None, job.bytes.clone()),
        };
        let header = PieceHeader {
            kind: job.kind as u16,
            element_bytes: job.element_bytes,
            packing,
            payload_crc: crc32fast::hash(&payload),
            first: job.first,
            count: job.count,
            packed_bytes: payload.len() as u32,
            unpacked_bytes: job.bytes.len() as u32,
        };
        let mut bytes = Vec::with_capacity(header.stride() as usize);
        bytes.extend_from_slice(&header.to_bytes());
        bytes.extend_from_slice(&payload);
        bytes.resize(header.stride() as usize, 0);
        if results.send(Packed { number: job.number, header, bytes }).is_err() {
            return;
        }
    }
}

/// The file that grows. Pieces are packed by others, in any order, and written in order.
struct Out<'a> {
    file: &'a File,
    failed: &'a dyn Fn(io::Error) -> SourceError,
    jobs: SyncSender<Job>,
    done: Receiver<Packed>,
    numbered: u64,
    written: u64,
    waiting: BTreeMap<u64, Packed>,
    at: u64,
    index: Vec<u8>,
    /// Bytes read, of `total`.
    seen: u64,
    total: u64,
    progress: &'a mut dyn FnMut(u64, u64),
}

impl Out<'_> {
    fn push(&mut self, mut job: Job) -> Result<(), SourceError> {
        while self.numbered - self.written >= PIECES_UNDER_WAY as u64 {
            self.receive()?;
        }
        job.number = self.numbered;
        self.numbered += 1;
        (self.progress)(self.seen.min(self.total), self.total);
        self.jobs.send(job).map_err(|_| self.packers_gone())
    }

    fn flush(&mut self) -> Result<(), SourceError> {
        while self.written < self.numbered {
            self.receive()?;
        }
        Ok(())
    }

    fn receive(&mut self) -> Result<(), SourceError> {
        let packed = self.done.recv().map_err(|_| self.packers_gone())?;
        self.waiting.insert(packed.number, packed);
        while let Some(packed) = self.waiting.remove(&self.written) {
            self.file.write_all_at(&packed.bytes, self.at).map_err(self.failed)?;
            let mut element = [0u8; INDEX_BYTES];
            CODEC.put(&mut element, 0, 8, self.at);
            CODEC.put(&mut element, 8, 8, packed.header.first);
            CODEC.put(&mut element, 16, 8, packed.header.count);
            CODEC.put(&mut element, 24, 2, u64::from(packed.header.kind));
            self.index.write_all(&element).map_err(self.failed)?;
            self.at += packed.bytes.len() as u64;
            self.written += 1;
        }
        Ok(())
    }

    fn packers_gone(&self) -> SourceError {
        (self.failed)(io::Error::other("packing stopped"))
    }
}

const _: () = assert!(HEADER_BYTES.is_multiple_of(ALIGN_BYTES) && TRAILER_BYTES.is_multiple_of(ALIGN_BYTES));
