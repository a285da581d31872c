//! `heapledger dump`: what is allocated, with the stacks that allocated it.

use anyhow::Result;
use heapledger_analysis::query::Scope;
use heapledger_analysis::{Seen, Selection};
use heapledger_report::ecos::{RecordsText, Shape};
use heapledger_report::{CONVERSIONS, DumpJson, DumpText, Ending};

use super::shape::tell_ending;
use super::standard::{ExecutableArgs, FilterArgs, SortArgs};
use super::{
    FramesArgs, LedgerArgs, LimitArgs, Opened, Progress, ShapeArgs, find_names, no_names, refresh, unless_pipe_closed,
};

/// Arguments of `dump`.
#[derive(Debug, clap::Args)]
#[command(override_usage = "heapledger dump [OPTIONS] [EXECUTABLE] <FILE|PID>")]
#[command(after_help = format!("\
Conversions of --format:
{CONVERSIONS}

Examples:
  heapledger dump heapledger.jq.4711.hl
  heapledger dump --sort size --limit 10 4711
  heapledger dump --where 'size >= 4K and fn ~ \"parse\" and age > 10s' heapledger.jq.4711.hl
  heapledger dump -Fthread=4 -Fsize_min=1024 -SNs heapledger.jq.4711.hl
  heapledger dump -f '%p : %a %n bytes by %f1' heapledger.jq.4711.hl
  heapledger dump --json heapledger.jq.4711.hl | jq -r 'select(.type == \"block\") | .size'"))]
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
    pub(crate) shape: ShapeArgs,
    #[command(flatten)]
    pub(crate) frames: FramesArgs,
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
    let mut filter = args.filter.evaluator(&ledger, context.clock, Scope::Blocks, no_names(&ledger)?)?;
    args.frames.explain(&ledger);
    let shape = args.shape.get(&ledger)?;
    let limit = args.limit.get(args.ledger.json || args.shape.is_for_programs());
    let mut progress = Progress::new("reading");
    let selection = Selection::matching(&ledger, Some(&mut filter), &keys, limit, &mut |part| progress.show(part))?;
    drop(progress);
    refresh(&ledger, &mut context)?;
    let mut names = filter.into_names();
    names.pass_over(args.frames.passing());
    let named = shape.as_ref().is_none_or(Shape::needs_names);
    let source_text = shape.as_ref().is_none_or(Shape::needs_source_text);
    find_names(&mut names, selection.blocks.iter().map(|block| block.site).filter(|_| named), source_text)?;
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
    } else if let Some(shape) = &shape {
        let mut report = RecordsText::new(out, &context, shape);
        for block in &selection.blocks {
            report.block(block, &names.stack(block.site)?)?;
        }
        report.end()?;
        seen.notes.extend(names.notes());
        tell_ending(ending, &seen);
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
