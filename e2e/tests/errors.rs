//! Calls that gave no block, in `heapledger errors`: once for each place, with how often, and whose call it was.

use heapledger_e2e::ledger::{Stats, read};
use heapledger_e2e::process;
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, heapledger};
use heapledger_e2e::tracked::{run_cleanly, under_run};
use heapledger_e2e::{Result, check, victim};
use serde_json::Value;

/// The place, what was called there, and what is wrong with it.
const EXPECTED: [(&str, &str, &str); 6] = [
    ("asks_for_too_much", "malloc", "failed-allocation"),
    ("multiplies_too_much", "calloc", "calloc-overflow"),
    ("throws_bad_alloc", "malloc", "failed-allocation"),
    ("gives_null", "malloc", "failed-allocation"),
    ("aligns_oddly", "posix_memalign", "invalid-posix-memalign-alignment"),
    ("grows_too_much", "realloc", "failed-allocation"),
];

fn has_frame(stacks: &[Value], site: &Value, function: &str) -> bool {
    let stack = stacks.iter().find(|stack| stack["site"] == *site);
    let frames = stack.and_then(|stack| stack["frames"].as_array());
    frames.is_some_and(|frames| {
        frames.iter().any(|frame| frame["raw"].as_str().is_some_and(|raw| raw.contains(function)))
    })
}

#[test]
fn calls_that_gave_no_block() -> Result {
    let scratch = Scratch::new();
    let program = victim::named("fails")?.build()?;
    run_cleanly(&scratch, &mut under_run(&scratch, "x", &[], &program, &[]))?.good()?;
    // They are told of, and are no errors.
    let mut loud = command(heapledger());
    loud.args(["run", "--error-exitcode", "9", "-o"]).arg(scratch.path("loud.hl")).arg("--").arg(&program);
    let ran = process::run(loud.current_dir(scratch.work()))?.good()?;
    let told = ran.err();
    check!(told.contains("  refused      18 calls gave no block: heapledger errors "), "{told}");
    check!(!told.contains("failed-allocation") && !told.contains("errors were found"), "{told}");
    // Of several processes the sum is told.
    let mut twice = command(heapledger());
    twice.args(["run", "--children", "-o", "both", "--", "sh", "-c", "\"$0\"; \"$0\""]).arg(&program);
    let ran = process::run(twice.current_dir(scratch.work()))?.good()?;
    check!(ran.err().contains("  refused      36 calls gave no block: heapledger errors both"), "{ran}");
    let session = read("stats", scratch.work().join("both"), &[])?;
    check!(session.iter().any(|line| line["type"] == "session" && line["failed_calls"] == 36), "{session:?}");
    let lines = read("errors", scratch.path("x.hl"), &[])?;
    let of = |kind: &str| lines.iter().filter(|line| line["type"] == kind).cloned().collect::<Vec<Value>>();
    let (stacks, errors) = (stacks_of(&scratch)?, of("error"));
    check!(errors.len() == EXPECTED.len(), "{} errors: {errors:?}", errors.len());
    for (function, called, kind) in EXPECTED {
        let found = errors.iter().find(|error| has_frame(&stacks, &error["stacks"][0]["site"], function));
        let error = found.ok_or_else(|| format!("nothing of {function}: {errors:?}"))?;
        check!(error["called"] == called && error["kind"] == kind, "{function}: {error}");
        check!(error["repeats"] == 2 && error["stacks"][0]["of"] == "access", "{function}: {error}");
    }
    let stats = Stats::of(scratch.path("x.hl"))?;
    check!(stats.0["counters"]["failed_calls"] == 18, "failed calls: {}", stats.0["counters"]["failed_calls"]);
    Ok(())
}

/// The lines that tell stacks, as they are: the usual reader joins them with blocks.
fn stacks_of(scratch: &Scratch) -> Result<Vec<Value>> {
    let mut command = command(heapledger());
    command.args(["errors", "--json"]).arg(scratch.path("x.hl"));
    let ran = process::run(&mut command)?.good()?;
    let parse = |line: &str| serde_json::from_str::<Value>(line).map_err(|error| error.to_string());
    let lines = ran.out().lines().map(parse).collect::<Result<Vec<Value>>>()?;
    Ok(lines.into_iter().filter(|line| line["type"] == "site").collect())
}
