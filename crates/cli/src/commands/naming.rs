//! How frames get their names: arguments of all commands that show frames.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use heapledger_analysis::source::{Ledger, SourceError};
use heapledger_analysis::symbols::{Options, SourceReader, Symbolizer};
use heapledger_analysis::{Clock, Names, NamingOptions};
use nix::unistd::geteuid;

use super::Progress;
use crate::debuginfod::Debuginfod;

/// Arguments of commands that name frames.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Names of functions")]
pub(crate) struct NamingArgs {
    /// Look for separate debug files in DIR too, laid out as /usr/lib/debug; may be given several times
    #[arg(long, value_name = "DIR", value_parser = directory)]
    pub(crate) debug_dir: Vec<PathBuf>,
    /// Look for all files of the program in DIR instead of /: where another machine's or a container's files are mounted,
    /// such as /proc/PID/root
    #[arg(long, value_name = "DIR", value_parser = directory)]
    pub(crate) sysroot: Option<PathBuf>,
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

/// What may be off between the clocks of file systems and of ledgers.
const CLOCK_ERROR: Duration = Duration::from_secs(2);

/// Where the program's engine wrote for perf what code it made. The file is named by the number of a process, which may have
/// been another one's: it must have been written while the program ran, by its user.
fn perf_map(ledger: &Ledger) -> Option<PathBuf> {
    let path = PathBuf::from(format!("/tmp/perf-{}.map", ledger.process().pid()?));
    let metadata = fs::symlink_metadata(&path).ok().filter(fs::Metadata::is_file)?;
    let own = geteuid().as_raw();
    let written = metadata.modified().ok()?;
    let clock = Clock::new(ledger, SystemTime::now()).ok()?;
    let began = UNIX_EPOCH + Duration::from_nanos(clock.start_unix_ns()?);
    let ended = began + Duration::from_nanos(clock.span_ns()?);
    let is_of_its_time = written + CLOCK_ERROR >= began && (ledger.is_running() || written <= ended + CLOCK_ERROR);
    let is_trusted = own == 0 || [0, own].contains(&metadata.uid());
    (is_of_its_time && is_trusted).then_some(path)
}

impl NamingArgs {
    /// What finds names in `ledger` for these arguments.
    fn symbolizer(&self, ledger: &Ledger) -> Symbolizer {
        self.symbolizer_with(ledger, |client| client)
    }

    /// The text of source files.
    fn sources(&self) -> SourceReader {
        SourceReader::new(self.sysroot.clone())
    }

    fn symbolizer_with(&self, ledger: &Ledger, change: impl FnOnce(Debuginfod) -> Debuginfod) -> Symbolizer {
        let mut options = Options::default();
        options.debug_dirs.splice(0..0, self.debug_dir.iter().cloned());
        options.sysroot.clone_from(&self.sysroot);
        options.demangle = !self.no_demangle;
        let mut symbolizer = Symbolizer::new(options);
        if let Some(path) = self.perf_map.clone().or_else(|| perf_map(ledger)) {
            symbolizer = symbolizer.with_generated_code(path);
        }
        match Debuginfod::from_environment().filter(|_| !self.no_debuginfod) {
            Some(client) => symbolizer.with_fetch(Box::new(change(client))),
            None => symbolizer,
        }
    }

    /// What will find names, and has found none yet.
    pub(crate) fn no_names<'a>(&self, ledger: &'a Ledger) -> Result<Names<'a>> {
        Ok(Names::new(ledger, self.symbolizer(ledger), self.sources())?)
    }

    /// The same for a command that draws on the terminal: nothing is said about what servers bring.
    pub(crate) fn quiet_names<'a>(&self, ledger: &'a Ledger) -> Result<Names<'a>, SourceError> {
        Names::new(ledger, self.symbolizer_with(ledger, Debuginfod::quiet), self.sources())
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
