//! From runs to figures. Runs of one round are compared with each other, because the machine's speed drifts; of the
//! rounds the median counts, and what the fastest runs say stands beside it.

use std::collections::BTreeMap;

use super::ledger::Ledger;
use super::program::Kind;
use super::sample::Sample;
use super::tool::Tool;

/// A figure: the median of all rounds, and the same from the smallest value of each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Figure {
    pub(super) median: f64,
    pub(super) least: f64,
}

/// All runs of a tool, each with the plain run of the same round.
#[derive(Clone, Debug, Default)]
pub(super) struct Runs {
    /// (plain, tool)
    pub(super) pairs: Vec<(Sample, Sample)>,
    /// Why there are no more of them.
    pub(super) failure: Option<String>,
}

/// Everything about one program.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) runs: BTreeMap<Tool, Runs>,
    pub(super) ledger: Option<Ledger>,
}

/// The median; 0 of nothing.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.len().saturating_sub(1) / 2, values.len() / 2);
    match (values.get(low), values.get(high)) {
        (Some(low), Some(high)) => (low + high) / 2.0,
        _ => 0.0,
    }
}

fn least(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(f64::INFINITY, f64::min)
}

impl Row {
    fn pairs(&self, tool: Tool) -> Option<&[(Sample, Sample)]> {
        let runs = self.runs.get(&tool)?;
        (runs.failure.is_none() && !runs.pairs.is_empty()).then_some(&runs.pairs)
    }

    /// A figure of each run.
    pub(super) fn each(&self, tool: Tool, what: impl Fn(&Sample) -> f64) -> Option<Figure> {
        let pairs = self.pairs(tool)?;
        let values = || pairs.iter().map(|(_, own)| what(own));
        Some(Figure { median: median(values().collect()), least: least(values()) })
    }

    /// A figure made of a plain run's and the tool's.
    fn paired(&self, tool: Tool, part: impl Fn(&Sample) -> f64, join: impl Fn(f64, f64) -> f64) -> Option<Figure> {
        let pairs = self.pairs(tool)?;
        let median = median(pairs.iter().map(|(plain, own)| join(part(plain), part(own))).collect());
        let (plain, own) = (pairs.iter().map(|pair| part(&pair.0)), pairs.iter().map(|pair| part(&pair.1)));
        Some(Figure { median, least: join(least(plain), least(own)) })
    }

    /// Time of processors as a multiple of the plain run's.
    pub(super) fn ratio(&self, tool: Tool) -> Option<Figure> {
        self.paired(tool, |sample| sample.cpu_ns, |plain, own| own / plain)
    }

    /// Time of processors beyond the plain run's, in nanoseconds.
    pub(super) fn added_ns(&self, tool: Tool) -> Option<Figure> {
        self.paired(tool, |sample| sample.cpu_ns, |plain, own| own - plain)
    }

    /// In the loop of a synthetic program, for one operation.
    pub(super) fn loop_ns(&self, tool: Tool) -> Option<Figure> {
        self.each(tool, |sample| sample.loop_ns.unwrap_or(f64::NAN)).filter(|figure| figure.median.is_finite())
    }

    /// The same beyond the plain run's.
    pub(super) fn loop_added_ns(&self, tool: Tool) -> Option<Figure> {
        let part = |sample: &Sample| sample.loop_ns.unwrap_or(f64::NAN);
        self.paired(tool, part, |plain, own| own - plain).filter(|figure| figure.median.is_finite())
    }

    /// What a malloc and a free take without any tool: the loop less its own calls.
    pub(super) fn pair_ns(&self) -> Option<f64> {
        Some(self.loop_ns(Tool::Plain)?.median - self.loop_ns(Tool::Walk)?.median)
    }

    /// How many times as much as one of ours another tool adds, round by round. Infinite where ours adds nothing.
    pub(super) fn times(&self, rival: Tool, own: Tool) -> Option<Figure> {
        let (ours, theirs) = (self.pairs(own)?, self.pairs(rival)?);
        let divide = |theirs: f64, ours: f64| if ours > 0.0 { theirs / ours } else { f64::INFINITY };
        let added = |pair: &(Sample, Sample)| pair.1.cpu_ns - pair.0.cpu_ns;
        let rounds = ours.iter().zip(theirs).map(|(ours, theirs)| divide(added(theirs), added(ours)));
        let median = median(rounds.collect());
        Some(Figure { median, least: divide(self.added_ns(rival)?.least, self.added_ns(own)?.least) })
    }

    /// Time of processors beyond the plain run's, for each allocation. Of a slow tool, whose work is another, none.
    pub(super) fn added_per_allocation(&self, tool: Tool) -> Option<Figure> {
        let allocations = self.ledger?.allocations;
        let added = self.added_ns(tool).filter(|_| !tool.is_slow() && allocations > 0.0)?;
        Some(Figure { median: added.median / allocations, least: added.least / allocations })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(cpu_ns: f64) -> Sample {
        Sample { cpu_ns, ..Sample::default() }
    }

    #[test]
    fn medians() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(vec![]), 0.0);
    }

    #[test]
    fn rounds_are_compared_by_themselves() {
        // The second round ran at half the speed.
        let plain = [100.0, 200.0, 110.0].map(sample);
        let pairs = |own: [f64; 3]| plain.into_iter().zip(own.map(sample)).collect::<Vec<_>>();
        let mut runs = BTreeMap::new();
        runs.insert(Tool::Ours, Runs { pairs: pairs([150.0, 300.0, 165.0]), failure: None });
        runs.insert(Tool::Heaptrack, Runs { pairs: pairs([600.0, 1200.0, 660.0]), failure: None });
        runs.insert(Tool::Massif, Runs { pairs: vec![], failure: Some("no".into()) });
        let row = Row { name: "x", kind: Kind::Real, runs, ledger: None };
        assert_eq!(row.ratio(Tool::Ours), Some(Figure { median: 1.5, least: 1.5 }));
        assert_eq!(row.times(Tool::Heaptrack, Tool::Ours), Some(Figure { median: 10.0, least: 10.0 }));
        assert_eq!(row.added_ns(Tool::Ours), Some(Figure { median: 55.0, least: 50.0 }));
        assert_eq!(row.ratio(Tool::Massif), None);
        assert_eq!(row.loop_ns(Tool::Ours), None);
    }
}
