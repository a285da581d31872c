//! `heapledger history`: allocations and frees in the order in which they happened.

use anyhow::Result;
use heapledger_analysis::{Events, Seen};
use heapledger_report::{Ending, HistoryJson, HistoryText};

use super::{LedgerArgs, LimitArgs, NamingArgs, Progress, unless_pipe_closed};

/// Arguments of `history`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The ledger holds every block that is allocated, and the frees of the most recent
past with the blocks that they ended: see --history of `heapledger run`.

Examples:
  heapledger history heapledger.jq.4711.hl
  heapledger history --reverse --limit 20 4711   what happened last
  heapledger history --json 4711 | jq 'select(.event == \"free\")'")]
pub(crate) struct HistoryArgs {
    #[command(flatten)]
    pub(crate) ledger: LedgerArgs,
    #[command(flatten)]
    pub(crate) limit: LimitArgs,
    /// Last event first
    #[arg(short, long)]
    pub(crate) reverse: bool,
    #[command(flatten)]
    pub(crate) naming: NamingArgs,
}

/// Shows the events of a ledger.
pub(crate) fn run(args: &HistoryArgs) -> Result<()> {
    unless_pipe_closed(show(args))
}

fn show(args: &HistoryArgs) -> Result<()> {
    let mut opened = args.ledger.open()?;
    let limit = args.limit.get(args.ledger.json);
    let mut progress = Progress::new("reading");
    let events = Events::of(&opened.ledger, args.reverse, limit, &mut |part| progress.show(part))?;
    drop(progress);
    opened.refresh()?;
    let (ledger, context, threads_recorded) = (&opened.ledger, &opened.context, opened.threads_recorded);
    let mut names = args.naming.name(ledger, events.events.iter().map(|event| event.site()), true)?;
    let mut seen = Seen::of(ledger, events.in_flight)?;
    let ending = Ending { shown: events.events.len() as u64, left_out: events.left_out(), in_flight: events.in_flight };
    if args.ledger.json {
        let mut report = HistoryJson::new(opened.out, context, &events)?;
        for event in &events.events {
            report.event(event, &names.stack(event.site())?)?;
        }
        seen.notes.extend(names.notes());
        report.end(ending, &seen)?;
    } else {
        let mut report = HistoryText::new(opened.out, context, threads_recorded, &events)?;
        for event in &events.events {
            report.event(event, &names.stack(event.site())?)?;
        }
        seen.notes.extend(names.notes());
        report.end(ending, &seen)?;
    }
    Ok(())
}
