//! Sampling (`--sample SIZE`): estimates are right on the average, every report marks them, and what is sampled is
//! followed to its end like any block.
//!
//! | module | what |
//! |---|---|
//! | `truth` | estimates against known numbers of blocks, by call site, entry point and size |
//! | `books` | allocations − frees = live, for every victim, after `SIGKILL`, and while the program runs |
//! | `reports` | what is said about samples, and which intervals are taken |
//! | `programs` | real programs: the same output, estimates beside the full ledger's figures |
//! | `cost` | instructions that a block costs which is no sample |

mod books;
mod cost;
mod programs;
mod reports;
mod truth;

use std::path::Path;

use heapledger_e2e::Result;
use heapledger_e2e::ledger::{Stats, check_totals};
use heapledger_e2e::process::{reads_input, until};
use heapledger_e2e::scratch::Scratch;
use heapledger_e2e::tracked::{run_cleanly, under_run};

/// Totals agree by weight, and nothing is lost. A call that was interrupted for good may have a weight of its own.
pub fn check_books(stats: &Stats, losses: &[String], interval: u64) -> Result {
    heapledger_e2e::check!(
        stats.0["sampled"]["interval_bytes"].as_u64() == Some(interval),
        "the ledger says of its samples: {}",
        stats.0["sampled"]
    );
    for counter in ["unknown_frees", "displaced"] {
        let count = stats.0["counters"][counter].as_u64().unwrap_or(0);
        // A victim that frees behind our back says so.
        let is_told = losses.iter().any(|loss| loss == counter);
        heapledger_e2e::check!(count == 0 || is_told, "{count} {counter}, where most blocks are unknown on purpose");
    }
    let interrupted = stats.may_be_in_flight();
    if interrupted == 0 {
        return check_totals(stats, losses);
    }
    let unaccounted = stats.signed("unaccounted");
    heapledger_e2e::check!(
        unaccounted.unsigned_abs() <= interrupted * (interval + 1),
        "{unaccounted} blocks are unaccounted for, with {interrupted} threads interrupted"
    );
    for (name, count) in stats.losses() {
        heapledger_e2e::check!(losses.contains(&name), "{count} {name}, which nothing explains");
    }
    Ok(())
}

/// Waits until a program that is recorded has done its work and reads its input.
pub fn until_it_stands_still(pid: u32, allocations_min: u64) -> Result {
    until("it stands still", || {
        let has_worked = Stats::of(pid.to_string()).is_ok_and(|stats| stats.number("allocations") > allocations_min);
        has_worked && reads_input(pid)
    })
}

/// Runs a program under `heapledger run --sample INTERVAL`, and reads the totals of its ledger `x.hl`.
pub fn sampled(scratch: &Scratch, interval: &str, program: &Path, arguments: &[&str]) -> Result<Stats> {
    let arguments: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
    run_cleanly(scratch, &mut under_run(scratch, "x", &["--sample", interval], program, &arguments))?.good()?;
    Stats::of(scratch.path("x.hl"))
}
