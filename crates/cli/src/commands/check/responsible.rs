//! Who is responsible where a limit is exceeded: stacks, named as far as they are needed.

use std::cmp::Reverse;
use std::collections::HashMap;

use anyhow::Result;
use heapledger_analysis::{
    Evidence, Figure, Finding, Leaked, Responsible, SiteTotals, allocated_by_site, peak_by_site,
};
use heapledger_report::{Paint, callers};
use heapledger_source::Ledger;

use super::CheckArgs;
use super::grown::grown_stacks;
use super::naming::Naming;

/// Stacks that are looked at, the greatest first: several may come to one line.
const NAMED: usize = 200;

impl<'a> Naming<'a, '_> {
    /// Who is responsible for what was found; `old` is the baseline.
    pub(super) fn responsible(
        &mut self,
        args: &CheckArgs,
        finding: &mut Finding,
        leaked: Option<&Leaked>,
        old: Option<(&Ledger, &Evidence)>,
    ) -> Result<Vec<Responsible>> {
        let (bytes, blocks) = (|totals: &SiteTotals| totals.bytes, |totals: &SiteTotals| totals.blocks);
        match (finding.figure, old) {
            (Figure::LiveGrowth | Figure::PeakGrowth, Some((old, before))) => {
                grown_stacks(args, old, before, self.sites, self.all()?)
            }
            (Figure::Leaked, _) => self.some(leaked.map_or(&[][..], |leaked| &leaked.sites), args.top, bytes),
            (Figure::Allocations | Figure::Allocated, _) => {
                let (by_site, held) = allocated_by_site(self.ledger, self.sites, finding.figure)?;
                finding.of_frees = Some(held);
                self.some(&by_site, args.top, if finding.figure == Figure::Allocations { blocks } else { bytes })
            }
            (Figure::Peak, _) => match peak_by_site(self.ledger)? {
                Some(by_site) => {
                    finding.at_peak = true;
                    self.some(&by_site, args.top, bytes)
                }
                None => self.some(self.sites, args.top, bytes),
            },
            // They have stacks of their own.
            (Figure::Errors, _) => Ok(Vec::new()),
            (Figure::LiveBlocks, _) => {
                let mut by_blocks = self.sites.to_vec();
                by_blocks.sort_by_key(|totals| !totals.blocks);
                self.some(&by_blocks, args.top, blocks)
            }
            _ => self.some(self.sites, args.top, bytes),
        }
    }

    /// The first `top` of `sites` with their stacks; `by` is what they are ordered by. Those that differ in nothing that a line
    /// shows are one, with the stack of the first.
    fn some(&mut self, sites: &[SiteTotals], top: usize, by: fn(&SiteTotals) -> u64) -> Result<Vec<Responsible>> {
        let first = sites.get(..NAMED.max(top).min(sites.len())).unwrap_or(sites);
        let names = self.named(first.iter().map(|totals| totals.site))?;
        let mut found: Vec<Responsible> = Vec::new();
        let mut lines: HashMap<String, usize> = HashMap::new();
        for totals in first {
            let stack = names.stack(totals.site)?;
            let place = *lines.entry(callers(&stack, Paint::default())).or_insert(found.len());
            match found.get_mut(place) {
                Some(same) => same.add(totals),
                None => found.push(Responsible { totals: *totals, stack, stacks: 1 }),
            }
        }
        found.sort_by_key(|responsible| Reverse(by(&responsible.totals)));
        found.truncate(top);
        Ok(found)
    }
}
