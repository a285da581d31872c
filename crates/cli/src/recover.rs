//! `heapledger recover`: finishes ledgers whose `run` is gone.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use heapledger_source::Ledger;

use crate::args::{OUTPUT, RecoverArgs};
use crate::finish::{self, Finisher};
use crate::live::{self, Live};
use crate::{FAILURE, terminal, text};

/// A recorder that has not begun after this time never will.
const SETTING_UP: Duration = Duration::from_secs(60);

/// Finds, lists, finishes.
pub(crate) fn run(arguments: &RecoverArgs) -> Result<ExitCode> {
    let found = find(&arguments.places)?;
    let output = &arguments.output;
    let pattern = if names_a_ledger(output) {
        let shown = output.display();
        let several = "which need a directory: --output DIR";
        ensure!(arguments.list || found.len() <= 1, "{shown} is one file for {} ledgers, {several}", found.len());
        without_variables(output).into()
    } else {
        if !arguments.list && !found.is_empty() {
            make_directory(output)?;
        }
        without_variables(output).join(OUTPUT).into()
    };
    let mut finisher = Finisher { pattern, force: false, talk: true, fresh: BTreeSet::new() };
    let mut failures = 0;
    for live in &found {
        if let Err(problem) = one(live, arguments, &mut finisher) {
            crate::say_problem(&problem);
            failures += 1;
        }
    }
    if found.is_empty() {
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
    output.extension().is_some_and(|ending| ending == "hl") && !output.is_dir()
}

/// A path as a pattern of file names, in which a percent sign is just that.
fn without_variables(path: &Path) -> PathBuf {
    use std::os::unix::ffi::OsStringExt;
    let mut pattern = Vec::new();
    for byte in path.as_os_str().as_bytes() {
        pattern.extend_from_slice(if *byte == b'%' { b"%%" } else { std::slice::from_ref(byte) });
    }
    PathBuf::from(OsString::from_vec(pattern))
}

fn find(places: &[PathBuf]) -> Result<Vec<Live>> {
    let mut all = BTreeSet::new();
    if places.is_empty() {
        for base in live::bases() {
            all.extend(live::list(&live::directory_in(&base)).unwrap_or_default());
        }
    }
    for place in places {
        if place.is_dir() {
            let inside = live::directory_in(place);
            let directory = if inside.is_dir() { &inside } else { place };
            all.extend(live::list(directory).with_context(|| directory.display().to_string())?);
        } else {
            all.insert(named(place)?);
        }
    }
    Ok(all.into_iter().collect())
}

/// A ledger that was named by a person: its name may have been changed.
fn named(path: &Path) -> Result<Live> {
    if let Some(live) = Live::from_path(path) {
        return Ok(live);
    }
    let ledger = Ledger::open(path)?;
    if ledger.found().is_some() || ledger.is_copy() {
        bail!("{} is not an unfinished ledger; every reading command takes it as it is", path.display());
    }
    if ledger.is_finished() {
        bail!("{} is finished already; read it with `heapledger stats {}`", path.display(), text::shell(path));
    }
    let session = ledger.process().text("session").unwrap_or_default();
    Ok(Live { session, image: 0, path: path.to_owned() })
}

fn one(live: &Live, arguments: &RecoverArgs, finisher: &mut Finisher) -> Result<()> {
    let path = live.path.display();
    let Some(ledger) = finish::open(live)? else {
        // Just being set up, or its process was killed while it did so.
        let modified = std::fs::metadata(&live.path).and_then(|meta| meta.modified());
        let old = modified.is_ok_and(|then| then.elapsed().is_ok_and(|age| age > SETTING_UP));
        if arguments.list || !old || live::is_mapped(&live.path) {
            terminal::line(&format!("{path}: nothing was recorded yet"))?;
        } else {
            std::fs::remove_file(&live.path).with_context(|| path.to_string())?;
            terminal::line(&format!("{path}: nothing was recorded; removed"))?;
        }
        return Ok(());
    };
    let process = ledger.process();
    let pid = process.pid().unwrap_or(0);
    let who = format!("{} (process {pid})", process.program().unwrap_or_else(|| "unknown program".into()));
    if ledger.is_running() || live::is_mapped(&live.path) {
        let explicitly = arguments.places.contains(&live.path);
        if explicitly && !arguments.list {
            bail!("{who} is still running: its ledger is not finished yet; read it with `heapledger stats {pid}`");
        }
        terminal::line(&format!("{path}: {who}, still running{}", if arguments.list { "" } else { "; left alone" }))?;
        return Ok(());
    }
    if arguments.list {
        let bytes = ledger.storage().map_or(0, |storage| storage.file_bytes);
        terminal::line(&format!("{path}: {who}, ended; {}", heapledger_report::Figures::default().bytes(bytes)))?;
        return Ok(());
    }
    let written = finisher.finish(live, &ledger, &[]).with_context(|| format!("{path}: {who}"))?;
    forget_children(live);
    terminal::line(&format!(
        "{path}: {who} -> {} ({})",
        written.path.display(),
        heapledger_report::Figures::default().bytes(written.bytes)
    ))?;
    Ok(())
}

/// The count of children goes with the last ledger of its session.
fn forget_children(live: &Live) {
    let Some(directory) = live.path.parent() else { return };
    let others = live::list(directory).is_ok_and(|all| all.iter().any(|other| other.session == live.session));
    if !others {
        let _ = std::fs::remove_file(live::children_file(directory, &live.session));
    }
}
