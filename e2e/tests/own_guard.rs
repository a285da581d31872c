//! Programs with the crate `heapledger` whose blocks are guarded: by themselves, or under `run`. What they do wrongly is told, with its stacks, and
//! what they do rightly is not.

use heapledger_e2e::own_books::{alone, check_books, programs};
use heapledger_e2e::process;
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, heapledger};
use heapledger_e2e::tracked::under_run;
use heapledger_e2e::{Result, check};
use serde_json::Value;

/// Where a case is found out: in which program, and as what.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    /// At `light`, and at `full`: kind of the error, when it is found; none: it is not.
    found: [Option<(&'static str, &'static str)>; 2],
    /// Bytes of the block, and how far behind its begin the first wrong byte lies.
    block: u64,
    offset: i64,
    /// Functions in the stacks of the error.
    functions: &'static [&'static str],
}

const OVERFLOW: &str = "heap-buffer-overflow";
const UNDERFLOW: &str = "heap-buffer-underflow";

const fn both(name: &'static str, kind: &'static str, at: &'static str, block: u64, offset: i64) -> Case {
    Case { name, found: [Some((kind, at)); 2], block, offset, functions: &["takes"] }
}

const CASES: &[Case] = &[
    both("overflow", OVERFLOW, "free", 100, 100),
    both("overflow_in_slack", OVERFLOW, "free", 97, 103),
    both("underflow", UNDERFLOW, "free", 100, -1),
    Case { functions: &["zeroed"], ..both("zeroed", OVERFLOW, "free", 5000, 5001) },
    both("aligned", OVERFLOW, "free", 300, 300),
    both("resized", OVERFLOW, "realloc", 70, 70),
    both("thread_overflows", OVERFLOW, "free", 110, 110),
    both("left_to_the_end", OVERFLOW, "exit", 90, 90),
    both("wrong_layout", "wrong-layout", "free", 140, 0),
    both("wrong_layout_resized", "wrong-layout", "realloc", 160, 0),
    Case { functions: &["takes", "frees_again"], ..both("double_free", "double-free", "free", 120, 0) },
    Case { functions: &["takes", "frees_again"], ..both("inner_free", "bad-free", "free", 130, 48) },
    Case { functions: &["frees_again"], ..both("stack_free", "bad-free", "free", 0, 0) },
    Case { functions: &["grown"], ..both("grown", OVERFLOW, "free", 60, 60) },
    both("asks", OVERFLOW, "sweep", 100, 100),
    Case {
        found: [None, Some(("heap-use-after-free", "exit"))],
        functions: &["takes", "frees"],
        ..both("after_free", "", "", 200, 100)
    },
    Case {
        // What the header said is gone at `light`; at `full` it stands elsewhere.
        found: [Some((UNDERFLOW, "free")); 2],
        ..both("underflow_of_all", "", "", 200, -16)
    },
];

const PROGRAMS: [&str; 2] = ["guard_light", "guard_full"];

/// The errors of the one ledger that a program has left, and the stacks of each.
fn errors(scratch: &Scratch) -> Result<Vec<(Value, Vec<String>)>> {
    let [ledger] = &scratch.finished()[..] else { return Err(format!("ledgers: {:?}", scratch.finished())) };
    let mut asked = command(heapledger());
    let told = process::run(asked.args(["errors", "--limit", "0", "--json"]).arg(ledger))?.good()?.out();
    let parse = |line: &str| serde_json::from_str::<Value>(line).map_err(|error| error.to_string());
    let lines = told.lines().map(parse).collect::<Result<Vec<Value>>>()?;
    let frames = |site: &Value| {
        let stack = lines.iter().find(|line| line["type"] == "site" && line["site"] == *site);
        let frames = stack.and_then(|stack| stack["frames"].as_array()).map(Vec::as_slice).unwrap_or_default();
        frames.iter().filter_map(|frame| frame["raw"].as_str().map(str::to_owned)).collect::<Vec<_>>()
    };
    let of = |error: &Value| {
        let stacks = error["stacks"].as_array().map(Vec::as_slice).unwrap_or_default();
        stacks.iter().flat_map(|stack| frames(&stack["site"])).collect::<Vec<_>>()
    };
    Ok(lines.iter().filter(|line| line["type"] == "error").map(|error| (error.clone(), of(error))).collect())
}

fn address(value: &Value) -> i64 {
    let digits = value.as_str().and_then(|text| text.strip_prefix("0x"));
    digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or_default() as i64
}

/// What is said of a case in one program is what there is.
fn is_told(profile: &'static str, at: usize, case: &Case) -> Result {
    let (scratch, what) = (Scratch::new(), format!("{profile} {} {}", PROGRAMS[at], case.name));
    let ran = process::run(&mut alone(&scratch, profile, PROGRAMS[at], &[case.name, "wrongly"])?)?.good()?;
    check!(ran.out() == "done\n", "{what}: {ran}");
    let (told, errors) = (case.found[at], errors(&scratch)?);
    let Some((kind, found_at)) = told else {
        check!(errors.is_empty(), "{what}: {errors:#?}");
        return Ok(());
    };
    let [(error, frames)] = &errors[..] else { return Err(format!("{what}: {errors:#?}, {ran}")) };
    check!(error["kind"] == kind && error["found_at"] == found_at, "{what}: {error:#}");
    if kind != "wrong-layout" && case.block != 0 {
        let offset = address(&error["address"]).wrapping_sub(address(&error["block"]));
        check!(offset == case.offset, "{what}: {offset} bytes from the block's begin: {error:#}");
        // Where the header is lost, the ledger still knows.
        check!(error["block_bytes"] == case.block, "{what}: {error:#}");
    }
    for function in case.functions {
        check!(frames.iter().any(|frame| frame.contains(function)), "{what}: no {function}: {frames:#?}");
    }
    // Nobody makes a report of the ledger at once: damage is said on standard error as well, but for what only the ledger can tell.
    let is_said = ran.err().contains("heapledger: ");
    check!(is_said || kind == "wrong-layout" || case.name == "asks", "{what}: {ran}");
    Ok(())
}

#[test]
fn what_a_program_does_wrongly_that_guards_itself_is_told() -> Result {
    for profile in ["dev", "release"] {
        for at in 0..PROGRAMS.len() {
            for case in CASES {
                is_told(profile, at, case)?;
            }
        }
    }
    Ok(())
}

#[test]
fn what_it_does_rightly_is_not() -> Result {
    for profile in ["dev", "release"] {
        for program in PROGRAMS {
            let others = ["threads", "child_overflows", "lowers"];
            for name in CASES.iter().map(|case| case.name).chain(others) {
                let scratch = Scratch::new();
                let ran = process::run(&mut alone(&scratch, profile, program, &[name, "rightly"])?)?.good()?;
                check!(ran.out() == "done\n" && ran.err().is_empty(), "{profile} {program} {name}: {ran}");
                let errors = errors(&scratch)?;
                check!(errors.is_empty(), "{profile} {program} {name}: {errors:#?}");
                check_books(&scratch)?;
            }
        }
    }
    Ok(())
}

#[test]
fn a_child_that_it_forks_goes_on_being_guarded() -> Result {
    for program in PROGRAMS {
        let scratch = Scratch::new();
        let ran = process::run(&mut alone(&scratch, "release", program, &["child_overflows", "wrongly"])?)?.good()?;
        let (out, said) = (ran.out(), ran.err());
        check!(out == "done\n" && errors(&scratch)?.is_empty(), "{program}: {ran}");
        for block in ["100-byte", "80-byte"] {
            let line = format!("heap-buffer-overflow: 1 byte was written 0 bytes after the {block} block");
            check!(said.matches(&line).count() == 1, "{program}: {ran}");
        }
        check!(said.lines().count() == 2, "{program}: {ran}");
    }
    Ok(())
}

#[test]
fn a_program_that_gives_up_is_looked_at_before_it_dies() -> Result {
    const SIGABRT: i32 = 6;
    for program in PROGRAMS {
        for (how, lines) in [("wrongly", 1), ("rightly", 0)] {
            let scratch = Scratch::new();
            let ran = process::run(&mut alone(&scratch, "release", program, &["aborts", how])?)?;
            check!(process::signal_of(&ran) == Some(SIGABRT), "{program}: {ran}");
            let told = ran.err().matches("0 bytes after the 90-byte block").count();
            check!(told == lines && ran.err().lines().count() == lines, "{program} {how}: {ran}");
        }
    }
    Ok(())
}

#[test]
fn a_program_lowers_its_guard() -> Result {
    for (program, expected) in [("guard_light", 1), ("guard_full", 2)] {
        let scratch = Scratch::new();
        let ran = process::run(&mut alone(&scratch, "release", program, &["lowers", "wrongly"])?)?.good()?;
        let errors = errors(&scratch)?;
        let found = |(error, _): &(Value, _)| error["kind"] == OVERFLOW && error["found_at"] == "realloc";
        // Equal errors are one, with a count.
        let times: u64 = errors.iter().filter_map(|(error, _)| error["repeats"].as_u64()).map(|times| times + 1).sum();
        check!(ran.out() == "done\n" && times == expected, "{program}: {errors:#?}, {ran}");
        check!(errors.iter().all(found), "{program}: {errors:#?}");
        check_books(&scratch)?;
    }
    Ok(())
}

#[test]
fn who_starts_the_program_has_the_last_word() -> Result {
    let told = |guard: &str, program: &str| -> Result<(usize, String)> {
        let scratch = Scratch::new();
        let mut command = alone(&scratch, "release", program, &["overflow", "wrongly"])?;
        command.env("HEAPLEDGER", format!("dir={},{guard}", scratch.live().display()));
        let ran = process::run(&mut command)?.good()?;
        Ok((errors(&scratch)?.len(), ran.err()))
    };
    check!(told("guard=light", "guard_full")?.0 == 1, "light");
    check!(told("guard=full,quarantine=0,check-every=2", "guard_light")?.0 == 1, "full");
    // As the allocator inside gave it, which has room for one byte more.
    check!(told("guard=off", "guard_light")? == (0, String::new()), "off");
    let closed = told("guard=page", "guard_light")?;
    check!(closed.0 == 1 && closed.1.contains("closed pages take `heapledger run`"), "{closed:?}");
    let sampled = told("guard=page=1/10", "guard_light")?;
    check!(sampled.0 == 0 && sampled.1.contains("blocks are not guarded"), "{sampled:?}");
    Ok(())
}

#[test]
fn under_run_the_guard_is_that_of_run() -> Result {
    for program in PROGRAMS {
        let path = programs("release")?.join(program);
        let words = ["overflow".to_owned(), "wrongly".to_owned()];
        for (level, count) in [("light", 1), ("full", 1), ("off", 0)] {
            let scratch = Scratch::new();
            let guard = format!("--guard={level}");
            let ran = process::run(&mut under_run(&scratch, level, &[&guard], &path, &words))?.good()?;
            check!(ran.out() == "done\n", "{program} {level}: {ran}");
            let ledger = scratch.path(&format!("{level}.hl"));
            let mut asked = command(heapledger());
            let told = process::run(asked.args(["errors", "--json"]).arg(ledger))?.good()?.out();
            check!(told.matches(r#""kind":"heap-buffer-overflow""#).count() == count, "{program} {level}: {told}");
        }
    }
    Ok(())
}

#[test]
fn a_rust_program_asks_whether_its_blocks_are_whole() -> Result {
    for profile in ["dev", "release"] {
        let scratch = Scratch::new();
        let ran = process::run(&mut alone(&scratch, profile, "guarded", &["alone"])?)?.good()?;
        check!(ran.out() == "not guarded\n", "{profile}: {ran}");
        let program = programs(profile)?.join("guarded");
        for level in ["light", "full"] {
            let guard = format!("--guard={level}");
            let words = ["guarded".to_owned()];
            let ran = process::run(&mut under_run(&scratch, level, &[&guard], &program, &words))?.good()?;
            check!(ran.out() == "as it should\n", "{profile} {level}: {ran}");
            let ledger = scratch.path(&format!("{level}.hl"));
            let errors = process::run(command(heapledger()).arg("errors").arg(ledger))?.good()?.out();
            let told = errors.contains("heap-buffer-overflow") && errors.contains("0 bytes after a 100-byte region");
            check!(told && errors.contains("guarded::main"), "{profile} {level}: {errors}");
        }
    }
    Ok(())
}
