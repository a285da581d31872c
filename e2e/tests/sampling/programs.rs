//! Real programs: they do the same, and estimates are close to what a full ledger says of them.

use std::path::Path;

use heapledger_e2e::ledger::Stats;
use heapledger_e2e::process::{self, PATIENCE, children, kill, until};
use heapledger_e2e::programs::{Load, Redis, prepare};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::command;
use heapledger_e2e::tracked::under_run;
use heapledger_e2e::{Result, check, skip};

use super::check_books;

/// Samples at the peak: their number says how exact estimates are. With so many the standard error is 0.7 % at most.
const SAMPLES: u64 = 20_000;
/// How much of the peak an estimate may be off: seven standard errors.
const OFF_MAX: f64 = 0.05;

fn close(what: &str, estimate: u64, truth: u64, scale: u64) -> Result {
    let off = estimate.abs_diff(truth) as f64 / scale as f64;
    println!("{what}: {estimate} of {truth}, off by {:.2} % of the peak", off * 100.0);
    check!(off <= OFF_MAX, "{what}: the estimate is {estimate}, and the full ledger says {truth}");
    Ok(())
}

fn beside_the_full_ledger(name: &str) -> Result {
    let scratch = Scratch::new();
    let Some(program) = prepare(name, &scratch, Load::Quick)? else {
        skip(name, "it is not installed");
        return Ok(());
    };
    let plain = program.plain(&scratch)?.good()?;
    let (ran, ledger) = program.under_run(&scratch, &[])?;
    plain.compare(&ran)?;
    let full = Stats::of(&ledger)?;
    std::fs::remove_file(&ledger).map_err(|error| error.to_string())?;
    let peak = full.number("peak_bytes");
    let interval = (peak / SAMPLES).max(1);
    let (ran, ledger) = program.under_run(&scratch, &["--sample", &interval.to_string()])?;
    plain.compare(&ran)?;
    let stats = Stats::of(&ledger)?;
    check_books(&stats, &program.losses, interval)?;
    close(&format!("{name}: bytes at the peak"), stats.number("peak_bytes"), peak, peak)?;
    close(&format!("{name}: live bytes"), stats.number("live_bytes"), full.number("live_bytes"), peak)?;
    let all = full.number("bytes_allocated");
    close(&format!("{name}: bytes allocated"), stats.number("bytes_allocated"), all, all)?;
    // Few blocks were entered, as was asked for.
    let (entered, all) = (stats.inner("memory", "ledger_bytes"), full.inner("memory", "ledger_bytes"));
    check!(entered < all, "{name}: the ledger takes {entered} bytes; without sampling it takes {all}");
    Ok(())
}

macro_rules! programs {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() -> Result {
            beside_the_full_ledger(stringify!($name))
        })*
    };
}

programs! { jq python3 sqlite3 perl cc1 }

/// Redis counts by itself what it has allocated. It runs over jemalloc.
#[test]
fn redis_under_load() -> Result {
    let scratch = Scratch::new();
    let start =
        |program: &Path, arguments: &[String]| under_run(&scratch, "x", &["--sample", "500"], program, arguments);
    let Some(redis) = Redis::start(&scratch, start)? else {
        skip("redis", "redis-server or redis-benchmark is not installed");
        return Ok(());
    };
    let ran = redis.benchmark(30_000)?.finish(PATIENCE)?;
    check!(ran.status.success(), "redis-benchmark fails: {ran}");
    let ask = |words: &[&str]| process::run(command("redis-cli").arg("-s").arg(scratch.path("redis.sock")).args(words));
    let info = ask(&["info", "memory"])?.good()?.out();
    let used: u64 = info
        .lines()
        .find_map(|line| line.strip_prefix("used_memory:"))
        .and_then(|figure| figure.trim().parse().ok())
        .ok_or_else(|| format!("redis says nothing of its memory: {info}"))?;
    let pid = children(redis.pid()).first().copied().ok_or("there is no server")?;
    let stats = Stats::of(pid.to_string())?;
    close("redis: actual bytes", stats.number("actual_bytes"), used, used)?;
    redis.shut_down()?;
    check_books(&Stats::of(scratch.path("x.hl"))?, &[], 500)
}

#[test]
fn redis_killed_under_load() -> Result {
    let scratch = Scratch::new();
    let start =
        |program: &Path, arguments: &[String]| under_run(&scratch, "x", &["--sample", "2K"], program, arguments);
    let Some(redis) = Redis::start(&scratch, start)? else {
        skip("redis", "redis-server or redis-benchmark is not installed");
        return Ok(());
    };
    let pid = children(redis.pid()).first().copied().ok_or("there is no server")?;
    let load = redis.benchmark(100_000_000)?;
    until("it is under load", || Stats::of(pid.to_string()).is_ok_and(|stats| stats.number("frees") > 20_000))?;
    kill(pid.into(), "KILL")?;
    redis.gone()?;
    kill(-i64::from(load.pid()), "KILL").ok();
    load.finish(PATIENCE)?;
    let stats = Stats::of(scratch.path("x.hl"))?;
    check!(stats.number("frees") > 10_000, "only {} frees", stats.number("frees"));
    check_books(&stats, &[], 2 << 10)
}
