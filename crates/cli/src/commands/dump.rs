//! `heapledger dump`: what is allocated, with the stacks that allocated it.

use anyhow::Result;
use heapledger_analysis::query::Scope;
use heapledger_analysis::{Seen, Selection};
use heapledger_report::{DumpJson, DumpText, Ending};

use super::standard::{ExecutableArgs, FilterArgs, SortArgs};
use super::{LedgerArgs, LimitArgs, NamingArgs, Opened, Progress, find_names, refresh, unless_pipe_closed};

/// Arguments of `dump`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  heapledger dump heapledger.jq.4711.hl
  heapledger dump --sort size --limit 10 4711
  heapledger dump --where 'size >= 4K and fn ~ \"parse\" and age > 10s' 4711
  heapledger dump -Fthread=4 -Fsize_min=1024 -SNs heapledger.jq.4711.hl
  heapledger dump --json 4711 | jq -r 'select(.type == \"block\") | .size'")]
pub(crate) struct DumpArgs {
    #[command(flatten)]
    pub(crate) ledger: LedgerArgs,
    #[command(flatten)]
    pub(crate) executable: ExecutableArgs,
    #[command(flatten)]
    pub(crate) limit: LimitArgs,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    #[command(flatten)]
    pub(crate) sort: SortArgs,
    #[command(flatten)]
    pub(crate) naming: NamingArgs,
}

/// Shows the live blocks of a ledger.
pub(crate) fn run(args: &DumpArgs) -> Result<()> {
    unless_pipe_closed(show(args))
}

fn show(args: &DumpArgs) -> Result<()> {
    args.filter.parse()?;
    args.sort.parse()?;
    let opened = args.ledger.open_target(args.executable.ledger(&args.ledger.ledger)?)?;
    let Opened { ledger, mut context, threads_recorded, out } = opened;
    let keys = args.sort.get(&ledger)?;
    let mut filter = args.filter.evaluator(&ledger, context.clock, Scope::Blocks, args.naming.no_names(&ledger)?)?;
    let limit = args.limit.get(args.ledger.json);
    let mut progress = Progress::new("reading");
    let selection = Selection::matching(&ledger, Some(&mut filter), &keys, limit, &mut |part| progress.show(part))?;
    drop(progress);
    refresh(&ledger, &mut context)?;
    let mut names = filter.into_names();
    find_names(&mut names, selection.blocks.iter().map(|block| block.site), true)?;
    let mut seen = Seen::of(&ledger, selection.in_flight)?;
    let shown = selection.blocks.len() as u64;
    let ending = Ending { shown, left_out: selection.left_out(), in_flight: selection.in_flight };
    if args.ledger.json {
        let mut report = DumpJson::new(out, &context, &selection)?;
        for block in &selection.blocks {
            report.block(block, &names.stack(block.site)?)?;
        }
        seen.notes.extend(names.notes());
        report.end(ending, &seen)?;
    } else {
        let mut report = DumpText::new(out, &context, threads_recorded, &selection)?;
        for block in &selection.blocks {
            report.block(block, &names.stack(block.site)?)?;
        }
        seen.notes.extend(names.notes());
        report.end(ending, &selection, &seen)?;
    }
    Ok(())
}
