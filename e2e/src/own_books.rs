//! Programs with the crate `heapledger` inside (`e2e/own_books`), built as users build theirs.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use crate::ledger::{Stats, check_totals};
use crate::scratch::Scratch;
use crate::tools::{command, products, root};
use crate::{Result, check};

/// Profiles of its manifest, and where cargo puts what it builds.
pub const PROFILES: &[(&str, &str)] =
    &[("dev", "debug"), ("dev-abort", "dev-abort"), ("release", "release"), ("release-abort", "release-abort")];

/// The directory with the programs of one profile, built once.
///
/// # Errors
/// If there is no such profile.
pub fn programs(profile: &'static str) -> Result<PathBuf> {
    static BUILT: [OnceLock<PathBuf>; PROFILES.len()] = [const { OnceLock::new() }; PROFILES.len()];
    let at = PROFILES.iter().position(|(name, _)| *name == profile).ok_or("no such profile")?;
    Ok(BUILT[at].get_or_init(|| build(profile, PROFILES[at].1)).clone())
}

/// One of them by itself, doing this, with its ledger below the scratch directory.
///
/// # Errors
/// As of [`programs`].
pub fn alone(scratch: &Scratch, profile: &'static str, name: &str, words: &[&str]) -> Result<Command> {
    let mut command = command(programs(profile)?.join(name));
    command.args(words).current_dir(scratch.work()).env("HEAPLEDGER", format!("dir={}", scratch.live().display()));
    Ok(command)
}

/// The one ledger that a program has finished is right, and no free in it is of a block that it does not know.
///
/// # Errors
/// If it is not, or there are others.
pub fn check_books(scratch: &Scratch) -> Result {
    let [ledger] = &scratch.finished()[..] else { return Err(format!("ledgers: {:?}", scratch.finished())) };
    let stats = Stats::of(ledger)?;
    check_totals(&stats, &[])?;
    check!(stats.number("unknown_frees") == 0, "{} unknown frees", stats.number("unknown_frees"));
    Ok(())
}

/// Builds its programs; returns where they lie.
fn build(profile: &str, directory: &str) -> PathBuf {
    // A directory for each: tests that need different ones need not wait for each other.
    let target = products().join("own_books").join(profile);
    let mut cargo = Command::new(option_env!("CARGO").unwrap_or("cargo"));
    cargo.args(["build", "--quiet", "--offline", "--locked", "--profile", profile, "--target-dir"]).arg(&target);
    for name in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_TARGET_DIR", "LD_PRELOAD", "HEAPLEDGER"] {
        cargo.env_remove(name);
    }
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("CARGO_PROFILE_")) {
        cargo.env_remove(name);
    }
    let status = cargo.current_dir(root().join("e2e/own_books")).status().expect("cargo");
    assert!(status.success(), "own_books does not build as {profile}");
    target.join(directory)
}
