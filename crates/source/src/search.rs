//! Looks for ledgers and for anchors in memory, by their magic.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use heapledger_format::header::{HEADER_BYTES_MAX, Header, MAGIC, flag};
use heapledger_format::{SectionKind, anchor};
use nix::unistd::{Whence, lseek};

use crate::SourceError;
use crate::coredump::MemoryImage;
use crate::file::{FilePiece, LedgerFile};

/// Bytes looked through at a time.
const CHUNK_BYTES: usize = 1 << 20;
/// Ledgers and anchors begin at multiples of this.
const ALIGN_BYTES: usize = 4;
/// Anchors in a core dump begin at multiples of this.
const PAGE_BYTES: u64 = 4096;
/// Most hits that are looked into: text may hold the magic a million times.
const HITS_MAX: usize = 10_000;
/// Most segments that are looked at for all hits together: for each hit all of them are. A forged file may have any number of both.
const SEGMENTS_MAX: usize = 100_000_000;

/// What a recorded program leaves in a page of private memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Anchor {
    /// The live file.
    pub(crate) path: PathBuf,
    pub(crate) id: [u8; 16],
    /// Where the program worked when it started; a finished ledger goes there unless told otherwise.
    pub(crate) cwd: Option<PathBuf>,
}

impl Anchor {
    fn parse(bytes: &[u8]) -> Option<Anchor> {
        let text = anchor::Text::parse(bytes)?;
        let path = |bytes: &[u8]| PathBuf::from(OsString::from_vec(bytes.to_vec()));
        let cwd = text.value(b"cwd").map(path);
        // The directory of ledgers may have been given relative to where the program was started.
        let live = cwd.clone().unwrap_or_default().join(path(text.path));
        Some(Anchor { path: live, id: text.id, cwd })
    }
}

/// Something found.
#[derive(Debug)]
pub(crate) enum Hit {
    Anchor(Anchor),
    /// A ledger begins at this address, and its records are there.
    Ledger(u64),
    /// The header of a ledger is at this address, and its records are not in this memory: the rest of it is missing,
    /// or somebody had a copy of a header.
    Header(u64),
}

/// Looks through what is writable of memory; `each` says whether to go on. Small segments come first, because an anchor is a page of its
/// own.
///
/// # Errors
/// If the file cannot be read.
pub(crate) fn search(
    file: &LedgerFile,
    image: &MemoryImage,
    each: &mut dyn FnMut(Hit) -> bool,
) -> Result<(), SourceError> {
    let mut hits = 0;
    let hits_max = (SEGMENTS_MAX / image.segments.len().max(1)).min(HITS_MAX);
    // Forged segments may be the same part of the file, over and over.
    let mut left = if file.is_in_parts() { u64::MAX } else { file.metadata()?.len() };
    let mut segments: Vec<_> = image.segments.iter().filter(|segment| segment.writable).collect();
    segments.sort_by_key(|segment| segment.bytes);
    for segment in segments {
        let part = FilePiece { at: segment.address, bytes: segment.bytes.min(left), place: segment.place };
        left -= part.bytes;
        let more = through(file, part, &mut |address| {
            hits += 1;
            let kept = look(file, image, address)?;
            Ok(hits < hits_max && kept.is_none_or(&mut *each))
        })?;
        if !more {
            break;
        }
    }
    Ok(())
}

/// Hears the address of each magic; says whether to go on.
type EachMagic<'a> = dyn FnMut(u64) -> Result<bool, SourceError> + 'a;

/// Looks for the magic in a part of the file, holes left out; false if `each` wanted no more.
fn through(file: &LedgerFile, part: FilePiece, each: &mut EachMagic<'_>) -> Result<bool, SourceError> {
    let end = part.place.saturating_add(part.bytes);
    let mut bytes = vec![0u8; CHUNK_BYTES.min(part.bytes as usize)];
    let mut place = part.place;
    while place < end {
        // Where the system cannot tell holes, they are read like anything else.
        if let Ok(data) = lseek(file.file(), i64::try_from(place).unwrap_or(i64::MAX), Whence::SeekData) {
            let skipped = u64::try_from(data).unwrap_or(0).saturating_sub(place);
            place += skipped / ALIGN_BYTES as u64 * ALIGN_BYTES as u64;
        } else if lseek(file.file(), 0, Whence::SeekData).is_ok() {
            // Holes can be told, and there is nothing else from here on.
            break;
        }
        let room = bytes.len().min(end.saturating_sub(place) as usize);
        let there = file.read_at(bytes.get_mut(..room).unwrap_or(&mut []), place)?;
        let chunk = bytes.get(..there).unwrap_or(&[]);
        for index in positions(chunk) {
            let inside = place - part.place + index as u64;
            if !each(part.at.saturating_add(inside))? {
                return Ok(false);
            }
        }
        if there < MAGIC.len() || place.saturating_add(there as u64) >= end {
            break;
        }
        // A magic that begins in this chunk may end in the next.
        place += (there - MAGIC.len() + 1).next_multiple_of(ALIGN_BYTES) as u64;
    }
    Ok(true)
}

/// Where the magic lies, at multiples of the alignment.
fn positions(bytes: &[u8]) -> impl Iterator<Item = usize> {
    let first: [u8; ALIGN_BYTES] = [MAGIC[0], MAGIC[1], MAGIC[2], MAGIC[3]];
    let begun = bytes.chunks_exact(ALIGN_BYTES).enumerate().filter(move |(_, word)| **word == first);
    begun.map(|(index, _)| index * ALIGN_BYTES).filter(|at| bytes.get(*at..*at + MAGIC.len()) == Some(&MAGIC))
}

/// The memory from `address` on.
pub(crate) fn memory(file: &LedgerFile, image: &MemoryImage, address: u64) -> LedgerFile {
    file.within(image.parts_from(address))
}

/// What begins at `address`: an anchor, a ledger, or neither.
fn look(file: &LedgerFile, image: &MemoryImage, address: u64) -> Result<Option<Hit>, SourceError> {
    let memory = memory(file, image, address);
    let mut bytes = vec![0u8; HEADER_BYTES_MAX];
    let there = memory.read_at(&mut bytes, 0)?;
    let bytes = bytes.get(..there).unwrap_or(&[]);
    let may_be_anchor = !image.is_core || address.is_multiple_of(PAGE_BYTES);
    if let Some(anchor) = Anchor::parse(bytes).filter(|_| may_be_anchor) {
        return Ok(Some(Hit::Anchor(anchor)));
    }
    let Ok(header) = Header::parse(bytes) else { return Ok(None) };
    let Some(records) = header.section(SectionKind::Records) else { return Ok(None) };
    let in_place =
        header.flags & flag::FINISHED == 0 && records.element_bytes > 0 && records.offset >= header.bytes() as u64;
    let there = memory.end_from(records.offset)? > records.offset;
    Ok(in_place.then_some(if there { Hit::Ledger(address) } else { Hit::Header(address) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_magic_is_found_where_it_is_aligned() {
        let mut bytes = vec![0u8; 100];
        for at in [0, 13, 40, 96] {
            if let Some(place) = bytes.get_mut(at..at + MAGIC.len()) {
                place.copy_from_slice(&MAGIC);
            }
        }
        assert_eq!(positions(&bytes).collect::<Vec<_>>(), [0, 40]);
        bytes[92..].copy_from_slice(&MAGIC);
        assert_eq!(positions(&bytes).collect::<Vec<_>>(), [0, 40, 92]);
        assert_eq!(positions(&bytes[..99]).count(), 2);
    }

    #[test]
    fn a_magic_across_two_chunks_is_found_once() {
        let path = std::env::temp_dir().join(format!("heapledger-search-{}", std::process::id()));
        let mut bytes = vec![1u8; 3 * CHUNK_BYTES];
        let places = [CHUNK_BYTES - 8, CHUNK_BYTES - 4 + CHUNK_BYTES, 3 * CHUNK_BYTES - 8];
        for at in places {
            bytes[at..at + 8].copy_from_slice(&MAGIC);
        }
        std::fs::write(&path, &bytes).expect("written");
        let file = LedgerFile::open(&path, &path).expect("opened");
        let mut seen = Vec::new();
        let part = FilePiece { at: 0x1000, bytes: bytes.len() as u64, place: 0 };
        let all = through(&file, part, &mut |address| {
            seen.push(address);
            Ok(true)
        });
        assert!(all.expect("read"));
        std::fs::remove_file(&path).expect("removed");
        assert_eq!(seen, places.map(|place| place as u64 + 0x1000));
    }
}
