//! What was aimed at with the levels of guarding, beyond tracking with the stacks of all calls.

use super::figures::Row;
use super::goals::{Goal, at_most};
use super::tool::Tool;

const MIB: f64 = 1024.0 * 1024.0;
/// Levels, and what they may add to what tracking takes, in parts of the program by itself.
const ADDED: [(Tool, f64); 3] = [(Tool::GuardLight, 0.3), (Tool::GuardFull, 1.0), (Tool::GuardRarely, 0.03)];

/// All of them, for each program.
pub(super) fn all(rows: &[Row]) -> Vec<Goal> {
    let mut goals = Vec::new();
    for row in rows {
        let ratio = |tool: Tool| row.ratio(tool).map(|figure| (figure.median, figure.least));
        for (tool, limit) in ADDED {
            let beyond = ratio(tool).zip(ratio(Tool::WholeFrees));
            let least = beyond.map_or(String::new(), |(own, ours)| format!(" (fastest runs {:.2})", own.1 - ours.1));
            let added = beyond.map(|(own, ours)| own.0 - ours.0);
            let what = format!("{}: added to tracking by {}, of the program by itself", row.name, tool.name());
            goals.push(at_most(&what, limit, "", added, &least));
        }
        let page = ratio(Tool::GuardPage).zip(ratio(Tool::Memcheck)).map(|(page, memcheck)| page.0 / memcheck.0);
        goals.push(at_most(&format!("{}: page, as a multiple of memcheck", row.name), 1.0, " times", page, ""));
        let peak = |tool: Tool| row.each(tool, |sample| sample.peak_bytes).map(|figure| figure.median / MIB);
        let memory = peak(Tool::GuardRarely).zip(peak(Tool::WholeFrees)).map(|(own, ours)| own - ours);
        goals.push(at_most(&format!("{}: memory that page=1/1000 adds", row.name), 40.0, " MiB", memory, ""));
    }
    goals
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::figures::Runs;
    use super::super::program::Kind;
    use super::super::sample::Sample;
    use super::*;

    #[test]
    fn what_a_level_adds_is_beside_what_tracking_takes() {
        let sample = |cpu_ns, peak_bytes| Sample { cpu_ns, peak_bytes, ..Sample::default() };
        let plain = sample(10.0, 0.0);
        let of = |cpu_ns, mib| Runs { pairs: vec![(plain, sample(cpu_ns, mib * MIB))], failure: None };
        let runs = [
            (Tool::WholeFrees, of(15.0, 100.0)),
            (Tool::GuardLight, of(17.0, 100.0)),
            (Tool::GuardFull, of(26.0, 100.0)),
            (Tool::GuardRarely, of(15.2, 130.0)),
            (Tool::GuardPage, of(100.0, 100.0)),
        ];
        let rows = [Row { name: "jq", kind: Kind::Real, runs: BTreeMap::from(runs), ledger: None }];
        let reached: Vec<_> = all(&rows).iter().map(|goal| (goal.reached, goal.measured.clone())).collect();
        let said = |reached, measured: &str| (reached, measured.to_owned());
        let expected = [
            said(Some(true), "0.20 (fastest runs 0.20)"),
            said(Some(false), "1.10 (fastest runs 1.10)"),
            said(Some(true), "0.02 (fastest runs 0.02)"),
            said(None, "not measured"),
            said(Some(true), "30 MiB"),
        ];
        assert_eq!(reached, expected);
    }
}
