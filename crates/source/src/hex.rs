//! Memory in lines of text that say where it was: Intel HEX, as debuggers and `objcopy` write it.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::str;

use ihex::Record;
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::os::unix::fs::FileExt;

use crate::SourceError;
use crate::coredump::{MemoryImage, Segment};
use crate::file::LedgerFile;

/// Longest line: 255 bytes, five more, and ends of lines.
const LINE_BYTES_MAX: u64 = 530;

/// Whether a file that begins so has lines of Intel HEX.
pub fn is_hex(begin: &[u8]) -> bool {
    let line = begin.split(|byte| *byte == b'\n').next().unwrap_or_default();
    record(line).is_some_and(|record| record.is_ok())
}

/// What a line says; `None` if it is no text.
fn record(line: &[u8]) -> Option<Result<Record, ihex::ReaderError>> {
    Some(Record::from_record_string(str::from_utf8(line).ok()?.trim_ascii()))
}

/// Reads a file from its beginning on, wherever others have read it.
pub(crate) struct FromStart<'f> {
    file: &'f LedgerFile,
    at: u64,
}

impl<'f> FromStart<'f> {
    pub(crate) fn new(file: &'f LedgerFile) -> Self {
        FromStart { file, at: 0 }
    }
}

impl Read for FromStart<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self.file.read_as_far(bytes, self.at) {
            (0, Some(reason)) => Err(reason),
            (count, _) => {
                self.at += count as u64;
                Ok(count)
            }
        }
    }
}

/// The memory that a hex file holds, in a file without a name in which each byte lies at its address.
///
/// # Errors
/// If the file cannot be read, a line other than the last is none, or there is no memory for it.
pub(crate) fn decode(file: &LedgerFile) -> Result<(LedgerFile, MemoryImage), SourceError> {
    let memory = memfd_create("memory", MFdFlags::MFD_CLOEXEC).map_err(|reason| file.failed(reason.into()))?;
    let memory = File::from(memory);
    let mut lines = BufReader::new(FromStart::new(file));
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    let (mut upper, mut number, mut has_end) = (0u64, 0u64, false);
    let mut line = Vec::new();
    while !has_end {
        line.clear();
        number += 1;
        let read =
            (&mut lines).take(LINE_BYTES_MAX).read_until(b'\n', &mut line).map_err(|reason| file.failed(reason))?;
        if read == 0 {
            break;
        }
        let is_last = line.last() != Some(&b'\n');
        if line.trim_ascii().is_empty() {
            continue;
        }
        match record(&line) {
            Some(Ok(Record::Data { offset, value })) => {
                let begin = upper + u64::from(offset);
                memory.write_all_at(&value, begin).map_err(|reason| file.failed(reason))?;
                let end = begin + value.len() as u64;
                match ranges.last_mut() {
                    Some(last) if last.1 == begin => last.1 = end,
                    _ => ranges.push((begin, end)),
                }
            }
            Some(Ok(Record::ExtendedLinearAddress(address))) => upper = u64::from(address) << 16,
            Some(Ok(Record::ExtendedSegmentAddress(address))) => upper = u64::from(address) << 4,
            Some(Ok(Record::EndOfFile)) => has_end = true,
            Some(Ok(_)) => {}
            // The file was cut.
            _ if is_last && read < LINE_BYTES_MAX as usize => break,
            Some(Err(reason)) => return Err(damaged(file, number, reason.to_string())),
            None => return Err(damaged(file, number, "it is no text".to_owned())),
        }
    }
    ranges.sort_unstable();
    let mut segments: Vec<Segment> = Vec::new();
    for (begin, end) in ranges {
        match segments.last_mut() {
            // What lies over it was written later.
            Some(last) if begin <= last.address + last.bytes => last.bytes = last.bytes.max(end - last.address),
            _ => segments.push(Segment { address: begin, bytes: end - begin, place: begin, writable: true }),
        }
    }
    let image = MemoryImage { has_addresses: true, segments, cut: !has_end, ..MemoryImage::default() };
    Ok((LedgerFile::of_file(memory, file.path()), image))
}

fn damaged(file: &LedgerFile, line: u64, reason: String) -> SourceError {
    SourceError::HexDamaged { path: file.path().to_owned(), line, reason }
}
