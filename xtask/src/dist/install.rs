//! Each package, unpacked where nothing else is, and tried there.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::stage::{SCRIPTS, fresh, list};
use crate::step::{Ledgers, Result, output, run as run_command};

/// Unpacks and tries all three.
pub(super) fn try_all(made: &[PathBuf], place: &Path) -> Result {
    fresh(place)?;
    for package in made {
        let name = package.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let root = place.join(&name);
        fresh(&root)?;
        let prefix = unpack(package, &root)?;
        Installed { prefix, scratch: place.join(format!("{name}.scratch")) }
            .try_it()
            .map_err(|problem| format!("{name}: {problem}"))?;
        println!("{name}: installed, and tried");
    }
    Ok(())
}

/// Returns the directory that is `/usr`, or in its place.
fn unpack(package: &Path, root: &Path) -> Result<PathBuf> {
    match package.extension().and_then(OsStr::to_str) {
        Some("deb") => {
            run_command(Command::new("dpkg-deb").arg("-x").arg(package).arg(root))?;
            wants(
                &output(Command::new("dpkg-deb").arg("--field").arg(package))?,
                &["libc6 (>= 2.", "Architecture: amd64"],
            )?;
            Ok(root.join("usr"))
        }
        Some("rpm") => {
            let script = "rpm2cpio \"$0\" | cpio --quiet -idm";
            let whole = package.canonicalize().map_err(|error| format!("{}: {error}", package.display()))?;
            run_command(Command::new("sh").args(["-c", script]).arg(whole).current_dir(root))?;
            let query = |what: &str| output(Command::new("rpm").args(["-qp", what]).arg(package));
            wants(&query("--requires")?, &["libc.so.6(GLIBC_2."])?;
            let provides = query("--provides")?;
            if provides.contains(".so") {
                return Err(format!("its own library is nothing for others: {provides}"));
            }
            Ok(root.join("usr"))
        }
        _ => {
            run_command(Command::new("tar").arg("-xzf").arg(package).arg("-C").arg(root))?;
            list(root)?.pop().ok_or_else(|| "the tarball is empty".to_owned())
        }
    }
}

fn wants(text: &str, words: &[&str]) -> Result {
    match words.iter().find(|word| !text.contains(**word)) {
        Some(word) => Err(format!("there is no {word} in:\n{text}")),
        None => Ok(()),
    }
}

/// What is there now.
struct Installed {
    prefix: PathBuf,
    scratch: PathBuf,
}

impl Installed {
    fn try_it(&self) -> Result {
        fresh(&self.scratch)?;
        self.files_are_found()?;
        self.it_records()?;
        self.manual_is_found()?;
        self.completions_complete()
    }

    /// The command, in an environment in which only a cache is said, that must stay empty.
    fn heapledger(&self, words: &[&str]) -> Command {
        let mut command = Command::new(self.prefix.join("bin/heapledger"));
        command.args(words).current_dir(&self.scratch).env("XDG_CACHE_HOME", self.scratch.join("cache"));
        command.env_remove("HEAPLEDGER_PRELOAD").env_remove("HEAPLEDGER").env_remove("LD_PRELOAD").stdin(Stdio::null());
        command
    }

    /// Libraries and scripts are those of the package.
    fn files_are_found(&self) -> Result {
        let prefix = self.prefix.canonicalize().map_err(|error| format!("{}: {error}", self.prefix.display()))?;
        let scripts = SCRIPTS.iter().map(|(word, _)| (vec!["gdb-script", *word], "share/heapledger"));
        let libraries = [vec!["preload-path"], vec!["preload-path", "--calls"]].map(|words| (words, "lib/heapledger"));
        for (words, directory) in scripts.chain(libraries) {
            let told = output(&mut self.heapledger(&words))?;
            let told = PathBuf::from(told.trim_end());
            if told.parent() != Some(&prefix.join(directory)) || !told.is_file() {
                return Err(format!(
                    "`{}` is {} and not in {directory} of the package",
                    words.join(" "),
                    told.display()
                ));
            }
        }
        for (_, name) in SCRIPTS {
            let path = self.prefix.join("share/heapledger").join(name);
            fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(())
    }

    fn it_records(&self) -> Result {
        let ledgers = Ledgers::new("dist")?;
        let place = ledgers.path().display().to_string();
        let run = ["run", "-q", "--require", "--ledger-dir", &place, "-o", "x.hl", "--", "ls", "/"];
        output(&mut self.heapledger(&run))?;
        wants(&output(&mut self.heapledger(&["stats", "x.hl"]))?, &["allocations"])?;
        if self.scratch.join("cache").exists() {
            return Err("it wrote into the cache, though all is in the package".to_owned());
        }
        wants(&output(&mut self.heapledger(&["--version"]))?, &["heapledger ", "recorder"])
    }

    fn manual_is_found(&self) -> Result {
        let pages = self.prefix.join("share/man");
        for name in ["heapledger", "heapledger-run", "heapledger-gdb-script"] {
            let mut man = Command::new("man");
            let found = output(man.env("MANPATH", &pages).args(["-w", name]))?;
            if !Path::new(found.trim_end()).starts_with(&pages) {
                return Err(format!("the page of {name} that man finds is {found}"));
            }
            let shown = output(Command::new("man").env("MANPAGER", "cat").env("MANPATH", &pages).arg(name))?;
            wants(&shown, &["NAME", "SYNOPSIS", "OPTIONS"])?;
        }
        Ok(())
    }

    /// bash has to read it and to be answered by it; what other shells read is theirs to judge, if they are there.
    fn completions_complete(&self) -> Result {
        let script = "source \"$0\"; COMP_WORDS=(heapledger preload-p); COMP_CWORD=1; \
                      _heapledger heapledger preload-p heapledger; echo \"${COMPREPLY[@]}\"";
        let file = self.prefix.join("share/bash-completion/completions/heapledger");
        let said = output(Command::new("bash").args(["--norc", "-c", script]).arg(file))?;
        if said.trim() != "preload-path" {
            return Err(format!("bash completes `heapledger preload-p` to {said}"));
        }
        for (shell, file) in [
            ("fish", "share/fish/vendor_completions.d/heapledger.fish"),
            ("zsh", "share/zsh/vendor-completions/_heapledger"),
            ("zsh", "share/zsh/site-functions/_heapledger"),
        ] {
            let path = self.prefix.join(file);
            if path.exists() && crate::packages::on_path(shell) {
                run_command(Command::new(shell).arg("-n").arg(path))?;
            }
        }
        Ok(())
    }
}
