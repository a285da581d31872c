//! How frames get their names: arguments of all commands that show frames.

use std::path::PathBuf;

use anyhow::Result;
use heapledger_analysis::source::Ledger;
use heapledger_analysis::symbols::{Options, SourceReader, Symbolizer};
use heapledger_analysis::{Names, NamingOptions};

use super::Progress;
use crate::debuginfod::Debuginfod;

/// Arguments of commands that name frames.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Names of functions")]
pub(crate) struct NamingArgs {
    /// Look for separate debug files in DIR too, laid out as /usr/lib/debug; may be given several times
    #[arg(long, value_name = "DIR", value_parser = directory)]
    pub(crate) debug_dir: Vec<PathBuf>,
    /// Show C++ and Rust functions as the linker knows them
    #[arg(long)]
    pub(crate) no_demangle: bool,
    /// Ask no server for debug information, even if DEBUGINFOD_URLS names some
    #[arg(long)]
    pub(crate) no_debuginfod: bool,
}

/// A directory that is there: what is misspelt would else be a report without lines.
fn directory(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if path.is_dir() { Ok(path) } else { Err("there is no such directory".to_owned()) }
}

impl NamingArgs {
    /// What finds names for these arguments.
    pub(crate) fn symbolizer(&self) -> Symbolizer {
        self.symbolizer_with(|client| client)
    }

    /// The same for a command that draws on the terminal: nothing is said about what servers bring.
    pub(crate) fn quiet_symbolizer(&self) -> Symbolizer {
        self.symbolizer_with(Debuginfod::quiet)
    }

    fn symbolizer_with(&self, change: impl FnOnce(Debuginfod) -> Debuginfod) -> Symbolizer {
        let mut options = Options::default();
        options.debug_dirs.splice(0..0, self.debug_dir.iter().cloned());
        options.demangle = !self.no_demangle;
        let symbolizer = Symbolizer::new(options);
        match Debuginfod::from_environment().filter(|_| !self.no_debuginfod) {
            Some(client) => symbolizer.with_fetch(Box::new(change(client))),
            None => symbolizer,
        }
    }

    /// What will find names, and has found none yet.
    pub(crate) fn no_names<'a>(&self, ledger: &'a Ledger) -> Result<Names<'a>> {
        Ok(Names::new(ledger, self.symbolizer(), SourceReader::new(None))?)
    }

    /// Names of all stacks that will be shown; with the text of source lines, if wanted.
    pub(crate) fn name<'a>(
        &self,
        ledger: &'a Ledger,
        sites: impl Iterator<Item = u32>,
        source_text: bool,
    ) -> Result<Names<'a>> {
        let mut names = self.no_names(ledger)?;
        find_names(&mut names, sites, source_text)?;
        Ok(names)
    }
}

/// Finds names of all that will be shown.
pub(crate) fn find_names(names: &mut Names<'_>, sites: impl Iterator<Item = u32>, source_text: bool) -> Result<()> {
    let mut progress = Progress::new("finding names");
    names.resolve(sites, NamingOptions { source_text, deadline: None }, &mut |part| progress.show(part))?;
    Ok(())
}
