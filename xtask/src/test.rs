//! `cargo xtask test`.

use std::process::Command;
use std::time::Instant;

use crate::built::{self, Compiler, TestProgram};
use crate::planted::Planted;
use crate::step::{Beside, Result, Tests, cargo, children, run as run_command, run_tests, seconds, target};
use crate::{packages, symbols, thumb, tidy};

/// What came of a step that did not fail.
enum Done {
    Well,
    Skipped,
    Tested(Tests),
}

/// A step; whoever names steps compiles with cargo's own compiler, as when working on a crate.
type Step = fn(Compiler) -> Result<Done>;

/// The steps, in order: what fails soonest comes first.
const STEPS: &[(&str, Step)] = &[
    ("packages", packages),
    ("fmt", |_| run_command(&mut cargo(&["fmt", "--all", "--check"])).map(|()| Done::Well)),
    ("tidy", |_| tidy::run(&[]).map(|()| Done::Well)),
    (CLIPPY, clippy),
    ("unit", unit),
    ("symbols", |_| symbols::check().map(|()| Done::Well)),
    ("thumb", |_| thumb::build().map(|built| if built { Done::Well } else { Done::Skipped })),
    ("e2e", e2e),
    ("dist", dist),
    ("loom", loom),
];

fn packages(_: Compiler) -> Result<Done> {
    packages::provide(packages::TEST)?;
    packages::provide(packages::DIST)?;
    packages::provide_if_possible(packages::CHIP);
    Ok(Done::Well)
}

/// The step that builds all tests: it leaves a processor idle where crates wait for each other, so the other build is made beside it.
const CLIPPY: &str = "clippy";

/// The tests on real programs: they take longest, and come after all that can be known without them.
const E2E: &str = "e2e";

/// What a feature changes, for clippy: by itself, since with it there is no other build of its crate.
const LOOM: &[&str] = &["--package", "heapledger-loom", "--features", "loom"];
const ORACLE: &[&str] = &["--package", "heapledger-preload", "--features", "oracle"];
const WRAPPED: &[&str] = &["--package", "heapledger-preload", "--features", "wrapped"];
const WITHOUT_STD: &[&str] = &["--package", "heapledger", "--no-default-features"];

/// With all steps, this is the build of the test programs; what loom changes is compiled, and looked at, by its own step.
fn clippy(compiler: Compiler) -> Result<Done> {
    if compiler == Compiler::Clippy {
        built::build(compiler)?;
        run_command(&mut compiler.cargo(&[&["build"], ORACLE].concat()))?;
        // Nothing is there that it could be linked with.
        run_command(&mut compiler.cargo(&[&["check"], WRAPPED].concat()))?;
        run_command(&mut compiler.cargo(&[&["build"], WITHOUT_STD].concat()))?;
    } else {
        for packages in [&["--workspace"], LOOM, ORACLE, WRAPPED, WITHOUT_STD] {
            let words = [&["clippy", "--all-targets"], packages, &["--", "-D", "warnings"]].concat();
            run_command(&mut cargo(&words))?;
        }
    }
    Ok(Done::Well)
}

fn unit(compiler: Compiler) -> Result<Done> {
    let mut tests = tests_of_commands(compiler, |program| !program.is_of(E2E), |_| {})?;
    tests.add(run_tests(&mut compiler.cargo(&["test", "--workspace", "--doc"]))?);
    Ok(Done::Tested(tests))
}

fn e2e(compiler: Compiler) -> Result<Done> {
    run_command(&mut shipped())?;
    // Else each of the programs would ask cargo again whether there is something to build.
    let built = target().join("release/heapledger");
    let set = |command: &mut Command| {
        command.env("HEAPLEDGER_E2E_CLI", &built);
    };
    tests_of_commands(compiler, |program| program.is_of(E2E), set).map(Done::Tested)
}

/// Tests that run the command line, with a ledger planted where ledgers of users lie.
fn tests_of_commands(
    compiler: Compiler,
    is_meant: impl Fn(&TestProgram) -> bool,
    set: impl Fn(&mut Command) + Sync,
) -> Result<Tests> {
    let programs = built::build(compiler)?;
    let planted = Planted::for_tests()?;
    let (name, place) = planted.variable();
    let meant: Vec<&TestProgram> = programs.iter().filter(|program| is_meant(program)).collect();
    let (tests, mut problems) = built::run_all(&meant, |command| {
        command.env(&name, &place);
        set(command);
    });
    problems.extend(planted.check().err());
    if problems.is_empty() { Ok(tests) } else { Err(problems.join("\n  and ")) }
}

/// Builds the optimized command line and the libraries that the tests on real programs run, as `e2e/src/tools.rs`
/// does: it takes longer than any test.
fn shipped() -> Command {
    let mut command = cargo(&["build", "--release", "--quiet"]);
    for package in ["heapledger-cli", "heapledger-preload", "heapledger-calls"] {
        command.args(["--package", package]);
    }
    command.arg("--target-dir").arg(target());
    for name in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_TARGET_DIR", "LD_PRELOAD", "HEAPLEDGER"] {
        command.env_remove(name);
    }
    command
}

/// The packages that people install, made of the command that the tests on real programs have run.
fn dist(_: Compiler) -> Result<Done> {
    packages::provide(packages::DIST)?;
    run_command(&mut shipped())?;
    crate::dist::check().map(|()| Done::Well)
}

/// Model checks of the lock-free parts, under loom's scheduler. Optimized: they walk through many interleavings.
fn loom(compiler: Compiler) -> Result<Done> {
    run_tests(&mut compiler.cargo(&[&["test", "--profile", "loom"], LOOM].concat())).map(Done::Tested)
}

/// Runs all steps, or only those named, and stops at the first that fails.
pub(crate) fn run(only: &[&str]) -> Result {
    if let Some(unknown) = only.iter().find(|name| STEPS.iter().all(|(step, _)| step != *name)) {
        let names: Vec<&str> = STEPS.iter().map(|(name, _)| *name).collect();
        return Err(format!("there is no step {unknown}; there are {}", names.join(", ")));
    }
    let (begun, at_first) = (Instant::now(), children());
    let compiler = if only.is_empty() { Compiler::Clippy } else { Compiler::Own };
    let mut all = Tests::default();
    let mut report = String::new();
    for (name, step) in STEPS.iter().filter(|(name, _)| only.is_empty() || only.contains(name)) {
        println!("== {name}");
        let (started, before) = (Instant::now(), children());
        let beside = (*name == CLIPPY && only.is_empty()).then(|| Beside::start(&mut shipped())).transpose()?;
        let done = step(compiler)
            .map_err(|problem| format!("{name} failed after {}: {problem}", seconds(started.elapsed())))?;
        beside.map_or(Ok(()), Beside::finish)?;
        let result = match done {
            Done::Well => "passed".to_owned(),
            Done::Skipped => "skipped".to_owned(),
            Done::Tested(tests) => {
                all.add(tests);
                format!("{} tests passed", tests.passed)
            }
        };
        let [whole, busy] = [started.elapsed(), children().saturating_sub(before)].map(seconds);
        let line = format!("{name:<10} {result:<20} {whole:>12} {busy:>12}");
        println!("== {line}\n");
        report += &format!("  {line}\n");
    }
    print!("  {:<10} {:<20} {:>12} {:>12}\n{report}", "step", "", "took", "processor");
    let Tests { passed, failed, ignored } = all;
    let [whole, busy] = [begun.elapsed(), children().saturating_sub(at_first)].map(seconds);
    println!("all steps passed in {whole}, with {busy} of processor time");
    println!("tests: {passed} passed, {failed} failed, {ignored} skipped");
    Ok(())
}
