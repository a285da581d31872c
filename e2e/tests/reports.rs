//! What `run` prints of errors while a program goes on, and how it ends for them.

use std::path::{Path, PathBuf};
use std::process::Command;

use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, heapledger, root};
use heapledger_e2e::{Result, check, process};

/// What `run` says on standard error, with these options, and how it ends.
fn watched(scratch: &Scratch, options: &[&str], program: &Path, words: &[&str]) -> Result<process::Ran> {
    process::run(&mut run_command(scratch, options, program, words))
}

fn run_command(scratch: &Scratch, options: &[&str], program: &Path, words: &[&str]) -> Command {
    let mut run = command(heapledger());
    run.args(["run", "--force", "-o"]).arg(scratch.path("y.hl")).arg("--ledger-dir").arg(scratch.live()).args(options);
    run.arg("--").arg(program).args(words).current_dir(scratch.work());
    run
}

/// A program that gives so many blocks of `new` to `free`, which glibc takes as they are.
fn many(scratch: &Scratch) -> Result<PathBuf> {
    compiled(scratch, "many_mismatches.cc")
}

fn compiled(scratch: &Scratch, source: &str) -> Result<PathBuf> {
    let program = scratch.path(&format!("{source}.program"));
    let mut compile = Command::new("g++");
    compile.args(["-g", "-O0", "-w", "-pthread", "-o"]).arg(&program).arg(root().join("e2e/guard").join(source));
    process::run(&mut compile)?.good()?;
    Ok(program)
}

#[test]
fn run_reports_them_as_they_come() -> Result {
    let scratch = Scratch::new();
    let program = many(&scratch)?;
    // While it goes on: the program ends only when a report has been printed.
    let shown = scratch.path("told");
    let file = std::fs::File::create(&shown).map_err(|error| error.to_string())?;
    let name = shown.to_string_lossy().into_owned();
    let ended = run_command(&scratch, &[], &program, &["1", &name]).stderr(file).status();
    check!(ended.is_ok_and(|status| status.success()), "it ends well");
    let told = std::fs::read_to_string(&shown).map_err(|error| error.to_string())?;
    let at = |part: &str| told.find(part).ok_or_else(|| format!("{part:?} is not in:\n{told}"));
    check!(at("heapledger: alloc-dealloc-mismatch\n")? < at("\nSUMMARY: alloc-dealloc-mismatch ")?, "{told}");
    check!(
        at("\nSUMMARY: alloc-dealloc-mismatch ")? < at("\nthe program ends\n")?,
        "it is told when the program has ended: {told}"
    );
    check!(at("\nthe program ends\n")? < at("\n  errors       1 error was found: ")?, "{told}");
    // Each once; and there is an end to it.
    for (number, reports) in [("3", 3), ("20", 16)] {
        let told = watched(&scratch, &[], &program, &[number])?.good()?.err();
        check!(told.matches("\nSUMMARY: alloc-dealloc-mismatch ").count() == reports, "{told}");
        check!(told.contains(&format!("\n  errors       {number} errors were found: ")), "{told}");
        check!(told.contains("no further errors are printed") == (reports == 16), "{told}");
    }
    // Not more than was wanted, and nothing where there is nothing.
    for (options, summary, reports) in [
        (&["--errors", "count"][..], true, 0),
        (&["--errors=quiet"], false, 0),
        (&["-q"], false, 0),
        (&["-q", "--errors=report"], false, 3),
    ] {
        let told = watched(&scratch, options, &program, &["3"])?.good()?.err();
        check!(told.matches("SUMMARY").count() == reports, "{options:?}: {told}");
        check!(told.contains("3 errors were found") == summary, "{options:?}: {told}");
    }
    let nothing = watched(&scratch, &["-q", "--errors=report"], &program, &["0"])?.good()?.err();
    check!(nothing == "the program ends\n", "{nothing}");
    Ok(())
}

#[test]
fn run_can_end_with_a_status_for_them() -> Result {
    let scratch = Scratch::new();
    let program = many(&scratch)?;
    let file = scratch.path("known.supp");
    std::fs::write(&file, "alloc-dealloc-mismatch:wrong\n").map_err(|error| error.to_string())?;
    let shown = file.to_string_lossy().into_owned();
    for (options, words, code) in [
        (&["--error-exitcode", "9"][..], &["2"][..], 9),
        (&["--error-exitcode", "9", "-q"], &["2", "", "5"], 9),
        (&["--error-exitcode", "9"], &["0", "", "5"], 5),
        (&[], &["2"], 0),
        (&["--error-exitcode", "9", "--suppress", &shown], &["2"], 0),
    ] {
        let ran = watched(&scratch, options, &program, words)?;
        check!(ran.status.code() == Some(code), "{options:?} {words:?}: {ran}");
        check!(!options.contains(&"--suppress") || !ran.err().contains("alloc-dealloc-mismatch"), "{ran}");
        check!(!options.contains(&"--suppress") || !ran.err().contains("  errors  "), "{ran}");
    }
    // Whoever dies of a signal dies of it.
    let dying = watched(&scratch, &["--error-exitcode", "9"], &compiled(&scratch, "wrong_frees.c")?, &["stack"])?;
    check!(dying.status.code().is_none() && dying.err().contains("\nSUMMARY: bad-free "), "{dying}");
    for odd in [["--error-exitcode", "0"], ["--error-exitcode", "256"], ["--suppress", "/nowhere/x"]] {
        let refused = watched(&scratch, &odd, &program, &["0"])?;
        check!(refused.status.code() == Some(2) && !refused.err().contains("ends"), "{odd:?}: {refused}");
    }
    Ok(())
}
