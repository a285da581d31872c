//! `heapledger recover`: finishes ledgers whose `run` is gone, and clears away what else is left of it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail, ensure};
use heapledger_format::session::{ending, process as key};
use heapledger_launch::LaunchError;
use heapledger_launch::family;
use heapledger_launch::finish::Finisher;
use heapledger_launch::output::{below, directory_of, without_variables};
use heapledger_launch::recover::{self, Abandoned, Hands, Killed, Unfinished, UnfinishedState};
use heapledger_report::Figures;
use heapledger_source::More;

use crate::args::{OUTPUT, RecoverArgs};
use crate::terminal::Progress;
use crate::{FAILURE, terminal, text};

/// Finds, lists, finishes.
pub(crate) fn run(arguments: &RecoverArgs) -> Result<ExitCode> {
    let finds = recover::find(&arguments.places).map_err(refusal)?;
    let found = &finds.ledgers;
    let here = PathBuf::from(".");
    let output = arguments.output.as_ref().unwrap_or(&here);
    let pattern = if names_a_ledger(output) {
        let shown = output.display();
        let several = "which need a directory: --output DIR";
        ensure!(arguments.list || found.len() <= 1, "{shown} is one file for {} ledgers, {several}", found.len());
        without_variables(output)
    } else {
        if !arguments.list && !found.is_empty() {
            make_directory(output)?;
        }
        below(output, OUTPUT.as_ref()).1
    };
    let mut finisher = Finisher::new(pattern);
    let mut failures = 0;
    for unfinished in found {
        if let Err(problem) = one(unfinished, arguments, &mut finisher) {
            crate::say_problem(&problem);
            failures += 1;
        }
    }
    let directory = if output.is_dir() { output } else { directory_of(output) };
    let abandoned = finds.abandoned(directory, if arguments.list { Abandoned::Kept } else { Abandoned::Removed });
    for workplace in &abandoned {
        let then = if arguments.list { "" } else { "; removed" };
        terminal::line(&format!("{}: left half written by a heapledger that was killed{then}", workplace.display()))?;
    }
    if found.is_empty() && abandoned.is_empty() {
        terminal::line("no unfinished ledger found")?;
    }
    Ok(if failures == 0 { ExitCode::SUCCESS } else { ExitCode::from(FAILURE) })
}

/// The directory for what is finished; made, with those above it, if it is not there.
fn make_directory(path: &Path) -> Result<()> {
    let shown = path.display();
    if path.exists() {
        ensure!(path.is_dir(), "{shown} is a file; --output takes a directory, or NAME.hl for one ledger");
        return Ok(());
    }
    std::fs::create_dir_all(path).with_context(|| format!("cannot make the directory {shown}"))
}

/// Whether `--output` is the name of one finished ledger, as that of `run` is.
fn names_a_ledger(output: &Path) -> bool {
    output.extension().is_some_and(|ending| ending == ending::FINISHED.trim_start_matches('.')) && !output.is_dir()
}

/// Why what a person named cannot be finished, with what can be done instead.
fn refusal(problem: LaunchError) -> anyhow::Error {
    match &problem {
        LaunchError::NotUnfinished(_) => anyhow!("{problem}; every reading command takes it as it is"),
        LaunchError::Finished(path) => anyhow!("{problem}; read it with `heapledger stats {}`", text::shell(path)),
        _ => problem.into(),
    }
}

fn one(unfinished: &Unfinished, arguments: &RecoverArgs, finisher: &mut Finisher) -> Result<()> {
    let live = &unfinished.live;
    let path = live.path.display();
    let (ledger, hands) = match unfinished.state(if arguments.list { Killed::AsItIs } else { Killed::Awaited })? {
        UnfinishedState::Blank { for_good } if arguments.list || !for_good => {
            return Ok(terminal::line(&format!("{path}: nothing was recorded yet"))?);
        }
        UnfinishedState::Blank { .. } => {
            unfinished.remove()?;
            return Ok(terminal::line(&format!("{path}: nothing was recorded; removed"))?);
        }
        UnfinishedState::Recorded(ledger, hands) => (ledger, hands),
    };
    let process = ledger.process();
    let pid = process.pid().unwrap_or(0);
    let who = format!("{} (process {pid})", process.program().unwrap_or_else(|| "unknown program".into()));
    let busy = match hands {
        Hands::Running => Some([
            "still running".to_owned(),
            format!("is still running: its ledger is not finished yet; read it with `heapledger stats {pid}`"),
        ]),
        Hands::Ending => Some([
            "killed, but not gone yet".to_owned(),
            "was killed, but is not gone yet: try again in a moment".to_owned(),
        ]),
        Hands::Run(run) => Some([
            format!("ended; its `heapledger run` (process {run}) finishes it"),
            format!("has ended, and its `heapledger run` (process {run}) finishes the ledger"),
        ]),
        Hands::Nobody => None,
    };
    if let Some([busy, sentence]) = busy {
        if arguments.places.contains(&live.path) && !arguments.list {
            bail!("{who} {sentence}");
        }
        terminal::line(&format!("{path}: {who}, {busy}{}", if arguments.list { "" } else { "; left alone" }))?;
        return Ok(());
    }
    if arguments.list {
        let bytes = ledger.storage().map_or(0, |storage| storage.file_bytes);
        terminal::line(&format!("{path}: {who}, ended; {}", Figures::default().bytes(bytes)))?;
        return Ok(());
    }
    let mut progress = Progress::of_ours("writing the ledger", false);
    let session = family::directory_of(live).filter(|_| arguments.output.is_none());
    let usual = finisher.pattern.clone();
    if let Some(session) = &session {
        let image = ledger.process().number(key::IMAGE).and_then(|image| u32::try_from(image).ok()).unwrap_or(0);
        finisher.pattern = family::ledger_in(session, image);
    }
    let written = finisher.finish(live, &ledger, More::default(), &mut |done, of| progress.bytes(done, of));
    finisher.pattern = usual;
    drop(progress);
    let written = written.with_context(|| format!("{path}: {who}"))?;
    if let Some(session) = &session {
        family::recovered(session, &ledger, &written).with_context(|| format!("{}", session.display()))?;
    }
    let bytes = Figures::default().bytes(written.bytes);
    terminal::line(&format!("{path}: {who} -> {} ({bytes})", written.path.display()))?;
    Ok(())
}
