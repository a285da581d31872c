//! The errors that a limit is held against.

use anyhow::Result;
use heapledger_analysis::{Evidence, Excused, Limits, Suppressions, excuse, is_wrong, sites_of};
use heapledger_report::{Context, ErrorBrief};

use super::naming::Naming;
use crate::commands::present::unwritten;

/// The errors that count, and those that are excused, which `evidence` is told of; nothing where they have no limit.
pub(super) fn found(
    limits: &Limits,
    evidence: &mut Evidence,
    naming: &mut Naming<'_, '_>,
    context: &Context,
    suppressions: &Suppressions,
) -> Result<(Vec<ErrorBrief>, Vec<Excused>)> {
    if limits.errors.is_none() {
        return Ok((Vec::new(), Vec::new()));
    }
    let mut errors = naming.ledger.errors()?;
    errors.retain(|found| is_wrong(&found.entry));
    let labels = naming.ledger.labels()?;
    let names = naming.named(sites_of(&errors))?;
    let excused = excuse(&mut errors, suppressions, &mut |site| names.stack(site))?;
    let briefs = errors.iter().map(|found| ErrorBrief::of(context, found, &labels, names)).collect::<Result<_, _>>();
    evidence.excuse_errors(excused.iter().map(|excused| excused.errors).sum());
    Ok((briefs.map_err(unwritten)?, excused))
}
