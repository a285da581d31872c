//! `heapledger heapmap`: who holds how much, of libwebsockets' log lines.

use std::path::PathBuf;

use anyhow::{Result, bail};
use heapledger_report::Form;

use super::saving::{save, say_missing};
use crate::args::output_path;
use crate::commands::dump::{self, DumpArgs};
use crate::commands::unless_pipe_closed;
use crate::say;

mod classic;

/// Arguments of `heapmap`.
#[derive(Debug, clap::Args)]
#[command(override_usage = "heapledger heapmap [OPTIONS] [EXECUTABLE] <LOG>")]
#[command(after_help = "\
Blocks are added up by call stack, those that hold most first, with counts,
bytes, share, functions and lines; all options of dump are there. --classic
shows each line of the log by itself, in the shape of libwebsockets' heapmap.sh.

Examples:
  heapledger heapmap device.log --exe app
  heapledger heapmap --group-by fn device.log --exe app
  heapledger heapmap --classic -o device.hl app device.log")]
pub(crate) struct HeapmapArgs {
    /// One entry for each line of the log, in the shape of heapmap.sh
    #[arg(long, conflicts_with_all = ["group_by", "columns", "limit", "top"])]
    pub(crate) classic: bool,
    /// Keep the ledger, too
    #[arg(short, long, value_name = "FILE", value_parser = output_path())]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) dump: DumpArgs,
}

/// Shows it.
pub(crate) fn run(args: HeapmapArgs) -> Result<()> {
    unless_pipe_closed(show(args))
}

fn show(mut args: HeapmapArgs) -> Result<()> {
    args.dump.executable.put_apart(&mut args.dump.ledger.ledger, &mut args.dump.naming)?;
    if args.classic && *args.dump.form.get() != Form::Text {
        bail!("--classic has one shape: leave the other format away");
    }
    let opened = args.dump.ledger.open()?;
    if let Some(wanted) = &args.output {
        let (path, finished) = save(&opened.ledger, wanted, &mut 0)?;
        let blocks = heapledger_report::counted(finished.records, "block", "blocks");
        say(&format!("{} holds the ledger, with {blocks}", path.display()));
    }
    if args.classic {
        // The shape has no room for it.
        say_missing(&opened.ledger);
        return classic::show(&args.dump, opened);
    }
    if args.dump.groups.is_plain() {
        args.dump.groups.group_by = Some("stack".to_owned());
    }
    dump::show_opened(&args.dump, opened)
}
