//! Standard options: which blocks or events, in which order. The same for every command that has them.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use anyhow::Result;
use heapledger_analysis::query::SyntaxError;
use thiserror::Error;

use super::NamingArgs;
use super::ledgers::is_elf;

mod filter;
mod group;
mod sort;
mod suppress;

pub(crate) use filter::FilterArgs;
pub(crate) use group::{GroupArgs, groups};
pub(crate) use sort::{SortArgs, sort_help};
pub(crate) use suppress::{SUPPRESS_ERRORS, SuppressArgs, suppressions};

/// What was typed cannot be understood. The exit code says so.
#[derive(Debug, Error)]
#[error("{0}")]
pub(crate) struct Usage(String);

impl Usage {
    /// An error in the value of `option`.
    pub(crate) fn in_value(option: &str, error: &SyntaxError) -> Usage {
        Usage(format!("{option}: {error}"))
    }

    /// Anything else that was typed wrongly.
    pub(crate) fn new(text: impl Into<String>) -> Usage {
        Usage(text.into())
    }
}

/// Names in a line.
pub(crate) fn listed(names: impl Iterator<Item = &'static str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

/// An executable before the ledger, as `--exe`.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct ExecutableArgs {
    /// The ledger, if the program's executable stands before it: functions and lines are read from that, as with --exe
    #[arg(value_name = "LEDGER")]
    second: Option<OsString>,
}

impl ExecutableArgs {
    /// The ledger, of which `first` is the first argument; an executable before it goes to `naming`.
    pub(crate) fn ledger<'s>(&'s self, first: &'s OsStr, naming: &mut NamingArgs) -> Result<&'s OsStr> {
        let Some(second) = &self.second else { return Ok(first) };
        let shown = Path::new(first).display();
        match is_elf(Path::new(first)) {
            Ok(true) => {
                naming.exe.insert(0, first.into());
                Ok(second)
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Err(Usage::new(format!("{shown} does not exist; before the ledger, an executable may stand")).into())
            }
            _ => Err(Usage::new(format!("{shown} is no executable; this command shows one ledger")).into()),
        }
    }
}
