//! What is said about samples, and which intervals are taken.

use std::path::Path;
use std::process::Stdio;

use heapledger_e2e::ledger::{Stats, check_totals, read};
use heapledger_e2e::process::{self, PATIENCE, Ran, until};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, heapledger};
use heapledger_e2e::tracked::{preload_list, recover, run_cleanly, shell, under_run};
use heapledger_e2e::{Result, check, victim};

use super::{check_books, until_it_stands_still};

fn tell(name: &str, target: &str, more: &[&str]) -> Result<String> {
    let ran = process::run(command(heapledger()).arg(name).args(more).arg(target))?.good()?;
    check!(ran.err().is_empty(), "{name} says on stderr: {}", ran.err());
    Ok(ran.out())
}

/// Figures that follow one of these words are estimates, so the first thing behind it is a `~`.
const ESTIMATES: &[&str] = &["History   : ", "Current   : ", "Actual    : ", "Overhead  : ", "Peak      : "];

/// Every report of a sampled ledger, or of a process, says so and marks its estimates.
fn check_marked(target: &str, interval: u64, shown: &str) -> Result {
    let stats = tell("stats", target, &[])?;
    let line = format!("Sampled   : one block in {shown}; figures marked ~ are estimates");
    check!(stats.contains(&line), "stats does not say {line:?}:\n{stats}");
    for word in ESTIMATES {
        let told = stats.lines().find_map(|line| line.strip_prefix(word)).ok_or_else(|| format!("no {word}:\n{stats}"));
        check!(told?.starts_with('~'), "{word} is not marked:\n{stats}");
    }
    // Rows of tables: the function and three figures; threads, heaps and call sites with what they hold.
    for (begin, what) in [("malloc ", "malloc"), ("0 ", "the first thread")] {
        let row = stats.lines().find(|line| line.starts_with("  ") && line.trim_start().starts_with(begin));
        let row = row.ok_or_else(|| format!("no row for {what}:\n{stats}"))?;
        check!(row.split_whitespace().skip(1).filter(|word| word.starts_with('~')).count() == 3, "{row}");
    }
    for part in ["holds ~", " samples) "] {
        check!(stats.contains(part), "stats has no {part:?}:\n{stats}");
    }

    for (name, words) in [("dump", "of live blocks from "), ("history", "of all blocks from ")] {
        let text = tell(name, target, &["--limit", "20"])?;
        let first = text.lines().next().unwrap_or_default();
        check!(first.starts_with(&line) && first.contains(words), "{name} begins with {first:?}");
        let marked = text.lines().filter(|line| line.contains(", stands for ~")).count();
        check!(marked >= 20, "{name} marks {marked} of 20:\n{text}");
    }

    for name in ["stats", "dump", "history"] {
        let lines = read(name, target, if name == "stats" { &[] } else { &["--limit", "20"] })?;
        let told = &lines[0]["sampled"];
        check!(told["interval_bytes"].as_u64() == Some(interval), "{name} --json says of samples: {told}");
        check!(told["samples"].as_u64().is_some_and(|samples| samples > 100), "{name} --json says of samples: {told}");
        for line in lines.iter().filter(|line| line["type"] == "block" || line["type"] == "event") {
            check!(line["weight"].as_u64().is_some_and(|weight| weight >= 1), "{name} --json: no weight: {line}");
        }
    }
    let lines = read("stats", target, &[])?;
    for key in ["live_blocks_error", "live_bytes_error"] {
        let error = lines[1]["sampled"][key].as_f64();
        check!(error.is_some_and(|error| error > 0.0), "stats --json: {key} is {error:?}");
    }
    Ok(())
}

/// No estimate, and no word of samples.
fn check_unmarked(target: &str) -> Result {
    for name in ["stats", "dump", "history"] {
        let text = tell(name, target, if name == "stats" { &[] } else { &["--limit", "20"] })?;
        check!(!text.contains('~') && !text.contains("ampled"), "{name} speaks of samples:\n{text}");
        let lines = read(name, target, if name == "stats" { &[] } else { &["--limit", "20"] })?;
        check!(lines[0]["sampled"].is_null(), "{name} --json says of samples: {}", lines[0]["sampled"]);
        check!(lines.iter().all(|line| line["weight"].is_null()), "{name} --json has weights");
    }
    Ok(())
}

#[test]
fn estimates_are_marked() -> Result {
    let (scratch, program) = (Scratch::new(), victim::named("sample_mix")?.build()?);
    let mut run = command(heapledger());
    run.args(["run", "--sample", "4K", "-o"]).arg(scratch.path("x.hl")).arg("--").arg(&program);
    let ran = run_cleanly(&scratch, run.current_dir(scratch.work()))?.good()?;
    let said = ran.err();
    for part in [
        "  sampled      one block in 4.00 KiB; figures marked ~ are estimates",
        "  allocated    ~",
        " in all; ~",
        "  peak         ~",
        "  live at end  ~",
        "  ~20.0 MiB in ~5 blocks",
    ] {
        check!(said.contains(part), "the summary has no {part:?}:\n{said}");
    }
    check_marked(&scratch.path("x.hl").to_string_lossy(), 4096, "4.00 KiB")
}

#[test]
fn estimates_of_a_process_are_marked() -> Result {
    let (scratch, program) = (Scratch::new(), victim::named("sample_mix")?.build()?);
    heapledger(); // built now, and not while the victim runs
    let mut run = under_run(&scratch, "x", &["--sample", "512"], &program, &["stand".into()]);
    let running = process::start(run.stdin(Stdio::piped()))?;
    let mut program = None;
    until("it runs", || {
        program = process::children(running.pid()).first().copied();
        program.is_some_and(|pid| Stats::of(pid.to_string()).is_ok())
    })?;
    let pid = program.ok_or("it does not run")?;
    until_it_stands_still(pid, 1000)?;
    let pid = pid.to_string();
    let lines = read("stats", &pid, &[])?;
    check!(lines[1]["process"]["running"] == true, "it runs, and stats does not say so");
    check_marked(&pid, 512, "512 B")?;
    // Its input ends, and with it the program.
    let mut running = running;
    drop(running.child.stdin.take());
    let ran = running.finish(PATIENCE)?.good()?;
    check!(ran.out() == "standing\n", "{ran}");
    check_marked(&scratch.path("x.hl").to_string_lossy(), 512, "512 B")
}

#[test]
fn full_ledgers_know_no_samples() -> Result {
    let (scratch, program) = (Scratch::new(), victim::named("entry_points")?.build()?);
    for options in [&[][..], &["--sample", "0"]] {
        let mut run = command(heapledger());
        run.args(["run", "-o"]).arg(scratch.path("x.hl")).args(options).arg("--").arg(&program);
        let ran = run_cleanly(&scratch, run.current_dir(scratch.work()))?.good()?;
        check!(!ran.err().contains('~') && !ran.err().contains("sampled"), "the summary speaks of samples: {ran}");
        check_totals(&Stats::of(scratch.path("x.hl"))?, &[])?;
        check_unmarked(&scratch.path("x.hl").to_string_lossy())?;
        std::fs::remove_file(scratch.path("x.hl")).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// The longest interval: hardly ever a sample. The ledger is valid, and every report says what it has.
#[test]
fn a_ledger_without_samples() -> Result {
    let (scratch, program) = (Scratch::new(), victim::named("small_blocks")?.build()?);
    let mut run = command(heapledger());
    run.args(["run", "--sample", "1T", "-o"]).arg(scratch.path("x.hl")).arg("--").arg(&program);
    let ran = run_cleanly(&scratch, run.current_dir(scratch.work()))?.good()?;
    let target = scratch.path("x.hl").to_string_lossy().into_owned();
    let stats = Stats::of(&target)?;
    check_books(&stats, &[], 1 << 40)?;
    // Two megabytes are allocated: a sample comes in 1 of 500,000 runs.
    check!(stats.number("allocations") == 0 && stats.number("live_blocks") == 0, "there is a sample");
    check!(ran.err().contains("\n  live at end  no sample\n"), "the summary should say that there is no sample: {ran}");
    for (name, words) in
        [("stats", "holds no sample"), ("dump", "No sampled block is allocated."), ("history", "No event is recorded.")]
    {
        let text = tell(name, &target, &[])?;
        check!(text.contains(words) && text.contains("Sampled   : one block in 1.00 TiB"), "{name} says:\n{text}");
        let lines = read(name, &target, &[])?;
        check!(lines[0]["sampled"]["samples"].as_u64() == Some(0), "{name} --json: {}", lines[0]);
    }
    Ok(())
}

#[test]
fn odd_intervals_are_refused() -> Result {
    let refused = |value: &str| -> Result<Ran> {
        process::run(command(heapledger()).args(["run", &format!("--sample={value}"), "--", "true"]))
    };
    for value in ["often", "-1", "2T", "1.1T", "", "0x10", "1e6", "18446744073709551616"] {
        let ran = refused(value)?;
        check!(ran.status.code() == Some(2), "--sample={value}: {ran}");
        check!(ran.stdout.is_empty() && ran.err().starts_with("heapledger: "), "--sample={value}: {ran}");
        check!(ran.err().contains("--sample"), "--sample={value}: the message should name it: {ran}");
    }
    Ok(())
}

/// Preloaded by hand: the variable takes bytes, and what it does not understand is said and changes nothing.
#[test]
fn preloaded_by_hand() -> Result {
    const SCRIPT: &str = r#"session=$(printf %016x $$)
        export LD_PRELOAD="$1" HEAPLEDGER="dir=$2,pid=$$,session=$session,sample=$3"; shift 3; exec "$@""#;
    let program = victim::named("small_blocks")?.build()?;
    let run = |scratch: &Scratch, sample: &str| -> Result<Ran> {
        let arguments = [preload_list(&[]).into(), scratch.live().as_os_str().to_owned(), sample.into()];
        let mut run = shell(SCRIPT, &arguments.each_ref().map(|word| word.as_os_str()));
        process::run(run.arg(&program).current_dir(scratch.work()))?.good()
    };
    let ledger = |scratch: &Scratch| -> Result<Stats> {
        Stats::of(recover(scratch)?.last().ok_or("there is no ledger")?.as_path() as &Path)
    };
    let scratch = Scratch::new();
    let ran = run(&scratch, "512")?;
    check!(ran.err().is_empty(), "{ran}");
    check_books(&ledger(&scratch)?, &[], 512)?;

    for odd in ["often", "2199023255552", "4K", "-1"] {
        let scratch = Scratch::new();
        let ran = run(&scratch, odd)?;
        check!(ran.err().lines().count() == 1 && ran.err().contains(odd), "sample={odd} should be named: {ran}");
        let stats = ledger(&scratch)?;
        check!(stats.0["sampled"].is_null(), "sample={odd} is taken for {}", stats.0["sampled"]);
        check_totals(&stats, &[])?;
    }
    Ok(())
}
