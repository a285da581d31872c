//! All processes of a session together, held against the limits.

use std::collections::HashMap;

use heapledger_analysis::{
    CheckedProgram, FamilySummary, MemberRead, MemberTotals, Peak, PeakTogether, Seen, Summary, together,
};
use heapledger_source::{Family, ProcessKey};

use super::one::CheckedLedger;
use crate::commands::sessions;

/// A process that was checked, or all together.
pub(super) struct CheckedMember {
    pub(super) key: ProcessKey,
    pub(super) name: String,
    pub(super) path: String,
    pub(super) totals: MemberTotals,
    /// It became another program.
    pub(super) went_on: bool,
    pub(super) one: CheckedLedger,
}

/// All processes together.
pub(super) fn sum(family: &Family, first: &CheckedMember, parts: &[CheckedMember], is_complete: bool) -> CheckedLedger {
    let mut of: HashMap<ProcessKey, &MemberTotals> = parts.iter().map(|part| (part.key, &part.totals)).collect();
    let read = family.members.iter().map(|member| match of.remove(&member.process.key()) {
        Some(totals) => MemberRead::Totals(totals.clone()),
        None => MemberRead::Without(None),
    });
    let totals = FamilySummary::from_read(family, read.collect()).totals;
    let seen_bytes = family.peak().map_or(0, |moment| moment.live_bytes);
    let least = seen_bytes.max(totals.peak_of_one_bytes);
    let peak = PeakTogether { found: least, least, most: totals.together_at_most_bytes.max(least) };
    let findings: Vec<CheckedProgram<'_>> =
        parts.iter().map(|part| CheckedProgram { findings: &part.one.findings, went_on: part.went_on }).collect();
    let findings = together(&findings, peak, is_complete);
    let sampled = parts.iter().find_map(|part| part.one.summary.sampled);
    let peak = Peak { bytes: least, ..Peak::default() };
    let summary = Summary {
        identity: sessions::identity(family),
        sampled,
        peak,
        seen: Seen::default(),
        ..first.one.summary.clone()
    };
    let (leaked, errors, excused, seen, paint) = (None, Vec::new(), Vec::new(), Seen::default(), first.one.paint);
    CheckedLedger { summary, findings, leaked, errors, excused, seen, paint }
}
