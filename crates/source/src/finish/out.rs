//! Elements become pieces: gathered, packed by other threads, written in order.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Mutex, PoisonError};

use heapledger_format::piece::{
    ALIGN_BYTES, END_MAGIC, HEADER_BYTES, INDEX_BYTES, INDEX_KIND, Packing, PieceHeader, TRAILER_BYTES,
};

use super::CODEC;
use crate::SourceError;
use crate::planes::to_planes;

/// Bytes of a piece before it is packed.
pub(super) const PIECE_BYTES: usize = 1 << 20;
/// Measured on 20 million records as planes: level 3 takes a third longer for the same size, level -1 makes pieces a
/// quarter larger.
const ZSTD_LEVEL: i32 = 1;
/// Pieces on their way at a time.
const PIECES_UNDER_WAY: usize = 6;
/// Threads that pack. More would take the machine from the person who waits for it.
const PACKERS: usize = 2;
/// What has fewer bytes is packed by who writes it: a piece or two, for which threads would take longer to start, each with tables of its
/// own, than they save.
const SMALL_BYTES: u64 = 2 << 20;

/// Where a file is written, and who hears of it.
pub(super) struct Target<'a> {
    pub(super) file: &'a File,
    /// What went wrong, with the name of the file.
    pub(super) failed: &'a dyn Fn(io::Error) -> SourceError,
    /// Where the first piece goes.
    pub(super) at: u64,
    /// Bytes that will be read.
    pub(super) total: u64,
    /// Hears of bytes read and bytes in all.
    pub(super) progress: &'a mut dyn FnMut(u64, u64),
}

/// Calls `fill` with what packs and writes pieces to `target`, and writes the index behind them. Gives the bytes of the
/// file, and what `fill` gave.
pub(super) fn write_pieces<T>(
    target: Target<'_>,
    fill: impl FnOnce(&mut Out<'_>) -> Result<T, SourceError>,
) -> Result<(u64, T), SourceError> {
    let Target { file, failed, at, total, progress } = target;
    let (jobs, job_queue) = sync_channel::<Job>(PIECES_UNDER_WAY);
    let (results, done) = channel::<Packed>();
    let job_queue = Mutex::new(job_queue);
    let (index, end, given) = std::thread::scope(|scope| {
        let own = (total < SMALL_BYTES).then(Packer::new);
        for _ in 0..if own.is_some() { 0 } else { PACKERS } {
            let results: Sender<Packed> = results.clone();
            let job_queue = &job_queue;
            scope.spawn(move || pack_all(job_queue, &results));
        }
        drop(results);
        let (index, waiting) = (Vec::new(), BTreeMap::new());
        let mut out = Out {
            file,
            failed,
            jobs,
            done,
            own,
            numbered: 0,
            written: 0,
            waiting,
            spare: Vec::new(),
            at,
            index,
            seen: 0,
            total,
            progress,
        };
        let given = fill(&mut out)?;
        out.flush()?;
        Ok::<_, SourceError>((std::mem::take(&mut out.index), out.at, given))
    })?;
    Ok((write_index(file, &index, end).map_err(failed)?, given))
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
pub(super) struct Filler<'a, 'b> {
    kind: u16,
    element_bytes: usize,
    bytes: Vec<u8>,
    /// Elements that were added.
    pub(super) count: u64,
    pub(super) out: &'a mut Out<'b>,
}

impl<'a, 'b> Filler<'a, 'b> {
    pub(super) fn new(kind: u16, element_bytes: usize, out: &'a mut Out<'b>) -> Filler<'a, 'b> {
        Filler { kind, element_bytes, bytes: Vec::new(), count: 0, out }
    }

    /// With room for so many elements, as far as they are of one piece.
    pub(super) fn with_room(mut self, count: u64) -> Filler<'a, 'b> {
        let wanted = usize::try_from(count).unwrap_or(usize::MAX).saturating_mul(self.element_bytes);
        self.bytes.reserve(wanted.min(PIECE_BYTES));
        self
    }

    /// Adds whole elements.
    pub(super) fn add(&mut self, mut elements: &[u8]) -> Result<(), SourceError> {
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

    pub(super) fn flush(&mut self) -> Result<(), SourceError> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        // What was not full is the last of its section, or nearly so.
        let room = if self.bytes.len() + self.element_bytes > PIECE_BYTES { PIECE_BYTES } else { 0 };
        let bytes = std::mem::take(&mut self.bytes);
        let count = (bytes.len() / self.element_bytes) as u64;
        let first = self.count;
        self.count += count;
        let element_bytes = self.element_bytes as u16;
        self.out.push(Job { number: 0, kind: self.kind, element_bytes, first, count, bytes })?;
        if room != 0 {
            self.bytes = self.out.spare.pop().unwrap_or_default();
            self.bytes.clear();
            self.bytes.reserve(room);
        }
        Ok(())
    }
}

/// Elements of a second section, gathered while those of a first are: their pieces come to lie between the others.
pub(super) struct Beside {
    kind: u16,
    element_bytes: usize,
    bytes: Vec<u8>,
    /// Elements that were added.
    pub(super) count: u64,
}

impl Beside {
    pub(super) fn new(kind: u16, element_bytes: usize) -> Beside {
        Beside { kind, element_bytes, bytes: Vec::new(), count: 0 }
    }

    /// Adds whole elements.
    pub(super) fn add(&mut self, elements: &[u8], out: &mut Out<'_>) -> Result<(), SourceError> {
        self.bytes.extend_from_slice(elements);
        let mut filler = Filler::new(self.kind, self.element_bytes, out);
        (filler.bytes, filler.count) = (std::mem::take(&mut self.bytes), self.count);
        if filler.bytes.len() >= PIECE_BYTES {
            filler.flush()?;
        }
        (self.bytes, self.count) = (std::mem::take(&mut filler.bytes), filler.count);
        Ok(())
    }

    /// Writes what is gathered still; gives the number of all.
    pub(super) fn finish(mut self, out: &mut Out<'_>) -> Result<u64, SourceError> {
        let mut filler = Filler::new(self.kind, self.element_bytes, out);
        (filler.bytes, filler.count) = (std::mem::take(&mut self.bytes), self.count);
        filler.flush()?;
        Ok(filler.count)
    }
}

struct Job {
    number: u64,
    kind: u16,
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
    /// The memory in which the elements came, to be filled again: the kernel takes as long to give such memory as packing does.
    spare: Vec<u8>,
}

/// Makes pieces.
struct Packer {
    compressor: Option<zstd::bulk::Compressor<'static>>,
    /// Kept from one piece to the next.
    turned: Vec<u8>,
    packed: Vec<u8>,
}

fn pack_all(jobs: &Mutex<Receiver<Job>>, results: &Sender<Packed>) {
    let mut packer = Packer::new();
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = job else { return };
        if results.send(packer.pack(job)).is_err() {
            return;
        }
    }
}

impl Packer {
    fn new() -> Packer {
        let compressor = zstd::bulk::Compressor::new(ZSTD_LEVEL).ok();
        Packer { compressor, turned: Vec::new(), packed: Vec::new() }
    }

    /// Packs `bytes` into `packed`. False if that cannot be done.
    fn compress(compressor: Option<&mut zstd::bulk::Compressor<'static>>, bytes: &[u8], packed: &mut Vec<u8>) -> bool {
        packed.clear();
        packed.reserve(zstd::zstd_safe::compress_bound(bytes.len()));
        compressor.is_some_and(|compressor| compressor.compress_to_buffer(bytes, packed).is_ok())
    }

    fn pack(&mut self, job: Job) -> Packed {
        let Packer { compressor, turned, packed } = self;
        let (packing, bytes) = match usize::from(job.element_bytes) {
            0 | 1 => (Packing::Zstd, &job.bytes),
            element_bytes => {
                to_planes(&job.bytes, element_bytes, turned);
                (Packing::ZstdPlanes, &*turned)
            }
        };
        let is_packed = Self::compress(compressor.as_mut(), bytes, packed) && packed.len() < job.bytes.len();
        let (packing, payload) = if is_packed { (packing, &*packed) } else { (Packing::None, &job.bytes) };
        let header = PieceHeader {
            kind: job.kind,
            element_bytes: job.element_bytes,
            packing,
            payload_crc: crc32fast::hash(payload),
            first: job.first,
            count: job.count,
            packed_bytes: payload.len() as u32,
            unpacked_bytes: job.bytes.len() as u32,
        };
        let mut bytes = Vec::with_capacity(header.stride() as usize);
        bytes.extend_from_slice(&header.to_bytes());
        bytes.extend_from_slice(payload);
        bytes.resize(header.stride() as usize, 0);
        Packed { number: job.number, header, bytes, spare: job.bytes }
    }
}

/// The file that grows. Pieces are packed by others, in any order, and written in order.
pub(super) struct Out<'a> {
    file: &'a File,
    failed: &'a dyn Fn(io::Error) -> SourceError,
    jobs: SyncSender<Job>,
    done: Receiver<Packed>,
    /// Packs here and now; `None`: others do.
    own: Option<Packer>,
    numbered: u64,
    written: u64,
    waiting: BTreeMap<u64, Packed>,
    /// Memory of pieces that are packed.
    spare: Vec<Vec<u8>>,
    at: u64,
    index: Vec<u8>,
    /// Bytes read, of `total`.
    pub(super) seen: u64,
    total: u64,
    progress: &'a mut dyn FnMut(u64, u64),
}

impl Out<'_> {
    fn push(&mut self, mut job: Job) -> Result<(), SourceError> {
        while self.numbered - self.written >= PIECES_UNDER_WAY as u64 {
            self.receive()?;
        }
        while let Ok(packed) = self.done.try_recv() {
            self.write(packed)?;
        }
        job.number = self.numbered;
        self.numbered += 1;
        (self.progress)(self.seen.min(self.total), self.total);
        if let Some(packer) = &mut self.own {
            let packed = packer.pack(job);
            return self.write(packed);
        }
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
        self.write(packed)
    }

    /// Writes it, if those before it are written; else when they are.
    fn write(&mut self, mut packed: Packed) -> Result<(), SourceError> {
        let spare = std::mem::take(&mut packed.spare);
        if spare.capacity() >= PIECE_BYTES && self.spare.len() < PIECES_UNDER_WAY {
            self.spare.push(spare);
        }
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
