//! The test programs of the workspace, built at once and run one by one.
//!
//! One selection of packages for all of them: two calls of `cargo test` with other packages want libraries with other
//! features, and compile them, and all that uses them, twice.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::step::{Result, Tests, cargo, output, root, run_tests_into};

/// Who compiles the crates of the workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compiler {
    /// Cargo's own: the programs that somebody at work on a crate has built already.
    Own,
    /// Clippy's, which is the same one and looks at what it compiles: `cargo clippy` and a build after it would compile
    /// everything twice. It leaves out a few optimizations of its own; nothing that is measured or shipped comes from it.
    Clippy,
}

impl Compiler {
    /// A command of cargo with it.
    pub(crate) fn cargo(self, arguments: &[&str]) -> Command {
        let mut command = cargo(arguments);
        if self == Compiler::Clippy {
            // As `cargo clippy` does it; the driver lies beside cargo.
            command.env("RUSTC_WORKSPACE_WRAPPER", Path::new(command.get_program()).with_file_name("clippy-driver"));
            command.env("CLIPPY_ARGS", "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__");
        }
        command
    }
}

/// A program with the tests of one file, or of one crate's sources.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TestProgram {
    /// The directory of its package, where it is run.
    directory: PathBuf,
    /// The file of its source.
    source: PathBuf,
    /// What cargo takes to run it alone.
    alone: String,
    /// Itself.
    executable: PathBuf,
}

/// Builds all of them, and whatever else a test or clippy looks at; those of one package come one after the other.
pub(crate) fn build(compiler: Compiler) -> Result<Vec<TestProgram>> {
    let words = ["build", "--workspace", "--all-targets", "--message-format", "json-render-diagnostics"];
    let text = output(&mut compiler.cargo(&words))?;
    let mut all: Vec<TestProgram> = text.lines().filter_map(TestProgram::of_message).collect();
    all.sort();
    if all.is_empty() { Err("cargo has built no test program".into()) } else { Ok(all) }
}

impl TestProgram {
    /// Reads one of cargo's messages, each a line of JSON; none if it is not about a test program.
    fn of_message(line: &str) -> Option<TestProgram> {
        let profile = line.split_once("\"profile\":{")?.1.split_once('}')?.0;
        if !line.starts_with("{\"reason\":\"compiler-artifact\"") || !profile.contains("\"test\":true") {
            return None;
        }
        // Cargo compiles the tests of a crate that wants none (`--all-targets`), and `cargo test` does not run them either: the
        // preload library's records itself, in the place of whoever calls.
        if line.split_once("\"target\":{")?.1.split_once('}')?.0.contains("\"test\":false") {
            return None;
        }
        let text = |before: &str| Some(line.split_once(before)?.1.split_once('"')?.0);
        let executable = text("\"executable\":\"")?.into();
        let directory = Path::new(text("\"manifest_path\":\"")?).parent()?.to_owned();
        let (kind, name) = (text("\"kind\":[\"")?, text("],\"name\":\"")?);
        // `path+file:///…/e2e#heapledger-e2e@0.1.0`, or without the name if the directory has it.
        let (place, version) = text("\"package_id\":\"")?.split_once('#')?;
        let package = version.split_once('@').map_or_else(|| place.rsplit('/').next(), |(name, _)| Some(name))?;
        let alone = match kind {
            "test" | "bin" => format!("--package {package} --{kind} {name}"),
            _ => format!("--package {package} --lib"),
        };
        Some(TestProgram { directory, source: text("\"src_path\":\"")?.into(), alone, executable })
    }

    /// Whether it is one of the tests on real programs.
    pub(crate) fn is_of(&self, directory: &str) -> bool {
        self.directory == root().join(directory)
    }

    /// The path of its source, in the repository.
    pub(crate) fn source(&self) -> std::borrow::Cow<'_, str> {
        self.source.strip_prefix(root()).unwrap_or(&self.source).to_string_lossy()
    }

    fn command(&self, set: impl Fn(&mut Command)) -> Command {
        let mut command = Command::new(&self.executable);
        command.current_dir(&self.directory);
        set(&mut command);
        command
    }

    /// Runs it and keeps what it prints.
    pub(crate) fn quietly(&self, set: impl Fn(&mut Command)) -> Result<Output> {
        self.command(set).output().map_err(|error| format!("{}: {error}", self.executable.display()))
    }

    /// Runs it; `set` says more about the command, and `print` has each line of what it prints.
    fn run(&self, set: impl Fn(&mut Command), mut print: impl FnMut(&str)) -> Result<Tests> {
        print(&format!("     Running {}", self.source()));
        run_tests_into(&mut self.command(set), print)
            .map_err(|problem| format!("{problem}; again: cargo test {}", self.alone))
    }

    /// Its name, as cargo has it.
    fn name(&self) -> &str {
        self.alone.rsplit(' ').next().unwrap_or_default()
    }
}

/// Those that take longest, of crates and on real programs: whatever begins last with nothing beside it leaves a processor idle.
const LONGEST: &[&str] = &[
    "guard",
    "gdb",
    "children",
    "own_books",
    "api_costs",
    "guard_others",
    "firmware_costs",
    "instructions",
    "render",
    "damage",
    "forged",
    "oracle",
];

/// Runs programs, two at once, the longest first: one alone leaves a part of the processors idle, where its tests wait for something, and when
/// the last of them takes longest. What each has printed comes when it has ended; `set` says more about the commands. The others run in any case
/// where one fails: who has no machine like this one learns of all that fails there at once.
pub(crate) fn run_all(programs: &[&TestProgram], set: impl Fn(&mut Command) + Sync) -> (Tests, Vec<String>) {
    let mut in_turn = programs.to_vec();
    in_turn.sort_by_key(|program| LONGEST.iter().position(|name| *name == program.name()).unwrap_or(usize::MAX));
    let (next, came) = (AtomicUsize::new(0), Mutex::new((Tests::default(), Vec::new())));
    // Whoever reads us may have gone; the tests go on.
    let show = |text: &str| drop(std::io::stdout().write_all(text.as_bytes()));
    let lane = || {
        while let Some(program) = in_turn.get(next.fetch_add(1, Ordering::Relaxed)) {
            let (mut printed, mut failures) = (String::new(), Failures::default());
            let ran = program.run(&set, |line| {
                failures.hear(line);
                printed.extend([line, "\n"]);
            });
            let mut came = came.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            show(&printed);
            match ran {
                Ok(tests) => came.0.add(tests),
                Err(problem) => came.1.push(problem + &failures.told),
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(lane);
        lane();
    });
    came.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// What a test program says of its tests that failed. It is said once more at the end: whoever sees no more of a run than its last lines
/// is to know why.
#[derive(Default)]
struct Failures {
    has_begun: bool,
    lines: usize,
    told: String,
}

impl Failures {
    /// Lines of one program that are said again, and letters of each.
    const LINES: usize = 40;
    const LETTERS: usize = 300;

    fn hear(&mut self, line: &str) {
        if line == "failures:" && !self.has_begun {
            self.has_begun = true;
        } else if line.starts_with("failures:") || line.starts_with("test result: ") {
            // The names alone follow.
            self.lines = Self::LINES;
        } else if self.has_begun && self.lines < Self::LINES && !line.trim().is_empty() {
            self.lines += 1;
            self.told.push_str("\n    ");
            self.told.extend(line.chars().take(Self::LETTERS));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_a_test_failed_is_said_again() {
        let printed = "running 2 tests\n..\nfailures:\n\n---- one stdout ----\nError: \"because\"\n\n\nfailures:\n    one\n\n\
                       test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out";
        let mut failures = Failures::default();
        printed.lines().for_each(|line| failures.hear(line));
        assert_eq!(failures.told, "\n    ---- one stdout ----\n    Error: \"because\"");
        let mut none = Failures::default();
        "running 1 test\ntest result: ok. 1 passed; 0 failed".lines().for_each(|line| none.hear(line));
        assert_eq!(none.told, "");
    }

    #[test]
    fn those_that_take_longest_are_there() {
        let crates = std::fs::read_dir(root().join("crates")).expect("crates").flatten().map(|found| found.path());
        let places: Vec<PathBuf> = crates.chain([root().join("e2e")]).map(|place| place.join("tests")).collect();
        for name in LONGEST {
            let is_there = |tests: &PathBuf| tests.join(format!("{name}.rs")).is_file() || tests.join(name).is_dir();
            assert!(places.iter().any(is_there), "{name}");
        }
    }

    #[test]
    fn messages_are_read() {
        let line = r#"{"reason":"compiler-artifact","package_id":"path+file:///h/e2e#heapledger-e2e@0.1.0","manifest_path":"/h/e2e/Cargo.toml","target":{"kind":["test"],"crate_types":["bin"],"name":"check","src_path":"/h/e2e/tests/check/main.rs","edition":"2024","doc":false,"doctest":false,"test":true},"profile":{"opt_level":"0","debuginfo":1,"debug_assertions":true,"overflow_checks":true,"test":true},"features":[],"filenames":["/h/target/debug/deps/check-1"],"executable":"/h/target/debug/deps/check-1","fresh":false}"#;
        let program = TestProgram::of_message(line).expect("a test program");
        assert_eq!(program.directory, Path::new("/h/e2e"));
        assert_eq!(program.source, Path::new("/h/e2e/tests/check/main.rs"));
        assert_eq!(program.alone, "--package heapledger-e2e --test check");
        assert_eq!(program.name(), "check");
        assert_eq!(program.executable, Path::new("/h/target/debug/deps/check-1"));
        // A library's tests; a program that is not one of tests; another message.
        let library = line.replace(r#""kind":["test"]"#, r#""kind":["lib"]"#).replace("e2e#heapledger-e2e@", "e2e#");
        assert_eq!(TestProgram::of_message(&library).map(|it| it.alone).as_deref(), Some("--package e2e --lib"));
        assert_eq!(
            TestProgram::of_message(&line.replace(r#""test":true},"features""#, r#""test":false},"features""#)),
            None
        );
        let wants_none = line.replace(r#""test":true},"profile""#, r#""test":false},"profile""#);
        assert_eq!(TestProgram::of_message(&wants_none), None);
        assert_eq!(TestProgram::of_message(r#"{"reason":"build-finished","success":true}"#), None);
    }
}
