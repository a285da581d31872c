//! `cargo xtask stress`: every victim with threads, signals or forks, again and again, on a loaded machine.

use std::process::Command;

use crate::step::{Result, cargo, output, run as run_command, target};

const USAGE: &str = "\
cargo xtask stress [TIMES] [--jobs N] [--load N] [NAME…]
  TIMES              runs of each victim, in each of its ways (default 2000)
  --jobs N           runs at a time (default 4)
  --load N           threads that only take processor time (default 2)
  NAME               only victims whose name and arguments contain it";

/// Processors for all of it: few, so that threads are interrupted in the middle of everything.
const PROCESSORS: &str = "0,1";

/// Builds what is needed and runs it; prints a table.
pub(crate) fn run(words: &[&str]) -> Result {
    if words.iter().any(|word| ["-h", "--help"].contains(word)) {
        println!("{USAGE}");
        return Ok(());
    }
    println!("building …");
    run_command(&mut cargo(&["build", "--release", "--package", "heapledger-cli"]))?;
    let example = ["build", "--release", "--package", "heapledger-e2e", "--example", "stress"];
    run_command(&mut cargo(&example))?;
    let program = target().join("release/examples/stress");
    let has_taskset = output(Command::new("taskset").args(["-c", PROCESSORS, "true"])).is_ok();
    let mut command = if has_taskset { Command::new("taskset") } else { Command::new(&program) };
    if has_taskset {
        command.args(["-c", PROCESSORS]).arg(&program);
    } else {
        println!("without taskset: on all processors");
    }
    command.args(words).env("HEAPLEDGER_E2E_CLI", target().join("release/heapledger"));
    run_command(&mut command)
}
