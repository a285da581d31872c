//! `run --children`: the watch over all processes begins, ends, and what became of them is said.

use std::process::ExitStatus;

use heapledger_format::session::Key;
use heapledger_launch::family::{FamilyOutcome, FamilyPlan, FamilyWatch, ledger_in, process_of};
use heapledger_launch::finish::Written;
use heapledger_launch::machine;
use heapledger_launch::start::Session;
use heapledger_launch::wait::Signals;
use heapledger_report::clean;
use heapledger_source::{FamilyLine, FamilyWriter, Ledger, MemberEnd};
use std::os::unix::process::ExitStatusExt;

use crate::args::RunArgs;
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
            None
        }
    }
}

/// The program has ended.
pub(super) fn end(watch: FamilyWatch, arguments: &RunArgs, signals: Signals) -> FamilyOutcome {
    let _ = signals;
    let outcome = watch.end(arguments.children_end);
    outcome.problems.iter().for_each(|problem| say(&clean(problem)));
    outcome
}

/// Writes the program itself, and the end, to the list of processes.
pub(super) fn close(
    family: &FamilyOutcome,
    not_recorded: u64,
    status: ExitStatus,
    ledger: &Ledger,
    written: &Written,
    earlier: &[Written],
) {
    let exit = match (status.code(), status.signal()) {
        (Some(code), _) => MemberEnd::Exit(code),
        (None, Some(signal)) => MemberEnd::Signal(signal),
        (None, None) => MemberEnd::Unknown,
    };
    let appended = FamilyWriter::reopen(&family.directory).and_then(|mut writer| {
        let before = earlier.iter().rev().filter_map(|written| Some((Ledger::open(&written.path).ok()?, written)));
        for (ledger, written) in before {
            writer.append(&FamilyLine::Process(process_of(&ledger, Some((written, MemberEnd::Exec)))))?;
        }
        writer.append(&FamilyLine::Process(process_of(ledger, Some((written, exit)))))
    });
    if let Err(reason) = appended.and_then(|()| family.close(exit, not_recorded)) {
        say(&format!("the list of processes cannot be written: {reason}"));
    }
}

/// Says what became of them, below the summary.
pub(super) fn tell(family: &FamilyOutcome, arguments: &RunArgs) {
    let _ = arguments;
    let place = shell(&family.directory);
    let mut lines = format!("{} child processes recorded; see `heapledger stats {place}`", family.finished);
    if family.running_count > 0 {
        let names: Vec<String> = family.running.iter().map(|(pid, name)| format!("{} ({pid})", clean(name))).collect();
        lines += &format!(
            "\n  {} still running: {}; when they have ended, `heapledger recover` finishes their ledgers (--wait waits)",
            family.running_count,
            names.join(", ")
        );
    }
    if family.unseen_count > 0 {
        let names: Vec<String> = family.unseen.iter().map(|name| clean(name).into_owned()).collect();
        lines += &format!("\n  {} not recorded: {}", family.unseen_count, names.join(", "));
    }
    for limit in &family.limits {
        lines += &format!("\n  {limit}");
    }
    let _ = terminal::stderr_paint(arguments.bytes);
    say_lines(&lines);
}
