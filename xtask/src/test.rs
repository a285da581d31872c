//! `cargo xtask test`.

use std::process::Command;
use std::time::Instant;

use crate::built::{self, TestProgram};
use crate::planted::Planted;
use crate::step::{Beside, Result, Tests, cargo, run as run_command, run_tests, seconds, target};
use crate::{packages, symbols, thumb, tidy};

/// What came of a step that did not fail.
enum Done {
    Well,
    Skipped,
    Tested(Tests),
}

type Step = fn() -> Result<Done>;

/// The steps, in order: what fails soonest comes first.
const STEPS: &[(&str, Step)] = &[
    ("packages", || packages::provide(packages::TEST).map(|()| Done::Well)),
    ("fmt", || run_command(&mut cargo(&["fmt", "--all", "--check"])).map(|()| Done::Well)),
    ("tidy", || tidy::run(&[]).map(|()| Done::Well)),
    ("clippy", clippy),
    ("unit", unit),
    ("symbols", || symbols::check().map(|()| Done::Well)),
    ("thumb", || thumb::build().map(|built| if built { Done::Well } else { Done::Skipped })),
    ("e2e", e2e),
    ("loom", loom),
];

/// The tests on real programs: they take longest, and come after all that can be known without them.
const E2E: &str = "e2e";

/// What is compiled, for clippy: all, and by itself what a feature changes.
const COMPILED: &[&[&str]] = &[
    &["--workspace"],
    &["--package", "heapledger-process", "--features", "loom"],
    &["--package", "heapledger-preload", "--features", "oracle"],
];

fn clippy() -> Result<Done> {
    for compiled in COMPILED {
        let words = [&["clippy", "--all-targets"], *compiled, &["--", "-D", "warnings"]].concat();
        run_command(&mut cargo(&words))?;
    }
    Ok(Done::Well)
}

fn unit() -> Result<Done> {
    let mut tests = tests_of_commands(|program| !program.is_of(E2E), |_| {})?;
    tests.add(run_tests(&mut cargo(&["test", "--workspace", "--doc"]))?);
    Ok(Done::Tested(tests))
}

fn e2e() -> Result<Done> {
    run_command(&mut shipped())?;
    // Else each of the programs would ask cargo again whether there is something to build.
    let built = target().join("release/heapledger");
    let set = |command: &mut Command| {
        command.env("HEAPLEDGER_E2E_CLI", &built);
    };
    tests_of_commands(|program| program.is_of(E2E), set).map(Done::Tested)
}

/// Tests that run the command line, with a ledger planted where ledgers of users lie.
fn tests_of_commands(is_meant: impl Fn(&TestProgram) -> bool, set: impl Fn(&mut Command)) -> Result<Tests> {
    let programs = built::build()?;
    let planted = Planted::new()?;
    let (name, place) = planted.variable();
    let mut tests = Tests::default();
    for program in programs.iter().filter(|program| is_meant(program)) {
        let ran = program.run(|command| {
            command.env(&name, &place);
            set(command);
        })?;
        tests.add(ran);
    }
    planted.check()?;
    Ok(tests)
}

/// Builds the optimized command line and the preload library that the tests on real programs run, as `e2e/src/tools.rs`
/// does: it takes longer than any test, and the tests of the crates leave processors idle.
fn shipped() -> Command {
    let words = ["build", "--release", "--quiet", "--package", "heapledger-cli", "--package", "heapledger-preload"];
    let mut command = cargo(&words);
    command.arg("--target-dir").arg(target());
    for name in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_TARGET_DIR", "LD_PRELOAD", "HEAPLEDGER"] {
        command.env_remove(name);
    }
    command
}

/// Model checks of the lock-free parts, under loom's scheduler. Optimized: they walk through many interleavings.
fn loom() -> Result<Done> {
    let arguments = ["test", "--release", "--package", "heapledger-process", "--features", "loom", "--test", "loom"];
    run_tests(&mut cargo(&arguments)).map(Done::Tested)
}

/// Runs all steps, or only those named, and stops at the first that fails.
pub(crate) fn run(only: &[&str]) -> Result {
    if let Some(unknown) = only.iter().find(|name| STEPS.iter().all(|(step, _)| step != *name)) {
        let names: Vec<&str> = STEPS.iter().map(|(name, _)| *name).collect();
        return Err(format!("there is no step {unknown}; there are {}", names.join(", ")));
    }
    let begun = Instant::now();
    let mut all = Tests::default();
    let mut report = String::new();
    let mut beside = None;
    for (name, step) in STEPS.iter().filter(|(name, _)| only.is_empty() || only.contains(name)) {
        println!("== {name}");
        let started = Instant::now();
        if *name == "unit" && only.is_empty() {
            beside = Some(Beside::start(&mut shipped())?);
        } else if let Some(build) = beside.take() {
            build.finish()?;
        }
        let done =
            step().map_err(|problem| format!("{name} failed after {}: {problem}", seconds(started.elapsed())))?;
        let result = match done {
            Done::Well => "passed".to_owned(),
            Done::Skipped => "skipped".to_owned(),
            Done::Tested(tests) => {
                all.add(tests);
                format!("{} tests passed", tests.passed)
            }
        };
        let line = format!("{name:<10} {result:<20} {:>12}", seconds(started.elapsed()));
        println!("== {line}\n");
        report += &format!("  {line}\n");
    }
    print!("{report}");
    let Tests { passed, failed, ignored } = all;
    println!("all steps passed in {}", seconds(begun.elapsed()));
    println!("tests: {passed} passed, {failed} failed, {ignored} skipped");
    Ok(())
}
