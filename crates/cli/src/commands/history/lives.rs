//! The lives of one address.

use anyhow::Result;
use heapledger_analysis::query::Scope;
use heapledger_analysis::source::Ledger;
use heapledger_analysis::{Event, EventKind, Life, Lives, NamedStack, Names, Seen, Wanted};
use heapledger_report::ecos::{RecordsText, Shape};
use heapledger_report::{Ending, LivesJson, LivesText, missing_frees};

use super::{HistoryArgs, caution, names};
use crate::commands::shape::tell_ending;
use crate::commands::{Opened, Progress, refresh};

/// Shows every life of an address.
pub(super) fn show(
    args: &HistoryArgs,
    earlier: &[Ledger],
    opened: Opened,
    shape: Option<&Shape>,
    address: u64,
) -> Result<()> {
    let Opened { ledger, mut context, threads_recorded, out } = opened;
    let all: Vec<&Ledger> = earlier.iter().chain([&ledger]).collect();
    let mut filter = args.filter.evaluator(&ledger, context.clock, Scope::Events, args.naming.no_names(&ledger)?)?;
    let limit = args.limit(args.ledger.json || args.shape.is_for_programs());
    let wanted = Wanted { keys: None, reverse: args.sort.is_reversed(), limit, filter: Some(&mut filter) };
    let mut progress = Progress::new("reading");
    let lives = Lives::of(&all, address, wanted, &mut |part| progress.show(part))?;
    drop(progress);
    refresh(&ledger, &mut context)?;
    let (ledger, context) = (&ledger, &context);
    let shown = lives.chains.iter().flat_map(|chain| &chain.lives);
    let sites = shown.flat_map(|life| [Some(life.block.site), life.end.map(|end| end.site)]).flatten();
    let mut names = names(args, filter, sites, shape)?;
    if lives.total == 0 {
        args.filter.tell_unknown(ledger, &mut names)?;
    }
    let mut seen = Seen::of(ledger, lives.in_flight)?;
    if args.ledger.json {
        let mut report = LivesJson::new(out, context, address, &lives)?;
        each_life(&lives, &mut names, |life, around, [begin, end]| {
            Ok(report.life(life, around, &begin, life.end.map(|_| &end))?)
        })?;
        seen.notes.extend(names.notes());
        report.end(&lives, &seen)?;
    } else if let Some(shape) = shape {
        let mut report = RecordsText::new(out.shaped(shape), context, shape);
        if lives.frees_missing != 0 {
            let missing = missing_frees(lives.sampled.is_some(), lives.frees_missing, lives.frees_recorded);
            caution(args, &mut report, &missing)?;
        }
        each_life(&lives, &mut names, |life, _, [begin, end]| {
            report.event(&Event { block: life.block, kind: EventKind::Allocation { freed: life.end } }, &begin)?;
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
