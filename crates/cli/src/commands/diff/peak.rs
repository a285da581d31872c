//! Comparisons with what lived at the peak: of a ledger with its end, or of two peaks.

use std::time::SystemTime;

use anyhow::{Result, bail};
use heapledger_analysis::diff::{Census, Diff, StackKeys, moment_unix_ns};
use heapledger_analysis::tree::Measure;
use heapledger_analysis::{Peak, Seen};
use heapledger_report::{Compared, DiffReport, DiffSide};

use super::stacks::{STACKS, by_side, name};
use super::{DiffArgs, Opened};
use crate::commands::not_said::{not_said, only_of_all};
use crate::commands::standard::Usage;
use crate::commands::{Progress, SourceText, find_names};

/// Compares; there are one or two ledgers.
pub(super) fn compare(args: &DiffArgs) -> Result<()> {
    if args.one_by_one() || args.group_by.is_some() || args.every.is_some() || args.after.is_some() {
        return Err(Usage::new("--at peak compares by call stack: of the peak there are sums, and no blocks").into());
    }
    if !args.filter.parse()?.is_all() {
        return Err(only_of_all(Measure::PeakBytes).into());
    }
    match args.ledgers.as_slice() {
        [one] => with_its_end(args, &args.open(one)?),
        [a, b] => two(args, [&args.open(a)?, &args.open(b)?]),
        _ => Err(Usage::new("--at peak compares a ledger's peak with its end, or the peaks of two").into()),
    }
}

/// Why the peak of a ledger is not known.
fn unknown(opened: &Opened) -> anyhow::Error {
    if opened.context.sampling.is_on() {
        return anyhow::anyhow!("a sampled ledger has estimates of its peak, which cannot be compared");
    }
    not_said(Measure::PeakBytes)
}

/// By how much the peak of a ledger may be off.
fn peak_error(opened: &Opened) -> Result<Option<u64>> {
    Ok(Some(Peak::of(&opened.ledger, &opened.context.clock)?.error_bytes))
}

/// When the most bytes lived, in nanoseconds since 1970.
fn peak_unix_ns(opened: &Opened) -> Result<Option<u64>> {
    let clock = opened.context.clock;
    let after = Peak::summed_ns(&opened.ledger, &clock)?;
    Ok(clock.start_unix_ns().zip(after).and_then(|(start, after)| start.checked_add(after)))
}

/// What became since the peak of what lived then.
fn with_its_end(args: &DiffArgs, opened: &Opened) -> Result<()> {
    let ledger = &opened.ledger;
    args.naming.check(&[ledger])?;
    let mut progress = Progress::new("reading");
    let diff = Diff::since_peak(ledger, &mut |part| progress.show(part))?;
    drop(progress);
    let Some(diff) = diff else { return Err(unknown(opened)) };
    let names = [format!("{} at its peak", opened.context.ledger), opened.context.ledger.clone()];
    let moments = [peak_unix_ns(opened)?, moment_unix_ns(ledger, SystemTime::now())];
    show(args, [opened, opened], &diff, &names, (moments, [peak_error(opened)?, None]))
}

/// Two peaks, by the functions of their stacks.
fn two(args: &DiffArgs, opened: [&Opened; 2]) -> Result<()> {
    let [a, b] = opened;
    args.naming.check(&[&a.ledger, &b.ledger])?;
    let mut progress = Progress::new("reading");
    let mut census = |opened: &Opened| match Census::at_peak(&opened.ledger, &mut |part| progress.show(part))? {
        Some(census) => Ok(census),
        None => bail!("{}: {}", opened.context.ledger, unknown(opened)),
    };
    let [before, after] = [census(a)?, census(b)?];
    drop(progress);
    let mut keys = StackKeys::new(&a.ledger.modules()?, &b.ledger.modules()?);
    let mut names = [args.names(&a.ledger)?, args.names(&b.ledger)?];
    for (names, census) in names.iter_mut().zip([&before, &after]) {
        find_names(names, census.sites(), SourceText::shown_if(false))?;
    }
    let mut key = |side: usize, site| anyhow::Ok(keys.key(&names[side.min(1)].stack(site)?));
    let diff = Diff::across(&before, &after, &mut key)?;
    let names = [a, b].map(|opened| format!("{} at its peak", opened.context.ledger));
    let moments = [peak_unix_ns(a)?, peak_unix_ns(b)?];
    show(args, opened, &diff, &names, (moments, [peak_error(a)?, peak_error(b)?]))
}

fn show(
    args: &DiffArgs,
    [a, b]: [&Opened; 2],
    diff: &Diff,
    shown: &[String; 2],
    (moments, errors): ([Option<u64>; 2], [Option<u64>; 2]),
) -> Result<()> {
    let limit = args.limit(STACKS);
    let mut names = [args.names(&a.ledger)?, args.names(&b.ledger)?];
    name(args, &mut names, diff, limit)?;
    let side = |side: usize| DiffSide { ledger: &shown[side], unix_ns: moments[side], peak_error: errors[side] };
    let compared = Compared { diff, sides: [side(0), side(1)], filter: None, paint: b.context.paint };
    let seen = Seen::of_both([&a.ledger, &b.ledger])?;
    let mut report = DiffReport { compared, limit, frames: args.frames, names: by_side(&mut names), seen };
    args.view.present(args.form.get(), &mut report)
}
