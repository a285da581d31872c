//! Programs with the crate `heapledger` inside (`e2e/own_books`) whose functions are told of their calls.

use heapledger_e2e::own_books::{alone, check_books, programs};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tracked::under_run;
use heapledger_e2e::{Result, check, process};

/// The program does this well, its books are right, and nothing is left behind.
fn does_well(what: &str) -> Result {
    for profile in ["dev", "release-abort"] {
        let scratch = Scratch::new();
        let ran = process::run(&mut alone(&scratch, profile, "hooks", &[what])?)?;
        ran.good().map_err(|error| format!("{profile}: {error}"))?;
        check!(scratch.unfinished().is_empty(), "{profile} leaves behind {:?}", scratch.unfinished());
        check_books(&scratch).map_err(|error| format!("{profile}: {error}"))?;
    }
    Ok(())
}

#[test]
fn hooks_are_told_of_each_call_in_order() -> Result {
    does_well("tells")
}

#[test]
fn hooks_are_told_whose_call_it_is_and_whether_its_block_is_in_the_ledger() -> Result {
    does_well("who")
}

#[test]
fn hooks_that_jump_away_are_counted_and_do_no_harm() -> Result {
    does_well("jumps")
}

#[test]
fn hooks_are_told_of_large_requests_granted_or_not() -> Result {
    does_well("requests")
}

#[test]
fn hooks_that_misbehave_do_no_harm() -> Result {
    does_well("misbehaves")
}

#[test]
fn hooks_are_told_when_limits_are_passed() -> Result {
    does_well("limits")
}

#[test]
fn hooks_come_and_go_while_recording_is_switched_on_and_off() -> Result {
    does_well("hammers")
}

#[test]
fn hooks_are_told_under_run_too() -> Result {
    let scratch = Scratch::new();
    let program = programs("dev")?.join("hooks");
    process::run(&mut under_run(&scratch, "one", &[], &program, &["tells".to_owned()]))?.good()?;
    Ok(())
}

#[test]
fn under_run_they_are_told_what_its_recorder_knows() -> Result {
    let scratch = Scratch::new();
    let program = programs("dev")?.join("hooks");
    process::run(&mut under_run(&scratch, "one", &[], &program, &["who".to_owned()]))?.good()?;
    Ok(())
}
