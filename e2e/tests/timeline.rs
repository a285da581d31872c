//! How the heap grew, as `timeline` tells it: spikes that a program makes when it is told to, seen from outside, by the recorder alone,
//! and by both, when `run` is killed in between.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use heapledger_e2e::ledger::{Stats, read};
use heapledger_e2e::process::{self, PATIENCE};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, heapledger};
use heapledger_e2e::tracked::{by_hand, recover, under_run};
use heapledger_e2e::{Result, check};
use serde_json::Value;

/// Holds as many MiB as each line of its input says, and uses them, and answers each line; a number below 0 is a spike of so many that is
/// gone when it is answered.
const SOURCE: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static char *held[1024];
static int count;
static void hold(int wanted) {
    while (count < wanted) { held[count] = malloc(1 << 20); memset(held[count++], 1, 1 << 20); }
    while (count > wanted) free(held[--count]);
}
int main(void) {
    int wanted;
    while (scanf("%d", &wanted) == 1 && wanted <= 1024 && wanted >= -1024) {
        int before = count;
        hold(abs(wanted));
        if (wanted < 0) hold(before);
        printf("%d\n", count);
        fflush(stdout);
    }
    return 0;
}
"#;

const MIB: u64 = 1 << 20;

struct Grows {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Grows {
    fn program(scratch: &Scratch) -> Result<std::path::PathBuf> {
        let (source, program) = (scratch.path("grows.c"), scratch.path("grows"));
        fs::write(&source, SOURCE).map_err(|error| error.to_string())?;
        let compiled = Command::new("gcc").arg("-O1").arg("-o").arg(&program).arg(&source).status();
        check!(compiled.is_ok_and(|status| status.success()), "gcc");
        Ok(program)
    }

    fn start(mut command: Command) -> Result<Grows> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let (input, output) = (child.stdin.take().ok_or("stdin")?, child.stdout.take().ok_or("stdout")?);
        Ok(Grows { child, input, output: BufReader::new(output) })
    }

    /// Comes back when the program holds so much, or has had its spike.
    fn hold(&mut self, mib: i64) -> Result {
        writeln!(self.input, "{mib}").map_err(|error| error.to_string())?;
        let mut line = String::new();
        self.output.read_line(&mut line).map_err(|error| error.to_string())?;
        check!(mib < 0 || line.trim() == mib.to_string(), "it answers {line:?}");
        Ok(())
    }

    fn end(mut self) -> Result {
        drop(self.input);
        let ended = self.child.wait().map_err(|error| error.to_string())?;
        check!(ended.success(), "{ended}");
        Ok(())
    }
}

/// Of a ledger, the line about the whole and the points.
fn timeline(ledger: &Path) -> Result<(Value, Vec<Value>)> {
    let mut lines = read("timeline", ledger, &[])?;
    check!(lines.len() > 3, "{} lines", lines.len());
    let whole = lines.remove(1);
    check!(whole["type"] == "timeline", "{whole}");
    Ok((whole, lines.into_iter().filter(|line| line["type"] == "point").collect()))
}

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or(u64::MAX)
}

/// What holds of any: points are in order, and the highest of them is the ledger's peak.
fn check_curve(ledger: &Path) -> Result<(Value, Vec<Value>)> {
    let (whole, points) = timeline(ledger)?;
    let stats = Stats::of(ledger)?;
    let said = format!("{whole}");
    check!(points.len() <= 2000, "{} points", points.len());
    let in_order = points.windows(2).all(|pair| number(&pair[0], "end_ns") <= number(&pair[1], "begin_ns"));
    check!(in_order, "points overlap: {points:?}");
    let highest = points.iter().map(|point| number(point, "highest_bytes")).max();
    check!(highest == Some(stats.number("peak_bytes")), "the highest is {highest:?}: {said}");
    check!(whole["peak_bytes"] == stats.0["peak_bytes"] && whole["peak_blocks"] == stats.0["peak_blocks"], "{said}");
    check!(whole["peak_time_ns"] == stats.0["peak_time_ns"], "{said}, stats: {}", stats.0["peak_time_ns"]);
    let last = points.last().ok_or("no points")?;
    for key in ["live_bytes", "live_blocks", "allocations", "frees"] {
        check!(last[key] == stats.0[key], "in the end {key} is {}, stats: {}", last[key], stats.0[key]);
    }
    for point in &points {
        let [begin, end, at] = ["begin_ns", "end_ns", "highest_ns"].map(|key| number(point, key));
        check!(begin <= at && at <= end, "{point}");
        let [lowest, live, highest] = ["lowest_bytes", "live_bytes", "highest_bytes"].map(|key| number(point, key));
        check!(lowest <= live && live <= highest, "{point}");
    }
    Ok((whole, points))
}

/// Until somebody has looked at a program that has held so much for a while.
fn pause() {
    sleep(Duration::from_millis(120));
}

#[test]
fn run_sees_what_is_held_and_what_memory_there_is() -> Result {
    let scratch = Scratch::new();
    let mut grows = Grows::start(under_run(&scratch, "grows", &[], &Grows::program(&scratch)?, &[]))?;
    for mib in [5, 20, -70, 20, 3] {
        grows.hold(mib)?;
        pause();
    }
    grows.end()?;
    let ledger = scratch.path("grows.hl");
    let (whole, points) = check_curve(&ledger)?;
    let peak = number(&whole, "peak_bytes");
    check!((70 * MIB..71 * MIB).contains(&peak), "a spike that was gone at once: {peak}");
    let of_run: Vec<&Value> = points.iter().filter(|point| point["seen_by"] == "run").collect();
    check!(of_run.len() >= 4, "run has looked {} times", of_run.len());
    // Where 20 MiB were held, they were there.
    let held = of_run.iter().filter(|point| (20 * MIB..21 * MIB).contains(&number(point, "live_bytes")));
    let memory: Vec<u64> =
        held.map(|point| number(point, "resident_bytes")).filter(|bytes| *bytes != u64::MAX).collect();
    // What is the recorder's is known but for a little.
    let is_there = |bytes: &u64| (20 * MIB - MIB / 4..30 * MIB).contains(bytes);
    // The first look may be one at a program that is still writing to what it holds.
    let written = memory.get(usize::from(!memory.first().is_some_and(is_there))..).unwrap_or(&[]);
    check!(!written.is_empty() && written.iter().all(is_there), "with 20 MiB held: {memory:?}");
    let faults = of_run.iter().filter_map(|point| point["minor_faults"].as_u64()).max();
    check!(faults.is_some_and(|faults| faults > 70 * MIB / 4096 / 2), "{faults:?} page faults");
    Ok(())
}

#[test]
fn the_summary_has_a_line_of_what_run_saw() -> Result {
    let scratch = Scratch::new();
    let told = scratch.path("summary");
    let mut run = command(heapledger());
    run.args(["run", "--ledger-dir"]).arg(scratch.live()).arg("-o").arg(scratch.path("grows.hl"));
    run.arg(Grows::program(&scratch)?).stderr(fs::File::create(&told).map_err(|error| error.to_string())?);
    let mut grows = Grows::start(run)?;
    for mib in [5, 40, 8, 3] {
        grows.hold(mib)?;
        pause();
    }
    grows.end()?;
    let summary = fs::read_to_string(told).map_err(|error| error.to_string())?;
    let line = summary.lines().find(|line| line.contains("over time")).unwrap_or_default();
    let most = line.split("; anon RSS up to ").nth(1).and_then(|most| most.split('.').next()?.parse::<u64>().ok());
    check!(line.contains('█') && most.is_some_and(|most| (39..45).contains(&most)), "{summary}");
    Ok(())
}

/// Runs `timeline` with these options.
fn shown(ledger: &Path, options: &[&str]) -> Result<process::Ran> {
    let mut command = command(heapledger());
    command.arg("timeline").args(options).arg(ledger).env("COLUMNS", "80");
    process::run(&mut command)?.good()
}

#[test]
fn a_chart_a_table_and_a_picture_tell_of_it() -> Result {
    let scratch = Scratch::new();
    let mut grows = Grows::start(under_run(&scratch, "grows", &[], &Grows::program(&scratch)?, &[]))?;
    for mib in [5, 40, 8] {
        grows.hold(mib)?;
        pause();
    }
    grows.end()?;
    let ledger = scratch.path("grows.hl");
    let (_, points) = check_curve(&ledger)?;
    let text = shown(&ledger, &[])?.out();
    check!(text.starts_with("Heap of grows over ") && text.contains("peak 40.0 MiB, after "), "{text}");
    check!(
        text.contains("\n  40.0 MiB │") && text.contains("   RSS\n") && text.contains("by run, from outside"),
        "{text}"
    );
    let table = shown(&ledger, &["--csv"])?.out();
    check!(table.lines().count() == points.len() + 1 && table.starts_with("begin_ns,end_ns,live_bytes,"), "{table}");
    let picture = scratch.path("curve.svg");
    shown(&ledger, &["--svg", &picture.to_string_lossy()])?;
    let picture = fs::read_to_string(picture).map_err(|error| error.to_string())?;
    check!(picture.contains("<svg ") && picture.ends_with("</svg>\n") && !picture.contains("NaN"), "{picture}");
    Ok(())
}

#[test]
fn of_a_program_whose_run_was_killed_there_is_what_the_recorder_noted() -> Result {
    let scratch = Scratch::new();
    let program = Grows::program(&scratch)?;
    let mut grows = Grows::start(under_run(&scratch, "grows", &[], &program, &[]))?;
    grows.hold(4)?;
    pause();
    grows.child.kill().map_err(|error| error.to_string())?;
    for mib in [30, -50, 30, 2] {
        grows.hold(mib)?;
        pause();
    }
    drop(grows.input);
    let mut rest = String::new();
    // The program holds the other end as long as it lives.
    std::io::Read::read_to_string(&mut grows.output, &mut rest).map_err(|error| error.to_string())?;
    grows.child.wait().map_err(|error| error.to_string())?;
    let end = Instant::now() + PATIENCE;
    let ledger = loop {
        // It may not be gone yet for those who ask.
        if let [ledger] = &recover(&scratch)?[..] {
            break ledger.clone();
        }
        check!(Instant::now() < end, "nothing is recovered");
        sleep(Duration::from_millis(20));
    };
    by_the_recorder_alone(&ledger)
}

fn by_the_recorder_alone(ledger: &Path) -> Result {
    let (whole, points) = check_curve(ledger)?;
    let peak = number(&whole, "peak_bytes");
    check!((50 * MIB..51 * MIB).contains(&peak), "{peak}");
    check!(points.iter().all(|point| point["seen_by"] != "run" && point["resident_bytes"].is_null()), "{points:?}");
    let text = shown(ledger, &[])?.out();
    check!(text.contains("by the recorder alone, when something was allocated or freed: no RSS"), "{text}");
    Ok(())
}

#[test]
fn without_run_the_recorder_notes_it() -> Result {
    let scratch = Scratch::new();
    let program = Grows::program(&scratch)?;
    let mut grows = Grows::start(by_hand(&scratch, &[], &program, &[]))?;
    for mib in [4, 30, -50, 30, 2] {
        grows.hold(mib)?;
        pause();
    }
    // Of a program that goes on as well: it is not stopped.
    let (whole, points) = timeline(Path::new(&grows.child.id().to_string()))?;
    check!(number(&whole, "peak_bytes") > 50 * MIB && points.len() > 1, "{whole}");
    // What memory it has now is there to be asked, and what it had is not.
    let (last, before) = points.split_last().ok_or("no points")?;
    let now = last["resident_bytes"].as_u64().unwrap_or(0);
    // The 2 MiB that it holds, less what is taken for the recorder's tables: there that is more than they are by a little.
    check!(now > MIB && last["seen_by"] == "totals", "{last}");
    check!(before.iter().all(|point| point["resident_bytes"].is_null()), "{before:?}");
    let text = shown(Path::new(&grows.child.id().to_string()), &[])?.out();
    check!(text.contains(" now; anonymous memory") && !text.contains("   RSS\n"), "{text}");
    grows.end()?;
    let ledgers = recover(&scratch)?;
    by_the_recorder_alone(ledgers.first().ok_or("nothing is recovered")?)
}

#[test]
fn what_a_process_becomes_has_a_curve_of_its_own() -> Result {
    let scratch = Scratch::new();
    let program = Grows::program(&scratch)?;
    let arguments = ["-c".to_owned(), format!("exec {}", program.display())];
    let mut grows = Grows::start(under_run(&scratch, "grows", &[], "/bin/sh".as_ref(), &arguments))?;
    for mib in [2, 12, 3] {
        grows.hold(mib)?;
        pause();
    }
    grows.end()?;
    let (_, points) = check_curve(&scratch.path("grows.hl"))?;
    check!(points.iter().filter(|point| point["seen_by"] == "run").count() >= 4, "{points:?}");
    check_curve(&scratch.path("grows.hl.1")).map(drop)
}

#[test]
fn the_peak_is_compared_with_the_end() -> Result {
    let scratch = Scratch::new();
    let mut grows = Grows::start(under_run(&scratch, "grows", &[], &Grows::program(&scratch)?, &[]))?;
    for mib in [5, 40, 8] {
        grows.hold(mib)?;
    }
    grows.end()?;
    let ledger = scratch.path("grows.hl");
    let stats = Stats::of(&ledger)?;
    let lines = read("diff", &ledger, &["--at", "peak"])?;
    let whole = lines.iter().find(|line| line["type"] == "diff").ok_or("no diff")?;
    check!(whole["one_run"] == true, "{whole}");
    let of = |side: &str, key: &str| whole[side][key].as_u64();
    check!(of("before", "bytes") == Some(stats.number("peak_bytes")), "{whole}");
    check!(of("after", "bytes") == Some(stats.number("live_bytes")), "{whole}");
    check!(of("freed", "bytes") >= Some(32 * MIB) && of("new", "bytes") < Some(MIB), "{whole}");
    let both =
        lines.iter().filter(|line| line["type"] == "change").map(|change| change["growth_bytes"].as_i64().unwrap_or(0));
    let growth =
        i64::try_from(stats.number("live_bytes")).unwrap_or(0) - i64::try_from(stats.number("peak_bytes")).unwrap_or(0);
    check!(both.sum::<i64>() == growth, "{growth}: {lines:?}");
    // Two peaks: the same program is as high twice.
    let again = read("diff", &ledger, &["--at", "peak", &ledger.to_string_lossy()])?;
    check!(again.iter().all(|line| line["type"] != "change"), "{again:?}");
    let refused = process::run(command(heapledger()).args(["diff", "--at", "peak", "--blocks"]).arg(&ledger))?;
    check!(refused.status.code() == Some(2) && refused.err().contains("--at peak compares by call stack"), "{refused}");
    Ok(())
}
