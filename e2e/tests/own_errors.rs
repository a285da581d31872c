//! Programs with the crate `heapledger` inside (`e2e/own_books`) that give blocks back with another layout: what the ledger says of it.

use std::path::PathBuf;

use heapledger_e2e::ledger::{Stats, check_totals};
use heapledger_e2e::own_books::{alone, programs};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, heapledger};
use heapledger_e2e::tracked::under_run;
use heapledger_e2e::{Result, check, process};
use serde_json::Value;

/// The program does this; its finished ledger.
fn ran(scratch: &Scratch, profile: &'static str, what: &str) -> Result<PathBuf> {
    process::run(&mut alone(scratch, profile, "layouts", &[what])?)?.good()?;
    match &scratch.finished()[..] {
        [one] => Ok(one.clone()),
        other => Err(format!("ledgers: {other:?}")),
    }
}

/// What `heapledger errors` says of it.
fn errors(ledger: &PathBuf, form: &[&str]) -> Result<String> {
    let mut errors = command(heapledger());
    errors.args(["errors", "--limit", "0"]).args(form).arg(ledger);
    Ok(process::run(&mut errors)?.good()?.out())
}

struct Wrong {
    function: &'static str,
    by: &'static str,
    found_at: &'static str,
    given_by: &'static str,
    asked: [u64; 2],
    said: [u64; 2],
}

const WRONG: [Wrong; 5] = [
    Wrong {
        function: "frees_another_size",
        by: "__rust_dealloc",
        found_at: "free",
        given_by: "__rust_alloc",
        asked: [1000, 8],
        said: [1111, 8],
    },
    Wrong {
        function: "frees_another_alignment",
        by: "__rust_dealloc",
        found_at: "free",
        given_by: "__rust_alloc_zeroed",
        asked: [2222, 8],
        said: [2222, 1],
    },
    Wrong {
        function: "resizes_another_size",
        by: "__rust_realloc",
        found_at: "realloc",
        given_by: "__rust_alloc",
        asked: [3000, 4],
        said: [3333, 4],
    },
    Wrong {
        function: "frees_a_huge_one",
        by: "__rust_dealloc",
        found_at: "free",
        given_by: "__rust_alloc",
        asked: [6 << 30, 16],
        said: [5 << 30, 16],
    },
    Wrong {
        function: "frees_a_page",
        by: "__rust_dealloc",
        found_at: "free",
        given_by: "__rust_alloc",
        asked: [6666, 4096],
        said: [6666, 2048],
    },
];

fn frames<'a>(stacks: &'a [Value], site: &Value) -> Vec<&'a str> {
    let stack = stacks.iter().find(|stack| stack["site"] == *site);
    let frames = stack.and_then(|stack| stack["frames"].as_array()).map(Vec::as_slice).unwrap_or_default();
    frames.iter().filter_map(|frame| frame["raw"].as_str()).collect()
}

fn tells_each_wrong_layout(profile: &'static str) -> Result {
    let scratch = Scratch::new();
    let ledger = ran(&scratch, profile, "wrong")?;
    check_totals(&Stats::of(&ledger)?, &[])?;
    let parse = |line: &str| serde_json::from_str::<Value>(line).map_err(|error| error.to_string());
    let lines = errors(&ledger, &["--json"])?.lines().map(parse).collect::<Result<Vec<Value>>>()?;
    let of = |kind: &str| lines.iter().filter(|line| line["type"] == kind).cloned().collect::<Vec<Value>>();
    let (stacks, errors) = (of("site"), of("error"));
    check!(errors.len() == WRONG.len(), "{profile}: {} errors: {errors:#?}", errors.len());
    for (error, wrong) in errors.iter().zip(&WRONG) {
        let function = wrong.function;
        let is_as = |key: &str, value: Value| error[key] == value;
        check!(
            is_as("kind", "wrong-layout".into())
                && is_as("called", wrong.by.into())
                && is_as("found_at", wrong.found_at.into())
                && is_as("given_by", wrong.given_by.into())
                && is_as("repeats", 1.into()),
            "{profile}, {function}: {error:#}"
        );
        check!([&error["block_bytes"], &error["alignment"]] == wrong.asked.map(Value::from).each_ref(), "{error:#}");
        check!(error["operands"] == Value::from(wrong.said.to_vec()), "{function}: {error:#}");
        check!(error["allocated"].is_u64() && error["freed"].is_u64() == (wrong.found_at == "free"), "{error:#}");
        let [allocated, freed] = [&error["stacks"][0], &error["stacks"][1]];
        check!(allocated["of"] == "allocation" && freed["of"] == "free" && error["stacks"][2].is_null(), "{error:#}");
        let took = frames(&stacks, &allocated["site"]);
        check!(took.iter().any(|frame| frame.contains("takes")), "{function} was allocated by {took:?}");
        let freed = frames(&stacks, &freed["site"]);
        check!(freed.iter().any(|frame| frame.contains(function)), "{function} was freed by {freed:?}");
    }
    Ok(())
}

#[test]
fn a_wrong_layout_is_told_with_both_stacks() -> Result {
    tells_each_wrong_layout("dev")?;
    tells_each_wrong_layout("release")
}

#[test]
fn it_is_told_with_both_sizes() -> Result {
    let scratch = Scratch::new();
    let text = errors(&ran(&scratch, "dev", "wrong")?, &["--no-pager"])?;
    for part in [
        "wrong-layout\nDetected  : by argument, at free",
        "Call      : __rust_dealloc, size given 1,111, alignment given 8\n",
        "1,000 B, aligned to 8",
        "\nallocated, ",
        "\nfreed, ",
        "\nresized, ",
    ] {
        check!(text.contains(part), "{part:?} is not in:\n{text}");
    }
    Ok(())
}

#[test]
fn right_layouts_are_no_errors() -> Result {
    for profile in ["dev", "release-abort"] {
        let scratch = Scratch::new();
        let text = errors(&ran(&scratch, profile, "right")?, &["--no-pager"])?;
        check!(text.starts_with("No errors"), "{profile}: {text}");
    }
    Ok(())
}

#[test]
fn blocks_of_the_ledger_are_compared_while_it_is_paused() -> Result {
    let scratch = Scratch::new();
    let text = errors(&ran(&scratch, "dev", "paused")?, &["--no-pager"])?;
    check!(text.matches("wrong-layout\n").count() == 1 && !text.contains("Again"), "{text}");
    Ok(())
}

#[test]
fn under_run_nobody_knows_of_layouts() -> Result {
    let scratch = Scratch::new();
    let program = programs("dev")?.join("own_books");
    let mut held = process::hold(&mut under_run(&scratch, "one", &[], &program, &["threads".to_owned()]))?;
    check!(held.stands()?, "it does not come so far");
    held.goes_on()?;
    held.running.finish(process::PATIENCE)?.good()?;
    check!(errors(&scratch.path("one.hl"), &["--no-pager"])?.starts_with("No errors"), "an error under run");
    Ok(())
}
