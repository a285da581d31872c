//! Real programs, quickly: the same output, counts equal to the counting library's, totals that agree.
//! `cargo run --release -p heapledger-e2e --example real_programs` does the same with more work, and prints a table.

use heapledger_e2e::counts::Counts;
use heapledger_e2e::ledger::{Blocks, Stats, check_nothing_wrong, check_totals};
use heapledger_e2e::process::{kill, until};
use heapledger_e2e::programs::{Load, Redis, examine, prepare, top};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tracked::{by_hand, recover};
use heapledger_e2e::{Result, check, skip, victim};

fn test(name: &str, heaptrack: bool) -> Result {
    let scratch = Scratch::new();
    let Some(program) = prepare(name, &scratch, Load::Quick)? else {
        skip(name, "it is not installed");
        return Ok(());
    };
    let row = examine(&program, &scratch, heaptrack)?;
    println!("{name}: {} allocations, most held by {}", row.allocations, row.top);
    Ok(())
}

macro_rules! programs {
    ($($name:ident, $heaptrack:literal;)*) => {
        $(#[test]
        fn $name() -> Result {
            test(stringify!($name), $heaptrack)
        })*
    };
}

programs! {
    jq, true;
    python3, false;
    perl, false;
    sqlite3, true;
    xmllint, true;
    git, false;
    cc1, false;
}

/// A server with threads that read and write, over jemalloc, ended by its administrator or killed under load.
fn redis(kill_it: bool) -> Result {
    let (scratch, counter) = (Scratch::new(), victim::counter()?);
    let base = scratch.path("counts");
    let start = |program: &std::path::Path, arguments: &[String]| {
        let mut command = by_hand(&scratch, &[&counter], program, arguments);
        command.env("COUNTER_OUT", &base);
        command
    };
    let Some(redis) = Redis::start(&scratch, start)? else {
        skip("redis", "redis-server or redis-benchmark is not installed");
        return Ok(());
    };
    let pid = redis.pid();
    if kill_it {
        let load = redis.benchmark(100_000_000)?;
        until("it is under load", || Stats::of(pid.to_string()).is_ok_and(|stats| stats.number("frees") > 20_000))?;
        kill(pid.into(), "KILL")?;
        redis.gone()?;
        kill(-i64::from(load.pid()), "KILL").ok();
        load.finish(heapledger_e2e::process::PATIENCE)?;
    } else {
        let ran = redis.benchmark(20_000)?.finish(heapledger_e2e::process::PATIENCE)?;
        check!(ran.status.success(), "redis-benchmark fails: {ran}");
        check!(redis.keys()?.trim() != "0", "there should be keys");
        redis.shut_down()?;
    }
    let ledgers = recover(&scratch)?;
    let ledger = ledgers.last().ok_or("there is no ledger")?;
    let stats = Stats::of(ledger)?;
    let counts = Counts::of(&base, &stats)?;
    counts.check(&stats, 0)?;
    check_totals(&stats, &[])?;
    check_nothing_wrong(ledger, &[])?;
    let (live, counted) = (stats.number("live_blocks"), counts.allocations() - counts.frees());
    check!(live.abs_diff(counted) <= 2 * stats.may_be_in_flight(), "{live} blocks are live, {counted} were counted");
    Blocks::live(ledger)?.check(&stats)?;
    println!("redis: {} allocations, most held by {}", stats.number("allocations"), top(&stats));
    Ok(())
}

#[test]
fn redis_under_load() -> Result {
    redis(false)
}

#[test]
fn redis_killed_under_load() -> Result {
    redis(true)
}
