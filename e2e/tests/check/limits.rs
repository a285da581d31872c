//! Limits that hold or do not, growth since another run, and figures that are known within an error.

use std::fs;

use heapledger_e2e::ledger::Stats;
use heapledger_e2e::process;
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, heapledger};
use heapledger_e2e::tracked::under_run;
use heapledger_e2e::{Result, check, victim};
use serde_json::Value;

use crate::standards::{READ_STRICTLY, check_sarif};
use crate::{checked, compiled, expect, ledger, recorded};

#[test]
fn limits_hold_or_do_not() -> Result {
    let scratch = Scratch::new();
    let ledger = ledger(&scratch, "x", 100, &[])?;
    let of = |words: &[&str]| checked(&ledger, words);
    expect(&of(&["--max-live", "1M", "--max-peak", "1M", "--max-allocs", "1000"])?, 0, &["3 limits, all hold"])?;
    expect(
        &of(&["--max-leaked", "0"])?,
        1,
        &["EXCEEDED", "copy_name (leaky.c:", "make_cache", "101 blocks", "by design"],
    )?;
    expect(&of(&["--max-leaked", "0", "--all-leaks"])?, 1, &["102 blocks"])?;
    expect(&of(&["--max-leaked", "100M"])?, 0, &["and it holds"])?;
    expect(
        &of(&["--max-leaked", "0", "--where", "fn == \"make_cache\""])?,
        1,
        &["97.7 KiB in 1 block,", "97.7 KiB  1 block  make_cache"],
    )?;
    expect(&of(&["--max-live-blocks", "100", "-Fsize_max=1000"])?, 0, &["100 blocks, the limit is 100"])?;
    expect(&of(&["--max-peak", "1", "-Fsize_max=1000"])?, 2, &["--max-peak"])?;
    expect(&of(&["--max-live", "1", "--where", "size >"])?, 2, &["--where"])?;
    // Several limits, each told.
    let several = of(&["--max-live-blocks", "5", "--max-allocated", "1K", "--max-peak", "1G", "--top", "1"])?;
    expect(&several, 1, &["3 limits, 2 exceeded", "(--max-live-blocks)", "(--max-allocated)", "ok       peak"])?;
    let suppressions = scratch.path("known.supp");
    let shown = suppressions.to_string_lossy().into_owned();
    fs::write(&suppressions, "# the cache is left to the end\nleak:^make_cache$\nleak:copy_*me\n")
        .map_err(|error| error.to_string())?;
    expect(&of(&["--max-leaked", "0", "--suppress", &shown])?, 0, &["leak:copy_*me", "leak:^make_cache$"])?;
    fs::write(&suppressions, "leak:x\nrace:y\n").map_err(|error| error.to_string())?;
    expect(&of(&["--max-leaked", "0", "--suppress", &shown])?, 2, &["line 2"])?;
    for (words, said) in [
        (&[][..], "there is no limit"),
        (&["--max-live", "much"], "much"),
        (&["--max-live", "1", "--max-growth", "5%"], "--baseline"),
        (&["--max-growth=-1%", "--baseline", "x"], "-1%"),
        (&["--max-growth", "-50%", "--baseline", "x"], "'-50%' is not a percentage such as 5%"),
        (&["--max-live", "1", "--suppress", "/no/such"], "/no/such"),
        (&["--max-live", "1", "--suppress", "/dev/zero"], "/dev/zero: it has more than 16.0 MiB"),
        (&["--baseline", "/no/such.hl"], "/no/such.hl"),
    ] {
        let ran = of(words)?;
        expect(&ran, 2, &[said])?;
        check!(ran.stdout.is_empty(), "wrong usage prints nothing: {ran}");
    }
    expect(&checked(&scratch.path("none.hl"), &["--max-live", "1"])?, 2, &["none.hl"])
}

#[test]
fn growth_is_told_with_the_stack_that_grew() -> Result {
    let scratch = Scratch::new();
    let (old, new) = (ledger(&scratch, "old", 100, &[])?, ledger(&scratch, "new", 5000, &[])?);
    let baseline = old.to_string_lossy();
    expect(&checked(&old, &["--baseline", &baseline, "--max-growth", "0"])?, 0, &["all hold"])?;
    expect(&checked(&new, &["--baseline", &baseline])?, 1, &["+4,900 blocks  copy_name (leaky.c:", "2 exceeded"])?;
    expect(&checked(&new, &["--baseline", &baseline, "--max-growth", "100%"])?, 0, &["all hold"])?;
    expect(&checked(&new, &["--baseline", &baseline, "--max-growth", "1M"])?, 0, &["all hold"])
}
#[test]
fn estimates_are_inconclusive_within_their_error() -> Result {
    let scratch = Scratch::new();
    let ledger = ledger(&scratch, "s", 100_000, &["--sample", "4K"])?;
    let stats = Stats::of(&ledger)?;
    let live = stats.number("live_bytes");
    let just_below = (live - stats.inner("sampled", "live_bytes_error")).to_string();
    let words = ["UNCLEAR", "inconclusive, it may be anything from", "twice its standard error"];
    expect(&checked(&ledger, &["--max-live", &just_below])?, 3, &words)?;
    let just_above = (live + stats.inner("sampled", "live_bytes_error")).to_string();
    expect(&checked(&ledger, &["--max-live", &just_above])?, 3, &words)?;
    expect(&checked(&ledger, &["--max-live", &(live * 2).to_string()])?, 0, &["and it holds"])?;
    let far_below = (live / 10).to_string();
    expect(&checked(&ledger, &["--max-live", &far_below])?, 1, &["EXCEEDED", "~"])?;
    expect(&checked(&ledger, &["--max-leaked", "0"])?, 1, &["EXCEEDED"])
}

/// Threads that hold 160,000 bytes together and free 32,000: nobody knows how much lived at a time.
const THREADS: &str = "
#include <pthread.h>
#include <stdlib.h>
static void *volatile kept[4];
static void *work(void *number) {
    kept[(long)number] = malloc(40000);
    void *volatile shortly = malloc(8000);
    free(shortly);
    return NULL;
}
int main(void) {
    pthread_t threads[4];
    for (long n = 0; n < 4; n++) if (pthread_create(&threads[n], NULL, work, (void *)n)) return 1;
    for (int n = 0; n < 4; n++) pthread_join(threads[n], NULL);
    return 0;
}
";

/// A limit between what is known for certain, below and above, is told to be that in every form.
#[test]
fn a_peak_within_its_error_is_inconclusive() -> Result {
    let scratch = Scratch::new();
    let program = compiled(&scratch, "threads", THREADS, &["-g", "-pthread"])?;
    let ledger = recorded(&scratch, "t", &[], &program)?;
    let wide = checked(&ledger, &["--max-peak", "1", "--json"])?;
    let limit: Value = wide.out().lines().nth(1).and_then(|line| serde_json::from_str(line).ok()).unwrap_or_default();
    let figure = |name: &str| limit[name].as_u64().ok_or_else(|| format!("no {name}: {limit}"));
    let (least, most) = (figure("at_least")?, figure("at_most")?);
    check!((160_000..192_000).contains(&least) && most > least && most < 200_000, "{limit}");
    for (limit, code) in [(least - 1, 1), (least, 3), (most - 1, 3), (most, 0)] {
        let limit = limit.to_string();
        expect(&checked(&ledger, &["--max-peak", &limit])?, code, &["peak: "])?;
        let passed = if code == 3 { 0 } else { code };
        expect(&checked(&ledger, &["--max-peak", &limit, "--inconclusive", "pass"])?, passed, &["peak: "])?;
    }
    let between = ((least + most) / 2).to_string();
    let of = |words: &[&str]| checked(&ledger, &[&["--max-peak", &between], words].concat());
    expect(&of(&[])?, 3, &["UNCLEAR", "inconclusive, it may be anything from", "--inconclusive pass"])?;
    // One that is exceeded for certain is, whatever else is not known.
    expect(&of(&["--max-live", "1"])?, 1, &["UNCLEAR", "EXCEEDED", "2 limits, 1 exceeded, 1 inconclusive"])?;
    expect(&of(&["--format", "github"])?, 3, &["::error ", "(inconclusive)"])?;
    expect(&of(&["--format", "github", "--inconclusive", "pass"])?, 0, &["::warning ", "(inconclusive)"])?;
    let xml = scratch.path("t.xml").to_string_lossy().into_owned();
    for (words, code, tag) in
        [(&[][..], 3, "errors=\"1\" skipped=\"0\""), (&["--inconclusive", "pass"], 0, "errors=\"0\" skipped=\"1\"")]
    {
        let words = [&["--format", "junit", "-o", &xml], words].concat();
        expect(&of(&words)?, code, &["UNCLEAR"])?;
        let read = process::run(command("python3").args(["-c", READ_STRICTLY, &xml]))?.good()?.out();
        check!(read.contains("inconclusive, it may be anything") && read.contains("work at "), "{read}");
        check!(fs::read_to_string(&xml).is_ok_and(|text| text.contains(tag)), "{tag} in {xml}");
    }
    let sarif: Value = serde_json::from_str(&of(&["--format", "sarif"])?.out()).map_err(|error| error.to_string())?;
    check_sarif(&sarif)?;
    let run = &sarif["runs"][0];
    check!(run["results"][0]["kind"] == "open" && run["invocations"][0]["exitCode"] == 3, "{sarif}");
    check!(run["invocations"][0]["toolExecutionNotifications"][0]["level"] == "error", "{sarif}");
    let json = of(&["--json"])?.out();
    let lines: Vec<Value> = json.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    check!(lines[1]["verdict"] == "uncertain" && lines[1]["doubts"][0] == "peak_error", "{json}");
    check!(lines[2]["outcome"] == "inconclusive" && lines[2]["exit"] == 3 && lines[2]["uncertain"] == 1, "{json}");
    Ok(())
}

#[test]
fn a_running_program_has_no_leaks_yet() -> Result {
    let scratch = Scratch::new();
    let program = victim::named("standing")?.build()?;
    let mut run = process::start(under_run(&scratch, "x", &[], &program, &[]).stdin(std::process::Stdio::piped()))?;
    let mut tracked = None;
    // Before that nothing is live, and no limit exceeded.
    process::until("the program has allocated", || {
        tracked = process::children(run.pid()).first().copied();
        let stats = tracked.and_then(|pid| Stats::of(pid.to_string()).ok());
        stats.is_some_and(|stats| stats.number("live_blocks") >= 1000)
    })?;
    let pid = tracked.unwrap_or(0).to_string();
    let of = |words: &[&str]| process::run(command(heapledger()).args(["check", &pid]).args(words));
    let result = expect(&of(&["--max-leaked", "0"])?, 2, &["is running", "--max-live"])
        .and_then(|()| expect(&of(&["--max-live", "1G"])?, 0, &["live now"]))
        .and_then(|()| expect(&of(&["--max-live-blocks", "0"])?, 1, &["EXCEEDED live now"]));
    drop(run.child.stdin.take());
    run.finish(process::PATIENCE)?;
    result
}

/// Stacks that come to the same line are one line, here and in the summary of the run; JSON says how many they are.
#[test]
fn stacks_of_one_line_are_one() -> Result {
    let scratch = Scratch::new();
    let program = victim::named("one_line")?.build()?;
    let run = process::run(
        command(heapledger())
            .args(["run", "--ledger-dir"])
            .arg(scratch.live())
            .arg("-o")
            .arg(scratch.path("x.hl"))
            .arg("--")
            .arg(&program),
    )?
    .good()?;
    let ledger = scratch.path("x.hl");
    let line = |text: &str| text.lines().filter(|line| line.contains("hold (one_line.c:")).count();
    let summary = run.err();
    check!(summary.contains("29.3 KiB in 30 blocks      hold (one_line.c:") && line(&summary) == 1, "{summary}");
    let said = checked(&ledger, &["--max-live", "1", "--where", "fn == hold"])?;
    expect(&said, 1, &["29.3 KiB  30 blocks  hold (one_line.c:"])?;
    check!(line(&said.out()) == 1, "{said}");
    let json = checked(&ledger, &["--max-live", "1", "--where", "fn == hold", "--json"])?.out();
    check!(json.contains("\"blocks\":30,\"bytes\":30000,\"stacks\":3,"), "{json}");
    Ok(())
}
