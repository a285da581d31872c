//! Core dumps as ESP-IDF writes them: a header, an ELF core or memory by segments, and a checksum; in the device's flash as they are, and by its serial line as
//! lines of base64 between two that say so.
//!
//! ```text
//! length 4 | version 4 | tasks 4 | bytes of a task's block 4 | [segments 4 | [revision of the chip 4]] | … | checksum 4 or 32
//! ```
//!
//! The version's lower half says what it is: 0.1 to 0.3 memory by segments, 1.0 and 1.2 an ELF core with a CRC-32, 1.1 and 1.3 one with a SHA-256; the header has six words
//! from 0.3 and 1.2 on. Source: ESP-IDF, `components/espcoredump/include_core_dump/esp_core_dump_types.h` and `src`, from v3.2 to v6.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nix::sys::memfd::{MFdFlags, memfd_create};
use sha2::{Digest, Sha256};

use crate::SourceError;
use crate::coredump::{Elf, MemoryImage, Segment};
use crate::file::LedgerFile;
use crate::hex::FromStart;

/// What the lines before and behind a dump say, whatever stands before it.
const START: &[u8] = b"CORE DUMP START =====";
const END: &[u8] = b"CORE DUMP END =====";
/// Longest line that is looked at.
const LINE_BYTES_MAX: u64 = 64 << 10;
/// No chip of this kind has more memory.
const DUMP_BYTES_MAX: u64 = 64 << 20;
/// Bytes of the shortest header: of version 0.1.
const HEADER_BYTES_MIN: usize = 16;
/// Most bytes of a task's control block, and most of a stack, that are taken for one.
const TASK_BYTES_MAX: u64 = 64 << 10;
const STACK_BYTES_MAX: u64 = 1 << 20;

/// What a header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DumpHeader {
    /// Bytes of all of it, header and checksum too.
    length: u64,
    /// Of the header, and of the checksum behind all.
    header_bytes: u64,
    sum_bytes: u64,
    is_elf: bool,
    tasks: u32,
    task_bytes: u32,
}

impl DumpHeader {
    /// What a file's first bytes say, if they can be a header.
    fn parse(begin: &[u8]) -> Option<DumpHeader> {
        let word = |at: usize| Some(u32::from_le_bytes(begin.get(at..at + 4)?.try_into().ok()?));
        let (length, version) = (u64::from(word(0)?), word(4)?);
        let (header_bytes, sum_bytes, is_elf) = match version & 0xFFFF {
            1 => (16, 4, false),
            2 => (20, 4, false),
            3 => (24, 4, false),
            0x100 => (20, 4, true),
            0x101 => (20, 32, true),
            0x102 => (24, 4, true),
            0x103 => (24, 32, true),
            _ => return None,
        };
        let (tasks, task_bytes) = (word(8)?, word(12)?);
        // Numbers of chips are small.
        let is_one = length > header_bytes + sum_bytes && length <= DUMP_BYTES_MAX && version >> 16 < 0x100;
        let is_whole = match begin.get(header_bytes as usize..) {
            Some(rest) if is_elf => rest.len() < 4 || rest.starts_with(b"\x7fELF"),
            _ => is_elf || tasks > 0 && tasks < 1000 && task_bytes > 0 && u64::from(task_bytes) <= TASK_BYTES_MAX,
        };
        (is_one && is_whole).then_some(DumpHeader { length, header_bytes, sum_bytes, is_elf, tasks, task_bytes })
    }
}

/// Whether a file that begins so is a core dump of ESP-IDF, as its flash has it.
pub(crate) fn is_dump(begin: &[u8]) -> bool {
    DumpHeader::parse(begin).is_some()
}

/// Whether a text that begins so is a core dump of ESP-IDF in lines: nothing but these, or with the line that says so.
pub fn is_core_text(begin: &[u8]) -> bool {
    let has_start = || begin.windows(START.len()).any(|bytes| bytes == START);
    let line = begin.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let decoded = STANDARD.decode(line.trim_ascii());
    decoded.is_ok_and(|bytes| bytes.len() >= HEADER_BYTES_MIN && is_dump(&bytes)) || has_start()
}

/// Whether a line says that a dump begins in a file of text, wherever in it. A file that cannot be read has none.
pub fn has_core_text(path: &std::path::Path) -> bool {
    let Ok(file) = LedgerFile::open(path, path) else { return false };
    let mut lines = BufReader::with_capacity(READ_BYTES, FromStart::new(&file));
    let mut kept: Vec<u8> = Vec::new();
    loop {
        let Ok(bytes) = lines.fill_buf() else { return false };
        let there = bytes.len();
        if there == 0 {
            return false;
        }
        kept.extend_from_slice(bytes);
        lines.consume(there);
        if memchr::memmem::find(&kept, START).is_some() {
            return true;
        }
        kept.drain(..kept.len().saturating_sub(START.len()));
    }
}

/// Bytes read at a time.
const READ_BYTES: usize = 64 << 10;

/// The core dump in a file that begins so, as lines or as the flash has it.
///
/// # Errors
/// If it cannot be read, is damaged so that there is no sense in it, or there is no memory for it.
pub(crate) fn open(file: &LedgerFile, begin: &[u8]) -> Result<(LedgerFile, MemoryImage), SourceError> {
    if is_dump(begin) { of_flash(file) } else { of_text(file) }
}

/// The core dump in a text: of several the last.
///
/// # Errors
/// If the file cannot be read, a line of the dump is none, or there is no memory for it.
fn of_text(file: &LedgerFile) -> Result<(LedgerFile, MemoryImage), SourceError> {
    let damaged = |line, reason: String| SourceError::EspLines { path: file.path().to_owned(), line, reason };
    let mut lines = BufReader::new(FromStart::new(file));
    // Without the line that says so, a dump begins with the file.
    let (mut is_inside, mut has_end, mut begun) = (true, false, false);
    let mut bytes: Vec<u8> = Vec::new();
    let mut failure = None;
    let mut number = 0;
    let mut line = Vec::new();
    loop {
        line.clear();
        number += 1;
        let read = std::io::Read::take(&mut lines, LINE_BYTES_MAX).read_until(b'\n', &mut line);
        if read.map_err(|reason| file.failed(reason))? == 0 {
            break;
        }
        if memchr::memmem::find(&line, START).is_some() {
            // What came before was no dump, or another one.
            (is_inside, has_end, begun, failure) = (true, false, true, None);
            bytes.clear();
            continue;
        }
        if memchr::memmem::find(&line, END).is_some() {
            has_end |= is_inside;
            is_inside = false;
            continue;
        }
        // A monitor may have put the time before it.
        let text = line.trim_ascii().rsplit(u8::is_ascii_whitespace).next().unwrap_or_default();
        if !is_inside || text.is_empty() || failure.is_some() {
            continue;
        }
        match STANDARD.decode(text) {
            Ok(more) if (bytes.len() + more.len()) as u64 <= DUMP_BYTES_MAX => bytes.extend(more),
            Ok(_) => failure = Some((number, "it is longer than a device has memory".to_owned())),
            // The file was cut.
            Err(_) if line.last() != Some(&b'\n') => {}
            Err(reason) => failure = Some((number, reason.to_string())),
        }
    }
    match failure {
        Some((line, reason)) => Err(damaged(line, reason)),
        None if !is_dump(&bytes) => Err(SourceError::CoreDamaged {
            path: file.path().to_owned(),
            what: "what its lines hold does not begin as a core dump of ESP-IDF does",
        }),
        None => of_bytes(file, &bytes, has_end || !begun),
    }
}

/// The core dump in a file as the flash has it: what lies behind it (an erased partition) does not belong to it.
///
/// # Errors
/// If the file cannot be read, or there is no memory for it.
fn of_flash(file: &LedgerFile) -> Result<(LedgerFile, MemoryImage), SourceError> {
    let mut bytes = vec![0u8; HEADER_BYTES_MIN];
    let there = file.read_at(&mut bytes, 0)?;
    let length = DumpHeader::parse(bytes.get(..there).unwrap_or(&[])).map_or(0, |header| header.length);
    bytes.resize(length.min(file.metadata()?.len()) as usize, 0);
    let there = file.read_at(&mut bytes, 0)?;
    bytes.truncate(there);
    of_bytes(file, &bytes, true)
}

/// The memory in a dump. What is missing at its end is missing; whether its checksum says something else is told.
fn of_bytes(file: &LedgerFile, bytes: &[u8], has_end: bool) -> Result<(LedgerFile, MemoryImage), SourceError> {
    let damaged = |what| SourceError::CoreDamaged { path: file.path().to_owned(), what };
    let header = DumpHeader::parse(bytes).ok_or_else(|| damaged("its header is not one of ESP-IDF's"))?;
    let is_cut = (bytes.len() as u64) < header.length || !has_end;
    let end = header.length - header.sum_bytes;
    let data = bytes.get(header.header_bytes as usize..bytes.len().min(end as usize)).unwrap_or(&[]);
    let is_altered = !is_cut && {
        let (summed, sum) = bytes.split_at_checked(end as usize).unwrap_or((bytes, &[]));
        let sum = sum.get(..header.sum_bytes as usize).unwrap_or(sum);
        match header.sum_bytes {
            4 => crc32fast::hash(summed).to_le_bytes() != *sum,
            _ => Sha256::digest(summed).as_slice() != sum,
        }
    };
    let memory = memfd_create("core", MFdFlags::MFD_CLOEXEC).map_err(|reason| file.failed(reason.into()))?;
    let memory = File::from(memory);
    memory.write_all_at(data, 0).map_err(|reason| file.failed(reason))?;
    let memory = LedgerFile::of_file(memory, file.path());
    let mut image = if header.is_elf {
        match MemoryImage::open(&memory)? {
            Elf::Core(core) => core,
            Elf::Other | Elf::None => return Err(damaged("what it holds is no ELF core")),
        }
    } else {
        by_segments(data, header)
    };
    image.cut |= is_cut;
    image.altered = is_altered;
    image.is_esp = true;
    Ok((memory, image))
}

/// Memory as versions 0.1 to 0.3 have it: of each task three addresses, its block, its stack; then segments, address and bytes before each.
fn by_segments(data: &[u8], header: DumpHeader) -> MemoryImage {
    let mut image = MemoryImage { is_core: true, has_addresses: true, ..MemoryImage::default() };
    let word = |at: u64| {
        let at = at as usize;
        Some(u64::from(u32::from_le_bytes(data.get(at..at.checked_add(4)?)?.try_into().ok()?)))
    };
    let mut at = 0u64;
    let mut keep = |address: u64, bytes: u64, at: &mut u64| {
        let there = bytes.min((data.len() as u64).saturating_sub(*at));
        if there > 0 {
            image.segments.push(Segment { address, bytes: there, place: *at, writable: true });
        }
        *at = at.saturating_add(bytes);
    };
    for _ in 0..header.tasks {
        let (Some(block), Some(low), Some(high)) = (word(at), word(at + 4), word(at + 8)) else { break };
        // (Stacks grow one way or the other.)
        let (low, high) = (low.min(high), low.max(high));
        at += 12;
        keep(block, u64::from(header.task_bytes), &mut at);
        let stack = (high - low).next_multiple_of(4);
        if stack > STACK_BYTES_MAX {
            break;
        }
        keep(low, stack, &mut at);
    }
    while let (Some(address), Some(bytes)) = (word(at), word(at.saturating_add(4))) {
        at += 8;
        keep(address, bytes, &mut at);
    }
    image.segments.sort_by_key(|segment| segment.address);
    image
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A dump with one task and one segment.
    fn dump(version: u32, segment: (u32, &[u8])) -> Vec<u8> {
        let header = match version & 0xFFFF {
            1 => 4,
            2 => 5,
            _ => 6,
        };
        let mut data: Vec<u32> =
            vec![0x3ffb_0000, 0x3ffb_2000, 0x3ffb_2008, 1, 2, 3, 4, segment.0, segment.1.len() as u32];
        let mut words = vec![0, version, 1, 8, 1, 3];
        words.truncate(header);
        words.append(&mut data);
        let mut bytes: Vec<u8> = words.iter().flat_map(|word: &u32| word.to_le_bytes()).collect();
        bytes.extend(segment.1);
        let length = bytes.len() as u32 + 4;
        bytes[..4].copy_from_slice(&length.to_le_bytes());
        let sum = crc32fast::hash(&bytes);
        bytes.extend(sum.to_le_bytes());
        bytes
    }

    fn opened(bytes: &[u8]) -> Result<(LedgerFile, MemoryImage), SourceError> {
        let path = std::env::temp_dir().join(format!(
            "heapledger-esp-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        ));
        std::fs::write(&path, bytes).expect("written");
        let file = LedgerFile::open(&path, &path).expect("opened");
        let made = if bytes.contains(&0) { of_flash(&file) } else { of_text(&file) };
        std::fs::remove_file(&path).expect("removed");
        made
    }

    #[test]
    fn memory_by_segments_is_where_it_was() {
        for version in [1, 2, 0x5_0003] {
            let bytes = dump(version, (0x3ffc_0000, b"twelve bytes"));
            assert!(is_dump(&bytes));
            // An erased flash lies behind it.
            let (memory, image) = opened(&[bytes.as_slice(), &[0xFF; 40]].concat()).expect("a dump");
            assert!(!image.cut && !image.altered && image.segments.len() == 3, "{image:?}");
            let last = image.segments.last().expect("three");
            assert_eq!((last.address, last.bytes), (0x3ffc_0000, 12));
            let mut there = [0u8; 12];
            assert_eq!(memory.read_at(&mut there, last.place).expect("read"), 12);
            assert_eq!(&there, b"twelve bytes");
            let mut other = bytes.clone();
            let at = other.len() - 6;
            other[at] ^= 1;
            assert!(opened(&other).expect("a dump").1.altered);
        }
    }

    #[test]
    fn whatever_is_cut_or_changed_is_read_or_refused() {
        let bytes = dump(0x5_0003, (0x3ffc_0000, b"twelve bytes"));
        for length in 16..bytes.len() {
            let cut = opened(&bytes[..length]).map(|(_, image)| image.cut);
            assert!(!matches!(cut, Ok(false)), "{length}: {cut:?}");
        }
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut other = bytes.clone();
                other[at] ^= 1 << bit;
                if is_dump(&other) {
                    let made = opened(&other).map(|(_, image)| image.cut || image.altered);
                    assert!(!matches!(made, Ok(false)), "{at}: {made:?}");
                }
            }
        }
    }

    #[test]
    fn lines_may_have_others_around_them_and_times_before_them() {
        let bytes = dump(0x5_0003, (0x3ffc_0000, b"twelve bytes"));
        let lines = |before: &str| -> String {
            bytes.chunks(48).map(|line| format!("{before}{}\r\n", STANDARD.encode(line))).collect()
        };
        let (bare, timed) = (lines(""), lines("2026-11-26 10:00:01.5 "));
        assert!(is_core_text(bare.as_bytes()) && !is_core_text(b"I (27) boot: ESP-IDF\n"));
        let marked = format!(
            "I (27) boot\r\n== CORE DUMP START ======\r\nAAAA\r\n== CORE DUMP START ======\r\n{timed}== CORE DUMP END ======\r\nrst:0x1\r\n"
        );
        assert!(is_core_text(marked.as_bytes()));
        for text in [&bare, &marked] {
            let (_, image) = opened(text.as_bytes()).expect("a dump");
            assert!(!image.cut && !image.altered && image.segments.len() == 3, "{image:?}");
        }
        let text = marked.replacen("== CORE DUMP END ======\r\nrst:0x1\r\n", "", 1);
        assert!(opened(text.as_bytes()).expect("a dump").1.cut);
        // A letter that is none is named.
        let text = marked.replacen("10:00:01.5 ", "10:00:01.5 !", 1);
        let refused = opened(text.as_bytes()).map(|_| ()).expect_err("a damaged line").to_string();
        assert!(refused.contains("line 5"), "{refused}");
    }
}
