//! From what a person names to a ledger: a file, a process, a core dump, or a log that a ledger is made of.

use std::ffi::OsStr;
use std::io::{BufReader, Read};
use std::path::Path;

use anyhow::{Context, Result, bail};
use heapledger_logs::log::{LogLedger, LogOptions, read_log};
use heapledger_lws::Width;
use heapledger_source::{Ledger, WhichLedger};

use super::standard::Usage;
use crate::say;

mod asked;
mod images;
mod log_files;
mod members;
mod which;

pub(crate) use asked::{FromLog, OpeningArgs};
pub(crate) use images::{mention_others, open_no_log};
pub(crate) use log_files::files_of_cores;
use log_files::{log_at, log_of_bytes, may_be_memory, numbered, of_cores};
pub(crate) use members::{MemberArgs, member_path, whole_session};

/// Of so many ledgers of a log it is said what they are.
const NAMES_SAID: usize = 10;
/// Bytes read at a time.
const BUFFER_BYTES: usize = 256 << 10;

/// Opens what was named. Of a log with several ledgers the last, of an image of memory the first, or the one behind `@`.
pub(crate) fn open_target(target: &OsStr, opening: &OpeningArgs) -> Result<Ledger> {
    let member = member_path(target, &opening.members)?;
    let target = member.as_deref().unwrap_or(target);
    let (path, wanted) = numbered(target);
    if let Some(made) = of_cores(target)? {
        return one_of(made, target, wanted);
    }
    // A device's memory with a ledger in it may begin with what its ring holds of events.
    if opening.from.is_none()
        && may_be_memory(&path)
        && let Ok(ledger) = open_no_log(target, opening)
    {
        mention_others(&ledger, target);
        return Ok(ledger);
    }
    match log_at(&path, opening.from)? {
        Some(_) if opening.base.is_some() => {
            Err(Usage::new(format!("{} is a log: no memory, and --base says nothing", Path::new(&path).display()))
                .into())
        }
        Some(input) => of_log(input, &path, wanted, opening.from),
        None => match open_no_log(target, opening) {
            Ok(ledger) => {
                mention_others(&ledger, target);
                Ok(ledger)
            }
            // Bytes that are no text may have a log behind them.
            Err(error) => match log_of_bytes(&path)?.filter(|_| opening.base.is_none()) {
                Some(input) => of_log(input, &path, wanted, opening.from).map_err(|_| error.into()),
                None => Err(error.into()),
            },
        },
    }
}

/// All ledgers of a log; `None` if it is none.
pub(crate) fn all_of(target: &OsStr, from: Option<FromLog>, width: Width) -> Result<Option<Vec<LogLedger>>> {
    if let Some(made) = of_cores(target)? {
        return Ok(Some(made));
    }
    let Some(input) = log_at(target, from)?.map_or_else(|| log_of_bytes(target), |input| Ok(Some(input)))? else {
        return Ok(None);
    };
    let options = LogOptions { only: from.map(FromLog::kind), width };
    let made = read_log(BufReader::with_capacity(BUFFER_BYTES, input), options);
    let made = made.with_context(|| format!("{} cannot be read", Path::new(target).display()))?;
    Ok(Some(made))
}

fn of_log(input: Box<dyn Read>, path: &OsStr, wanted: Option<WhichLedger>, from: Option<FromLog>) -> Result<Ledger> {
    let shown = Path::new(path).display().to_string();
    let options = LogOptions { only: from.map(FromLog::kind), width: Width::W64 };
    let made = read_log(BufReader::with_capacity(BUFFER_BYTES, input), options);
    one_of(made.with_context(|| format!("{shown} cannot be read"))?, path, wanted)
}

fn one_of(mut made: Vec<LogLedger>, path: &OsStr, wanted: Option<WhichLedger>) -> Result<Ledger> {
    let shown = Path::new(path).display().to_string();
    let count = made.len();
    let wanted = match wanted {
        Some(WhichLedger::At(_)) => bail!("{shown} is a log: its ledgers have numbers, from 1 on, and no addresses"),
        Some(WhichLedger::Numbered(number)) => Some(number),
        None => None,
    };
    let ledgers = heapledger_report::counted(count as u64, "ledger", "ledgers");
    let index = wanted.map_or(count, |wanted| wanted).wrapping_sub(1);
    if count == 0 {
        bail!("{shown} is not a ledger, and no line of it tells of a heap in a way that heapledger knows");
    }
    if index >= count {
        bail!("{shown} holds {ledgers}, counted from 1");
    }
    if count > 1 && wanted.is_none() {
        let first = count.saturating_sub(NAMES_SAID);
        let numbered = made.iter().enumerate().skip(first);
        let names: Vec<String> =
            numbered.map(|(index, ledger)| format!("{shown}@{}: {}", index + 1, ledger.name)).collect();
        let before = if first == 0 { "" } else { "…; " };
        say(&format!("the log holds {ledgers}, and the last is shown ({before}{})", names.join("; ")));
    }
    Ok(Ledger::of_file(made.swap_remove(index).into_file()?, Path::new(path))?)
}
