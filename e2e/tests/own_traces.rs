//! Programs with the crate `heapledger` inside (`e2e/own_books`) that trace themselves in buffers of their own.

use heapledger_e2e::own_books::{alone, check_books, programs};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tracked::under_run;
use heapledger_e2e::{Result, process};

/// The program does this well, whatever of its calls is recorded meanwhile, and its books are right.
fn does_well(what: &str, recorded: &[&str]) -> Result {
    for (profile, recorded) in recorded.iter().flat_map(|recorded| [("dev", recorded), ("release-abort", recorded)]) {
        let scratch = Scratch::new();
        let ran = process::run(&mut alone(&scratch, profile, "traces", &[what, recorded])?)?;
        ran.good().map_err(|error| format!("{profile}, {recorded}: {error}"))?;
        if *recorded == "on" {
            check_books(&scratch).map_err(|error| format!("{profile}: {error}"))?;
        }
    }
    Ok(())
}

#[test]
fn traces_keep_what_lives_and_what_was_freed() -> Result {
    does_well("cases", &["on", "paused", "off"])
}

#[test]
fn traces_are_exact_with_many_threads() -> Result {
    does_well("exact", &["on", "off"])
}

#[test]
fn traces_go_on_in_forked_children() -> Result {
    does_well("children", &["off"])
}

#[test]
fn handlers_of_signals_ask_traces() -> Result {
    does_well("handlers", &["on"])
}

#[test]
fn traces_are_kept_under_run_too() -> Result {
    let program = programs("dev")?.join("traces");
    for what in ["cases", "exact"] {
        let scratch = Scratch::new();
        process::run(&mut under_run(&scratch, "one", &[], &program, &[what.to_owned()]))?.good()?;
    }
    Ok(())
}
