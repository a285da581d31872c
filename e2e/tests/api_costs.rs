//! What functions of the C API cost, in instructions that callgrind counts: nothing where they are not asked for; the same with few
//! records and with many.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;

use heapledger_e2e::c_programs;
use heapledger_e2e::programs::PATIENCE;
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, find, heapledger, preload};
use heapledger_e2e::tracked::{by_hand, by_hand_with};
use heapledger_e2e::{Result, callgrind, check, process, skip};

/// As in the program's source. A multiple of what a chunk of the history has: each segment adds up as many of them.
const PAIRS: u64 = 512;
const SEGMENTS: usize = 8;
/// Segments in which something is done for the first time.
const FIRST_KNOWN: usize = 3;

/// Where the program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Where {
    Alone,
    Recorded,
    WithAccounts,
}

/// Instructions of a pair of malloc and free, with a call of the API if that is asked for.
fn count(valgrind: &Path, program: &Path, place: Where, words: &[&str]) -> Result<f64> {
    let scratch = Scratch::new();
    let counts = scratch.path("callgrind.out");
    let mut arguments = callgrind::options(&counts);
    arguments.push(program.to_string_lossy().into_owned());
    arguments.extend(words.iter().map(|word| (*word).to_owned()));
    let mut run: Command;
    match place {
        Where::Alone => {
            run = command(valgrind);
            run.args(&arguments).current_dir(scratch.work());
        }
        Where::Recorded => run = by_hand(&scratch, &[], valgrind, &arguments),
        Where::WithAccounts => run = by_hand_with(&scratch, "history=65536,accounts=1", &[], valgrind, &arguments),
    }
    process::run_within(&mut run, PATIENCE)?.good()?;
    let text = fs::read_to_string(&counts).map_err(|error| format!("{}: {error}", counts.display()))?;
    let all = callgrind::segments(&text);
    check!(all.len() == SEGMENTS + 2, "callgrind has counted {} segments", all.len());
    // The first is the start, the last the end.
    let known = all.get(1 + FIRST_KNOWN..=SEGMENTS).unwrap_or(&[]);
    let fewest = known.iter().map(|segment| segment.instructions).min().ok_or("nothing was counted")?;
    Ok(fewest as f64 / PAIRS as f64)
}

/// Most instructions.
#[derive(Clone, Copy, Debug)]
enum Most {
    /// That it adds to a pair.
    Added(f64),
    /// Of a pair with it: hooks are compiled for what is usual, and what is not goes another way as a whole.
    InAll(f64),
}

/// What is asked for, where, and most instructions.
type Case = (&'static str, &'static [&'static str], Where, Most);

const CASES: &[Case] = &[
    ("a function that is absent", &["calls"], Where::Alone, Most::Added(12.0)),
    ("a function that is there", &["calls"], Where::Recorded, Most::Added(90.0)),
    ("a window that is open", &["window"], Where::Recorded, Most::Added(3.0)),
    ("one with a million blocks", &["window", "1000000"], Where::Recorded, Most::Added(3.0)),
    ("a block that is told of", &["told"], Where::Recorded, Most::Added(4000.0)),
    ("accounts", &[""], Where::WithAccounts, Most::Added(45.0)),
    ("a hook on allocations", &["alloc"], Where::Recorded, Most::InAll(2700.0)),
    ("a hook on frees", &["free"], Where::Recorded, Most::InAll(2700.0)),
    ("both", &["both"], Where::Recorded, Most::InAll(3140.0)),
    ("a hook on calls that fail", &["refused"], Where::Recorded, Most::InAll(2270.0)),
    ("a limit of live bytes", &["above"], Where::Recorded, Most::InAll(2450.0)),
    ("a region", &["region"], Where::Recorded, Most::InAll(2190.0)),
    ("a trace without stacks", &["trace"], Where::Recorded, Most::InAll(3380.0)),
    ("a trace with eight frames", &["trace-stacks"], Where::Recorded, Most::InAll(17100.0)),
];

fn program(scratch: &Scratch) -> Result<std::path::PathBuf> {
    built(scratch, "gcc", "costs.c")
}

fn built(scratch: &Scratch, compiler: &str, source: &str) -> Result<std::path::PathBuf> {
    c_programs::built(scratch, compiler, source, "costs", &["-O2", "-Wall", "-Wextra", "-Werror"])
}

/// Where no function is called it costs nothing that they could be: beside the same program without the header.
#[test]
fn functions_that_nobody_calls_cost_nothing() -> Result {
    let Some(valgrind) = find(&["valgrind"]) else {
        skip("api_costs", "valgrind is not installed");
        return Ok(());
    };
    let scratch = Scratch::new();
    let plain =
        c_programs::built(&scratch, "gcc", "costs.c", "plain", &["-O2", "-Wall", "-Wextra", "-Werror", "-DPLAIN"])?;
    let program = program(&scratch)?;
    preload();
    for place in [Where::Alone, Where::Recorded] {
        let without = count(&valgrind, &plain, place, &[])?;
        let with = count(&valgrind, &program, place, &["unused"])?;
        println!("{place:?}: {with:.1} instructions with the functions, {without:.1} without");
        check!((with - without).abs() < 1.0, "{place:?}: {with:.1} with them, {without:.1} without");
    }
    Ok(())
}

#[test]
fn what_each_function_costs() -> Result {
    let Some(valgrind) = find(&["valgrind"]) else {
        skip("api_costs", "valgrind is not installed");
        return Ok(());
    };
    let scratch = Scratch::new();
    let program = program(&scratch)?;
    preload(); // built now, and not by all threads
    heapledger();
    let base = |place| match place {
        Where::Alone => count(&valgrind, &program, Where::Alone, &[]),
        Where::Recorded | Where::WithAccounts => count(&valgrind, &program, Where::Recorded, &[]),
    };
    let (alone, recorded) = (base(Where::Alone)?, base(Where::Recorded)?);
    let counted = thread::scope(|scope| {
        let halves: Vec<_> = CASES
            .chunks(CASES.len().div_ceil(2))
            .map(|cases| {
                let (valgrind, program) = (&valgrind, &program);
                let each = move |(_, words, place, _): &Case| count(valgrind, program, *place, words);
                scope.spawn(move || cases.iter().map(each).collect::<Vec<_>>())
            })
            .collect();
        halves.into_iter().flat_map(|half| half.join().unwrap_or_default()).collect::<Vec<_>>()
    });
    check!(counted.len() == CASES.len(), "{} of {}", counted.len(), CASES.len());
    let mut table = format!("instructions of a malloc and a free: {alone:.0} alone, {recorded:.0} recorded; with\n");
    let mut too_many = String::new();
    for ((name, _, place, ceiling), counted) in CASES.iter().zip(counted) {
        let base = if *place == Where::Alone { alone } else { recorded };
        let (figure, ceiling, what) = match ceiling {
            Most::Added(ceiling) => (counted? - base, ceiling, "more"),
            Most::InAll(ceiling) => (counted?, ceiling, "in all"),
        };
        let line = format!("{name:<26} {figure:>7.1} {what}, ceiling {ceiling}\n");
        let _ = write!(table, "{line}");
        if figure > *ceiling {
            too_many += &line;
        }
    }
    println!("{table}");
    check!(too_many.is_empty(), "above their ceilings:\n{too_many}");
    Ok(())
}

/// A free costs the same with a hundred records and with a million, of blocks with a record and without.
#[test]
fn a_free_costs_the_same_however_many_records_there_are() -> Result {
    let Some(valgrind) = find(&["valgrind"]) else {
        skip("api_costs", "valgrind is not installed");
        return Ok(());
    };
    let scratch = Scratch::new();
    let program = program(&scratch)?;
    preload();
    heapledger();
    for what in ["trace", "trace-unknown"] {
        let counted = thread::scope(|scope| {
            let count = |live: &'static str| {
                let (valgrind, program) = (&valgrind, &program);
                scope.spawn(move || count(valgrind, program, Where::Recorded, &[what, live]))
            };
            let (few, many) = (count("100"), count("1000000"));
            let join = |thread: thread::ScopedJoinHandle<'_, Result<f64>>| {
                thread.join().unwrap_or_else(|_| Err("it panicked".to_owned()))
            };
            Ok::<_, String>((join(few)?, join(many)?))
        })?;
        println!("{what}: {:.0} instructions with 100 records, {:.0} with 1,000,000", counted.0, counted.1);
        check!(counted.1 < counted.0 * 1.15, "{what}: {counted:?}");
    }
    Ok(())
}

/// Most instructions that recording adds to an `operator new` and its `delete`. (By way of another stack they are 1,990, and system calls
/// beside that take twice as long as all of these.)
const OPERATORS_CEILING: f64 = 1870.0;

#[test]
fn operators_of_cxx_cost_about_what_malloc_costs() -> Result {
    let Some(valgrind) = find(&["valgrind"]) else {
        skip("api_costs", "valgrind is not installed");
        return Ok(());
    };
    let scratch = Scratch::new();
    let program = built(&scratch, "g++", "operators.cc")?;
    preload();
    let (alone, recorded) =
        (count(&valgrind, &program, Where::Alone, &[])?, count(&valgrind, &program, Where::Recorded, &[])?);
    println!("instructions of an operator new and its delete: {alone:.0} alone, {recorded:.0} recorded");
    check!(recorded - alone <= OPERATORS_CEILING, "{:.0} are added", recorded - alone);
    Ok(())
}
