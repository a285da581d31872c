//! Files that may be logs: what is named, opened.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use anyhow::{Context, Result};
use heapledger_logs::log::{LogLedger, is_ledger_or_program, is_log, read_streams};
use heapledger_source::{WhichLedger, has_core_text, is_core_text, is_hex};

use super::FromLog;

/// Bytes of a file's beginning by which a log is known.
const BEGIN_BYTES: u64 = 4096;
/// No device with rings has more memory.
const MEMORY_BYTES_MAX: u64 = 256 << 20;

/// `core0.svdat,core1.svdat` is one stream in a file for each core: the files, opened.
pub(crate) fn files_of_cores(target: &OsStr) -> Result<Option<Vec<BufReader<File>>>> {
    let bytes = target.as_bytes();
    if !bytes.contains(&b',') || Path::new(target).exists() {
        return Ok(None);
    }
    let names: Vec<&Path> = bytes.split(|byte| *byte == b',').map(|name| Path::new(OsStr::from_bytes(name))).collect();
    if !names.iter().all(|name| name.is_file()) {
        return Ok(None);
    }
    let opened = names.iter().map(|name| Ok(BufReader::new(File::open(name)?))).collect::<io::Result<_>>();
    opened.map(Some).with_context(|| format!("{} cannot be read", Path::new(target).display()))
}

/// The ledgers of such files.
pub(super) fn of_cores(target: &OsStr) -> Result<Option<Vec<LogLedger>>> {
    let Some(files) = files_of_cores(target)? else { return Ok(None) };
    let made = read_streams(files).with_context(|| format!("{} cannot be read", Path::new(target).display()))?;
    Ok(Some(made))
}

/// `LOG@2` is the second ledger of `LOG`, `IMAGE@0x20000400` the one at that address, unless there is a file of the whole name.
pub(super) fn numbered(target: &OsStr) -> (OsString, Option<WhichLedger>) {
    let bytes = target.as_bytes();
    let at = bytes.iter().rposition(|byte| *byte == b'@').filter(|_| !Path::new(target).exists());
    let which = |at: usize| {
        let text = std::str::from_utf8(bytes.get(at + 1..)?).ok()?;
        match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok().map(WhichLedger::At),
            None => text.parse().ok().map(WhichLedger::Numbered),
        }
    };
    match at.and_then(|at| Some((OsStr::from_bytes(bytes.get(..at)?), which(at)?))) {
        Some((path, which)) => (path.to_owned(), Some(which)),
        None => (target.to_owned(), None),
    }
}

/// A file that is no text and yet may hold lines of a log: what a serial line catches while a device has no power, say. No ledger, and no
/// program.
pub(super) fn log_of_bytes(path: &OsStr) -> Result<Option<Box<dyn Read>>> {
    let path = Path::new(path);
    if !std::fs::metadata(path).is_ok_and(|data| data.is_file()) {
        return Ok(None);
    }
    let Ok(file) = File::open(path) else { return Ok(None) };
    let mut begin = Vec::new();
    let is_read = (&file).take(BEGIN_BYTES).read_to_end(&mut begin).is_ok();
    if !is_read || begin.is_empty() || is_ledger_or_program(&begin) {
        return Ok(None);
    }
    io::Seek::rewind(&mut &file).with_context(|| format!("{} cannot be read", path.display()))?;
    Ok(Some(Box::new(file)))
}

/// Whether a file looks as a log of bytes does, and could yet be the memory of a device.
pub(super) fn may_be_memory(path: &OsStr) -> bool {
    let Ok(file) = File::open(path) else { return false };
    let mut begin = Vec::new();
    let is_small = file.metadata().is_ok_and(|data| data.is_file() && data.len() <= MEMORY_BYTES_MAX);
    is_small && file.take(BEGIN_BYTES).read_to_end(&mut begin).is_ok() && begin.contains(&0) && is_log(&begin)
}

/// What was named, opened, if it is a log: because somebody says so, or by how it begins.
pub(super) fn log_at(path: &OsStr, from: Option<FromLog>) -> Result<Option<Box<dyn Read>>> {
    if path == "-" {
        return Ok(Some(Box::new(io::stdin())));
    }
    let shown = Path::new(path);
    let failed = || format!("{} cannot be read", shown.display());
    let Ok(kind) = std::fs::metadata(shown).map(|data| data.file_type()) else { return Ok(None) };
    // A pipe can be read once, and no ledger lies in one.
    if from.is_some() || kind.is_fifo() {
        return Ok(Some(Box::new(File::open(shown).with_context(failed)?)));
    }
    if !kind.is_file() {
        return Ok(None);
    }
    let Ok(file) = File::open(shown) else { return Ok(None) };
    let mut begin = Vec::new();
    let is_read = (&file).take(BEGIN_BYTES).read_to_end(&mut begin).is_ok();
    if !is_read || is_hex(&begin) || is_core_text(&begin) || !is_log(&begin) {
        return Ok(None);
    }
    // A core dump of ESP-IDF may stand in the log of its device.
    if !begin.contains(&0) && has_core_text(shown) {
        return Ok(None);
    }
    io::Seek::rewind(&mut &file).with_context(failed)?;
    Ok(Some(Box::new(file)))
}
