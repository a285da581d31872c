//! `cargo xtask again`: every test again and again, quiet and beside others, which finds the ones that pass by a toss.
//!
//! A test of threads that fails one time in two on an idle machine can pass every whole run, where others always run beside it; and the
//! other way round. So each round is run in another [`Way`].

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::built::{self, Compiler, TestProgram};
use crate::planted::Planted;
use crate::step::{Result, cargo, run as run_command, target};

const USAGE: &str = "\
cargo xtask again [TIMES] [--load N] [NAME…]
  TIMES              rounds (default 21)
  --load N           threads that only take processor time in every third round (default 2)
  NAME               only test programs whose source's path contains it
What fails is printed as it happens, its output is left in target/again, and the last table says how often.";

/// How the tests of a program are run, in turn.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    Together,
    OneByOne,
    BesideLoad,
}

impl Way {
    fn of(round: usize) -> Way {
        match round % 3 {
            0 => Way::Together,
            1 => Way::OneByOne,
            _ => Way::BesideLoad,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Way::Together => "together",
            Way::OneByOne => "one by one",
            Way::BesideLoad => "beside load",
        }
    }
}

struct Plan {
    rounds: usize,
    load: usize,
    names: Vec<String>,
}

fn plan(words: &[&str]) -> Result<Plan> {
    let mut plan = Plan { rounds: 21, load: 2, names: vec![] };
    let mut words = words.iter();
    let number = |word: &str| word.parse().map_err(|_| format!("{word} is no number\n{USAGE}"));
    while let Some(word) = words.next() {
        match *word {
            "--load" => plan.load = number(words.next().ok_or("--load needs a number")?)?,
            _ if word.starts_with('-') => return Err(format!("there is no {word}\n{USAGE}")),
            _ if word.starts_with(|first: char| first.is_ascii_digit()) => plan.rounds = number(word)?,
            _ => plan.names.push((*word).to_owned()),
        }
    }
    Ok(plan)
}

/// Builds what is needed, runs it, and fails if anything did.
pub(crate) fn run(words: &[&str]) -> Result {
    if words.iter().any(|word| ["-h", "--help"].contains(word)) {
        println!("{USAGE}");
        return Ok(());
    }
    let plan = plan(words)?;
    run_command(&mut cargo(&["build", "--release", "--package", "heapledger-cli", "--package", "heapledger-preload"]))?;
    let programs = built::build(Compiler::Own)?;
    let is_meant = |program: &&TestProgram| {
        plan.names.is_empty() || plan.names.iter().any(|name| program.source().contains(name.as_str()))
    };
    let programs: Vec<&TestProgram> = programs.iter().filter(is_meant).collect();
    if programs.is_empty() {
        return Err("no test program has such a name".into());
    }
    let mut failures = BTreeMap::new();
    for round in 0..plan.rounds {
        let way = Way::of(round);
        println!("== round {} of {}: {} test programs, {}", round + 1, plan.rounds, programs.len(), way.name());
        let load = if way == Way::BesideLoad { plan.load } else { 0 };
        under_load(load, || one_round(&programs, way, round, &mut failures))?;
    }
    for ((test, way), times) in &failures {
        let rounds = (0..plan.rounds).filter(|round| Way::of(*round) == *way).count();
        println!("{times:>4} of {rounds:<4} {:<12} {test}", way.name());
    }
    if failures.is_empty() { Ok(()) } else { Err(format!("{} failed at times", failures.len())) }
}

/// How often, by test and way.
type Failures = BTreeMap<(String, Way), usize>;

fn one_round(programs: &[&TestProgram], way: Way, round: usize, failures: &mut Failures) -> Result {
    let planted = Planted::for_tests()?;
    let (name, place) = planted.variable();
    for program in programs {
        let output = program.quietly(|command| {
            command.env(&name, &place).env("HEAPLEDGER_E2E_CLI", target().join("release/heapledger"));
            if way == Way::OneByOne {
                command.arg("--test-threads=1");
            }
        })?;
        if output.status.success() {
            continue;
        }
        let [said, complained] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
        let text = format!("{said}{complained}");
        let kept = keep(program, round, &text)?;
        let failed = text.lines().filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"));
        let mut failed: Vec<&str> = failed.collect();
        if failed.is_empty() {
            failed.push("(itself)");
        }
        for test in failed {
            println!("FAILED {}: {} {test}: {kept}", way.name(), program.source());
            *failures.entry((format!("{} {test}", program.source()), way)).or_default() += 1;
        }
    }
    planted.check()
}

/// Leaves the output of a failed run where it can be looked at.
fn keep(program: &TestProgram, round: usize, text: &str) -> Result<String> {
    let directory = target().join("again");
    let path = directory.join(format!("{}-{}.txt", program.source().replace('/', "-"), round + 1));
    let written = std::fs::create_dir_all(&directory).and_then(|()| std::fs::write(&path, text));
    written.map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path.display().to_string())
}

/// Does something while so many threads only take processor time.
fn under_load<T>(threads: usize, work: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let done = work();
        is_over.store(true, Ordering::Relaxed);
        done
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_read() {
        let of = |words: &[&str]| plan(words).map(|plan| (plan.rounds, plan.load, plan.names));
        assert_eq!(of(&[]), Ok((21, 2, vec![])));
        assert_eq!(of(&["6", "--load", "4", "accounts"]), Ok((6, 4, vec!["accounts".to_owned()])));
        assert!(of(&["--lod"]).is_err() && of(&["3x"]).is_err() && of(&["--load"]).is_err());
    }

    #[test]
    fn work_under_load_is_done() {
        assert_eq!(under_load(2, || 7), 7);
    }
}
