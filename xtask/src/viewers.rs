//! `cargo xtask viewers`: exported files, read by the programs that they are for.
//!
//! What reads them is a program of its own: `e2e/examples/viewers.rs`.

use crate::packages;
use crate::step::{Result, cargo, run as run_command};

/// Brings the readers that can be had, and runs them; `--write` keeps what they have read.
pub(crate) fn run(words: &[&str]) -> Result {
    packages::provide_if_possible(packages::VIEWERS);
    let mut command = cargo(&["run", "--quiet", "--package", "heapledger-e2e", "--example", "viewers", "--"]);
    run_command(command.args(words))
}
