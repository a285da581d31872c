//! What is sampled is followed to its end: totals agree by weight at every moment, whatever becomes of the program.

use std::path::Path;
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use heapledger_e2e::expect::Expectation;
use heapledger_e2e::ledger::{Blocks, Stats, read};
use heapledger_e2e::process::{self, PATIENCE, Running, kill, signal_of, until};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, heapledger};
use heapledger_e2e::tracked::{images, run_cleanly, under_run};
use heapledger_e2e::victim::{self, Run, Victim};
use heapledger_e2e::{Result, check};

use super::{check_books, until_it_stands_still};

/// Often enough that small programs have samples, and rarely enough that most blocks are none.
const INTERVAL: u64 = 200;

/// Fewer blocks than `sample_mix` has allocated when it stands still.
const ALLOCATIONS_MIN: u64 = 200_000;

/// Every victim does what it does without us, and its ledger agrees with itself. Among them are those that fork, exec,
/// end in every way, load and unload C++ plugins, run handlers and coroutines, and have threads that come and go.
#[test]
fn every_victim_is_sampled() -> Result {
    let victims = victim::all()?;
    let all: Vec<(&Victim, &Run)> = victims
        .iter()
        .filter(|victim| victim.untracked.is_none() && victim.needs.is_none())
        .flat_map(|victim| victim.runs.iter().map(move |run| (victim, run)))
        .collect();
    let (next, problems) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some((victim, run)) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let (Err(problem), Ok(mut problems)) = (examine(victim, run), problems.lock()) {
                problems.push(format!("{} {:?}: {problem}", victim.name, run.arguments));
            }
        }
    };
    std::thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(work))));
    let problems = problems.into_inner().unwrap_or_default();
    check!(problems.is_empty(), "{} of {} victims:\n{}", problems.len(), all.len(), problems.join("\n"));
    check!(all.len() > 60, "only {} victims were found", all.len());
    Ok(())
}

/// Where blocks are sampled, rare work comes at any later call, not at the first ones: it takes no more of the program's stack.
#[test]
fn rare_work_takes_little_stack() -> Result {
    let program = victim::named("stack_need")?.build()?;
    for interval in ["50", "200", "1000", "5000"] {
        for accounts in [&[][..], &["--accounts"]] {
            for _ in 0..3 {
                let scratch = Scratch::new();
                let options = [&["--sample", interval], accounts].concat();
                let run = run_cleanly(&scratch, &mut under_run(&scratch, "x", &options, &program, &[]))?;
                run.good().map_err(|error| format!("{options:?}: {error}"))?;
            }
        }
    }
    Ok(())
}

/// What is found out about a block that the ledger does not know takes no more of it either.
#[test]
fn an_unknown_block_takes_little_stack() -> Result {
    let program = victim::named("stack_need")?.build()?;
    let scratch = Scratch::new();
    run_cleanly(&scratch, &mut under_run(&scratch, "x", &[], &program, &["1000", "unknown"].map(str::to_owned)))?
        .good()?;
    let stats = Stats::of(images(&scratch, "x").first().ok_or("there is no ledger")?)?;
    check!(stats.number("unknown_frees") > 5000, "only {} were unknown", stats.number("unknown_frees"));
    Ok(())
}

/// Blocks for which there is no room any more are counted one by one, by their function as by their loss, and not for as many
/// as each would have stood for.
#[test]
fn a_sample_without_room_counts_once() -> Result {
    let program = victim::named("limit_exhausted")?.build()?;
    let mut lost = 0;
    for _ in 0..4 {
        let scratch = Scratch::new();
        let options = ["--sample", &INTERVAL.to_string()];
        run_cleanly(&scratch, &mut under_run(&scratch, "x", &options, &program, &[]))?.good()?;
        let stats = Stats::of(images(&scratch, "x").first().ok_or("there is no ledger")?)?;
        let by = stats.0["allocated_by"].as_object().ok_or("nobody allocated")?;
        let calls: u64 = by.values().filter_map(|kind| kind["calls"].as_u64()).sum();
        let (entered, not) = (stats.number("allocations"), stats.not_entered());
        check!(calls == entered + not, "{calls} calls, {entered} blocks in the ledger and {not} without room");
        lost += not;
    }
    check!(lost > 1000, "only {lost} blocks had no room");
    Ok(())
}

fn examine(victim: &Victim, run: &Run) -> Result {
    let (scratch, program) = (Scratch::new(), victim.build()?);
    let plain = process::run(command(&program).args(&run.arguments).current_dir(scratch.work()))?;
    let options = ["--sample", &INTERVAL.to_string()];
    let tracked = run_cleanly(&scratch, &mut under_run(&scratch, "x", &options, &program, &run.arguments))?;
    plain.compare(&tracked)?;
    let ledgers = images(&scratch, "x");
    check!(!ledgers.is_empty(), "there is no ledger");
    for ledger in &ledgers {
        let stats = Stats::of(ledger)?;
        check_books(&stats, &victim.losses, INTERVAL)?;
        check_lines(ledger, &stats)?;
    }
    // What no longer lives may not be there as a sample either. (A kind is that of the function that was sampled:
    // `malloc` for a `new`.)
    let is_none = |text: &str| {
        text.starts_with("live") && text.split(' ').any(|word| word == "count=0") && !text.contains("kind=")
    };
    let is_meant = |own: &&Expectation| {
        own.image.is_none() && own.run.is_none_or(|number| number == run.number) && is_none(&own.to_string())
    };
    let mut expectations = victim.expectations.iter().filter(is_meant).peekable();
    if expectations.peek().is_none() {
        return Ok(());
    }
    let ledger = ledgers.last().ok_or("there is no ledger")?;
    let (stats, blocks) = (Stats::of(ledger)?, Blocks::live(ledger)?);
    expectations.try_for_each(|expectation| expectation.check(&stats, Some(&blocks)))
}

/// The blocks of `dump`, each by its weight, are what `stats` says.
fn check_lines(ledger: &Path, stats: &Stats) -> Result {
    let lines = read("dump", ledger, &[])?;
    let (mut blocks, mut bytes, mut samples) = (0, 0, 0);
    for line in lines.iter().filter(|line| line["type"] == "block") {
        let weight = line["weight"].as_u64().ok_or("a sample has no weight")?;
        check!(weight >= 1, "a sample stands for {weight} blocks");
        (blocks, bytes, samples) = (blocks + weight, bytes + weight * line["size"].as_u64().unwrap_or(0), samples + 1);
    }
    let (live, live_bytes) = (stats.number("live_blocks"), stats.number("live_bytes"));
    check!(
        (blocks, bytes) == (live, live_bytes),
        "dump shows samples that stand for {blocks} blocks of {bytes} bytes, stats {live} of {live_bytes}"
    );
    let told = stats.inner("sampled", "samples");
    check!(samples == told, "dump shows {samples} samples, stats {told}");
    Ok(())
}

/// Starts a victim; returns it, and the pid of the program itself.
fn start(scratch: &Scratch, interval: u64, name: &str, arguments: &[&str]) -> Result<(Running, u32)> {
    let program = victim::named(name)?.build()?;
    let arguments: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
    heapledger(); // built now, and not while the victim runs
    let mut run = under_run(scratch, "x", &["--sample", &interval.to_string()], &program, &arguments);
    let running = process::start(run.stdin(Stdio::piped()))?;
    let mut pid = 0;
    until("it is recorded", || {
        pid = process::children(running.pid()).first().copied().unwrap_or(0);
        pid != 0 && Stats::of(pid.to_string()).is_ok()
    })?;
    Ok((running, pid))
}

#[test]
fn killed_while_it_allocates() -> Result {
    for (name, arguments) in [("ending", &["for-ever"][..]), ("cross_free", &["8", "2000000000"])] {
        let scratch = Scratch::new();
        let (running, pid) = start(&scratch, INTERVAL, name, arguments)?;
        for _ in 0..5 {
            std::thread::sleep(Duration::from_millis(100));
            let stats = Stats::of(pid.to_string())?;
            let (unaccounted, threads) = (stats.signed("unaccounted"), stats.may_be_in_flight());
            check!(
                unaccounted.unsigned_abs() <= threads * (INTERVAL + 1),
                "{name}: {unaccounted} blocks are unaccounted for while it runs"
            );
        }
        until("it has freed a lot", || Stats::of(pid.to_string()).is_ok_and(|stats| stats.number("frees") > 100_000))?;
        kill(pid.into(), "KILL")?;
        let ran = running.finish(PATIENCE)?;
        check!(signal_of(&ran) == Some(9), "{name}: {ran}");
        let stats = Stats::of(scratch.path("x.hl"))?;
        check!(stats.number("frees") > 100_000, "{name}: only {} frees before it was killed", stats.number("frees"));
        check_books(&stats, &[], INTERVAL).map_err(|problem| format!("{name}: {problem}"))?;
        check_lines(&scratch.path("x.hl"), &stats)?;
    }
    Ok(())
}

/// While a program stands still, what is read of it by its pid is exact, and so is what is left when it is killed.
#[test]
fn killed_while_it_stands_still() -> Result {
    let scratch = Scratch::new();
    let (running, pid) = start(&scratch, 4096, "sample_mix", &["stand"])?;
    until_it_stands_still(pid, ALLOCATIONS_MIN)?;
    let live = Stats::of(pid.to_string())?;
    check!(live.signed("unaccounted") == 0, "{} blocks are unaccounted for", live.signed("unaccounted"));
    kill(pid.into(), "KILL")?;
    running.finish(PATIENCE)?;
    let dead = Stats::of(scratch.path("x.hl"))?;
    for stats in [&live, &dead] {
        for key in ["allocations", "frees", "live_blocks", "live_bytes", "bytes_allocated"] {
            check!(stats.number(key) == live.number(key), "{key} is {} and {}", live.number(key), stats.number(key));
        }
        // Of several threads the peak is known within an error. What `run` saw from outside is in the ledger when the program is
        // dead: that may show a higher one.
        let (peak, error) = (live.number("peak_bytes"), live.number("peak_error_bytes"));
        check!(
            (peak..=peak + error).contains(&stats.number("peak_bytes")),
            "peak_bytes is {peak} + {error} at most, and {}",
            stats.number("peak_bytes")
        );
        check!(
            stats.number("allocations") - stats.number("frees") == stats.number("live_blocks"),
            "{} - {} is not {}",
            stats.number("allocations"),
            stats.number("frees"),
            stats.number("live_blocks")
        );
    }
    check_lines(&scratch.path("x.hl"), &dead)
}

/// Nothing of what is freed stays behind as a sample, at any interval and however often addresses come again.
#[test]
fn no_free_of_a_sample_is_missed() -> Result {
    for (name, arguments, function) in [
        ("sample_mix", &["churn"][..], "churn"),
        ("cross_free", &["8", "20000"], "storm"),
        ("realloc_race", &["4", "20000"], "race"),
        ("producer_consumer", &["300000"], "produce"),
    ] {
        let program = victim::named(name)?.build()?;
        for interval in [1, 48, 1000, 30_000] {
            let scratch = Scratch::new();
            let problem = |problem| format!("{name} at {interval}: {problem}");
            let stats = super::sampled(&scratch, &interval.to_string(), &program, arguments).map_err(problem)?;
            check_books(&stats, &[], interval).map_err(problem)?;
            let live = Blocks::live(scratch.path("x.hl"))?;
            let left = live.blocks.iter().filter(|block| live.is_from(block, function, false)).count();
            check!(left == 0, "{name} at {interval}: {left} samples are left that were freed");
            let frees = stats.number("frees");
            check!(frees > 0, "{name} at {interval}: no free of a sample was seen");
        }
    }
    Ok(())
}
