//! Comparisons with the moment at which most bytes lived, of which nothing is left but sums by call site.

use heapledger_format::Site;
use heapledger_source::{FreedSum, Ledger, SourceError};

use super::{Census, Change, ChangeKind, Diff};
use crate::amount::{self, Amount, Estimate};
use crate::sampling::Sampling;
use crate::tree::{SiteSums, Threads};

/// Exact, and there as long as there is a block of it.
fn estimate(blocks: u64, bytes: u64) -> Estimate {
    Amount { samples: blocks, blocks, bytes }.into()
}

impl Census {
    /// What lived at the peak of a ledger; `None` if it does not say, or only has an estimate of it.
    ///
    /// # Errors
    /// If it can no longer be read.
    pub fn at_peak(ledger: &Ledger, progress: &mut dyn FnMut(f32)) -> Result<Option<Census>, SourceError> {
        let sums = SiteSums::of(ledger, Threads::Together, None, progress)?;
        let is_known = sums.peak_error.is_some() && !Sampling::of(ledger).is_on();
        Ok(is_known.then(|| {
            let by_site = sums.sites.iter().map(|sum| (sum.site, sum.amounts.peak_blocks, sum.amounts.peak_bytes));
            Census::of_sums(by_site)
        }))
    }

    fn of_sums(by_site: impl Iterator<Item = (Site, u64, u64)>) -> Census {
        let mut census = Census::default();
        for (site, blocks, bytes) in by_site {
            let own = estimate(blocks, bytes);
            census.all.join(&own);
            amount::at(&mut census.sites, site.index()).join(&own);
        }
        census
    }
}

impl Diff {
    /// What became of the blocks of a ledger between its peak and its end; `None` if it does not say what lived at the peak, or only
    /// has an estimate of it.
    ///
    /// # Errors
    /// If it can no longer be read.
    pub fn since_peak(ledger: &Ledger, progress: &mut dyn FnMut(f32)) -> Result<Option<Diff>, SourceError> {
        let sums = SiteSums::of(ledger, Threads::Together, None, progress)?;
        let known = sums.peak_error.filter(|_| !Sampling::of(ledger).is_on());
        let Some(freed) = ledger.freed_sums(&|_| 1)?.filter(|_| known.is_some()) else { return Ok(None) };
        let peak = Census::of_sums(sums.sites.iter().map(|sum| {
            let amounts = &sum.amounts;
            (sum.site, amounts.peak_blocks, amounts.peak_bytes)
        }));
        let end = Census::of_sums(sums.sites.iter().map(|sum| {
            let amounts = &sum.amounts;
            (sum.site, amounts.live_blocks, amounts.live_bytes)
        }));
        let mut diff = Diff::totals(&peak, &end);
        diff.in_flight = freed.in_flight;
        let (mut all_born, mut all_freed) = (Estimate::default(), Estimate::default());
        for sum in &sums.sites {
            let at_site = freed.sites.get(&sum.site).copied().filter(|_| !sums.peak_is_end);
            let FreedSum { peak_blocks, peak_bytes, .. } = at_site.unwrap_or_default();
            let (before, after) = (peak.site(sum.site.index()), end.site(sum.site.index()));
            // Of what lived at the peak, what was freed since; the rest lives still, and what lives beside that is new.
            let freed = estimate(peak_blocks, peak_bytes);
            let born = after.less(&before.less(&freed));
            all_born.join(&born);
            all_freed.join(&freed);
            let here = Some(sum.site);
            diff.add(Change {
                kind: ChangeKind::New,
                sites: [here.filter(|_| before.samples != 0), here.filter(|_| after.samples != 0)],
                stacks: 1,
                before,
                after,
                born: Some(born),
                freed: Some(freed),
            });
        }
        (diff.born, diff.freed) = (Some(all_born), Some(all_freed));
        diff.changes.sort_by_key(Change::order);
        Ok(Some(diff))
    }
}
