//! `heapledger check` on a program that leaks: exit status, reasons, and the forms that build servers read.

use std::fs;
use std::path::PathBuf;

use heapledger_e2e::process::{self, Ran};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, heapledger};
use heapledger_e2e::tracked::{run_cleanly, under_run};
use heapledger_e2e::{Result, check, victim};
use serde_json::Value;

/// The ledger of `leaky` with so many lines.
fn ledger(scratch: &Scratch, name: &str, lines: u32, options: &[&str]) -> Result<PathBuf> {
    let program = victim::named("leaky")?.build()?;
    run_cleanly(scratch, &mut under_run(scratch, name, options, &program, &[lines.to_string()]))?.good()?;
    Ok(scratch.path(&format!("{name}.hl")))
}

fn checked(ledger: &PathBuf, words: &[&str]) -> Result<Ran> {
    process::run(command(heapledger()).arg("check").arg(ledger).args(words))
}

fn expect(ran: &Ran, code: i32, words: &[&str]) -> Result {
    check!(ran.status.code() == Some(code), "the exit code should be {code}: {ran}");
    let said = format!("{}{}", ran.out(), ran.err());
    for word in words {
        check!(said.contains(word), "it should say {word:?}: {said}");
    }
    check!(!said.contains("panicked"), "{said}");
    Ok(())
}

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
        (&["--max-live", "1", "--suppress", "/no/such"], "/no/such"),
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

/// Reads `junit` as XML with Python, and prints `tests failures errors`, names of cases, and those that failed.
const READ_JUNIT: &str = "
import sys, xml.etree.ElementTree as tree
suites = tree.parse(sys.argv[1]).getroot()
assert suites.tag == 'testsuites', suites.tag
suite = suites.find('testsuite')
cases = suite.findall('testcase')
assert len(cases) == int(suite.get('tests')) == int(suites.get('tests'))
failed = [case.get('name') for case in cases if case.find('failure') is not None]
assert len(failed) == int(suite.get('failures'))
print(','.join(case.get('name') for case in cases), ','.join(failed), cases[0].find('failure').text.count('copy_name'))
";

#[test]
fn build_servers_can_read_it() -> Result {
    let scratch = Scratch::new();
    let ledger = ledger(&scratch, "x", 100, &[])?;
    let limits = ["--max-leaked", "0", "--max-peak", "1G"];
    let of = |format: &str| {
        let ran = checked(&ledger, &[&limits[..], &["--format", format]].concat())?;
        check!(ran.status.code() == Some(1), "{ran}");
        Ok::<String, String>(ran.out())
    };
    let report = scratch.path("junit.xml");
    let shown = report.to_string_lossy().into_owned();
    let both = checked(&ledger, &[&limits[..], &["--format", "junit", "-o", &shown]].concat())?;
    expect(&both, 1, &["EXCEEDED"])?;
    let read = process::run(command("python3").args(["-c", READ_JUNIT, &shown]))?.good()?.out();
    check!(read.trim() == "max-leaked,max-peak,ledger-complete max-leaked 2", "{read}");
    check!(of("junit")? == fs::read_to_string(&report).map_err(|error| error.to_string())?, "the same in a file");

    let sarif: Value = serde_json::from_str(&of("sarif")?).map_err(|error| error.to_string())?;
    let run = &sarif["runs"][0];
    check!(sarif["version"] == "2.1.0" && run["tool"]["driver"]["name"] == "heapledger", "{sarif}");
    let results = run["results"].as_array().ok_or("no results")?;
    check!(results.len() == 2, "two stacks leak: {results:?}");
    for result in results {
        let index = result["ruleIndex"].as_u64().ok_or("no index")? as usize;
        check!(run["tool"]["driver"]["rules"][index]["id"] == result["ruleId"], "{result}");
        let place = &result["locations"][0]["physicalLocation"];
        let uri = place["artifactLocation"]["uri"].as_str().unwrap_or("");
        check!(uri.ends_with("leaky.c") && (uri.starts_with("file:///") || !uri.starts_with('/')), "{place}");
        check!(place["region"]["startLine"].as_u64().is_some_and(|line| line > 0), "{place}");
        check!(result["message"]["text"].as_str().is_some_and(|text| text.contains("not freed")), "{result}");
        check!(result["stacks"][0]["frames"].as_array().is_some_and(|frames| frames.len() > 2), "{result}");
    }

    let github = of("github")?;
    check!(github.lines().count() == 2, "a line for each stack: {github}");
    for line in github.lines() {
        let (properties, message) =
            line.strip_prefix("::error file=").and_then(|rest| rest.split_once("::")).ok_or(line)?;
        check!(properties.contains("leaky.c,line=") && message.contains("%0A    main at "), "{line}");
    }

    let json = of("json")?;
    let lines: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).unwrap_or_default()).collect();
    let kinds: Vec<&str> = lines.iter().filter_map(|line| line["type"].as_str()).collect();
    check!(kinds == ["header", "limit", "limit", "end"], "{json}");
    check!(lines[1]["blocks"] == 101 && lines[1]["verdict"] == "exceeded" && lines[3]["exit"] == 1, "{json}");
    Ok(())
}

#[test]
fn what_is_missing_is_no_success() -> Result {
    let scratch = Scratch::new();
    // Full: the ledger has no room for so many.
    let full = ledger(&scratch, "full", 200_000, &["--max-ledger", "2M"])?;
    let most = ["--max-live", "1G"];
    expect(&checked(&full, &most)?, 3, &["LOST", "not entered", "--allow-losses"])?;
    expect(&checked(&full, &["--max-live", "1G", "--allow-losses"])?, 0, &["it holds"])?;
    expect(&checked(&full, &["--max-live", "1K"])?, 1, &["EXCEEDED", "LOST"])?;
    let whole = ledger(&scratch, "whole", 50_000, &[])?;
    let mut bytes = fs::read(&whole).map_err(|error| error.to_string())?;
    bytes.truncate(bytes.len() / 2);
    let cut = scratch.path("cut.hl");
    fs::write(&cut, bytes).map_err(|error| error.to_string())?;
    expect(&checked(&cut, &most)?, 3, &["damaged"])?;
    let junit = checked(&cut, &["--max-live", "1G", "--format", "junit"])?;
    expect(&junit, 3, &["errors=\"1\"", "<error message="])
}

#[test]
fn estimates_are_warnings_within_their_error() -> Result {
    let scratch = Scratch::new();
    let ledger = ledger(&scratch, "s", 100_000, &["--sample", "4K"])?;
    let stats = heapledger_e2e::ledger::Stats::of(&ledger)?;
    let live = stats.number("live_bytes");
    let just_below = (live - stats.inner("sampled", "live_bytes_error")).to_string();
    expect(&checked(&ledger, &["--max-live", &just_below])?, 0, &["warning", "may be off"])?;
    let far_below = (live / 10).to_string();
    expect(&checked(&ledger, &["--max-live", &far_below])?, 1, &["EXCEEDED", "~"])?;
    expect(&checked(&ledger, &["--max-leaked", "0"])?, 1, &["EXCEEDED"])
}

#[test]
fn a_running_program_has_no_leaks_yet() -> Result {
    let scratch = Scratch::new();
    let program = victim::named("standing")?.build()?;
    let mut run = process::start(under_run(&scratch, "x", &[], &program, &[]).stdin(std::process::Stdio::piped()))?;
    let mut tracked = None;
    process::until("the program is recorded", || {
        tracked = process::children(run.pid()).first().copied().filter(|pid| {
            process::run(command(heapledger()).args(["stats", &pid.to_string()])).is_ok_and(|ran| ran.status.success())
        });
        tracked.is_some()
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
