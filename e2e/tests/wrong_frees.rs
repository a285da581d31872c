//! Frees of what is no block: what the ledger says of them, without a guard, when the C library has ended the program for it; and frees
//! of blocks that the ledger does not know.

use std::path::{Path, PathBuf};
use std::process::Command;

use heapledger_e2e::ledger::Stats;
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, heapledger, root};
use heapledger_e2e::tracked::under_run;
use heapledger_e2e::{Result, check, process};
use serde_json::Value;

const LEVELS: [&str; 2] = ["-O0", "-O2"];

fn built(scratch: &Scratch, source: &str, level: &str) -> Result<PathBuf> {
    let program = scratch.path("program");
    let mut compile = Command::new("gcc");
    compile.args(["-g", "-pthread", "-w", level, "-o"]).arg(&program).arg(root().join("e2e/guard").join(source));
    process::run(&mut compile)?.good()?;
    Ok(program)
}

fn errors(scratch: &Scratch, form: &[&str]) -> Result<String> {
    let mut errors = command(heapledger());
    errors.args(["errors", "--limit", "0"]).args(form).arg(scratch.path("x.hl"));
    Ok(process::run(&mut errors)?.good()?.out())
}

fn parsed(scratch: &Scratch) -> Result<Vec<Value>> {
    let parse = |line: &str| serde_json::from_str::<Value>(line).map_err(|error| error.to_string());
    errors(scratch, &["--json"])?.lines().map(parse).collect()
}

fn of<'l>(lines: &'l [Value], kind: &str) -> Vec<&'l Value> {
    lines.iter().filter(|line| line["type"] == kind).collect()
}

fn frames<'a>(stacks: &[&'a Value], site: &Value) -> Vec<&'a str> {
    let stack = stacks.iter().find(|stack| stack["site"] == *site);
    let frames = stack.and_then(|stack| stack["frames"].as_array()).map(Vec::as_slice).unwrap_or_default();
    frames.iter().filter_map(|frame| frame["raw"].as_str()).collect()
}

fn number(error: &Value, key: &str) -> u64 {
    let text = error[key].as_str().unwrap_or("0x0").trim_start_matches("0x");
    u64::from_str_radix(text, 16).unwrap_or(0)
}

struct Wrong {
    what: &'static str,
    kind: &'static str,
    whereabouts: &'static str,
    /// Bytes of the block, and how far in it.
    block: Option<(u64, u64)>,
    /// Whose stacks there are, and the function in each.
    stacks: &'static [(&'static str, &'static str)],
}

const GIVEN: (&str, &str) = ("allocation", "give");
const FREED: (&str, &str) = ("free", "first");
const WRONG: (&str, &str) = ("access", "wrong");

const fn wrong(
    what: &'static str,
    kind: &'static str,
    whereabouts: &'static str,
    block: Option<(u64, u64)>,
    stacks: &'static [(&'static str, &'static str)],
) -> Wrong {
    Wrong { what, kind, whereabouts, block, stacks }
}

const CASES: [Wrong; 14] = [
    wrong("double", "double-free", "freed block", Some((400, 0)), &[GIVEN, FREED, WRONG]),
    wrong("of_another_thread", "double-free", "freed block", Some((400, 0)), &[GIVEN, FREED, WRONG]),
    wrong("after_realloc", "double-free", "freed block", Some((400, 0)), &[GIVEN, ("free", "main"), WRONG]),
    wrong("large", "double-free", "freed block", Some((1 << 20, 0)), &[GIVEN, FREED, WRONG]),
    wrong("realloc_freed", "bad-realloc", "freed block", Some((400, 0)), &[GIVEN, FREED, ("access", "wrong_realloc")]),
    wrong("inside", "bad-free", "block", Some((400, 16)), &[GIVEN, WRONG]),
    wrong("inside_large", "bad-free", "block", Some((40 << 20, 30 << 20)), &[GIVEN, WRONG]),
    wrong("inside_realloc", "bad-realloc", "block", Some((400, 32)), &[GIVEN, ("access", "wrong_realloc")]),
    wrong("inside_freed", "bad-free", "freed block", Some((400, 64)), &[GIVEN, FREED, WRONG]),
    wrong("stack", "bad-free", "stack", None, &[WRONG]),
    wrong("module", "bad-free", "module", None, &[WRONG]),
    wrong("code", "bad-free", "module", None, &[WRONG]),
    wrong("text", "bad-free", "module", None, &[WRONG]),
    wrong("nothing", "bad-free", "nothing", None, &[WRONG]),
];

fn runs(scratch: &Scratch, options: &[&str], program: &Path, words: &[&str]) -> Result<process::Ran> {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    process::run(&mut under_run(scratch, "x", options, program, &words))
}

/// Frees that were told of as errors are counted, and no loss; and limits of memory are not doubtful because of them.
fn nothing_was_missed(scratch: &Scratch, frees: u64) -> Result {
    let ledger = scratch.path("x.hl");
    let stats = Stats::of(&ledger)?;
    check!(stats.number("unknown_frees") == frees, "{} unknown frees, not {frees}", stats.number("unknown_frees"));
    check!(stats.0["losses"]["unknown_frees"].is_null(), "losses: {}", stats.0["losses"]);
    // Calls that freed count all of them.
    let calls = stats.0["freed_by"].as_object().into_iter().flat_map(|by| by.values());
    let calls: u64 = calls.filter_map(|by| by["calls"].as_u64()).sum();
    check!(calls == stats.number("frees") + frees, "{calls} calls: {}", stats.0["freed_by"]);
    let text = process::run(command(heapledger()).arg("stats").arg(&ledger))?.good()?.out();
    let told = text.contains(" of these calls freed blocks that the ledger does not know\n");
    check!(told == (frees != 0), "{frees}: {text}");
    let limits = process::run(command(heapledger()).args(["check", "--max-live", "100M"]).arg(&ledger))?;
    check!(limits.status.success(), "{limits}");
    Ok(())
}

#[test]
fn each_is_in_the_ledger_when_the_program_has_died_of_it() -> Result {
    for level in LEVELS {
        for case in &CASES {
            let (scratch, what) = (Scratch::new(), case.what);
            let program = built(&scratch, "wrong_frees.c", level)?;
            let alone = process::run(command(&program).arg(what).current_dir(scratch.work()))?;
            let ran = runs(&scratch, &[], &program, &[what])?;
            check!(ran.status == alone.status, "{level} {what} ends with {}, not {}", ran.status, alone.status);
            let lines = parsed(&scratch)?;
            let (stacks, errors) = (of(&lines, "site"), of(&lines, "error"));
            let [error] = errors[..] else {
                return Err(format!("{level} {what}: {} errors: {errors:#?}", errors.len()));
            };
            check!(error["kind"] == case.kind && error["whereabouts"] == case.whereabouts, "{level} {what}: {error:#}");
            let called = if case.kind == "bad-realloc" { "realloc" } else { "free" };
            check!(error["called"] == called && error["found_at"] == called, "{level} {what}: {error:#}");
            check!(error["found_by"] == "state" && error["repeats"] == 0, "{level} {what}: {error:#}");
            if let Some((bytes, inside)) = case.block {
                let offset = number(error, "address") - number(error, "block");
                check!(error["block_bytes"] == bytes && offset == inside, "{level} {what}: {error:#}");
                check!(error["given_by"] == "malloc" && error["allocated"].is_u64(), "{level} {what}: {error:#}");
            } else {
                check!(error["block"].is_null() && error["address"].is_string(), "{level} {what}: {error:#}");
            }
            check!(error["freed"].is_u64() == (case.stacks.len() == 3), "{level} {what}: {error:#}");
            let told = error["stacks"].as_array().map_or(&[][..], Vec::as_slice);
            check!(told.len() == case.stacks.len(), "{level} {what}: {error:#}");
            for (stack, (whose, function)) in told.iter().zip(case.stacks) {
                let frames = frames(&stacks, &stack["site"]);
                check!(stack["of"] == *whose && frames.contains(function), "{level} {what}: {whose}: {frames:?}");
            }
            nothing_was_missed(&scratch, u64::from(called == "free"))
                .map_err(|error| format!("{level} {what}: {error}"))?;
        }
    }
    Ok(())
}

#[test]
fn the_same_without_what_is_wrong_is_no_error() -> Result {
    for level in LEVELS {
        let scratch = Scratch::new();
        let program = built(&scratch, "wrong_frees.c", level)?;
        for case in &CASES {
            std::fs::remove_file(scratch.path("x.hl")).ok();
            runs(&scratch, &[], &program, &[case.what, "right"])?.good()?;
            let lines = parsed(&scratch)?;
            check!(of(&lines, "error").is_empty(), "{level} {}: {lines:#?}", case.what);
        }
    }
    Ok(())
}

#[test]
fn they_are_told_in_words() -> Result {
    let scratch = Scratch::new();
    let program = built(&scratch, "wrong_frees.c", "-O0")?;
    let expected: [(&str, &[&str]); 3] = [
        (
            "double",
            &[
                "double-free: at 0x",
                ", in a freed block\nDetected  : by state, at free, time ",
                "\nCall      : free\n",
                "\nAddress   : 0 bytes inside a 400-byte region\n",
                "\nBefore    : 0x",
                ", 24 B, 8 bytes in front, allocated by give (wrong_frees.c:",
                "\nAfter     : 0x",
                ", 40 B, 16 bytes behind, allocated by give (wrong_frees.c:",
                "\nallocated, time ",
                "\nfreed, time ",
                "\nfreed again, time ",
                "wrong_frees.c:",
                "\nSUMMARY: double-free ",
                " in wrong\n",
            ],
        ),
        ("inside", &["bad-free: at 0x", ", in a live block\n", "\nAddress   : 16 bytes inside a 400-byte region\n"]),
        ("stack", &["bad-free: at 0x", ", on a stack\n", "\nwrong call, time ", "\nSUMMARY: bad-free "]),
    ];
    for (what, parts) in expected {
        std::fs::remove_file(scratch.path("x.hl")).ok();
        runs(&scratch, &[], &program, &[what])?;
        let text = errors(&scratch, &["--no-pager"])?;
        for part in parts {
            check!(text.contains(part), "{what}: {part:?} is not in:\n{text}");
        }
    }
    Ok(())
}

#[test]
fn a_token_is_the_same_in_each_build_and_run() -> Result {
    // Of the first free as much as was recorded of it.
    const TOKEN: &str = "double-free--allocation--give--main--free--first--access--wrong--main";
    const WHOLE: &str = "double-free--allocation--give--main--free--first--main--access--wrong--main";
    for (level, (options, token)) in
        LEVELS.iter().flat_map(|level| [(*level, (&[][..], TOKEN)), (*level, (&["--free-depth", "whole"], WHOLE))])
    {
        let scratch = Scratch::new();
        let program = built(&scratch, "wrong_frees.c", level)?;
        runs(&scratch, options, &program, &["double"])?;
        let text = errors(&scratch, &["--no-pager", "--dedup-token"])?;
        check!(text.contains(&format!("\nDEDUP_TOKEN: {token}\nSUMMARY: double-free ")), "{level}: {text}");
        let lines = parsed(&scratch)?;
        check!(of(&lines, "error").iter().all(|error| error["token"] == token), "{level}: {lines:#?}");
    }
    Ok(())
}

#[test]
fn without_a_history_a_double_free_is_only_counted() -> Result {
    let scratch = Scratch::new();
    let program = built(&scratch, "wrong_frees.c", "-O0")?;
    for what in ["double", "inside_freed"] {
        std::fs::remove_file(scratch.path("x.hl")).ok();
        runs(&scratch, &["--history", "0"], &program, &[what])?;
        let lines = parsed(&scratch)?;
        check!(of(&lines, "error").is_empty(), "{what}: {lines:#?}");
    }
    // What lives is known without one.
    std::fs::remove_file(scratch.path("x.hl")).ok();
    runs(&scratch, &["--history", "0"], &program, &["inside"])?;
    check!(of(&parsed(&scratch)?, "error").len() == 1, "a place in a live block");
    Ok(())
}

#[test]
fn of_blocks_that_nobody_told_of_nothing_is_said() -> Result {
    for level in LEVELS {
        let scratch = Scratch::new();
        let program = built(&scratch, "not_ours.c", level)?;
        for what in ["names", "handlers", "children", "threads"] {
            std::fs::remove_file(scratch.path("x.hl")).ok();
            runs(&scratch, &[], &program, &[what])?.good()?;
            let lines = parsed(&scratch)?;
            check!(of(&lines, "error").is_empty(), "{level} {what}: {lines:#?}");
        }
    }
    Ok(())
}

#[test]
fn run_says_how_many_there_are() -> Result {
    let scratch = Scratch::new();
    let program = built(&scratch, "wrong_frees.c", "-O0")?;
    let said = |words: &[&str]| -> Result<String> {
        let mut run = command(heapledger());
        run.args(["run", "-o"]).arg(scratch.path("y.hl")).arg("--ledger-dir").arg(scratch.live());
        run.arg("--").arg(&program).args(words).current_dir(scratch.work());
        let said = process::run(&mut run)?.err();
        std::fs::remove_file(scratch.path("y.hl")).map_err(|error| error.to_string())?;
        Ok(said)
    };
    let (wrong, right) = (said(&["stack"])?, said(&["stack", "right"])?);
    check!(wrong.contains("\n  errors       1 error was found: heapledger errors "), "{wrong}");
    check!(right.contains("\n  ledger       ") && !right.contains("errors"), "{right}");
    Ok(())
}

#[test]
fn a_debugger_breaks_at_each() -> Result {
    let scratch = Scratch::new();
    let program = built(&scratch, "wrong_frees.c", "-O0")?;
    let script = scratch.path("script.gdb");
    let orders = "set pagination off\nset breakpoint pending on\nset print thread-events off\nset follow-fork-mode child\n\
                  break heapledger_error\ncommands\nbacktrace 16\nkill\nquit\nend\nrun\n";
    std::fs::write(&script, orders).map_err(|error| error.to_string())?;
    for what in ["inside", "inside_realloc"] {
        let mut gdb = command("gdb");
        gdb.args(["-q", "-batch", "-x"]).arg(&script).arg("--args").arg(heapledger());
        gdb.args(["run", "-q", "-o"]).arg(scratch.path("gdb.hl")).arg("--ledger-dir").arg(scratch.live());
        gdb.arg("--").arg(&program).arg(what).current_dir(scratch.work());
        let said = process::run(&mut gdb)?.out();
        check!(said.contains("heapledger_error") && said.contains("in main ("), "{what}: {said}");
    }
    Ok(())
}

#[test]
fn a_check_has_a_limit_for_them() -> Result {
    let scratch = Scratch::new();
    let program = built(&scratch, "wrong_frees.c", "-O0")?;
    for (words, code, said) in [
        (&["inside"][..], 1, "found wrong: 1 error, the limit is 0"),
        (&["inside", "right"], 0, "found wrong: 0 errors, the limit is 0"),
    ] {
        std::fs::remove_file(scratch.path("x.hl")).ok();
        runs(&scratch, &[], &program, words)?;
        for form in ["text", "json", "junit", "sarif", "github"] {
            let mut check = command(heapledger());
            check.args(["check", "--max-errors", "0", "--format", form]).arg(scratch.path("x.hl"));
            let ran = process::run(&mut check)?;
            check!(ran.status.code() == Some(code), "{words:?} {form}: {ran}");
            check!(form != "junit" || ran.out().contains("max-errors"), "{words:?}: {ran}");
            check!(form != "json" || ran.out().contains("\"limit\":\"max-errors\""), "{words:?}: {ran}");
            let is_told = ran.out().replace("  ", " ").contains(said.split_once(": ").map_or(said, |(_, rest)| rest));
            check!(form != "text" || is_told, "{words:?} {form}: {ran}");
        }
    }
    Ok(())
}

#[test]
fn what_is_known_is_excused_and_the_rest_told_in_full() -> Result {
    let scratch = Scratch::new();
    let program = built(&scratch, "wrong_frees.c", "-O0")?;
    runs(&scratch, &[], &program, &["double"])?;
    let file = scratch.path("known.supp");
    let ran = |line: &str, words: &[&str]| -> Result<process::Ran> {
        std::fs::write(&file, line).map_err(|error| error.to_string())?;
        process::run(command(heapledger()).args(words).arg("--suppress").arg(&file).arg(scratch.path("x.hl")))
    };
    for line in ["double-free:first", "error:wrong_frees.c", "double-free:*"] {
        let told = ran(line, &["errors", "--no-pager"])?.good()?.out();
        check!(told.starts_with("No errors") && !told.contains("SUMMARY"), "{line}: {told}");
        check!(told.contains(&format!("\nSuppressed:\n  {line}  1 error, found 1 time\n")), "{line}: {told}");
        let json = ran(line, &["errors", "--json"])?.good()?.out();
        check!(json.contains(&format!(r#""type":"suppressed","by":"{line}","errors":1,"times":1"#)), "{line}: {json}");
        let held = ran(line, &["check", "--max-errors", "0"])?;
        check!(held.status.code() == Some(0) && held.out().contains("not counted: 1 error, found 1 time, "), "{held}");
    }
    for line in ["bad-free:first", "leak:first", "double-free:^fir$"] {
        let told = ran(line, &["errors", "--no-pager"])?.good()?.out();
        check!(told.contains("SUMMARY: double-free ") && !told.contains("Suppressed"), "{line}: {told}");
        let exceeded = ran(line, &["check", "--max-errors", "0"])?;
        check!(exceeded.status.code() == Some(1), "{exceeded}");
    }
    let bad = ran("double:first", &["errors"])?;
    check!(!bad.status.success() && bad.err().contains("known.supp: line 1: "), "{bad}");
    // Each form of a check has it with its place and its stacks.
    for (form, parts) in [
        ("text", &["  double-free ", "wrong_frees.c:", " in wrong\n"][..]),
        ("junit", &["<failure message=", "\nSUMMARY: double-free ", " in wrong\n", "freed again, time "]),
        ("sarif", &["\"kind\": \"double-free\"", "heapledgerError/v1", "wrong_frees.c\"", "\"text\": \"free: first"]),
        ("github", &["::error file=", "title=heapledger double-free::double-free ", "%0Afreed again, time "]),
        ("json", &[r#""kind":"double-free","summary":"double-free "#, r#""of":"access","stack":[{"#]),
    ] {
        let told = ran("", &["check", "--max-errors", "0", "--format", form])?.out();
        for part in parts {
            check!(told.contains(part), "{form}: {part:?} is not in:\n{told}");
        }
    }
    Ok(())
}

/// Each of so many blocks is freed by two threads at once: whoever is second is told of, however close it was, and nobody else.
#[test]
fn of_two_frees_at_once_one_is_told() -> Result {
    const ROUNDS: u64 = 2000;
    let scratch = Scratch::new();
    let program = built(&scratch, "races.c", "-O2")?;
    for level in ["light", "full", "page"] {
        let told = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let options = ["--force", "--errors", "quiet", &format!("--guard={level}")];
            let ran = process::run(&mut under_run(&scratch, "x", &options, &program, &words))?.good()?;
            check!(ran.out() == "goes on\n", "{level}: {ran}");
            let lines = parsed(&scratch)?;
            let errors = of(&lines, "error");
            let is_known = |error: &&&Value| error["kind"] == "double-free" || error["kind"] == "racing-free";
            check!(errors.iter().all(|error| is_known(&error)), "{level}: {errors:?}");
            let frees = errors.iter().map(|error| 1 + error["repeats"].as_u64().unwrap_or(0)).sum::<u64>();
            nothing_was_missed(&scratch, frees).map_err(|error| format!("{level}: {error}"))?;
            Ok::<_, String>(frees)
        };
        let (wrong, right) = (told(&[&ROUNDS.to_string()])?, told(&[&ROUNDS.to_string(), "own"])?);
        check!((wrong, right) == (ROUNDS, 0), "{level}: {wrong} of {ROUNDS}, and {right} where nothing is wrong");
    }
    Ok(())
}

/// Where blocks are guarded, `malloc_usable_size` of what is no block is told.
#[test]
fn sizes_of_what_is_no_block_are_told() -> Result {
    let scratch = Scratch::new();
    let program = built(&scratch, "sizes.c", "-O1")?;
    for level in ["light", "full", "page"] {
        for (of_what, expected) in [
            (None, None),
            (Some("freed"), Some("freed block")),
            (Some("inside"), Some("block")),
            (Some("global"), Some("module")),
            (Some("local"), Some("stack")),
        ] {
            let words: Vec<String> = of_what.iter().map(|word: &&str| (*word).to_owned()).collect();
            let options = ["--force", &format!("--guard={level}")];
            let ran = process::run(&mut under_run(&scratch, "x", &options, &program, &words))?.good()?;
            let lines = parsed(&scratch)?;
            let errors = of(&lines, "error");
            let told: Vec<_> = errors.iter().map(|error| (&error["kind"], &error["whereabouts"])).collect();
            let is_it = match (expected, &told[..]) {
                (None, []) => true,
                (Some(place), [(kind, whereabouts)]) => *kind == "bad-malloc_usable_size" && *whereabouts == place,
                _ => false,
            };
            check!(is_it && ran.out() == "goes on\n", "{level} {of_what:?}: {told:?} {ran}");
        }
    }
    Ok(())
}
