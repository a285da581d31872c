//! Instructions that tracking adds to a malloc and a free, counted by valgrind's callgrind: they do not depend on how
//! busy the machine is, so a ceiling holds everywhere and a regression shows at once.
//!
//! `victims/bench_paths.c` says when it begins another 2,000 pairs, and callgrind counts from there to there, with the
//! library and without. The first such segments take what is done once for a call path; of the others those with the fewest
//! count: what is done now and then by the clock (leases of numbers end, the recorder measures its own memory) falls into
//! more of them the slower the machine is. The kernel is not counted, nor is the clock, a system call under valgrind.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;

use heapledger_e2e::callgrind;
use heapledger_e2e::ledger::Stats;
use heapledger_e2e::programs::PATIENCE;
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{calls, command, find, heapledger, preload};
use heapledger_e2e::tracked::{by_hand, by_hand_with, recover};
use heapledger_e2e::{Result, check, process, skip, victim};

/// How the stack changes between pairs, frames between `main` and the allocation, and most instructions that are
/// added to a pair. `same`: the stack stays; `burst`: the paths of a tree, four pairs at each leaf; `random`: each pair at
/// the end of another path; `edge`: the same stack, whose innermost frame ends where a page does.
const CEILINGS: &[(&str, u32, f64)] = &[
    ("same", 10, 1005.0),
    ("edge", 10, 1005.0),
    ("same", 20, 1050.0),
    ("same", 40, 1150.0),
    ("burst", 10, 1100.0),
    ("burst", 20, 1150.0),
    ("burst", 40, 1235.0),
    ("random", 20, 1310.0),
];

/// Most instructions that accounts add to a pair.
const ACCOUNTS_CEILING: f64 = 40.0;

/// Most instructions that the guard of the level `full` adds to a pair, beyond those of recording it with whole stacks.
const FULL_CEILING: f64 = 1250.0;

/// Pairs from one call of the victim's `segment` to the next: a whole walk over its tree.
const SEGMENT_PAIRS: u64 = 2_000;
/// Segments of a run.
const SEGMENTS: u64 = 16;
/// What lies before these segments is start, and what is done once for a call path.
const FIRST_KNOWN: usize = 4;

/// What a run's segments took.
struct Counted {
    /// Instructions of each segment in which all call paths were known.
    each: Vec<u64>,
    /// Of the one with the fewest, by function, most first.
    by_function: Vec<(u64, String)>,
}

impl Counted {
    /// Instructions for each pair: the mean of the fewest in a segment of even and of odd number. Where a memory is a little too
    /// small for all call paths (the stacks of `burst` 40), a walk finds them that the walk before it has not found.
    fn for_a_pair(&self) -> f64 {
        let fewest = |first: usize| self.each.iter().skip(first).step_by(2).min().map_or(0.0, |fewest| *fewest as f64);
        (fewest(0) + fewest(1)) / 2.0 / SEGMENT_PAIRS as f64
    }

    /// For whoever has to find out why they are too many.
    fn explained(&self) -> String {
        let mut lines = format!("  segments of {SEGMENT_PAIRS} pairs: {:?}\n  of that with the fewest:\n", self.each);
        for (instructions, function) in self.by_function.iter().take(20) {
            let _ = writeln!(lines, "  {instructions:>9} {function}");
        }
        lines
    }
}

/// How a program runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Plain,
    Recorded,
    WithAccounts,
    /// With whole stacks of frees, as the guard has them.
    Whole,
    /// With the guard, and a quarantine in which few pairs fit.
    Full,
}

/// Instructions of a run's segments.
fn count(valgrind: &Path, program: &Path, (mode, depth): (&str, u32), way: Way) -> Result<Counted> {
    let scratch = Scratch::new();
    let counts = scratch.path("callgrind.out");
    let pairs = SEGMENTS * SEGMENT_PAIRS;
    let mut arguments = callgrind::options(&counts);
    arguments.push(program.to_string_lossy().into_owned());
    let more = if ["edge", "resize"].contains(&mode) { ["same", mode] } else { [mode, ""] };
    arguments.extend([more[0], &depth.to_string(), &pairs.to_string(), more[1]].map(str::to_owned));
    let mut run: Command;
    match way {
        Way::Plain => {
            run = command(valgrind);
            run.args(&arguments).current_dir(scratch.work());
        }
        Way::Recorded => run = by_hand(&scratch, &[], valgrind, &arguments),
        Way::WithAccounts => run = by_hand_with(&scratch, "history=65536,accounts=1", &[], valgrind, &arguments),
        Way::Whole => run = by_hand_with(&scratch, "history=65536,free-depth=whole", &[], valgrind, &arguments),
        Way::Full => {
            run = by_hand_with(&scratch, "history=65536,guard=full,quarantine=100000", &[calls()], valgrind, &arguments)
        }
    }
    process::run_within(&mut run, PATIENCE)?.good()?;
    if way != Way::Plain {
        // valgrind's own start has ledgers, too; the program's is the one with something in it.
        let ledgers = recover(&scratch)?;
        let entered = ledgers.iter().map(|ledger| Ok(Stats::of(ledger)?.number("allocations")));
        let most = entered.collect::<Result<Vec<u64>>>()?.into_iter().max().unwrap_or(0);
        check!(most > pairs, "{pairs} pairs, and only {most} allocations were recorded");
    }
    let text = fs::read_to_string(&counts).map_err(|error| format!("{}: {error}", counts.display()))?;
    let mut all = callgrind::segments(&text);
    check!(all.len() as u64 == SEGMENTS + 1, "callgrind has counted {} segments", all.len());
    all.pop(); // with the program's end in it
    let mut known = all.split_off(FIRST_KNOWN);
    let each = known.iter().map(|segment| segment.instructions).collect();
    known.sort_by_key(|segment| segment.instructions);
    let fewest = known.into_iter().next().ok_or("callgrind has counted nothing")?;
    let mut by_function: Vec<_> = fewest.by_function.into_iter().map(|(name, count)| (count, name)).collect();
    by_function.sort_unstable_by(|one, other| other.cmp(one));
    Ok(Counted { each, by_function })
}

/// So often a run is made of which the one with the fewest counts: where each pair has another stack, hundreds of instructions hang on
/// where stacks lie by chance, which is another place in each run.
fn turns(mode: &str) -> usize {
    if mode == "random" { 4 } else { 1 }
}

fn fewest(turns: usize, count: impl Fn() -> Result<Counted>) -> Result<Counted> {
    let all = (0..turns).map(|_| count()).collect::<Result<Vec<_>>>()?;
    all.into_iter()
        .min_by(|one, other| one.for_a_pair().total_cmp(&other.for_a_pair()))
        .ok_or_else(|| "nothing was counted".to_owned())
}

#[test]
fn a_pair_stays_below_its_ceiling() -> Result {
    let Some(valgrind) = find(&["valgrind"]) else {
        skip("instructions", "valgrind is not installed");
        return Ok(());
    };
    let program = victim::named("bench_paths")?.build()?;
    preload(); // built now, and not by all threads
    heapledger();
    let measured: Vec<Result<(Counted, Counted)>> = CEILINGS
        .chunks(2)
        .flat_map(|some| {
            thread::scope(|scope| {
                let start = |case: &'static (&'static str, u32, f64)| {
                    let (valgrind, program) = (&valgrind, &program);
                    let count = move |way| count(valgrind, program, (case.0, case.1), way);
                    scope.spawn(move || Ok((fewest(turns(case.0), || count(Way::Recorded))?, count(Way::Plain)?)))
                };
                let running: Vec<_> = some.iter().map(start).collect();
                let join = |thread: thread::ScopedJoinHandle<'_, _>| thread.join();
                let ended = running.into_iter().map(join);
                ended.map(|ended| ended.unwrap_or_else(|_| Err("it panicked".to_owned()))).collect::<Vec<_>>()
            })
        })
        .collect();
    let mut table = String::from("instructions added to a malloc and a free:\n");
    let mut too_many = String::new();
    for ((mode, depth, ceiling), measured) in CEILINGS.iter().zip(measured) {
        let (tracked, plain) = measured.map_err(|problem| format!("{mode} {depth}: {problem}"))?;
        let added = tracked.for_a_pair() - plain.for_a_pair();
        let _ = writeln!(table, "{mode:<6} {depth}: {added:.0} (to {:.0}), ceiling {ceiling}", plain.for_a_pair());
        if added > *ceiling {
            let _ = writeln!(too_many, "{mode} {depth}: {added:.0}\n{}", tracked.explained());
        }
    }
    println!("{table}{too_many}");
    check!(too_many.is_empty(), "some are above their ceilings");
    Ok(())
}

/// How C++ allocates, and most instructions that are added to a pair of `new` and `delete` with a stack that stays: what a malloc and a free
/// have, because that is what these operators come down to.
const OPERATORS: &[(&str, f64)] = &[("new", 1085.0), ("array", 1085.0), ("nothrow", 1085.0)];

#[test]
fn operators_of_cxx_stay_below_their_ceiling() -> Result {
    let Some(valgrind) = find(&["valgrind"]) else {
        skip("instructions of C++ operators", "valgrind is not installed");
        return Ok(());
    };
    let program = victim::named("bench_operators")?.build()?;
    for (mode, ceiling) in OPERATORS {
        let count = |way| count(&valgrind, &program, (mode, 20), way);
        let (tracked, plain) = (count(Way::Recorded)?, count(Way::Plain)?);
        let added = tracked.for_a_pair() - plain.for_a_pair();
        println!("{mode}: {added:.0} (to {:.0}), ceiling {ceiling}", plain.for_a_pair());
        check!(added > 500.0, "{mode}: only {added:.0} were added: is it recorded?");
        check!(added <= *ceiling, "{mode}: {added:.0} are too many\n{}", tracked.explained());
    }
    Ok(())
}

/// Most instructions that are added to a `realloc` with a stack of 20 frames that stays: it is two calls of the recorder, as a pair is.
const REALLOC_CEILING: f64 = 1290.0;

#[test]
fn a_realloc_stays_below_its_ceiling() -> Result {
    let Some(valgrind) = find(&["valgrind"]) else {
        skip("instructions of realloc", "valgrind is not installed");
        return Ok(());
    };
    let program = victim::named("bench_paths")?.build()?;
    let count = |way| count(&valgrind, &program, ("resize", 20), way);
    let (tracked, plain) = (count(Way::Recorded)?, count(Way::Plain)?);
    let added = tracked.for_a_pair() - plain.for_a_pair();
    println!("realloc: {added:.0} (to {:.0}), ceiling {REALLOC_CEILING}", plain.for_a_pair());
    check!(added > 500.0, "only {added:.0} were added: is it recorded?");
    check!(added <= REALLOC_CEILING, "{added:.0} are too many\n{}", tracked.explained());
    Ok(())
}

#[test]
fn accounts_stay_below_their_ceiling() -> Result {
    let Some(valgrind) = find(&["valgrind"]) else {
        skip("instructions", "valgrind is not installed");
        return Ok(());
    };
    let program = victim::named("bench_paths")?.build()?;
    let count = |way| count(&valgrind, &program, ("same", 20), way);
    let (with, without) = (count(Way::WithAccounts)?, count(Way::Recorded)?);
    let added = with.for_a_pair() - without.for_a_pair();
    println!("instructions that accounts add to a malloc and a free: {added:.1}, ceiling {ACCOUNTS_CEILING}");
    check!(added > 20.0, "only {added:.1} were added: are accounts kept?");
    check!(added <= ACCOUNTS_CEILING, "{added:.1} are too many\n{}", with.explained());
    Ok(())
}

#[test]
fn the_level_full_stays_below_its_ceiling() -> Result {
    let Some(valgrind) = find(&["valgrind"]) else {
        skip("instructions", "valgrind is not installed");
        return Ok(());
    };
    let program = victim::named("bench_paths")?.build()?;
    // Where memory lies decides over some twenty instructions, and each run has it elsewhere: of both ways the fewest of two runs count.
    let fewest = |way| -> Result<Counted> {
        let count = || count(&valgrind, &program, ("same", 20), way);
        let (one, other) = (count()?, count()?);
        Ok(if other.for_a_pair() < one.for_a_pair() { other } else { one })
    };
    let (with, without) = (fewest(Way::Full)?, fewest(Way::Whole)?);
    let added = with.for_a_pair() - without.for_a_pair();
    println!("instructions that the level full adds to a malloc and a free: {added:.1}, ceiling {FULL_CEILING}");
    check!(added > 300.0, "only {added:.1} were added: is it guarded?");
    check!(added <= FULL_CEILING, "{added:.1} are too many\n{}", with.explained());
    Ok(())
}
