//! What ledgers of a session say, process by process, beside what a counting library in each of these processes says, which knows nothing of
//! ours.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::counts::Counts;
use crate::ledger::{Stats, check_totals};
use crate::scratch::Scratch;
use crate::tools::{command, heapledger};
use crate::{Result, check, process, victim};

/// A command under `run --children`, in which a shell puts the counting library behind ours and becomes the program. Its session is `s`,
/// its counts are `counts.PID`.
pub fn under_run(scratch: &Scratch, options: &[&str], program: &Path, arguments: &[&str]) -> Result<Command> {
    let mut command = command(heapledger());
    command.args(["run", "-q", "--children", "-o"]).arg(scratch.path("s"));
    command.arg("--ledger-dir").arg(scratch.live()).args(options);
    const SCRIPT: &str = r#"export LD_PRELOAD="$LD_PRELOAD:$1" COUNTER_OUT="$2+"; shift 2; exec "$@""#;
    command.args(["--", "/bin/sh", "-c", SCRIPT, "sh"]).arg(victim::counter()?).arg(scratch.path("counts"));
    command.arg(program).args(arguments).current_dir(scratch.work());
    Ok(command)
}

/// The lines of a session's list of processes, the last one for each program of a process.
pub fn processes(session: &Path) -> Result<Vec<Value>> {
    let text = fs::read_to_string(session.join("session.jsonl")).map_err(|error| format!("{session:?}: {error}"))?;
    let mut last = BTreeMap::new();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).map_err(|error| format!("{line}: {error}"))?;
        let process = &line["process"];
        if process.is_object() {
            let key = [&process["pid"], &process["start_ticks"], &process["image"]].map(Value::as_u64);
            last.insert(key, process.clone());
        }
    }
    Ok(last.into_values().collect())
}

/// The number of the shell that became the program.
pub fn first_pid(session: &Path) -> Result<u64> {
    let text = fs::read_to_string(session.join("session.jsonl")).map_err(|error| format!("{session:?}: {error}"))?;
    let head: Value = serde_json::from_str(text.lines().next().unwrap_or("")).map_err(|error| error.to_string())?;
    let of_run = |process: &Value| process["ppid"] == head["run_pid"];
    let all = processes(session)?;
    Ok(all.iter().find(|process| of_run(process)).and_then(|process| process["pid"].as_u64()).unwrap_or(0))
}

/// Starts a family whose threads allocate and whose children come one after the other, kills one of it, all, or `run`, at a moment that goes by the
/// number, and holds what ledgers say then against what was counted.
///
/// # Errors
/// If anything is lost.
pub fn kill_somebody(number: u64) -> Result {
    let scratch = Scratch::new();
    let family = victim::named("family")?.build()?;
    let mut running = process::start(&mut under_run(&scratch, &[], &family, &["threads", "1000000"])?)?;
    let list = scratch.path("s/session.jsonl");
    let is_listed = || fs::read_to_string(&list).is_ok_and(|text| text.contains("\"forked\":true"));
    process::until("a child is listed", is_listed)?;
    let random = number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    thread::sleep(Duration::from_micros((random >> 32) % 120_000));
    let program = *process::children(running.pid()).first().ok_or("there is no program")?;
    // (A child may have ended meanwhile: the next one it is, if there is one by now.)
    let child = || process::children(program).first().map_or(Ok(()), |child| process::kill((*child).into(), "KILL"));
    match number % 4 {
        0 => process::kill(program.into(), "KILL")?,
        1 => {
            // Its parent sees that something is wrong, says so and ends.
            let _ = child();
            thread::sleep(Duration::from_millis(20));
            let _ = process::kill(program.into(), "KILL");
        }
        2 => {
            process::kill(running.pid().into(), "KILL")?;
            // Without `run` it goes on.
            thread::sleep(Duration::from_millis(50));
            process::kill(program.into(), "KILL")?;
        }
        _ => {
            process::kill(running.pid().into(), "KILL")?;
            let _ = child();
            process::kill(program.into(), "KILL")?;
        }
    }
    let _ = running.runs();
    running.finish(process::PATIENCE)?;
    let recovered = || {
        let ran = process::run(command(heapledger()).arg("recover").arg(scratch.live()).current_dir(scratch.work()));
        ran.and_then(process::Ran::good).is_ok() && scratch.unfinished().is_empty()
    };
    process::until("all is finished", recovered)?;
    // Its three threads and itself may have been in the middle of a call each; so may a child.
    agree(&scratch, 6).map_err(|error| format!("kill {number}: {error}"))?;
    Ok(())
}

/// What the ledgers of one process say together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Blocks that began.
    pub allocations: u64,
    /// Those of its own that ended.
    pub frees: u64,
    /// Frees of blocks that are none of its own.
    pub inherited: u64,
    /// Calls that may be missing, since the process ended in the middle of them.
    pub slack: u64,
}

/// What the ledgers of a session say, by process. Each is read, and agrees with itself, but for so many calls.
fn sums(session: &Path, in_hooks: u64) -> Result<BTreeMap<u64, Sums>> {
    let mut all: BTreeMap<u64, Sums> = BTreeMap::new();
    let first = first_pid(session)?;
    // All that lie there: who was killed between finishing one and writing that down has left it as well.
    for item in fs::read_dir(session).map_err(|error| error.to_string())? {
        let path = item.map_err(|error| error.to_string())?.path();
        if path.extension().is_none_or(|end| end != "hl") {
            continue;
        }
        let (name, stats) = (path.display(), Stats::of(&path)?);
        if stats.inner("process", "pid") == first && stats.inner("process", "image") == 0 {
            continue; // what the shell did was not counted
        }
        let odd = stats.signed("unaccounted").unsigned_abs();
        // A fork in the middle of a hook is the one thing that may leave a ledger uneven.
        if odd != 0 && odd <= in_hooks {
            check!(stats.losses().is_empty(), "{name}: {:?}", stats.losses());
        } else {
            check_totals(&stats, &[])?;
        }
        let sums = all.entry(stats.inner("process", "pid")).or_default();
        sums.allocations += stats.number("allocations");
        sums.frees += stats.number("frees");
        sums.inherited += stats.number("inherited_frees") + stats.number("unknown_frees");
        sums.slack += stats.may_be_in_flight();
    }
    Ok(all)
}

/// Each ledger that is listed is there, and is that of its process.
fn listed_are_there(session: &Path) -> Result {
    for process in processes(session)? {
        let Some(name) = process["ledger"].as_str() else { continue };
        let stats = Stats::of(session.join(name))?;
        check!(process["pid"].as_u64() == Some(stats.inner("process", "pid")), "{name} is not of {process}");
    }
    Ok(())
}

/// What was counted in each process, all its programs together.
fn counted(scratch: &Scratch) -> Result<BTreeMap<u64, (u64, u64)>> {
    let mut all: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for item in fs::read_dir(scratch.work()).map_err(|error| error.to_string())? {
        let path = item.map_err(|error| error.to_string())?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some(pid) = name.strip_prefix("counts.").and_then(|rest| rest.split('.').next()?.parse().ok()) else {
            continue;
        };
        let counts = Counts::read(&path)?;
        let sums = all.entry(pid).or_default();
        sums.0 += counts.allocations();
        sums.1 += counts.frees();
    }
    Ok(all)
}

/// Ledgers and counts are of the same processes, and say the same; but for so many calls in each that were the middle of something.
pub fn agree(scratch: &Scratch, slack: u64) -> Result<BTreeMap<u64, Sums>> {
    agree_with(scratch, slack, 0)
}

/// The same where so many forks were made in the middle of a hook, each of which may leave a call in a ledger once more, or once less.
pub fn agree_but_for_hooks(scratch: &Scratch, forks: u64) -> Result<BTreeMap<u64, Sums>> {
    agree_with(scratch, forks, forks)
}

fn agree_with(scratch: &Scratch, slack: u64, in_hooks: u64) -> Result<BTreeMap<u64, Sums>> {
    listed_are_there(&scratch.path("s"))?;
    let (ours, counted) = (sums(&scratch.path("s"), in_hooks)?, counted(scratch)?);
    let mut wrong = Vec::new();
    for (pid, (allocations, frees)) in &counted {
        let sums = ours.get(pid).copied().unwrap_or_default();
        let slack = slack + sums.slack;
        if sums.allocations.abs_diff(*allocations) > slack || (sums.frees + sums.inherited).abs_diff(*frees) > slack {
            wrong
                .push(format!("process {pid}: {allocations} allocations and {frees} frees were counted, but {sums:?}"));
        }
    }
    // A process without a call may have a ledger, but none that says something.
    let unknown = ours.iter().filter(|(pid, sums)| !counted.contains_key(pid) && sums.allocations + sums.frees > 0);
    wrong.extend(unknown.map(|(pid, sums)| format!("process {pid}: nothing was counted, but {sums:?}")));
    check!(wrong.is_empty(), "of {} processes: {}", counted.len(), wrong.join("; "));
    Ok(ours)
}
