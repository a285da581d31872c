//! The random killer: prints a table of who was killed how often, and what was lost.
//!
//!     cargo xtask kill [KILLS]
//!
//! ends with status 1 if anything was lost.

use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use heapledger_e2e::killer::family::{self, FamilyWay};
use heapledger_e2e::killer::{Row, Way, kill_in};

/// Kills in all, unless told otherwise.
const KILLS: u64 = 1000;
/// Nobody waits longer for one way.
const WITHIN: Duration = Duration::from_secs(3600);

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let kills = words.first().and_then(|word| word.parse().ok()).unwrap_or(KILLS);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seed = words.get(1).and_then(|word| word.parse().ok()).unwrap_or(now.as_secs());
    println!("seed {seed}\n{}", Row::HEAD);
    let (mut lost, mut all, mut at_stake) = (Vec::new(), 0, 0);
    let rounds = kills.div_ceil((Way::ALL.len() + FamilyWay::ALL.len()) as u64);
    let rows = Way::ALL.iter().map(|way| kill_in(*way, rounds, WITHIN, seed));
    let families = FamilyWay::ALL.iter().map(|way| family::kill_in(*way, rounds, WITHIN, seed));
    for row in rows.chain(families) {
        match row {
            Ok(row) => {
                println!("{row}");
                (all, at_stake) = (all + row.kills(), at_stake + row.at_stake());
                lost.extend(row.lost);
            }
            Err(problem) => lost.push(problem),
        }
    }
    println!("\n{all} kills, {at_stake} ledgers with something to lose, {} lost", lost.len());
    lost.iter().for_each(|problem| eprintln!("{problem}"));
    if lost.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
