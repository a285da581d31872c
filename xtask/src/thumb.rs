//! Firmware builds: what shall run on chips must compile for a Cortex-M3 and for RISC-V, so that no `std`, no 64-bit atomic and no
//! hidden allocation creeps in.

use std::process::Command;

use crate::step::{Result, root, target};

/// Has a compiler with a library for these targets, compiles the crates, links firmware.
const SCRIPT: &str = include_str!("thumb.sh");
/// The script's word for "not possible here".
const SKIPPED: i32 = 77;

/// Builds them, or says in one line why that is not possible here. True if they were built.
pub(crate) fn build() -> Result<bool> {
    let mut shell = Command::new("sh");
    shell.args(["-euc", SCRIPT, "thumb"]).arg(root()).arg(target().join("thumb")).current_dir(root());
    // Cargo's own rustc must not answer for Debian's.
    shell.env_remove("RUSTC").env_remove("RUSTUP_TOOLCHAIN").env_remove("LD_LIBRARY_PATH");
    let status = shell.status().map_err(|error| format!("sh cannot be run: {error}"))?;
    match status.code() {
        Some(0) => Ok(true),
        Some(SKIPPED) => Ok(false),
        _ => Err(format!("the build for chips failed: {status}")),
    }
}
