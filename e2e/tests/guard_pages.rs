//! Blocks at closed pages: a program's own faults, and what it does to its memory, are what they are without us; both ways of closing
//! pages.

use std::path::Path;

use heapledger_e2e::guard::{Build, built, told};
use heapledger_e2e::ledger::Stats;
use heapledger_e2e::process::{self, Ran};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::command;
use heapledger_e2e::tracked::under_run;
use heapledger_e2e::{Result, check};

/// Each way in which pages are closed.
const PAGES: [&[&str]; 2] = [&["--guard=page", "--guard-by=advice"], &["--guard=page=both", "--guard-by=protection"]];
const OTHERS: [&[&str]; 2] = [&["--guard=light"], &["--guard=full"]];

fn program(source: &str) -> Result<std::path::PathBuf> {
    built(source, Build::O2)?.ok_or_else(|| "there is no compiler".to_owned())
}

/// The names that a program prints if it is told nothing.
fn names(program: &Path) -> Result<Vec<String>> {
    let said = process::run(&mut command(program))?.good()?.out();
    Ok(said.lines().filter(|line| *line != "done").map(str::to_owned).collect())
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// As it is without us: what it says, and how it ends.
fn alone(program: &Path, arguments: &[&str]) -> Result<Ran> {
    let scratch = Scratch::new();
    process::run(command(program).args(arguments).current_dir(scratch.work()))
}

#[test]
fn faults_of_the_program_are_its_own() -> Result {
    let program = program("signals.c")?;
    for name in names(&program)? {
        let plain = alone(&program, &[&name, "good"])?;
        for (options, word) in
            PAGES.iter().flat_map(|way| [(way, "good"), (way, "bad")]).chain(OTHERS.iter().map(|way| (way, "good")))
        {
            let scratch = Scratch::new();
            let ran = process::run(&mut under_run(&scratch, "x", options, &program, &words(&[&name, word])))?;
            let said = |problem: String| format!("{name} {word} {options:?}: {problem}");
            // A child has nobody who reads a ledger of it: it says itself what is wrong.
            if name == "forked" && word == "bad" {
                check!(ran.err().contains("heap-use-after-free: READ of 1 byte, 50 bytes inside"), "{ran}");
                check!((plain.out(), plain.status) == (ran.out(), ran.status), "{}", said(ran.to_string()));
            } else {
                plain.compare(&ran).map_err(said)?;
            }
            let errors = told::errors(&scratch.path("x.hl"))?;
            let unrecorded = Stats::of(scratch.path("x.hl"))?.0["losses"]["errors_unrecorded"].as_u64().unwrap_or(0);
            check!((unrecorded != 0) == (name == "forked" && word == "bad"), "{}", said(unrecorded.to_string()));
            check!(errors.is_empty() == (word == "good"), "{}", said(format!("{errors:#?}")));
            for error in errors {
                let is_it = error.kind() == "heap-use-after-free" && error.found_at() == "instruction";
                check!(is_it && error.offset() == Some(50), "{}", said(format!("{error:#?}")));
                check!(
                    error.json["bytes"] == 1 && error.json["direction"] == "read",
                    "{}",
                    said(format!("{error:#?}"))
                );
                let innermost = error.stacks.last().and_then(|(_, functions)| functions.first());
                check!(innermost.is_some_and(|function| function == "wrong"), "{}", said(format!("{error:#?}")));
            }
        }
    }
    Ok(())
}

#[test]
fn memory_of_the_program_is_its_own() -> Result {
    let program = program("surroundings.c")?;
    for name in names(&program)? {
        let plain = alone(&program, &[&name])?.good()?;
        for options in PAGES.iter().chain(&OTHERS) {
            let scratch = Scratch::new();
            let ran = process::run(&mut under_run(&scratch, "x", options, &program, &words(&[&name])))?;
            plain.compare(&ran).map_err(|problem| format!("{name} {options:?}: {problem}"))?;
            let mut errors = told::errors(&scratch.path("x.hl"))?;
            // Calls that can give no block are told, and rightly so.
            errors.retain(|error| !["failed-allocation", "calloc-overflow"].contains(&error.kind()));
            check!(errors.is_empty(), "{name} {options:?}: {errors:#?}");
        }
    }
    Ok(())
}

/// Blocks for which there is no page are guarded less, and that is said; the program notices nothing.
#[test]
fn what_is_guarded_less_is_counted() -> Result {
    let program = program("surroundings.c")?;
    let plain = alone(&program, &["threads"])?.good()?;
    for (options, is_less) in [
        (&["--guard=page", "--guard-memory=0"][..], true),
        (&["--guard=page", "--guard-memory=1"], true),
        (&["--guard=page", "--guard-memory=1M"], true),
        (&["--guard=page", "--guard-memory=1000G"], false),
        (&["--guard=full", "--guard-memory=0"], false),
    ] {
        let scratch = Scratch::new();
        let ran = process::run(&mut under_run(&scratch, "x", options, &program, &words(&["threads"])))?;
        plain.compare(&ran).map_err(|problem| format!("{options:?}: {problem}"))?;
        let less = Stats::of(scratch.path("x.hl"))?.0["losses"]["guarded_less"].as_u64().unwrap_or(0);
        check!((less != 0) == is_less, "{options:?}: {less} blocks were guarded less");
    }
    Ok(())
}

/// Where address space is limited there are fewer pages, and no failure.
#[test]
fn limits_of_the_address_space() -> Result {
    let program = program("surroundings.c")?;
    for kib in ["150000", "400000", "2000000", "20000000"] {
        for options in PAGES.iter().chain(&OTHERS) {
            let scratch = Scratch::new();
            let script = format!("ulimit -v {kib} && exec {} plain", program.display());
            let mut run = under_run(&scratch, "x", options, Path::new("/bin/sh"), &words(&["-c", &script]));
            let ran = process::run(&mut run)?;
            check!(ran.status.success() && ran.out() == "done\n", "{kib} KiB, {options:?}: {ran}");
        }
    }
    Ok(())
}

/// Of two million blocks those are guarded that are made at a place where few are.
#[test]
fn a_few_blocks_are_those_of_new_call_sites() -> Result {
    let program = program("rarely.c")?;
    for (word, fewest) in [("good", 0), ("bad", 18)] {
        let plain = alone(&program, &["good"])?.good()?;
        let scratch = Scratch::new();
        let ran = process::run(&mut under_run(&scratch, "x", &["--guard=page=1/1000"], &program, &words(&[word])))?;
        plain.compare(&ran).map_err(|problem| format!("{word}: {problem}"))?;
        let errors = told::errors(&scratch.path("x.hl"))?;
        let is_it = |error: &&told::Error| {
            let functions =
                |whose: &str| error.stacks.iter().find(|(of, _)| of == whose).map(|(_, functions)| functions);
            let is_place =
                functions("allocation").is_some_and(|stack| stack.iter().any(|frame| frame.starts_with("place_")));
            error.kind() == "heap-buffer-overflow" && error.offset() == Some(64) && is_place
        };
        let found = errors.iter().filter(is_it).count();
        let others: Vec<String> = errors.iter().filter(|error| !is_it(error)).map(|error| error.brief()).collect();
        check!(found >= fewest && others.is_empty(), "{word}: {found} of 20 were found, and {others:#?}");
    }
    Ok(())
}

/// Reads between a block's end and the next multiple of 16 are seen by nobody, but where blocks end at their page to the byte.
#[test]
fn blocks_end_at_their_page_if_that_was_asked_for() -> Result {
    let program = program("past_ends.c")?;
    let told = |options: &[&str], name: &str, word: &str| {
        let scratch = Scratch::new();
        process::run(&mut under_run(&scratch, "x", options, &program, &words(&[name, word])))?.good()?;
        told::errors(&scratch.path("x.hl"))
    };
    for name in ["load_1_behind_1", "load_8_behind_7", "load_1_behind_13", "char_loaded_behind", "wchar_loaded_behind"]
    {
        let usual = told(&["--guard=page"], name, "bad")?;
        check!(usual.is_empty(), "{name}: {usual:#?}");
        for way in PAGES.iter().map(|way| ["--guard=page", way[1], "--guard-align=1"]) {
            let errors = told(&way, name, "bad")?;
            let [error] = &errors[..] else { return Err(format!("{name} {way:?}: {errors:#?}")) };
            let is_it = error.kind() == "heap-buffer-overflow" && error.found_at() == "instruction";
            check!(is_it, "{name} {way:?}: {error:#?}");
            let right = told(&way, name, "good")?;
            check!(right.is_empty(), "{name} {way:?}: {right:#?}");
        }
    }
    // What asks for an alignment has it.
    let scratch = Scratch::new();
    let alone = process::run(
        under_run(&scratch, "x", &["--guard=off"], &program, &words(&["all", "good"])).current_dir(scratch.work()),
    )?;
    let options = ["--guard=page", "--guard-align=1"];
    let ran = process::run(&mut under_run(&scratch, "y", &options, &program, &words(&["all", "good"])))?.good()?;
    check!(alone.out() == ran.out(), "{alone} {ran}");
    Ok(())
}
