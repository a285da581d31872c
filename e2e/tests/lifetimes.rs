//! For how long blocks have lived, by call site, against a program that knows it, and against the events themselves.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use heapledger_e2e::ledger::read;
use heapledger_e2e::process::run;
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, heapledger};
use heapledger_e2e::tracked::{killed, run_cleanly, under_run};
use heapledger_e2e::{Result, check, victim};
use serde_json::Value;

/// As the victim has them, by the number of the site.
const EVENTS: [u64; 10] = [1, 9, 10, 99, 100, 999, 1000, 9999, 10_000, 100_000];
/// Least lifetimes of classes.
const CLASSES: [u64; 6] = [0, 10, 100, 1000, 10_000, 100_000];

/// What is known of a function's blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Lifetimes {
    blocks: u64,
    events: u64,
    by_events: Vec<u64>,
    by_time: Vec<u64>,
}

fn numbers(list: &Value) -> Vec<u64> {
    list.as_array().into_iter().flatten().map(|number| number.as_u64().unwrap_or(0)).collect()
}

fn class(events: u64) -> usize {
    CLASSES.iter().filter(|least| events >= **least).count() - 1
}

/// What a ledger says, by function.
fn lifetimes(ledger: &Path) -> Result<BTreeMap<String, Lifetimes>> {
    let lines = read("dump", ledger, &["--group-by", "fn", "--by", "lifetime"])?;
    check!(numbers(&lines[0]["lived_from_events"]) == CLASSES, "{}", lines[0]);
    let groups = lines.iter().filter(|line| line["type"] == "group");
    let of = |line: &Value| Lifetimes {
        blocks: line["blocks"].as_u64().unwrap_or(0),
        events: line["lived"]["events"].as_u64().unwrap_or(0),
        by_events: numbers(&line["lived"]["blocks_by_events"]),
        by_time: numbers(&line["lived"]["blocks_by_time"]),
    };
    Ok(groups.map(|line| (line["keys"]["fn"].as_str().unwrap_or("").to_owned(), of(line))).collect())
}

fn recorded(scratch: &Scratch, options: &[&str], threads: u64, rounds: u64) -> Result {
    let program = victim::named("lifetimes")?.build()?;
    let words = [threads.to_string(), rounds.to_string()];
    run_cleanly(scratch, &mut under_run(scratch, "x", options, &program, &words))?.good()?;
    Ok(())
}

/// One thread is exact, however long the history is, and wherever the bounds of classes lie.
#[test]
fn planted_lifetimes_are_found() -> Result {
    for history in ["0", "64", "1000", "1000000"] {
        let (scratch, rounds) = (Scratch::new(), 3);
        recorded(&scratch, &["--history", history], 1, rounds)?;
        let found = lifetimes(&scratch.path("x.hl"))?;
        for (site, events) in EVENTS.into_iter().enumerate() {
            let mut by_events = vec![0; CLASSES.len()];
            by_events[class(events)] = rounds;
            let site = &found[&format!("site_{site}")];
            let is = (site.blocks, site.events, &site.by_events);
            check!(is == (rounds, rounds * events, &by_events), "history {history}, {events} events: {site:?}");
            check!(site.by_time.iter().sum::<u64>() == rounds, "history {history}, {events} events: {site:?}");
        }
        let filler = &found["site_filler"];
        let pairs = rounds * EVENTS.iter().map(|events| (events - 1) / 2).sum::<u64>();
        check!((filler.blocks, filler.events) == (pairs, pairs), "history {history}: {filler:?}");
        check!(filler.by_events[1..].iter().all(|blocks| *blocks == 0), "history {history}: {filler:?}");
        let slept = &found["site_slept"];
        check!(slept.by_time[0] == 0 && slept.by_events[0] == rounds, "history {history}: {slept:?}");
    }
    Ok(())
}

/// Between threads numbers have gaps; so what is summed is held against the events themselves.
#[test]
fn several_threads_agree_with_their_events() -> Result {
    for threads in [3, 12] {
        let scratch = Scratch::new();
        let rounds = if threads > 8 { 1 } else { 2 };
        recorded(&scratch, &["--history", "8000000"], threads, rounds)?;
        let ledger = scratch.path("x.hl");
        let columns = ["--where", "event == free", "--columns", "alloc_number,number,alloc_fn", "--csv"];
        let ran = run(command(heapledger()).arg("history").args(columns).arg(&ledger))?.good()?;
        let mut expected: BTreeMap<String, Lifetimes> = BTreeMap::new();
        for row in ran.out().lines().skip(1) {
            let [begin, end, function] = row.split(',').collect::<Vec<_>>()[..] else { return Err(row.to_owned()) };
            let number = |text: &str| text.parse::<u64>().map_err(|error| format!("{text}: {error}"));
            let events = number(end)? - number(begin)?;
            let sums = expected.entry(function.to_owned()).or_default();
            sums.by_events.resize(CLASSES.len(), 0);
            sums.by_events[class(events)] += 1;
            (sums.blocks, sums.events) = (sums.blocks + 1, sums.events + events);
        }
        let found = lifetimes(&ledger)?;
        check!(found.len() == expected.len(), "{threads} threads: {found:?}");
        for (function, expected) in expected {
            let found = Lifetimes { by_time: Vec::new(), ..found[&function].clone() };
            check!(found == expected, "{threads} threads, {function}: {found:?}, by its events {expected:?}");
        }
        for (site, events) in EVENTS.into_iter().enumerate() {
            let site = &found[&format!("site_{site}")];
            check!(site.blocks == threads * rounds, "{threads} threads, {events} events: {site:?}");
            let shorter: u64 = site.by_events[..class(events)].iter().sum();
            check!(shorter == 0, "{threads} threads, {events} events: {site:?}");
        }
    }
    Ok(())
}

/// Of a killed program each thread has one block that may be in one figure and not in another.
#[test]
fn lifetimes_outlive_a_kill() -> Result {
    let cases: [(&str, &[&str], u64); 3] = [
        ("bench_paths", &["burst", "20", "1000000000"], 1),
        ("bench_threads", &["4", "1000000000", "8"], 5),
        ("producer_consumer", &["1000000000"], 3),
    ];
    let mut all = 0;
    for round in 0..4u64 {
        for (program, words, threads) in cases {
            let options: &[&str] = if round % 2 == 1 { &["--history", "0"] } else { &[] };
            let scratch = Scratch::new();
            let ledger = killed(&scratch, options, program, words, Duration::from_millis(90 + 37 * round))?;
            for (function, found) in lifetimes(&ledger)? {
                let Lifetimes { blocks, events, by_events, .. } = &found;
                let classified: u64 = by_events.iter().sum();
                check!(classified.abs_diff(*blocks) <= threads, "{program}, {function}: {found:?}");
                // What one of them lived for may be missing.
                let least: u64 = by_events.iter().zip(CLASSES).map(|(blocks, least)| blocks * least.max(1)).sum();
                let slack = if by_events[3..].iter().any(|blocks| *blocks != 0) { 1_000_000 } else { 1000 };
                check!(events + threads * slack >= least, "{program}, {function}: {found:?}");
                all += blocks;
            }
        }
    }
    check!(all > 100_000, "{all} blocks in all: nobody was at work");
    Ok(())
}

/// Where nobody has summed it, it is not made up: in samples, of some blocks, in other commands.
#[test]
fn what_is_not_known_is_not_said() -> Result {
    let scratch = Scratch::new();
    recorded(&scratch, &["--sample", "100"], 1, 1)?;
    let ledger = scratch.path("x.hl");
    let refused = |words: &[&str], why: &str| -> Result {
        let ran = run(command(heapledger()).args(words).arg(&ledger))?;
        let is_refused = !ran.status.success() && ran.stdout.is_empty() && ran.err().contains(why);
        check!(is_refused && ran.err().lines().count() == 1, "{words:?}: {}", ran.err());
        Ok(())
    };
    let by = ["dump", "--group-by", "fn", "--by", "lifetime"];
    refused(&by, "a sampled ledger does not say for how long")?;
    recorded(&scratch, &["--force"], 1, 1)?;
    refused(&[&by[..], &["--where", "size > 1"]].concat(), "not with a filter")?;
    refused(&["dump", "--group-by", "thread", "--by", "lifetime"], "not by thread")?;
    refused(&["tree", "--by", "lifetime"], "for dump --group-by fn")?;
    refused(&["flame", "--by", "lifetime"], "for dump --group-by fn")?;
    refused(&["export", "folded", "--by", "lifetime"], "for dump --group-by fn")
}
