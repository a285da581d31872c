//! Running commands, and saying how long a step took.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Why a step failed, in one sentence.
pub(crate) type Result<T = ()> = std::result::Result<T, String>;

/// The root of the repository that is worked in: cargo says it to what it runs, and else it is around where one is. (What was compiled
/// in would be where this program was built: a copy of it would work there.)
pub(crate) fn root() -> PathBuf {
    let told = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let told = told.filter(|path| is_ours(path)).and_then(|path| path.parent().map(Path::to_owned));
    let here =
        || std::env::current_dir().ok()?.ancestors().find(|path| is_ours(&path.join("xtask"))).map(Path::to_owned);
    told.or_else(here).unwrap_or_default()
}

/// Whether it is the directory of these tasks.
fn is_ours(path: &Path) -> bool {
    path.ends_with("xtask") && path.join("src/step.rs").is_file()
}

/// Where cargo builds.
pub(crate) fn target() -> PathBuf {
    let chosen = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    chosen.map_or_else(|| root().join("target"), |chosen| root().join(chosen))
}

/// Cargo, in the root of the repository.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
    command.args(arguments).current_dir(root());
    command
}

/// A directory for unfinished ledgers, in memory where that is to be had, gone when dropped: what a task leaves behind
/// is never among the user's own.
pub(crate) struct Ledgers(PathBuf);

impl Ledgers {
    pub(crate) fn new(task: &str) -> Result<Ledgers> {
        let name = format!("heapledger-{task}-{}", std::process::id());
        let memory = Path::new("/dev/shm");
        let path = if memory.is_dir() { memory.join(name) } else { target().join(name) };
        std::fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Ledgers(path))
    }

    /// Its path, for `--ledger-dir`.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Ledgers {
    fn drop(&mut self) {
        // Nothing better can be done about what cannot be removed.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs a command whose output a person sees.
pub(crate) fn run(command: &mut Command) -> Result {
    let what = shown(command);
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{what}` failed: {status}")),
        Err(error) => Err(format!("`{what}` cannot be run: {error}")),
    }
}

/// Runs a command for its output.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let what = shown(command);
    let output =
        command.stderr(Stdio::inherit()).output().map_err(|error| format!("`{what}` cannot be run: {error}"))?;
    if !output.status.success() {
        return Err(format!("`{what}` failed: {}", output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Tests that passed, failed, and were ignored.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tests {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) ignored: u64,
}

impl Tests {
    pub(crate) fn add(&mut self, other: Tests) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
    }

    /// Reads `test result: ok. 12 passed; 0 failed; 1 ignored; …`.
    fn of_line(line: &str) -> Option<Tests> {
        let figures = line.strip_prefix("test result: ")?.split_once(". ")?.1;
        let figure = |word: &str| {
            let item = figures.split(';').find(|item| item.trim().ends_with(word))?;
            item.trim().split(' ').next()?.parse().ok()
        };
        Some(Tests { passed: figure("passed")?, failed: figure("failed")?, ignored: figure("ignored")? })
    }
}

/// Runs a test command whose output a person sees, and counts.
pub(crate) fn run_tests(command: &mut Command) -> Result<Tests> {
    // Whoever reads us may have gone; the tests go on.
    run_tests_into(command, |line| drop(writeln!(std::io::stdout(), "{line}")))
}

/// The same; `print` has each line of what it prints.
pub(crate) fn run_tests_into(command: &mut Command, mut print: impl FnMut(&str)) -> Result<Tests> {
    let what = shown(command);
    let fail = |error| format!("`{what}` cannot be run: {error}");
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(fail)?;
    let mut all = Tests::default();
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).split(b'\n') {
            let line = String::from_utf8_lossy(&line.map_err(fail)?).into_owned();
            print(&line);
            all.add(Tests::of_line(&line).unwrap_or_default());
        }
    }
    let status = child.wait().map_err(fail)?;
    if status.success() { Ok(all) } else { Err(format!("`{what}` failed ({} of its tests)", all.failed)) }
}

/// A command that runs beside others. Dropped, it is ended.
pub(crate) struct Beside {
    child: Child,
    what: String,
}

impl Beside {
    /// Starts it.
    pub(crate) fn start(command: &mut Command) -> Result<Beside> {
        let what = shown(command);
        let child = command.spawn().map_err(|error| format!("`{what}` cannot be run: {error}"))?;
        Ok(Beside { child, what })
    }

    /// Waits for its end.
    pub(crate) fn finish(mut self) -> Result {
        match self.child.wait() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("`{}` failed: {status}", self.what)),
            Err(error) => Err(format!("`{}`: {error}", self.what)),
        }
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        // It may have ended long ago: then neither does anything.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

/// Processor time of all commands that have ended, and of theirs: unlike the time that passed, it says the same on a busy
/// machine. Zero where the kernel does not tell.
pub(crate) fn children() -> Duration {
    std::fs::read_to_string("/proc/self/stat").ok().and_then(|text| of_children(&text)).unwrap_or_default()
}

/// Reads `PID (NAME) STATE …`: figures 16 and 17, in hundredths of a second on every machine.
fn of_children(stat: &str) -> Option<Duration> {
    let mut figures = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(13).map(str::parse::<u64>);
    let (user, system) = (figures.next()?.ok()?, figures.next()?.ok()?);
    Some(Duration::from_millis((user + system) * 10))
}

/// `12.3 s` or `3 min 20 s`.
pub(crate) fn seconds(span: Duration) -> String {
    if span.as_secs() < 100 {
        format!("{:.1} s", span.as_secs_f64())
    } else {
        format!("{} min {:02} s", span.as_secs() / 60, span.as_secs() % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_of_commands_is_read() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194304 1 2 3 4 11 12 130 14 20 0 1 0 99 8192 100";
        assert_eq!(of_children(stat), Some(Duration::from_millis(1440)));
        assert_eq!(of_children("7 (a) S 1"), None);
    }

    #[test]
    fn results_are_counted() {
        let line = "test result: FAILED. 12 passed; 3 failed; 1 ignored; 0 measured; 4 filtered out; finished in 0.1s";
        let tests = Tests::of_line(line).expect("a result");
        assert_eq!((tests.passed, tests.failed, tests.ignored), (12, 3, 1));
        assert!(Tests::of_line("test a ... ok").is_none());
    }
}
