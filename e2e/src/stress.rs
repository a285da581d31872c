//! Many runs of every victim with threads, signals or forks: what goes wrong once in a hundred runs is not found by one.
//!
//! Which victims these are is told by their sources: those that call one of [`CALLS`]. Each is run as its `run:` lines say,
//! or smaller, as its `stress:` lines say. A run must end as the victim should, print what it prints without us, and
//! leave a finished ledger and nothing else.

use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use crate::process::{self, Ran};
use crate::scratch::Scratch;
use crate::tools::{command, heapledger};
use crate::tracked::{images, run_cleanly, under_run};
use crate::victim::{self, Run, Victim};
use crate::{Result, check, skip};

/// Who calls one of these has threads, signals or forks: things that may go one way or another.
pub const CALLS: &[&str] = &[
    "pthread_create",
    "std::thread",
    "fork",
    "vfork",
    "clone",
    "SYS_clone",
    "SYS_fork",
    "posix_spawn",
    "popen",
    "system",
    "sigaction",
    "signal",
    "raise",
    "setitimer",
    "timer_create",
];

/// Problems of a victim that are shown.
const SHOWN: usize = 3;

/// How much is run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Runs of each victim, in each of its ways.
    pub times: usize,
    /// Runs at a time.
    pub jobs: usize,
    /// Threads that do nothing but take processor time.
    pub loads: usize,
    /// Only victims whose name and arguments contain one of these; all if there is none.
    pub names: Vec<String>,
}

/// One victim in one of its ways.
struct Subject {
    name: String,
    victim: Victim,
    run: Run,
    plain: Ran,
    tally: Mutex<Tally>,
}

#[derive(Default)]
struct Tally {
    runs: usize,
    failures: usize,
    problems: Vec<String>,
}

/// What became of a victim.
#[derive(Debug)]
pub struct Row {
    /// The victim and its arguments.
    pub name: String,
    /// How often it was run.
    pub runs: usize,
    /// How often something was wrong.
    pub failures: usize,
    /// The first problems.
    pub problems: Vec<String>,
}

/// Whether something in a source, comments left out, is a call of one of [`CALLS`].
pub fn is_timed(source: &str) -> bool {
    let code = source.lines().filter(|line| !line.starts_with("//"));
    let calls = |line: &str, call: &&&str| {
        line.match_indices(**call).any(|(at, _)| {
            let is_word = |character: char| character.is_alphanumeric() || character == '_';
            !line[..at].ends_with(is_word) && !line[at + call.len()..].starts_with(is_word)
        })
    };
    code.into_iter().any(|line| CALLS.iter().any(|call| calls(line, &call)))
}

/// Builds the victims, and sees how they end without us.
fn subjects(names: &[String]) -> Result<Vec<Subject>> {
    let mut subjects = Vec::new();
    for victim in victim::all()?.into_iter().filter(|victim| victim.is_timed) {
        if let Some(package) = &victim.needs {
            skip(&victim.name, &format!("{package} is not installed"));
            continue;
        }
        for run in if victim.stress.is_empty() { &victim.runs } else { &victim.stress } {
            let name = [&[victim.name.clone()][..], &run.arguments].concat().join(" ");
            if !names.is_empty() && !names.iter().any(|chosen| name.contains(chosen.as_str())) {
                continue;
            }
            let (scratch, program) = (Scratch::new(), victim.build()?);
            let plain = process::run(command(&program).args(&run.arguments).current_dir(scratch.work()))?;
            check!(plain.status == run.status, "{name} without us should end with {}: {plain}", run.status);
            subjects.push(Subject { name, victim: victim.clone(), run: run.clone(), plain, tally: Mutex::default() });
        }
    }
    check!(!subjects.is_empty(), "no victim with threads, signals or forks has such a name: {names:?}");
    Ok(subjects)
}

/// One run. What it leaves is removed.
fn once(subject: &Subject, scratch: &Scratch) -> Result {
    let program = subject.victim.build()?;
    let ran = run_cleanly(scratch, &mut under_run(scratch, "x", &[], &program, &subject.run.arguments))?;
    let ledgers = images(scratch, "x");
    ledgers.iter().for_each(|ledger| drop(fs::remove_file(ledger)));
    subject.plain.compare(&ran)?;
    check!(subject.victim.untracked.is_some() || !ledgers.is_empty(), "there is no ledger: {ran}");
    Ok(())
}

fn work(subjects: &[Subject], plan: &Plan, next: &AtomicUsize) {
    let mut scratch = Scratch::new();
    // All once, then all again: what one victim leaves to the machine meets the others.
    while let Some((subject, count)) = {
        let count = next.fetch_add(1, Ordering::Relaxed);
        subjects
            .get(count % subjects.len())
            .map(|subject| (subject, count))
            .filter(|_| count < plan.times * subjects.len())
    } {
        let result = once(subject, &scratch);
        let Ok(mut tally) = subject.tally.lock() else { return };
        tally.runs += 1;
        if let Err(problem) = result {
            scratch = Scratch::new(); // what is left must not fail the next one
            tally.failures += 1;
            if tally.problems.len() < SHOWN {
                eprintln!("{} (run {count}): {problem}", subject.name);
                tally.problems.push(problem);
            }
        }
    }
}

/// Runs everything, several at a time, while others take processor time away.
pub fn run(plan: &Plan) -> Result<Vec<Row>> {
    heapledger(); // built now, and not by all threads
    let subjects = subjects(&plan.names)?;
    let (next, done) = (AtomicUsize::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        for _ in 0..plan.loads {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let jobs: Vec<_> = (0..plan.jobs).map(|_| scope.spawn(|| work(&subjects, plan, &next))).collect();
        let all_came_back = jobs.into_iter().map(thread::ScopedJoinHandle::join).all(|job| job.is_ok());
        done.store(true, Ordering::Relaxed);
        check!(all_came_back, "a job panicked");
        Ok(())
    })?;
    let row = |subject: Subject| {
        let tally = subject.tally.into_inner().map_err(|_| "a job panicked".to_owned())?;
        Ok(Row { name: subject.name, runs: tally.runs, failures: tally.failures, problems: tally.problems })
    };
    subjects.into_iter().map(row).collect()
}

/// The rows as a table.
pub fn table(rows: &[Row]) -> String {
    let width = rows.iter().map(|row| row.name.len()).max().unwrap_or(0).max("victim".len());
    let mut table = format!("{:<width$}  {:>6}  {:>8}\n", "victim", "runs", "failures");
    for row in rows {
        table += &format!("{:<width$}  {:>6}  {:>8}\n", row.name, row.runs, row.failures);
    }
    let sum = |figure: fn(&Row) -> usize| rows.iter().map(figure).sum::<usize>();
    table + &format!("{:<width$}  {:>6}  {:>8}\n", "all", sum(|row| row.runs), sum(|row| row.failures))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_tells_whether_it_is_one_of_them() {
        assert!(is_timed("int main(void) {\n    CHECK(pthread_create(&t, NULL, f, NULL) == 0);"));
        assert!(is_timed("std::thread one(work);") && is_timed("signal(SIGUSR1, handler);"));
        assert!(!is_timed("// fork() is not meant\nint forked, signals;") && !is_timed("unfork(); signal_count++;"));
    }
}
