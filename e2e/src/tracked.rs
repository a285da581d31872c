//! Running a program with the tracker: under `heapledger run`, or preloaded by hand.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::process::{self, Ran};
use crate::scratch::Scratch;
use crate::tools::{command, heapledger, preload};
use crate::{Result, check};

/// A command under `heapledger run -q`: its ledger will be `NAME.hl`, or `NAME.hl.1` … for earlier program images.
pub fn under_run(scratch: &Scratch, name: &str, options: &[&str], program: &Path, arguments: &[String]) -> Command {
    let mut command = command(heapledger());
    command.args(["run", "-q", "-o"]).arg(scratch.path(&format!("{name}.hl")));
    command.arg("--ledger-dir").arg(scratch.live()).args(options);
    command.arg("--").arg(program).args(arguments).current_dir(scratch.work());
    command
}

/// A command with our library and then others in front of it, in an environment that a shell sets up; only this
/// process is recorded, as with `run`.
pub fn by_hand(scratch: &Scratch, behind: &[&Path], program: &Path, arguments: &[String]) -> Command {
    by_hand_with(scratch, "history=65536", behind, program, arguments)
}

/// The same with items of `HEAPLEDGER`, separated by commas.
pub fn by_hand_with(scratch: &Scratch, items: &str, behind: &[&Path], program: &Path, arguments: &[String]) -> Command {
    const SCRIPT: &str = r#"session=$(printf %016x $$)
        export LD_PRELOAD="$1" HEAPLEDGER="dir=$2,$3,pid=$$,session=$session"; shift 3; exec "$@""#;
    let mut command = command("/bin/sh");
    command.args(["-c", SCRIPT, "sh"]).arg(preload_list(behind)).arg(scratch.live()).arg(items);
    command.arg(program).args(arguments).current_dir(scratch.work());
    command
}

/// The value of `LD_PRELOAD` with our library first.
pub fn preload_list(behind: &[&Path]) -> String {
    let all = std::iter::once(preload()).chain(behind.iter().copied());
    all.map(|path| path.to_string_lossy().into_owned()).collect::<Vec<_>>().join(":")
}

/// Finishes the ledgers of programs that were preloaded by hand, and returns them.
pub fn recover(scratch: &Scratch) -> Result<Vec<PathBuf>> {
    let mut command = command(heapledger());
    command.arg("recover").arg(scratch.live()).arg("-o").arg(scratch.work());
    process::run(&mut command)?.good()?;
    let ours = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("heapledger."));
    Ok(scratch.finished().into_iter().filter(ours).collect())
}

/// Kills a victim under `run` so long after it was started: its ledger, `x.hl`.
pub fn killed(
    scratch: &Scratch,
    options: &[&str],
    victim: &str,
    arguments: &[&str],
    after: Duration,
) -> Result<PathBuf> {
    let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
    let program = crate::victim::named(victim)?.build()?;
    let mut command = under_run(scratch, "x", options, &program, &arguments);
    let tracked = process::start(command.stdin(Stdio::null()).stdout(Stdio::null()))?;
    let begun = Instant::now();
    let victim = fs::canonicalize(&program).map_err(|error| error.to_string())?;
    // On a loaded machine it is `run` itself for long, as far as that is between fork and exec.
    let is_it = |pid: &u32| fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|program| program == victim);
    let pid = loop {
        match process::children(tracked.pid()).into_iter().find(is_it) {
            Some(pid) => break pid,
            None if begun.elapsed() > process::PATIENCE => return Err("run starts no program".to_owned()),
            None => thread::sleep(Duration::from_millis(1)),
        }
    };
    thread::sleep(after);
    process::kill(pid.into(), "KILL")?;
    let ran = tracked.finish(process::PATIENCE)?;
    let ledger = scratch.path("x.hl");
    if ledger.exists() { Ok(ledger) } else { Err(format!("there is no ledger: {ran}")) }
}

/// Runs it, and checks that nothing is left behind but the finished ledger.
pub fn run_cleanly(scratch: &Scratch, command: &mut Command) -> Result<Ran> {
    let ran = process::run(command)?;
    let left = scratch.unfinished();
    check!(left.is_empty(), "left behind: {left:?}; {ran}");
    Ok(ran)
}

/// The ledgers of a run with this name, first program image first.
pub fn images(scratch: &Scratch, name: &str) -> Vec<PathBuf> {
    let last = scratch.path(&format!("{name}.hl"));
    // The last image has the name that was asked for; the others follow, latest first.
    let mut all: Vec<PathBuf> =
        (1..100).map(|number| scratch.path(&format!("{name}.hl.{number}"))).take_while(|path| path.exists()).collect();
    all.reverse();
    all.extend(last.exists().then_some(last));
    all
}

/// As [`by_hand`], for a name that is looked up.
pub fn shell(script: &str, arguments: &[&OsStr]) -> Command {
    let mut command = command("/bin/sh");
    command.args(["-c", script, "sh"]).args(arguments);
    command
}
