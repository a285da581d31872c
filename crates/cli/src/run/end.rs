//! After the program's end: what is said of its ledgers while they are finished, and the summary.

use std::ffi::OsStr;
use std::fmt::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Result;
use heapledger_analysis::{Clock, Names, NamingOptions, excuse, is_wrong, sites_of};
use heapledger_format::TallyCounter;

use heapledger_launch::LaunchError;
use heapledger_launch::end::{self, Finished, Left, News, NoLedger};
use heapledger_launch::family::FamilyOutcome;
use heapledger_launch::finish::{Finisher, Written};
use heapledger_launch::sys::SharedNumber;
use heapledger_launch::wait::{Ended, FinishingProcess, Signals};
use heapledger_launch::{locate, machine, sys};
use heapledger_report::{ProgramEnd, RunFigures, RunLedger, RunSummary, clean};
use heapledger_source::Ledger;
use heapledger_symbols::{self as symbols, SourceReader, Symbolizer};
use nix::sys::signal::Signal;

use super::End;
use super::reports::ErrorsTold;
use crate::args::RunArgs;
use crate::commands::standard::suppressions;
use crate::terminal::{self, Progress};
use crate::text::shell;
use crate::{end_as, say, say_lines};

/// How the program ended.
pub(crate) struct Outcome<'a> {
    /// Its name as typed.
    pub(crate) name: &'a OsStr,
    /// The rest.
    pub(crate) ended: &'a Ended,
    /// How many errors were found is told here.
    pub(crate) errors: &'a SharedNumber,
    /// What became of its child processes, if they were recorded.
    pub(crate) family: Option<&'a FamilyOutcome>,
}

/// Finishes all ledgers of this session and reports.
pub(crate) fn finish(
    arguments: &RunArgs,
    left: &Arc<Left>,
    outcome: &Outcome<'_>,
    signals: Signals,
    at: FinishingProcess,
) {
    if at == FinishingProcess::Aside {
        end::widen_limits();
    }
    let status = outcome.ended.status;
    end::give_up_when_told(signals, Arc::downgrade(left), move |unfinished| {
        say_unfinished("given up", &unfinished);
        match at {
            FinishingProcess::Here => end_as(End::from(status)),
            FinishingProcess::Aside => sys::exit_now(0),
        }
    });
    let mut finisher = Finisher {
        force: arguments.force,
        nameless: true,
        whereabouts: machine::described(arguments.machine_id),
        ..Finisher::new(arguments.output.clone())
    };
    let mut progress = None;
    let family = outcome.family.map(|family| family.directory.as_path());
    let finished = left.finish(&mut finisher, family, outcome.ended, &mut |news| match news {
        News::Begun => progress = Some(Progress::of_ours("writing the ledger", arguments.quiet)),
        News::Written(done, of) => progress.iter_mut().for_each(|progress| progress.bytes(done, of)),
        News::Done => progress = None,
        News::Saved(path) => say(&format!(
            "{} was removed while the program ran; its ledger was held open, and nothing is lost",
            path.display()
        )),
        News::Kept { why, at } => say_kept(&why, at),
    });
    say_became(&finished, outcome);
    let no_ledger = if finished.last.is_none() { left.no_ledger(&finished) } else { None };
    let (Some((ledger, written)), earlier) = (finished.last, finished.earlier) else {
        say_no_ledger(no_ledger, outcome);
        if let Some(family) = outcome.family {
            super::family::close(family, left.children, &[]);
            tell_of_all(arguments, outcome, family, (None, 0));
        }
        return;
    };
    if let Some(wanted) = &written.instead_of {
        say(&format!("{} was there already: this ledger is {}", wanted.display(), written.path.display()));
    }
    let errors = errors(&ledger, arguments).unwrap_or_default();
    // Those of children are not in the ledger, and nobody excuses them.
    let unrecorded = ledger.tallies().map_or(0, |tallies| tallies.get(TallyCounter::ErrorsUnrecorded));
    outcome.errors.set(i32::try_from(errors.saturating_add(unrecorded)).unwrap_or(i32::MAX));
    if let Some(family) = outcome.family {
        let earlier = earlier.iter().filter_map(|written| Some((Ledger::open(&written.path).ok()?, written)));
        let last = Ledger::open(&written.path).ok().map(|ledger| (ledger, &written));
        super::family::close(family, left.children, &last.into_iter().chain(earlier).collect::<Vec<_>>());
    }
    if let Some(family) = outcome.family {
        tell_of_all(arguments, outcome, family, (ledger.process().pid(), errors.saturating_add(unrecorded)));
    } else if !arguments.quiet {
        // After the ledger is safe: whatever goes wrong here costs no more than these lines.
        // What is finished has only what lives, without the gaps; but what was being written at a kill it has not.
        let compact = if written.in_flight == 0 { Ledger::open(&written.path).ok() } else { None };
        match figures(compact.as_ref().unwrap_or(&ledger), outcome.ended.span, &written.path) {
            Ok(figures) => {
                let told = if arguments.errors_told() == ErrorsTold::Quiet { 0 } else { errors };
                let figures = figures.with_errors(told);
                let shown = |written: &Written| RunLedger { path: shell(&written.path), bytes: written.bytes };
                let (ledger, earlier) = (shown(&written), earlier.iter().map(shown).collect::<Vec<_>>());
                let name = locate::short_name(outcome.name).to_string_lossy();
                let summary = RunSummary {
                    name: &clean(&name),
                    end: program_end(outcome.ended.status),
                    span: outcome.ended.span,
                    figures: &figures,
                    ledger: &ledger,
                    earlier: &earlier,
                    children: left.children,
                    paint: terminal::stderr_paint(arguments.bytes),
                };
                terminal::tell(&summary.to_string());
            }
            Err(problem) => say(&format!("{}: {problem:#}", written.path.display())),
        }
    }
}

/// Says so if the program became another one that was not recorded.
fn say_became(finished: &Finished, outcome: &Outcome<'_>) {
    let name = outcome.name.display();
    match (&finished.became, &finished.last) {
        (Some(program), Some(_)) => {
            let program = program.display();
            say(&format!(
                "{name} became {program}, which was not recorded; what follows is about the program before it"
            ));
        }
        (None, Some((ledger, _))) => {
            if let Some(last) = end::other_name(outcome.ended, ledger) {
                let last = last.escape_debug();
                say(&format!(
                    "{name} ended under the name {last}: if it became another program by exec, that one was not \
                     recorded; what follows is about the program before it"
                ));
            }
        }
        (_, None) => {}
    }
}

/// The summary of all processes; and how many errors were found in all of them, of which `own` are the program's, which has the number `pid`.
fn tell_of_all(arguments: &RunArgs, outcome: &Outcome<'_>, family: &FamilyOutcome, (pid, own): (Option<u32>, u64)) {
    if arguments.quiet && arguments.error_exitcode.is_none() {
        return; // nobody asks
    }
    match super::family::summed(family) {
        Ok(summed) => {
            let processes = summed.1.tree.processes.iter().zip(&summed.1.processes);
            let others = processes.filter(|(process, _)| Some(process.pid) != pid).map(|(_, figures)| figures.errors);
            let all = others.fold(own, u64::saturating_add);
            outcome.errors.set(i32::try_from(all).unwrap_or(i32::MAX));
            if !arguments.quiet {
                super::family::tell(family, &summed, outcome, arguments);
            }
        }
        Err(problem) => say(&format!("{}: {problem:#}", family.directory.display())),
    }
}

/// Reads all records, and names the call sites that are told of. The program took `span`, and its ledger was finished into a file.
fn figures(ledger: &Ledger, span: Duration, finished: &Path) -> Result<RunFigures> {
    let mut progress = Progress::of_ours("reading the ledger", false);
    let all = ledger.storage()?.ledger_bytes;
    let clock = Clock::new(ledger, SystemTime::now())?;
    let mut show = |part: f32| progress.bytes((f64::from(part) * all as f64) as u64, all);
    let summary = heapledger_analysis::Summary::without_sites(ledger, clock, &mut show)?;
    let sites = super::sites::told(ledger, span, &mut show).unwrap_or_default();
    drop(progress);
    let figures = RunFigures::new(ledger.process().program().unwrap_or_default(), &summary, sites);
    Ok(figures.with_sparks(super::over_time::sparks(ledger, finished)))
}

/// How many errors were found that are not excused.
fn errors(ledger: &Ledger, arguments: &RunArgs) -> Result<u64> {
    let mut errors = ledger.errors()?;
    errors.retain(|found| is_wrong(&found.entry));
    if !errors.is_empty() && !arguments.suppress.is_empty() {
        let mut names = Names::new(ledger, Symbolizer::new(symbols::Options::default()), SourceReader::new(None))?;
        names.resolve(sites_of(&errors), NamingOptions::default(), &mut |_| {})?;
        excuse(&mut errors, &suppressions(&arguments.suppress)?, &mut |site| names.stack(site))?;
    }
    Ok(errors.len() as u64)
}

pub(super) fn program_end(status: ExitStatus) -> ProgramEnd {
    match (status.code(), status.signal()) {
        (Some(code), _) => ProgramEnd::Status(code),
        (None, Some(signal)) => ProgramEnd::Signal { name: signal_name(signal), core_dumped: status.core_dumped() },
        (None, None) => ProgramEnd::Unknown,
    }
}

/// `SIGTERM`, or its number if it has no name.
pub(crate) fn signal_name(signal: i32) -> String {
    Signal::try_from(signal).map_or_else(|_| format!("signal {signal}"), |known| known.as_str().into())
}

/// The process that was to finish them ended in another way.
pub(crate) fn say_failed(left: &Left, status: ExitStatus) {
    let unfinished = left.give_up();
    say_unfinished(&format!("finishing the ledger failed ({status})"), &unfinished);
    // Whoever ends it knows that there is no summary; of a crash nobody does.
    let crashes = [Signal::SIGSEGV, Signal::SIGBUS, Signal::SIGABRT, Signal::SIGILL, Signal::SIGFPE];
    if unfinished.is_empty()
        && status.signal().is_some_and(|number| crashes.iter().any(|crash| *crash as i32 == number))
    {
        say_lines(&format!("the summary failed ({status}); no ledger is left unfinished"));
    }
    left.clear();
}

/// Says which ledgers are left unfinished, and what to do with them. Nothing, if only the summary was still to come.
fn say_unfinished(why: &str, unfinished: &[PathBuf]) {
    let mut text = String::new();
    for path in unfinished {
        let _ = write!(text, "\n  to finish it: heapledger recover {}", shell(path));
    }
    if !text.is_empty() {
        say_lines(&format!("{why}; the ledger is left unfinished:{text}"));
    }
}

/// Says where a ledger is that cannot be finished here.
fn say_kept(why: &LaunchError, at: Result<PathBuf, LaunchError>) {
    let text = match at {
        Ok(path) => format!(
            "the unfinished ledger is kept: {}\n  to finish it elsewhere: heapledger recover {} -o DIR",
            clean(&path.to_string_lossy()),
            shell(&path)
        ),
        Err(reason) => {
            format!("the unfinished ledger, which was removed meanwhile, is lost: {}", clean(&reason.to_string()))
        }
    };
    say_lines(&format!("{}\n  {text}", clean(&why.to_string())));
}

fn say_no_ledger(why: Option<NoLedger>, outcome: &Outcome<'_>) {
    let name = outcome.name.display();
    match why {
        None => {}
        Some(NoLedger::Unreadable(directory, reason)) => say_lines(&format!(
            "the ledger of {} cannot be looked for: {reason}\n  to finish it elsewhere: heapledger recover {} -o DIR",
            clean(&outcome.name.to_string_lossy()),
            shell(&directory)
        )),
        Some(NoLedger::RemovedAtOnce) => {
            say(&format!("the ledger of {name} is lost: its file was removed as soon as it was made"));
        }
        Some(NoLedger::NeverOpened) => {
            let reason = match outcome.ended.status.signal() {
                Some(libc::SIGSYS) => "its system calls are restricted",
                Some(_) => "it may have ended before its first allocation",
                None => {
                    "the loader may have refused the library (then its message is above), or the program became one that \
                     cannot be tracked"
                }
            };
            say(&format!("no ledger of {name} was opened: {reason}"));
        }
    }
}
