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

/// All goals, from the rows that there are.
pub(super) fn all(rows: &[Row]) -> Vec<Goal> {
    let row = |name: &str| rows.iter().find(|row| row.name == name);
    let mut goals = vec![
        added(row("burst-20"), "added to a pair, depth 20, 2 to 3 new frames", 80.0),
        added(row("same-20"), "added to a pair, depth 20, unchanged stack", 50.0),
    ];
    rivals(rows, &mut goals);
    goals.push(known_frame(row("same-20"), row("same-40")));

    let random = row("random-20")
        .and_then(|row| Some(row.loop_added_ns(Tool::Ours)?.median / row.loop_added_ns(Tool::NoReuse)?.median));
    goals.push(at_most("unrelated stacks, of a plain walk with cached rules", 1.2, " times", random, ""));

    let with = row("burst-20-fp").and_then(|row| {
        let ways = [Tool::Ours, Tool::FramePointers].map(|tool| row.loop_added_ns(tool).map(|added| added.median));
        ways.into_iter().flatten().reduce(f64::min)
    });
    let without = row("burst-20").and_then(|row| row.loop_added_ns(Tool::Ours)).map(|added| added.median);
    let ratio = without.zip(with).map(|(without, with)| without / with);
    goals.push(at_most("added without frame pointers, of the same program with", 1.3, " times", ratio, ""));

    let real: Vec<&Row> = rows.iter().filter(|row| row.kind == Kind::Real).collect();
    let slowdowns: Vec<(&str, f64)> =
        real.iter().filter_map(|row| Some((row.name, row.ratio(Tool::Ours)?.median))).collect();
    let worst = slowdowns.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
    let middle = (!slowdowns.is_empty()).then(|| median(slowdowns.iter().map(|(_, ratio)| *ratio).collect()));
    let name = worst.map_or(String::new(), |(name, _)| format!(" ({name})"));
    goals.push(at_most("slowdown of real programs, median", 1.25, " times", middle, ""));
    goals.push(at_most("slowdown of real programs, worst", 1.5, " times", worst.map(|(_, ratio)| ratio), &name));

    goals.push(threads(row("threads-1"), row("threads-2")));
    memory(rows, &mut goals);
    let sampled = real.iter().filter_map(|row| Some(row.ratio(Tool::Sample)?.median)).collect::<Vec<_>>();
    let sampled = (!sampled.is_empty()).then(|| median(sampled));
    goals.push(at_most("slowdown of real programs with --sample 512K, median", 1.03, " times", sampled, ""));
    goals
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

/// As if a pair took 50 ns here too.
fn added(row: Option<&Row>, what: &str, limit_ns: f64) -> Goal {
    let measured = row.and_then(|row| Some((row.loop_added_ns(Tool::Ours)?, row.pair_ns()?)));
    let more = measured.map_or(String::new(), |(added, pair)| {
        format!(" ({:.0} where a pair takes {pair:.0}; least {:.0})", added.median, added.least)
    });
    let scaled = measured.map(|(added, pair)| added.median * PAIR_NS / pair);
    at_most(&format!("{what}, where a pair takes {PAIR_NS:.0} ns"), limit_ns, " ns", scaled, &more)
}

/// What other tools add, as a multiple of what we add: everything from the start of `run` to its end.
fn rivals(rows: &[Row], goals: &mut Vec<Goal>) {
    // Not the programs that only measure one thing of ours.
    let counts = |row: &&Row| row.kind == Kind::Real || matches!(row.kind, Kind::Paths("burst", _, _, false));
    let rivals =
        [(Tool::Heaptrack, "heaptrack", 10.0, 6.0), (Tool::HeaptrackInside, "heaptrack's in-process part", 5.0, 3.5)];
    for (tool, name, middle, worst) in rivals {
        let times: Vec<(&str, f64)> =
            rows.iter().filter(counts).filter_map(|row| Some((row.name, row.times_ours(tool)?.median))).collect();
        let least = times.iter().copied().min_by(|a, b| a.1.total_cmp(&b.1));
        let of_all = (!times.is_empty()).then(|| median(times.iter().map(|(_, times)| *times).collect()));
        let which = least.map_or(String::new(), |(name, _)| format!(" ({name})"));
        goals.push(at_least(&format!("what {name} adds to ours, median"), middle, " times", of_all, ""));
        let lowest = least.map(|(_, times)| times);
        goals.push(at_least(&format!("what {name} adds to ours, worst"), worst, " times", lowest, &which));
    }
}

/// A pair takes two stacks, one for each call.
fn known_frame(at_20: Option<&Row>, at_40: Option<&Row>) -> Goal {
    let added = |row: Option<&Row>| Some(row?.loop_added_ns(Tool::Ours)?.median);
    let of_pair = added(at_40).zip(added(at_20)).map(|(at_40, at_20)| (at_40 - at_20) / 20.0);
    let more = of_pair.map_or(String::new(), |ns| format!(" a pair, {:.2} ns a stack", ns / 2.0));
    at_most("each further known frame", 0.7, " ns", of_pair, &more)
}

fn threads(one: Option<&Row>, two: Option<&Row>) -> Goal {
    let ratio = |tool: Tool| Some(two?.loop_ns(tool)?.median / one?.loop_ns(tool)?.median);
    let more = ratio(Tool::Plain).map_or(String::new(), |plain| format!(" ({plain:.2} without us)"));
    at_most("time for an operation with two threads, of that with one", 1.1, " times", ratio(Tool::Ours), &more)
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
        assert_eq!(judged("new frames").reached, Some(false));
        assert!(judged("new frames").measured.starts_with("90 ns"), "{}", judged("new frames").measured);
        assert_eq!(judged("unchanged stack").reached, Some(true));
        assert_eq!(judged("known frame").measured, "1.00 ns a pair, 0.50 ns a stack");
        assert_eq!(judged("heaptrack adds to ours, median").reached, Some(true));
        assert_eq!(judged("real programs, worst").reached, None);
    }
}
