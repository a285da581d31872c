//! `cargo xtask package`: what is published builds from its packages alone, and the command installs from a registry.
//!
//! The registry is a directory with our packages and those of the crates from outside, as `cargo vendor` makes one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::step::{Result, cargo, output, root, run as run_command, target};

/// The crates that are published.
fn published() -> Result<Vec<String>> {
    let directory = root().join("crates");
    let items = fs::read_dir(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let mut names = Vec::new();
    for item in items.flatten().filter(|item| item.path().is_dir()) {
        let manifest = read(&item.path().join("Cargo.toml"))?;
        if !manifest.contains("publish = false") {
            // The directory of the crate for programs is called as the crate is.
            names.push(match &*item.file_name().to_string_lossy() {
                "heapledger" => "heapledger".to_owned(),
                name => format!("heapledger-{name}"),
            });
        }
    }
    names.sort();
    Ok(names)
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Packs, and installs from the packages.
pub(crate) fn run() -> Result {
    let (published, version) = (published()?, crate::dist::version()?);
    let mut pack = cargo(&["package", "--locked", "--allow-dirty"]);
    for name in &published {
        pack.args(["--package", name]);
    }
    run_command(&mut pack)?;

    let base = target().join("registry");
    remove(&base)?;
    let crates = base.join("crates");
    output(cargo(&["vendor", "--locked", "--quiet"]).arg(&crates))?;
    for name in &published {
        unpack(&target().join("package").join(format!("{name}-{version}.crate")), &crates)?;
    }
    println!("{} of our crates beside those from outside in {}", published.len(), crates.display());

    let (installed, build) = (base.join("installed"), base.join("build"));
    let mut install = cargo(&["install", "heapledger-cli", "--locked", "--offline", "--root"]);
    install.arg(&installed).arg("--target-dir").arg(&build).current_dir(&base);
    install.args(["--config", "source.crates-io.replace-with=\"packages\"", "--config"]);
    install.arg(format!("source.packages.directory={:?}", crates));
    run_command(&mut install)?;

    let ledger = base.join("x.hl");
    let program = installed.join("bin/heapledger");
    let mut recorded = Command::new(&program);
    recorded.args(["run", "-q", "--ledger-dir"]).arg(&base).arg("-o").arg(&ledger).args(["--", "ls", "/"]);
    run_command(recorded.env("XDG_CACHE_HOME", base.join("cache")).env_remove("HEAPLEDGER"))?;
    let stats = output(Command::new(&program).arg("stats").arg(&ledger))?;
    if !stats.contains("allocations") {
        return Err(format!("the installed command records nothing: {stats}"));
    }
    println!("installed from packages, and it records: {}", stats.lines().next().unwrap_or_default());
    Ok(())
}

/// A package as a directory registry has it: its files, and its checksum.
fn unpack(package: &Path, crates: &Path) -> Result {
    run_command(Command::new("tar").arg("-xzf").arg(package).arg("-C").arg(crates))?;
    let sum = output(Command::new("sha256sum").arg(package))?;
    let sum = sum.split_ascii_whitespace().next().unwrap_or_default();
    let name: PathBuf = package.file_stem().map(PathBuf::from).unwrap_or_default();
    let path = crates.join(name).join(".cargo-checksum.json");
    let text = format!("{{\"files\":{{}},\"package\":\"{sum}\"}}");
    fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
}

fn remove(directory: &Path) -> Result {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(format!("{}: {error}", directory.display())),
        _ => Ok(()),
    }
}
