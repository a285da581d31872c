//! What was aimed at, held against what was measured.

use super::figures::{Row, median};
use super::program::Kind;
use super::tool::Tool;

/// A goal, what was measured, and whether that reaches it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Goal {
    pub(super) what: String,
    pub(super) wanted: String,
    pub(super) measured: String,
    /// `None`: what it takes was not measured.
    pub(super) reached: Option<bool>,
}

/// With fewer live blocks, room for more is most of what a ledger takes.
pub(super) const MANY_BLOCKS: f64 = 100_000.0;
/// What a pair of malloc and free takes where the goals in nanoseconds were set.
const PAIR_NS: f64 = 50.0;

pub(super) fn at_most(what: &str, limit: f64, unit: &str, measured: Option<f64>, more: &str) -> Goal {
    goal(what, format!("at most {limit}{unit}"), measured, unit, more, |measured| measured <= limit)
}

pub(super) fn at_least(what: &str, limit: f64, unit: &str, measured: Option<f64>, more: &str) -> Goal {
    goal(what, format!("at least {limit}{unit}"), measured, unit, more, |measured| measured >= limit)
}

fn goal(
    what: &str,
    wanted: String,
    measured: Option<f64>,
    unit: &str,
    more: &str,
    holds: impl Fn(f64) -> bool,
) -> Goal {
    let text = measured.map_or_else(|| "not measured".to_owned(), |value| format!("{}{unit}{more}", shown(value)));
    Goal { what: what.to_owned(), wanted, measured: text, reached: measured.map(holds) }
}

fn shown(value: f64) -> String {
    match value {
        _ if value.is_infinite() => "no end of ".to_owned(),
        _ if value.abs() >= 20.0 => format!("{value:.0}"),
        _ => format!("{value:.2}"),
    }
}

/// A way that has goals of its own, and what was aimed at.
struct Aims {
    tool: Tool,
    name: &'static str,
    /// Nanoseconds added to a pair of the synthetic programs, where a pair takes [`PAIR_NS`].
    added_ns: [(&'static str, f64); 4],
    /// The slowdown of real programs, in the median and at worst.
    real: [f64; 2],
    /// What heaptrack adds, in the median and at worst.
    heaptrack: [f64; 2],
    /// What its library alone adds at worst, to synthetic and to real programs.
    in_process: [f64; 2],
}

const AIMS: [Aims; 2] = [
    Aims {
        tool: Tool::Ours,
        name: "",
        added_ns: [("same-20", 50.0), ("burst-20", 72.0), ("burst-40", 90.0), ("burst-20-fp", 90.0)],
        real: [1.35, 1.7],
        heaptrack: [8.0, 4.0],
        in_process: [7.0, 1.5],
    },
    Aims {
        tool: Tool::WholeFrees,
        name: ", whole stacks at free",
        added_ns: [("same-20", 65.0), ("burst-20", 100.0), ("burst-40", 130.0), ("burst-20-fp", 130.0)],
        real: [1.5, 2.0],
        heaptrack: [6.0, 3.0],
        in_process: [5.0, 1.2],
    },
];

/// All goals, from the rows that there are.
pub(super) fn all(rows: &[Row]) -> Vec<Goal> {
    let row = |name: &str| rows.iter().find(|row| row.name == name);
    let mut goals: Vec<Goal> = AIMS.iter().flat_map(|aims| of_way(rows, aims)).collect();
    goals.push(known_frame(row("same-20"), row("same-40")));

    let random = row("random-20")
        .and_then(|row| Some(row.loop_added_ns(Tool::Ours)?.median / row.loop_added_ns(Tool::NoReuse)?.median));
    goals.push(at_most("unrelated stacks, of a plain walk with cached rules", 1.2, " times", random, ""));

    let with = row("burst-20-fp").and_then(|row| {
        let ways = [Tool::Ours, Tool::FramePointers].map(|tool| row.loop_added_ns(tool).map(|added| added.least));
        ways.into_iter().flatten().reduce(f64::min)
    });
    let without = row("burst-20").and_then(|row| row.loop_added_ns(Tool::Ours)).map(|added| added.least);
    let ratio = without.zip(with).map(|(without, with)| (without / with).max(with / without));
    goals.push(at_most("added with and without frame pointers, the larger of the smaller", 1.3, " times", ratio, ""));

    goals.push(threads(row("threads-1"), row("threads-32")));
    memory(rows, &mut goals);
    let real = rows.iter().filter(|row| row.kind == Kind::Real);
    let sampled = real.filter_map(|row| Some(row.ratio(Tool::Sample)?.median)).collect::<Vec<_>>();
    let sampled = (!sampled.is_empty()).then(|| median(sampled));
    goals.push(at_most("slowdown of real programs with --sample 512K, median", 1.03, " times", sampled, ""));
    goals
}

/// Those of one way.
fn of_way(rows: &[Row], aims: &Aims) -> Vec<Goal> {
    let row = |name: &str| rows.iter().find(|row| row.name == name);
    let mut goals: Vec<Goal> =
        aims.added_ns.iter().map(|(name, limit_ns)| added(row(name), (name, aims), *limit_ns)).collect();
    let real = |row: &&Row| row.kind == Kind::Real;
    let slowdowns: Vec<(&str, f64)> =
        rows.iter().filter(real).filter_map(|row| Some((row.name, row.ratio(aims.tool)?.least))).collect();
    let worst = slowdowns.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
    let middle = (!slowdowns.is_empty()).then(|| median(slowdowns.iter().map(|(_, ratio)| *ratio).collect()));
    let which = worst.map_or(String::new(), |(name, _)| format!(" ({name})"));
    let ([middle_most, most], way) = (aims.real, aims.name);
    goals.push(at_most(&format!("slowdown of real programs, median{way}"), middle_most, " times", middle, ""));
    let slowest = worst.map(|(_, ratio)| ratio);
    goals.push(at_most(&format!("slowdown of real programs, worst{way}"), most, " times", slowest, &which));

    // Not the programs that only measure one thing of ours.
    let synthetic = |row: &&Row| matches!(row.kind, Kind::Paths("burst", _, _, false));
    let [middle_least, least] = aims.heaptrack;
    let both = times(rows, (Tool::Heaptrack, aims.tool), |row| real(row) || synthetic(row));
    let of_all = (!both.is_empty()).then(|| median(both.iter().map(|(_, times)| *times).collect()));
    goals.push(at_least(&format!("what heaptrack adds to ours, median{way}"), middle_least, " times", of_all, ""));
    goals.push(lowest(&format!("what heaptrack adds to ours, worst{way}"), least, &both));
    let [of_synthetic, of_real] = aims.in_process;
    let pair = (Tool::HeaptrackInside, aims.tool);
    let what = |programs: &str| format!("what heaptrack's library adds to ours, worst of {programs} programs{way}");
    goals.push(lowest(&what("synthetic"), of_synthetic, &times(rows, pair, synthetic)));
    goals.push(lowest(&what("real"), of_real, &times(rows, pair, real)));
    goals
}

/// How many times as much as one of ours another tool adds, by program.
fn times(rows: &[Row], (rival, own): (Tool, Tool), counts: impl Fn(&&Row) -> bool) -> Vec<(&'static str, f64)> {
    rows.iter().filter(counts).filter_map(|row| Some((row.name, row.times(rival, own)?.least))).collect()
}

fn lowest(what: &str, limit: f64, all: &[(&str, f64)]) -> Goal {
    let least = all.iter().copied().min_by(|a, b| a.1.total_cmp(&b.1));
    let which = least.map_or(String::new(), |(name, _)| format!(" ({name})"));
    at_least(what, limit, " times", least.map(|(_, times)| times), &which)
}

/// What the ledger takes, where there is enough in it to tell.
fn memory(rows: &[Row], goals: &mut Vec<Goal>) {
    let row = |name: &str| rows.iter().find(|row| row.name == name);
    for name in ["cc1plus", "python3"] {
        let ledger = row(name).and_then(|row| row.ledger);
        let what = |place: &str| format!("bytes for a distinct stack in {place}, {name}");
        goals.push(at_most(&what("memory"), 60.0, "", ledger.and_then(|ledger| ledger.stack_bytes), ""));
        goals.push(at_most(&what("the file"), 40.0, "", ledger.and_then(|ledger| ledger.stack_file_bytes), ""));
    }
    let full = || rows.iter().filter(|row| row.ledger.is_some_and(|ledger| ledger.blocks >= MANY_BLOCKS));
    let worst = |what: &dyn Fn(&Row) -> Option<f64>| {
        full().filter_map(|row| Some((row.name, what(row)?))).max_by(|a, b| a.1.total_cmp(&b.1))
    };
    let named = |worst: Option<(&str, f64)>| worst.map_or(String::new(), |(name, _)| format!(" ({name})"));
    let records = worst(&|row| row.ledger?.record_bytes);
    let value = |worst: Option<(&str, f64)>| worst.map(|(_, value)| value);
    goals.push(at_most("bytes for a block's record, worst", 40.0, "", value(records), &named(records)));
    // What the program takes by itself stands for the heap that it touches.
    let index =
        worst(&|row| Some(row.ledger?.shadow_bytes? / row.each(Tool::Plain, |sample| sample.peak_bytes)?.median));
    goals.push(at_most("index by address, of the program's memory, worst", 0.125, "", value(index), &named(index)));
    let thread = row("threads-8").and_then(|row| row.ledger?.thread_bytes).map(|bytes| bytes / 1024.0);
    goals.push(at_most("state of a thread", 1024.0, " KiB", thread, ""));
}

/// As if a pair took 50 ns here too; of the fastest runs.
fn added(row: Option<&Row>, (name, aims): (&str, &Aims), limit_ns: f64) -> Goal {
    let measured = row.and_then(|row| Some((row.loop_added_ns(aims.tool)?, row.pair_ns()?)));
    let more = measured.map_or(String::new(), |(added, pair)| {
        format!(" ({:.0} where a pair takes {pair:.0}; median {:.0})", added.least, added.median)
    });
    let scaled = measured.map(|(added, pair)| added.least * PAIR_NS / pair);
    let what = format!("added to a pair of {name}, where a pair takes {PAIR_NS:.0} ns{}", aims.name);
    at_most(&what, limit_ns, " ns", scaled, &more)
}

/// A pair takes two stacks, one for each call.
fn known_frame(at_20: Option<&Row>, at_40: Option<&Row>) -> Goal {
    let added = |row: Option<&Row>| Some(row?.loop_added_ns(Tool::Ours)?.least);
    let of_pair = added(at_40).zip(added(at_20)).map(|(at_40, at_20)| (at_40 - at_20) / 20.0);
    let more = of_pair.map_or(String::new(), |ns| format!(" a pair, {:.2} ns a stack", ns / 2.0));
    at_most("each further known frame", 0.7, " ns", of_pair, &more)
}

/// What many threads pay for an operation, of what one pays; beyond what the allocator alone has of that.
fn threads(one: Option<&Row>, many: Option<&Row>) -> Goal {
    let ratio = |tool: Tool| Some(many?.loop_ns(tool)?.least / one?.loop_ns(tool)?.least);
    let beyond = ratio(Tool::Ours).zip(ratio(Tool::Plain)).map(|(ours, plain)| ours / plain);
    let more = ratio(Tool::Plain).map_or(String::new(), |plain| format!(" (without us {plain:.2} times)"));
    at_most("an operation with 32 threads, of one with one, beyond that without us", 1.1, " times", beyond, &more)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::figures::Runs;
    use super::super::sample::Sample;
    use super::*;

    /// A program whose loop takes 10 ns to walk and 60 with malloc and free, and so much with us.
    fn paths(name: &'static str, ours_ns: f64) -> Row {
        let sample = |ns| Sample { loop_ns: Some(ns), cpu_ns: ns * 1e6, ..Sample::default() };
        let plain = sample(60.0);
        let runs = [(Tool::Plain, 60.0), (Tool::Walk, 10.0), (Tool::Ours, ours_ns), (Tool::Heaptrack, 960.0)];
        let runs: BTreeMap<_, _> =
            runs.map(|(tool, ns)| (tool, Runs { pairs: vec![(plain, sample(ns))], failure: None })).into();
        Row { name, kind: Kind::Paths("burst", 20, 1, false), runs, ledger: None }
    }

    #[test]
    fn goals_are_judged() {
        let goals = all(&[paths("burst-20", 150.0), paths("same-20", 100.0), paths("same-40", 120.0)]);
        let judged = |word: &str| goals.iter().find(|goal| goal.what.contains(word)).expect("a goal").clone();
        assert_eq!(judged("of burst-20,").reached, Some(false));
        assert!(judged("of burst-20,").measured.starts_with("90 ns"), "{}", judged("of burst-20,").measured);
        assert_eq!(judged("of same-20,").reached, Some(true));
        assert_eq!(judged("of burst-20, where a pair takes 50 ns, whole").reached, None);
        assert_eq!(judged("known frame").measured, "1.00 ns a pair, 0.50 ns a stack");
        assert_eq!(judged("heaptrack adds to ours, median").reached, Some(true));
        assert_eq!(judged("real programs, worst").reached, None);
    }
}
