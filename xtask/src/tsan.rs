//! The tests of what threads share, under ThreadSanitizer: where a nightly compiler with the sources of the standard library is
//! installed, which has to be built with it (`rustup component add rust-src --toolchain nightly`).
//!
//! What hooks are told while others come and go is looked at first, then memory of the guard's own, from which threads take blocks and give them back. What is recorded by threads, taken over when they have gone, and read meanwhile is compared with a model there, in processes that
//! ThreadSanitizer ends with 66 if it has seen a race. Programs under `heapledger run` cannot be looked at like this: the recorder keeps
//! out of the way of sanitizers.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::step::{Result, root, run_tests, target};

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Runs them, one by one: under ThreadSanitizer some take so long that waits with a limit, which are the recorder's, can end beside others.
pub(crate) fn run() -> Result {
    if !has_sources() {
        return Err("it needs `rustup component add rust-src --toolchain nightly`".into());
    }
    run_tests(&mut command("heapledger-watch", "threads"))?;
    run_tests(&mut command("heapledger-guard", "arena_threads"))?;
    run_tests(&mut command("heapledger-process", "model")).map(drop)
}

/// Whether `-Zbuild-std` finds what it builds. Nothing is installed by asking.
fn has_sources() -> bool {
    let mut asked = Command::new("rustup");
    asked.args(["run", "nightly", "rustc", "--print", "sysroot"]).stderr(Stdio::null());
    let Ok(answer) = asked.output() else { return false };
    let sysroot = String::from_utf8_lossy(&answer.stdout).trim().to_owned();
    answer.status.success() && Path::new(&sysroot).join("lib/rustlib/src/rust/library/std").is_dir()
}

fn command(package: &str, test: &str) -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", "cargo", "test", "-Zbuild-std", "--target", TARGET]);
    command.args(["--package", package, "--test", test, "--", "--test-threads=1"]).current_dir(root());
    // What this cargo was told about its own compiler is not for that one.
    for name in ["CARGO", "RUSTC", "RUSTUP_TOOLCHAIN", "RUSTC_WORKSPACE_WRAPPER", "CARGO_ENCODED_RUSTFLAGS"] {
        command.env_remove(name);
    }
    command.env("RUSTFLAGS", "-Zsanitizer=thread").env("CARGO_TARGET_DIR", target().join("tsan"));
    command
}
