//! Says what `heapledger --version` tells beside the number: the commit, where that is known, and what is inside.
//!
//! The commit is git's where this is a checkout of the repository itself, and what cargo noted where it is a package. Where neither says
//! it (no git, an archive of sources, a copy within another repository), nothing is told, and nothing fails.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Where this crate lies in its repository: elsewhere, git would tell the commit of a repository that only has a copy.
const OWN_PLACE: &str = "crates/cli/";
/// What cargo writes into packages.
const NOTE: &str = ".cargo_vcs_info.json";
/// Letters of a commit's name that are told: enough to be the only one, and the same whatever git is set to.
const LETTERS: usize = 12;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let version = commit().map_or_else(|| version.clone(), |commit| format!("{version} (commit {commit})"));
    println!("cargo:rustc-env=HEAPLEDGER_VERSION={version}");
    println!("cargo:rustc-env=HEAPLEDGER_FEATURES={}", features().join(", "));
}

/// What can be left out of a build, or is not there on every platform.
fn features() -> Vec<String> {
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|there| there == value);
    let mut features = Vec::new();
    if env::var_os("CARGO_FEATURE_TUI").is_some() {
        features.push("tui (the screen of top)".to_owned());
    }
    // As in `launch`'s build script, which puts the libraries in.
    if is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ARCH", "x86_64") {
        features.push("recorder (run, sdk)".to_owned());
    }
    features
}

fn commit() -> Option<String> {
    // A package has no other way; and where both are, the note is of what was packed.
    let name = noted().or_else(of_checkout)?;
    let short: String = name.trim().chars().take(LETTERS).collect();
    (short.len() == LETTERS && short.chars().all(|letter| letter.is_ascii_hexdigit())).then_some(short)
}

/// `{"git":{"sha1":"…"},…}`
fn noted() -> Option<String> {
    let text = fs::read_to_string(NOTE).ok()?;
    Some(text.split_once("\"sha1\"")?.1.split('"').nth(1)?.to_owned())
}

fn of_checkout() -> Option<String> {
    if git(&["rev-parse", "--show-prefix"])?.trim() != OWN_PLACE {
        return None;
    }
    let name = git(&["rev-parse", "--verify", "HEAD"])?;
    let branch = git(&["symbolic-ref", "--quiet", "HEAD"]);
    let branch = branch.as_deref().map(str::trim);
    // Cargo takes a file that is not there for changed each time: only those that are. A branch that is packed gets a file with its
    // next commit, which then is new in its directory.
    let head = watch("HEAD");
    let watched = branch.is_none_or(|branch| watch(branch) || (watch("packed-refs") && watch("refs/heads")));
    (head && watched).then_some(name)
}

/// Has this run again when git changes a file of its own.
fn watch(name: &str) -> bool {
    let Some(path) = git(&["rev-parse", "--git-path", name]) else { return false };
    let path = path.trim();
    let is_there = Path::new(path).exists();
    if is_there {
        println!("cargo:rerun-if-changed={path}");
    }
    is_there
}

/// What git says, if it says something. Cargo runs this in the crate's directory.
fn git(words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}
