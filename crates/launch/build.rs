//! Builds the preload library and leaves it in `OUT_DIR`, so that it travels inside the `heapledger` binary:
//! `cargo install --path crates/cli` alone yields a `heapledger run` that works.
//!
//! A nested cargo with a target directory of its own, because cargo cannot yet say "this binary needs that
//! crate's cdylib" on stable. The preload library has no dependency outside this workspace: no network is needed.

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The crates that the preload library is made of, by folder.
const PARTS: &[&str] = &["format", "unwind", "linux", "recorder", "process", "preload"];

/// What belongs to the outer build and must not reach the inner one: `-D warnings`, instrumentation, clippy in
/// place of rustc, another target directory.
const OUTER_ONLY: &[&str] = &[
    "CARGO_ENCODED_RUSTFLAGS",
    "RUSTFLAGS",
    "RUSTC_WORKSPACE_WRAPPER",
    "CLIPPY_ARGS",
    "CLIPPY_CONF_DIR",
    "CARGO_TARGET_DIR",
    "CARGO_BUILD_TARGET_DIR",
    "CARGO_BUILD_TARGET",
    "CARGO_BUILD_RUSTFLAGS",
    "CARGO_INCREMENTAL",
    "CARGO_UNSTABLE_BUILD_STD",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=build.rs");
    let crates = PathBuf::from(var("CARGO_MANIFEST_DIR")?).join("..");
    for part in PARTS {
        for inside in ["src", "Cargo.toml", "build.rs"] {
            let path = crates.join(part).join(inside);
            if path.exists() {
                println!("cargo:rerun-if-changed={}", path.display());
            }
        }
    }
    println!("cargo:rerun-if-changed={}", crates.join("../Cargo.toml").display());

    let out = PathBuf::from(var("OUT_DIR")?);
    let image = out.join("preload.so");
    let supported = var("CARGO_CFG_TARGET_OS")? == "linux" && var("CARGO_CFG_TARGET_ARCH")? == "x86_64";
    if supported {
        fs::copy(build(&crates, &out)?, &image)?;
    } else {
        // `run` says in one sentence that this platform is not supported; all other commands work.
        fs::write(&image, [])?;
    }
    Ok(())
}

fn build(crates: &Path, out: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let (target, host) = (var("TARGET")?, var("HOST")?);
    let target_dir = out.join("preload");
    let mut cargo = Command::new(var("CARGO")?);
    cargo.args(["build", "--release", "--lib", "--package", "heapledger-preload", "--manifest-path"]);
    cargo.arg(crates.join("preload/Cargo.toml")).arg("--target-dir").arg(&target_dir);
    let mut products = target_dir.clone();
    if target != host {
        cargo.arg("--target").arg(&target);
        products.push(&target);
    }
    for name in OUTER_ONLY {
        cargo.env_remove(name);
    }
    let status = cargo.status().map_err(|error| format!("cannot run cargo for the preload library: {error}"))?;
    if !status.success() {
        return Err("the preload library does not build: see above".into());
    }
    Ok(products.join("release/libheapledger_preload.so"))
}

fn var(name: &str) -> Result<String, Box<dyn Error>> {
    env::var(name).map_err(|error| format!("cargo did not set {name}: {error}").into())
}
