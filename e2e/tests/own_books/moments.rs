//! The crate's functions, called at odd moments.

use heapledger_e2e::ledger::{Stats, check_totals};
use heapledger_e2e::own_books::alone;
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::{Result, check, process};

use crate::only_finished;

/// The program calls all of it then, and comes to its end; its ledger can be read.
fn comes_to_its_end(profile: &'static str, what: &str) -> Result {
    let scratch = Scratch::new();
    let mut run = alone(&scratch, profile, "moments", &[what])?;
    let said = process::run(&mut run)?.good().map_err(|error| format!("{profile} {what}: {error}"))?.out();
    check!(said.ends_with("after\n") && said.starts_with("exit\n") == (what == "exit"), "{profile} {what}: {said:?}");
    check!(scratch.unfinished().is_empty(), "{profile} {what} leaves behind {:?}", scratch.unfinished());
    let _ = std::fs::remove_file(scratch.path("moment.hl"));
    // Marks and windows have not room for all.
    let lost = ["marks_lost", "windows_lost", "signal_handler_allocations"].map(str::to_owned);
    check_totals(&Stats::of(only_finished(&scratch, "heapledger.moments.")?)?, &lost)
}

#[test]
fn after_the_exit_has_begun() -> Result {
    comes_to_its_end("dev", "exit")?;
    comes_to_its_end("release-abort", "exit")
}

#[test]
fn in_destructors_of_threads() -> Result {
    comes_to_its_end("dev", "thread_ends")
}

#[test]
fn in_children_of_a_program_with_threads() -> Result {
    // Threads begin and end regions and faults while others free: one run in four showed a free that was passed on without being entered.
    (0..12).try_for_each(|_| comes_to_its_end("release", "forks"))
}

#[test]
fn in_a_signal_handler_on_a_stack_of_its_own() -> Result {
    comes_to_its_end("dev", "signals")?;
    comes_to_its_end("release", "signals")
}
