//! JUnit, SARIF, GitHub and JSON, as CI systems read them.

use std::fs;

use heapledger_e2e::process;
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::command;
use heapledger_e2e::tracked::{run_cleanly, under_run};
use heapledger_e2e::{Result, check};
use serde_json::Value;

use crate::standards::{READ_JUNIT, READ_STRICTLY, check_sarif};
use crate::{checked, expect, ledger};

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
            let short = ["Pair<…>::operator<<", "Pair<…>::keep"];
            let names = decoded.lines().filter_map(|line| line.strip_prefix("    "));
            let names: Vec<&str> = names.filter_map(|line| line.split(" at ").next()).collect();
            check!(names.first().is_some_and(|name| short.contains(name)), "{decoded}");
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
