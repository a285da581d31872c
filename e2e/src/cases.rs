//! A test program whose tests are a table that is made when it starts. It understands what cargo passes on:
//! names to choose by, `--list`, `--exact`, `--skip NAME`, `--test-threads N`.

use std::io::Write;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use crate::Result;

/// One test.
pub struct Case {
    name: String,
    check: Box<dyn Fn() -> Result + Send + Sync>,
}

impl Case {
    /// A test of this name.
    pub fn new(name: impl Into<String>, check: impl Fn() -> Result + Send + Sync + 'static) -> Case {
        Case { name: name.into(), check: Box::new(check) }
    }
}

#[derive(Default)]
struct Options {
    chosen: Vec<String>,
    skipped: Vec<String>,
    exact: bool,
    list: bool,
    threads: Option<usize>,
}

fn options() -> Options {
    let mut options = Options::default();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--exact" => options.exact = true,
            "--list" => options.list = true,
            "--skip" => options.skipped.extend(arguments.next()),
            "--test-threads" => options.threads = arguments.next().and_then(|number| number.parse().ok()),
            "--format" | "--color" | "-Z" => drop(arguments.next()),
            other if other.starts_with('-') => {
                options.threads = other.strip_prefix("--test-threads=").and_then(|number| number.parse().ok());
            }
            name => options.chosen.push(name.to_owned()),
        }
    }
    options
}

/// Runs the chosen cases, several at a time, and tells at the end which failed and why.
pub fn main(cases: Vec<Case>) -> ExitCode {
    let options = options();
    let matches =
        |name: &String, pattern: &String| if options.exact { name == pattern } else { name.contains(pattern) };
    let all = cases.len();
    let chosen: Vec<Case> = cases
        .into_iter()
        .filter(|case| options.chosen.is_empty() || options.chosen.iter().any(|pattern| matches(&case.name, pattern)))
        .filter(|case| !options.skipped.iter().any(|pattern| matches(&case.name, pattern)))
        .collect();
    if options.list {
        chosen.iter().for_each(|case| println!("{}: test", case.name));
        return ExitCode::SUCCESS;
    }
    println!("\nrunning {} tests", chosen.len());
    let began = Instant::now();
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(case) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
            let began = Instant::now();
            let result = (case.check)();
            let word = if result.is_ok() { "ok" } else { "FAILED" };
            let mut out = std::io::stdout().lock();
            let _ = writeln!(out, "test {} ... {word} ({:.2} s)", case.name, began.elapsed().as_secs_f32());
            if let (Err(problem), Ok(mut failures)) = (result, failures.lock()) {
                failures.push((case.name.clone(), problem));
            }
        }
    };
    let threads = options.threads.unwrap_or_else(|| thread::available_parallelism().map_or(2, usize::from).min(4));
    thread::scope(|scope| (0..threads.max(1)).for_each(|_| drop(scope.spawn(work))));

    let failures = failures.into_inner().unwrap_or_default();
    if !failures.is_empty() {
        println!("\nfailures:");
    }
    for (name, problem) in &failures {
        println!("    {name}: {problem}");
    }
    let (word, failed) = (if failures.is_empty() { "ok" } else { "FAILED" }, failures.len());
    let (passed, left) = (chosen.len() - failed, all - chosen.len());
    let seconds = began.elapsed().as_secs_f32();
    println!(
        "\ntest result: {word}. {passed} passed; {failed} failed; 0 ignored; {left} filtered out; in {seconds:.2} s\n"
    );
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
