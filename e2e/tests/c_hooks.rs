//! The C API: hooks on calls, calls that fail on purpose, measuring, and traces in buffers of the program's own.

use std::path::{Path, PathBuf};

use heapledger_e2e::c_programs;
use heapledger_e2e::ledger::{Stats, check_totals};
use heapledger_e2e::process;
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, heapledger};
use heapledger_e2e::tracked::under_run;
use heapledger_e2e::{Result, check};

/// What is done on purpose, and what compilers take for a mistake.
const ON_PURPOSE: [&str; 3] = ["-Wno-use-after-free", "-Wno-alloc-size-larger-than", "-Wno-unknown-warning-option"];

fn built(scratch: &Scratch, compiler: &str, source: &str, options: &[&str]) -> Result<PathBuf> {
    let name = options.iter().filter(|option| !option.contains('/')).copied().collect::<String>();
    let options = [&["-Wall", "-Wextra", "-Werror"], &ON_PURPOSE[..], options].concat();
    c_programs::built(scratch, compiler, source, &format!("{source}-{compiler}{name}"), &options)
}

/// Runs one of the programs under `run`; it says "whole" at the end.
fn whole(scratch: &Scratch, options: &[&str], program: &Path, words: &[&str]) -> Result<String> {
    let name = program.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let name = format!("{name}{}", words.concat());
    let ran = process::run(&mut under_run(scratch, &name, options, program, &words))?.good()?;
    check!(ran.out().ends_with("whole\n"), "{name}: {}", ran.out());
    // The ledger is as exact as without. (Signal handlers that tell of blocks have interrupted the recorder.)
    let losses = ["unknown_frees", "frees_busy", "lost_busy"].map(str::to_owned);
    check_totals(
        &Stats::of(scratch.path(&format!("{name}.hl")))?,
        if name.starts_with("traces") { &losses } else { &losses[..1] },
    )?;
    Ok(ran.out())
}

#[test]
fn hooks_are_told_of_each_call_once_and_in_order() -> Result {
    let scratch = Scratch::new();
    for (compiler, level) in [("gcc", "-O0"), ("gcc", "-O2"), ("clang", "-O2")] {
        whole(&scratch, &[], &built(&scratch, compiler, "hooks.c", &[level])?, &[])?;
    }
    // Two threads make a million calls.
    whole(&scratch, &[], &built(&scratch, "gcc", "hooks.c", &["-O1"])?, &["500000"])?;
    Ok(())
}

#[test]
fn operators_of_cxx_are_told_of_once_and_throw() -> Result {
    let scratch = Scratch::new();
    for (compiler, level) in [("g++", "-O0"), ("g++", "-O2"), ("clang++", "-O2")] {
        let program = built(&scratch, compiler, "throws.cc", &[level, "-std=c++17"])?;
        whole(&scratch, &[], &program, &[])?;
        // What failed is in the ledger, each call once: six, of which five were told of.
        let name = program.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let failed = Stats::of(scratch.path(&format!("{name}.hl")))?.number("failed_calls");
        check!(failed == 6, "{failed} calls failed");
    }
    Ok(())
}

#[test]
fn a_history_that_is_full_is_told_of() -> Result {
    let scratch = Scratch::new();
    whole(&scratch, &["--history", "4096"], &built(&scratch, "gcc", "hooks.c", &["-O1"])?, &["overflow", "4096"])?;
    Ok(())
}

#[test]
fn a_program_that_asked_for_it_ends_when_a_call_gives_no_block() -> Result {
    let scratch = Scratch::new();
    let program = built(&scratch, "gcc", "hooks.c", &["-O1"])?;
    for (word, size) in [("abort", "8000000000000"), ("abort as there", "08000000")] {
        let ran = process::run(&mut under_run(&scratch, word, &[], &program, &[word.to_owned()]))?;
        let said = format!("Mem alloc fail. size 0x{size} caps 0x00001000\n");
        check!(ran.err().lines().any(|line| line == said.trim_end()), "{word}: {}", ran.err());
        check!(process::signal_of(&ran) == Some(6), "{word}: {:?}", ran.status);
    }
    Ok(())
}

#[test]
fn traces_follow_each_block() -> Result {
    let scratch = Scratch::new();
    for (compiler, level) in [("gcc", "-O0"), ("gcc", "-O2"), ("clang", "-O2")] {
        let rounds = if level == "-O0" { "50000" } else { "500000" };
        let out = whole(&scratch, &[], &built(&scratch, compiler, "traces.c", &[level])?, &[rounds])?;
        // To the standard output, and to the stream.
        check!(out.matches("Mode: Heap Trace All\n87 bytes alive in trace (3/4 allocations)\n").count() == 2, "{out}");
    }
    Ok(())
}

/// What a free costs does not grow with what is there, of blocks with a record and without.
#[test]
fn a_free_takes_no_longer_with_a_million_records() -> Result {
    let scratch = Scratch::new();
    let program = built(&scratch, "gcc", "traces.c", &["-O2"])?;
    let out = process::run(&mut under_run(&scratch, "curve", &[], &program, &["curve".to_owned()]))?.good()?.out();
    println!("records, ns for a free of a block with one, of one without:\n{out}");
    let rows: Vec<Vec<f64>> =
        out.lines().map(|line| line.split(' ').filter_map(|word| word.parse().ok()).collect()).collect();
    let records: Vec<_> = rows.iter().filter_map(|row| row.first()).map(|count| *count as u64).collect();
    check!(records == [100, 1000, 10_000, 100_000, 1_000_000], "{out}");
    for kind in [1, 2] {
        let taken = || rows.iter().filter_map(|row| row.get(kind).copied());
        let (least, most) = (taken().fold(f64::INFINITY, f64::min), taken().fold(0.0, f64::max));
        // Who looked through all would take ten thousand times as long; caches and other programs, a few times. (Instructions are
        // counted in `api_costs`.)
        check!(taken().count() == 5 && most < 50.0 * least, "{out}");
    }
    Ok(())
}

#[test]
fn names_of_esp_idf_do_what_they_do_there() -> Result {
    let scratch = Scratch::new();
    for (compiler, options) in [("gcc", &["-O0"][..]), ("clang", &["-O2"]), ("gcc", &["-O2", "-DONLY_ONE"])] {
        // A program of two files.
        let second = built(&scratch, compiler, "compat.c", &[options, &["-DSECOND", "-c"]].concat())?;
        let second = second.to_string_lossy().into_owned();
        let program = built(&scratch, compiler, "compat.c", &[options, &[&second]].concat())?;
        let alone = process::run(&mut command(&program))?.good()?.out();
        check!(alone == "absent\n", "{alone}");
        let out = whole(&scratch, &[], &program, &[])?;
        for text in [
            "Mode: Heap Trace All\n0 bytes alive",
            "Heap summary for capabilities 0x00000800:\n",
            "size: 4096 bytes, Free: Yes",
            "ALIVE: compat.c-",
            "│ ALIVE   │",
        ] {
            check!(out.contains(text), "{text}: {out}");
        }
    }
    Ok(())
}

/// The same programs record themselves if they are linked with the library.
#[test]
fn the_same_in_programs_that_record_themselves() -> Result {
    let scratch = Scratch::new();
    let sdk = scratch.path("sdk");
    process::run(command(heapledger()).arg("sdk").arg(&sdk))?.good()?;
    let library = format!("-L{}", sdk.join("lib").display());
    let path = format!("-Wl,-rpath,{}", sdk.join("lib").display());
    const AS_IT_SHOULD_BE: &str = "all is as it should be\n";
    for (source, word, end) in [
        ("hooks.c", "20000", "whole\n"),
        ("traces.c", "20000", "whole\n"),
        ("heaps.c", "", AS_IT_SHOULD_BE),
        ("tasks.c", "all", AS_IT_SHOULD_BE),
    ] {
        let options = ["-O1", &library, &path, "-Wl,--no-as-needed", "-lheapledger"];
        let program = built(&scratch, "gcc", source, &options)?;
        let mut run = command(&program);
        let ledger = scratch.path(&format!("{source}.hl"));
        run.args((!word.is_empty()).then_some(word))
            .env("HEAPLEDGER", format!("dir={},output={}", scratch.live().display(), ledger.display()));
        let out = process::run(run.current_dir(scratch.work()))?.good()?.out();
        check!(out.ends_with(end), "{source}: {out}");
        // In a heap in a heap, a block may take the place of another that begins where it does.
        check_totals(
            &Stats::of(&ledger)?,
            &["unknown_frees", "displaced", "frees_busy", "lost_busy"].map(str::to_owned),
        )?;
    }
    Ok(())
}

/// The functions to break on are found by a debugger, and called at the right moment.
#[test]
fn a_debugger_breaks_where_something_happens() -> Result {
    let scratch = Scratch::new();
    let program = built(&scratch, "gcc", "breaks.c", &["-O1"])?;
    let script = scratch.path("script.gdb");
    const PLACES: [&str; 3] = ["refused", "threshold", "overflow"];
    let each = PLACES.map(|place| {
        format!("break heapledger_break_{place}\ncommands\nsilent\necho at {place}\\n\nbacktrace 12\ncontinue\nend\n")
    });
    let orders =
        "set pagination off\nset breakpoint pending on\nset print thread-events off\nset follow-fork-mode child\n";
    std::fs::write(&script, format!("{orders}{}run\n", each.concat())).map_err(|error| error.to_string())?;
    let mut gdb = command("gdb");
    gdb.args(["-q", "-batch", "-x"]).arg(&script).arg("--args").arg(heapledger());
    gdb.args(["run", "-q", "--history", "4096", "-o"]).arg(scratch.path("gdb.hl")).arg("--").arg(&program).arg("4096");
    gdb.env("XDG_CACHE_HOME", scratch.path("cache"));
    let said = process::run(&mut gdb)?.out();
    check!(said.lines().any(|line| line.ends_with("whole")), "{said}");
    // Each once, in this order, and called by the program.
    let places: Vec<_> = said.split("\nat ").skip(1).collect();
    let names: Vec<_> = places.iter().filter_map(|place| place.split('\n').next()).collect();
    check!(names == PLACES, "{names:?}: {said}");
    check!(places.iter().all(|place| place.contains("in main (")), "{said}");
    Ok(())
}
