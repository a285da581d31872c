//! Reports of what a program does wrong, as soon as it is entered: printed by a process of its own, since names take their
//! time and this one has to stay beside the program.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use heapledger_launch::entered::{Entered, Teller};

use crate::args::RunArgs;

/// This program.
const OWN: &str = "/proc/self/exe";
/// So many reports are told in full: what goes on and on would fill the screen, and all is in the ledger.
const WHOLE_MAX: u32 = 16;

/// What is said of errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ErrorsTold {
    /// Print a report of each when it is found, and how many at the end
    Report,
    /// Only say at the end how many there are
    Count,
    /// Say nothing
    Quiet,
}

/// Prints reports, one process after the other.
pub(crate) struct ErrorReports {
    suppress: Vec<PathBuf>,
    /// How many may still be told in full.
    left: u32,
    telling: Option<Child>,
}

impl ErrorReports {
    /// Nothing is told yet.
    pub(crate) fn of(arguments: &RunArgs) -> ErrorReports {
        ErrorReports { suppress: arguments.suppress.clone(), left: WHOLE_MAX, telling: None }
    }

    /// It says how many were told in full.
    fn has_told(&mut self, number: Option<i32>) {
        self.telling = None;
        self.left = self.left.saturating_sub(number.and_then(|number| u32::try_from(number).ok()).unwrap_or(0));
    }

    fn start(&self, entered: &Entered) -> io::Result<Child> {
        let mut command = Command::new(OWN);
        let rows: OsString = format!("{}..{}", entered.from, entered.to).into();
        command.arg("errors").arg("--for-run").arg(rows).arg("--limit").arg(self.left.to_string());
        for file in &self.suppress {
            command.arg("--suppress").arg(file);
        }
        command.arg("--").arg(&entered.path).stdin(Stdio::null()).stdout(Stdio::null());
        // What the terminal sends is the program's.
        command.process_group(0).spawn()
    }
}

impl Teller for ErrorReports {
    /// Unless those before them are still being told: then these come with the next ones.
    fn tell(&mut self, entered: &Entered) -> bool {
        if let Some(child) = &mut self.telling {
            match child.try_wait() {
                Ok(None) => return false,
                ended => self.has_told(ended.ok().flatten().and_then(|status| status.code())),
            }
        }
        if self.left == 0 {
            return true;
        }
        // Without a process for it, the ledger still has them, and the summary says so.
        self.telling = self.start(entered).ok();
        true
    }

    fn wait(&mut self) {
        if let Some(child) = &mut self.telling {
            let ended = child.wait().ok().and_then(|status| status.code());
            self.has_told(ended);
        }
    }
}

impl Drop for ErrorReports {
    /// The ledger that is read is finished after that.
    fn drop(&mut self) {
        self.wait();
    }
}
