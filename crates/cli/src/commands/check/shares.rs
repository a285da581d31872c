//! Who has part in what all processes of a session have too much of together.

use std::cmp::Reverse;
use std::collections::HashMap;

use anyhow::Result;
use heapledger_analysis::{Figure, Finding, Limits, ProcessShare, Suppressions, Verdict};
use heapledger_source::{Family, ProcessKey};

use super::CheckArgs;
use super::one::{BeforeIt, CheckedLedger};
use super::sum::CheckedMember;
use crate::commands::sessions;

/// Says of each limit of all together that does not hold which processes have the greatest part in it, and which stacks of the first of them.
pub(super) fn explain(
    args: &CheckArgs,
    held: (&Limits, &Suppressions),
    family: &Family,
    findings: &mut [Finding],
    parts: &[CheckedMember],
) -> Result<()> {
    let mut largest: HashMap<ProcessKey, Vec<Figure>> = HashMap::new();
    for finding in findings.iter_mut().filter(|finding| finding.verdict != Verdict::Holds) {
        let of = |part: &&CheckedMember| part.one.findings.iter().find(|own| own.figure == finding.figure).cloned();
        let mut shares: Vec<(&CheckedMember, Finding)> =
            parts.iter().filter_map(|part| Some((part, of(&part)?))).filter(|(_, own)| own.found != 0).collect();
        shares.sort_by_key(|(_, own)| Reverse(own.found));
        if let Some((part, _)) = shares.first() {
            largest.entry(part.key).or_default().push(finding.figure);
        }
        let shown = shares.iter().take(args.top);
        let share = |(part, own): &(&CheckedMember, Finding)| ProcessShare {
            process: part.name.clone(),
            found: own.found,
            blocks: own.blocks,
        };
        finding.processes = shown.map(share).collect();
    }
    let mut before_it = BeforeIt::default();
    for member in &family.members {
        let Some(figures) = largest.remove(&member.process.key()) else { continue };
        let Some(ledger) = member.open().ok().flatten() else { continue };
        (before_it.went_on, before_it.explained) = (sessions::went_on(member), figures);
        let path = ledger.path().to_owned();
        let opened = args.ledger.opened(&[path.as_os_str()], ledger)?;
        let one = CheckedLedger::of(args, held, &opened, None, &mut before_it)?;
        for own in one.findings.into_iter().filter(|own| before_it.explained.contains(&own.figure)) {
            if let Some(finding) = findings.iter_mut().find(|finding| finding.figure == own.figure) {
                (finding.responsible, finding.of_frees, finding.at_peak) = (own.responsible, own.of_frees, own.at_peak);
            }
        }
    }
    Ok(())
}
