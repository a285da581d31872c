//! Call stacks, held against what libgcc's unwinder says: none differs.
//!
//! A test build of the preload library asks `_Unwind_Backtrace` at each allocation, or at each n-th where there are
//! many, and compares. Both stop where they know no further; a stack that ends early in both is equal, and is
//! counted as a loss elsewhere.

use std::fs;
use std::path::{Path, PathBuf};

use heapledger_e2e::programs::{Load, PATIENCE, prepare};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::oracle;
use heapledger_e2e::tracked::under_run;
use heapledger_e2e::{Result, check, process, skip, victim};

/// What the library has written: stacks compared, stacks that differ, and a line for each of those.
fn verdict(path: &Path) -> Result<(u64, u64, String)> {
    let counts = fs::read(PathBuf::from(format!("{}.count", path.display()))).map_err(|error| error.to_string())?;
    let number = |at: usize| {
        let bytes = counts.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
        bytes.map(u64::from_le_bytes).ok_or("the file of counts is too short")
    };
    Ok((number(0)?, number(8)?, fs::read_to_string(path).unwrap_or_default()))
}

fn judge(name: &str, path: &Path) -> Result {
    let (compared, differing, lines) = verdict(path)?;
    println!("{name}: {compared} stacks compared, {differing} differ");
    check!(compared > 0, "no stack was compared");
    let first: Vec<&str> = lines.lines().take(3).collect();
    check!(differing == 0, "{differing} of {compared} stacks differ, such as {}", first.join("\n"));
    Ok(())
}

/// libgcc needs about 1 µs for a frame: `every` n-th stack keeps a test short.
fn program(name: &str, every: u32) -> Result {
    let scratch = Scratch::new();
    let Some(mut program) = prepare(name, &scratch, Load::Quick)? else {
        skip(name, "it is not installed");
        return Ok(());
    };
    let path = scratch.path("oracle");
    program.environment.push(("HEAPLEDGER_ORACLE", path.to_string_lossy().into_owned()));
    program.environment.push(("HEAPLEDGER_ORACLE_EVERY", every.to_string()));
    let library = oracle().to_string_lossy().into_owned();
    let (ran, _) = program.under_run(&scratch, &["--preload", &library])?;
    check!(ran.status.success(), "{ran}");
    judge(name, &path)
}

fn of_victim(name: &str) -> Result {
    let (scratch, victim) = (Scratch::new(), victim::named(name)?);
    let (path, library) = (scratch.path("oracle"), oracle().to_string_lossy().into_owned());
    let arguments = victim.runs.first().map(|run| run.arguments.clone()).unwrap_or_default();
    let mut command = under_run(&scratch, name, &["--preload", &library], &victim.build()?, &arguments);
    command.env("HEAPLEDGER_ORACLE", &path).env("HEAPLEDGER_ORACLE_EVERY", "7");
    let ran = process::run_within(&mut command, PATIENCE)?;
    check!(ran.status.success(), "{ran}");
    judge(name, &path)
}

/// Each way to run a victim of `tests/unwinding.rs`, and all of its stacks.
fn of_marked(name: &str) -> Result {
    let (victim, library) = (victim::named(name)?, oracle().to_string_lossy().into_owned());
    for run in &victim.runs {
        let scratch = Scratch::new();
        let path = scratch.path("oracle");
        let mut command = under_run(&scratch, name, &["--preload", &library], &victim.build()?, &run.arguments);
        command.env("HEAPLEDGER_ORACLE", &path);
        let ran = process::run_within(&mut command, PATIENCE)?;
        check!(ran.status == run.status, "{ran}");
        judge(&[&[name.to_owned()], &run.arguments[..]].concat().join(" "), &path)?;
    }
    Ok(())
}

macro_rules! stacks_of {
    ($($name:ident, $check:expr;)*) => {
        $(#[test]
        fn $name() -> Result {
            $check
        })*
    };
}

stacks_of! {
    jq, program("jq", 50);
    python3, program("python3", 20);
    perl, program("perl", 20);
    sqlite3, program("sqlite3", 20);
    xmllint, program("xmllint", 20);
    git, program("git", 5);
    cc1, program("cc1", 5);
    threads_cxx, of_victim("threads_cxx");
    exceptions, of_victim("exceptions");
    coroutines, of_victim("coroutines");
    signal_altstack, of_victim("signal_altstack");
    alloca_frames, of_victim("alloca_frames");
    qsort_callback, of_victim("qsort_callback");
    dl_loop, of_victim("dl_loop");
    static_libstdcxx, of_victim("static_libstdcxx");
    // Not `unwind_holes`: one of its tables is wrong, and libgcc's unwinder follows it into unmapped memory. In the victims
    // of `jit` and in a resolver of `dlopen_fails`, both unwinders know no further than to code without tables.
    unwind_alloca, of_marked("unwind_alloca");
    unwind_children, of_marked("unwind_children");
    unwind_copied_stacks, of_marked("unwind_copied_stacks");
    unwind_coroutines, of_marked("unwind_coroutines");
    unwind_depth, of_marked("unwind_depth");
    unwind_dlopen_fails, of_marked("unwind_dlopen_fails");
    unwind_drap, of_marked("unwind_drap");
    unwind_exceptions, of_marked("unwind_exceptions");
    unwind_iconv, of_marked("unwind_iconv");
    unwind_jit, of_marked("unwind_jit");
    unwind_jit_steady, of_marked("unwind_jit_steady");
    unwind_jit_library, of_marked("unwind_jit_library");
    unwind_lazy, of_marked("unwind_lazy");
    unwind_levels, of_marked("unwind_levels");
    unwind_longjmp, of_marked("unwind_longjmp");
    unwind_plugins, of_marked("unwind_plugins");
    unwind_registers, of_marked("unwind_registers");
    unwind_signal_edits, of_marked("unwind_signal_edits");
    unwind_signal_first, of_marked("unwind_signal_first");
    unwind_signal_steps, of_marked("unwind_signal_steps");
    unwind_signal_storm, of_marked("unwind_signal_storm");
    unwind_threads, of_marked("unwind_threads");
    unwind_wide_streams, of_marked("unwind_wide_streams");
}
