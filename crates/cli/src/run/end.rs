//! After the program's end: its ledgers are finished, the summary is printed.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt::Write;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use heapledger_report::clean;
use heapledger_source::{Ledger, ThreadState};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use heapledger_format::session::process as key;
use heapledger_launch::finish::{self, Finisher, Written};
use heapledger_launch::keep::Kept;
use heapledger_launch::session::{self, Sign};
use heapledger_launch::wait::{Signals, Where};
use heapledger_launch::{live, sys};

use super::summary::{Reckoning, Summary};
use super::{End, Session, remove};
use crate::args::RunArgs;
use crate::terminal::{self, Progress};
use crate::text::shell;
use crate::{end_as, say, say_lines};

/// How the program ended.
pub(crate) struct Outcome<'a> {
    /// Its name as typed.
    pub(crate) name: &'a OsStr,
    /// What `waitpid` said.
    pub(crate) status: ExitStatus,
    /// How long it ran.
    pub(crate) span: Duration,
    /// What the process was called in the end.
    pub(crate) last_name: Option<String>,
}

/// What the program left.
pub(crate) struct Left {
    session: Session,
    ledgers: Vec<Kept>,
    /// Which of them were removed while it ran. What is finished has no name any more either.
    removed: Vec<bool>,
    /// Child processes that were not watched.
    children: u64,
}

impl Left {
    /// Gathers it. Whatever is removed from now on is held open.
    pub(super) fn by(mut session: Session) -> Arc<Left> {
        widen(&[Resource::RLIMIT_NOFILE]);
        let (ledgers, children) = session.keeper.ledgers();
        let removed = ledgers.iter().map(Kept::was_removed).collect();
        Arc::new(Left { session, ledgers, removed, children })
    }

    /// The process that was to finish them ended in another way: says so, and clears away what it was writing.
    pub(crate) fn finishing_failed(&self, status: ExitStatus) {
        self.given_up(&format!("finishing the ledger failed ({status})"));
        session::Remains::of(&live::directory_in(&self.session.base)).remove();
    }

    /// Says which ledgers are left unfinished, and what to do with them. Nothing, if only the summary was still to come.
    fn given_up(&self, why: &str) {
        self.session.sign.iter().for_each(Sign::take_down);
        let mut text = String::new();
        for (kept, removed) in self.ledgers.iter().zip(&self.removed) {
            let path = if *removed { kept.put_back().ok() } else { Some(kept.live.path.clone()) };
            if let Some(path) = path.filter(|path| path.exists()) {
                let _ = write!(text, "\n  to finish it: heapledger recover {}", shell(&path));
            }
        }
        if !text.is_empty() {
            say_lines(&format!("{why}; the ledger is left unfinished:{text}"));
        }
    }
}

/// Finishes all ledgers of this session and reports.
pub(crate) fn finish(arguments: &RunArgs, left: &Arc<Left>, outcome: &Outcome<'_>, signals: Signals, at: Where) {
    if at == Where::Aside {
        widen_limits();
    }
    give_up_when_told(signals, Arc::downgrade(left), outcome.status, at);
    let Left { session, ledgers, children, .. } = &**left;
    let mut finisher =
        Finisher { pattern: arguments.output.clone(), force: arguments.force, fresh: BTreeSet::new(), nameless: true };
    let mut earlier = Vec::new();
    let mut last = None;
    let mut kept = false;
    // The last program of the process is what was asked for: it has the first choice of names.
    for live in ledgers.iter().rev() {
        let main = last.is_none() && !kept;
        let was_removed = live.was_removed();
        match one(&mut finisher, live, outcome, main, arguments.quiet) {
            Ok(None) if was_removed => {}
            Ok(None) => remove(&live.live.path),
            Ok(Some(done)) => {
                if was_removed {
                    say(&saved(&live.live.path));
                }
                if main { last = Some(done) } else { earlier.push(done.1) }
            }
            Err(problem) => {
                kept = true;
                keep(live, &problem);
            }
        }
    }
    let became = left_beside(session, kept);
    if became.is_none()
        && let Some((ledger, _)) = &last
    {
        tell_of_another(outcome, ledger);
    }
    if let (Some(program), Some(_)) = (&became, &last) {
        let (name, program) = (outcome.name.display(), program.display());
        say(&format!("{name} became {program}, which was not recorded; what follows is about the program before it"));
    }
    let Some((ledger, written)) = last else {
        if !kept {
            // The library itself has said why, if it got so far.
            if let Err(problem) = fs::read_dir(live::directory_in(&session.base))
                && problem.kind() != std::io::ErrorKind::NotFound
            {
                say_lines(&format!(
                    "the ledger of {} cannot be looked for: {problem}\n  to finish it elsewhere: heapledger recover {} -o DIR",
                    clean(&outcome.name.to_string_lossy()),
                    shell(&live::directory_in(&session.base))
                ));
            } else if became.is_none() && session.expected {
                say(&missing(outcome, session.keeper.missed()));
            }
        }
        return;
    };
    if let Some(wanted) = &written.instead_of {
        say(&format!("{} was there already: this ledger is {}", wanted.display(), written.path.display()));
    }
    if !arguments.quiet {
        // After the ledger is safe: whatever goes wrong here costs no more than these lines.
        match Reckoning::of(&ledger, outcome.span) {
            Ok(reckoning) => {
                let (reckoning, paint) = (&reckoning, terminal::stderr_paint(arguments.bytes));
                let summary =
                    Summary { outcome, reckoning, written: &written, earlier: &earlier, children: *children, paint };
                terminal::tell(&summary.to_string());
            }
            Err(problem) => say(&format!("{}: {problem:#}", written.path.display())),
        }
    }
}

/// The path of a program that the process became and that could not be recorded. What is known of children stays if a
/// ledger does.
fn left_beside(session: &Session, kept: bool) -> Option<PathBuf> {
    let mut became = None;
    for directory in live::directories_in(&session.base) {
        if !kept {
            remove(&session::children_file(&directory, &session.name));
        }
        let unrecorded = session::unrecorded_file(&directory, &session.name);
        became = became.or(fs::read_link(&unrecorded).ok());
        remove(&unrecorded);
        if directory != live::directory_in(&session.base) {
            // Another user's, perhaps made for this run: it goes if nothing is left in it.
            let _ = fs::remove_dir(&directory);
        }
    }
    became
}

/// Says so if the process ended under another name than the last recorded program has, and that one never ended by itself: it
/// may have become one into which nothing could be loaded.
fn tell_of_another(outcome: &Outcome<'_>, ledger: &Ledger) {
    let (Some(last), Ok(threads)) = (&outcome.last_name, ledger.threads()) else { return };
    let first = threads.iter().find(|thread| Some(thread.id) == ledger.process().pid());
    let ended = threads.iter().any(|thread| thread.state == ThreadState::AtExit);
    if let Some(first) = first
        && !ended
        && !first.name.is_empty()
        && first.name != *last
    {
        let (name, last) = (outcome.name.display(), last.escape_debug());
        say(&format!(
            "{name} ended under the name {last}: if it became another program by exec, that one was not recorded; what \
             follows is about the program before it"
        ));
    }
}

/// The program's limits are not for this work: as far as may be, they are lifted. A core dump of ours would only be in the way
/// of the program's.
fn widen_limits() {
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

/// Finishes one ledger; it stays open, though its file is gone. `None` if nothing was ever written to it.
fn one(
    finisher: &mut Finisher,
    kept: &Kept,
    outcome: &Outcome<'_>,
    main: bool,
    quiet: bool,
) -> anyhow::Result<Option<(Ledger, Written)>> {
    let live = &kept.live;
    let Some(ledger) = finish::open_file(kept.file()?, live)? else { return Ok(None) };
    let mut extra = vec![];
    if !main {
        extra.push((key::ENDED, key::BY_EXEC.to_owned()));
    } else {
        extra.push(match (outcome.status.code(), outcome.status.signal()) {
            (Some(code), _) => (key::EXIT, code.to_string()),
            (None, signal) => (key::SIGNAL, signal.unwrap_or(0).to_string()),
        });
        extra.push((key::WALL_NS, outcome.span.as_nanos().to_string()));
    }
    let mut progress = Progress::of_ours("writing the ledger", quiet);
    let written = finisher.finish(live, &ledger, &extra, &mut |done, of| progress.bytes(done, of))?;
    Ok(Some((ledger, written)))
}

fn saved(path: &Path) -> String {
    format!("{} was removed while the program ran; its ledger was held open, and nothing is lost", path.display())
}

/// Says where the unfinished ledger is; one that was removed is given a name again first.
fn keep(kept: &Kept, problem: &anyhow::Error) {
    let text = match left(kept) {
        Ok(path) => format!(
            "the unfinished ledger is kept: {}\n  to finish it elsewhere: heapledger recover {} -o DIR",
            clean(&path.to_string_lossy()),
            shell(&path)
        ),
        Err(reason) => {
            format!("the unfinished ledger, which was removed meanwhile, is lost: {}", clean(&format!("{reason:#}")))
        }
    };
    say_lines(&format!("{}\n  {text}", clean(&format!("{problem:#}"))));
}

fn left(kept: &Kept) -> anyhow::Result<PathBuf> {
    if kept.was_removed() { kept.put_back() } else { Ok(kept.live.path.clone()) }
}

/// A person who presses Ctrl-C once more does not want to wait: the ledger is left as it is.
fn give_up_when_told(signals: Signals, left: Weak<Left>, status: ExitStatus, at: Where) {
    let told = move || {
        signals.wait_for_end();
        finish::abandon();
        if let Some(left) = left.upgrade() {
            left.given_up("given up");
        }
        match at {
            Where::Here => end_as(End::from(status)),
            Where::Aside => sys::exit_now(0),
        }
    };
    // Without a thread nobody can interrupt; it does not take long.
    let _ = thread::Builder::new().spawn(told);
}

/// Why there may be no ledger.
fn missing(outcome: &Outcome<'_>, missed: bool) -> String {
    let name = outcome.name.display();
    if missed {
        return format!("the ledger of {name} is lost: its file was removed as soon as it was made");
    }
    let reason = match outcome.status.signal() {
        Some(libc::SIGSYS) => "its system calls are restricted",
        Some(_) => "it may have ended before its first allocation",
        None => {
            "the loader may have refused the library (then its message is above), or the program became one that cannot be tracked"
        }
    };
    format!("no ledger of {name} was opened: {reason}")
}
