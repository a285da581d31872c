//! Snapshots and comparisons, of programs that go on.

#[path = "diff/asleep.rs"]
mod asleep;
#[path = "diff/compare.rs"]
mod compare;
#[path = "diff/hold.rs"]
mod hold;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use heapledger_e2e::process::{self, Ran, Running, until};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, heapledger};
use heapledger_e2e::tracked::under_run;
use heapledger_e2e::{Result, check};

/// Compiles a program that is written here, because two of it differ in a line or two.
fn compile(scratch: &Scratch, name: &str, text: &str, flags: &[&str]) -> Result<PathBuf> {
    let source = scratch.path(&format!("{name}.c"));
    fs::write(&source, text).map_err(|error| error.to_string())?;
    let program = scratch.path(name);
    let mut gcc = command("gcc");
    gcc.args(["-O1", "-g", "-pthread"]).args(flags).arg("-o").arg(&program).arg(&source);
    process::run(&mut gcc)?.good()?;
    Ok(program)
}

/// A program under `run`, which has said that it is ready by making a file.
struct Target {
    running: Running,
    pid: u32,
}

impl Target {
    fn start(scratch: &Scratch, program: &Path, arguments: &[String]) -> Result<Target> {
        let mut run = under_run(scratch, "end", &[], program, arguments);
        let running = process::start(run.stdin(Stdio::null()))?;
        let mut pid = 0;
        until("it has begun", || {
            pid = process::children(running.pid()).first().copied().unwrap_or(0);
            pid != 0 && tell(&["stats", &pid.to_string()]).is_ok_and(|ran| ran.status.success())
        })?;
        Ok(Target { running, pid })
    }

    fn snapshot(&self, scratch: &Scratch, name: &str, options: &[&str]) -> Result<PathBuf> {
        let path = scratch.path(name);
        let mut snapshot = command(heapledger());
        snapshot.arg("snapshot").args(options).arg("-o").arg(&path).arg(self.pid.to_string());
        let ran = process::run(&mut snapshot)?.good()?;
        check!(ran.err().is_empty() && ran.out().contains(name), "{ran}");
        Ok(path)
    }
}

fn tell(words: &[&str]) -> Result<Ran> {
    process::run(command(heapledger()).args(words))
}

fn wait_for(path: &Path) -> Result {
    until(&format!("{} is there", path.display()), || path.exists())
}

fn touch(path: &Path) -> Result {
    fs::write(path, "").map_err(|error| error.to_string())
}

/// What can be typed wrongly.
#[test]
fn wrong_words_are_told() -> Result {
    for (words, code, about) in [
        (&["diff", "a.hl"][..], 2, "two ledgers"),
        (&["diff", "a.hl", "b.hl", "c.hl"], 2, "a.hl is no executable"),
        (&["diff", "--every", "10s", "a.hl", "b.hl"], 2, "a.hl is no executable"),
        (&["diff", "--every", "10x", "1"], 2, "10x"),
        (&["diff", "--count", "3", "1"], 2, "--every"),
        (&["diff", "--every", "1s", "--after", "1s", "1"], 2, "--after"),
        (&["diff", "/no/such/a.hl", "/no/such/b.hl"], 1, "/no/such/a.hl"),
        (&["diff", "--every", "1s", "4194304"], 1, "4194304"),
        (&["snapshot"], 2, "PID|FILE"),
        (&["snapshot", "4194304"], 1, "4194304"),
        (&["snapshot", "--freeze", "1"], 1, "1"),
        (&["snapshot", "/tmp"], 1, "/tmp"),
    ] {
        let ran = tell(words)?;
        check!(ran.status.code() == Some(code), "{words:?}: {ran}");
        check!(ran.err().starts_with("heapledger: ") && ran.err().contains(about), "{words:?}: {ran}");
        check!(ran.stdout.is_empty(), "{words:?}: {ran}");
    }
    Ok(())
}
