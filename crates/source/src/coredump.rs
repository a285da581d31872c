//! What a core dump, or another image of memory, says: which memory lies where in it, and whose it was.
//!
//! Only headers and notes are read, by position: a core dump may be larger than the machine's memory.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use heapledger_format::bytes::{ByteOrder, Codec, WordSize};
use heapledger_format::session::ending;

use crate::SourceError;
use crate::file::{FilePiece, LedgerFile};

const ELF_MAGIC: &[u8] = b"\x7fELF";
const ET_CORE: u16 = 4;
const PT_LOAD: u32 = 1;
const PT_NOTE: u32 = 4;
const PF_WRITE: u32 = 2;
/// The number of program headers that stands for "more than fit": section header 0 has the real one.
const PN_XNUM: u64 = 0xffff;
/// Most segments that are kept: Linux allows a process 65,530 mappings unless told otherwise.
const SEGMENTS_MAX: usize = 1 << 20;
/// Bytes of program headers read at a time.
const READ_BYTES: usize = 64 << 10;
/// Most notes that are looked at: a thread has five or six.
const NOTES_MAX: usize = 1 << 20;
/// Longest note that is looked into.
const NOTE_BYTES_MAX: u32 = 16 << 20;
const NT_PRSTATUS: u32 = 1;
const NT_PRPSINFO: u32 = 3;
const NT_FILE: u32 = 0x4649_4c45;
/// Bytes of a 64-bit Linux `prpsinfo`, and the least of a `prstatus`.
const PRPSINFO_BYTES: usize = 136;
const PRSTATUS_BYTES: usize = 36;

/// A range of memory, and where it lies in the core dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) address: u64,
    /// Bytes that are really in the file.
    pub(crate) bytes: u64,
    pub(crate) place: u64,
    pub(crate) writable: bool,
}

/// A ledger's file that the process had mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MappedLedger {
    /// Where its first byte was mapped.
    pub(crate) address: u64,
    pub(crate) path: PathBuf,
}

/// Memory that was saved, as far as the file tells: a core dump, by its headers, or anything else.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemoryImage {
    /// Whether it is a core dump.
    pub(crate) is_core: bool,
    /// Whether it is known where the memory was; else addresses are places in the file.
    pub(crate) has_addresses: bool,
    /// What has bytes in the file, by address.
    pub(crate) segments: Vec<Segment>,
    pub(crate) ledgers: Vec<MappedLedger>,
    /// The process; `None` if the core does not say.
    pub(crate) pid: Option<u32>,
    /// The signal that it was written for; `None` if there was none or the core does not say.
    pub(crate) signal: Option<u32>,
    /// Whether the file ends before what its headers tell of.
    pub(crate) cut: bool,
    /// Whether bytes were changed on the way, as a checksum says.
    pub(crate) altered: bool,
    /// Whether ESP-IDF has written it.
    pub(crate) is_esp: bool,
}

/// What an ELF file is.
#[derive(Debug)]
pub(crate) enum Elf {
    /// No ELF file at all.
    None,
    /// An executable, a library, an object file.
    Other,
    /// A core dump.
    Core(MemoryImage),
}

/// Places of the fields of ELF headers of one word size.
struct Places {
    header: usize,
    phoff: usize,
    shoff: usize,
    phentsize: usize,
    section_info: u64,
    phdr: usize,
    flags: usize,
    offset: usize,
    vaddr: usize,
    filesz: usize,
}

const PLACES_32: Places = Places {
    header: 52,
    phoff: 28,
    shoff: 32,
    phentsize: 42,
    section_info: 28,
    phdr: 32,
    flags: 24,
    offset: 4,
    vaddr: 8,
    filesz: 16,
};
const PLACES_64: Places = Places {
    header: 64,
    phoff: 32,
    shoff: 40,
    phentsize: 54,
    section_info: 44,
    phdr: 56,
    flags: 4,
    offset: 8,
    vaddr: 16,
    filesz: 32,
};

impl MemoryImage {
    /// A file with so many bytes of memory as they were, the first at `base`; `None`: nobody knows where.
    pub(crate) fn plain(bytes: u64, base: Option<u64>) -> MemoryImage {
        let segment = Segment { address: base.unwrap_or(0), bytes, place: 0, writable: true };
        MemoryImage { has_addresses: base.is_some(), segments: vec![segment], ..MemoryImage::default() }
    }

    /// Looks at the headers of `file`.
    ///
    /// # Errors
    /// If the file cannot be read, or is a core dump that ends within its headers.
    pub(crate) fn open(file: &LedgerFile) -> Result<Elf, SourceError> {
        let mut header = [0u8; 64];
        let there = file.read_at(&mut header, 0)?;
        if !header.starts_with(ELF_MAGIC) {
            return Ok(Elf::None);
        }
        let damaged = |what| SourceError::CoreDamaged { path: file.path().to_owned(), what };
        let order = match header[5] {
            1 => ByteOrder::Little,
            2 => ByteOrder::Big,
            _ => return Err(damaged("its byte order is neither of the two")),
        };
        let (word, places) = match header[4] {
            1 => (WordSize::W32, PLACES_32),
            2 => (WordSize::W64, PLACES_64),
            _ => return Err(damaged("its word size is neither of the two")),
        };
        if there < places.header {
            return Err(damaged("it ends within its first header"));
        }
        let codec = Codec { order, word };
        if codec.u16(&header, 16) != ET_CORE {
            return Ok(Elf::Other);
        }
        let mut core = MemoryImage { is_core: true, has_addresses: true, ..MemoryImage::default() };
        let mut any_flags = false;
        let entry_bytes = usize::from(codec.u16(&header, places.phentsize));
        if entry_bytes < places.phdr {
            return Err(damaged("its program headers are too short"));
        }
        let mut count = u64::from(codec.u16(&header, places.phentsize + 2));
        if count == PN_XNUM {
            let mut info = [0u8; 4];
            let place = codec.word(&header, places.shoff).saturating_add(places.section_info);
            if file.read_at(&mut info, place)? == info.len() {
                count = u64::from(codec.u32(&info, 0));
            }
        }
        let length = file.metadata()?.len();
        let mut notes = Vec::new();
        let mut at = codec.word(&header, places.phoff);
        // What the file cannot hold needs no room.
        let there = length.saturating_sub(at) / entry_bytes as u64;
        if there == 0 && count > 0 {
            return Err(damaged("it ends before its program headers"));
        }
        core.cut = there < count;
        let mut left = count.min(there);
        let mut bytes = vec![0u8; READ_BYTES.max(entry_bytes)];
        while left > 0 {
            let room = ((bytes.len() / entry_bytes) as u64).min(left) as usize * entry_bytes;
            let there = file.read_at(bytes.get_mut(..room).unwrap_or(&mut []), at)?;
            if there < entry_bytes {
                core.cut = true;
                break;
            }
            for entry in bytes.get(..there).unwrap_or(&[]).chunks_exact(entry_bytes) {
                let (kind, place) = (codec.u32(entry, 0), codec.word(entry, places.offset));
                let wanted = codec.word(entry, places.filesz);
                let bytes = wanted.min(length.saturating_sub(place));
                core.cut |= bytes < wanted;
                if kind == PT_NOTE {
                    notes.push((place, bytes));
                } else if kind == PT_LOAD && bytes > 0 && core.segments.len() < SEGMENTS_MAX {
                    let address = codec.word(entry, places.vaddr);
                    let flags = codec.u32(entry, places.flags);
                    any_flags |= flags != 0;
                    let writable = flags & PF_WRITE != 0;
                    core.segments.push(Segment { address, bytes, place, writable });
                }
            }
            left -= (there / entry_bytes) as u64;
            at = at.saturating_add(there as u64);
        }
        core.segments.sort_by_key(|segment| segment.address);
        if !any_flags {
            // Emulators do not say what can be written.
            core.segments.iter_mut().for_each(|segment| segment.writable = true);
        }
        let mut looked_at = 0;
        for (place, bytes) in notes {
            core.read_notes(file, codec, place, bytes, &mut looked_at)?;
        }
        Ok(Elf::Core(core))
    }

    fn read_notes(
        &mut self,
        file: &LedgerFile,
        codec: Codec,
        place: u64,
        bytes: u64,
        looked_at: &mut usize,
    ) -> Result<(), SourceError> {
        let mut at = 0u64;
        while at < bytes && *looked_at < NOTES_MAX {
            *looked_at += 1;
            let mut head = [0u8; 12];
            if file.read_at(&mut head, place.saturating_add(at))? < head.len() {
                self.cut = true;
                break;
            }
            let (name_bytes, length, kind) = (codec.u32(&head, 0), codec.u32(&head, 4), codec.u32(&head, 8));
            let start = at + 12 + u64::from(name_bytes).next_multiple_of(4);
            at = start + u64::from(length).next_multiple_of(4);
            let wanted = matches!(kind, NT_PRSTATUS | NT_PRPSINFO | NT_FILE);
            if !wanted || length > NOTE_BYTES_MAX || start.saturating_add(u64::from(length)) > bytes {
                continue;
            }
            let mut note = vec![0u8; length as usize];
            if file.read_at(&mut note, place.saturating_add(start))? < note.len() {
                self.cut = true;
                break;
            }
            match kind {
                NT_FILE => self.read_files(codec, &note),
                NT_PRPSINFO if codec.word == WordSize::W64 && note.len() == PRPSINFO_BYTES => {
                    self.pid = Some(codec.u32(&note, 24));
                }
                // The thread that was hit comes first.
                NT_PRSTATUS if codec.word == WordSize::W64 && note.len() >= PRSTATUS_BYTES => {
                    self.signal.get_or_insert(u32::from(codec.u16(&note, 12)));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The list of mapped files: a count, the size of a page, (start, end, page of the file) for each, their names.
    fn read_files(&mut self, codec: Codec, note: &[u8]) {
        let word = codec.word.bytes();
        let count = codec.word(note, 0).min((note.len() / (3 * word)) as u64) as usize;
        let mut names = note.get((2 + 3 * count) * word..).unwrap_or(&[]).split(|byte| *byte == 0);
        for index in 0..count {
            let at = (2 + 3 * index) * word;
            let Some(name) = names.next() else { break };
            let name = name.strip_suffix(b" (deleted)").unwrap_or(name);
            let is_first_page = codec.word(note, at + 2 * word) == 0;
            // Only the first one is asked for; forged lists may have any number.
            if is_first_page && self.ledgers.is_empty() && name.ends_with(ending::LIVE.as_bytes()) {
                let path = PathBuf::from(OsString::from_vec(name.to_vec()));
                self.ledgers.push(MappedLedger { address: codec.word(note, at), path });
            }
        }
    }

    /// The memory from `address` on, as parts of the file. What was not dumped is a gap.
    pub(crate) fn parts_from(&self, address: u64) -> Vec<FilePiece> {
        let mut parts: Vec<FilePiece> = Vec::new();
        let mut end = 0u64;
        for segment in &self.segments {
            let skipped = address.saturating_sub(segment.address);
            if skipped >= segment.bytes {
                continue;
            }
            let mut part = FilePiece {
                at: segment.address.saturating_add(skipped) - address,
                bytes: segment.bytes - skipped,
                place: segment.place.saturating_add(skipped),
            };
            // Forged segments may overlap: the first one counts.
            let overlap = end.saturating_sub(part.at);
            if overlap >= part.bytes {
                continue;
            }
            part = FilePiece {
                at: part.at + overlap,
                bytes: part.bytes - overlap,
                place: part.place.saturating_add(overlap),
            };
            end = part.at.saturating_add(part.bytes);
            parts.push(part);
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_in_order_and_leave_gaps() {
        let segment = |address, bytes, place| Segment { address, bytes, place, writable: true };
        let segments = vec![
            segment(0x1000, 0x1000, 100),
            segment(0x2000, 0x800, 9000),
            segment(0x2400, 0x1000, 5),
            segment(0x9000, 1, 1),
        ];
        let core = MemoryImage { segments, ..MemoryImage::default() };
        let parts = core.parts_from(0x1800);
        let expected = [
            FilePiece { at: 0, bytes: 0x800, place: 100 + 0x800 },
            FilePiece { at: 0x800, bytes: 0x800, place: 9000 },
            FilePiece { at: 0x1000, bytes: 0xc00, place: 5 + 0x400 },
            FilePiece { at: 0x7800, bytes: 1, place: 1 },
        ];
        assert_eq!(parts, expected);
        assert!(core.parts_from(0x9001).is_empty());
    }

    #[test]
    fn the_list_of_files_is_read() {
        let codec = Codec { order: ByteOrder::Little, word: WordSize::W64 };
        let mut note = Vec::new();
        for word in [3u64, 1, 0x1000, 0x2000, 0, 0x5000, 0x6000, 0, 0x6000, 0x7000, 4096] {
            note.extend(word.to_le_bytes());
        }
        note.extend(b"/usr/bin/x\0/dev/shm/a-0.hlive (deleted)\0/dev/shm/a-0.hlive\0");
        let mut core = MemoryImage::default();
        core.read_files(codec, &note);
        assert_eq!(core.ledgers, [MappedLedger { address: 0x5000, path: "/dev/shm/a-0.hlive".into() }]);
        // Cut, or with a count that cannot be: what is there counts.
        for length in 0..note.len() {
            MemoryImage::default().read_files(codec, &note[..length]);
        }
        note[..8].copy_from_slice(&u64::MAX.to_le_bytes());
        MemoryImage::default().read_files(codec, &note);
    }
}
