//! Real programs with real work: prints a table of what the ledger, the counting library and heaptrack say of each.
//!
//!     cargo run --release -p heapledger-e2e --example real_programs [NAME…]
//!
//! `--quick` takes the small inputs of the tests. Figures of the counting library come from a run of their own, in which
//! it stands behind ours; what the ledger of that run says is held against them.

use std::process::ExitCode;

use heapledger_e2e::counts::Counts;
use heapledger_e2e::ledger::{Stats, check_totals};
use heapledger_e2e::process::kill;
use heapledger_e2e::programs::{Load, NAMES, PATIENCE, Redis, Row, examine, prepare, top};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tracked::{by_hand, recover};
use heapledger_e2e::victim::{self, counter};
use heapledger_e2e::{Result, check, process};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let load = if words.iter().any(|word| word == "--quick") { Load::Quick } else { Load::Large };
    let chosen: Vec<&String> = words.iter().filter(|word| !word.starts_with('-')).collect();
    let wanted = |name: &str| chosen.is_empty() || chosen.iter().any(|own| *own == name);
    println!("| program | allocations | frees | live | counting library | heaptrack | time without us, with us |");
    println!("|---|---:|---:|---:|---|---:|---|");
    let (mut notes, mut failed) = (Vec::new(), false);
    let redis = ["redis", "redis, SIGKILL"];
    for name in NAMES.iter().chain(&redis).filter(|name| wanted(name)) {
        let scratch = Scratch::new();
        let row = match *name {
            "redis" => served(&scratch, load, false),
            "redis, SIGKILL" => served(&scratch, load, true),
            name => one(name, &scratch, load),
        };
        match row {
            Ok(Some(row)) => {
                println!("{}", line(&row));
                notes.push(format!("- {}: {}", row.name, row.top));
            }
            Ok(None) => notes.push(format!("- {name}: not installed")),
            Err(problem) => {
                failed = true;
                println!("| {name} | FAILED: {problem} |");
            }
        }
    }
    println!("\nThe call site that holds most at the end:\n{}", notes.join("\n"));
    if load == Load::Large && wanted("producer_consumer") {
        match passed_on() {
            Ok(text) => println!("\n{text}"),
            Err(problem) => {
                failed = true;
                println!("\nproducer_consumer: FAILED: {problem}");
            }
        }
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn one(name: &str, scratch: &Scratch, load: Load) -> Result<Option<Row>> {
    match prepare(name, scratch, load)? {
        Some(program) => examine(&program, scratch, ["jq", "sqlite3", "xmllint"].contains(&name)).map(Some),
        None => Ok(None),
    }
}

fn line(row: &Row) -> String {
    let verdict =
        |own: u64, counted: u64| if own == counted { "equal".to_owned() } else { format!("{own} / {counted}") };
    let (allocations, frees) = row.counted;
    let counted = match (verdict(row.beside_counter.0, allocations), verdict(row.beside_counter.1, frees)) {
        (a, b) if a == "equal" && b == "equal" => format!("equal: {} and {}", group(allocations), group(frees)),
        (a, b) => format!("allocations {a}, frees {b}"),
    };
    let heaptrack = row.heaptrack.map_or_else(String::new, |figure| {
        let off = (row.allocations as f64 - figure as f64) / figure as f64 * 100.0;
        format!("{} ({off:+.3} %)", group(figure))
    });
    let (without, with) = row.seconds;
    format!(
        "| {} | {} | {} | {} | {counted} | {heaptrack} | {without:.1} s, {with:.1} s |",
        row.name,
        group(row.allocations),
        group(row.frees),
        group(row.live)
    )
}

/// 1,234,567
fn group(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// redis-server under redis-benchmark, with threads for input and output.
fn served(scratch: &Scratch, load: Load, kill_it: bool) -> Result<Option<Row>> {
    let requests = if load == Load::Quick { 20_000 } else { 150_000 };
    let plain = Redis::start(scratch, |program, arguments| {
        let mut command = heapledger_e2e::tools::command(program);
        command.args(arguments);
        command
    })?;
    let Some(plain) = plain else { return Ok(None) };
    let without = plain.benchmark(requests)?.finish(PATIENCE)?.good()?.span;
    plain.shut_down()?;

    let (counter, base) = (counter()?, scratch.path("counts"));
    let tracked = Redis::start(scratch, |program, arguments| {
        let mut command = by_hand(scratch, &[&counter], program, arguments);
        command.env("COUNTER_OUT", &base);
        command
    })?;
    let Some(tracked) = tracked else { return Ok(None) };
    let pid = tracked.pid();
    let with = if kill_it {
        let load = tracked.benchmark(1_000_000_000)?;
        std::thread::sleep(std::time::Duration::from_secs(5));
        kill(pid.into(), "KILL")?;
        tracked.gone()?;
        kill(-i64::from(load.pid()), "KILL").ok();
        load.finish(PATIENCE)?.span
    } else {
        let span = tracked.benchmark(requests)?.finish(PATIENCE)?.good()?.span;
        tracked.shut_down()?;
        span
    };
    let stats = Stats::of(recover(scratch)?.last().ok_or("there is no ledger")?)?;
    let counts = Counts::of(&base, &stats)?;
    counts.check(&stats, 0)?;
    check_totals(&stats, &[])?;
    let own = (stats.number("allocations"), stats.number("frees"));
    Ok(Some(Row {
        name: if kill_it { "redis-server, SIGKILL" } else { "redis-server" }.to_owned(),
        allocations: own.0,
        frees: own.1,
        live: stats.number("live_blocks"),
        counted: (counts.allocations(), counts.frees()),
        beside_counter: own,
        heaptrack: None,
        seconds: (without.as_secs_f32(), with.as_secs_f32()),
        top: top(&stats),
    }))
}

/// 10^8 blocks from one thread to another: the table of records stays at the live peak.
fn passed_on() -> Result<String> {
    let (scratch, program) = (Scratch::new(), victim::named("producer_consumer")?.build()?);
    let mut command = by_hand(&scratch, &[], &program, &["100000000".to_owned()]);
    let ran = process::run_within(&mut command, PATIENCE)?.good()?;
    let stats = Stats::of(scratch.unfinished().first().ok_or("there is no ledger")?)?;
    check_totals(&stats, &[])?;
    let bytes = stats.inner("ledger", "bytes");
    check!(bytes < 8 << 20, "the ledger takes {bytes} bytes");
    let (allocations, span) = (group(stats.number("allocations")), ran.span.as_secs_f32());
    Ok(format!("producer and consumer: {allocations} blocks in {span:.0} s, the ledger took {} bytes", group(bytes)))
}
