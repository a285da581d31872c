//! Who is responsible where a limit is exceeded: stacks, named as far as they are needed.

use std::collections::HashMap;

use anyhow::Result;
use heapledger_analysis::{
    Evidence, Figure, Finding, Leaked, Names, NamingOptions, Responsible, SiteTotals, Suppressions, allocated_by_site,
    is_kept_by_design, peak_by_site,
};
use heapledger_format::Site;
use heapledger_source::Ledger;

use super::CheckArgs;
use super::grown::grown_stacks;
use crate::commands::{NamingArgs, SourceText};

/// Why blocks of the C and the C++ library do not count.
const BY_DESIGN: &str = "kept by the C or C++ library by design (--all-leaks counts it)";

/// Names of stacks, as far as they are needed: debug information is gone through once a call.
pub(super) struct Naming<'a> {
    pub(super) names: Option<Names<'a>>,
    pub(super) args: &'a NamingArgs,
    pub(super) ledger: &'a Ledger,
    pub(super) sites: &'a [SiteTotals],
}

impl<'a> Naming<'a> {
    /// Who is responsible for what was found; `old` is the baseline.
    pub(super) fn responsible(
        &mut self,
        args: &CheckArgs,
        finding: &mut Finding,
        leaked: Option<&Leaked>,
        old: Option<(&Ledger, &Evidence)>,
    ) -> Result<Vec<Responsible>> {
        match (finding.figure, old) {
            (Figure::LiveGrowth | Figure::PeakGrowth, Some((old, before))) => {
                grown_stacks(args, old, before, self.sites, self.all()?)
            }
            (Figure::Leaked, _) => self.some(leaked.map_or(&[][..], |leaked| &leaked.sites), args.top),
            (Figure::Allocations | Figure::Allocated, _) => {
                let (by_site, held) = allocated_by_site(self.ledger, self.sites, finding.figure)?;
                finding.of_frees = Some(held);
                self.some(&by_site, args.top)
            }
            (Figure::Peak, _) => match peak_by_site(self.ledger)? {
                Some(by_site) => {
                    finding.at_peak = true;
                    self.some(&by_site, args.top)
                }
                None => self.some(self.sites, args.top),
            },
            // They have stacks of their own.
            (Figure::Errors, _) => Ok(Vec::new()),
            (Figure::LiveBlocks, _) => {
                let mut by_blocks = self.sites.to_vec();
                by_blocks.sort_by_key(|totals| !totals.blocks);
                self.some(&by_blocks, args.top)
            }
            _ => self.some(self.sites, args.top),
        }
    }

    /// Names of all stacks that hold blocks.
    fn all(&mut self) -> Result<&mut Names<'a>> {
        let sites = self.sites;
        self.named(sites.iter().map(|totals| totals.site))
    }

    pub(super) fn named(&mut self, wanted: impl Iterator<Item = Site>) -> Result<&mut Names<'a>> {
        let names = match self.names.take() {
            Some(mut names) => {
                names.resolve(wanted, NamingOptions::default(), &mut |_| {})?;
                names
            }
            None => self.args.name(self.ledger, wanted, SourceText::NotShown)?,
        };
        Ok(self.names.insert(names))
    }

    /// The first `top` of `sites` with their stacks.
    fn some(&mut self, sites: &[SiteTotals], top: usize) -> Result<Vec<Responsible>> {
        let first = sites.get(..top.min(sites.len())).unwrap_or(sites);
        let names = self.named(first.iter().map(|totals| totals.site))?;
        let with_stack = |totals: &SiteTotals| Ok(Responsible { totals: *totals, stack: names.stack(totals.site)? });
        first.iter().map(with_stack).collect()
    }
}

/// What is held against the program of what it did not free.
pub(super) fn leaked(
    args: &CheckArgs,
    suppressions: &Suppressions,
    evidence: &Evidence,
    naming: &mut Naming<'_>,
) -> Result<Leaked> {
    if args.all_leaks && suppressions.is_empty() {
        return Ok(Leaked::of(evidence, None));
    }
    let names = naming.all()?;
    let mut excuses: HashMap<Site, String> = HashMap::new();
    for totals in evidence.sites() {
        let stack = names.stack(totals.site)?;
        if let Some(pattern) = suppressions.find(&stack) {
            excuses.insert(totals.site, format!("leak:{pattern}"));
        } else if !args.all_leaks && is_kept_by_design(&stack) {
            excuses.insert(totals.site, BY_DESIGN.to_owned());
        }
    }
    Ok(Leaked::of(evidence, Some(&mut |site| excuses.remove(&site))))
}
