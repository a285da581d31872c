//! What is tested, built once: the command line, the preload library, and the victims' compilers.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::SystemTime;

use crate::{Result, process};

/// The root of the workspace.
pub fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Where cargo builds: the directory that this test program lies in. `TARGET/debug/deps/test-123abc`.
pub fn target() -> PathBuf {
    let own = std::env::current_exe().expect("a test program has a path");
    own.ancestors().nth(3).expect("it lies in a target directory").to_owned()
}

/// Where victims and other products of the tests go.
pub fn products() -> PathBuf {
    let path = target().join("e2e");
    fs::create_dir_all(&path).expect("a directory in the target directory");
    path
}

fn cargo(package: &str, more: &[&str], target: &Path) {
    let mut command = Command::new(option_env!("CARGO").unwrap_or("cargo"));
    command.args(["build", "--release", "--quiet", "--package", package, "--target-dir"]).arg(target).args(more);
    // An outer cargo's wishes are not for this build.
    for name in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_TARGET_DIR", "LD_PRELOAD", "HEAPLEDGER"] {
        command.env_remove(name);
    }
    let status = command.current_dir(root()).status().expect("cargo");
    assert!(status.success(), "{package} does not build");
}

/// The command line.
pub fn heapledger() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        if let Some(path) = std::env::var_os("HEAPLEDGER_E2E_CLI") {
            return path.into();
        }
        cargo("heapledger-cli", &[], &target());
        target().join("release/heapledger")
    })
}

/// The preload library, for those who preload by hand.
pub fn preload() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        cargo("heapledger-preload", &[], &target());
        target().join("release/libheapledger_preload.so")
    })
}

/// The library that judges calls of the C library, which is preloaded behind it.
pub fn calls() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        cargo("heapledger-calls", &[], &target());
        target().join("release/libheapledger_calls.so")
    })
}

/// Metadata before blocks, for C.
pub fn metadata_library() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        cargo("heapledger-metadata-c", &[], &target());
        target().join("release/libheapledger_metadata_c.a")
    })
}

/// The preload library that compares each stack with what libgcc's unwinder says.
pub fn oracle() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        // In a target directory of its own: it has the same name as the one without.
        let target = products().join("oracle");
        cargo("heapledger-preload", &["--features", "oracle"], &target);
        target.join("release/libheapledger_preload.so")
    })
}

/// Whether a product is younger than all that it is made from.
pub fn is_fresh(product: &Path, sources: &[PathBuf]) -> bool {
    let changed = |path: &Path| fs::metadata(path).and_then(|meta| meta.modified()).ok();
    let newest = sources.iter().map(|path| changed(path).unwrap_or(SystemTime::now())).max();
    changed(product).is_some_and(|made| newest.is_none_or(|newest| made > newest))
}

/// The first of these programs that there is.
pub fn find(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = |name: &&str| {
        let directories = std::env::split_paths(&path);
        directories.map(|directory| directory.join(name)).find(|path| path.is_file())
    };
    names.iter().find_map(in_path)
}

/// Python of a version (`python3.12`): the system's, or else one that pyenv has installed for this user. Pyenv's own commands of these
/// names stand for versions that need not be chosen, and then only complain.
pub fn python(version: &str) -> Option<PathBuf> {
    let answers = |path: &PathBuf| process::run(command(path).arg("--version")).is_ok_and(|ran| ran.status.success());
    let own = std::env::var_os("HOME").unwrap_or_default();
    let versions = fs::read_dir(Path::new(&own).join(".pyenv/versions")).into_iter().flatten().flatten();
    let installed = versions.map(|item| item.path().join("bin").join(version));
    find(&[version]).into_iter().chain(installed.filter(|path| path.is_file())).find(answers)
}

/// A shared library of the system, by file name.
pub fn system_library(name: &str) -> Option<PathBuf> {
    let directories = ["/usr/lib/x86_64-linux-gnu", "/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"];
    directories.iter().map(|directory| Path::new(directory).join(name)).find(|path| path.exists())
}

/// Copies a program. Not by this process: what another thread starts meanwhile would hold the copy open for writing, and the
/// system executes no file that is.
pub fn copy_program(from: &Path, to: &Path) -> Result {
    process::run(command("cp").arg(from).arg(to))?.good().map(drop)
}

/// A command in an environment in which nothing of ours is set, but for places that are the tests' own: whatever a test
/// forgets to say, no ledger of the user is read or taken, none of a test lies among them, and nor does the library.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = command_of_a_user(program);
    let [ledgers, cache] = ["ledgers", "cache"].map(|name| products().join(name));
    let _ = fs::create_dir_all(&ledgers);
    command.env("HEAPLEDGER", format!("dir={}", in_a_list(&ledgers))).env("XDG_CACHE_HOME", cache);
    command
}

/// A path as an item of the variable, in which commas separate.
fn in_a_list(path: &Path) -> String {
    path.to_string_lossy().replace('%', "%25").replace(',', "%2C")
}

/// A command in an environment in which nothing of ours is set: ledgers go to the default places. Only for tests that
/// are about these, and then as a user that nobody else is: see [`crate::nobody`].
pub fn command_of_a_user(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for name in ["HEAPLEDGER", "HEAPLEDGER_PRELOAD", "HEAPLEDGER_ORACLE", "LD_PRELOAD", "COUNTER_OUT", "NO_COLOR"] {
        command.env_remove(name);
    }
    command
}
