//! `run --children`: the watch over all processes begins, ends, and what became of them is said.

use std::fs;
use std::path::Path;
use std::process::ExitStatus;
use std::time::SystemTime;

use anyhow::Result;
use heapledger_analysis::FamilySummary;

use heapledger_format::session::Key;
use heapledger_launch::family::{FamilyOutcome, FamilyPlan, FamilyWatch, ledger_in};
use heapledger_launch::finish::Written;
use heapledger_launch::start::Session;
use heapledger_launch::wait::Signals;
use heapledger_launch::{locate, machine};
use heapledger_report::{FamilyRun, clean, counted, largest_holder};
use heapledger_source::{Family, Ledger};

use super::end::Outcome;
use crate::args::{OUTPUT, RunArgs};
use crate::terminal::Progress;
use crate::text::shell;
use crate::{say, say_lines, terminal};

/// Begins to watch, if that is asked for. The finished ledger of the program itself goes where the others do from now on.
pub(super) fn begin(arguments: &mut RunArgs, session: &Session, pid: i32) -> Option<FamilyWatch> {
    arguments.children.as_ref()?;
    let plan = FamilyPlan {
        base: session.base.clone(),
        session: session.name.clone(),
        pattern: arguments.output.clone(),
        command: arguments.command.clone(),
        processes_max: arguments.max_processes,
        bytes_max: arguments.settings.get(Key::MaxLedger).and_then(|bytes| bytes.to_str()?.parse().ok()),
        whereabouts: machine::described(arguments.machine_id),
    };
    match FamilyWatch::begin(plan, pid.cast_unsigned()) {
        Ok(watch) => {
            arguments.output = ledger_in(watch.directory(), 0);
            Some(watch)
        }
        Err(problem) => {
            say(&format!(
                "{problem}: the ledgers of child processes stay unfinished; `heapledger recover` finishes them"
            ));
            if !arguments.output_is_asked_for {
                arguments.output = OUTPUT.into(); // one ledger, as without children
            } else if Path::new(&arguments.output).is_dir() {
                arguments.output = ledger_in(Path::new(&arguments.output), 0);
            }
            None
        }
    }
}

/// The program has ended.
pub(super) fn end(watch: FamilyWatch, arguments: &RunArgs, status: ExitStatus, signals: &Signals) -> FamilyOutcome {
    let outcome = watch.end(arguments.children_end, status, signals);
    if outcome.given_up > 0 {
        let ledgers = counted(outcome.given_up, "ledger is", "ledgers are");
        say(&format!("given up; {ledgers} left unfinished, for `heapledger recover` to finish"));
    }
    outcome.problems.iter().for_each(|problem| say(&clean(problem)));
    outcome
}

/// Writes the program itself, as far as it has ledgers, the last one first, and the end to the list of processes.
pub(super) fn close(family: &FamilyOutcome, not_recorded: u64, ledgers: &[(Ledger, &Written)]) {
    if let Err(reason) = family.close(ledgers, not_recorded) {
        say(&format!("the list of processes cannot be written: {reason}"));
    }
}

/// A session and what it comes to.
pub(super) type Summed = (Family, FamilySummary);

/// Reads all of its ledgers.
///
/// # Errors
/// If its list cannot be read again.
pub(super) fn summed(family: &FamilyOutcome) -> Result<Summed> {
    let session = Family::open(&family.directory)?;
    let mut progress = Progress::of_ours("reading the ledgers", false);
    let mut show = |part: f32| progress.bytes((f64::from(part) * 1e6) as u64, 1_000_000);
    let summary = FamilySummary::of(&session, SystemTime::now(), &mut show);
    Ok((session, summary))
}

/// Says what became of all of them, on one screen.
pub(super) fn tell(family: &FamilyOutcome, (session, summary): &Summed, outcome: &Outcome<'_>, arguments: &RunArgs) {
    let sites = largest_holder(summary).and_then(|index| {
        let process = summary.tree.processes.get(index)?;
        let last = session.members.get(*process.images.last()?)?;
        let ledger = last.open().ok().flatten()?;
        Some((index, super::sites::told(&ledger, outcome.ended.span, &mut |_| {}).ok()?.live))
    });
    let run = FamilyRun {
        name: &locate::short_name(outcome.name).display().to_string(),
        end: super::end::program_end(outcome.ended.status),
        span: outcome.ended.span,
        family: session,
        summary,
        path: &shell(&family.directory),
        bytes: bytes_in(&family.directory),
        sites: sites.as_ref().map(|(index, sites)| (*index, sites.as_slice())),
        paint: terminal::stderr_paint(arguments.bytes),
    };
    terminal::tell(&run.to_string());
    if family.running_count > 0 {
        let names: Vec<String> = family.running.iter().map(|(pid, name)| format!("{} ({pid})", clean(name))).collect();
        let (count, names) = (family.running_count, names.join(", "));
        say_lines(&format!(
            "{count} still running: {names}\n  when they have ended, `heapledger recover` finishes their ledgers; `run --wait` waits"
        ));
    }
}

/// Bytes of the files in a session's directory.
fn bytes_in(directory: &Path) -> u64 {
    let items = fs::read_dir(directory).into_iter().flatten();
    items.filter_map(|item| Some(item.ok()?.metadata().ok()?.len())).sum()
}
