//! `cargo xtask dist`: a tarball, a `.deb` and an `.rpm` of the command.
//!
//! The same bytes wherever and whenever they are made of one commit by the same compiler and the same packers: times are that of the
//! commit, lists are sorted, owners are root, and no path of the machine is inside (`--twice` builds a second time, in another place,
//! and compares).
//! Packed by those who know their form best: `tar`, `dpkg-deb` and `rpmbuild`, each of which keeps `SOURCE_DATE_EPOCH`.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::packages;
use crate::step::{Result, cargo, output, root, run as run_command, target};

mod install;
mod pack;
mod stage;

/// What is packed, and when it is said to have been made.
#[derive(Debug)]
struct Release {
    /// The version of all crates.
    version: String,
    /// Seconds of the commit, since 1970.
    epoch: String,
    /// The command.
    binary: PathBuf,
}

/// Builds and packs; or packs what is built.
pub(crate) fn run(words: &[&str]) -> Result {
    let twice = match words {
        [] => false,
        ["--twice"] => true,
        _ => return Err(format!("dist takes --twice or nothing, and not {}", words.join(" "))),
    };
    packages::provide(packages::DIST)?;
    let changed = output(&mut git(&root(), &["status", "--porcelain"]))?;
    if !changed.is_empty() {
        return Err(format!("what is packed has to be a commit, and there are changes:\n{changed}"));
    }
    let place = target().join("dist");
    let made = pack(&build(&root(), &place.join("build"))?, &place)?;
    install::try_all(&made, &place.join("installed"))?;
    if twice {
        again(&made, &place.join("again"))?;
    }
    for path in &made {
        let sum = output(Command::new("sha256sum").arg(path))?;
        println!("{} {:>9} bytes  {}", sum.get(..64).unwrap_or_default(), size(path)?, path.display());
    }
    Ok(())
}

/// As a step of the tests: what was built for them is packed twice and compared, then installed and tried.
pub(crate) fn check() -> Result {
    let place = target().join("dist-check");
    let binary = target().join("release/heapledger");
    let release = Release { version: version()?, epoch: epoch(&root()), binary };
    let [first, second] = ["first", "second"].map(|name| pack(&release, &place.join(name)));
    let (first, second) = (first?, second?);
    same(&first, &second)?;
    install::try_all(&first, &place.join("installed"))?;
    println!(
        "a tarball, a .deb and an .rpm: the same bytes twice; from each, `run`, `stats`, man page and completions work"
    );
    Ok(())
}

/// The command, optimized, without symbols and without paths of this machine.
fn build(checkout: &Path, into: &Path) -> Result<Release> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let mut flags = vec![remap(checkout, "heapledger")];
    flags.extend(home.map(|home| remap(&home, "cargo")));
    let mut command = cargo(&["build", "--release", "--locked", "--package", "heapledger-cli"]);
    // Not by a variable: that would reach the build of the preload library too, which is looked at as it is.
    command.args(["--config", "profile.release.strip=\"symbols\"", "--target-dir"]).arg(into);
    // The build of zstd, by a C compiler, is under paths as well.
    command.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}")).env_remove("RUSTFLAGS").env_remove("CARGO_TARGET_DIR");
    run_command(command.env("CARGO_INCREMENTAL", "0").current_dir(checkout))?;
    let release = Release { version: version()?, epoch: epoch(checkout), binary: into.join("release/heapledger") };
    no_path_of_ours(&release.binary, checkout)?;
    Ok(release)
}

fn remap(from: &Path, to: &str) -> String {
    format!("--remap-path-prefix={}={to}", from.display())
}

/// Neither where it was built nor whose home that was is in the command.
fn no_path_of_ours(binary: &Path, checkout: &Path) -> Result {
    let bytes = fs::read(binary).map_err(|error| format!("{}: {error}", binary.display()))?;
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo"));
    for path in [Some(checkout.to_owned()), home].into_iter().flatten() {
        let path = path.as_os_str().as_encoded_bytes();
        if bytes.windows(path.len()).any(|part| part == path) {
            return Err(format!("{} tells where it was built: {}", binary.display(), String::from_utf8_lossy(path)));
        }
    }
    Ok(())
}

/// All three, in this directory.
fn pack(release: &Release, place: &Path) -> Result<Vec<PathBuf>> {
    let staged = place.join("staged");
    stage::stage(release, &staged)?;
    let made = vec![
        pack::tarball(release, &staged, place)?,
        pack::deb(release, &staged, place)?,
        pack::rpm(release, &staged, place)?,
    ];
    made.iter().try_for_each(|path| stage::set_mode(path, 0o644))?;
    Ok(made)
}

/// Builds the commit once more, elsewhere, and compares.
fn again(made: &[PathBuf], place: &Path) -> Result {
    stage::fresh(place)?;
    let checkout = place.join("checkout");
    let mut clone = Command::new("git");
    run_command(clone.args(["clone", "--quiet", "--no-hardlinks"]).arg(root()).arg(&checkout))?;
    let release = build(&checkout, &place.join("build"))?;
    same(made, &pack(&release, place)?)?;
    println!("built a second time, in {}: the same bytes", checkout.display());
    Ok(())
}

fn same(first: &[PathBuf], second: &[PathBuf]) -> Result {
    for (one, other) in first.iter().zip(second) {
        let [left, right] =
            [one, other].map(|path| fs::read(path).map_err(|error| format!("{}: {error}", path.display())));
        if left? != right? {
            return Err(format!("{} and {} differ", one.display(), other.display()));
        }
    }
    if first.len() == second.len() {
        Ok(())
    } else {
        Err("one time there were more packages than the other".to_owned())
    }
}

/// The version that all crates have.
pub(crate) fn version() -> Result<String> {
    let path = root().join("Cargo.toml");
    let manifest = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let line = manifest.lines().find_map(|line| line.strip_prefix("version = \""));
    line.and_then(|rest| rest.split('"').next()).map(str::to_owned).ok_or_else(|| "Cargo.toml: no version".to_owned())
}

/// When the commit was made. Where git does not say (there is no checkout, or it is another user's), the first second of 2026.
fn epoch(checkout: &Path) -> String {
    const WITHOUT_GIT: &str = "1767225600";
    let said = output(&mut git(checkout, &["log", "-1", "--format=%ct"])).unwrap_or_default();
    let said = said.trim();
    if said.is_empty() { WITHOUT_GIT.to_owned() } else { said.to_owned() }
}

fn git(checkout: &Path, words: &[&str]) -> Command {
    let mut command = Command::new("git");
    command.args(words).current_dir(checkout);
    command
}

fn size(path: &Path) -> Result<u64> {
    fs::metadata(path).map(|meta| meta.len()).map_err(|error| format!("{}: {error}", path.display()))
}

/// A program of the system, in an environment that says nothing to it, and at the time of the commit.
fn packer(release: &Release, program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.env("SOURCE_DATE_EPOCH", &release.epoch).env("LC_ALL", "C").env("TZ", "UTC").env_remove("GZIP");
    command
}
