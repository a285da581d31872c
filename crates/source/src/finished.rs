//! A finished ledger: pieces, found by the index or, where that is damaged, by walking the chain.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use heapledger_format::bytes::{ByteOrder, Codec, WordSize};
use heapledger_format::header::Header;
use heapledger_format::piece::{
    ALIGN_BYTES, END_MAGIC, HEADER_BYTES, INDEX_BYTES, INDEX_KIND, MAGIC, Packing, PieceHeader, TRAILER_BYTES,
};
use heapledger_format::{SectionKind, crc::crc32};

use crate::cache::Cache;
use crate::file::LedgerFile;
use crate::planes::from_planes;
use crate::{Damage, SourceError, locked};

/// Numbers of the container, whatever the ledger's own are.
const CODEC: Codec = Codec { order: ByteOrder::Little, word: WordSize::W64 };
/// Bytes of unpacked pieces kept.
const CACHE_BYTES: usize = 64 << 20;
/// A section of no more than so many bytes, in so few pieces, stays unpacked: a summary goes through it several times.
const KEPT_BYTES: u64 = 4 << 20;
const KEPT_PIECES: usize = 16;
/// Bytes looked through at a time for the next piece.
const SEARCH_BYTES: usize = 64 << 10;

/// Where a piece lies and what it says it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PieceRef {
    pub(crate) kind: u16,
    pub(crate) first: u64,
    pub(crate) count: u64,
    pub(crate) at: u64,
}

/// The bytes of a piece, and a place in them.
type HeldPiece = (Arc<[u8]>, usize);

/// Elements of one section that were looked into last: what is asked for next often lies among them.
#[derive(Default)]
pub(crate) struct Near {
    bytes: Option<Arc<[u8]>>,
    first: u64,
}

#[derive(Debug)]
pub(crate) struct Pieces {
    pub(crate) file: LedgerFile,
    /// By kind, then by first element; none overlaps another.
    refs: Vec<PieceRef>,
    damage: Mutex<Damage>,
    bad: Mutex<HashSet<u64>>,
    cache: Mutex<Cache<u64>>,
    /// Pieces of the history that were unpacked: most are asked for once, and they are the largest. Who asks again gets them kept.
    once: Mutex<HashSet<u64>>,
}

impl Pieces {
    /// Finds the pieces behind `header`.
    pub(crate) fn open(file: LedgerFile, header: &Header, header_bytes: &[u8]) -> Result<Pieces, SourceError> {
        let mut damage = Damage::default();
        let length = header.bytes();
        let stored = header_bytes.get(length..length + 4).map(|_| CODEC.u32(header_bytes, length));
        damage.header = stored.is_some_and(|crc| header_bytes.get(..length).map(crc32) != Some(crc));
        let file_bytes = file.metadata()?.len();
        let start = (length as u64 + 4).next_multiple_of(ALIGN_BYTES as u64);
        let mut refs = match Self::from_index(&file, file_bytes)? {
            Some(refs) => refs,
            None => Self::walk(&file, start, file_bytes, &mut damage)?,
        };
        refs.sort_by_key(|piece| (piece.kind, piece.first));
        let mut end = (0, 0);
        refs.retain(|piece| {
            let apart = piece.kind != end.0 || piece.first >= end.1;
            if apart {
                end = (piece.kind, piece.first.saturating_add(piece.count));
            } else {
                damage.pieces_lost += 1;
            }
            apart
        });
        let pieces = Pieces {
            file,
            refs,
            damage: Mutex::new(damage),
            bad: Mutex::default(),
            cache: Mutex::new(Cache::new(CACHE_BYTES)),
            once: Mutex::default(),
        };
        pieces.count_missing(header);
        Ok(pieces)
    }

    fn from_index(file: &LedgerFile, file_bytes: u64) -> Result<Option<Vec<PieceRef>>, SourceError> {
        let mut trailer = [0u8; TRAILER_BYTES];
        let Some(trailer_at) = file_bytes.checked_sub(TRAILER_BYTES as u64) else { return Ok(None) };
        if file.read_at(&mut trailer, trailer_at)? < TRAILER_BYTES || trailer.get(8..) != Some(&END_MAGIC) {
            return Ok(None);
        }
        let at = CODEC.u64(&trailer, 0);
        let Some(header) = Self::piece_header(file, at)?.filter(|header| header.kind == INDEX_KIND) else {
            return Ok(None);
        };
        let mut index = Vec::new();
        if !Unpacker::default().unpack(file, at, &header, file_bytes, &mut index)? {
            return Ok(None);
        }
        let refs = index.chunks_exact(INDEX_BYTES).map(|element| PieceRef {
            at: CODEC.u64(element, 0),
            first: CODEC.u64(element, 8),
            count: CODEC.u64(element, 16),
            kind: CODEC.u16(element, 24),
        });
        Ok(Some(refs.collect()))
    }

    fn walk(file: &LedgerFile, start: u64, file_bytes: u64, damage: &mut Damage) -> Result<Vec<PieceRef>, SourceError> {
        let mut refs = Vec::new();
        let mut at = start;
        let mut whole = false;
        while at < file_bytes {
            if file_bytes - at == TRAILER_BYTES as u64 {
                let mut trailer = [0u8; TRAILER_BYTES];
                file.read_at(&mut trailer, at)?;
                if trailer.get(8..) == Some(&END_MAGIC) {
                    whole = true;
                    break;
                }
            }
            match Self::piece_header(file, at)? {
                Some(header) => {
                    let end = at.saturating_add(HEADER_BYTES as u64 + u64::from(header.packed_bytes));
                    if end > file_bytes {
                        damage.pieces_lost += 1;
                        break;
                    }
                    if header.kind != INDEX_KIND && header.element_bytes > 0 {
                        refs.push(PieceRef { kind: header.kind, first: header.first, count: header.count, at });
                    }
                    at = at.saturating_add(header.stride());
                }
                None => {
                    let next = Self::search(file, at + ALIGN_BYTES as u64, file_bytes)?;
                    damage.bytes_skipped += next.unwrap_or(file_bytes) - at;
                    match next {
                        Some(next) => at = next,
                        None => break,
                    }
                }
            }
        }
        if !whole {
            damage.cut_at = Some(file_bytes);
        }
        Ok(refs)
    }

    /// The next place from `at` on where a piece's header checks out.
    fn search(file: &LedgerFile, mut at: u64, file_bytes: u64) -> Result<Option<u64>, SourceError> {
        // The blocks overlap by a header, so that none is cut in two.
        let mut bytes = vec![0u8; SEARCH_BYTES + HEADER_BYTES];
        while at < file_bytes {
            let there = file.read_at(&mut bytes, at)?;
            let block = bytes.get(..there).unwrap_or(&[]);
            for place in (0..there.min(SEARCH_BYTES)).step_by(ALIGN_BYTES) {
                let candidate = block.get(place..).unwrap_or(&[]);
                if candidate.starts_with(&MAGIC) && PieceHeader::parse(candidate).is_some() {
                    return Ok(Some(at + place as u64));
                }
            }
            if there < SEARCH_BYTES {
                break;
            }
            at += SEARCH_BYTES as u64;
        }
        Ok(None)
    }

    fn piece_header(file: &LedgerFile, at: u64) -> Result<Option<PieceHeader>, SourceError> {
        let mut bytes = [0u8; HEADER_BYTES];
        let there = file.read_at(&mut bytes, at)?;
        Ok(PieceHeader::parse(bytes.get(..there).unwrap_or(&[])))
    }

    fn count_missing(&self, header: &Header) {
        let mut missing = 0u64;
        for section in header.sections() {
            let held: u64 = self.of_number(section.kind).iter().map(|piece| piece.count).sum();
            missing = missing.saturating_add(section.used.saturating_sub(held));
        }
        locked(&self.damage).elements_missing = missing;
    }

    pub(crate) fn damage(&self) -> Damage {
        *locked(&self.damage)
    }

    fn of_number(&self, kind: u16) -> &[PieceRef] {
        let start = self.refs.partition_point(|piece| piece.kind < kind);
        let end = self.refs.partition_point(|piece| piece.kind <= kind);
        self.refs.get(start..end).unwrap_or(&[])
    }

    /// The pieces of a section, in order.
    pub(crate) fn of(&self, kind: impl Into<u16>) -> &[PieceRef] {
        self.of_number(kind.into())
    }

    /// Elements that there are pieces for.
    pub(crate) fn count(&self, kind: impl Into<u16>) -> u64 {
        self.of(kind).iter().fold(0, |sum, piece| sum.saturating_add(piece.count))
    }

    /// Bytes of the file that the pieces of a section take, their headers and padding included.
    pub(crate) fn packed_bytes(&self, kind: impl Into<u16>) -> Result<u64, SourceError> {
        self.of(kind).iter().try_fold(0u64, |sum, piece| {
            let bytes = Self::piece_header(&self.file, piece.at)?.map_or(0, |header| header.stride());
            Ok(sum.saturating_add(bytes))
        })
    }

    /// The bytes of a piece, into `elements`; false if it is damaged, which is counted once.
    pub(crate) fn load(
        &self,
        piece: &PieceRef,
        element_bytes: usize,
        unpacker: &mut Unpacker,
        elements: &mut Vec<u8>,
    ) -> Result<bool, SourceError> {
        if locked(&self.bad).contains(&piece.at) {
            elements.clear();
            return Ok(false);
        }
        let is_kept = self.is_kept(piece, element_bytes);
        let held = if is_kept { locked(&self.cache).get(piece.at) } else { None };
        if let Some(held) = held {
            elements.clear();
            elements.extend_from_slice(&held);
            return Ok(true);
        }
        let header = Self::piece_header(&self.file, piece.at)?.filter(|header| {
            (header.kind, header.first, header.count) == (piece.kind, piece.first, piece.count)
                && usize::from(header.element_bytes) == element_bytes
        });
        let whole = match header {
            Some(header) => unpacker.unpack(&self.file, piece.at, &header, self.file.metadata()?.len(), elements)?,
            None => false,
        };
        if !whole {
            elements.clear();
            if locked(&self.bad).insert(piece.at) {
                let mut damage = locked(&self.damage);
                damage.pieces_lost += 1;
                damage.elements_missing = damage.elements_missing.saturating_add(piece.count);
            }
        } else if is_kept && (piece.kind != SectionKind::History as u16 || !locked(&self.once).insert(piece.at)) {
            locked(&self.cache).put(piece.at, Arc::from(elements.as_slice()));
        }
        Ok(whole)
    }

    /// Whether the section of a piece is so small that it stays unpacked.
    fn is_kept(&self, piece: &PieceRef, element_bytes: usize) -> bool {
        let pieces = self.of_number(piece.kind);
        pieces.len() <= KEPT_PIECES && self.count(piece.kind).saturating_mul(element_bytes as u64) <= KEPT_BYTES
    }

    /// The piece that holds element `index`, and how far in that element lies.
    fn holding(&self, kind: SectionKind, element_bytes: usize, index: u64) -> Result<Option<HeldPiece>, SourceError> {
        let pieces = self.of(kind);
        let after = pieces.partition_point(|piece| piece.first <= index);
        let Some(piece) = after.checked_sub(1).and_then(|at| pieces.get(at)) else { return Ok(None) };
        let inside = index - piece.first;
        if inside >= piece.count {
            return Ok(None);
        }
        let held = locked(&self.cache).get(piece.at);
        let bytes = match held {
            Some(bytes) => bytes,
            None => {
                let mut bytes = Vec::new();
                if !self.load(piece, element_bytes, &mut Unpacker::default(), &mut bytes)? {
                    return Ok(None);
                }
                let kept = locked(&self.cache).get(piece.at);
                kept.unwrap_or_else(|| {
                    let bytes: Arc<[u8]> = bytes.into();
                    locked(&self.cache).put(piece.at, Arc::clone(&bytes));
                    bytes
                })
            }
        };
        Ok(Some((bytes, inside as usize * element_bytes)))
    }

    /// One element; false if it is not there. `near`: of this section.
    pub(crate) fn element(
        &self,
        kind: SectionKind,
        element_bytes: usize,
        index: u64,
        near: &mut Near,
        out: &mut [u8],
    ) -> Result<bool, SourceError> {
        let inside = index.checked_sub(near.first).and_then(|inside| usize::try_from(inside).ok());
        let place = inside.and_then(|inside| inside.checked_mul(element_bytes));
        let in_bytes = |bytes: &Arc<[u8]>| place.is_some_and(|at| at < bytes.len());
        let (bytes, at) = match (near.bytes.as_ref().filter(|bytes| in_bytes(bytes)), place) {
            (Some(bytes), Some(at)) => (bytes, at),
            _ => {
                let Some((bytes, at)) = self.holding(kind, element_bytes, index)? else { return Ok(false) };
                near.first = index - (at / element_bytes.max(1)) as u64;
                (&*near.bytes.insert(bytes), at)
            }
        };
        let Some(element) = bytes.get(at..at + element_bytes) else { return Ok(false) };
        let shared = out.len().min(element.len());
        if let (Some(out), Some(element)) = (out.get_mut(..shared), element.get(..shared)) {
            out.copy_from_slice(element);
        }
        Ok(true)
    }

    /// Bytes of a section whose elements are bytes, up to the first that is not there.
    pub(crate) fn byte_range(&self, kind: SectionKind, first: u64, count: u64) -> Result<Vec<u8>, SourceError> {
        let mut bytes = Vec::new();
        self.append(kind, 1, first, count, &mut bytes)?;
        Ok(bytes)
    }

    /// Appends elements from `first` on to `out`, up to the first that is not there.
    pub(crate) fn append(
        &self,
        kind: SectionKind,
        element_bytes: usize,
        first: u64,
        count: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), SourceError> {
        let mut done = 0;
        while done < count {
            let Some(index) = first.checked_add(done) else { break };
            let Some((piece, at)) = self.holding(kind, element_bytes, index)? else { break };
            let there = (piece.len().saturating_sub(at) / element_bytes.max(1)) as u64;
            let some = there.min(count - done);
            out.extend_from_slice(piece.get(at..at + some as usize * element_bytes).unwrap_or(&[]));
            if some == 0 {
                break;
            }
            done += some;
        }
        Ok(())
    }
}

/// Checks and unpacks payloads. Keeps its memory from one piece to the next.
#[derive(Default)]
pub(crate) struct Unpacker {
    zstd: Option<zstd::bulk::Decompressor<'static>>,
    packed: Vec<u8>,
    planes: Vec<u8>,
}

impl Unpacker {
    /// The payload of the piece at `at`, into `out`; false if it is damaged.
    fn unpack(
        &mut self,
        file: &LedgerFile,
        at: u64,
        header: &PieceHeader,
        file_bytes: u64,
        out: &mut Vec<u8>,
    ) -> Result<bool, SourceError> {
        let place = at.saturating_add(HEADER_BYTES as u64);
        if place.saturating_add(u64::from(header.packed_bytes)) > file_bytes {
            return Ok(false);
        }
        self.packed.resize(header.packed_bytes as usize, 0);
        if file.read_at(&mut self.packed, place)? < self.packed.len()
            || crc32fast::hash(&self.packed) != header.payload_crc
        {
            return Ok(false);
        }
        let length = header.unpacked_bytes as usize;
        match header.packing {
            Packing::None => std::mem::swap(out, &mut self.packed),
            Packing::Zstd => {
                if !Self::decompress(&mut self.zstd, &self.packed, length, out) {
                    return Ok(false);
                }
            }
            Packing::ZstdPlanes => {
                if !Self::decompress(&mut self.zstd, &self.packed, length, &mut self.planes) {
                    return Ok(false);
                }
                from_planes(&self.planes, usize::from(header.element_bytes), out);
            }
        }
        Ok(true)
    }

    fn decompress(
        zstd: &mut Option<zstd::bulk::Decompressor<'static>>,
        packed: &[u8],
        length: usize,
        out: &mut Vec<u8>,
    ) -> bool {
        if zstd.is_none() {
            *zstd = zstd::bulk::Decompressor::new().ok();
        }
        out.clear();
        out.reserve(length);
        let done = zstd.as_mut().and_then(|zstd| zstd.decompress_to_buffer(packed, out).ok());
        done.is_some() && out.len() == length
    }
}
