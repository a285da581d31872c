//! Builds the preload library, the one that judges calls, and the archives that programs are linked with, and leaves them in `OUT_DIR`, so
//! that they travel inside the `heapledger` binary:
//! `cargo install` alone yields a `heapledger run` that works.
//!
//! A nested cargo with a target directory of its own, because cargo cannot yet say "this binary needs that
//! crate's cdylib" on stable. It builds from the sources below `preload`, which are links to those of the crates: cargo
//! follows them into this crate's package, and a manifest there would keep them out of it. So manifests are written
//! here. The preload library has no dependency outside this workspace: no network is needed.

#[path = "build/archive.rs"]
mod archive;
#[path = "build/wrap.rs"]
mod wrap;

use std::env;
use std::error::Error;
use std::fmt::Write;
use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The crates that the preload library is made of, each with those that it uses. `cargo xtask tidy` compares them with
/// their manifests.
const PARTS: &[(&str, &[&str])] = &[
    ("format", &[]),
    ("unwind", &[]),
    ("linux", &[]),
    ("recorder", &["format"]),
    ("guard", &[]),
    ("lws", &[]),
    ("process", &["format", "unwind", "linux", "lws", "recorder", "guard"]),
    ("watch", &["format", "unwind", "linux", "recorder", "process"]),
    ("api", &["format", "unwind", "linux", "recorder", "process", "watch"]),
    ("preload", &["format", "unwind", "linux", "guard", "process", "watch", "api"]),
    ("calls", &["linux", "guard"]),
    ("metadata", &["lws"]),
    ("metadata-c", &["metadata"]),
];

/// Those of them that are libraries by themselves, each with its build script.
const LIBRARIES: &[(&str, &str)] = &[("preload", "link.rs"), ("calls", "link_calls.rs")];

/// As in the workspace: a package does not take that along.
const PROFILE: &str = "[profile.release]\npanic = \"abort\"\nlto = \"thin\"\ncodegen-units = 4\n";

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
    println!("cargo:rerun-if-changed=build");
    // Links are followed.
    println!("cargo:rerun-if-changed=preload");
    let sources = PathBuf::from(var("CARGO_MANIFEST_DIR")?).join("preload");

    let out = PathBuf::from(var("OUT_DIR")?);
    let [image, calls, archive, wrapped, metadata] =
        ["preload.so", "calls.so", "linked.a", "wrapped.txt", "metadata.a"].map(|name| out.join(name));
    let supported = var("CARGO_CFG_TARGET_OS")? == "linux" && var("CARGO_CFG_TARGET_ARCH")? == "x86_64";
    if supported {
        let products = build(&sources, &out, Product::Library)?;
        fs::copy(products.join("libheapledger_preload.so"), &image)?;
        let products = build(&sources, &out, Product::Calls)?;
        fs::copy(products.join("libheapledger_calls.so"), &calls)?;
        let products = build(&sources, &out, Product::Archive)?;
        let linked = archive::linked(&fs::read(products.join("libheapledger_preload.a"))?)?;
        fs::write(&archive, linked.archive)?;
        fs::write(&wrapped, linked.wrapped)?;
        let products = build(&sources, &out, Product::Metadata)?;
        let built = fs::read(products.join("libheapledger_metadata_c.a"))?;
        fs::write(&metadata, archive::alone(&built, b"heapledger_metadata_prepare")?)?;
    } else {
        // `run` says in one sentence that this platform is not supported; all other commands work.
        fs::write(&image, [])?;
        fs::write(&calls, [])?;
        fs::write(&archive, [])?;
        fs::write(&wrapped, [])?;
        fs::write(&metadata, [])?;
    }
    // Else each `run` would look at each of their bytes for their names.
    for (name, library) in [("PRELOAD_HASH", &image), ("CALLS_HASH", &calls)] {
        let mut hasher = DefaultHasher::new();
        hasher.write(&fs::read(library)?);
        println!("cargo:rustc-env={name}={:016x}", hasher.finish());
    }
    Ok(())
}

/// Writes a workspace of the parts; returns its manifest.
fn workspace(sources: &Path, out: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let root = out.join("workspace");
    let version = var("CARGO_PKG_VERSION")?;
    let mut members = String::new();
    for (part, uses) in PARTS {
        write!(members, "{part:?}, ")?;
        let mut text = format!("[package]\nname = \"heapledger-{part}\"\nversion = {version:?}\nedition = \"2024\"\n");
        let script = LIBRARIES.iter().find(|(library, _)| library == part).map(|(_, script)| *script);
        if let Some(script) = script {
            writeln!(text, "build = {:?}", sources.join(script))?;
        }
        writeln!(text, "[lib]\npath = {:?}", sources.join(part).join("lib.rs"))?;
        if script.is_some() {
            writeln!(text, "crate-type = [\"cdylib\"]\n[features]\nwrapped = []")?;
        }
        // What only tests turn on has no feature here.
        writeln!(text, "[lints.rust]\nunexpected_cfgs = \"allow\"\n[dependencies]")?;
        for used in *uses {
            writeln!(text, "heapledger-{used} = {{ path = \"../{used}\" }}")?;
        }
        fs::create_dir_all(root.join(part))?;
        write_if_new(&root.join(part).join("Cargo.toml"), &text)?;
    }
    let manifest = root.join("Cargo.toml");
    write_if_new(&manifest, &format!("[workspace]\nresolver = \"3\"\nmembers = [{members}]\n{PROFILE}"))?;
    Ok(manifest)
}

/// A file that is written anew looks changed to cargo.
fn write_if_new(path: &Path, text: &str) -> Result<(), Box<dyn Error>> {
    if fs::read_to_string(path).is_ok_and(|there| there == text) {
        return Ok(());
    }
    Ok(fs::write(path, text)?)
}

/// What is built of the same sources.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Product {
    /// To be preloaded, or linked with.
    Library,
    /// To be preloaded behind it.
    Calls,
    /// To be linked with by `--wrap`, as one object file: whatever a program need not see stays inside of it.
    Archive,
    /// Another archive: compressed backtraces before blocks of any allocator, and nothing that records.
    Metadata,
}

/// Returns the directory of what was built.
fn build(sources: &Path, out: &Path, product: Product) -> Result<PathBuf, Box<dyn Error>> {
    let (target, host) = (var("TARGET")?, var("HOST")?);
    let target_dir = out.join("preload");
    let mut cargo = Command::new(var("CARGO")?);
    let package = match product {
        Product::Library | Product::Archive => "heapledger-preload",
        Product::Calls => "heapledger-calls",
        Product::Metadata => "heapledger-metadata-c",
    };
    cargo.args(["rustc", "--release", "--offline", "--lib", "--package", package, "--manifest-path"]);
    cargo.arg(workspace(sources, out)?).arg("--target-dir").arg(&target_dir);
    let mut products = target_dir.clone();
    if target != host {
        cargo.arg("--target").arg(&target);
        products.push(&target);
    }
    if product == Product::Archive {
        cargo.args(["--features", "wrapped"]);
    }
    if matches!(product, Product::Archive | Product::Metadata) {
        // One object file, with all that it is made of inside.
        cargo.args(["--crate-type", "staticlib", "--", "-C", "lto=fat", "-C", "codegen-units=1"]);
    }
    for name in OUTER_ONLY {
        cargo.env_remove(name);
    }
    // What is shipped does not tell where it was built, and is the same wherever that was.
    cargo.env("CARGO_ENCODED_RUSTFLAGS", format!("--remap-path-prefix={}=heapledger", sources.display()));
    let status = cargo.status().map_err(|error| format!("cannot run cargo for the preload library: {error}"))?;
    if !status.success() {
        return Err("the preload library does not build: see above".into());
    }
    Ok(products.join("release"))
}

fn var(name: &str) -> Result<String, Box<dyn Error>> {
    env::var(name).map_err(|error| format!("cargo did not set {name}: {error}").into())
}
