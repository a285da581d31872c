//! What is installed, as a tree that begins where `/usr` would be.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Release;
use crate::step::{Result, output, root, run as run_command};

/// Files that people look for in the documentation of a package.
const TEXTS: &[&str] = &["README.md", "CHANGELOG.md", "FORMAT.md", "LICENSE-APACHE", "LICENSE-MIT"];
/// Completions, each where its shell looks.
const COMPLETIONS: &[(&str, &str)] = &[
    ("bash", "share/bash-completion/completions/heapledger"),
    ("zsh", "share/zsh/vendor-completions/_heapledger"),
    ("zsh", "share/zsh/site-functions/_heapledger"),
    ("fish", "share/fish/vendor_completions.d/heapledger.fish"),
];
/// Scripts for gdb, by the words of `gdb-script`, and under which names a `.gdbinit` finds them.
pub(super) const SCRIPTS: &[(&str, &str)] =
    &[("heapledger", "heapledger.gdb"), ("receive", "heapledger-receive.gdb"), ("rtt", "heapledger-rtt.gdb")];

/// Makes the tree. Libraries and scripts are those that the command itself would write, under the names by which it looks for them.
pub(super) fn stage(release: &Release, staged: &Path) -> Result {
    fresh(staged)?;
    let command = copy(&release.binary, &staged.join("bin"), "heapledger", 0o755)?;
    // Not from the tree: there it would find what is put there.
    let cache = staged.with_extension("cache");
    fresh(&cache)?;
    let told = |words: &[&str]| own(&release.binary, &cache, words);
    for words in [&["preload-path"][..], &["preload-path", "--calls"]] {
        let library = PathBuf::from(told(words)?.trim_end());
        copy(&library, &staged.join("lib/heapledger"), &name(&library), 0o755)?;
    }
    for (word, plain) in SCRIPTS {
        let script = PathBuf::from(told(&["gdb-script", word])?.trim_end());
        let directory = staged.join("share/heapledger");
        copy(&script, &directory, &name(&script), 0o644)?;
        symlink(name(&script), directory.join(plain)).map_err(|error| format!("{plain}: {error}"))?;
    }
    for (shell, place) in COMPLETIONS {
        write(&staged.join(place), told(&["completions", shell])?.as_bytes())?;
    }
    let pages = staged.join("share/man/man1");
    run_command(Command::new(&command).args(["man", "--dir"]).arg(&pages))?;
    for page in list(&pages)? {
        // Without name and time, which would be those of this moment.
        run_command(Command::new("gzip").args(["-9n"]).arg(page))?;
    }
    for text in TEXTS {
        copy(&root().join(text), &staged.join("share/doc/heapledger"), text, 0o644)?;
    }
    write(&staged.join("share/doc/heapledger/copyright"), copyright()?.as_bytes())?;
    plain_modes(staged)?;
    remove(&cache)
}

/// What the command says, which must find nothing but a cache of its own.
fn own(binary: &Path, cache: &Path, words: &[&str]) -> Result<String> {
    let mut command = Command::new(binary);
    command.args(words).env("XDG_CACHE_HOME", cache).env_remove("HEAPLEDGER_PRELOAD").env_remove("HEAPLEDGER");
    // Root's libraries go where everybody may read them first: the cache must be such a place, or they are shared with others.
    let said = output(&mut command)?;
    if said.is_empty() { Err(format!("`heapledger {}` says nothing", words.join(" "))) } else { Ok(said) }
}

/// In the form that Debian's tools read.
fn copyright() -> Result<String> {
    let path = root().join("LICENSE-MIT");
    let mit = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let holder =
        mit.lines().find_map(|line| line.strip_prefix("Copyright (c) ")).unwrap_or("the authors of Heapledger");
    let (_, terms) = mit.split_once("\n\nPermission").ok_or("LICENSE-MIT: no terms")?;
    let terms = format!("Permission{terms}");
    let indented: String = terms
        .trim_end()
        .lines()
        .map(|line| if line.is_empty() { " .\n".to_owned() } else { format!(" {line}\n") })
        .collect();
    Ok(format!(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: heapledger\n\n\
         Files: *\nCopyright: {holder}\nLicense: Apache-2.0 or Expat\n\n\
         License: Apache-2.0\n On Debian systems the text is in /usr/share/common-licenses/Apache-2.0; it is in\n LICENSE-APACHE beside this file \
         too.\n\nLicense: Expat\n{indented}"
    ))
}

/// Directories and files as everybody's systems have them, whatever umask this ran under.
pub(super) fn plain_modes(directory: &Path) -> Result {
    for path in list(directory)? {
        let meta = fs::symlink_metadata(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        if meta.is_dir() {
            plain_modes(&path)?;
        } else if meta.is_file() {
            set_mode(&path, if meta.permissions().mode() & 0o100 != 0 { 0o755 } else { 0o644 })?;
        }
    }
    set_mode(directory, 0o755)
}

pub(super) fn set_mode(path: &Path, mode: u32) -> Result {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(|error| format!("{}: {error}", path.display()))
}

/// An empty directory.
pub(super) fn fresh(directory: &Path) -> Result {
    remove(directory)?;
    fs::create_dir_all(directory).map_err(|error| format!("{}: {error}", directory.display()))
}

pub(super) fn remove(directory: &Path) -> Result {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(format!("{}: {error}", directory.display())),
        _ => Ok(()),
    }
}

/// What is in a directory, sorted.
pub(super) fn list(directory: &Path) -> Result<Vec<PathBuf>> {
    let items = fs::read_dir(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let mut paths: Vec<PathBuf> = items.flatten().map(|item| item.path()).collect();
    paths.sort();
    Ok(paths)
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn copy(from: &Path, directory: &Path, name: &str, mode: u32) -> Result<PathBuf> {
    let path = directory.join(name);
    let done = fs::create_dir_all(directory).and_then(|()| fs::copy(from, &path));
    done.map_err(|error| format!("{} to {}: {error}", from.display(), path.display()))?;
    set_mode(&path, mode)?;
    Ok(path)
}

fn write(path: &Path, bytes: &[u8]) -> Result {
    let directory = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(directory)
        .and_then(|()| fs::write(path, bytes))
        .map_err(|error| format!("{}: {error}", path.display()))
}
