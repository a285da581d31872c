//! Programs that do one thing wrong with a block: each is told with what it is, where it was found, whose the block is and who did it, as
//! `e2e/src/guard/promise.rs` promises for the level; and the same done rightly is silent, with the same output.

use std::path::Path;

use heapledger_e2e::guard::promise::Promise;
use heapledger_e2e::guard::{Build, Level, SOURCES, built, cases, stays_silent, told};
use heapledger_e2e::process::PATIENCE;
use heapledger_e2e::programs::{Load, NAMES, Redis, UNCOUNTED, prepare};
use heapledger_e2e::scratch::Scratch;
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
