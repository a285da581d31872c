//! Blocks that only one of two ledgers of a run has, one by one.

use anyhow::Result;
use heapledger_analysis::Seen;
use heapledger_analysis::diff::OnlyHere;
use heapledger_analysis::query::{Evaluator, SortKeys};
use heapledger_report::{Compared, DiffBlocks};

use super::DiffArgs;
use super::stacks::{Read, by_side};
use crate::commands::{Opened, Progress, SourceText, find_names, refresh};

/// Blocks of each list that are shown to a person who did not say how many.
const BLOCKS: usize = 100;

/// Shows the blocks that only one ledger has.
pub(super) fn show(
    args: &DiffArgs,
    opened: &[Opened; 2],
    mut filters: [Evaluator<'_>; 2],
    read: &Read,
    keys: &SortKeys,
    compared: Compared<'_>,
) -> Result<()> {
    let form = args.form.get();
    // As `ecosmdd` or somebody wants them, all are wanted.
    let limit = args.limit(if form.is_of_records() { 0 } else { BLOCKS });
    let mut contexts = opened.each_ref().map(|here| here.context.clone());
    let mut progress = Progress::new("reading");
    let mut only = [0, 1].map(|_| OnlyHere::default());
    for side in [1, 0] {
        let (ledger, other) = (&opened[side].ledger, read.censuses[1 - side].numbers());
        let mut show = |part| progress.show(part);
        only[side] = OnlyHere::of(ledger, other, Some(&mut filters[side]), (keys, limit), &mut show)?;
        refresh(ledger, &mut contexts[side])?;
    }
    drop(progress);
    let mut names = filters.map(Evaluator::into_names);
    for side in [1, 0] {
        let sites = only[side].blocks.sites().filter(|_| form.needs_names());
        find_names(&mut names[side], sites, SourceText::shown_if(form.needs_source_text()))?;
    }
    let seen = Seen::of_both([&opened[0].ledger, &opened[1].ledger])?;
    let mut report = DiffBlocks {
        compared,
        contexts: contexts.each_ref(),
        threads_recorded: opened.each_ref().map(|here| here.threads_recorded),
        only: only.each_ref(),
        names: by_side(&mut names),
        seen,
    };
    args.view.present(form, &mut report)
}
