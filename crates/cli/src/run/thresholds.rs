//! `--snapshot-when`: a snapshot of the program each time that it holds more than so much.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use heapledger_format::session::{Key, ending};
use heapledger_launch::size::parse_size;
use heapledger_launch::threshold::Passed;

use crate::args::RunArgs;
use crate::{say, terminal};

/// This program.
const OWN: &str = "/proc/self/exe";
/// A finished ledger is called so.
const ENDING: &[u8] = ending::FINISHED.as_bytes();

/// A condition as it is typed: `live > 1G`.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let problem = || format!("'{text}' is not a condition such as 'live > 512M': live, >, and a size");
    let rest = text.trim_start().strip_prefix("live").ok_or_else(problem)?;
    let size = rest.trim_start().strip_prefix('>').ok_or_else(problem)?;
    parse_size(size.trim()).map_err(|_| problem())
}

/// Where snapshots go, beside the finished ledger.
fn pattern_beside(output: &OsStr) -> OsString {
    let name = output.as_bytes();
    let stem = name.strip_suffix(ENDING).unwrap_or(name);
    OsStr::from_bytes(&[stem, b".%i", ENDING].concat()).to_owned()
}

/// Takes snapshots, each in a process of its own: this one has to stay beside the program.
pub(crate) struct Snapshots {
    pattern: OsString,
    quiet: bool,
    /// Exact bytes in what is said.
    bytes: bool,
    /// Blocks are sampled.
    estimated: bool,
    taking: Vec<Child>,
}

impl Snapshots {
    /// Beside the finished ledger, with a number.
    pub(crate) fn beside(arguments: &RunArgs) -> Snapshots {
        let pattern = pattern_beside(&arguments.output);
        let estimated = arguments.settings.get(Key::Sample).is_some();
        Snapshots { pattern, quiet: arguments.quiet, bytes: arguments.bytes, estimated, taking: Vec::new() }
    }

    /// A limit was passed.
    pub(crate) fn take(&mut self, passed: Passed) {
        self.taking.retain_mut(|child| !matches!(child.try_wait(), Ok(Some(_))));
        if !self.quiet {
            let last = if passed.is_last { "; the last snapshot for this limit" } else { "" };
            let figures = terminal::stderr_paint(self.bytes).figures(self.estimated);
            let (limit, live) = (figures.bytes(passed.limit), figures.bytes(passed.live));
            say(&format!("the program holds more than {limit}, {live}{last}"));
        }
        match self.start(passed.pid) {
            Ok(child) => self.taking.push(child),
            Err(problem) => say(&format!("no snapshot can be taken: {problem}")),
        }
    }

    fn start(&self, pid: i32) -> io::Result<Child> {
        let mut command = Command::new(OWN);
        command
            .arg("snapshot")
            .arg("-o")
            .arg(&self.pattern)
            .arg(pid.to_string())
            .args(self.quiet.then_some("-q"))
            .args(self.bytes.then_some("--bytes"));
        // What the terminal sends is the program's. What it prints must not get into the program's output.
        let errors = io::stderr().as_fd().try_clone_to_owned()?;
        command.process_group(0).stdin(Stdio::null()).stdout(errors).spawn()
    }
}

impl Drop for Snapshots {
    /// The ledger that they copy is finished after that.
    fn drop(&mut self) {
        for child in &mut self.taking {
            let _ = child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read() {
        for (text, limit) in [("live > 1G", 1 << 30), ("live>512M", 512 << 20), ("  live  >  4096 ", 4096)] {
            assert_eq!(parse(text), Ok(limit), "{text}");
        }
        for text in ["", "live", "live >", "live < 1G", "peak > 1G", "live > 1X", "alive > 1", "live >> 1", "1G < live"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn names_have_a_number() {
        for (output, pattern) in
            [("heapledger.%n.%p.hl", "heapledger.%n.%p.%i.hl"), ("a/b.hl", "a/b.%i.hl"), ("x", "x.%i.hl")]
        {
            assert_eq!(pattern_beside(OsStr::new(output)), pattern);
        }
    }
}
