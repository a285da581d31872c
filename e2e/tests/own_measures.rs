//! Programs that count their own calls with the crate `heapledger` (`e2e/own_books`).

use heapledger_e2e::own_books::programs;
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tools::command;
use heapledger_e2e::tracked::under_run;
use heapledger_e2e::{Result, check, process};

/// The program does this well, and leaves nothing behind.
fn does_well(name: &str, what: &str) -> Result {
    for profile in ["dev", "release", "release-abort"] {
        let scratch = Scratch::new();
        let mut command = command(programs(profile)?.join(name));
        command.arg(what).current_dir(scratch.work()).env("HEAPLEDGER", format!("dir={}", scratch.live().display()));
        process::run(&mut command)?.good().map_err(|error| format!("{profile}: {error}"))?;
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

#[test]
fn it_counts_under_run_too() -> Result {
    let scratch = Scratch::new();
    let program = programs("release")?.join("counts");
    process::run(&mut under_run(&scratch, "one", &[], &program, &["threads".to_owned()]))?.good()?;
    Ok(())
}
