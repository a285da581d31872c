//! A short turn of the random killer in each way; `cargo xtask kill` is the long one.

use std::time::Duration;

use heapledger_e2e::killer::family::{self, FamilyWay};
use heapledger_e2e::killer::{Row, Way, kill_in};
use heapledger_e2e::{Result, check};

/// Rounds in each way, and the time that they may take.
const ROUNDS: u64 = 12;
const WITHIN: Duration = Duration::from_secs(5);

fn killed(way: Way) -> Result {
    let seed = u64::from(std::process::id());
    is_whole(seed, &kill_in(way, ROUNDS, WITHIN, seed)?)
}

fn is_whole(seed: u64, row: &Row) -> Result {
    println!("{row}");
    check!(row.lost.is_empty(), "seed {seed}: {}", row.lost.join("\n"));
    check!(row.kills() > 0, "nothing was killed");
    Ok(())
}

#[test]
fn of_a_family() -> Result {
    let seed = u64::from(std::process::id());
    for way in FamilyWay::ALL {
        is_whole(seed, &family::kill_in(way, 4, WITHIN, seed)?)?;
    }
    Ok(())
}

#[test]
fn the_program() -> Result {
    killed(Way::Program)
}

#[test]
fn run() -> Result {
    killed(Way::Run)
}

#[test]
fn run_while_it_finishes() -> Result {
    killed(Way::Finishing)
}

#[test]
fn recover_while_it_finishes() -> Result {
    killed(Way::Recover)
}

#[test]
fn all_at_once() -> Result {
    killed(Way::All)
}

#[test]
fn the_program_without_its_live_file() -> Result {
    killed(Way::Removed)
}

#[test]
fn the_program_with_recover_beside() -> Result {
    killed(Way::Beside)
}
