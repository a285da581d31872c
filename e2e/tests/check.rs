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
    check_sarif(&sarif)?;
    let run = &sarif["runs"][0];
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

/// The keys that SARIF 2.1.0 has for the objects that we write, and those that must be there.
fn has_keys(object: &Value, all: &[&str], required: &[&str]) -> Result {
    let keys: Vec<&String> = object.as_object().ok_or_else(|| format!("no object: {object}"))?.keys().collect();
    check!(keys.iter().all(|key| all.contains(&key.as_str())), "a key of {keys:?} is none of SARIF's: {object}");
    check!(required.iter().all(|key| object.get(key).is_some()), "one of {required:?} is missing: {object}");
    Ok(())
}

fn items(value: &Value) -> Result<&Vec<Value>> {
    value.as_array().ok_or_else(|| format!("no list: {value}"))
}

fn check_message(message: &Value) -> Result {
    has_keys(message, &["text", "markdown", "id", "arguments"], &["text"])?;
    check!(message["text"].as_str().is_some_and(|text| !text.is_empty()), "no text: {message}");
    Ok(())
}

/// A place as the standard wants it, and as a service finds it in a repository.
fn check_location(location: &Value) -> Result {
    has_keys(
        location,
        &["id", "physicalLocation", "logicalLocations", "message", "annotations", "relationships"],
        &[],
    )?;
    if let Some(physical) = location.get("physicalLocation") {
        has_keys(
            physical,
            &["address", "artifactLocation", "region", "contextRegion"],
            &["artifactLocation", "region"],
        )?;
        has_keys(&physical["artifactLocation"], &["uri", "uriBaseId", "index", "description"], &["uri"])?;
        let uri = physical["artifactLocation"]["uri"].as_str().unwrap_or("");
        let rest = uri.strip_prefix("file://").unwrap_or(uri);
        check!(rest.starts_with('/') == (rest != uri) && !rest.is_empty(), "neither relative nor absolute: {uri}");
        let mut bytes = rest.bytes();
        while let Some(byte) = bytes.next() {
            let escape = byte == b'%' && bytes.by_ref().take(2).filter(u8::is_ascii_hexdigit).count() == 2;
            check!(escape || byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte), "no reference: {uri}");
        }
        check!(physical["region"]["startLine"].as_u64().is_some_and(|line| line > 0), "{physical}");
    }
    for place in location.get("logicalLocations").map_or(Ok(&Vec::new()), items)? {
        has_keys(place, &["name", "index", "fullyQualifiedName", "decoratedName", "parentIndex", "kind"], &[])?;
    }
    Ok(())
}

/// What the standard's schema demands of a log like ours, and what code scanning services demand beside it.
fn check_sarif(log: &Value) -> Result {
    has_keys(
        log,
        &["$schema", "version", "runs", "inlineExternalProperties", "properties"],
        &["$schema", "version", "runs"],
    )?;
    check!(log["version"] == "2.1.0" && log["$schema"].as_str().is_some_and(|at| at.contains("sarif-2.1.0")), "{log}");
    check!(items(&log["runs"])?.len() == 1, "one run: {log}");
    let run = &log["runs"][0];
    has_keys(run, &["tool", "invocations", "columnKind", "results"], &["tool", "results"])?;
    check!(["utf16CodeUnits", "unicodeCodePoints"].iter().any(|kind| run["columnKind"] == *kind), "{run}");
    let driver = &run["tool"]["driver"];
    has_keys(driver, &["name", "version", "semanticVersion", "informationUri", "rules"], &["name", "rules"])?;
    check!(driver["name"] == "heapledger", "{driver}");
    let rules = items(&driver["rules"])?;
    for rule in rules {
        has_keys(
            rule,
            &["id", "name", "shortDescription", "fullDescription", "help", "defaultConfiguration"],
            &["id"],
        )?;
        check_message(&rule["shortDescription"])?;
        check!(rules.iter().filter(|other| other["id"] == rule["id"]).count() == 1, "twice: {rule}");
    }
    for invocation in items(&run["invocations"])? {
        let keys = ["executionSuccessful", "exitCode", "toolExecutionNotifications"];
        has_keys(invocation, &keys, &["executionSuccessful"])?;
        items(&invocation["toolExecutionNotifications"])?
            .iter()
            .try_for_each(|note| check_message(&note["message"]))?;
    }
    for result in items(&run["results"])? {
        let keys = [
            "ruleId",
            "ruleIndex",
            "kind",
            "level",
            "message",
            "locations",
            "stacks",
            "partialFingerprints",
            "properties",
        ];
        has_keys(result, &keys, &["ruleId", "message", "locations"])?;
        let index = result["ruleIndex"].as_u64().ok_or("no index")? as usize;
        check!(rules.get(index).is_some_and(|rule| rule["id"] == result["ruleId"]), "the rule of {result}");
        check!(["none", "note", "warning", "error"].iter().any(|level| result["level"] == *level), "{result}");
        let kinds = [("fail", "error"), ("open", "none")];
        check!(kinds.iter().any(|(kind, level)| result["kind"] == *kind && result["level"] == *level), "{result}");
        check_message(&result["message"])?;
        let places = items(&result["locations"])?;
        check!(places.len() == 1 && places[0].get("physicalLocation").is_some(), "a place: {result}");
        check_location(&places[0])?;
        for stack in result.get("stacks").map_or(Ok(&Vec::new()), items)? {
            has_keys(stack, &["message", "frames"], &["frames"])?;
            check_message(&stack["message"])?;
            for frame in items(&stack["frames"])? {
                has_keys(frame, &["location", "module", "threadId", "parameters"], &[])?;
                check_location(&frame["location"])?;
            }
        }
        let prints = result["partialFingerprints"].as_object();
        check!(prints.is_none_or(|prints| prints.values().all(Value::is_string)), "{result}");
    }
    Ok(())
}

/// Functions and files that are named as badly as can be.
const ODD: &str = "
#include <cstdlib>
template <class A, class B> struct Pair {
    __attribute__((noinline)) static char *keep(A count) { return static_cast<char *>(malloc(count + sizeof(B))); }
    __attribute__((noinline)) char *operator<<(int count) { return keep(count); }
};
char *volatile kept[3];
int main() {
    Pair<int, Pair<char, long>> pair;
    kept[0] = pair << 100;
    kept[1] = Pair<long, bool>::keep(7);
    kept[0] = kept[1] = nullptr;
}
";

/// Reads a report of JUnit's as strictly as build servers do, and prints messages and bodies of failures.
const READ_STRICTLY: &str = "
import sys, xml.etree.ElementTree as tree
suites = tree.parse(sys.argv[1]).getroot()
assert suites.tag == 'testsuites' and set(suites.attrib) <= {'name', 'tests', 'failures', 'errors', 'time', 'disabled'}
for suite in suites:
    assert suite.tag == 'testsuite' and {'name', 'tests', 'failures', 'errors', 'skipped', 'time'} <= set(suite.attrib)
    assert float(suite.get('time')) >= 0 and sum(int(suite.get(key)) for key in ('failures', 'errors', 'skipped')) <= len(suite)
    for case in suite:
        assert case.tag == 'testcase' and set(case.attrib) == {'classname', 'name', 'time'} and len(case) <= 1
        for result in case:
            keys = {'message'} if result.tag == 'skipped' else {'message', 'type'}
            assert result.tag in ('failure', 'error', 'skipped') and set(result.attrib) == keys
            sys.stdout.buffer.write((result.get('message', '') + '\\n' + (result.text or '') + '\\n').encode())
";

#[test]
fn odd_names_break_no_form() -> Result {
    use std::os::unix::ffi::OsStrExt;
    let scratch = Scratch::new();
    let text = |error: std::io::Error| error.to_string();
    for name in [&b"100% \"a\",b:c<d>&'e'\n::error::f.cc"[..], b"caf\xe9 \x1b[31m.cc"] {
        let source = scratch.work().join(std::ffi::OsStr::from_bytes(name));
        let program = scratch.path("odd, program");
        fs::write(&source, ODD).map_err(text)?;
        process::run(command("g++").args(["-g", "-O1", "-o"]).arg(&program).arg(&source))?.good()?;
        run_cleanly(&scratch, &mut under_run(&scratch, "odd, 100%%", &["--force"], &program, &[]))?.good()?;
        let ledger = scratch.path("odd, 100%.hl");
        let of = |format: &str| {
            let ran = checked(&ledger, &["--max-leaked", "0", "--format", format])?;
            check!(ran.status.code() == Some(1), "{ran}");
            check!(!ran.stdout.contains(&0x1b) && std::str::from_utf8(&ran.stdout).is_ok(), "raw bytes: {ran}");
            Ok::<String, String>(ran.out())
        };
        let functions = ["Pair<int, Pair<char, long> >::operator<<(int)", "Pair<long, bool>::keep(long)"];
        let sarif: Value = serde_json::from_str(&of("sarif")?).map_err(|error| error.to_string())?;
        check_sarif(&sarif)?;
        let shown = sarif.to_string();
        check!(functions.iter().all(|function| shown.contains(function)), "{shown}");
        fs::write(scratch.path("odd.xml"), of("junit")?).map_err(text)?;
        let xml = scratch.path("odd.xml").to_string_lossy().into_owned();
        let read = process::run(command("python3").args(["-c", READ_STRICTLY, &xml]))?.good()?.out();
        check!(functions.iter().all(|function| read.contains(function)), "{read}");
        let github = of("github")?;
        check!(github.lines().count() == 2, "a line for each stack: {github}");
        for line in github.lines() {
            let (properties, message) =
                line.strip_prefix("::error ").and_then(|rest| rest.split_once("::")).ok_or(line)?;
            let names: Vec<&str> = properties.split(',').map(|pair| pair.split('=').next().unwrap_or("")).collect();
            check!(names == ["file", "line", "title"], "{line}");
            check!(!properties.contains(':'), "{line}");
            let decoded = message.replace("%0A", "\n").replace("%0D", "\r").replace("%25", "%");
            check!(functions.iter().any(|function| decoded.contains(function)), "{decoded}");
            let left = message.replace("%0A", "").replace("%0D", "").replace("%25", "");
            check!(!left.contains(['%', '\r']), "not all is written out: {line}");
        }
    }
    Ok(())
}

#[test]
fn a_result_without_source_lines_has_a_place() -> Result {
    let scratch = Scratch::new();
    let program = scratch.path("bare");
    fs::write(scratch.path("bare.cc"), ODD).map_err(|error| error.to_string())?;
    process::run(command("g++").args(["-O1", "-s", "-o"]).arg(&program).arg(scratch.path("bare.cc")))?.good()?;
    run_cleanly(&scratch, &mut under_run(&scratch, "bare", &[], &program, &[]))?.good()?;
    for words in [["--max-leaked", "0"], ["--max-allocs", "0"]] {
        let ran = checked(&scratch.path("bare.hl"), &[&words[..], &["--format", "sarif"]].concat())?;
        let sarif: Value = serde_json::from_str(&ran.out()).map_err(|error| error.to_string())?;
        check_sarif(&sarif)?;
        check!(ran.out().contains("bare.hl\""), "it is at the ledger: {sarif}");
    }
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
    expect(&junit, 3, &["errors=\"2\"", "<error message="])
}

#[test]
fn estimates_are_inconclusive_within_their_error() -> Result {
    let scratch = Scratch::new();
    let ledger = ledger(&scratch, "s", 100_000, &["--sample", "4K"])?;
    let stats = heapledger_e2e::ledger::Stats::of(&ledger)?;
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
    let (source, program) = (scratch.path("threads.c"), scratch.path("threads"));
    fs::write(&source, THREADS).map_err(|error| error.to_string())?;
    process::run(command("gcc").args(["-g", "-pthread", "-o"]).arg(&program).arg(&source))?.good()?;
    run_cleanly(&scratch, &mut under_run(&scratch, "t", &[], &program, &[]))?.good()?;
    let ledger = scratch.path("t.hl");
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

/// Losses that cannot turn the answer do not: so many blocks more would still be within the limit.
#[test]
fn a_loss_that_turns_nothing_is_no_failure() -> Result {
    let scratch = Scratch::new();
    let full = ledger(&scratch, "full", 200_000, &["--max-ledger", "2M"])?;
    expect(&checked(&full, &["--max-allocs", "1000000"])?, 0, &["and it holds"])?;
    expect(&checked(&full, &["--max-allocs", "199000"])?, 3, &["LOST", "UNCLEAR", "it may be anything from"])?;
    expect(&checked(&full, &["--max-allocs", "10"])?, 1, &["EXCEEDED"])?;
    let junit = checked(&full, &["--max-allocs", "1000000", "--format", "junit"])?;
    expect(&junit, 0, &["errors=\"0\""])
}

/// Frees more than are remembered: what is added up of those that are left says so, in every command and form.
const CHURN: &str = "
#include <stdlib.h>
static void *volatile kept;
int main(void) {
    for (int n = 0; n < 20000; n++) free(kept = malloc(100));
    kept = malloc(7);
    return 0;
}
";

#[test]
fn figures_of_the_last_frees_do_not_look_whole() -> Result {
    let scratch = Scratch::new();
    let (source, program) = (scratch.path("churn.c"), scratch.path("churn"));
    fs::write(&source, CHURN).map_err(|error| error.to_string())?;
    process::run(command("gcc").args(["-g", "-o"]).arg(&program).arg(&source))?.good()?;
    run_cleanly(&scratch, &mut under_run(&scratch, "some", &["--history", "1000"], &program, &[]))?.good()?;
    run_cleanly(&scratch, &mut under_run(&scratch, "all", &[], &program, &[]))?.good()?;
    let of = |ledger: &str, words: &[&str]| {
        let mut asked = command(heapledger());
        process::run(asked.current_dir(scratch.work()).arg(words[0]).arg(scratch.path(ledger)).args(&words[1..]))
    };
    let picture = scratch.path("x.svg").to_string_lossy().into_owned();
    let page = scratch.path("x.html").to_string_lossy().into_owned();
    let all: &[(&[&str], &str, Option<&str>)] = &[
        (&["tree", "--by", "allocated"], "allocated, of live blocks and the last ", None),
        (&["tree", "--by", "freed-blocks"], "freed, of the last ", None),
        (&["tree", "--by", "allocated", "--csv"], "these blocks are neither", None),
        (&["tree", "--by", "allocated", "--json"], "\"complete\":false", None),
        (
            &["flame", "--by", "allocated", "-o", &picture],
            "allocated bytes of live blocks and the last ",
            Some(&picture),
        ),
        (&["flame", "-o", &page], "\"parts\":[\"of live blocks and the last ", Some(&page)),
        (&["flame", "--by", "freed", "--format", "folded"], "neither in allocated nor in freed figures", None),
        (&["flame", "--json"], "\"complete\":false", None),
        (&["check", "--max-allocs", "1"], "of live blocks and the last ", None),
        (&["check", "--max-allocated", "1", "--format", "junit"], "(of live blocks and the last ", None),
        (&["check", "--max-allocated", "1", "--format", "github"], "(of live blocks and the last ", None),
        (&["check", "--max-allocated", "1", "--format", "sarif"], "(of live blocks and the last ", None),
        (&["check", "--max-allocated", "1", "--json"], "\"responsible_of\":\"of live blocks and the last ", None),
        (&["history", "--group-by", "fn"], "no longer in the ring", None),
        (&["history", "--group-by", "fn", "--csv"], "no longer in the ring", None),
        (&["history", "--group-by", "fn", "--json"], "\"complete\":false", None),
        (&["stats", "--where", "size > 1"], "no longer in the ring", None),
        (&["stats", "--where", "size > 1", "--json"], "\"complete\":false", None),
    ];
    for (words, part, file) in all {
        for (ledger, expected) in [("some.hl", true), ("all.hl", false)] {
            let ran = of(ledger, words)?;
            let code = ran.status.code().unwrap_or(-1);
            check!(code == i32::from(words[0] == "check"), "{words:?}: {ran}");
            let written = match file {
                Some(path) => fs::read_to_string(path).map_err(|error| error.to_string())?,
                None => format!("{}{}", ran.out(), ran.err()),
            };
            // A whole history is whole, and nothing is said.
            check!(written.contains(part) == expected, "{ledger} {words:?}: {written}");
        }
    }
    Ok(())
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

/// A limit that is exceeded is never said to hold because part of the ledger cannot be read, whichever byte is wrong.
#[test]
fn a_damaged_ledger_does_not_pass() -> Result {
    const PLACES: usize = 60;
    let scratch = Scratch::new();
    let path = ledger(&scratch, "x", 3000, &[])?;
    let question = ["--max-live-blocks", "10", "--where", "fn == copy_name"];
    expect(&checked(&path, &question)?, 1, &["3,000 blocks"])?;
    let bytes = fs::read(&path).map_err(|error| error.to_string())?;
    let forged = scratch.path("forged.hl");
    let mut told = 0;
    for place in 0..PLACES {
        let mut changed = bytes.clone();
        let at = bytes.len() * place / PLACES + place % 7;
        let Some(byte) = changed.get_mut(at) else { continue };
        *byte ^= 0x10;
        fs::write(&forged, changed).map_err(|error| error.to_string())?;
        let ran = checked(&forged, &question)?;
        check!(
            ran.status.code().is_some_and(|code| (1..=3).contains(&code)),
            "byte {at} is wrong, and it passes: {ran}"
        );
        told += u64::from(ran.status.code() == Some(3));
    }
    check!(told > 0, "no damage was met that hides blocks");
    Ok(())
}
