//! `--accounts` on real programs: who holds how much, and who freed it, agrees with the records, whatever ended the program.

use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use heapledger_e2e::ledger::{Stats, check_totals};
use heapledger_e2e::process::{PATIENCE, children, kill, start};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tracked::{run_cleanly, under_run};
use heapledger_e2e::{Result, check, victim};
use serde_json::Value;

fn list<'s>(stats: &'s Stats, name: &str) -> &'s [Value] {
    stats.0[name].as_array().map_or(&[], Vec::as_slice)
}

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or(0)
}

/// The accounts of a thread, added up.
fn held(stats: &Stats, row: u64, key: &str) -> u64 {
    let own = list(stats, "accounts").iter().filter(|account| account["thread"].as_u64() == Some(row));
    own.map(|account| number(account, key)).sum()
}

/// Holds accounts against what the records say, thread by thread. Each can be off by so many blocks.
fn compare(stats: &Stats, slack: u64) -> Result {
    check!(!list(stats, "accounts").is_empty(), "there are no accounts");
    for thread in list(stats, "threads") {
        let row = number(thread, "row");
        for (figure, of_thread) in [("blocks", "live_blocks"), ("allocations", "allocations")] {
            let (held, known) = (held(stats, row, figure), number(thread, of_thread));
            check!(held.abs_diff(known) <= slack, "thread {row}: {figure} {held} on accounts, {known} by records");
        }
        let (held, known) = (held(stats, row, "bytes"), number(thread, "live_bytes"));
        check!(slack > 0 || held == known, "thread {row}: {held} bytes on accounts, {known} by records");
    }
    let sum = |key| list(stats, "accounts").iter().map(|account| number(account, key)).sum::<u64>();
    let (freed, known) = (sum("frees") + sum("frees_by_others"), stats.number("frees"));
    check!(freed.abs_diff(known) <= slack, "{freed} frees on accounts, {known} in all");
    Ok(())
}

fn to_its_end(name: &str, arguments: &[&str]) -> Result<Stats> {
    to_its_end_with(&["--accounts"], name, arguments)
}

fn to_its_end_with(options: &[&str], name: &str, arguments: &[&str]) -> Result<Stats> {
    let scratch = Scratch::new();
    let program = victim::named(name)?.build()?;
    let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
    run_cleanly(&scratch, &mut under_run(&scratch, "x", options, &program, &arguments))?.good()?;
    let stats = Stats::of(scratch.path("x.hl"))?;
    check_totals(&stats, &[])?;
    compare(&stats, 0)?;
    Ok(stats)
}

#[test]
fn threads_that_free_each_others_blocks() -> Result {
    let stats = to_its_end("cross_free", &["8", "5000"])?;
    let by_others = list(&stats, "accounts").iter().filter(|account| number(account, "frees_by_others") > 0).count();
    check!(by_others >= 8, "{by_others} accounts of which others have freed");
    Ok(())
}

#[test]
fn threads_that_come_and_go() -> Result {
    to_its_end("short_threads", &[]).map(drop)
}

/// A sample stands for as many blocks on its account as in the totals.
#[test]
fn sampled_blocks_weigh_on_accounts_what_they_weigh_elsewhere() -> Result {
    for (name, arguments) in [("cross_free", &["8", "5000"][..]), ("short_threads", &[])] {
        let stats = to_its_end_with(&["--accounts", "--sample", "200"], name, arguments)?;
        check!(stats.0["sampled"].is_object(), "{name} is not sampled: {}", stats.0["sampled"]);
    }
    Ok(())
}

#[test]
fn none_unless_asked_for() -> Result {
    let scratch = Scratch::new();
    let program = victim::named("cross_free")?.build()?;
    run_cleanly(&scratch, &mut under_run(&scratch, "x", &[], &program, &["2".to_owned(), "100".to_owned()]))?.good()?;
    check!(list(&Stats::of(scratch.path("x.hl"))?, "accounts").is_empty(), "accounts that nobody asked for");
    Ok(())
}

/// What is on the way from the row of who frees to the account, and counts twice if the program is killed just then.
const ROW_MOST: u64 = 256;

/// One thread allocates, another frees; both are killed somewhere. What was allocated and freed is on the account of the first.
#[test]
fn who_allocated_and_who_freed_outlives_a_kill() -> Result {
    const ROUNDS: u64 = 6;
    let program = victim::named("producer_consumer")?.build()?;
    let mut inexact = 0;
    for round in 0..ROUNDS {
        let scratch = Scratch::new();
        let words = ["1000000000".to_owned()];
        let run = start(under_run(&scratch, "x", &["--accounts"], &program, &words).stdin(Stdio::null()))?;
        let begun = Instant::now();
        let pid = loop {
            match children(run.pid()).first() {
                Some(pid) => break *pid,
                None if begun.elapsed() > PATIENCE => return Err("run starts no program".to_owned()),
                None => thread::sleep(Duration::from_millis(1)),
            }
        };
        // Any moment will do, once there is something: both threads are at work.
        loop {
            thread::sleep(Duration::from_micros(20_000 + round * 3_771));
            match Stats::of(pid.to_string()) {
                Ok(stats) if stats.number("frees") > 1000 => break,
                _ if begun.elapsed() > PATIENCE => return Err("the program frees nothing".to_owned()),
                _ => {}
            }
        }
        kill(pid.into(), "KILL")?;
        run.finish(PATIENCE)?;
        let stats = Stats::of(scratch.path("x.hl"))?;
        // Three threads, each of which can be in the middle of a call.
        let found = compare(&stats, 3);
        if found.is_err() {
            compare(&stats, 3 + ROW_MOST)?;
            inexact += 1;
        }
        let producer = list(&stats, "threads").iter().max_by_key(|thread| number(thread, "allocations"));
        let producer = producer.map(|thread| number(thread, "row")).ok_or("no threads")?;
        check!(held(&stats, producer, "frees") == 0, "the producer has freed something");
        let (by_others, freed) = (held(&stats, producer, "frees_by_others"), stats.number("frees"));
        check!(
            freed.abs_diff(by_others) <= 3 + ROW_MOST,
            "{freed} were freed, {by_others} of the producer's by others"
        );
    }
    check!(inexact <= 1, "{inexact} of {ROUNDS} were killed while a row moved, which takes two instructions");
    Ok(())
}
