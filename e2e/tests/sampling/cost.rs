//! What a malloc and a free cost if the block is no sample: instructions, counted by valgrind's callgrind, which do not
//! depend on how busy the machine is. As in `instructions.rs`, the difference of two runs is what pairs cost.

use std::fs;
use std::path::Path;

use heapledger_e2e::ledger::Stats;
use heapledger_e2e::programs::PATIENCE;
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, find, heapledger};
use heapledger_e2e::tracked::{preload_list, recover, shell};
use heapledger_e2e::{Result, check, process, skip, victim};

/// Longest interval: no block is a sample, but by a chance of one in millions.
const NEVER: &str = "1099511627776";
/// The usual one. Here a few samples are taken, each with its stack.
const USUAL: &str = "524288";

/// Victim's arguments before the number of pairs, interval, most instructions added to a pair.
const CEILINGS: &[(&[&str], &str, f64)] = &[
    (&["same", "20"], NEVER, 32.0),
    (&["burst", "20"], NEVER, 32.0),
    // A pair has 272 bytes on the average, so one in 1,900 is a sample.
    (&["same", "20"], USUAL, 45.0),
    (&["burst", "20"], USUAL, 75.0),
];

const FEW_PAIRS: u64 = 10_000;
const MANY_PAIRS: u64 = 90_000;
/// Runs of a case that are tried.
const TRIES: u32 = 4;

/// Instructions in a run of so many pairs, sampled at an interval or not tracked.
fn instructions(valgrind: &Path, program: &Path, mode: &[&str], pairs: u64, interval: Option<&str>) -> Result<u64> {
    const SCRIPT: &str = r#"session=$(printf %016x $$)
        export LD_PRELOAD="$1" HEAPLEDGER="dir=$2,pid=$$,session=$session,sample=$3"; shift 3; exec "$@""#;
    let scratch = Scratch::new();
    let counts = scratch.path("callgrind.out");
    let mut run = match interval {
        Some(interval) => shell(
            SCRIPT,
            &[preload_list(&[]).as_ref(), scratch.live().as_os_str(), interval.as_ref(), valgrind.as_ref()],
        ),
        None => command(valgrind),
    };
    run.args(["--tool=callgrind", &format!("--callgrind-out-file={}", counts.display())]);
    run.arg(program).args(mode).arg(pairs.to_string()).current_dir(scratch.work());
    process::run_within(&mut run, PATIENCE)?.good()?;
    if interval.is_some() {
        let ledgers = recover(&scratch)?;
        let stats = Stats::of(ledgers.last().ok_or("there is no ledger")?)?;
        check!(stats.inner("sampled", "interval_bytes") > 0, "nothing was sampled");
    }
    let text = fs::read_to_string(&counts).map_err(|error| format!("{}: {error}", counts.display()))?;
    let total = text.lines().find_map(|line| line.strip_prefix("totals: "));
    total.and_then(|total| total.trim().parse().ok()).ok_or_else(|| "callgrind has counted nothing".to_owned())
}

#[test]
fn a_block_that_is_no_sample_costs_little() -> Result {
    let Some(valgrind) = find(&["valgrind"]) else {
        skip("instructions of sampling", "valgrind is not installed");
        return Ok(());
    };
    let program = victim::named("bench_paths")?.build()?;
    heapledger();
    heapledger_e2e::tools::preload(); // built now, and not by all threads
    let slope = |mode: &[&str], interval: Option<&str>| {
        let count = |pairs| instructions(&valgrind, &program, mode, pairs, interval);
        let (few, many) = (count(FEW_PAIRS)?, count(MANY_PAIRS)?);
        check!(many > few, "{many} instructions for {MANY_PAIRS} pairs, {few} for {FEW_PAIRS}");
        Ok((many - few) as f64 / (MANY_PAIRS - FEW_PAIRS) as f64)
    };
    // How many samples a run has, and which stacks, is chance: who had bad luck draws again.
    let both = &|(mode, interval, ceiling): &(&[&str], &str, f64)| {
        let plain = slope(mode, None)?;
        let mut sampled = slope(mode, Some(*interval))?;
        for _ in 1..TRIES {
            if sampled - plain > *ceiling {
                sampled = sampled.min(slope(mode, Some(*interval))?);
            }
        }
        Ok((sampled, plain))
    };
    let measured: Vec<Result<(f64, f64)>> = std::thread::scope(|scope| {
        let running: Vec<_> = CEILINGS.iter().map(|case| scope.spawn(move || both(case))).collect();
        running.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err("it panicked".to_owned()))).collect()
    });
    let mut table = String::from("instructions added to a malloc and a free:\n");
    let mut too_many = 0;
    for ((mode, interval, ceiling), measured) in CEILINGS.iter().zip(measured) {
        let (sampled, plain) = measured.map_err(|problem| format!("{mode:?} at {interval}: {problem}"))?;
        let added = sampled - plain;
        let verdict = if added <= *ceiling { "" } else { ", TOO MANY" };
        table += &format!("{mode:?} at {interval}: {added:.1} (to {plain:.1}), ceiling {ceiling}{verdict}\n");
        too_many += u32::from(added > *ceiling);
    }
    println!("{table}");
    check!(too_many == 0, "{too_many} of {} are above their ceilings\n{table}", CEILINGS.len());
    Ok(())
}
