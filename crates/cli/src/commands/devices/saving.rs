//! Ledgers that were made of a log, kept in files.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use heapledger_format::session::{ending, process as key};
use heapledger_launch::finish::{AtWork, abandon_when_told, plain};
use heapledger_launch::output::{Pending, check, numbered_before_ending};
use heapledger_logs::log::LogLedger;
use heapledger_report::clean;
use heapledger_source::{Finished, Ledger, finish};

use crate::say;

/// Packs `ledger` into a file of that name, or, if there is one already, with a number in it, not less than `next`, which becomes the
/// one after that. No file is ever replaced.
pub(crate) fn save(ledger: &Ledger, wanted: &Path, next: &mut u32) -> Result<(PathBuf, Finished)> {
    check(wanted)?;
    abandon_when_told();
    let pending = Pending::new(wanted.to_owned()).context("the ledger cannot be written")?;
    let at_work = AtWork::in_place(pending.workplace(), None);
    let version = [(key::RUN_VERSION, env!("CARGO_PKG_VERSION").to_owned())];
    let finished = finish(ledger, &pending.temporary(), &version, &mut |_, _| {});
    drop(at_work);
    let finished = finished.map_err(|error| plain(error, wanted))?;
    let names = (*next..).map(|number| {
        *next = number.saturating_add(1);
        if number == 0 { wanted.to_owned() } else { numbered_before_ending(wanted, number) }
    });
    let path = pending.place_at_first(names).with_context(|| wanted.display().to_string())?;
    Ok((path, finished))
}

/// Says on standard error what is missing in a ledger of a log.
pub(crate) fn say_missing(ledger: &Ledger) {
    for sentence in ledger.process().all_of(key::MISSING_PREFIX) {
        say(&clean(&sentence));
    }
}

/// A ledger that was written.
pub(crate) struct WrittenLedger {
    pub(crate) path: PathBuf,
    /// What it is of.
    pub(crate) name: String,
    pub(crate) finished: Finished,
    /// What is missing in it, in sentences.
    pub(crate) missing: Vec<String>,
}

/// Files of ours that are written again and again, each whole at any time.
pub(crate) struct Renewed {
    wanted: PathBuf,
    paths: Vec<PathBuf>,
}

impl Renewed {
    /// The first one will have that name, or, if there is such a file already, one with a number in it.
    pub(crate) fn new(wanted: PathBuf) -> Result<Renewed> {
        check(&wanted)?;
        let mut files = Renewed { wanted, paths: Vec::new() };
        files.one_more();
        Ok(files)
    }

    /// Where the first one is.
    pub(crate) fn first(&self) -> &Path {
        self.paths.first().unwrap_or(&self.wanted)
    }

    fn one_more(&mut self) {
        let names = (0..).map(|number| numbered_before_ending(&self.wanted, number));
        let free = names.into_iter().find(|path| !path.exists() && !self.paths.contains(path));
        self.paths.extend(free);
    }

    /// Writes all of them.
    pub(crate) fn write(&mut self, made: Vec<LogLedger>) -> Result<Vec<WrittenLedger>> {
        let mut written = Vec::new();
        for (index, one) in made.into_iter().enumerate() {
            if self.paths.len() <= index {
                self.one_more();
            }
            let Some(path) = self.paths.get(index) else { continue };
            let name = one.name.clone();
            let ledger = Ledger::of_file(one.into_file()?, path)?;
            let version = [(key::RUN_VERSION, env!("CARGO_PKG_VERSION").to_owned())];
            let missing = ledger.process().all_of(key::MISSING_PREFIX).collect();
            let finished = finish(&ledger, path, &version, &mut |_, _| {})?;
            written.push(WrittenLedger { path: path.clone(), name, finished, missing });
        }
        Ok(written)
    }
}

/// What the ledger of a log is called if nobody says it: after the log, in the working directory.
pub(crate) fn name_for(log: &OsStr) -> PathBuf {
    let name = Path::new(log).file_name().filter(|_| log != "-").unwrap_or(OsStr::new("log"));
    let mut name = name.to_owned();
    name.push(ending::FINISHED);
    PathBuf::from(name)
}
