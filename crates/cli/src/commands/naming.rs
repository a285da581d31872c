//! How frames get their names: arguments of all commands that show frames.

use std::path::PathBuf;

use anyhow::Result;
use heapledger_analysis::{Given, Names, NamingOptions, NotOurs, check_firmware, given};
use heapledger_format::Site;
use heapledger_source::{Ledger, SourceError};
use heapledger_symbols::GivenFile;

use super::Progress;
use super::standard::Usage;
use crate::terminal::Transfers;

mod hash;
mod symbolizer;

pub(crate) use symbolizer::perf_map;

/// Arguments of commands that name frames.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Names of functions")]
pub(crate) struct NamingArgs {
    /// Read functions and lines of a module from FILE, wherever its own is: the program or a library before it was stripped,
    /// or its debug file; may be given several times, for a chip's ROM, too. Refused if its build id is another
    #[arg(long, value_name = "FILE", value_parser = file)]
    pub(crate) exe: Vec<PathBuf>,
    /// Look for separate debug files in DIR too, laid out as /usr/lib/debug; may be given several times
    #[arg(long, value_name = "DIR", value_parser = directory)]
    pub(crate) debug_dir: Vec<PathBuf>,
    /// Look for all files of the program in DIR instead of /: where another machine's or a container's files are mounted,
    /// such as /proc/PID/root
    #[arg(long, value_name = "DIR", value_parser = directory)]
    pub(crate) sysroot: Option<PathBuf>,
    /// Leave PREFIX off the front of paths of source files, such as the directory of a build; may be given several times
    #[arg(long, value_name = "PREFIX")]
    pub(crate) strip_path: Vec<String>,
    /// Show C++ and Rust functions as the linker knows them
    #[arg(long)]
    pub(crate) no_demangle: bool,
    /// Ask no server for debug information, even if DEBUGINFOD_URLS names some
    #[arg(long)]
    pub(crate) no_debuginfod: bool,
    /// Names of code that was made at run time, as engines write them for perf [default: /tmp/perf-PID.map, if it is of the
    /// program's time]
    #[arg(long, value_name = "FILE", value_parser = file)]
    pub(crate) perf_map: Option<PathBuf>,
}

/// A directory that is there: what is misspelt would else be a report without lines.
fn directory(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if path.is_dir() { Ok(path) } else { Err("there is no such directory".to_owned()) }
}

fn file(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if path.is_file() { Ok(path) } else { Err("there is no such file".to_owned()) }
}

impl NamingArgs {
    /// Refuses files that were given and are no modules of any of `ledgers`.
    pub(crate) fn check(&self, ledgers: &[&Ledger]) -> Result<()> {
        for path in &self.exe {
            let file = GivenFile::open(path).map_err(|reason| Usage::new(format!("{}: {reason}", path.display())))?;
            let mut refused = None;
            for ledger in ledgers {
                match given(ledger, &file)? {
                    Ok(_) => {
                        refused = None;
                        break;
                    }
                    // It may come to load it.
                    Err(NotOurs::NoModule { .. }) if ledger.is_running() => {}
                    Err(problem) => refused = refused.or(Some(problem)),
                }
            }
            if let Some(problem) = refused {
                return Err(Usage::new(problem.to_string()).into());
            }
        }
        for ledger in ledgers {
            let programs: Vec<_> = self.given(ledger).into_iter().filter_map(Given::program).collect();
            check_firmware(ledger, &programs).map_err(|problem| Usage::new(problem.to_string()))?;
            self.compare_hash(ledger);
        }
        Ok(())
    }

    /// What will find names, and has found none yet.
    pub(crate) fn no_names<'a>(&self, ledger: &'a Ledger) -> Result<Names<'a>> {
        Ok(self.names(ledger, self.symbolizer(ledger))?)
    }

    /// The same for a command that draws on the terminal: nothing is said about what servers bring.
    pub(crate) fn quiet_names<'a>(&self, ledger: &'a Ledger) -> Result<Names<'a>, SourceError> {
        self.names(ledger, self.symbolizer_with(ledger, Transfers::quiet))
    }

    /// Names of all stacks that will be shown.
    pub(crate) fn name<'a>(
        &self,
        ledger: &'a Ledger,
        sites: impl Iterator<Item = Site>,
        text: SourceText,
    ) -> Result<Names<'a>> {
        let mut names = self.no_names(ledger)?;
        find_names(&mut names, sites, text)?;
        Ok(names)
    }
}

/// Whether lines of a program's source will be shown: their files are read only then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SourceText {
    Shown,
    NotShown,
}

impl SourceText {
    pub(crate) fn shown_if(shown: bool) -> SourceText {
        if shown { SourceText::Shown } else { SourceText::NotShown }
    }
}

/// Finds names of all that will be shown.
pub(crate) fn find_names(names: &mut Names<'_>, sites: impl Iterator<Item = Site>, text: SourceText) -> Result<()> {
    let mut progress = Progress::new("finding names");
    let options = NamingOptions { source_text: text == SourceText::Shown, ..NamingOptions::default() };
    names.resolve(sites, options, &mut |part| progress.show(part))?;
    Ok(())
}
