//! `heapledger dump`: what is allocated, with the stacks that allocated it.

use anyhow::Result;
use heapledger_analysis::{Seen, Selection};
use heapledger_report::{DumpJson, DumpText, Ending};

use super::{LedgerArgs, LimitArgs, NamingArgs, Progress, unless_pipe_closed};

/// Arguments of `dump`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  heapledger dump heapledger.jq.4711.hl
  heapledger dump --sort size --limit 10 4711
  heapledger dump --json 4711 | jq -r 'select(.type == \"block\") | .size'")]
pub(crate) struct DumpArgs {
    #[command(flatten)]
    pub(crate) ledger: LedgerArgs,
    #[command(flatten)]
    pub(crate) limit: LimitArgs,
    /// What comes first
    #[arg(short, long, value_enum, value_name = "ORDER", default_value_t = Order::Address)]
    pub(crate) sort: Order,
    /// The other way round
    #[arg(short, long)]
    pub(crate) reverse: bool,
    #[command(flatten)]
    pub(crate) naming: NamingArgs,
}

/// The order of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Order {
    /// Lowest address first
    Address,
    /// Largest first
    Size,
    /// First allocated first
    Number,
    /// Oldest first
    Age,
}

/// Shows the live blocks of a ledger.
pub(crate) fn run(args: &DumpArgs) -> Result<()> {
    unless_pipe_closed(show(args))
}

fn show(args: &DumpArgs) -> Result<()> {
    use heapledger_analysis::Sort;
    let mut opened = args.ledger.open()?;
    let sort = match args.sort {
        Order::Address => Sort::Address,
        Order::Size => Sort::Size,
        Order::Number => Sort::Number,
        Order::Age => Sort::Age,
    };
    let limit = args.limit.get(args.ledger.json);
    let mut progress = Progress::new("reading");
    let selection = Selection::of(&opened.ledger, sort, args.reverse, limit, &mut |part| progress.show(part))?;
    drop(progress);
    opened.refresh()?;
    let (ledger, context, threads_recorded) = (&opened.ledger, &opened.context, opened.threads_recorded);
    let mut names = args.naming.name(ledger, selection.blocks.iter().map(|block| block.site), true)?;
    let mut seen = Seen::of(ledger, selection.in_flight)?;
    let shown = selection.blocks.len() as u64;
    let ending = Ending { shown, left_out: selection.left_out(), in_flight: selection.in_flight };
    if args.ledger.json {
        let mut report = DumpJson::new(opened.out, context, &selection)?;
        for block in &selection.blocks {
            report.block(block, &names.stack(block.site)?)?;
        }
        seen.notes.extend(names.notes());
        report.end(ending, &seen)?;
    } else {
        let mut report = DumpText::new(opened.out, context, threads_recorded, &selection)?;
        for block in &selection.blocks {
            report.block(block, &names.stack(block.site)?)?;
        }
        seen.notes.extend(names.notes());
        report.end(ending, &selection, &seen)?;
    }
    Ok(())
}
