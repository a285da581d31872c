//! A ledger with a million blocks: what reading it takes in memory, and what it takes on disk. `cargo xtask scale` measures
//! the time, and larger ones.

use std::fs;
use std::path::{Path, PathBuf};

use heapledger_e2e::ledger::Stats;
use heapledger_e2e::process::{self, Ran, excerpt};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, heapledger};
use heapledger_e2e::tracked::{run_cleanly, under_run};
use heapledger_e2e::{Result, check, victim};

const LIVE: u64 = 1_000_000;
const FREED: u64 = 250_000;
/// What they take unpacked: 32 bytes a record, 64 a history entry.
const UNPACKED_BYTES: u64 = LIVE * 32 + FREED * 64;
/// What a command takes of memory for itself.
const ANY_BYTES: u64 = 36 << 20;
/// Most seconds that any of this takes; then it hangs.
const LIMIT_S: &str = "600";

/// What `heapledger WORDS LEDGER` did.
struct Did {
    ran: Ran,
    /// As `waitpid` gives it.
    status: i32,
    peak_bytes: u64,
    /// Of processor time, its own and the kernel's for it.
    processor_us: u64,
}

impl Did {
    /// Whether it was refused in a few lines: as wrongly typed, or because the ledger cannot serve it.
    fn is_refused(&self) -> bool {
        let said = self.ran.err();
        [1 << 8, 2 << 8].contains(&self.status) && !said.is_empty() && said.len() < 2000 && !said.contains("panicked")
    }
}

/// Runs `heapledger WORDS LEDGER`.
fn run_timed(scratch: &Scratch, ledger: &Path, words: &[&str]) -> Result<Did> {
    let timer = victim::named("bench_time")?.build()?;
    let figures = scratch.path("figures");
    let mut run = command(timer);
    run.arg(&figures).arg(LIMIT_S).arg(heapledger()).args(words).arg(ledger);
    let ran = process::run(&mut run)?.good()?;
    let line = fs::read_to_string(&figures).map_err(|error| error.to_string())?;
    let figure = |name: &str| {
        let word = line.split_ascii_whitespace().find_map(|word| word.strip_prefix(name));
        word.and_then(|word| word.parse::<u64>().ok()).ok_or_else(|| format!("the timer says {line}"))
    };
    let processor_us = figure("user=")? + figure("sys=")?;
    Ok(Did { ran, status: figure("status=")? as i32, peak_bytes: figure("maxrss_kib=")? << 10, processor_us })
}

/// The peak of memory of `heapledger WORDS LEDGER`, which is to go well.
fn peak_bytes(scratch: &Scratch, ledger: &Path, words: &[&str]) -> Result<u64> {
    let did = run_timed(scratch, ledger, words)?;
    check!(did.status == 0, "{words:?} failed: {}", did.ran);
    Ok(did.peak_bytes)
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
    // All blocks or events, in an order: no more than their records, beside what any command takes.
    for words in [
        &["dump", "-f", "%p"][..],
        &["dump", "-f", "%p", "-SNs"],
        &["dump", "--csv", "--columns", "addr,size"],
        &["dump", "-f", "%p", "--limit", "500000"],
        &["history", "-f", "%s"],
        &["history", "-f", "%s", "--reverse"],
        &["history", "--limit", "200000", "-f", "%s"],
    ] {
        let peak = peak_bytes(&scratch, &ledger, words)?;
        println!("{words:?}: {peak} bytes of memory, the records {}", LIVE * 32);
        check!(peak < LIVE * 32 + ANY_BYTES, "{words:?} takes {peak} bytes, more than the records");
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

/// Longest argument that a system passes on.
const LONGEST: usize = (128 << 10) - 1;
/// What any of this may take of memory.
const BOUND_BYTES: u64 = 96 << 20;
/// What any of this may take of a processor's time, which no load of the machine makes longer.
const SOON_US: u64 = 20_000_000;

/// Runs `heapledger WORDS LEDGER`, which must not take much of anything.
fn run_soon(scratch: &Scratch, ledger: &Path, words: &[&str]) -> Result<Did> {
    let did = run_timed(scratch, ledger, words)?;
    let shown: Vec<String> = words.iter().take(4).map(|word| excerpt(word.as_bytes())).collect();
    check!(did.peak_bytes < BOUND_BYTES, "{shown:?} takes {} bytes", did.peak_bytes);
    check!(did.processor_us < SOON_US, "{shown:?} takes {} µs", did.processor_us);
    Ok(did)
}

#[test]
fn absurd_formats_come_to_an_end() -> Result {
    let scratch = Scratch::new();
    let program = victim::named("leaky")?.build()?;
    let leaky = |name: &str, options: &[&str]| -> Result<PathBuf> {
        run_cleanly(&scratch, &mut under_run(&scratch, name, options, &program, &["10".to_owned()]))?.good()?;
        Ok(scratch.path(&format!("{name}.hl")))
    };
    let (deep, shallow) = (leaky("deep", &["--depth", "1024"])?, leaky("shallow", &["--depth", "3"])?);
    let repeated = |text: &str| text.repeat(LONGEST / text.len());
    for (format, wanted) in [
        (repeated("x"), "x"),
        (repeated("%p"), "0x"),
        (repeated("%%"), "%"),
        (repeated("\\n"), "\n"),
        (repeated("%l1%w1%f1%b1 "), "leaky.c:"),
        (repeated("%l512"), "?"),
        ("%l512".to_owned(), "?"),
        ("%b4294967295".to_owned(), "0x00000000"),
    ] {
        let did = run_soon(&scratch, &deep, &["dump", "-f", &format])?;
        let (shown, out) = (excerpt(format.as_bytes()), did.ran.out());
        // The last may be deeper than the ledger records, and is refused then.
        let told = did.status == 0 && out.contains(wanted) && out.lines().count() >= 10;
        check!(told || format.contains("4294967295") && did.is_refused(), "{shown}: {}", did.ran);
    }
    for format in [
        repeated("%q"),
        repeated("%"),
        "%b99999999999999999999".to_owned(),
        format!("%f{}", "9".repeat(LONGEST - 2)),
        format!("{}%", repeated("%p%n").trim_end_matches("%n")),
        "%l512".to_owned(),
        repeated("%l512"),
    ] {
        let did = run_soon(&scratch, &shallow, &["dump", "-f", &format])?;
        check!(did.is_refused(), "{}: {}", excerpt(format.as_bytes()), did.ran);
    }
    Ok(())
}

#[test]
fn absurd_lists_come_to_an_end() -> Result {
    let scratch = Scratch::new();
    let program = victim::named("leaky")?.build()?;
    run_cleanly(&scratch, &mut under_run(&scratch, "x", &[], &program, &[]))?.good()?;
    let ledger = scratch.path("x.hl");
    let repeated = |text: &str| text.repeat(LONGEST / text.len());
    // Many of what may be given often, as many as a system passes on. Of some, so many are not taken.
    for (word, many) in [
        ("-Fsize_min=1", 60_000),
        ("-Fsize_min=1", 200),
        ("--where=size >= 1 and fn ~ \"copy\"", 20_000),
        ("--where=size >= 1 or fn ~ \"copy\"", 60),
        ("-I*a*b*c*d*e", 20_000),
        ("--hide=x", 60_000),
        ("--hide=x", 200),
    ] {
        let words: Vec<&str> = ["dump"].into_iter().chain(std::iter::repeat_n(word, many)).collect();
        let did = run_soon(&scratch, &ledger, &words)?;
        let told = did.status == 0 && did.ran.out().contains("copy_name");
        check!(told || many > 200 && did.is_refused(), "{many} {word}: {}", did.ran);
    }
    for (option, list) in [
        ("--columns", repeated("addr,")),
        ("--columns", repeated("x")),
        ("--columns", repeated(",")),
        ("--sort", repeated("size:desc,")),
        ("--sort", format!("size:{}", "a".repeat(LONGEST - 5))),
        ("-S", repeated("nN")),
        ("--group-by", repeated("fn,file,")),
        ("--group-by", repeated("x,")),
        ("-I", repeated("*a")),
        ("-F", format!("size_min={}", "9".repeat(LONGEST - 9))),
        ("-F", repeated("size_min=1 ")),
        ("--hide", repeated("(a{1,1000})")),
        ("--color", repeated("always")),
    ] {
        let did = run_soon(&scratch, &ledger, &["dump", option, &list])?;
        check!(did.is_refused(), "{option} {}: {}", excerpt(list.as_bytes()), did.ran);
    }
    Ok(())
}
