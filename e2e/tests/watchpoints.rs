//! Watchpoints of the processor that a C program sets, or the answer that there is none.

use heapledger_e2e::c_programs::{built, recorded};
use heapledger_e2e::own_books;
use heapledger_e2e::process;
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, heapledger};
use heapledger_e2e::{Result, check, skip};
use serde_json::Value;

#[test]
fn who_writes_to_a_watched_word_is_told_by_a_signal() -> Result {
    let scratch = Scratch::new();
    let program = built(&scratch, "gcc", "watch.c", "watch", &["-Wall", "-Wextra", "-Werror"])?;
    let alone = process::run(&mut command(&program))?.good()?.out();
    check!(alone == "absent\n", "{alone}");
    for (what, expected) in
        [("refused", "refused\n"), ("counts", "counted\n"), ("closed", "closed\n"), ("dies", "died\n")]
    {
        let (said, _) = recorded(&scratch, what, &[], &program, &[what])?;
        if said.starts_with("none: -10") {
            skip("watchpoints", said.trim());
            continue;
        }
        check!(said == expected, "{what}: {said}");
    }
    Ok(())
}

/// The ledger has nothing but watched writes, made so many times by this function.
fn tells_who(ledger: &std::path::Path, function: &str, times: u64) -> Result {
    let told = process::run(command(heapledger()).args(["errors", "--json"]).arg(ledger))?.good()?.out();
    let parse = |line: &str| serde_json::from_str::<Value>(line).map_err(|error| error.to_string());
    let lines = told.lines().map(parse).collect::<Result<Vec<Value>>>()?;
    // One for each place that calls the function: loops may be unrolled.
    let mut errors = lines.iter().filter(|line| line["type"] == "error");
    let found: u64 = errors.clone().filter_map(|error| error["repeats"].as_u64()).map(|again| again + 1).sum();
    check!(found == times, "{found} times, and not {times}: {told}");
    errors.try_for_each(|error| is_by(error, &lines, function))?;
    let text = process::run(command(heapledger()).arg("errors").arg(ledger))?.good()?.out();
    check!(text.contains("watched-write: WRITE of 8 bytes") && text.contains("SUMMARY: watched-write"), "{text}");
    Ok(())
}

fn is_by(error: &Value, lines: &[Value], function: &str) -> Result {
    check!(error["kind"] == "watched-write" && error["found_at"] == "instruction", "{error:#}");
    check!(error["bytes"] == 8 && error["direction"] == "write", "{error:#}");
    check!(error["address"] == error["block"] && error["whereabouts"] == "block", "{error:#}");
    let [allocation, access] = [&error["stacks"][0], &error["stacks"][1]];
    check!(allocation["of"] == "allocation" && access["of"] == "access", "{error:#}");
    let innermost = lines.iter().find(|line| line["type"] == "site" && line["site"] == access["site"]);
    // The standard library's own functions may be inlined there.
    let innermost = innermost.and_then(|site| site["frames"].as_array()).map(Vec::as_slice).unwrap_or_default();
    let here = innermost.iter().take_while(|frame| frame["address"] == innermost[0]["address"]);
    let mut names = here.filter_map(|frame| frame["raw"].as_str());
    check!(names.any(|name| name.contains(function)), "not {function} wrote there: {innermost:#?}");
    Ok(())
}

#[test]
fn who_writes_to_a_watched_word_is_in_the_ledger_and_goes_on() -> Result {
    let scratch = Scratch::new();
    let program = built(&scratch, "gcc", "watch.c", "watch", &["-Wall", "-Wextra", "-Werror"])?;
    for (name, options) in [("plain", &[][..]), ("guarded", &["--guard=full"])] {
        let (said, ledger) = recorded(&scratch, name, options, &program, &["told"])?;
        if said.starts_with("none: -10") {
            skip("watchpoints", said.trim());
            return Ok(());
        }
        check!(said == "told\n", "{name}: {said}");
        tells_who(&ledger, "writes_here", 3)?;
    }
    Ok(())
}

#[test]
fn so_it_is_in_a_rust_program_that_records_itself() -> Result {
    for profile in ["dev", "release"] {
        let scratch = Scratch::new();
        let ran = process::run(&mut own_books::alone(&scratch, profile, "guarded", &["watched"])?)?.good()?;
        if ran.out() == "none\n" {
            skip("watchpoints", "there are none for a Rust program");
            return Ok(());
        }
        check!(ran.out() == "watched\n" && ran.err().matches("watched-write").count() == 2, "{profile}: {ran}");
        let [ledger] = &scratch.finished()[..] else { return Err(format!("ledgers: {:?}", scratch.finished())) };
        tells_who(ledger, "writes_here", 2)?;
    }
    Ok(())
}
