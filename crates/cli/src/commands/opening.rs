//! From what a person names to a ledger: a file, a process, a core dump, or a log that a ledger is made of.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use anyhow::{Context, Result, bail};
use heapledger_logs::log::{LogKind, LogLedger, LogOptions, is_log, read_log};
use heapledger_lws::Width;
use heapledger_source::Ledger;

use crate::say;

/// What a file is, if it is no ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FromLog(LogKind);

impl clap::ValueEnum for FromLog {
    fn value_variants<'a>() -> &'a [FromLog] {
        const ALL: &[FromLog] = &[FromLog(LogKind::Lws), FromLog(LogKind::Esp)];
        ALL
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        Some(clap::builder::PossibleValue::new(self.0.name()))
    }
}

/// Bytes of a file's beginning by which a log is known.
const BEGIN_BYTES: u64 = 4096;
/// Bytes read at a time.
const BUFFER_BYTES: usize = 256 << 10;

/// Opens what was named. Of a log with several ledgers the last, or that of the number behind `@`.
pub(crate) fn open_target(target: &OsStr, from: Option<FromLog>) -> Result<Ledger> {
    let (path, wanted) = numbered(target);
    match log_at(&path, from)? {
        Some(input) => of_log(input, &path, wanted, from),
        None => Ok(Ledger::open_target(target)?),
    }
}

/// All ledgers of a log; `None` if it is none.
pub(crate) fn all_of(target: &OsStr, from: Option<FromLog>, width: Width) -> Result<Option<Vec<LogLedger>>> {
    let Some(input) = log_at(target, from)? else { return Ok(None) };
    let options = LogOptions { only: from.map(|from| from.0), width };
    let made = read_log(BufReader::with_capacity(BUFFER_BYTES, input), options);
    let made = made.with_context(|| format!("{} cannot be read", Path::new(target).display()))?;
    Ok(Some(made))
}

/// `LOG@2` is the second ledger of `LOG`, unless there is a file of the whole name.
fn numbered(target: &OsStr) -> (OsString, Option<usize>) {
    let bytes = target.as_bytes();
    let at = bytes.iter().rposition(|byte| *byte == b'@').filter(|_| !Path::new(target).exists());
    let number = |at: usize| std::str::from_utf8(bytes.get(at + 1..)?).ok()?.parse().ok();
    match at.and_then(|at| Some((OsStr::from_bytes(bytes.get(..at)?), number(at)?))) {
        Some((path, number)) => (path.to_owned(), Some(number)),
        None => (target.to_owned(), None),
    }
}

/// What was named, opened, if it is a log: because somebody says so, or by how it begins.
fn log_at(path: &OsStr, from: Option<FromLog>) -> Result<Option<Box<dyn Read>>> {
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
    if (&file).take(BEGIN_BYTES).read_to_end(&mut begin).is_err() || !is_log(&begin) {
        return Ok(None);
    }
    io::Seek::rewind(&mut &file).with_context(failed)?;
    Ok(Some(Box::new(file)))
}

fn of_log(input: Box<dyn Read>, path: &OsStr, wanted: Option<usize>, from: Option<FromLog>) -> Result<Ledger> {
    let shown = Path::new(path).display().to_string();
    let options = LogOptions { only: from.map(|from| from.0), width: Width::W64 };
    let made = read_log(BufReader::with_capacity(BUFFER_BYTES, input), options);
    let mut made = made.with_context(|| format!("{shown} cannot be read"))?;
    let count = made.len();
    let index = wanted.map_or(count, |wanted| wanted).wrapping_sub(1);
    if count == 0 {
        bail!("{shown} is not a ledger, and no line of it tells of a heap in a way that heapledger knows");
    }
    if index >= count {
        bail!("{shown} holds {count} ledgers, counted from 1");
    }
    if count > 1 && wanted.is_none() {
        let names: Vec<String> =
            made.iter().enumerate().map(|(index, ledger)| format!("{shown}@{}: {}", index + 1, ledger.name)).collect();
        say(&format!("the log holds {count} ledgers, and the last is shown ({})", names.join("; ")));
    }
    Ok(Ledger::of_file(made.swap_remove(index).file, Path::new(path))?)
}
