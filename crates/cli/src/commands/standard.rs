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
    /// May stand before the ledger: the program's executable; functions and lines are read from that, as with --exe
    #[arg(value_name = "EXECUTABLE", help_heading = None::<&str>)]
    second: Option<OsString>,
}

impl ExecutableArgs {
    /// As if `ledger` had been the second argument.
    pub(crate) fn before(ledger: &OsStr) -> ExecutableArgs {
        ExecutableArgs { second: Some(ledger.to_owned()) }
    }

    /// If there are two arguments, an executable and a ledger: the first goes to `naming`, and the second becomes `ledger`.
    pub(crate) fn put_apart(&self, ledger: &mut OsString, naming: &mut NamingArgs) -> Result<()> {
        let Some(second) = &self.second else { return Ok(()) };
        let shown = Path::new(ledger).display();
        match is_elf(Path::new(ledger)) {
            Ok(true) => {
                naming.exe.insert(0, std::mem::replace(ledger, second.clone()).into());
                Ok(())
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Err(Usage::new(format!("{shown} does not exist; before the ledger, an executable may stand")).into())
            }
            _ => Err(Usage::new(format!("{shown} is no executable; this command shows one ledger")).into()),
        }
    }
}
