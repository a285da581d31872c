//! Two ledgers compared by call stack.

use std::time::SystemTime;

use anyhow::{Context as _, Result};
use heapledger_analysis::diff::{Census, Diff, Keep, StackKeys, moment_unix_ns};
use heapledger_analysis::fields::Field;
use heapledger_analysis::query::{Evaluator, Scope};
use heapledger_analysis::{Names, Seen};
use heapledger_report::{Compared, DiffReport, DiffSide, Stacks};

use super::{DiffArgs, blocks, tell_unknown};
use crate::commands::{Opened, Progress, SourceText, find_names};

/// Stacks of each list that are shown to a person who did not say how many.
pub(super) const STACKS: usize = 10;

/// What was read of both.
pub(super) struct Read {
    pub(super) diff: Diff,
    pub(super) censuses: [Census; 2],
    moments: [Option<u64>; 2],
}

/// Compares two ledgers, by the numbers of blocks if that is possible.
pub(super) fn compare(args: &DiffArgs, opened: &[Opened; 2], by_number: bool) -> Result<()> {
    let [a, b] = opened;
    if args.group_by.is_some() || !by_number {
        let named = |here: &Opened| {
            Field::Stack.check_in(&here.ledger, Scope::Blocks).with_context(|| here.context.ledger.clone())
        };
        opened.iter().try_for_each(named)?;
    }
    let keys = args.order(&b.ledger)?;
    args.form.check(&a.ledger)?;
    args.form.check(&b.ledger)?;
    // What is so many seconds old is the same block in both, if it is one.
    let mut filters = [args.filter_for(a, if by_number { b } else { a })?, args.filter_for(b, b)?];
    let read = read(args, [a, b], by_number, &mut filters)?;
    if read.diff.all.iter().all(|all| all.blocks == 0) {
        let [of_a, of_b] = &mut filters;
        let unknown = [(&a.ledger, of_a), (&b.ledger, of_b)];
        let [of_a, of_b] = unknown.map(|(ledger, filter)| args.filter.unknown(ledger, filter.names()));
        tell_unknown(&[of_a?, of_b?]);
    }
    let side =
        |side: usize| DiffSide { ledger: &opened[side].context.ledger, unix_ns: read.moments[side], peak_error: None };
    let filter = Some(filters[1].text().to_owned()).filter(|_| !filters[1].is_all());
    let (diff, sides, paint) = (&read.diff, [side(0), side(1)], b.context.paint);
    let compared = Compared { diff, sides, filter: filter.as_deref(), paint };
    if args.one_by_one() {
        return blocks::show(args, opened, filters, &read, &keys, compared);
    }
    let (limit, frames, mut names) = (args.limit(STACKS), args.frames, filters.map(Evaluator::into_names));
    name(args, &mut names, diff, limit)?;
    let seen = Seen::of_both([&a.ledger, &b.ledger])?;
    let mut report = DiffReport { compared, limit, frames, names: by_side(&mut names), seen };
    args.view.present(args.form.get(), &mut report)
}

fn read(args: &DiffArgs, [a, b]: [&Opened; 2], by_number: bool, filters: &mut [Evaluator<'_>; 2]) -> Result<Read> {
    let [filter_a, filter_b] = filters;
    let mut progress = Progress::new("reading");
    // The totals of `ecosmdd` are those of the whole files; only its lists are filtered.
    let filtered = !args.form.get().is_of_records();
    let a_moment = moment_unix_ns(&a.ledger, SystemTime::now());
    filter_a.prepare_blocks(&mut |_| ())?;
    let chosen = Some(filter_a).filter(|_| filtered);
    let before = Census::of(&a.ledger, chosen, if by_number { Keep::Numbers } else { Keep::Sums }, &mut |part| {
        progress.show(part / 2.0)
    })?;
    let moments = [a_moment, moment_unix_ns(&b.ledger, SystemTime::now())];
    filter_b.prepare_blocks(&mut |_| ())?;
    let chosen = Some(filter_b).filter(|_| filtered);
    let mut show = |part| progress.show(0.5 + part / 2.0);
    let (diff, after) = if by_number {
        let keep = if args.one_by_one() { Keep::Numbers } else { Keep::Sums };
        Diff::since(&before, &b.ledger, chosen, keep, &mut show)?
    } else {
        let after = Census::of(&b.ledger, chosen, Keep::Sums, &mut show)?;
        // Two runs: all stacks are named, and compared by their functions.
        let mut keys = StackKeys::new(&a.ledger.modules()?, &b.ledger.modules()?);
        find_names(filters[0].names(), before.sites(), SourceText::shown_if(args.form.is_json()))?;
        find_names(filters[1].names(), after.sites(), SourceText::shown_if(args.form.is_json()))?;
        let mut key = |side: usize, site| anyhow::Ok(keys.key(&filters[side.min(1)].names().stack(site)?));
        (Diff::across(&before, &after, &mut key)?, after)
    };
    Ok(Read { diff, censuses: [before, after], moments })
}

/// Names of the stacks that are shown.
pub(super) fn name(args: &DiffArgs, names: &mut [Names<'_>; 2], diff: &Diff, limit: usize) -> Result<()> {
    let lists = diff.largest(limit);
    for (side, names) in names.iter_mut().enumerate() {
        let places = lists.iter().flatten().map(|change| change.named_by());
        find_names(
            names,
            places.filter(|place| place.0 == side).map(|place| place.1),
            SourceText::shown_if(args.form.is_json()),
        )?;
    }
    Ok(())
}

/// Names as reports ask for them, of the first ledger and of the second.
pub(super) fn by_side<'n>([a, b]: &'n mut [Names<'_>; 2]) -> [&'n mut dyn Stacks; 2] {
    [a, b]
}
