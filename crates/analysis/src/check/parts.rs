//! Which blocks and call sites figures are made of.

use std::collections::HashMap;

use heapledger_format::{Entry, FreedEntry, Site, TallyCounter};
use heapledger_source::{Ledger, SourceError};

use super::{Figure, Responsible};
use crate::fold::{Act, Element, Fold, fold};
use crate::notes::records_frees;
use crate::query::Evaluator;
use crate::tree::{Amounts, Measure, SiteSums, Threads};
use crate::{Amount, Estimate, FreesHeld, NamedStack, Sampling, SiteTotals};

/// Live blocks of which a filter holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MatchingBlocks {
    /// How many.
    pub blocks: u64,
    /// The standard error of that; 0 if exact.
    pub blocks_error: u64,
    /// Bytes asked for in them.
    pub bytes: u64,
    /// The standard error of that; 0 if exact.
    pub bytes_error: u64,
    /// Their call sites, most bytes first.
    pub sites: Vec<SiteTotals>,
    /// Whether the filter goes by names of code, so that blocks without a stack are left to chance.
    pub by_name: bool,
}

impl MatchingBlocks {
    /// Those of the filter's ledger.
    ///
    /// # Errors
    /// If the ledger can no longer be read.
    pub fn of(
        ledger: &Ledger,
        filter: &mut Evaluator<'_>,
        progress: &mut dyn FnMut(f32),
    ) -> Result<MatchingBlocks, SourceError> {
        filter.prepare_blocks(progress)?;
        let found = fold::<Entry, _>(ledger, Some(filter), usize::MAX, &PerSite::default, progress)?.sum;
        let PerSite { all, mut sites } = found;
        sites.remove(&Site::NONE);
        Ok(MatchingBlocks {
            blocks: all.blocks,
            blocks_error: all.blocks_error(),
            bytes: all.bytes,
            bytes_error: all.bytes_error(),
            sites: sorted(sites, Figure::Live),
            by_name: filter.needs_names(),
        })
    }
}

/// What was allocated from each call site.
#[derive(Default)]
struct PerSite {
    all: Estimate,
    sites: HashMap<Site, Amount>,
}

impl<T: Element> Fold<T> for PerSite {
    #[inline]
    fn add(&mut self, element: &T, _: Act, weight: u64) {
        let block = element.block();
        self.all.add(block, weight);
        self.sites.entry(block.site).or_default().add(block, weight);
    }

    fn join(&mut self, other: Self) {
        self.all.join(&other.all);
        other.sites.iter().for_each(|(site, amount)| self.sites.entry(*site).or_default().join(*amount));
    }
}

/// Call sites with most bytes first, or most blocks.
fn sorted(sums: HashMap<Site, Amount>, figure: Figure) -> Vec<SiteTotals> {
    let totals = |(site, Amount { samples, blocks, bytes })| SiteTotals { site, samples, blocks, bytes };
    let mut sites: Vec<SiteTotals> = sums.into_iter().map(totals).collect();
    sites.sort_unstable_by_key(|totals| {
        let (first, second) =
            if figure.is_bytes() { (totals.bytes, totals.blocks) } else { (totals.blocks, totals.bytes) };
        (!first, !second, totals.site)
    });
    sites
}

/// What of each call site lived at the peak, most bytes first; `None` if the ledger does not say.
///
/// # Errors
/// If the ledger can no longer be read.
pub fn peak_by_site(ledger: &Ledger) -> Result<Option<Vec<SiteTotals>>, SourceError> {
    let sums = SiteSums::of(ledger, Threads::Together, None, &mut |_| {})?;
    Ok(sums.peak_error.map(|_| summed(&sums, [Measure::PeakBytes, Measure::PeakBlocks], Figure::Peak)))
}

/// Two figures of all call sites with a stack.
fn summed(sums: &SiteSums, [bytes, blocks]: [Measure; 2], figure: Figure) -> Vec<SiteTotals> {
    let of = |amounts: &Amounts| Amount { samples: 0, blocks: amounts.get(blocks), bytes: amounts.get(bytes) };
    let sites = sums.sites.iter().map(|sum| (sum.site, of(&sum.amounts)));
    sorted(sites.filter(|(site, amount)| *site != Site::NONE && amount.blocks != 0).collect(), figure)
}

/// What each call site allocated, over the whole run if that was summed, else as far as its blocks live or their frees are in the history; the
/// most of `figure` first: bytes, or blocks. And of how many frees that is.
///
/// # Errors
/// If the ledger can no longer be read.
pub fn allocated_by_site(
    ledger: &Ledger,
    live: &[SiteTotals],
    figure: Figure,
) -> Result<(Vec<SiteTotals>, FreesHeld), SourceError> {
    if ledger.has_sums() {
        let sums = SiteSums::of(ledger, Threads::Together, None, &mut |_| {})?;
        let all = summed(&sums, [Measure::AllocatedBytes, Measure::AllocatedBlocks], figure);
        return Ok((all, sums.frees_held()));
    }
    let freed = fold::<FreedEntry, _>(ledger, None, usize::MAX, &PerSite::default, &mut |_| {})?.sum;
    let held = freed.all.blocks;
    let mut sums: HashMap<Site, Amount> = live.iter().map(|totals| (totals.site, totals.amount())).collect();
    for (site, amount) in freed.sites.iter().filter(|(site, _)| **site != Site::NONE) {
        sums.entry(*site).or_default().join(*amount);
    }
    let all = ledger.tallies()?.get(TallyCounter::Frees);
    let (recorded, estimated) = (records_frees(ledger), Sampling::of(ledger).is_on());
    Ok((sorted(sums, figure), FreesHeld { all, missing: all.saturating_sub(held), recorded, estimated }))
}

/// The stacks whose bytes grew most, greatest first: those with the same functions are one, wherever their lines are.
/// `name` gives a stack of the new ledger, `before` has the stacks of the baseline and their bytes.
pub fn grown(
    sites: &[SiteTotals],
    before: &[(NamedStack, SiteTotals)],
    mut name: impl FnMut(Site) -> Result<NamedStack, SourceError>,
) -> Result<Vec<Responsible>, SourceError> {
    let mut old: HashMap<String, (u64, u64)> = HashMap::new();
    for (stack, totals) in before {
        let (blocks, bytes) = old.entry(functions(stack)).or_default();
        *blocks += totals.blocks;
        *bytes += totals.bytes;
    }
    let mut new: HashMap<String, Responsible> = HashMap::new();
    for totals in sites {
        let stack = name(totals.site)?;
        let same = new.entry(functions(&stack)).or_insert_with(|| Responsible {
            totals: SiteTotals { samples: 0, blocks: 0, bytes: 0, ..*totals },
            stack,
            stacks: 0,
        });
        same.add(totals);
    }
    let mut grown = Vec::new();
    for (functions, mut now) in new {
        let (blocks, bytes) = old.get(&functions).copied().unwrap_or_default();
        if now.totals.bytes > bytes {
            now.totals.bytes -= bytes;
            now.totals.blocks = now.totals.blocks.saturating_sub(blocks);
            grown.push(now);
        }
    }
    grown.sort_unstable_by_key(|responsible| (!responsible.totals.bytes, responsible.totals.site));
    Ok(grown)
}

/// A stack by its functions, or by module and offset where they have no names.
fn functions(stack: &NamedStack) -> String {
    let mut key = String::new();
    for frame in &stack.frames {
        match (&frame.raw_name, &frame.function) {
            (Some(name), _) | (None, Some(name)) => key.push_str(name),
            (None, None) => {
                let module = frame.module.as_deref().map_or("", |path| path.rsplit('/').next().unwrap_or(path));
                key.push_str(module);
                key.push_str(&format!("+{:#x}", frame.offset.or(frame.address).unwrap_or(0)));
            }
        }
        key.push('\n');
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(site: Site, bytes: u64) -> SiteTotals {
        SiteTotals { site, samples: 1, blocks: 1, bytes }
    }

    fn stack(function: &str, line: u32) -> NamedStack {
        let frame = crate::NamedFrame { function: Some(function.into()), line: Some(line), ..Default::default() };
        NamedStack { frames: vec![frame], damaged: false }
    }

    #[test]
    fn growth_is_by_functions_and_not_by_lines() {
        let before = [(stack("keep", 10), totals(Site(1), 100)), (stack("gone", 5), totals(Site(2), 1000))];
        let now = [totals(Site(7), 80), totals(Site(8), 50), totals(Site(9), 31)];
        let name = |site: Site| Ok(if site == Site(9) { stack("fresh", 1) } else { stack("keep", site.0) });
        let grown = grown(&now, &before, name).expect("named");
        let found: Vec<_> =
            grown.iter().map(|one| (one.stack.frames[0].function.as_deref(), one.totals.bytes)).collect();
        assert_eq!(found, [(Some("fresh"), 31), (Some("keep"), 30)]);
    }
}
