//! Whoever misses names is told what to do about it, each engine its own, and no longer once it was done.

use std::fs;
use std::path::{Path, PathBuf};

use heapledger_e2e::process::{self, Ran};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, find, heapledger, python};
use heapledger_e2e::{Result, check, skip, victim};

/// Runs with the summary, which is returned; and what `tree` says.
fn told(scratch: &Scratch, program: &Path, words: &[&str]) -> Result<(String, String, Map)> {
    let ledger = scratch.path("x.hl");
    let mut run = command(heapledger());
    // Where engines leave files of their own, too.
    run.current_dir(scratch.work());
    run.args(["run", "--force", "--ledger-dir"])
        .arg(scratch.live())
        .arg("-o")
        .arg(&ledger)
        .arg("--")
        .arg(program)
        .args(words);
    let summary = process::run(&mut run)?.good()?.err();
    let tree = |words: &[&str]| -> Result<Ran> { process::run(command(heapledger()).args(words).arg(&ledger))?.good() };
    let text = tree(&["tree", "--inverted"])?.out();
    let stats = tree(&["stats", "--json"])?.out();
    let pid = stats.split("\"pid\":").nth(1).and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
    let pid = pid.ok_or_else(|| format!("no pid: {stats}"))?.to_owned();
    Ok((summary, text, Map(PathBuf::from(format!("/tmp/perf-{pid}.map")))))
}

/// A file that an engine wrote, removed at the end.
struct Map(PathBuf);

impl Drop for Map {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// What each engine is to be started with.
const WORDS: [&str; 3] = ["heapledger run --python", "--perf-basic-prof", "DumpPerfMapAtExit"];

/// Of these words, those in summary and tree; both must agree, and say it once.
fn said(summary: &str, tree: &str) -> Result<Vec<&'static str>> {
    let in_text = |text: &str| -> Vec<&'static str> { WORDS.into_iter().filter(|word| text.contains(word)).collect() };
    check!(in_text(summary) == in_text(tree), "the summary says: {summary}\nthe tree: {tree}");
    for word in WORDS {
        check!(summary.matches(word).count() <= 1 && tree.matches(word).count() <= 1, "twice: {summary}{tree}");
    }
    Ok(in_text(summary))
}

#[test]
fn python_is_told_of_its_own_ways() -> Result {
    let Some(python) = find(&["python3.11", "python3.12", "python3.13", "python3"]) else {
        skip("python3", "it is not installed");
        return Ok(());
    };
    let scratch = Scratch::new();
    let (summary, tree, _map) = told(&scratch, &python, &["-c", "kept = [bytearray(70001) for i in range(9)]"])?;
    check!(said(&summary, &tree)? == ["heapledger run --python"], "{summary}");
    check!(summary.contains("PYTHONMALLOC=malloc") && tree.contains("PYTHONMALLOC=malloc"), "{summary}{tree}");
    // Not where it was done.
    for (told, is_done) in [("malloc", true), ("malloc_debug", true), ("pymalloc", false)] {
        let ledger = scratch.path(&format!("{told}.hl"));
        let mut run = command(heapledger());
        run.env("PYTHONMALLOC", told).args(["run", "--ledger-dir"]).arg(scratch.live()).arg("-o").arg(&ledger);
        let summary = process::run(run.arg("--").arg(&python).args(["-c", "kept = [bytearray(70001)]"]))?.good()?.err();
        check!(
            summary.contains("PYTHONMALLOC=malloc") != is_done && summary.contains("run --python"),
            "{told}: {summary}"
        );
    }
    Ok(())
}

/// From 3.12 on it tells, and then functions of the script are in the summary.
#[test]
fn functions_of_python_are_in_the_summary() -> Result {
    let Some(python) = ["python3.12", "python3.13"].into_iter().find_map(python) else {
        skip("python3.12", "it is not installed");
        return Ok(());
    };
    let scratch = Scratch::new();
    let script = scratch.path("app.py");
    let text = "kept = []\ndef load(i):\n    kept.append(bytearray(70001))\ndef take():\n    for i in range(50): load(i)\ntake()\n\
                import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\n";
    fs::write(&script, text).map_err(|error| error.to_string())?;
    let ledger = scratch.path("x.hl");
    let mut run = command(heapledger());
    run.args(["run", "--ledger-dir"]).arg(scratch.live()).arg("-o").arg(&ledger).arg("--").arg(&python);
    let ran = process::run(run.args(["-X", "perf"]).arg(&script))?;
    let stats = process::run(command(heapledger()).args(["stats", "--json"]).arg(&ledger))?.good()?.out();
    let pid = stats.split("\"pid\":").nth(1).and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
    let _map = Map(PathBuf::from(format!("/tmp/perf-{}.map", pid.unwrap_or_default())));
    let summary = ran.err();
    check!(summary.contains(" < load (app.py)"), "the function of the script: {summary}");
    check!(!summary.contains("run --python"), "advised what was done: {summary}");
    // Who called it, too, though Python was built without frame pointers.
    let tree = process::run(command(heapledger()).args(["dump", "--group-by", "stack", "--limit", "1"]).arg(&ledger))?;
    let tree = tree.good()?.out();
    let places: Vec<Option<usize>> =
        ["load", "take", "<module>"].iter().map(|name| tree.find(&format!(" {name}"))).collect();
    check!(places.iter().all(Option::is_some) && places.is_sorted(), "the functions around it: {tree}");
    Ok(())
}

#[test]
fn node_is_told_of_its_own_way_until_it_was_taken() -> Result {
    let Some(node) = find(&["node", "nodejs"]) else {
        skip("node", "it is not installed");
        return Ok(());
    };
    let scratch = Scratch::new();
    let script = scratch.path("app.js");
    let text = "const kept = [];\nfunction hold(i) { kept.push(Buffer.allocUnsafeSlow(70001)); }\n\
                for (let i = 0; i < 50; i++) hold(i);\nprocess.reallyExit(0);\n";
    fs::write(&script, text).map_err(|error| error.to_string())?;
    let script = script.to_string_lossy().into_owned();
    let (summary, tree, _none) = told(&scratch, &node, &[&script])?;
    check!(said(&summary, &tree)? == ["--perf-basic-prof"], "{summary}");
    let words = ["--perf-basic-prof", "--interpreted-frames-native-stack", &script];
    let (summary, tree, _map) = told(&scratch, &node, &words)?;
    check!(said(&summary, &tree)?.is_empty(), "{summary}{tree}");
    check!(summary.contains("< hold (app.js:2)"), "the function of the script: {summary}");
    Ok(())
}

#[test]
fn java_is_told_of_its_own_way_until_it_was_taken() -> Result {
    let Some(java) = find(&["java"]) else {
        skip("java", "it is not installed");
        return Ok(());
    };
    let scratch = Scratch::new();
    let (summary, tree, _none) = told(&scratch, &java, &["-Xshare:auto", "-version"])?;
    check!(said(&summary, &tree)? == ["DumpPerfMapAtExit"], "{summary}");
    let words = ["-XX:+PreserveFramePointer", "-XX:+UnlockDiagnosticVMOptions", "-XX:+DumpPerfMapAtExit", "-version"];
    let (summary, tree, _map) = told(&scratch, &java, &words)?;
    check!(said(&summary, &tree)?.is_empty(), "{summary}{tree}");
    Ok(())
}

#[test]
fn nobody_else_is_told_of_engines() -> Result {
    let scratch = Scratch::new();
    let mut programs = vec![(victim::named("leaky")?.build()?, Vec::new())];
    match find(&["perl"]) {
        Some(perl) => programs.push((perl, vec!["-e", "my @a = map { 'x' x 70001 } 1..50;"])),
        None => skip("perl", "it is not installed"),
    }
    for (program, words) in programs {
        let (summary, tree, _none) = told(&scratch, &program, &words)?;
        check!(
            said(&summary, &tree)?.is_empty() && !summary.contains("PYTHONMALLOC"),
            "{}: {summary}",
            program.display()
        );
    }
    Ok(())
}

/// A program without symbols, of nobody's package: what can be given is said, in the summary too, and not where all have names.
#[test]
fn the_summary_says_what_can_be_given() -> Result {
    let scratch = Scratch::new();
    let built = victim::named("leaky")?.build()?;
    let (summary, ..) = told(&scratch, &built, &[])?;
    check!(!summary.contains("  names  "), "all have names: {summary}");
    let stripped = scratch.path("leaky");
    process::run(command("strip").arg("-o").arg(&stripped).arg(&built))?.good()?;
    let (summary, ..) = told(&scratch, &stripped, &[])?;
    let advice: Vec<&str> = summary.lines().filter(|line| line.starts_with("  names  ")).collect();
    check!(advice.len() == 1 && summary.contains("leaky (build id ") && summary.contains("--exe FILE"), "{summary}");
    Ok(())
}
