//! Programs that do one thing wrong with a block: each is told with what it is, where it was found, whose the block is and who did it, as
//! `e2e/src/guard/promise.rs` promises for the level; and the same done rightly is silent, with the same output.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use heapledger_e2e::guard::promise::Promise;
use heapledger_e2e::guard::{Build, Level, SOURCES, built, cases, stays_silent, told};
use heapledger_e2e::process::{self, PATIENCE};
use heapledger_e2e::programs::{Load, NAMES, Redis, UNCOUNTED, prepare};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, root};
use heapledger_e2e::tracked::under_run;
use heapledger_e2e::{Result, check, skip};

/// Of the cases that leave no trace, one in so many is run: to be sure that nothing is said of them, either.
const ONE_OF_THE_TRACELESS: usize = 8;
/// Of the many sizes and distances, each level takes one in so many, and each level others; `--example guard_victims` takes all.
const TURNS: usize = 3;

/// Every case that is promised something, by turns as it is written and as it is shipped.
fn each_is_told(level: Level) -> Result {
    let (mut problems, mut number, mut traceless) = (Vec::new(), 0, 0);
    for source in SOURCES {
        let (Some(written), Some(shipped)) = (built(source, Build::O0)?, built(source, Build::O2)?) else {
            skip(source, "there is no compiler for it");
            continue;
        };
        let turns = if source == "past_ends.c" { TURNS } else { 1 };
        for case in cases(&written)?.iter().skip(level as usize % turns).step_by(turns) {
            match case.promise(level) {
                Promise::Found(_) => {}
                Promise::Nothing if traceless % ONE_OF_THE_TRACELESS == 0 => traceless += 1,
                Promise::Nothing => {
                    traceless += 1;
                    continue;
                }
                Promise::Either => continue,
            }
            let scratch = Scratch::new();
            let program = if number % 2 == 0 { &written } else { &shipped };
            number += 1;
            case.run(&scratch, program, level)?;
            problems.extend(told::compare(case, level, &told::errors(&scratch.path("x.hl"))?).err());
        }
    }
    check!(number > 0, "no case is promised anything");
    check!(problems.is_empty(), "{} of {number} cases:\n{}", problems.len(), problems.join("\n"));
    Ok(())
}

fn what_is_right_is_silent(level: Level) -> Result {
    for source in SOURCES {
        for build in [Build::O0, Build::O2] {
            match built(source, build)? {
                Some(program) => stays_silent(&program, level)?,
                None => skip(source, "there is no compiler for it"),
            }
        }
    }
    Ok(())
}

macro_rules! levels {
    ($($wrong:ident, $right:ident, $level:expr;)*) => {
        $(#[test]
        fn $wrong() -> Result {
            each_is_told($level)
        }

        #[test]
        fn $right() -> Result {
            what_is_right_is_silent($level)
        })*
    };
}

levels! {
    off_tells_what_it_promises, off_is_silent_where_nothing_is_wrong, Level::Off;
    light_tells_what_it_promises, light_is_silent_where_nothing_is_wrong, Level::Light;
    full_tells_what_it_promises, full_is_silent_where_nothing_is_wrong, Level::Full;
    page_tells_what_it_promises, page_is_silent_where_nothing_is_wrong, Level::Page;
    under_tells_what_it_promises, under_is_silent_where_nothing_is_wrong, Level::Under;
}

/// Calls that are judged where much else is going on, and calls that must be what they are: see `judged.c`.
#[test]
fn judged_calls_are_what_they_are() -> Result {
    for build in [Build::O0, Build::O2] {
        let Some(program) = built("judged.c", build)? else {
            skip("judged.c", "there is no compiler for it");
            continue;
        };
        let scratch = Scratch::new();
        let plain = process::run(command(&program).current_dir(scratch.work()))?.good()?;
        let guarded = process::run(&mut under_run(&scratch, "x", Level::Full.options(), &program, &[]))?.good()?;
        check!(plain.out() == guarded.out(), "it says {guarded}, and without us {plain}");
        let of_child: Vec<String> = guarded.err().lines().map(str::to_owned).collect();
        let parts = [
            ["heap-buffer-overflow: memcpy writes 50 bytes, 0 bytes inside the 48-byte block", "called from"],
            ["heap-buffer-overflow: strcpy writes 11 bytes, 0 bytes inside the 10-byte block", "called from"],
            ["heap-use-after-free: memset writes 4 bytes, 0 bytes inside the freed 10-byte block", "called from"],
            ["heap-use-after-free: snprintf reads 1 byte, 0 bytes inside the freed 30-byte block", "called from"],
        ];
        for of_call in parts {
            let lines = of_child.iter().filter(|line| of_call.iter().all(|part| line.contains(part))).count();
            check!(lines == 1, "{of_call:?} is told {lines} times: {of_child:#?}");
        }
        let errors = told::errors(&scratch.path("x.hl"))?;
        let places: Vec<_> = errors.iter().map(|error| (error.kind(), error.found_at())).collect();
        check!(places == [("heap-buffer-overflow", "call"); 2], "of the loop and of the handler: {errors:#?}");
        check!(errors[0].json["repeats"] == 2 && errors[0].json["called"] == "memcpy", "{errors:#?}");
    }
    Ok(())
}

/// Copies whose ranges must be apart and are not, and a size that is a negative number: see `overlaps.c`.
#[test]
fn ranges_of_a_copy_are_held_against_each_other() -> Result {
    let Some(program) = built("overlaps.c", Build::O0)? else {
        skip("overlaps.c", "there is no compiler for it");
        return Ok(());
    };
    for level in [Level::Full, Level::Page] {
        for word in ["good", "bad"] {
            let scratch = Scratch::new();
            let ran = process::run(&mut under_run(&scratch, "x", level.options(), &program, &[word.to_owned()]))?;
            check!(ran.good()?.out() == "done\n", "{word}");
            let errors = told::errors(&scratch.path("x.hl"))?;
            let told: Vec<_> = errors
                .iter()
                .map(|error| {
                    let json = &error.json;
                    let begin = json["address"].as_str().and_then(|text| u64::from_str_radix(&text[2..], 16).ok());
                    let other = json["operands"][0].as_u64().unwrap_or(0);
                    let apart = other.wrapping_sub(begin.unwrap_or(0)) as i64;
                    (error.kind(), json["called"].as_str().unwrap_or_default(), json["bytes"].as_u64(), apart)
                })
                .collect();
            let negative = 5_u64.wrapping_neg();
            let expected = [
                ("memcpy-param-overlap", "memcpy", Some(16), -8),
                ("strcpy-param-overlap", "strcpy", Some(7), -4),
                ("strcpy-param-overlap", "strcat", Some(3), -2),
                ("memcpy-param-overlap", "wmemcpy", Some(12), 8),
                ("negative-size-param", "memcmp", Some(negative), 0),
            ];
            let of_kind = |(kind, called, bytes, apart): &(&str, &str, Option<u64>, i64)| {
                format!("{kind} {called} {bytes:?} {}", if *kind == "negative-size-param" { 0 } else { *apart })
            };
            let told: Vec<String> = told.iter().map(of_kind).collect();
            let expected: Vec<String> = expected.iter().map(of_kind).collect();
            check!(if word == "bad" { told == expected } else { told.is_empty() }, "{word}: {told:#?}");
        }
    }
    Ok(())
}

/// The functions of the list in `crates/calls`.
fn judged_functions() -> Result<BTreeSet<String>> {
    let path = root().join("crates/calls/src/list.rs");
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let rows = text.lines().filter(|line| line.contains("|c: &Call|"));
    let names: BTreeSet<String> = rows.filter_map(|row| row.split('"').nth(1)).map(str::to_owned).collect();
    check!(names.len() > 150 && names.contains("memcpy"), "the list was not understood: {names:?}");
    Ok(names)
}

/// Each of them is called once in a wrong way, and told once, with what it has read or written.
#[test]
fn each_judged_function_is_told() -> Result {
    let Some(program) = built("every_call.c", Build::O0)? else {
        skip("every_call.c", "there is no compiler for it");
        return Ok(());
    };
    let scratch = Scratch::new();
    let said = process::run(&mut under_run(&scratch, "x", Level::Full.options(), &program, &[]))?.good()?.out();
    let (mut errors, mut functions) = (told::errors(&scratch.path("x.hl"))?, judged_functions()?);
    for line in said.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [function, direction, bytes] = words[..] else { return Err(format!("the program says {line}")) };
        let bytes: u64 = bytes.parse().map_err(|_| format!("the program says {line}"))?;
        check!(functions.remove(function), "{function} is not in the list, or comes twice");
        let (of_it, others): (Vec<_>, Vec<_>) = errors.into_iter().partition(|error| error.json["called"] == function);
        errors = others;
        check!(of_it.len() == 1, "{function} is told {} times: {of_it:#?}", of_it.len());
        let (kind, json) = (of_it[0].kind(), &of_it[0].json);
        let has_bytes = json["bytes"].as_u64().is_some_and(|told| if bytes == 0 { told > 48 } else { told == bytes });
        let is_told = kind == "heap-buffer-overflow" && of_it[0].found_at() == "call" && json["repeats"] == 0;
        check!(is_told && has_bytes && json["direction"] == direction, "{line}, and what is told: {json}");
    }
    check!(functions.is_empty() && errors.is_empty(), "never called: {functions:?}; and told beside: {errors:#?}");
    let (scratch, good) = (Scratch::new(), ["good".to_owned()]);
    process::run(&mut under_run(&scratch, "x", Level::Full.options(), &program, &good))?.good()?;
    let errors = told::errors(&scratch.path("x.hl"))?;
    check!(errors.is_empty(), "where nothing is wrong: {errors:#?}");
    Ok(())
}

/// Programs that do nothing wrong: they say what they say without us, and nothing is reported.
fn programs_are_silent(level: Level) -> Result {
    for name in NAMES.iter().chain(UNCOUNTED) {
        let scratch = Scratch::new();
        let Some(program) = prepare(name, &scratch, Load::Quick)? else {
            skip(name, "it is not installed");
            continue;
        };
        let plain = program.plain(&scratch)?.good()?;
        let (guarded, ledger) = program.under_run(&scratch, level.options())?;
        plain.compare(&guarded).map_err(|problem| format!("{name} at {}: {problem}", level.name()))?;
        let errors = told::errors(&ledger)?;
        check!(errors.is_empty(), "{name} at {}: {errors:#?}", level.name());
    }
    Ok(())
}

fn a_server_is_silent(level: Level) -> Result {
    let scratch = Scratch::new();
    let start = |program: &Path, arguments: &[String]| under_run(&scratch, "x", level.options(), program, arguments);
    let Some(redis) = Redis::start(&scratch, start)? else {
        skip("redis", "redis-server or redis-benchmark is not installed");
        return Ok(());
    };
    let ran = redis.benchmark(10_000)?.finish(PATIENCE)?;
    check!(ran.status.success(), "redis-benchmark fails: {ran}");
    check!(redis.keys()?.trim() != "0", "there should be keys");
    redis.shut_down()?.good()?;
    let errors = told::errors(&scratch.path("x.hl"))?;
    check!(errors.is_empty(), "redis at {}: {errors:#?}", level.name());
    Ok(())
}

#[test]
fn real_programs() -> Result {
    programs_are_silent(Level::Light)
}

#[test]
fn real_programs_at_full() -> Result {
    programs_are_silent(Level::Full)
}

#[test]
fn real_programs_at_page() -> Result {
    programs_are_silent(Level::Page)
}

#[test]
fn a_server_at_page() -> Result {
    a_server_is_silent(Level::Page)
}

#[test]
fn a_server_at_full() -> Result {
    a_server_is_silent(Level::Full)
}

#[test]
fn a_server() -> Result {
    a_server_is_silent(Level::Light)
}
