//! Programs that count their own calls with the crate `heapledger` (`e2e/own_books`).

use heapledger_e2e::ledger::{Stats, check_totals};
use heapledger_e2e::own_books::{alone, programs};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::{command, heapledger, system_library};
use heapledger_e2e::tracked::under_run;
use heapledger_e2e::{Result, check, process, skip};

/// The program does this well, and leaves nothing behind.
fn does_well(name: &str, what: &str) -> Result {
    for profile in ["dev", "release", "release-abort"] {
        let scratch = Scratch::new();
        let ran = process::run(&mut alone(&scratch, profile, name, &[what])?)?;
        ran.good().map_err(|error| format!("{profile}: {error}"))?;
        check!(scratch.unfinished().is_empty(), "{profile} leaves behind {:?}", scratch.unfinished());
    }
    Ok(())
}

#[test]
fn counts_of_threads_are_exact() -> Result {
    does_well("counts", "threads")
}

#[test]
fn counts_are_exact_when_there_are_more_threads_than_places() -> Result {
    does_well("counts", "many_threads")
}

#[test]
fn what_destructors_of_threads_do_is_counted() -> Result {
    does_well("counts", "thread_ends")
}

#[test]
fn regions_measure_threads_and_the_program() -> Result {
    does_well("counts", "regions")
}

#[test]
fn no_peak_is_passed_over() -> Result {
    does_well("counts", "peaks")
}

#[test]
fn a_forked_child_counts_for_itself() -> Result {
    does_well("counts", "forks")
}

#[test]
fn a_handler_of_signals_that_allocates_is_counted() -> Result {
    does_well("counts", "signals")
}

/// What it says in its debug build, with so much in `PATH`.
fn said(what: &str, path: &str) -> Result<String> {
    let scratch = Scratch::new();
    let ran = process::run(alone(&scratch, "dev", "asserts", &[what])?.env("PATH", path))?.good()?;
    check!(scratch.unfinished().is_empty(), "it leaves behind {:?}", scratch.unfinished());
    Ok(ran.out())
}

#[test]
fn assertions_hold_whatever_other_threads_do() -> Result {
    does_well("asserts", "holds")
}

#[test]
fn a_failed_assertion_names_the_stacks() -> Result {
    let directory = heapledger().parent().ok_or("no directory")?;
    let said = said("fails", &directory.display().to_string())?;
    for (function, message) in [("leaks_here", "1 block is left"), ("frees_what_it_takes", "2 blocks were allocated")] {
        let (_, rest) = said.split_once(message).ok_or_else(|| format!("nobody says {message}: {said}"))?;
        let (own, _) = rest.split_once("\nassert").unwrap_or((rest, ""));
        check!(own.contains(&format!("asserts::{function}")), "{message}, and not by {function}: {said}");
    }
    Ok(())
}

#[test]
fn without_the_command_it_has_modules_and_offsets() -> Result {
    let said = said("fails", "/nowhere")?;
    let left = said.split("assert_no_leak!: 1 block is left, 333 bytes\n\n").nth(1).ok_or_else(|| said.clone())?;
    let (listed, _) = left.split_once("With the command `heapledger` on the PATH").ok_or_else(|| said.clone())?;
    check!(listed.starts_with("333 bytes, allocated at\n") && listed.matches("allocated at").count() == 1, "{said}");
    // What a reader's tools say of such an offset is the function.
    let frames: Vec<_> = listed.lines().filter_map(|line| line.trim().split_once("/asserts+")).collect();
    let mut names = command("addr2line");
    names.arg("-fie").arg(programs("dev")?.join("asserts")).args(frames.iter().map(|(_, offset)| offset));
    let names = process::run(&mut names)?.good()?.out();
    check!(names.contains("leaks_here"), "{names}");
    Ok(())
}

#[test]
fn while_everything_is_switched_on_and_off_the_books_are_right() -> Result {
    for profile in ["dev", "release-abort"] {
        let scratch = Scratch::new();
        let said = process::run(&mut alone(&scratch, profile, "hammer", &[])?)?.good()?.out();
        let [failed, while_recorded]: [u64; 2] = {
            let numbers: Vec<u64> = said.split_whitespace().filter_map(|number| number.parse().ok()).collect();
            numbers.try_into().map_err(|_| said.clone())?
        };
        check!(failed > 1000 && while_recorded > 0, "{profile}: only {said} calls failed");
        check!(scratch.unfinished().is_empty(), "{profile} leaves behind {:?}", scratch.unfinished());
        let [ledger] = &scratch.finished()[..] else { return Err(format!("ledgers: {:?}", scratch.finished())) };
        let stats = Stats::of(ledger)?;
        check_totals(&stats, &[])?;
        check!(stats.number("unknown_frees") == 0, "{profile}: {} unknown frees", stats.number("unknown_frees"));
        let in_ledger = stats.number("failed_calls");
        check!(
            in_ledger >= while_recorded && in_ledger <= failed,
            "{profile}: {in_ledger} failed calls in the ledger, of {failed}, {while_recorded} of them surely"
        );
    }
    Ok(())
}

#[test]
fn what_the_c_library_says_of_its_heap() -> Result {
    does_well("counts", "heap")?;
    let (scratch, program) = (Scratch::new(), programs("release")?.join("counts"));
    process::run(&mut under_run(&scratch, "heap", &[], &program, &["heap".to_owned()]))?.good()?;
    match system_library("libjemalloc.so.2") {
        Some(library) => {
            let mut command = command(&program);
            command.arg("other_heap").env("LD_PRELOAD", library);
            process::run(&mut command)?.good()?;
        }
        None => skip("another malloc", "libjemalloc.so.2 is not installed"),
    }
    Ok(())
}

#[test]
fn it_counts_under_run_too() -> Result {
    let scratch = Scratch::new();
    let program = programs("release")?.join("counts");
    process::run(&mut under_run(&scratch, "one", &[], &program, &["threads".to_owned()]))?.good()?;
    Ok(())
}
