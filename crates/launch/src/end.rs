//! After the program's end: its ledgers are finished, the last first, and what lay beside them goes.

use std::fs;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::thread;

use heapledger_format::session::process as key;
use heapledger_source::{Ledger, More, ThreadState};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::error::LaunchError;
use crate::family::ledger_in;
use crate::finish::{self, Finisher, Written};
use crate::keep::Kept;
use crate::live;
use crate::session::{self, Remains, Sign};
use crate::start::Session;
use crate::wait::{Ended, Signals};

/// What a program left.
pub struct Left {
    session: Session,
    ledgers: Vec<Kept>,
    /// Which of them were removed while it ran. What is finished has no name any more either.
    removed: Vec<bool>,
    /// Child processes that were not watched.
    pub children: u64,
}

/// What happens while ledgers are finished.
#[derive(Debug)]
pub enum News<'a> {
    /// One begins to be written.
    Begun,
    /// So many bytes of it are done, of so many.
    Written(u64, u64),
    /// It is there.
    Done,
    /// A ledger was removed while the program ran; it was held open, and nothing is lost.
    Saved(&'a Path),
    /// One cannot be finished.
    Kept {
        /// Why.
        why: LaunchError,
        /// Where it is, unfinished; if it had been removed, it has a name again or it is lost.
        at: Result<PathBuf, LaunchError>,
    },
}

/// What became of the ledgers.
#[derive(Debug, Default)]
pub struct Finished {
    /// That of the program which the process was in the end.
    pub last: Option<(Ledger, Written)>,
    /// Those of what it was before, the latest first.
    pub earlier: Vec<Written>,
    /// Whether one could not be finished.
    pub kept: bool,
    /// A program that the process became and that could not be recorded.
    pub became: Option<PathBuf>,
}

/// Why there is no ledger.
#[derive(Debug)]
pub enum NoLedger {
    /// The directory where it would be cannot be read.
    Unreadable(PathBuf, io::Error),
    /// Its file was removed as soon as it was made.
    RemovedAtOnce,
    /// None was made.
    NeverOpened,
}

impl Left {
    /// Gathers it. Whatever is removed from now on is held open.
    pub fn by(mut session: Session) -> Arc<Left> {
        widen(&[Resource::RLIMIT_NOFILE]);
        let (ledgers, children) = session.keeper.ledgers();
        let removed = ledgers.iter().map(Kept::was_removed).collect();
        Arc::new(Left { session, ledgers, removed, children })
    }

    /// The directory of its ledgers.
    pub fn directory(&self) -> PathBuf {
        live::directory_in(&self.session.base)
    }

    /// Leaves what is not finished to `recover`, and says where it is. What was removed gets a name again.
    pub fn give_up(&self) -> Vec<PathBuf> {
        self.session.sign.iter().for_each(Sign::take_down);
        let named =
            self.ledgers.iter().zip(&self.removed).filter_map(|(kept, removed)| {
                if *removed { kept.put_back().ok() } else { Some(kept.live.path.clone()) }
            });
        named.filter(|path| path.exists()).collect()
    }

    /// Removes what somebody who was finishing them left half done.
    pub fn clear(&self) {
        Remains::of(&self.directory(), |_| true).remove();
    }

    /// Finishes them all. `finisher` names what is written, unless it goes into the directory of the session of several processes, `family`;
    /// `ended` says how the program ended.
    pub fn finish(
        &self,
        finisher: &mut Finisher,
        family: Option<&Path>,
        ended: &Ended,
        news: &mut dyn FnMut(News<'_>),
    ) -> Finished {
        let mut finished = Finished::default();
        // The last program of the process is what was asked for: it has the first choice of names.
        for kept in self.ledgers.iter().rev() {
            let main = finished.last.is_none() && !finished.kept;
            let was_removed = kept.was_removed();
            if let Some(directory) = family {
                finisher.pattern = ledger_in(directory, kept.live.image);
            }
            match one(finisher, kept, ended, main, news) {
                Ok(None) if was_removed => {}
                // It is not needed any more; that it is not there is as good.
                Ok(None) => _ = fs::remove_file(&kept.live.path),
                Ok(Some(done)) => {
                    if was_removed {
                        news(News::Saved(&kept.live.path));
                    }
                    if main { finished.last = Some(done) } else { finished.earlier.push(done.1) }
                }
                Err(why) => {
                    finished.kept = true;
                    let at = if kept.was_removed() { kept.put_back() } else { Ok(kept.live.path.clone()) };
                    news(News::Kept { why, at });
                }
            }
        }
        finished.became = self.left_beside(finished.kept);
        finished
    }

    /// Why there is no ledger; `None`: there need be none, or it has been said by who left it.
    pub fn no_ledger(&self, finished: &Finished) -> Option<NoLedger> {
        if finished.kept {
            return None;
        }
        let directory = self.directory();
        match fs::read_dir(&directory) {
            Err(reason) if reason.kind() != io::ErrorKind::NotFound => Some(NoLedger::Unreadable(directory, reason)),
            // The library itself has said why, if it got so far.
            _ if finished.became.is_some() || !self.session.expected => None,
            _ if self.session.keeper.missed() => Some(NoLedger::RemovedAtOnce),
            _ => Some(NoLedger::NeverOpened),
        }
    }

    /// The path of a program that the process became and that could not be recorded. What is known of children stays if
    /// a ledger does.
    fn left_beside(&self, kept: bool) -> Option<PathBuf> {
        let mut became = None;
        for directory in live::directories_in(&self.session.base) {
            if !kept {
                let _ = fs::remove_file(session::children_file(&directory, &self.session.name));
            }
            // Processes that go on need it, so that `recover` knows where their ledgers belong, those that are begun and those that may be.
            let link = session::family_link(&directory, &self.session.name);
            if link.is_symlink() && session::is_over(&directory, &self.session.name) {
                let _ = fs::remove_file(link);
            }
            let unrecorded = session::unrecorded_file(&directory, &self.session.name);
            became = became.or(fs::read_link(&unrecorded).ok());
            let _ = fs::remove_file(&unrecorded);
            if directory != self.directory() {
                // Another user's, perhaps made for this run: it goes if nothing is left in it.
                let _ = fs::remove_dir(&directory);
            }
        }
        became
    }
}

/// Finishes one ledger; it stays open, though its file is gone. `None` if nothing was ever written to it.
fn one(
    finisher: &mut Finisher,
    kept: &Kept,
    ended: &Ended,
    main: bool,
    news: &mut dyn FnMut(News<'_>),
) -> Result<Option<(Ledger, Written)>, LaunchError> {
    let live = &kept.live;
    let Some(ledger) = finish::open_file(kept.file()?, live)? else { return Ok(None) };
    let mut extra = vec![];
    if !main {
        extra.push((key::ENDED, key::BY_EXEC.to_owned()));
    } else {
        extra.push(match (ended.status.code(), ended.status.signal()) {
            (Some(code), _) => (key::EXIT, code.to_string()),
            (None, signal) => (key::SIGNAL, signal.unwrap_or(0).to_string()),
        });
        extra.push((key::WALL_NS, ended.span.as_nanos().to_string()));
    }
    news(News::Begun);
    let more = More { pairs: &extra, timeline: kept.timeline() };
    let written = finisher.finish(live, &ledger, more, &mut |done, of| news(News::Written(done, of)));
    news(News::Done);
    Ok(Some((ledger, written?)))
}

/// The name under which the process ended, if that is another than the last recorded program has and that one never ended
/// by itself: it may have become one into which nothing could be loaded.
pub fn other_name<'a>(ended: &'a Ended, ledger: &Ledger) -> Option<&'a str> {
    let (last, threads) = (ended.last_name.as_deref()?, ledger.threads().ok()?);
    let first = threads.iter().find(|thread| Some(thread.id) == ledger.process().pid())?;
    let has_exited = threads.iter().any(|thread| thread.state == ThreadState::AtExit);
    (!has_exited && !first.name.is_empty() && first.name != last).then_some(last)
}

/// The program's limits are not for this work: as far as may be, they are lifted. A core dump of ours would only be in the
/// way of the program's.
pub fn widen_limits() {
    let _ = setrlimit(Resource::RLIMIT_CORE, 0, 0);
    widen(&[Resource::RLIMIT_NOFILE, Resource::RLIMIT_AS, Resource::RLIMIT_FSIZE, Resource::RLIMIT_CPU]);
}

fn widen(limits: &[Resource]) {
    for resource in limits.iter().copied() {
        if let Ok((_, most)) = getrlimit(resource) {
            let _ = setrlimit(resource, most, most);
        }
    }
}

/// A person who presses Ctrl-C once more does not want to wait: what is half written is removed, the ledgers are left as
/// they are, and `then` is told where; it ends this process.
pub fn give_up_when_told(signals: Signals, left: Weak<Left>, then: impl FnOnce(Vec<PathBuf>) + Send + 'static) {
    let told = move || {
        signals.wait_for_end();
        finish::abandon();
        then(left.upgrade().map(|left| left.give_up()).unwrap_or_default());
    };
    // Without a thread nobody can interrupt; it does not take long.
    let _ = thread::Builder::new().spawn(told);
}

#[cfg(test)]
mod tests;
