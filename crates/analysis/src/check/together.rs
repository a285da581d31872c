//! Limits of several processes together.

use super::{Doubt, Figure, Finding, Verdict};

/// What is known of the peak of several processes together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeakTogether {
    /// The highest that somebody saw.
    pub found: u64,
    /// What it was at least: one process alone had so much, or all together were seen to.
    pub least: u64,
    /// What it cannot have been more than.
    pub most: u64,
}

/// What was found of one program of several processes.
#[derive(Clone, Copy, Debug)]
pub struct CheckedProgram<'a> {
    /// A finding for each limit.
    pub findings: &'a [Finding],
    /// Whether its process went on as another program: what lived then went with its memory.
    pub went_on: bool,
}

/// The findings of several processes, which all have the same limits, as one for each limit. `is_complete`: there are no others.
pub fn together(parts: &[CheckedProgram<'_>], peak: PeakTogether, is_complete: bool) -> Vec<Finding> {
    let Some(first) = parts.first() else { return Vec::new() };
    let sum = |of: &Finding| {
        let is_live = of.figure.is_of_live_blocks();
        let same = || {
            let there = parts.iter().filter(move |part| !(is_live && part.went_on));
            there.flat_map(|part| part.findings.iter().filter(|finding| finding.figure == of.figure))
        };
        let add = |get: fn(&Finding) -> u64| same().map(get).fold(0, u64::saturating_add);
        let most = same().try_fold(0u64, |sum, finding| Some(sum.saturating_add(finding.most?)));
        let blocks = same().try_fold(0u64, |sum, finding| Some(sum.saturating_add(finding.blocks?)));
        let (mut found, mut least, mut most) = (add(|finding| finding.found), add(|finding| finding.least), most);
        let mut doubts: Vec<Doubt> = Vec::new();
        let mut reasons: Vec<Doubt> = Vec::new();
        for finding in same() {
            doubts.extend(finding.doubts.iter().filter(|doubt| !doubts.contains(doubt)).cloned().collect::<Vec<_>>());
            reasons
                .extend(finding.reasons.iter().filter(|doubt| !reasons.contains(doubt)).cloned().collect::<Vec<_>>());
        }
        if of.figure == Figure::Peak {
            (found, least, most) = (peak.found, peak.least, most.map(|most| most.min(peak.most)));
            doubts.insert(0, Doubt::Together);
        }
        if !is_complete {
            most = None;
        }
        // One block is one block, however small it is.
        let one_block = of.figure == Figure::Leaked && of.limit == 0;
        let exceeded = match one_block {
            true => same().any(|finding| finding.verdict == Verdict::Exceeded),
            false => least > of.limit,
        };
        let holds = match one_block {
            true => is_complete && same().all(|finding| finding.verdict == Verdict::Holds),
            false => most.is_some_and(|most| most <= of.limit),
        };
        let verdict = match (exceeded, holds) {
            (true, _) => Verdict::Exceeded,
            (false, true) => Verdict::Holds,
            (false, false) => Verdict::Uncertain,
        };
        if verdict != Verdict::Uncertain {
            doubts.clear();
        }
        let (limit, blocks) = (of.limit, blocks.filter(|_| of.figure != Figure::Peak));
        Finding { found, least, most, blocks, verdict, doubts, reasons, limit, responsible: Vec::new(), ..of.clone() }
    };
    first.findings.iter().map(sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(figure: Figure, limit: u64, [least, found, most]: [u64; 3], verdict: Verdict) -> Finding {
        Finding {
            figure,
            limit,
            found,
            least,
            most: Some(most).filter(|most| *most != u64::MAX),
            before: None,
            blocks: Some(1),
            verdict,
            doubts: Vec::new(),
            reasons: Vec::new(),
            responsible: Vec::new(),
            processes: Vec::new(),
            of_frees: None,
            at_peak: false,
        }
    }

    fn ended(findings: &[Finding]) -> CheckedProgram<'_> {
        CheckedProgram { findings, went_on: false }
    }

    #[test]
    fn sums_are_between_the_sums_of_their_bounds() {
        let one = |figure, bounds, verdict| vec![finding(figure, 100, bounds, verdict)];
        let (holds, open, exceeded) = (Verdict::Holds, Verdict::Uncertain, Verdict::Exceeded);
        for (parts, complete, verdict, found) in [
            (vec![one(Figure::Live, [40, 40, 40], holds), one(Figure::Live, [60, 60, 60], holds)], true, holds, 100),
            (vec![one(Figure::Live, [40, 40, 40], holds), one(Figure::Live, [61, 61, 61], holds)], true, exceeded, 101),
            (vec![one(Figure::Live, [40, 50, 60], holds), one(Figure::Live, [40, 50, 60], holds)], true, open, 100),
            (vec![one(Figure::Live, [1, 1, u64::MAX], open), one(Figure::Live, [1, 1, 1], holds)], true, open, 2),
            (vec![one(Figure::Live, [1, 1, 1], holds)], false, open, 1),
            (vec![one(Figure::Live, [101, 101, u64::MAX], exceeded)], false, exceeded, 101),
        ] {
            let parts: Vec<CheckedProgram<'_>> = parts.iter().map(|part| ended(part)).collect();
            let sums = together(&parts, PeakTogether::default(), complete);
            assert_eq!((sums.len(), sums[0].verdict, sums[0].found), (1, verdict, found), "{parts:?}");
        }
        assert!(together(&[], PeakTogether::default(), true).is_empty());
    }

    #[test]
    fn a_peak_of_all_is_where_somebody_saw_it_and_what_all_had_at_once() {
        let part = [finding(Figure::Peak, 100, [60, 60, 60], Verdict::Holds)];
        let parts = [ended(&part), ended(&part)];
        for (found, least, most, verdict) in
            [(90, 90, 100, Verdict::Holds), (90, 90, 120, Verdict::Uncertain), (101, 101, 120, Verdict::Exceeded)]
        {
            let sums = together(&parts, PeakTogether { found, least, most }, true);
            assert_eq!((sums[0].verdict, sums[0].found), (verdict, found));
            assert_eq!(sums[0].doubts.contains(&Doubt::Together), verdict == Verdict::Uncertain);
        }
    }

    #[test]
    fn a_leak_of_no_byte_is_one() {
        let none = [finding(Figure::Leaked, 0, [0, 0, 0], Verdict::Holds)];
        let empty = [finding(Figure::Leaked, 0, [0, 0, 0], Verdict::Exceeded)];
        let verdict = |parts: &[CheckedProgram<'_>]| together(parts, PeakTogether::default(), true)[0].verdict;
        assert_eq!(verdict(&[ended(&none), ended(&none)]), Verdict::Holds);
        assert_eq!(verdict(&[ended(&none), ended(&empty)]), Verdict::Exceeded);
    }

    #[test]
    fn what_a_program_held_that_went_on_as_another_lives_no_longer() {
        for (figure, found) in [(Figure::Live, 60), (Figure::LiveBlocks, 60), (Figure::Allocated, 100)] {
            let [before, after] = [40, 60].map(|all| [finding(figure, 99, [all, all, all], Verdict::Holds)]);
            let parts = [CheckedProgram { went_on: true, ..ended(&before) }, ended(&after)];
            let sums = together(&parts, PeakTogether::default(), true);
            let wanted = if found <= 99 { Verdict::Holds } else { Verdict::Exceeded };
            assert_eq!((sums[0].found, sums[0].most, sums[0].verdict), (found, Some(found), wanted), "{figure:?}");
        }
    }

    #[test]
    fn nothing_lives_of_what_became_another_program() {
        for figure in [Figure::Live, Figure::LiveBlocks] {
            let after = finding(figure, 1, [40, 40, u64::MAX], Verdict::Exceeded).after_exec();
            assert_eq!((after.found, after.most, after.blocks, after.verdict), (0, Some(0), Some(0), Verdict::Holds));
        }
        let allocated = finding(Figure::Allocated, 1, [40, 40, 40], Verdict::Exceeded);
        assert_eq!(allocated.clone().after_exec(), allocated);
    }
}
