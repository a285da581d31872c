//! Tables that do not grow: what the ledger and the process take depends on what lives, not on what has lived.

use std::time::Duration;

use heapledger_e2e::ledger::{Stats, check_totals};
use heapledger_e2e::process::{self, resident_kib};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tracked::by_hand;
use heapledger_e2e::{Result, check, victim};

/// How often a victim is held on its way to be looked at.
const LOOKS: usize = 12;

/// What was seen of a running victim: memory of the process outside of the ledger, and storage of the ledger.
struct Watched {
    private_kib: Vec<u64>,
    ledger_bytes: Vec<u64>,
    last: Stats,
}

/// `history` is small, because its ring is meant to grow until it is full.
fn watch(name: &str, arguments: &[&str], losses: &[&str]) -> Result<Watched> {
    let (scratch, program) = (Scratch::new(), victim::named(name)?.build()?);
    let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
    let mut command = by_hand(&scratch, &[], &program, &arguments);
    let mut held = process::hold(&mut command)?;
    let pid = held.running.pid();
    let mut seen = Watched { private_kib: vec![], ledger_bytes: vec![], last: Stats(serde_json::Value::Null) };
    while held.stands()? {
        seen.private_kib.push(resident_kib(pid, "Anonymous").ok_or("no Anonymous")?);
        seen.ledger_bytes.push(Stats::of(pid.to_string())?.inner("ledger", "bytes"));
        held.goes_on()?;
    }
    let ran = held.running.finish(Duration::from_secs(600))?;
    check!(ran.status.success(), "{ran}");
    let live = scratch.unfinished();
    seen.last = Stats::of(live.first().ok_or("there is no ledger")?)?;
    let losses: Vec<String> = losses.iter().map(|name| (*name).to_owned()).collect();
    check_totals(&seen.last, &losses)?;
    check!(seen.ledger_bytes.len() == LOOKS, "it was seen {} times", seen.ledger_bytes.len());
    Ok(seen)
}

/// From the first quarter of the time to its end, a figure must not grow by more than `room`.
fn check_flat(what: &str, figures: &[u64], room: u64) -> Result {
    let early = figures[..figures.len().div_ceil(4)].iter().max().copied().unwrap_or(0);
    let late = figures.iter().max().copied().unwrap_or(0);
    println!("{what}: {early} in the first quarter, {late} at most, seen {} times", figures.len());
    check!(late <= early + room, "{what} grows from {early} to {late}");
    Ok(())
}

#[test]
fn producer_and_consumer_of_10_million_blocks() -> Result {
    let seen = watch("producer_consumer", &["10000000", &LOOKS.to_string()], &[])?;
    check!(seen.last.number("allocations") >= 10_000_000, "{} allocations", seen.last.number("allocations"));
    check!(seen.last.number("peak_blocks") < 3000, "{} blocks at the peak", seen.last.number("peak_blocks"));
    check_flat("bytes of the ledger", &seen.ledger_bytes, 256 << 10)?;
    check_flat("KiB of private memory", &seen.private_kib, 1024)
}

#[test]
fn a_hundred_thousand_short_threads() -> Result {
    let seen = watch("short_threads", &["100000", "8", &LOOKS.to_string()], &["threads_unnamed"])?;
    check!(seen.last.number("allocations") >= 1_000_000, "{} allocations", seen.last.number("allocations"));
    // Rows of threads stay, up to 65,535 of them, at less than 128 bytes each with their names.
    check_flat("bytes of the ledger", &seen.ledger_bytes, 65_536 * 128)?;
    check_flat("KiB of private memory", &seen.private_kib, 2048)
}
