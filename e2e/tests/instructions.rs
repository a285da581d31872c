//! Instructions that tracking adds to a malloc and a free, counted by valgrind's callgrind: they do not depend on how
//! busy the machine is, so a ceiling holds everywhere and a regression shows at once.
//!
//! `victims/bench_paths.c` runs twice with different numbers of pairs, with the library and without. The difference
//! is what pairs cost: start, end, and what is done once for a call path are not in it. Nor is the kernel, and the
//! clock, which is a system call under valgrind.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;

use heapledger_e2e::ledger::Stats;
use heapledger_e2e::programs::PATIENCE;
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, find, heapledger, preload};
use heapledger_e2e::tracked::{by_hand, recover};
use heapledger_e2e::{Result, check, process, skip, victim};

/// How the stack changes between pairs, frames between `main` and the allocation, and most instructions that are
/// added to a pair. `same`: the stack stays; `burst`: the paths of a tree, four pairs at each leaf; `random`: each pair at
/// the end of another path.
const CEILINGS: &[(&str, u32, f64)] = &[
    ("same", 10, 1200.0),
    ("same", 20, 1300.0),
    ("same", 40, 1550.0),
    ("burst", 10, 1600.0),
    ("burst", 20, 1850.0),
    ("burst", 40, 6900.0),
    ("random", 20, 2300.0),
];

/// Whole walks over the tree of paths, 2,000 pairs each. The first runs take what is done once.
const FEW_PAIRS: u64 = 4_000;
const MANY_PAIRS: u64 = 12_000;

/// Instructions in a run of so many pairs.
fn instructions(valgrind: &Path, program: &Path, case: (&str, u32), pairs: u64, tracked: bool) -> Result<u64> {
    let scratch = Scratch::new();
    let counts = scratch.path("callgrind.out");
    let mut arguments = vec!["--tool=callgrind".into(), format!("--callgrind-out-file={}", counts.display())];
    arguments.push(program.to_string_lossy().into_owned());
    arguments.extend([case.0.to_owned(), case.1.to_string(), pairs.to_string()]);
    let mut run: Command;
    if tracked {
        run = by_hand(&scratch, &[], valgrind, &arguments);
    } else {
        run = command(valgrind);
        run.args(&arguments).current_dir(scratch.work());
    }
    process::run_within(&mut run, PATIENCE)?.good()?;
    if tracked {
        // valgrind's own start has ledgers, too; the program's is the one with something in it.
        let ledgers = recover(&scratch)?;
        let entered = ledgers.iter().map(|ledger| Ok(Stats::of(ledger)?.number("allocations")));
        let most = entered.collect::<Result<Vec<u64>>>()?.into_iter().max().unwrap_or(0);
        check!(most > pairs, "{pairs} pairs, and only {most} allocations were recorded");
    }
    let text = fs::read_to_string(&counts).map_err(|error| format!("{}: {error}", counts.display()))?;
    let total = text.lines().find_map(|line| line.strip_prefix("totals: "));
    total.and_then(|total| total.trim().parse().ok()).ok_or_else(|| "callgrind has counted nothing".to_owned())
}

/// The fewest instructions that runs of few pairs and of many were seen to take.
struct Fewest {
    few: u64,
    many: u64,
}

impl Fewest {
    const NONE: Fewest = Fewest { few: u64::MAX, many: u64::MAX };

    /// Counts both once more, and says what a pair takes; `None` if work that goes by the clock was more than all pairs.
    fn again(&mut self, count: impl Fn(u64) -> Result<u64>) -> Result<Option<f64>> {
        self.few = self.few.min(count(FEW_PAIRS)?);
        self.many = self.many.min(count(MANY_PAIRS)?);
        let more = self.many.checked_sub(self.few);
        Ok(more.map(|more| more as f64 / (MANY_PAIRS - FEW_PAIRS) as f64))
    }
}

/// Instructions that a pair takes, with the library and without, from the fewest of some tries: what is done once in a while by
/// the clock (leases of numbers end, the recorder measures its own memory) is more in a run that a busy machine makes long.
fn at_least(valgrind: &Path, program: &Path, case: &(&'static str, u32, f64)) -> Result<(f64, f64)> {
    const TRIES: usize = 4;
    let (mode, depth, ceiling) = *case;
    let (mut tracked, mut plain, mut last) = (Fewest::NONE, Fewest::NONE, None);
    for _ in 0..TRIES {
        let count = |tracked| move |pairs| instructions(valgrind, program, (mode, depth), pairs, tracked);
        let both = (tracked.again(count(true))?, plain.again(count(false))?);
        if let (Some(tracked), Some(plain)) = both {
            last = Some((tracked, plain));
            if tracked - plain <= ceiling {
                break;
            }
        }
    }
    last.ok_or_else(|| format!("{} instructions for {MANY_PAIRS} pairs, {} for {FEW_PAIRS}", tracked.many, tracked.few))
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
    let measured: Vec<Result<(f64, f64)>> = CEILINGS
        .chunks(2)
        .flat_map(|some| {
            thread::scope(|scope| {
                let start = |case: &'static (&'static str, u32, f64)| {
                    let (valgrind, program) = (&valgrind, &program);
                    scope.spawn(move || at_least(valgrind, program, case))
                };
                let running: Vec<_> = some.iter().map(start).collect();
                let join = |thread: thread::ScopedJoinHandle<'_, _>| thread.join();
                let ended = running.into_iter().map(join);
                ended.map(|ended| ended.unwrap_or_else(|_| Err("it panicked".to_owned()))).collect::<Vec<_>>()
            })
        })
        .collect();
    let mut table = String::from("instructions added to a malloc and a free:\n");
    let mut too_many = 0;
    for ((mode, depth, ceiling), measured) in CEILINGS.iter().zip(measured) {
        let (tracked, plain) = measured.map_err(|problem| format!("{mode} {depth}: {problem}"))?;
        let added = tracked - plain;
        let verdict = if added <= *ceiling { "" } else { ", TOO MANY" };
        table += &format!("{mode:<6} {depth}: {added:.0} (to {plain:.0}), ceiling {ceiling}{verdict}\n");
        too_many += u32::from(added > *ceiling);
    }
    println!("{table}");
    check!(too_many == 0, "{too_many} of {} are above their ceilings\n{table}", CEILINGS.len());
    Ok(())
}
