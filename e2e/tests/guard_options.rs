//! What a person may ask of the guard: how blocks are filled, how far apart they lie, when they are looked at, and whether the program ends
//! with what it does wrong.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Stdio};

use heapledger_e2e::ledger::Stats;
use heapledger_e2e::process::{self, Ran, signal_of, until};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, find, heapledger, root};
use heapledger_e2e::tracked::under_run;
use heapledger_e2e::{Result, check, skip};
use serde_json::Value;

fn built(scratch: &Scratch, name: &str) -> Result<PathBuf> {
    let program = scratch.path(name);
    let mut compile = command("gcc");
    compile.args(["-g", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-use-after-free", "-pthread", "-o"]).arg(&program);
    process::run(compile.arg(root().join("e2e/guard").join(name).with_extension("c")))?.good()?;
    Ok(program)
}

/// How `asked.c` does something, and the errors of its ledger.
fn asked(options: &[&str], what: &[&str]) -> Result<(Ran, Vec<Value>)> {
    let scratch = Scratch::new();
    let program = built(&scratch, "asked")?;
    let words: Vec<String> = what.iter().map(|word| (*word).to_owned()).collect();
    let ran = process::run(&mut under_run(&scratch, "x", options, &program, &words))?;
    Ok((ran, errors(&scratch.path("x.hl").to_string_lossy())?))
}

fn lines(ledger: &str) -> Result<Vec<Value>> {
    let told = process::run(command(heapledger()).args(["errors", "--json", ledger]))?.good()?.out();
    let lines = told.lines().map(serde_json::from_str).collect::<std::result::Result<Vec<Value>, _>>();
    lines.map_err(|error| format!("{error}: {told}"))
}

fn errors(ledger: &str) -> Result<Vec<Value>> {
    Ok(lines(ledger)?.into_iter().filter(|line| line["type"] == "error").collect())
}

#[test]
fn blocks_are_filled_as_was_asked_for() -> Result {
    for (options, expected) in [
        (&["--guard=full"][..], "ce ce fe fe\n"),
        (&["--guard=full", "--fill-new=a5", "--fill-freed=off"], "a5 a5 a5 a5\n"),
        (&["--guard=full", "--fill-new=off", "--fill-freed=0x11", "--fill-bytes=50"], "00 00 11 00\n"),
    ] {
        let (ran, errors) = asked(options, &["fills"])?;
        check!(ran.out() == expected && errors.is_empty(), "{options:?}: {errors:?} {ran}");
    }
    Ok(())
}

/// A child's errors are in no ledger. They are counted there, and for whoever asks whether there were any.
#[test]
fn errors_of_a_forked_child_are_counted() -> Result {
    let scratch = Scratch::new();
    let program = built(&scratch, "child")?;
    for level in ["--guard=light", "--guard=full", "--guard=page=both"] {
        for (words, status) in [(&["a", "b", "twice"][..], 9), (&[][..], 0)] {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let name = format!("{}{}", &level[8..10], words.len());
            let ran = process::run(&mut under_run(&scratch, &name, &[level, "--error-exitcode=9"], &program, &words))?;
            check!(ran.status.code() == Some(status) && ran.out() == "child 0\n", "{level}: {ran}");
            let of = |kind| ran.err().matches(kind).count();
            // What waits is known where it waits in memory of the guard's own.
            let twice = match level {
                "--guard=light" => "bad-free: no live block begins at 0x",
                _ => "double-free: the block of ",
            };
            let told = of("heap-buffer-overflow") + of(twice);
            check!(told == words.len() && (of("-free: ") == 1) != words.is_empty(), "{level}: {ran}");
            let ledger = scratch.path(&format!("{name}.hl"));
            let losses = &Stats::of(&ledger)?.0["losses"];
            check!(losses["errors_unrecorded"].as_u64().unwrap_or(0) == told as u64, "{level}: {losses}");
            let held = |most: &str| {
                let said = process::run(command(heapledger()).arg("check").arg(&ledger).args(["--max-errors", most]))?;
                Ok::<_, String>(said)
            };
            let (none, enough) = (held("0")?, held("3")?);
            check!(none.status.success() == words.is_empty(), "{level}: {none}");
            check!(enough.status.success(), "{level}: {enough}");
            if !words.is_empty() {
                check!(none.out().contains("3 errors were found in forked children"), "{level}: {none}");
            }
        }
    }
    Ok(())
}

#[test]
fn blocks_lie_as_far_apart_as_was_asked_for() -> Result {
    let far = |options: &[&str], at: &str| {
        let (ran, errors) = asked(options, &["far", at])?;
        let apart: i64 = ran.out().trim().parse().map_err(|_| ran.to_string())?;
        Ok::<_, String>((apart, errors))
    };
    let (apart, errors) = far(&["--guard=full"], "47")?;
    check!(apart >= 64 && errors.len() == 1 && errors[0]["kind"] == "heap-buffer-overflow", "{apart} {errors:?}");
    for at in ["0", "1023"] {
        let (apart, errors) = far(&["--guard=full", "--redzone=1K"], at)?;
        check!(apart >= 2048 && errors.len() == 1 && errors[0]["found_at"] == "free", "{apart} {errors:?}");
    }
    // Nothing waits: a block that was freed is free.
    let (ran, errors) = asked(&["--guard=full", "--quarantine-blocks=0"], &["twice"])?;
    check!(ran.status.success() && errors.len() == 1 && errors[0]["kind"] == "double-free", "{errors:?} {ran}");
    Ok(())
}

#[test]
fn the_program_ends_with_the_first_error_if_that_was_asked_for() -> Result {
    const HALT: &str = "--halt-on-error";
    for level in ["--guard=off", "--guard=light", "--guard=full"] {
        // A call that gives no block is nothing that the program does wrong.
        let (ran, errors) = asked(&[level, HALT], &["refused"])?;
        check!(ran.status.success() && ran.out() == "1\n" && errors.len() == 1, "{level}: {errors:?} {ran}");
        for what in ["twice", "behind", "caught"] {
            if level == "--guard=off" && what != "twice" {
                continue;
            }
            let (ran, errors) = asked(&[level, HALT], &[what])?;
            let ended = ran.status.code() == Some(134) || signal_of(&ran) == Some(6);
            check!(ended && ran.out().is_empty() && errors.len() == 1, "{level} {what}: {errors:?} {ran}");
        }
    }
    for level in ["--guard=light", "--guard=full"] {
        let (ran, _) = asked(&[level, HALT], &["child"])?;
        check!(ran.status.success() && ran.out() == "-6\n", "{level}: {ran}");
        let (ran, _) = asked(&[level], &["child"])?;
        check!(ran.status.success() && ran.out() == "7\n", "{level}: {ran}");
        let (ran, errors) = asked(&[level], &["behind"])?;
        check!(ran.status.success() && ran.out() == "goes on\n" && errors.len() == 1, "{level}: {errors:?} {ran}");
    }
    Ok(())
}

/// `verified.c`, with a thread that allocates all the time.
struct Busy {
    run: Child,
    stdin: Option<ChildStdin>,
    scratch: Scratch,
    ledger: String,
}

impl Busy {
    fn start(options: &[&str]) -> Result<Busy> {
        let scratch = Scratch::new();
        let program = built(&scratch, "verified")?;
        let mut command = under_run(&scratch, "x", options, &program, &["1".to_owned(), "5000".to_owned()]);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut run = command.spawn().map_err(|error| error.to_string())?;
        let stdin = run.stdin.take();
        let live = || {
            let mut all = scratch.unfinished().into_iter();
            all.find(|path| path.extension().is_some_and(|ending| ending == "hlive"))
        };
        until("its ledger", || live().is_some())?;
        let ledger = live().ok_or("no ledger")?.to_string_lossy().into_owned();
        Ok(Busy { run, stdin, scratch, ledger })
    }

    fn does(&mut self, what: &str) -> Result {
        let stdin = self.stdin.as_mut().ok_or("it has ended")?;
        stdin.write_all(format!("{what}\n").as_bytes()).map_err(|error| error.to_string())
    }

    /// Its errors when it has ended by itself.
    fn ends(mut self) -> Result<Vec<Value>> {
        drop(self.stdin.take());
        let status = self.run.wait().map_err(|error| error.to_string())?;
        check!(status.success(), "{status}");
        errors(&self.scratch.path("x.hl").to_string_lossy())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.run.wait();
    }
}

/// Whether there is an error, which was found by a look at what nobody freed, and before that one at all that found nothing.
fn is_found(errors: &[Value], kind: &str) -> Result<bool> {
    for error in errors {
        check!(error["kind"] == kind && error["found_at"] == "sweep", "{error}");
        check!(error["repeats"] == 0, "told once: {error}");
    }
    check!(errors.len() < 2, "{errors:?}");
    Ok(errors
        .iter()
        .any(|error| error["whole_ns"].as_u64() < error["first_ns"].as_u64() && error["whole_ns"] != Value::Null))
}

#[test]
fn what_is_damaged_is_found_while_the_program_goes_on() -> Result {
    for (level, line, kind) in [
        ("--guard=light", "behind", "heap-buffer-overflow"),
        ("--guard=full", "before", "heap-buffer-underflow"),
        ("--guard=full", "freed", "heap-use-after-free"),
    ] {
        for every in ["--check-every=50", "--check-every=1ms"] {
            let mut busy = Busy::start(&[level, every])?;
            // Some looks at all blocks find nothing first.
            std::thread::sleep(std::time::Duration::from_millis(300));
            check!(errors(&busy.ledger)?.is_empty(), "{level} {every}");
            busy.does(line)?;
            let mut problem = String::new();
            let ledger = busy.ledger.clone();
            until(&format!("{level} {every} {line}"), || {
                let found = errors(&ledger).and_then(|errors| is_found(&errors, kind));
                found.unwrap_or_else(|why| {
                    problem = why;
                    true
                })
            })?;
            check!(problem.is_empty(), "{level} {every} {line}: {problem}");
            // Many more looks at it, and then it is put right.
            std::thread::sleep(std::time::Duration::from_millis(100));
            is_found(&busy.ends()?, kind)?;
        }
    }
    Ok(())
}

#[test]
fn without_being_asked_nobody_looks() -> Result {
    for level in ["--guard=light", "--guard=full"] {
        let mut busy = Busy::start(&[level])?;
        busy.does("behind")?;
        std::thread::sleep(std::time::Duration::from_millis(200));
        let errors = busy.ends()?;
        check!(errors.is_empty(), "{level}: {errors:?}");
    }
    Ok(())
}

/// Quarantine, tables and closed pages stand apart from what lies around live blocks, and `private_bytes` is the sum of its parts.
#[test]
fn what_the_guard_takes_is_told_by_parts() -> Result {
    let Some(python) = find(&["python3"]) else {
        skip("what_the_guard_takes_is_told_by_parts", "python3 is not installed");
        return Ok(());
    };
    const SCRIPT: &str = "a = [str(n) for n in range(20000)]; del a";
    let words = ["-S", "-c", SCRIPT].map(str::to_owned);
    let stats = |options: &[&str]| {
        let scratch = Scratch::new();
        let mut run = under_run(&scratch, "x", options, &python, &words);
        process::run(run.env("PYTHONMALLOC", "malloc"))?.good()?;
        let told =
            process::run(command(heapledger()).args(["stats", "--json"]).arg(scratch.path("x.hl")))?.good()?.out();
        let line = told.lines().find(|line| line.contains(r#""type":"stats""#)).ok_or("no line of statistics")?;
        let parsed: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
        let text = process::run(command(heapledger()).arg("stats").arg(scratch.path("x.hl")))?.good()?.out();
        Ok::<_, String>((parsed["memory"].clone(), text))
    };
    let of = |memory: &Value, name: &str| memory[name].as_u64().ok_or_else(|| format!("{name}: {memory}"));
    for (options, has_tables, has_quarantine, has_closed) in [
        (&["--guard=off"][..], false, false, false),
        (&["--guard=light"], true, false, false),
        (&["--guard=full", "--quarantine=1M"], true, true, false),
        (&["--guard=page"], true, false, true),
    ] {
        let (memory, text) = stats(options)?;
        let parts = [
            "shadow_bytes",
            "sites_private_bytes",
            "threads_private_bytes",
            "guard_tables_bytes",
            "quarantine_bytes",
            "other_private_bytes",
        ];
        let sum = parts.iter().map(|part| of(&memory, part)).sum::<std::result::Result<u64, String>>()?;
        check!(sum == of(&memory, "private_bytes")?, "{options:?}: {sum}, {memory}");
        check!((of(&memory, "guard_tables_bytes")? > 0) == has_tables, "{options:?}: {memory}");
        check!(text.contains("guard: ") == has_tables, "{options:?}: {text}");
        let (blocks, bytes) = (of(&memory, "quarantine_blocks")?, of(&memory, "quarantine_bytes")?);
        if has_quarantine {
            // With a row and two places of the ring for each, which are among the tables, it is what was asked for.
            const IN_TABLES: u64 = 64 + 2 * 8;
            let all = bytes + blocks * IN_TABLES;
            check!(blocks > 4000 && (1000 << 10..=1 << 20).contains(&all), "{options:?}: {memory}");
            check!(text.contains("in the quarantine of"), "{options:?}: {text}");
        }
        // A block for which no pages are left is guarded as at `full`.
        check!(has_quarantine || has_closed || blocks == 0 && bytes == 0, "{options:?}: {memory}");
        let (blocks, bytes) = (of(&memory, "closed_blocks")?, of(&memory, "closed_bytes")?);
        check!(
            if has_closed { blocks > 5000 && bytes >= blocks * 4096 } else { blocks == 0 && bytes == 0 },
            "{memory}"
        );
    }
    Ok(())
}

/// Stacks of blocks may be short and by frame pointers: that of what was done wrong is whole all the same.
#[test]
fn the_stack_of_what_is_wrong_has_a_depth_of_its_own() -> Result {
    let frames = |options: &[&str], how: &str| {
        let all = [options, &["--depth", "2", "--unwind", "fast"]].concat();
        let scratch = Scratch::new();
        let program = built(&scratch, "asked")?;
        process::run(&mut under_run(&scratch, "x", &all, &program, &["deep".to_owned(), how.to_owned()]))?;
        let lines = lines(&scratch.path("x.hl").to_string_lossy())?;
        let error = lines.iter().find(|line| line["type"] == "error").ok_or(format!("{options:?}: {lines:?}"))?;
        let names = |of: &str| -> Vec<String> {
            let stack = error["stacks"].as_array().into_iter().flatten().find(|stack| stack["of"] == of);
            let is_it = |line: &&Value| line["type"] == "site" && stack.is_some_and(|it| it["site"] == line["site"]);
            let site = lines.iter().find(is_it).and_then(|site| site["frames"].as_array());
            site.into_iter().flatten().map(|frame| frame["function"].as_str().unwrap_or("?").to_owned()).collect()
        };
        Ok::<_, String>((names("allocation").len(), names("access")))
    };
    for (level, how) in [("off", "free"), ("full", "call"), ("page", "page")] {
        let guard = format!("--guard={level}");
        let (given, wrong) = frames(&[&guard], how)?;
        let deep = wrong.iter().filter(|name| *name == "deep").count();
        check!(given == 2 && deep == 7 && wrong.iter().any(|name| name == "main"), "{level}: {given} {wrong:?}");
        let (given, wrong) = frames(&[&guard, "--error-depth=3"], how)?;
        check!(given == 2 && wrong.len() == 3, "{level}: {given} {wrong:?}");
    }
    Ok(())
}

#[test]
fn paths_are_shown_without_what_is_left_off() -> Result {
    let scratch = Scratch::new();
    let program = built(&scratch, "asked")?;
    let words = ["twice".to_owned()];
    process::run(&mut under_run(&scratch, "x", &["--guard=full"], &program, &words))?.good()?;
    let ledger = scratch.path("x.hl");
    let shown = |options: &[&str]| {
        process::run(command(heapledger()).arg("errors").args(options).arg(&ledger))?.good().map(|ran| ran.out())
    };
    let whole = root().join("e2e/guard").to_string_lossy().into_owned();
    let all = shown(&[])?;
    check!(all.contains(&format!("{whole}/asked.c:")), "{all}");
    let off = shown(&["--strip-path", "/nowhere", "--strip-path", &whole])?;
    let has_line = off.lines().any(|line| line.trim_start().starts_with("asked.c:"));
    check!(has_line && !off.contains(&format!("{whole}/")) && off.contains("SUMMARY: double-free asked.c:"), "{off}");
    // The text of the line is read from where it is.
    check!(off.contains("end((void *)block);"), "{off}");
    Ok(())
}

/// What was asked for in vain is told, unless nothing is to be said.
#[test]
fn an_option_that_does_nothing_at_the_level_is_named() -> Result {
    for (options, said) in [
        (&["--redzone=64"][..], "heapledger: --redzone does nothing without --guard=full\n"),
        (&["--guard=light", "--check-every=9", "--guard-align=1"], "--guard-align does nothing without --guard=page\n"),
        (&["--guard=page=1/9", "--guard-memory=9M"], ""),
        (&["-q", "--redzone=64"], ""),
    ] {
        let scratch = Scratch::new();
        let mut run = command(heapledger());
        run.arg("run").args(options).arg("-o").arg(scratch.path("x.hl")).args(["--", "true"]);
        let ran = process::run(run.current_dir(scratch.work()))?.good()?;
        let told: Vec<String> =
            ran.err().lines().filter(|line| line.contains("does nothing")).map(str::to_owned).collect();
        check!(told.len() == usize::from(!said.is_empty()) && ran.err().contains(said), "{options:?}: {ran}");
    }
    Ok(())
}
