//! Ledgers whose `run` may be gone: where they lie, who has them in hand, and what else is left of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use heapledger_format::session::process as key;
use heapledger_source::{Ledger, Life};

use crate::error::LaunchError;
use crate::finish;
use crate::live::{self, Live};
use crate::output;
use crate::session::{self, Remains};

/// How long a process that was killed is waited for.
const DYING: Duration = Duration::from_secs(2);
/// A recorder that has not begun after this time never will.
const SETTING_UP: Duration = Duration::from_secs(60);

/// What lies in some places.
#[derive(Debug, Default)]
pub struct Finds {
    /// The unfinished ledgers, in the order of their names.
    pub ledgers: Vec<Unfinished>,
    /// Directories of ledgers that were looked into, and those in which somebody has named single ones, with the sessions of these.
    directories: BTreeMap<PathBuf, Option<BTreeSet<String>>>,
}

/// An unfinished ledger that was found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unfinished {
    /// It.
    pub live: Live,
    /// Whether it was there when it was looked for.
    was_there: bool,
}

/// What is to be done with an unfinished ledger.
#[derive(Debug)]
pub enum UnfinishedState {
    /// Nothing was recorded in it.
    Blank {
        /// And nothing will be: it can be removed.
        for_good: bool,
    },
    /// Something was.
    Recorded(Box<Ledger>, Hands),
}

/// In whose hands a ledger is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hands {
    /// Its process still writes it.
    Running,
    /// Its process was killed and is not gone yet.
    Ending,
    /// The `run` of this number finishes it.
    Run(u32),
    /// Nobody's.
    Nobody,
}

/// Looks into these places, directories and ledgers; if none is named, into the usual ones.
///
/// # Errors
/// If a directory cannot be read, or a file is no unfinished ledger.
pub fn find(places: &[PathBuf]) -> Result<Finds, LaunchError> {
    let mut ledgers = BTreeSet::new();
    let mut directories: BTreeMap<PathBuf, Option<BTreeSet<String>>> = BTreeMap::new();
    if places.is_empty() {
        directories.extend(live::places().iter().map(|base| (live::directory_in(base), None)));
        for directory in directories.keys() {
            ledgers.extend(live::list(directory).unwrap_or_default());
        }
    }
    for place in places {
        if place.is_dir() {
            let inside = live::directory_in(place);
            let directory = if inside.is_dir() { &inside } else { place };
            ledgers.extend(live::list(directory).map_err(LaunchError::of(directory))?);
            directories.insert(directory.clone(), None);
        } else {
            let live = named(place)?;
            let beside = Live::from_path(place).and_then(|_| place.parent());
            if let Some(beside) = beside.filter(|beside| !beside.as_os_str().is_empty()) {
                let only = directories.entry(beside.to_owned()).or_insert_with(|| Some(BTreeSet::new()));
                only.iter_mut().for_each(|only| _ = only.insert(live.session.clone()));
            }
            ledgers.insert(live);
        }
    }
    let unfinished = |live: Live| Unfinished { was_there: live.path.exists() || !places.contains(&live.path), live };
    Ok(Finds { ledgers: ledgers.into_iter().map(unfinished).collect(), directories })
}

/// A ledger that was named by a person: its name may have been changed.
fn named(path: &Path) -> Result<Live, LaunchError> {
    if let Some(live) = Live::from_path(path) {
        return Ok(live);
    }
    let ledger = Ledger::open(path)?;
    if ledger.found().is_some() || ledger.is_copy() {
        return Err(LaunchError::NotUnfinished(path.to_owned()));
    }
    if ledger.is_finished() {
        return Err(LaunchError::Finished(path.to_owned()));
    }
    let session = ledger.process().text(key::SESSION).unwrap_or_default();
    Ok(Live { session, image: 0, pid: None, path: path.to_owned() })
}

/// What becomes of what nobody needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abandoned {
    /// It stays.
    Kept,
    /// It goes.
    Removed,
}

/// Whether a process that was killed has some time to go before it is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Killed {
    /// It has.
    Awaited,
    /// It is looked at as it is.
    AsItIs,
}

impl Finds {
    /// What processes left behind that were killed, and nobody needs: half of a finished ledger, in the directory of
    /// outputs or where its writer has put it down, and what lay beside ledgers. Where single ledgers were named, only what belongs to
    /// their sessions. Returns what of it a person may have seen.
    pub fn abandoned(&self, output: &Path, what: Abandoned) -> BTreeSet<PathBuf> {
        let is_of_all = self.directories.values().any(Option::is_none);
        let of_output = is_of_all.then(|| output::abandoned_in(output));
        let mut workplaces: BTreeSet<PathBuf> = of_output.into_iter().flatten().collect();
        for (directory, only) in &self.directories {
            let remains = Remains::of(directory, |session| only.as_ref().is_none_or(|only| only.contains(session)));
            workplaces.extend(remains.workplaces.iter().filter_map(|path| path.canonicalize().ok()));
            if what == Abandoned::Removed {
                remains.remove();
            }
        }
        if what == Abandoned::Removed {
            workplaces.iter().for_each(|workplace| output::remove_workplace(workplace));
        }
        workplaces
    }
}

impl Unfinished {
    /// Looks at it; of a process that was killed, when it has had some time to go, if that is waited for.
    ///
    /// # Errors
    /// If it cannot be read, or another `recover` has finished it since it was found.
    pub fn state(&self, killed: Killed) -> Result<UnfinishedState, LaunchError> {
        let live = &self.live;
        let run = || live.path.parent().and_then(|directory| session::run_of(directory, &live.session));
        let opened = finish::open(live).map_err(|error| match error {
            LaunchError::File { reason, .. } if self.was_there && reason.kind() == io::ErrorKind::NotFound => {
                LaunchError::FinishedByAnother(live.path.clone())
            }
            other => other,
        })?;
        let Some(ledger) = opened else {
            // Just being set up, or its process was killed while it did so.
            let modified = fs::metadata(&live.path).and_then(|meta| meta.modified());
            let old = modified.is_ok_and(|then| then.elapsed().is_ok_and(|age| age > SETTING_UP));
            let own_name = Live::from_path(&live.path).is_some();
            let for_good = old && own_name && run().is_none() && !live::is_mapped(&live.path);
            return Ok(UnfinishedState::Blank { for_good });
        };
        let life = if killed == Killed::Awaited { settled(&ledger) } else { ledger.life() };
        let hands = match (life, run()) {
            (Life::Running, _) => Hands::Running,
            (Life::Ending, _) => Hands::Ending,
            (Life::Ended, Some(run)) => Hands::Run(run),
            (Life::Ended, None) => Hands::Nobody,
        };
        Ok(UnfinishedState::Recorded(Box::new(ledger), hands))
    }

    /// Removes it: nothing is in it.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn remove(&self) -> Result<(), LaunchError> {
        fs::remove_file(&self.live.path).map_err(LaunchError::of(&self.live.path))
    }
}

/// What the process of a ledger does; of one that was killed, when it has had some time to go. A large one takes a
/// second to give its memory back.
fn settled(ledger: &Ledger) -> Life {
    let begun = Instant::now();
    loop {
        let life = ledger.life();
        if life != Life::Ending || begun.elapsed() > DYING {
            return life;
        }
        thread::sleep(Duration::from_millis(10));
    }
}

#[cfg(test)]
mod tests;
