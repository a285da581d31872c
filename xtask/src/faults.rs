//! `cargo xtask faults`: system calls that fail, far more of them than the tests let fail.

use crate::step::{Result, cargo, run as run_command};

/// Runs the sweep, which is an example of the end-to-end tests.
pub(crate) fn run(words: &[&str]) -> Result {
    let mut command = cargo(&["run", "--quiet", "--package", "heapledger-e2e", "--example", "faults", "--"]);
    run_command(command.args(words))
}
