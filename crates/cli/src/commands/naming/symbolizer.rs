//! What finds names: made from the arguments, the environment, and what is known of the ledger.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use heapledger_analysis::{Clock, Given, Names, SameBuild, given};
use heapledger_debuginfod::Debuginfod;
use heapledger_source::{Ledger, SourceError};
use heapledger_symbols::{GivenFile, Options, SourceReader, Symbolizer};
use nix::unistd::geteuid;

use super::NamingArgs;
use crate::terminal::Transfers;

/// What may be off between the clocks of file systems and of ledgers.
const CLOCK_ERROR: Duration = Duration::from_secs(2);

/// Where the program's engine wrote for perf what code it made. The file is named by the number of a process, which may have
/// been another one's: it must have been written while the program ran, by its user.
pub(crate) fn perf_map(ledger: &Ledger) -> Option<PathBuf> {
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
    /// What the files that were given are to `ledger`.
    pub(super) fn given(&self, ledger: &Ledger) -> Vec<Given> {
        let whole = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
        let files = self.exe.iter().filter_map(|path| GivenFile::open(&whole(path)).ok());
        let mut all: Vec<Given> = files.filter_map(|file| given(ledger, &file).ok()?.ok()).collect();
        // The one that it is of comes first: the others may be of another ledger that is compared with this one.
        all.sort_by_key(|given| match given {
            Given::Everything(file) => file.build,
            Given::Modules(_) => SameBuild::Yes,
        });
        all
    }

    /// Names of a ledger of a session; the symbolizer is that of the one before, which has opened modules already.
    pub(crate) fn names_with<'a>(&self, ledger: &'a Ledger, before: Option<Symbolizer>) -> Result<Names<'a>> {
        let symbolizer = match before.filter(|_| self.exe.is_empty()) {
            Some(mut symbolizer) => {
                symbolizer.set_generated_code(self.perf_map.clone().or_else(|| perf_map(ledger)));
                symbolizer
            }
            None => self.symbolizer(ledger),
        };
        Ok(self.names(ledger, symbolizer)?)
    }

    /// Whether files that were given are of this ledger; also if there are none.
    pub(crate) fn fits(&self, ledger: &Ledger) -> bool {
        self.exe.is_empty() || !self.given(ledger).is_empty()
    }

    pub(super) fn names<'a>(&self, ledger: &'a Ledger, symbolizer: Symbolizer) -> Result<Names<'a>, SourceError> {
        let mut names = Names::new(ledger, symbolizer, self.sources())?;
        names.strip(self.strip_path.clone());
        for given in self.given(ledger) {
            if let Given::Everything(file) = given {
                names.of_file(file);
            }
        }
        Ok(names)
    }

    /// What finds names in `ledger` for these arguments.
    pub(super) fn symbolizer(&self, ledger: &Ledger) -> Symbolizer {
        self.symbolizer_with(ledger, Transfers::shown)
    }

    /// The text of source files.
    fn sources(&self) -> SourceReader {
        SourceReader::new(self.sysroot.clone())
    }

    pub(super) fn symbolizer_with(&self, ledger: &Ledger, transfers: fn() -> Transfers) -> Symbolizer {
        let mut options = Options::default();
        options.debug_dirs.splice(0..0, self.debug_dir.iter().cloned());
        options.sysroot.clone_from(&self.sysroot);
        options.demangle = !self.no_demangle;
        options.suggests_servers = !self.no_debuginfod && std::env::var_os("DEBUGINFOD_URLS").is_none();
        let modules = self.given(ledger).into_iter().filter_map(|given| match given {
            Given::Modules(modules) => Some(modules),
            Given::Everything(_) => None,
        });
        options.files = modules.flatten().collect();
        let mut symbolizer = Symbolizer::new(options);
        if let Some(path) = self.perf_map.clone().or_else(|| perf_map(ledger)) {
            symbolizer = symbolizer.with_generated_code(path);
        }
        if self.no_debuginfod {
            return symbolizer;
        }
        match Debuginfod::from_environment(Box::new(transfers())) {
            Some(client) => symbolizer.with_fetch(Box::new(client)),
            None => symbolizer,
        }
    }
}
