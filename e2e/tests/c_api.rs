//! The C API: programs that find it under `heapledger run`, and run without it as well. Their sources are in `e2e/c_api`.

use std::path::{Path, PathBuf};
use std::thread;

use heapledger_e2e::c_programs::built;
use heapledger_e2e::ledger::{Blocks, Stats, check_totals};
use heapledger_e2e::process;
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, heapledger, root};
use heapledger_e2e::tracked::under_run;
use heapledger_e2e::{Result, check};

/// What a program says under `run`, and the ledger.
fn recorded(scratch: &Scratch, name: &str, program: &Path, words: &[String]) -> Result<(String, PathBuf)> {
    let ran = process::run(&mut under_run(scratch, name, &[], program, words))?.good()?;
    Ok((ran.out(), scratch.path(&format!("{name}.hl"))))
}

/// What a command says of a ledger.
fn told(ledger: &Path, words: &[&str]) -> Result<String> {
    Ok(process::run(command(heapledger()).args(words).arg(ledger))?.good()?.out())
}

/// What each function answers where it is there.
const THERE: &str = "present 1\nversion 1 1\nstate 2\nmark 0\nmark_thread 0\nscope 1\nwindow 1\nlabel_now 1\nfigures 0 1 1\n\
                     window_pause 0\nwindow_resume 0\nwindow_stop 0\nwindow_again -4\nscope_end 0\nis_live 1 0\n\
                     backtrace 1 1\nstack 1 1\nheap 1\nallocated 0\nallocated 0\nfreed 0\nresized 0 0\nnot_resized 0 0\n\
                     refused 0\npool 0 0 1\nheap_end 0\nheap_end_again -4\npause 0\npaused 1\npause_again -8\nresume 0\n\
                     resumed 2\nheap_info 0 1\nnow 1\nsnapshot 0\ntext the ledger has no room for it\n";

/// And where it is not.
const ABSENT: &str = "present 0\nversion 0 0\nstate 0\nmark -6\nmark_thread -6\nscope 0\nwindow 0\nlabel_now 0\n\
                      figures -6 0 0\nwindow_pause -6\nwindow_resume -6\nwindow_stop -6\nwindow_again -6\nscope_end -6\n\
                      is_live -6 -6\nbacktrace 0 0\nstack 0 0\nheap 0\nallocated -6\nallocated -6\nfreed -6\nresized -6 -6\n\
                      not_resized -6 -6\nrefused -6\npool -6 -6 -6\nheap_end -6\nheap_end_again -6\npause -6\npaused 0\n\
                      pause_again -6\nresume -6\nresumed 0\nheap_info -6 0\nnow 0\nsnapshot 0\n\
                      text the program does not run under heapledger\n";

/// Every way to build a program finds the functions under `run`, but a static one, and none finds them elsewhere.
#[test]
fn however_a_program_is_built() -> Result {
    const FORMS: [(&str, &[&str]); 3] =
        [("pie", &["-fPIE", "-pie"]), ("no-pie", &["-fno-pie", "-no-pie"]), ("static", &["-static"])];
    let scratch = Scratch::new();
    let mut all = Vec::new();
    for compiler in ["gcc", "clang"] {
        for linker in ["bfd", "gold", "lld"] {
            for (form, flags) in FORMS {
                for level in ["-O0", "-O2", "-O2 -flto"] {
                    // gcc's own form of code that is optimised when it is linked is not lld's.
                    if !(compiler == "gcc" && linker == "lld" && level.contains("flto")) {
                        all.push((compiler, linker, form, flags, level));
                    }
                }
            }
        }
    }
    check!(all.len() == 51, "{} ways", all.len());
    let (scratch, parts) = (&scratch, all.chunks(all.len().div_ceil(2)));
    thread::scope(|threads| {
        let tries: Vec<_> = parts
            .map(|part| {
                threads.spawn(move || {
                    for (compiler, linker, form, flags, level) in part {
                        let name = format!("{compiler}-{linker}-{form}{}", level.replace(' ', ""));
                        let linker = format!("-fuse-ld={linker}");
                        let strict = ["-std=c89", "-pedantic", "-Wall", "-Wextra", "-Werror", &linker];
                        let options = [&strict[..], flags, &level.split(' ').collect::<Vec<_>>()].concat();
                        let program = built(scratch, compiler, "calls.c", &name, &options)?;
                        let alone = process::run(&mut command(&program))?.good()?.out();
                        check!(alone == ABSENT, "{name} alone: {alone}");
                        let snapshot = scratch.path(&format!("{name}.snapshot.hl")).display().to_string();
                        // Of a static one `run` says that it is not recorded.
                        let (said, expected) = if *form == "static" {
                            let ran = process::run(&mut under_run(scratch, &name, &[], &program, &[]))?.good()?;
                            (ran.out(), ABSENT)
                        } else {
                            (recorded(scratch, &name, &program, &[snapshot])?.0, THERE)
                        };
                        check!(said == expected, "{name} under run: {said}");
                    }
                    Ok(())
                })
            })
            .collect();
        tries.into_iter().try_for_each(|tried| tried.join().map_err(|_| "a panic".to_owned())?)
    })
}

/// Who has only the command has the header.
#[test]
fn the_command_prints_the_header() -> Result {
    let printed = process::run(command(heapledger()).arg("header"))?.good()?;
    let header = std::fs::read(root().join("crates/api/include/heapledger.h")).map_err(|error| error.to_string())?;
    check!(printed.stdout == header, "it prints {} bytes of {}", printed.stdout.len(), header.len());
    Ok(())
}

/// For a system that is not recorded a program is built as well. (It is run here, for want of one.)
#[test]
fn a_program_for_another_system_finds_nobody() -> Result {
    let scratch = Scratch::new();
    for compiler in ["gcc", "clang"] {
        let options = ["-std=c89", "-pedantic", "-Wall", "-Wextra", "-Werror", "-U__linux__"];
        let program = built(&scratch, compiler, "calls.c", compiler, &options)?;
        let (said, _) = recorded(&scratch, compiler, &program, &[])?;
        check!(said == ABSENT, "{compiler}: {said}");
    }
    Ok(())
}

/// Other forms of assembly, of programs and of libraries.
#[test]
fn in_the_form_of_intel_and_in_libraries() -> Result {
    let scratch = Scratch::new();
    let strict = ["-std=c89", "-pedantic", "-Wall", "-Wextra", "-Werror"];
    for compiler in ["gcc", "clang"] {
        let loads =
            built(&scratch, compiler, "loads.c", &format!("loads-{compiler}"), &["-std=c89", "-Wall", "-Werror"])?;
        for (form, options) in
            [("O0", &["-masm=intel", "-O0"]), ("O2", &["-masm=intel", "-O2"]), ("att", &["-masm=att", "-O2"])]
        {
            let name = format!("{compiler}-{form}");
            let program = built(&scratch, compiler, "calls.c", &name, &[&strict[..], options].concat())?;
            let snapshot = scratch.path(&format!("{name}.snapshot.hl")).display().to_string();
            let (said, _) = recorded(&scratch, &name, &program, &[snapshot])?;
            check!(said == THERE, "{name} under run: {said}");

            let shared = [&strict[..], options, &["-fPIC", "-shared", "-Wl,-z,defs"]].concat();
            let library = built(&scratch, compiler, "library.c", &format!("{name}.so"), &shared)?.display().to_string();
            let alone = process::run(command(&loads).arg(&library))?.good()?.out();
            check!(alone == "-6\n", "a library, {name}, alone: {alone}");
            let (said, ledger) = recorded(&scratch, &format!("{name}-library"), &loads, &[library])?;
            check!(said == "0\n", "a library, {name}, under run: {said}");
            told(&ledger, &["dump", "--since", "of a library", "--csv"])?;
        }
        // gold makes no such programs.
        for linker in ["-fuse-ld=bfd", "-fuse-ld=lld"] {
            let options = [&strict[..], &["-fPIE", "-static-pie", "-O2", linker]].concat();
            let program = built(&scratch, compiler, "calls.c", &format!("{compiler}{linker}"), &options)?;
            let alone = process::run(&mut command(&program))?.good()?.out();
            check!(alone == ABSENT, "{compiler}, static and movable, {linker}: {alone}");
        }
    }
    Ok(())
}

/// The header compiles, without a warning, where nothing is recorded and for old standards of C++.
#[test]
fn the_header_compiles_for_other_systems_and_old_standards() -> Result {
    let scratch = Scratch::new();
    let strict = ["-pedantic", "-Wall", "-Wextra", "-Werror", "-O1", "-c"];
    for compiler in ["gcc", "clang"] {
        for options in [["-std=c89", "-m32"], ["-std=c89", "-mx32"], ["-xc++", "-std=c++98"], ["-xc++", "-std=c++20"]] {
            let name = format!("{compiler}{}.o", options.concat());
            built(&scratch, compiler, "library.c", &name, &[&strict[..], &options].concat())?;
        }
    }
    Ok(())
}

#[test]
fn what_it_is_told_is_in_the_ledger() -> Result {
    let scratch = Scratch::new();
    let program = built(&scratch, "gcc", "calls.c", "calls", &["-O1"])?;
    let snapshot = scratch.path("snapshot.hl");
    let (_, ledger) = recorded(&scratch, "calls", &program, &[snapshot.display().to_string()])?;
    let stats = Stats::of(&ledger)?;
    check_totals(&stats, &[])?;
    let live = Blocks::live(&ledger)?;
    let sizes = [7777, 6666, 333, 200, 100].map(|size| live.blocks.iter().filter(|block| block.size == size).count());
    check!(sizes == [1, 0, 1, 0, 0], "blocks of 7777, 6666, 333, 200, 100 bytes: {sizes:?}");
    let pool = live.blocks.iter().find(|block| block.size == 333).ok_or("no block of the pool")?;
    check!(live.kinds[pool.kind] == "pool_alloc", "a block of a pool by {}", live.kinds[pool.kind]);
    let frames = &live.stacks[&pool.site];
    let frame = frames.iter().find(|frame| !frame.inlined).ok_or("no frame")?;
    check!(frame.names[0] == "main" && frame.file.ends_with("c_api/calls.c"), "{frames:?}");

    let told = |words: &[&str]| told(&ledger, words);
    let heaps = told(&["dump", "--group-by", "heap", "--csv"])?;
    check!(heaps.lines().any(|line| line.contains("own pool") && line.contains("333")), "{heaps}");
    let labels = told(&["dump", "--group-by", "label", "--csv"])?;
    check!(labels.contains("route=/x"), "{labels}");
    let window = told(&["dump", "--window", "window", "--csv"])?;
    check!(window.contains("7777"), "{window}");
    for mark in ["begun", "mine"] {
        let since = told(&["dump", "--since", mark, "--csv"])?;
        check!(since.contains("7777"), "since {mark}: {since}");
    }
    let errors = told(&["errors"])?;
    check!(errors.contains("100,000") && errors.contains("pool_alloc"), "{errors}");
    check!(Blocks::live(&snapshot)?.blocks.iter().any(|block| block.size == 333), "it is not in the snapshot");
    Ok(())
}

/// The same code again and again, each time in a window and after a mark: a cache grows once, a leak each time.
#[test]
fn windows_over_the_same_code_show_what_grew() -> Result {
    let scratch = Scratch::new();
    let program = built(&scratch, "gcc", "repeats.c", "repeats", &["-O1", "-Wall", "-Wextra", "-Werror"])?;
    let rounds: Vec<_> = (1..=4).map(|round| scratch.path(&format!("{round}.hl")).display().to_string()).collect();
    let (_, ledger) = recorded(&scratch, "repeats", &program, &rounds)?;
    // Between two marks: from one round to the next only the leak has grown.
    for pair in rounds.windows(2) {
        let [before, now] = pair else { continue };
        let grown = process::run(command(heapledger()).args(["diff", "--group-by", "fn", "--csv", before, now]))?;
        let rows: Vec<_> = grown.good()?.out().lines().skip(1).map(str::to_owned).collect();
        check!(rows.len() == 1 && rows[0].contains("forgets") && rows[0].contains("300"), "{before}: {rows:?}");
    }
    // In one ledger: what was allocated after which mark, and still lives.
    let by_mark = told(&ledger, &["dump", "--group-by", "fn,mark", "--csv"])?;
    let marks_of = |function: &str| -> Vec<u32> {
        let rows = by_mark.lines().filter(|line| line.contains(function));
        (1..=4).filter(|round| rows.clone().any(|row| row.contains(&format!("round {round}")))).collect()
    };
    check!(marks_of("forgets") == [1, 2, 3, 4], "{by_mark}");
    check!(marks_of("fills_the_cache") == [1] && marks_of("goes_on") == [4], "{by_mark}");
    // The window is the same to each command that reads the ledger.
    for (command, has) in [("stats", "13"), ("dump", "7000"), ("history", "7000")] {
        let words: &[&str] = if command == "stats" { &[] } else { &["--csv"] };
        let shown = told(&ledger, &[&[command, "--window", "request"], words].concat())?;
        check!(shown.contains(has) && shown.contains("forgets"), "{command}: {shown}");
    }
    let both = ["diff", "--group-by", "fn", "--window", "request", "--csv", &*rounds[0], &*rounds[3]];
    let grown = process::run(command(heapledger()).args(both))?.good()?.out();
    check!(grown.contains("forgets") && grown.contains("900") && !grown.contains("fills_the_cache"), "{grown}");
    Ok(())
}

/// In signal handlers, constructors, after `exit`, in forked children, from several threads, with what cannot be.
#[test]
fn nothing_crashes_whatever_is_asked() -> Result {
    let scratch = Scratch::new();
    let program = built(&scratch, "gcc", "abuse.c", "abuse", &["-O1"])?;
    let alone = process::run(&mut command(&program))?.good()?.out();
    check!(alone == "whole\n", "{alone}");
    for options in [&[][..], &["--sample", "1K"], &["--accounts"], &["--max-ledger", "1M"]] {
        let name = format!("abuse{}", options.join(""));
        let snapshot = scratch.path(&format!("{name}.snapshot.hl"));
        let words = [snapshot.display().to_string()];
        let ran = process::run(&mut under_run(&scratch, &name, options, &program, &words))?.good()?;
        check!(ran.out() == "whole\n", "{options:?}: {}", ran.out());
        Stats::of(&snapshot)?;
        // It frees what it has not told of, in signal handlers as well, which may have interrupted the recorder: what they then
        // ask for is refused and counted, as are marks and windows for which there is no room.
        let losses = ["unknown_frees", "frees_busy", "marks_lost", "windows_lost"].map(str::to_owned);
        check_totals(&Stats::of(scratch.path(&format!("{name}.hl")))?, &losses)?;
    }
    Ok(())
}

#[test]
fn a_server_in_cxx_labels_its_requests() -> Result {
    let scratch = Scratch::new();
    let options = ["-std=c++14", "-pedantic", "-Wall", "-Wextra", "-Werror", "-O1"];
    let program = built(&scratch, "g++", "server.cc", "server", &options)?;
    process::run(&mut command(&program))?.good()?;
    let (_, ledger) = recorded(&scratch, "server", &program, &[])?;
    let sessions = |route: &str| -> Result<usize> {
        let condition = format!("label.route == \"{route}\" and size == 5555");
        let found = told(&ledger, &["dump", "--where", &condition, "--limit", "0", "--csv"])?;
        Ok(found.lines().skip(1).filter(|line| line.contains("5555")).count())
    };
    let found = [sessions("/odd")?, sessions("/even")?, sessions("/none")?];
    check!(found == [15, 15, 0], "sessions: {found:?}");
    Ok(())
}
