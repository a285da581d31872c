//! Blocks that are given back by a function of another family, or with another size: what the ledger says of them, without a guard; and
//! what looks so and is right.

use std::path::{Path, PathBuf};
use std::process::Command;

use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, heapledger, root};
use heapledger_e2e::tracked::under_run;
use heapledger_e2e::{Result, check, process};
use serde_json::Value;

const LEVELS: [&str; 2] = ["-O0", "-O2"];

fn built(scratch: &Scratch, source: &str, name: &str, options: &[&str]) -> Result<PathBuf> {
    let product = scratch.path(name);
    let mut compile = Command::new("g++");
    compile.args(["-std=c++17", "-g", "-pthread", "-w", "-o"]).arg(&product);
    compile.arg(root().join("e2e/guard").join(source)).args(options).arg("-ldl");
    process::run(&mut compile)?.good()?;
    Ok(product)
}

/// Runs it, which must go well, and returns its errors: stacks and the rest, as JSON.
fn errors_of(scratch: &Scratch, options: &[&str], program: &Path, words: &[String]) -> Result<Vec<Value>> {
    process::run(&mut under_run(scratch, "x", options, program, words))?.good()?;
    let parse = |line: &str| serde_json::from_str::<Value>(line).map_err(|error| error.to_string());
    errors(scratch, &["--json"])?.lines().map(parse).collect()
}

fn errors(scratch: &Scratch, form: &[&str]) -> Result<String> {
    let mut errors = command(heapledger());
    errors.args(["errors", "--limit", "0"]).args(form).arg(scratch.path("x.hl"));
    Ok(process::run(&mut errors)?.good()?.out())
}

fn of<'l>(lines: &'l [Value], kind: &str) -> Vec<&'l Value> {
    lines.iter().filter(|line| line["type"] == kind).collect()
}

fn frames<'a>(stacks: &[&'a Value], site: &Value) -> Vec<&'a str> {
    let stack = stacks.iter().find(|stack| stack["site"] == *site);
    let frames = stack.and_then(|stack| stack["frames"].as_array()).map(Vec::as_slice).unwrap_or_default();
    frames.iter().filter_map(|frame| frame["raw"].as_str()).collect()
}

const MISMATCH: &str = "alloc-dealloc-mismatch";
const OTHER_TYPE: &str = "new-delete-type-mismatch";
const PAGE: u64 = 4096;

/// What is done, what is wrong with that, who gave the block, of how many bytes, who ended it, and what that was told.
type Wrong = (&'static str, &'static str, &'static str, u64, &'static str, [u64; 2]);

const WRONG: [Wrong; 16] = [
    ("malloc_delete", MISMATCH, "malloc", 100, "delete", [0, 0]),
    ("calloc_delete_array", MISMATCH, "calloc", 200, "delete[]", [0, 0]),
    ("strdup_delete", MISMATCH, "malloc", 12, "delete", [0, 0]),
    ("new_free", MISMATCH, "new", 300, "free", [0, 0]),
    ("new_array_free", MISMATCH, "new[]", 400, "free", [0, 0]),
    ("new_realloc", MISMATCH, "new", 500, "realloc", [0, 0]),
    ("new_delete_array", MISMATCH, "new", 600, "delete[]", [0, 0]),
    ("new_array_delete", MISMATCH, "new[]", 700, "delete", [0, 0]),
    ("object_delete_array", MISMATCH, "new[]", 640, "delete", [0, 0]),
    ("aligned_delete", OTHER_TYPE, "new(align)", 800, "delete", [0, 0]),
    ("delete_aligned", OTHER_TYPE, "new", 900, "delete(align)", [0, PAGE]),
    ("sized", OTHER_TYPE, "new", 1000, "delete(size)", [996, 0]),
    ("array_sized", OTHER_TYPE, "new[]", 1100, "delete[](size)", [1, 0]),
    ("aligned_sized", OTHER_TYPE, "new(align)", 1200, "delete(size,align)", [1201, PAGE]),
    ("huge", OTHER_TYPE, "new", 5 << 30, "delete(size)", [6 << 30, 0]),
    ("derived", OTHER_TYPE, "new", 16, "delete(size)", [8, 0]),
];

/// Of C libraries that have these, or under us: we bring them.
const WRONG_SIZED: [Wrong; 3] = [
    ("free_sized_other", OTHER_TYPE, "malloc", 1300, "free_sized", [1301, 0]),
    ("free_sized_aligned", OTHER_TYPE, "aligned_alloc", 1408, "free_sized", [1408, 0]),
    ("free_aligned_sized_other", OTHER_TYPE, "aligned_alloc", 1536, "free_aligned_sized", [1537, 64]),
];

#[test]
fn each_is_told_with_both_stacks() -> Result {
    for level in LEVELS {
        let scratch = Scratch::new();
        let program = built(&scratch, "mismatches.cc", "mismatches", &[level])?;
        let lines = errors_of(&scratch, &[], &program, &[])?;
        let (stacks, errors) = (of(&lines, "site"), of(&lines, "error"));
        let expected: Vec<&Wrong> = WRONG.iter().chain(&WRONG_SIZED).collect();
        check!(errors.len() == expected.len(), "{level}: {} errors: {errors:#?}", errors.len());
        for (error, (name, kind, given_by, bytes, called, told)) in errors.iter().zip(expected) {
            let found_at = if *called == "realloc" { "realloc" } else { "free" };
            check!(error["kind"] == *kind && error["found_at"] == found_at, "{level} {name}: {error:#}");
            check!(error["given_by"] == *given_by && error["called"] == *called, "{level} {name}: {error:#}");
            check!(error["block_bytes"] == *bytes && error["repeats"] == 1, "{level} {name}: {error:#}");
            check!(error["operands"] == Value::from(told.to_vec()), "{level} {name}: {error:#}");
            check!(error["freed"].is_u64() == (found_at == "free"), "{level} {name}: {error:#}");
            let [gave, ended] = [&error["stacks"][0], &error["stacks"][1]];
            check!(gave["of"] == "allocation" && ended["of"] == "free", "{level} {name}: {error:#}");
            check!(error["stacks"][2].is_null(), "{level} {name}: {error:#}");
            let plain = |name: &str| name.replace("(size)", "").replace("(size,", "(");
            let pair = format!("{kind}--{}--{}--allocation--", plain(given_by), plain(called));
            check!(error["token"].as_str().is_some_and(|token| token.starts_with(&pair)), "{level} {name}: {error:#}");
            for (stack, what) in [(gave, "gives"), (ended, "ends")] {
                let frames = frames(&stacks, &stack["site"]);
                let function = format!("{name}_{what}");
                check!(frames.contains(&&*function), "{level}: {function} is not in {frames:?}");
            }
        }
    }
    Ok(())
}

#[test]
fn they_are_told_in_words() -> Result {
    let scratch = Scratch::new();
    let program = built(&scratch, "mismatches.cc", "mismatches", &["-O0"])?;
    errors_of(&scratch, &[], &program, &[])?;
    let text = errors(&scratch, &["--no-pager"])?;
    for part in [
        "alloc-dealloc-mismatch\nDetected  : by state, at free, time ",
        "Call      : delete\n",
        ", malloc 100 B, number ",
        "Call      : realloc\n",
        "new-delete-type-mismatch\nDetected  : by argument, at free, time ",
        "Call      : delete(size), size given 996\n",
        ", new 1,000 B, number ",
        "Call      : delete(size,align), size given 1,201, alignment given 4,096\n",
        "malloc_delete_gives\n",
        "malloc_delete_ends\n",
        "Again     : 1 time, time ",
    ] {
        check!(text.contains(part), "{part:?} is not in:\n{text}");
    }
    Ok(())
}

fn stays_silent(scratch: &Scratch, options: &[&str], program: &Path, words: &[String]) -> Result {
    let lines = errors_of(scratch, options, program, words)?;
    let errors = of(&lines, "error");
    check!(errors.is_empty(), "{} {words:?} {options:?}: {errors:#?}", program.display());
    Ok(())
}

#[test]
fn what_is_right_is_no_error() -> Result {
    for level in LEVELS {
        for more in [&[][..], &["-static-libstdc++", "-static-libgcc"]] {
            let scratch = Scratch::new();
            let program = built(&scratch, "matches.cc", "matches", &[&[level], more].concat())?;
            stays_silent(&scratch, &[], &program, &[])?;
        }
    }
    Ok(())
}

#[test]
fn operators_of_a_module_of_its_own_are_no_error() -> Result {
    let scratch = Scratch::new();
    let library = |name: &str, more: &[&str]| {
        let all = [&["-shared", "-fPIC", "-fvisibility=hidden", "-O2"], more].concat();
        built(&scratch, "partial_library.cc", name, &all)
    };
    let hides = ["-static-libstdc++", "-static-libgcc", "-Wl,--exclude-libs,ALL"];
    let (plain, hidden) = (library("plain.so", &[])?, library("hidden.so", &hides)?);
    let libraries = [plain, hidden].map(|path| path.to_string_lossy().into_owned());
    let ways: [(&str, &[&str]); 5] = [
        ("plain", &[]),
        ("own_new", &["-DOWN_NEW"]),
        ("own_delete", &["-DOWN_DELETE"]),
        ("inside", &["-static-libstdc++", "-static-libgcc"]),
        ("own_delete_inside", &["-DOWN_DELETE", "-static-libstdc++", "-static-libgcc"]),
    ];
    for (name, options) in ways {
        let program = built(&scratch, "partial_main.cc", name, &[&["-O2"], options].concat())?;
        stays_silent(&scratch, &[], &program, &libraries)?;
    }
    Ok(())
}

#[test]
fn of_samples_nothing_is_said() -> Result {
    let scratch = Scratch::new();
    let program = built(&scratch, "mismatches.cc", "mismatches", &["-O0"])?;
    stays_silent(&scratch, &["--sample", "1"], &program, &[])
}

/// The value of an alignment is known where blocks are guarded.
#[test]
fn another_alignment_is_told_where_blocks_are_guarded() -> Result {
    let scratch = Scratch::new();
    let program = built(&scratch, "alignments.cc", "alignments", &["-O1"])?;
    let told = |level: &str, words: &[String]| {
        let lines = errors_of(&scratch, &["--force", level], &program, words)?;
        let of_error = |error: &Value| {
            let number = |value: &Value| value.as_u64().unwrap_or(0);
            let text = |name: &str| error[name].as_str().unwrap_or("?").to_owned();
            let said = (number(&error["operands"][0]), number(&error["operands"][1]));
            (text("kind"), text("given_by"), text("called"), number(&error["alignment"]), said)
        };
        Ok::<_, String>(of(&lines, "error").into_iter().map(of_error).collect::<Vec<_>>())
    };
    for level in ["--guard=light", "--guard=full", "--guard=page", "--guard=page=under"] {
        let wrong = |by: &str, called: &str, asked, said| {
            (OTHER_TYPE.to_owned(), by.to_owned(), called.to_owned(), asked, said)
        };
        let expected = [
            wrong("new(align)", "delete(align)", 64, (0, 32)),
            wrong("new[](align)", "delete[](size,align)", 128, (100, 4096)),
        ];
        let found = told(level, &[])?;
        check!(found == expected, "{level}: {found:?}");
        let right = told(level, &["right".to_owned()])?;
        check!(right.is_empty(), "{level}: {right:?}");
    }
    let unguarded = told("--guard=off", &[])?;
    check!(unguarded.is_empty(), "{unguarded:?}");
    Ok(())
}
