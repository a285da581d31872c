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

use heapledger_source::Ledger;

use super::keep::{Held, Hold, Kept};
use super::summary::{Reckoning, Summary};
use super::wait::Signals;
use super::{End, Session, remove};
use crate::args::RunArgs;
use crate::finish::{self, Finisher, Written};
use crate::session::{self, Sign};
use crate::terminal;
use crate::text::shell;
use crate::{end_as, say};

/// How the program ended.
pub(crate) struct Outcome<'a> {
    /// Its name as typed.
    pub(crate) name: &'a OsStr,
    /// What `waitpid` said.
    pub(crate) status: ExitStatus,
    /// How long it ran.
    pub(crate) span: Duration,
}

/// Finishes all ledgers of this session and reports.
pub(crate) fn finish(arguments: &RunArgs, session: &Session, hold: Hold, outcome: &Outcome<'_>, signals: Signals) {
    let Session { directory, name: session, .. } = session;
    let Held { ledgers, children, missed, sign } = hold.end();
    let (ledgers, sign) = (Arc::new(ledgers), Arc::new(sign));
    give_up_when_told(signals, Arc::clone(&ledgers), Arc::downgrade(&sign), outcome.status);
    let mut finisher = Finisher {
        pattern: arguments.output.clone(),
        force: arguments.force,
        talk: !arguments.quiet,
        fresh: BTreeSet::new(),
        nameless: true,
    };
    let mut earlier = Vec::new();
    let mut last = None;
    let mut kept = false;
    // The last program of the process is what was asked for: it has the first choice of names.
    for live in ledgers.iter().rev() {
        let main = last.is_none() && !kept;
        let was_removed = live.was_removed();
        match one(&mut finisher, live, outcome, main) {
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
    if !kept {
        remove(&session::children_file(directory, session));
    }
    let unrecorded = session::unrecorded_file(directory, session);
    let became = fs::read_link(&unrecorded).ok();
    remove(&unrecorded);
    if let (Some(program), Some(_)) = (&became, &last) {
        let (name, program) = (outcome.name.display(), program.display());
        say(&format!("{name} became {program}, which was not recorded; what follows is about the program before it"));
    }
    let Some((ledger, written)) = last else {
        if !kept {
            // The library itself has said why, if it got so far.
            if became.is_none() {
                say(&missing(outcome, missed));
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
                let summary = Summary { outcome, reckoning, written: &written, earlier: &earlier, children, paint };
                terminal::tell(&summary.to_string());
            }
            Err(problem) => say(&format!("{}: {problem:#}", written.path.display())),
        }
    }
}

/// Finishes one ledger; it stays open, though its file is gone. `None` if nothing was ever written to it.
fn one(
    finisher: &mut Finisher,
    kept: &Kept,
    outcome: &Outcome<'_>,
    main: bool,
) -> anyhow::Result<Option<(Ledger, Written)>> {
    let live = &kept.live;
    let Some(ledger) = finish::open_file(kept.file()?, live)? else { return Ok(None) };
    let mut extra = vec![];
    if !main {
        extra.push(("ended", "exec".to_owned()));
    } else {
        extra.push(match (outcome.status.code(), outcome.status.signal()) {
            (Some(code), _) => ("exit", code.to_string()),
            (None, signal) => ("signal", signal.unwrap_or(0).to_string()),
        });
        extra.push(("wall_ns", outcome.span.as_nanos().to_string()));
    }
    let written = finisher.finish(live, &ledger, &extra)?;
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
            path.display(),
            shell(&path)
        ),
        Err(reason) => format!("the unfinished ledger, which was removed meanwhile, is lost: {reason:#}"),
    };
    say(&format!("{problem:#}\n  {text}"));
}

fn left(kept: &Kept) -> anyhow::Result<PathBuf> {
    if kept.was_removed() { kept.put_back() } else { Ok(kept.live.path.clone()) }
}

/// A person who presses Ctrl-C once more does not want to wait: the ledger is left as it is.
fn give_up_when_told(signals: Signals, ledgers: Arc<Vec<Kept>>, sign: Weak<Option<Sign>>, status: ExitStatus) {
    // What is finished has no name any more, as what was removed before.
    let removed: Vec<bool> = ledgers.iter().map(Kept::was_removed).collect();
    thread::spawn(move || {
        signals.wait_for_end();
        finish::abandon();
        if let Some(sign) = sign.upgrade() {
            sign.iter().for_each(Sign::take_down);
        }
        let mut text = String::new();
        for (kept, removed) in ledgers.iter().zip(removed) {
            if let Some(path) = if removed { kept.put_back().ok() } else { Some(kept.live.path.clone()) }
                && path.exists()
            {
                let _ = write!(text, "\n  to finish it: heapledger recover {}", shell(&path));
            }
        }
        // None is left if only the summary was still to come.
        if !text.is_empty() {
            say(&format!("given up; the ledger is left unfinished:{text}"));
        }
        end_as(End::from(status));
    });
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
