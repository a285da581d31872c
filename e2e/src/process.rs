//! Running something to its end, which comes in time.

use std::fmt;
use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::Result;

/// Nothing small takes this long unless it hangs, on a machine that does other things as well.
pub const PATIENCE: Duration = Duration::from_secs(600);

/// How something ended, and what it said.
pub struct Ran {
    /// Exit status or signal.
    pub status: ExitStatus,
    /// All of its standard output.
    pub stdout: Vec<u8>,
    /// All of its standard error.
    pub stderr: Vec<u8>,
    /// From start to end.
    pub span: Duration,
}

/// A program that runs, and what it writes.
pub struct Running {
    /// Itself. It leads a process group.
    pub child: Child,
    began: Instant,
    stdout: Option<JoinHandle<Vec<u8>>>,
    stderr: Option<JoinHandle<Vec<u8>>>,
}

fn drain(stream: Option<impl Read + Send + 'static>) -> Option<JoinHandle<Vec<u8>>> {
    stream.map(|mut stream| {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = stream.read_to_end(&mut bytes);
            bytes
        })
    })
}

/// Starts a command in a process group of its own.
pub fn start(command: &mut Command) -> Result<Running> {
    let began = Instant::now();
    command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
    let (stdout, stderr) = (drain(child.stdout.take()), drain(child.stderr.take()));
    Ok(Running { child, began, stdout, stderr })
}

/// A victim that stands still at points of its own (`hold` in `victims/victim.h`) until it is told to go on.
pub struct Held {
    /// Itself; what it writes to its standard output is taken here.
    pub running: Running,
    stdin: ChildStdin,
    stdout: ChildStdout,
}

/// Starts a victim that holds.
pub fn hold(command: &mut Command) -> Result<Held> {
    let began = Instant::now();
    command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
    let (stdin, stdout) = (child.stdin.take().ok_or("no stdin")?, child.stdout.take().ok_or("no stdout")?);
    let stderr = drain(child.stderr.take());
    Ok(Held { running: Running { child, began, stdout: None, stderr }, stdin, stdout })
}

impl Held {
    /// Waits until it stands at its next point; false when it says something else or nothing more, which is the end.
    pub fn stands(&mut self) -> Result<bool> {
        let mut byte = [0];
        let read = self.stdout.read(&mut byte).map_err(|error| error.to_string())?;
        Ok(read == 1 && byte == [b'.'])
    }

    /// Lets it go on from where it stands.
    pub fn goes_on(&mut self) -> Result {
        self.stdin.write_all(b"\n").map_err(|error| error.to_string())
    }
}

impl Running {
    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has not ended yet.
    pub fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits for its end; kills it and fails if that does not come.
    pub fn finish(mut self, patience: Duration) -> Result<Ran> {
        let status = loop {
            match self.child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) if self.began.elapsed() < patience => thread::sleep(Duration::from_millis(2)),
                _ => {
                    // Dropped, it is killed.
                    return Err(format!("it hangs: no end after {patience:?}"));
                }
            }
        };
        let span = self.began.elapsed();
        let read =
            |stream: Option<JoinHandle<Vec<u8>>>| stream.and_then(|stream| stream.join().ok()).unwrap_or_default();
        Ok(Ran { status, stdout: read(self.stdout.take()), stderr: read(self.stderr.take()), span })
    }
}

/// Nothing outlives its test: the whole group goes.
impl Drop for Running {
    fn drop(&mut self) {
        if self.runs() {
            let _ = kill(-i64::from(self.pid()), "KILL");
            let _ = self.child.wait();
        }
    }
}

/// Runs a command to its end.
pub fn run(command: &mut Command) -> Result<Ran> {
    run_within(command, PATIENCE)
}

/// Runs a command to its end, which may take so long.
pub fn run_within(command: &mut Command, patience: Duration) -> Result<Ran> {
    start(command.stdin(Stdio::null()))?.finish(patience).map_err(|problem| format!("{command:?}: {problem}"))
}

impl Ran {
    /// Its standard output as text.
    pub fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Its standard error as text.
    pub fn err(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// Itself if it ended with status 0.
    pub fn good(self) -> Result<Ran> {
        if self.status.success() { Ok(self) } else { Err(format!("{self}")) }
    }

    /// Where another run of the same differs from this one.
    pub fn compare(&self, other: &Ran) -> Result {
        for (what, own, theirs) in [("stdout", &self.stdout, &other.stdout), ("stderr", &self.stderr, &other.stderr)] {
            if own != theirs {
                return Err(format!("{what} differs: without us {}, and with us: {other}", excerpt(own)));
            }
        }
        if self.status == other.status {
            Ok(())
        } else {
            Err(format!("it ends differently: without us {}, with us {}", self.status, other.status))
        }
    }
}

impl fmt::Display for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, stdout {}, stderr {}", self.status, excerpt(&self.stdout), excerpt(&self.stderr))
    }
}

/// The beginning of a text, on one line.
pub fn excerpt(bytes: &[u8]) -> String {
    const SHOWN: usize = 400;
    let text = String::from_utf8_lossy(bytes.get(..SHOWN).unwrap_or(bytes)).into_owned();
    format!("{text:?} ({} bytes)", bytes.len())
}

/// Sends a signal to a process, or with a negative number to a group.
pub fn kill(pid: i64, signal: &str) -> Result {
    let status =
        Command::new("kill").args([&format!("-{signal}"), "--", &pid.to_string()]).stderr(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        other => Err(format!("cannot send {signal} to {pid}: {other:?}")),
    }
}

/// The signal that ended it.
pub fn signal_of(ran: &Ran) -> Option<i32> {
    ran.status.signal()
}

/// Waits until something comes true.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) -> Result {
    let began = Instant::now();
    while !holds() {
        if began.elapsed() > PATIENCE {
            return Err(format!("it never happened: {what}"));
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Processes whose parent is `pid`.
pub fn children(pid: u32) -> Vec<u32> {
    let list = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// Live ledgers that a process has open, as the kernel names them: with ` (deleted)` behind the path of one that was removed.
pub fn held_ledgers(pid: u32) -> Vec<PathBuf> {
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let targets = descriptors.filter_map(|item| std::fs::read_link(item.path()).ok());
    targets.filter(|target| target.to_string_lossy().contains(".hlive")).collect()
}

/// The system call that the main thread of a process is waiting in, with its arguments, as the kernel shows them: numbers,
/// the arguments in hexadecimal. `running` if it is in none.
pub fn call(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default()
}

/// Whether the main thread of a process waits for its standard input.
pub fn reads_input(pid: u32) -> bool {
    call(pid).starts_with("0 0x0 ")
}

/// A number from `/proc/PID/smaps_rollup`, such as `Anonymous`, in KiB: counted when it is asked for. What `status` has of it
/// is kept by each processor for itself, and megabytes off where there are many.
pub fn resident_kib(pid: u32, field: &str) -> Option<u64> {
    figure_kib(&format!("/proc/{pid}/smaps_rollup"), field)
}

/// What is in memory of the live ledger that a process has mapped, in KiB.
pub fn mapped_ledger_kib(pid: u32) -> Option<u64> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/smaps")).ok()?;
    let (mut sum_kib, mut is_ledger) = (0, false);
    for line in maps.lines() {
        // A line for each mapping, with its addresses and its file, and then figures of it.
        let first = line.split_ascii_whitespace().next().unwrap_or_default();
        if !first.ends_with(':') {
            is_ledger = line.contains(".hlive");
        } else if is_ledger && first == "Rss:" {
            sum_kib += line.split_ascii_whitespace().nth(1)?.parse::<u64>().ok()?;
        }
    }
    Some(sum_kib)
}

/// From the first byte to the last that a process has mapped of files whose name has `part` in it, in KiB.
pub fn mapped_span_kib(pid: u32, part: &str) -> Option<u64> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let (mut low, mut high) = (u64::MAX, 0);
    for line in maps.lines().filter(|line| line.contains(part)) {
        let (begin, end) = line.split_ascii_whitespace().next()?.split_once('-')?;
        low = low.min(u64::from_str_radix(begin, 16).ok()?);
        high = high.max(u64::from_str_radix(end, 16).ok()?);
    }
    Some(high.checked_sub(low)? >> 10)
}

/// A number from `/proc/PID/status`, such as `VmRSS`, in KiB.
pub fn status_kib(pid: u32, field: &str) -> Option<u64> {
    figure_kib(&format!("/proc/{pid}/status"), field)
}

fn figure_kib(path: &str, field: &str) -> Option<u64> {
    let figures = std::fs::read_to_string(path).ok()?;
    let line = figures.lines().find(|line| line.strip_prefix(field).is_some_and(|rest| rest.starts_with(':')))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}
