//! Ledgers that were made of a log, kept in files.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use heapledger_format::session::process as key;
use heapledger_launch::finish::{abandon_when_told, plain, remember};
use heapledger_launch::output::{Pending, check, numbered_before_ending};
use heapledger_source::{Finished, Ledger, finish};

/// Packs `ledger` into a file of that name, or, if there is one already, with a number in it. No file is ever replaced.
pub(crate) fn save(ledger: &Ledger, wanted: &Path) -> Result<(PathBuf, Finished)> {
    check(wanted)?;
    abandon_when_told();
    let pending = Pending::new(wanted.to_owned()).context("the ledger cannot be written")?;
    remember(Some((pending.workplace().to_owned(), None)));
    let version = [(key::RUN_VERSION, env!("CARGO_PKG_VERSION").to_owned())];
    let finished = finish(ledger, &pending.temporary(), &version, &mut |_, _| {});
    remember(None);
    let finished = finished.map_err(|error| plain(error, wanted))?;
    let names = std::iter::once(wanted.to_owned()).chain((1..).map(|number| numbered_before_ending(wanted, number)));
    let path = pending.place_at_first(names).with_context(|| wanted.display().to_string())?;
    Ok((path, finished))
}

/// What the ledger of a log is called if nobody says it: after the log, in the working directory.
pub(crate) fn name_for(log: &OsStr) -> PathBuf {
    let name = Path::new(log).file_name().filter(|_| log != "-").unwrap_or(OsStr::new("log"));
    let mut name = name.to_owned();
    name.push(".hl");
    PathBuf::from(name)
}
