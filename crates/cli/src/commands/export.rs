//! `heapledger export`: a ledger as a file for other viewers.

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use heapledger_export::{Compression, ExportFormat};
use heapledger_report::{clean, sentence};

use super::figure::FigureArgs;
use super::opening::{OpeningArgs, open_target, whole_session};
use super::sessions::TopLevel;
use super::standard::{ExecutableArgs, FilterArgs};
use super::target::{Target, free_stem};
use super::{NamingArgs, unless_pipe_closed};

mod format;
mod read;
mod session;

use format::{FormatName, after_help, check};
use read::ExportRead;

const ABOUT: &str = "\
Stacks are whole: viewers have their own ways to leave functions out. What a
format has no place for is said on stderr, and nothing is made up. --by and --at
choose the figure of formats that hold one, and the one that others show first.

Without -o the file gets the ledger's name, in the working directory, and
replaces none. A name that ends in .gz or .zst has the file packed; pprof's is
packed always.";

const EXAMPLES: &str = "\
Examples:
  heapledger export pprof heapledger.jq.4711.hl -o jq.pb.gz
  go tool pprof -top jq.pb.gz
  heapledger export speedscope --at peak heapledger.jq.4711.hl
  heapledger export heaptrack --where 'age > 10s' 4711
  heapledger export folded heapledger.jq.4711.hl -o - | flamegraph.pl > jq.svg
  heapledger export difffolded --diff monday.hl tuesday.hl -o grown.folded";

/// Arguments of `export`.
#[derive(Debug, clap::Args)]
#[command(override_usage = "heapledger export [OPTIONS] <FORMAT> [EXECUTABLE] <FILE|PID>")]
#[command(mut_arg("hide", |arg| arg.help("Leave out functions matching REGEX: what they hold counts for their callers; repeatable")))]
#[command(after_help = after_help(ABOUT, EXAMPLES))]
pub(crate) struct ExportArgs {
    /// One of the formats below
    #[arg(value_name = "FORMAT", value_parser = FormatName, hide_possible_values = true)]
    pub(crate) format: &'static ExportFormat,
    /// A ledger, the process id of a program that is being recorded (it is not stopped), a core dump, a log of a device, or
    /// the directory of a session of several processes
    #[arg(value_name = "FILE|PID")]
    pub(crate) ledger: OsString,
    #[command(flatten)]
    pub(crate) executable: ExecutableArgs,
    /// Compare with this older ledger, in formats that can hold that
    #[arg(long, value_name = "OLD")]
    pub(crate) diff: Option<OsString>,
    /// Where it goes; `-` is standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) figure: FigureArgs,
    /// Tell threads apart: a label where the format has some, else the outermost frame
    #[arg(long)]
    pub(crate) threads: bool,
    /// Of a session, what is told apart: each process, or each program, with all processes that ran it
    #[arg(long, value_enum, value_name = "LEVEL", default_value_t = TopLevel::Process)]
    pub(crate) group_by: TopLevel,
    /// Write bytes exactly, without units
    #[arg(long)]
    pub(crate) bytes: bool,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    #[command(flatten)]
    pub(crate) naming: NamingArgs,
    #[command(flatten)]
    pub(crate) opening: OpeningArgs,
}

/// Writes the file.
pub(crate) fn run(mut args: ExportArgs) -> Result<()> {
    args.executable.put_apart(&mut args.ledger, &mut args.naming)?;
    unless_pipe_closed(write(&args))
}

fn write(args: &ExportArgs) -> Result<()> {
    check(args)?;
    let format = args.format;
    let to_stdout = args.output.as_deref() == Some(Path::new("-"));
    if to_stdout && format.packed.is_some() && io::stdout().is_terminal() {
        bail!("this is nothing for a terminal; leave -o away or name a file");
    }
    let names = [Some(&args.ledger), args.diff.as_ref()];
    let names: Vec<_> = names.into_iter().flatten().map(|name| &**name).collect();
    let family = whole_session(&args.ledger, &args.opening.members)?;
    let ledgers = match &family {
        Some(_) => Vec::new(),
        None => names.iter().map(|name| open_target(name, &args.opening)).collect::<Result<Vec<_>>>()?,
    };
    let target = match &args.output {
        Some(_) if to_stdout => Target::Stdout,
        Some(path) => Target::Named(path.clone()),
        None => Target::Free(
            format!("{}.{}", free_stem(&args.ledger, ledgers.first(), args.diff.is_some()), format.ending).into(),
        ),
    };
    let packed = format.packed.unwrap_or(match &target {
        Target::Stdout => Compression::Plain,
        Target::Named(path) | Target::Free(path) => Compression::of_name(path),
    });
    let ExportRead { profile, seen } = match &family {
        Some(family) => session::read(args, family)?,
        None => read::read(args, &names, &ledgers)?,
    };
    for note in &seen.notes {
        crate::say(&clean(&sentence(note)));
    }
    for remark in profile.about.notes.iter().chain(&format.remarks(&profile)) {
        crate::say(&clean(remark));
    }
    crate::say(&format!("{} has no place for {}", format.name, format.untold));
    let stacks = heapledger_report::counted(profile.stacks.len() as u64, "stack", "stacks");
    target.write(&stacks, args.bytes, |out: &mut dyn Write| packed.pack(out, |out| format.write(&profile, out)))
}
