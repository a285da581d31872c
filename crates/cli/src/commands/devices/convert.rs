//! `heapledger convert`: the ledgers that a log tells of, in files.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use heapledger_report::{clean, counted};
use heapledger_source::Ledger;

use super::decode::WidthArgs;
use super::saving::{name_for, save, say_missing};
use crate::args::output_path;
use crate::commands::opening::{FromLog, all_of};
use crate::commands::{NamingArgs, unless_pipe_closed};
use crate::terminal::stdout;

mod host_report;

/// Arguments of `convert`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
All commands read such a log in place of a ledger; this one keeps what they make
of it. A log with several dumps gives as many ledgers, with a number in the name
of all but the first. No file is ever replaced.

Examples:
  heapledger convert device.log               device.log.hl
  heapledger convert -o leak.hl device.log    leak.hl, leak.1.hl, …
  heapledger convert --host-report --exe app.elf heap.svdat")]
pub(crate) struct ConvertArgs {
    /// A log of a device; `-` is standard input
    #[arg(value_name = "LOG")]
    pub(crate) log: OsString,
    /// Name of the ledger [default: that of the log, with .hl behind it]
    #[arg(short, long, value_name = "FILE", value_parser = output_path())]
    pub(crate) output: Option<PathBuf>,
    /// Take the file for a log of that kind; else that is seen by what is in it
    #[arg(long, value_enum, value_name = "KIND")]
    pub(crate) from: Option<FromLog>,
    /// Print what ESP-IDF's own script prints of a trace to a host, and keep nothing
    #[arg(long, conflicts_with_all = ["output", "from"])]
    pub(crate) host_report: bool,
    /// With --host-report: all events as JSON, with the fields of that script's -j
    #[arg(long, requires = "host_report", conflicts_with = "exe")]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) width: WidthArgs,
    #[command(flatten)]
    pub(crate) naming: NamingArgs,
}

/// Keeps them.
pub(crate) fn run(args: &ConvertArgs) -> Result<()> {
    unless_pipe_closed(if args.host_report { host_report::write(args) } else { convert(args) })
}

fn convert(args: &ConvertArgs) -> Result<()> {
    let shown = Path::new(&args.log).display();
    let made = all_of(&args.log, args.from, args.width.get())?;
    let made = made.unwrap_or_default();
    if made.is_empty() {
        bail!("no line of {shown} tells of a heap in a way that heapledger knows");
    }
    let wanted = args.output.clone().unwrap_or_else(|| name_for(&args.log));
    let mut next = 0;
    for one in made {
        let name = one.name.clone();
        let ledger = Ledger::of_file(one.into_file()?, Path::new(&args.log))?;
        let (path, finished) = save(&ledger, &wanted, &mut next)?;
        let blocks = counted(finished.records, "live block", "live blocks");
        let freed = match finished.history {
            0 => String::new(),
            frees => format!(", {}", counted(frees, "freed one", "freed ones")),
        };
        writeln!(stdout(), "{}: {}; {blocks}{freed}", clean(&path.to_string_lossy()), clean(&name))?;
        say_missing(&ledger);
    }
    Ok(())
}
