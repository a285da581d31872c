//! Several ledgers of one run, and an executable that may stand before them.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use anyhow::{Result, bail};
use heapledger_analysis::{Clock, Identity, NotOneRun, in_order};
use heapledger_report::moment;
use heapledger_source::Ledger;

use super::NamingArgs;
use super::opening::{OpeningArgs, open_target};

/// Behind the first argument: more ledgers.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct MoreLedgers {
    /// More ledgers of the same run. The program's executable may stand before them: functions and lines are read from
    /// that, as with --exe
    #[arg(value_name = "LEDGER", help_heading = None::<&str>)]
    more: Vec<OsString>,
}

impl MoreLedgers {
    /// The ledgers, of which `first` is the first argument; an executable before them goes to `naming`.
    pub(crate) fn targets(&self, first: &OsStr, naming: &mut NamingArgs) -> Vec<OsString> {
        let with_executable = !self.more.is_empty() && is_executable(Path::new(first));
        if with_executable {
            naming.exe.insert(0, first.into());
        }
        let all = std::iter::once(first.to_owned()).chain(self.more.iter().cloned());
        all.skip(usize::from(with_executable)).collect()
    }
}

/// Whether this is an ELF file.
pub(crate) fn is_elf(path: &Path) -> io::Result<bool> {
    let mut magic = [0; 4];
    File::open(path).and_then(|mut file| file.read_exact(&mut magic))?;
    Ok(magic == *b"\x7fELF")
}

/// Whether this is an ELF file that can run. A core dump is none: that can be a ledger.
fn is_executable(path: &Path) -> bool {
    let mut start = [0u8; 18];
    if File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_err() {
        return false;
    }
    let [magic @ .., low, high] = start;
    // Little-endian, or not: programs and shared objects are types 2 and 3.
    magic.starts_with(b"\x7fELF") && matches!([low, high], [2 | 3, 0] | [0, 2 | 3])
}

/// Opens the ledgers of one run, oldest first, and gives their names in that order.
pub(crate) fn open_run(targets: &[&OsStr], opening: &OpeningArgs) -> Result<(Vec<Ledger>, Vec<String>)> {
    let ledgers = targets.iter().map(|target| open_target(target, opening)).collect::<Result<Vec<_>>>()?;
    let order = match in_order(&ledgers) {
        Ok(order) => order,
        Err(error) => bail!("{}", other_run(&ledgers, targets, error)),
    };
    let names: Vec<String> =
        order.iter().filter_map(|place| Some(targets.get(*place)?.to_string_lossy().into_owned())).collect();
    let mut places: Vec<Option<Ledger>> = ledgers.into_iter().map(Some).collect();
    Ok((order.into_iter().filter_map(|place| places.get_mut(place)?.take()).collect(), names))
}

/// Why two ledgers cannot be shown as one.
fn other_run(ledgers: &[Ledger], targets: &[&OsStr], error: NotOneRun) -> String {
    let told = |place: usize| {
        let name = targets.get(place).map(|target| target.to_string_lossy().into_owned()).unwrap_or_default();
        let Some(ledger) = ledgers.get(place) else { return name };
        let identity = Identity::of(ledger);
        let program = identity.program.unwrap_or_else(|| "an unknown program".to_owned());
        let pid = identity.pid.map(|pid| format!(", pid {pid}")).unwrap_or_default();
        let clock = Clock::new(ledger, std::time::UNIX_EPOCH).ok();
        let began = clock.and_then(|clock| clock.start_unix_ns()).map(moment);
        let began = began.map(|began| format!(", began {began}")).unwrap_or_default();
        format!("{name} ({program}{pid}{began})")
    };
    let reason =
        if error.by_exec { "the process called exec and began a new ledger" } else { "they are of different runs" };
    format!("{} and {} are no single history: {reason}", told(error.first), told(error.second))
}
