//! `heapledger recover`: finishes ledgers whose `run` is gone, and clears away what else is left of it.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use heapledger_format::session::{ending, process as key};
use heapledger_source::{Ledger, Life};

use crate::args::{OUTPUT, RecoverArgs};
use crate::terminal::Progress;
use crate::{FAILURE, terminal, text};
use heapledger_launch::finish::{self, Finisher};
use heapledger_launch::live::{self, Live};
use heapledger_launch::output::{self, directory_of};
use heapledger_launch::session::{self, Remains};

/// How long a process that was killed is waited for.
const DYING: Duration = Duration::from_secs(2);
/// A recorder that has not begun after this time never will.
const SETTING_UP: Duration = Duration::from_secs(60);

/// Finds, lists, finishes.
pub(crate) fn run(arguments: &RecoverArgs) -> Result<ExitCode> {
    let finds = find(&arguments.places)?;
    let found = &finds.ledgers;
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
    let mut finisher = Finisher { pattern, force: false, fresh: BTreeSet::new(), nameless: false };
    let mut failures = 0;
    for live in found {
        if let Err(problem) = one(live, arguments, &mut finisher) {
            crate::say_problem(&problem);
            failures += 1;
        }
    }
    let directory = if output.is_dir() { output } else { directory_of(output) };
    let cleaned = clean(&finds, directory, arguments.list)?;
    if found.is_empty() && !cleaned {
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

/// A path as a pattern of file names, in which a percent sign is just that.
fn without_variables(path: &Path) -> PathBuf {
    use std::os::unix::ffi::OsStringExt;
    let mut pattern = Vec::new();
    for byte in path.as_os_str().as_bytes() {
        pattern.extend_from_slice(if *byte == b'%' { b"%%" } else { std::slice::from_ref(byte) });
    }
    PathBuf::from(OsString::from_vec(pattern))
}

/// What lies in the places.
struct Finds {
    ledgers: Vec<Live>,
    /// Directories of ledgers that were looked into.
    directories: BTreeSet<PathBuf>,
}

fn find(places: &[PathBuf]) -> Result<Finds> {
    let mut ledgers = BTreeSet::new();
    let mut directories = BTreeSet::new();
    if places.is_empty() {
        directories.extend(live::places().iter().map(|base| live::directory_in(base)));
        for directory in &directories {
            ledgers.extend(live::list(directory).unwrap_or_default());
        }
    }
    for place in places {
        if place.is_dir() {
            let inside = live::directory_in(place);
            let directory = if inside.is_dir() { &inside } else { place };
            ledgers.extend(live::list(directory).with_context(|| directory.display().to_string())?);
            directories.insert(directory.clone());
        } else {
            let live = named(place)?;
            let beside = Live::from_path(place).and_then(|_| place.parent());
            directories.extend(beside.filter(|beside| !beside.as_os_str().is_empty()).map(Path::to_owned));
            ledgers.insert(live);
        }
    }
    Ok(Finds { ledgers: ledgers.into_iter().collect(), directories })
}

/// What processes left behind that were killed, and nobody needs: half of a finished ledger, in the directory of
/// outputs or where its writer has put down, and what lay beside ledgers. Says what of it a person may have seen.
fn clean(finds: &Finds, output: &Path, list: bool) -> Result<bool> {
    let mut workplaces: BTreeSet<PathBuf> = output::abandoned_in(output).into_iter().collect();
    for directory in &finds.directories {
        let remains = Remains::of(directory);
        workplaces.extend(remains.workplaces.iter().filter_map(|path| path.canonicalize().ok()));
        if !list {
            remains.remove();
        }
    }
    for workplace in &workplaces {
        let then = if list { "" } else { "; removed" };
        if !list {
            output::remove_workplace(workplace);
        }
        terminal::line(&format!("{}: left half written by a heapledger that was killed{then}", workplace.display()))?;
    }
    Ok(!workplaces.is_empty())
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
    let session = ledger.process().text(key::SESSION).unwrap_or_default();
    Ok(Live { session, image: 0, path: path.to_owned() })
}

fn one(live: &Live, arguments: &RecoverArgs, finisher: &mut Finisher) -> Result<()> {
    let path = live.path.display();
    let Some(ledger) = finish::open(live)? else {
        // Just being set up, or its process was killed while it did so.
        let modified = std::fs::metadata(&live.path).and_then(|meta| meta.modified());
        let old = modified.is_ok_and(|then| then.elapsed().is_ok_and(|age| age > SETTING_UP));
        let run = live.path.parent().and_then(|directory| session::run_of(directory, &live.session));
        let own_name = Live::from_path(&live.path).is_some();
        if arguments.list || !old || !own_name || run.is_some() || live::is_mapped(&live.path) {
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
    let life = if arguments.list { ledger.life() } else { settled(&ledger) };
    let run = live.path.parent().and_then(|directory| session::run_of(directory, &live.session));
    let [busy, sentence] = match (life, run) {
        (Life::Running, _) => [
            "still running".to_owned(),
            format!("is still running: its ledger is not finished yet; read it with `heapledger stats {pid}`"),
        ],
        (Life::Ending, _) => {
            ["killed, but not gone yet".to_owned(), "was killed, but is not gone yet: try again in a moment".to_owned()]
        }
        (Life::Ended, Some(run)) => [
            format!("ended; its `heapledger run` (process {run}) finishes it"),
            format!("has ended, and its `heapledger run` (process {run}) finishes the ledger"),
        ],
        (Life::Ended, None) => Default::default(),
    };
    if !busy.is_empty() {
        if arguments.places.contains(&live.path) && !arguments.list {
            bail!("{who} {sentence}");
        }
        terminal::line(&format!("{path}: {who}, {busy}{}", if arguments.list { "" } else { "; left alone" }))?;
        return Ok(());
    }
    if arguments.list {
        let bytes = ledger.storage().map_or(0, |storage| storage.file_bytes);
        terminal::line(&format!("{path}: {who}, ended; {}", heapledger_report::Figures::default().bytes(bytes)))?;
        return Ok(());
    }
    let mut progress = Progress::of_ours("writing the ledger", false);
    let written = finisher
        .finish(live, &ledger, &[], &mut |done, of| progress.bytes(done, of))
        .with_context(|| format!("{path}: {who}"))?;
    drop(progress);
    terminal::line(&format!(
        "{path}: {who} -> {} ({})",
        written.path.display(),
        heapledger_report::Figures::default().bytes(written.bytes)
    ))?;
    Ok(())
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
        std::thread::sleep(Duration::from_millis(10));
    }
}
