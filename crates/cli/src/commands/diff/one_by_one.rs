//! Blocks that only one of two ledgers of a run has, one by one.

use std::io::Write;

use anyhow::Result;
use heapledger_analysis::Estimate;
use heapledger_analysis::diff::{Census, Diff, OnlyHere};
use heapledger_analysis::query::{Evaluator, SortKeys};
use heapledger_report::Ending;
use heapledger_report::ecos::{self, EcosSide, Records};

use super::{Comparison, DiffArgs, add_notes, seen_of};
use crate::commands::form::{tell_ending, unwritten};
use crate::commands::{Opened, Progress, find_names, refresh};
use crate::terminal::Output;

/// Blocks of each list that are shown to a person who did not say how many.
const BLOCKS: usize = 100;

/// Blocks that only one ledger has, as people or programs want them.
pub(super) fn blocks(
    args: &DiffArgs,
    opened: &[Opened; 2],
    filters: &mut [Evaluator<'_>; 2],
    censuses: [&Census; 2],
    keys: &SortKeys,
    mut report: Comparison,
) -> Result<()> {
    let [a, b] = opened.each_ref().map(|opened| opened.context.ledger.as_str());
    let mut seen = seen_of([&opened[0].ledger, &opened[1].ledger])?;
    let mut ending = Ending::default();
    for (side, heading) in
        [(1, format!("New allocations in {b} but not in {a}")), (0, format!("Allocations in {a} but freed in {b}"))]
    {
        let Opened { ledger, context, threads_recorded, .. } = &opened[side];
        let mut context = context.clone();
        let filter = &mut filters[side];
        let mut progress = Progress::new("reading");
        let mut show = |part| progress.show(part);
        let order = (keys, args.limit(BLOCKS));
        let other = censuses[1 - side].numbers();
        let only = OnlyHere::of(ledger, other, Some(&mut *filter), order, &mut show)?;
        drop(progress);
        refresh(ledger, &mut context)?;
        let names = filter.names();
        find_names(names, only.blocks.sites(), true)?;
        ending.shown += only.blocks.len() as u64;
        ending.left_out += only.left_out();
        if let Comparison::Text(text) = &mut report {
            text.blocks(&heading)?;
        }
        for (index, block) in only.blocks.iter().enumerate() {
            let stack = names.stack(block.site)?;
            match &mut report {
                Comparison::Json(json) => json.block(&context, &block, &stack, side == 1)?,
                Comparison::Text(text) => {
                    if index > 0 {
                        text.line("")?;
                    }
                    text.block(&context, *threads_recorded, &block, &stack)?;
                }
            }
        }
        if let Comparison::Text(text) = &mut report {
            text.blocks_left_out(&only)?;
        }
        add_notes(&mut seen, names.notes());
    }
    match report {
        Comparison::Json(json) => json.end(ending, &seen)?,
        Comparison::Text(text) => text.end(&seen)?,
    }
    Ok(())
}

/// Blocks one by one, as somebody wants to see them, or as `ecosmdd` shows them.
pub(super) fn records(
    args: &DiffArgs,
    opened: &[Opened; 2],
    filters: &mut [Evaluator<'_>; 2],
    censuses: [&Census; 2],
    keys: &SortKeys,
    diff: &Diff,
    out: &mut Output,
) -> Result<()> {
    let form = args.form.get();
    let mut seen = seen_of([&opened[0].ledger, &opened[1].ledger])?;
    let sides = [0, 1].map(|side: usize| EcosSide {
        name: opened[side].context.ledger.clone(),
        blocks: diff.all[side].blocks,
        bytes: diff.all[side].bytes,
    });
    let both = sides.each_ref();
    let count = |amount: Option<Estimate>| amount.unwrap_or_default().blocks;
    ecos::diff_head(&mut *out, both, count(diff.born), count(diff.freed))?;
    let mut ending = Ending::default();
    for (side, heading) in [(1, ecos::diff_new(both)), (0, format!("\n{}", ecos::diff_gone(both)))] {
        let (ledger, mut context) = (&opened[side].ledger, opened[side].context.clone());
        let filter = &mut filters[side];
        let order = (keys, args.limit(0));
        let other = censuses[1 - side].numbers();
        let only = OnlyHere::of(ledger, other, Some(&mut *filter), order, &mut |_| ())?;
        refresh(ledger, &mut context)?;
        let names = filter.names();
        find_names(names, only.blocks.sites().filter(|_| form.needs_names()), form.needs_source_text())?;
        let mut records = Records::new(&mut *out, &context, form);
        records.line(&heading)?;
        for block in &only.blocks {
            records.block(&block, names).map_err(unwritten)?;
        }
        out.flush()?;
        ending.shown += only.blocks.len() as u64;
        ending.left_out += only.left_out();
        add_notes(&mut seen, names.notes());
    }
    tell_ending(ending, &seen);
    Ok(())
}
