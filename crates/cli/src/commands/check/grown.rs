//! Stacks that have grown since a baseline.

use anyhow::Result;
use heapledger_analysis::{Evidence, Names, Responsible, SiteTotals, grown};
use heapledger_source::Ledger;

use super::CheckArgs;
use crate::commands::SourceText;

/// The stacks that hold more than in the baseline.
pub(super) fn grown_stacks(
    args: &CheckArgs,
    old: &Ledger,
    before: &Evidence,
    sites: &[SiteTotals],
    names: &mut Names<'_>,
) -> Result<Vec<Responsible>> {
    let mut old_names = args.naming.name(old, before.sites().iter().map(|totals| totals.site), SourceText::NotShown)?;
    let old_stacks: Result<Vec<_>, _> =
        before.sites().iter().map(|totals| old_names.stack(totals.site).map(|stack| (stack, *totals))).collect();
    let mut grown = grown(sites, &old_stacks?, |site| names.stack(site))?;
    grown.truncate(args.top);
    Ok(grown)
}
