//! `heapledger history`: allocations and frees in the order in which they happened, or the lives of one address.

use anyhow::Result;
use heapledger_analysis::query::{Evaluator, Scope};
use heapledger_analysis::source::Ledger;
use heapledger_analysis::{Event, EventKind, Events, Life, Lives, NamedStack, Names, Seen, Wanted};
use heapledger_report::ecos::{RecordsText, Shape};
use heapledger_report::{CONVERSIONS, Ending, HistoryJson, HistoryText, LivesJson, LivesText, missing_frees};

use super::ledgers::{MoreLedgers, open_run};
use super::shape::tell_ending;
use super::standard::FilterArgs;
use super::{
    FramesArgs, LedgerArgs, LimitArgs, NamingArgs, Opened, Progress, ShapeArgs, find_names, refresh, shown_stack,
    unless_pipe_closed,
};
use crate::say;

/// Arguments of `history`.
#[derive(Debug, clap::Args)]
#[command(override_usage = "heapledger history [OPTIONS] [EXECUTABLE] <FILE|PID>...")]
#[command(after_help = format!("\
The ledger holds every block that is allocated, and the frees of the most recent
past with the blocks that they ended: see --history of `heapledger run`. Several
ledgers of one run (snapshots, say) are one history: all the frees that any of
them holds, and what lives by the last.

Conversions of --format, in which a record is an allocation or a free:
{CONVERSIONS}

Examples:
  heapledger history heapledger.jq.4711.hl
  heapledger history --reverse --limit 20 4711   what happened last
  heapledger history --addr 0x55d0c0ffee10 4711  all blocks that contained it
  heapledger history --where 'fn ~ \"^parse\" and size > 1M' 4711
  heapledger history -r -f '%a %p, %n bytes, seqno %s' a.hl.0 a.hl.1 a.hl.2
  heapledger history --json 4711 | jq 'select(.event == \"free\")'"))]
pub(crate) struct HistoryArgs {
    #[command(flatten)]
    pub(crate) ledger: LedgerArgs,
    #[command(flatten)]
    pub(crate) more: MoreLedgers,
    #[command(flatten)]
    pub(crate) limit: LimitArgs,
    /// Last event first
    #[arg(short, long)]
    pub(crate) reverse: bool,
    /// Show every life of this address: the blocks that contained it, who allocated and who freed them, and where
    /// realloc moved them from and to
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub(crate) addr: Option<u64>,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    #[command(flatten)]
    pub(crate) shape: ShapeArgs,
    #[command(flatten)]
    pub(crate) frames: FramesArgs,
    #[command(flatten)]
    pub(crate) naming: NamingArgs,
}

/// An address: hexadecimal behind 0x, decimal otherwise.
fn address(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| "an address is written 0x7f1234, or as a decimal number".to_owned())
}

/// Shows the events of one run.
pub(crate) fn run(args: &HistoryArgs) -> Result<()> {
    unless_pipe_closed(show(args))
}

fn show(args: &HistoryArgs) -> Result<()> {
    args.filter.parse()?;
    let targets = args.more.targets(&args.ledger.ledger);
    let mut ledgers = open_run(&targets)?;
    let Some(last) = ledgers.pop() else { return Ok(()) };
    let opened = args.ledger.opened(&targets, last)?;
    args.frames.explain(&opened.ledger);
    let shape = args.shape.get(&opened.ledger)?;
    match args.addr {
        Some(address) => show_lives(args, &ledgers, opened, shape.as_ref(), address),
        None => show_events(args, &ledgers, opened, shape.as_ref()),
    }
}

/// Which of the events or lives are wanted.
fn wanted<'w, 'l>(args: &HistoryArgs, filter: &'w mut Evaluator<'l>) -> Wanted<'w, 'l> {
    let limit = args.limit.get(args.ledger.json || args.shape.is_for_programs());
    Wanted { reverse: args.reverse, limit, filter: Some(filter) }
}

/// Names of all that will be shown, as far as the shape shows names.
fn names<'a>(
    args: &HistoryArgs,
    filter: Evaluator<'a>,
    sites: impl Iterator<Item = u32>,
    shape: Option<&Shape>,
) -> Result<Names<'a>> {
    let named = shape.is_none_or(Shape::needs_names);
    let source_text = shape.is_none_or(Shape::needs_source_text);
    let mut names = filter.into_names();
    names.pass_over(args.frames.passing());
    find_names(&mut names, sites.filter(|_| named), source_text)?;
    Ok(names)
}

fn show_events(args: &HistoryArgs, earlier: &[Ledger], opened: Opened, shape: Option<&Shape>) -> Result<()> {
    let Opened { ledger, mut context, threads_recorded, out } = opened;
    let all: Vec<&Ledger> = earlier.iter().chain([&ledger]).collect();
    let mut filter = args.filter.evaluator(&ledger, context.clock, Scope::Events, args.naming.no_names(&ledger)?)?;
    let mut progress = Progress::new("reading");
    let events = Events::of_run(&all, wanted(args, &mut filter), &mut |part| progress.show(part))?;
    drop(progress);
    refresh(&ledger, &mut context)?;
    let (ledger, context) = (&ledger, &context);
    let mut names = names(args, filter, events.events.iter().map(Event::site), shape)?;
    let mut seen = Seen::of(ledger, events.in_flight)?;
    let ending = Ending { shown: events.events.len() as u64, left_out: events.left_out(), in_flight: events.in_flight };
    if args.ledger.json {
        let mut report = HistoryJson::new(out, context, &events)?;
        for event in &events.events {
            report.event(event, &names.stack(event.site())?)?;
        }
        seen.notes.extend(names.notes());
        report.end(ending, &seen)?;
    } else if let Some(shape) = shape {
        let mut report = RecordsText::new(out, context, shape);
        if events.frees_missing != 0 {
            let missing = missing_frees(events.sampled.is_some(), events.frees_missing, events.frees_recorded);
            caution(args, &mut report, &missing)?;
        }
        for event in &events.events {
            report.event(event, &shown_stack(shape, &mut names, event.site())?)?;
        }
        report.end()?;
        seen.notes.extend(names.notes());
        tell_ending(ending, &seen);
    } else {
        let mut report = HistoryText::new(out, context, threads_recorded, &events)?;
        for event in &events.events {
            report.event(event, &names.stack(event.site())?)?;
        }
        seen.notes.extend(names.notes());
        report.end(ending, &events, &seen)?;
    }
    Ok(())
}

/// A format's records are for other programs: there the caution would be a record that is none.
fn caution(args: &HistoryArgs, report: &mut RecordsText<'_, impl std::io::Write>, missing: &str) -> Result<()> {
    if args.shape.is_ecos() {
        report.caution()?;
    }
    say(missing);
    Ok(())
}

fn show_lives(
    args: &HistoryArgs,
    earlier: &[Ledger],
    opened: Opened,
    shape: Option<&Shape>,
    address: u64,
) -> Result<()> {
    let Opened { ledger, mut context, threads_recorded, out } = opened;
    let all: Vec<&Ledger> = earlier.iter().chain([&ledger]).collect();
    let mut filter = args.filter.evaluator(&ledger, context.clock, Scope::Events, args.naming.no_names(&ledger)?)?;
    let mut progress = Progress::new("reading");
    let lives = Lives::of(&all, address, wanted(args, &mut filter), &mut |part| progress.show(part))?;
    drop(progress);
    refresh(&ledger, &mut context)?;
    let (ledger, context) = (&ledger, &context);
    let shown = lives.chains.iter().flat_map(|chain| &chain.lives);
    let sites = shown.flat_map(|life| [Some(life.block.site), life.end.map(|end| end.site)]).flatten();
    let mut names = names(args, filter, sites, shape)?;
    let mut seen = Seen::of(ledger, lives.in_flight)?;
    if args.ledger.json {
        let mut report = LivesJson::new(out, context, address, &lives)?;
        each_life(&lives, &mut names, |life, around, [begin, end]| {
            Ok(report.life(life, around, &begin, life.end.map(|_| &end))?)
        })?;
        seen.notes.extend(names.notes());
        report.end(&lives, &seen)?;
    } else if let Some(shape) = shape {
        let mut report = RecordsText::new(out, context, shape);
        if lives.frees_missing != 0 {
            let missing = missing_frees(lives.sampled.is_some(), lives.frees_missing, lives.frees_recorded);
            caution(args, &mut report, &missing)?;
        }
        each_life(&lives, &mut names, |life, _, [begin, end]| {
            let freed = life.end.is_some();
            report.event(&Event { block: life.block, kind: EventKind::Allocation { freed } }, &begin)?;
            if let Some(freed) = life.end {
                report.event(&Event { block: life.block, kind: EventKind::Free(freed) }, &end)?;
            }
            Ok(())
        })?;
        report.end()?;
        seen.notes.extend(names.notes());
        let ending = Ending { shown: lives.total - lives.left_out, left_out: lives.left_out, in_flight: 0 };
        tell_ending(ending, &seen);
    } else {
        let mut report = LivesText::new(out, context, threads_recorded, address, &lives)?;
        each_life(&lives, &mut names, |life, around, [begin, end]| {
            Ok(report.life(life, around, &begin, life.end.map(|_| &end))?)
        })?;
        seen.notes.extend(names.notes());
        report.end(&lives, &seen)?;
    }
    Ok(())
}

/// Calls `show` with each life, those around it in its chain, and its two stacks; the second is empty if it lives.
fn each_life(
    lives: &Lives,
    names: &mut Names<'_>,
    mut show: impl FnMut(&Life, [Option<&Life>; 2], [NamedStack; 2]) -> Result<()>,
) -> Result<()> {
    for chain in &lives.chains {
        for (index, life) in chain.lives.iter().enumerate() {
            let before = index.checked_sub(1).and_then(|before| chain.lives.get(before));
            let begin = names.stack(life.block.site)?;
            let end = match &life.end {
                Some(end) => names.stack(end.site)?,
                None => NamedStack::default(),
            };
            show(life, [before, chain.lives.get(index + 1)], [begin, end])?;
        }
    }
    Ok(())
}
