//! A ledger with a million blocks: what reading it takes in memory, and what it takes on disk. `cargo xtask scale` measures
//! the time, and larger ones.

use std::fs;
use std::path::Path;

use heapledger_e2e::ledger::Stats;
use heapledger_e2e::process;
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, heapledger};
use heapledger_e2e::tracked::{run_cleanly, under_run};
use heapledger_e2e::{Result, check, victim};

const LIVE: u64 = 1_000_000;
const FREED: u64 = 250_000;
/// What they take unpacked: 32 bytes a record, 64 a history entry.
const UNPACKED_BYTES: u64 = LIVE * 32 + FREED * 64;
/// Most seconds that any of this takes; then it hangs.
const LIMIT_S: &str = "120";

/// The peak of memory of `heapledger WORDS LEDGER`.
fn peak_bytes(scratch: &Scratch, ledger: &Path, words: &[&str]) -> Result<u64> {
    let timer = victim::named("bench_time")?.build()?;
    let figures = scratch.path("figures");
    let mut run = command(timer);
    run.arg(&figures).arg(LIMIT_S).arg(heapledger()).args(words).arg(ledger);
    let ran = process::run(&mut run)?.good()?;
    let line = fs::read_to_string(&figures).map_err(|error| error.to_string())?;
    check!(line.contains(" status=0"), "{words:?} failed: {line} {ran}");
    let kib = line.split_ascii_whitespace().find_map(|word| word.strip_prefix("maxrss_kib=")?.parse::<u64>().ok());
    Ok(kib.ok_or_else(|| format!("the timer says {line}"))? << 10)
}

#[test]
fn memory_stays_below_the_unpacked_ledger() -> Result {
    let scratch = Scratch::new();
    let program = victim::named("bench_scale")?.build()?;
    let arguments = [LIVE.to_string(), FREED.to_string(), "2".to_owned()];
    let options = ["--history", &FREED.to_string(), "--max-ledger", "1G"];
    run_cleanly(&scratch, &mut under_run(&scratch, "x", &options, &program, &arguments))?.good()?;
    let ledger = scratch.path("x.hl");
    let stats = Stats::of(&ledger)?;
    check!(
        stats.number("live_blocks") >= LIVE && stats.number("frees") >= FREED,
        "not what was asked for: {:?}",
        stats.0
    );
    let file_bytes = fs::metadata(&ledger).map_err(|error| error.to_string())?.len();
    check!(file_bytes < UNPACKED_BYTES / 4, "the ledger is not well packed: {file_bytes} bytes");
    for words in [
        &["stats"][..],
        &["dump", "--limit", "10"],
        &["dump", "--limit", "10", "--sort", "size"],
        &["history", "--limit", "10"],
        &["history", "--limit", "10", "--reverse"],
        &["check", "--max-live", "1T"],
    ] {
        let peak = peak_bytes(&scratch, &ledger, words)?;
        println!("{words:?}: {peak} bytes of memory, the ledger unpacked {UNPACKED_BYTES}, in the file {file_bytes}");
        check!(peak < UNPACKED_BYTES, "{words:?} takes {peak} bytes, more than the ledger unpacked");
    }
    Ok(())
}

#[test]
fn absurd_filters_come_to_an_end() -> Result {
    let scratch = Scratch::new();
    let program = victim::named("leaky")?.build()?;
    run_cleanly(&scratch, &mut under_run(&scratch, "x", &[], &program, &[]))?.good()?;
    let numbers = (0..12_000).map(|number| number.to_string()).collect::<Vec<_>>().join(",");
    let long = format!("size in ({numbers})");
    let dump = |words: &[&str]| process::run(command(heapledger()).arg("dump").arg(scratch.path("x.hl")).args(words));
    // A megabyte, in as many arguments as a system passes on.
    let many: Vec<&str> = (0..16).flat_map(|_| ["--where", long.as_str()]).collect();
    check!(dump(&many)?.good()?.out().contains("copy_name"), "a long filter finds nothing");
    for absurd in [
        format!("{}size > 1{}", "(".repeat(50_000), ")".repeat(50_000)),
        format!("{}size > 1", "not ".repeat(25_000)),
        "size == 1 or ".repeat(9_000),
        "fn ~ \"(a{1,1000}){1,1000}\"".to_owned(),
    ] {
        let ran = dump(&["--where", &absurd])?;
        let said = ran.err();
        check!(ran.status.code() == Some(2) && said.len() < 2000 && !said.contains("panicked"), "{ran}");
    }
    Ok(())
}
