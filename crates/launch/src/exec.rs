//! Finding a program as `execvp` does, and becoming it.

use std::convert::Infallible;
use std::env;
use std::ffi::{CString, OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::unistd::{AccessFlags, access, execve};

use crate::detect;

/// Where programs are looked for if `PATH` is not set, as glibc does.
const DEFAULT_PATH: &str = "/bin:/usr/bin";
/// Runs a text file without `#!`, as `execvp` does.
const SHELL: &str = "/bin/sh";

/// What the address sanitizer reads, and its switch for whether it insists on being the first library.
const ASAN: &str = "ASAN_OPTIONS";
const ASAN_ORDER: &str = "verify_asan_link_order";

/// Exit code if there is no such program.
pub const NOT_FOUND: u8 = 127;
/// Exit code if it is there and cannot be executed.
pub const NOT_EXECUTABLE: u8 = 126;

/// The exit code that a shell gives for this reason.
pub fn exit_code(reason: Errno) -> u8 {
    if matches!(reason, Errno::ENOENT | Errno::ENOTDIR) { NOT_FOUND } else { NOT_EXECUTABLE }
}

/// All files that `name` may stand for, in the order in which they are tried.
fn candidates(name: &OsStr) -> Vec<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return vec![PathBuf::from(name)];
    }
    let path = env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into());
    env::split_paths(&path)
        .map(
            |directory| if directory.as_os_str().is_empty() { Path::new(".").join(name) } else { directory.join(name) },
        )
        .collect()
}

/// The file that will be executed.
///
/// # Errors
/// `ENOENT` if there is none, otherwise why the only ones there cannot be executed.
pub fn find(name: &OsStr) -> Result<PathBuf, Errno> {
    if name.is_empty() {
        return Err(Errno::ENOENT);
    }
    let mut reason = Errno::ENOENT;
    for path in candidates(name) {
        match executable(&path) {
            Ok(()) => return Ok(path),
            Err(Errno::ENOENT | Errno::ENOTDIR) => {}
            Err(other) => reason = other,
        }
    }
    Err(reason)
}

/// The file to be executed: as [`find`], but where our own look says that none can be, the kernel has the last word.
///
/// # Errors
/// `ENOENT` if there is none.
pub fn find_or_try(name: &OsStr) -> Result<PathBuf, Errno> {
    let is_there = |path: &PathBuf| !matches!(executable(path), Err(Errno::ENOENT | Errno::ENOTDIR));
    match find(name) {
        Err(Errno::ENOENT | Errno::ENOTDIR) => Err(Errno::ENOENT),
        Err(reason) => candidates(name).into_iter().find(is_there).ok_or(reason),
        found => found,
    }
}

fn executable(path: &Path) -> Result<(), Errno> {
    let meta = path.metadata().map_err(|error| error.raw_os_error().map_or(Errno::EIO, Errno::from_raw))?;
    if !meta.is_file() {
        return Err(Errno::EACCES);
    }
    access(path, AccessFlags::X_OK)
}

/// A program, its arguments and environment, ready to become.
pub struct Invocation {
    path: CString,
    arguments: Vec<CString>,
    environment: Vec<CString>,
}

impl Invocation {
    /// Puts the parts together. `None` if one of them has a zero byte inside, which no exec could pass on.
    pub fn new(path: &Path, arguments: &[OsString], environment: &[(OsString, OsString)]) -> Option<Invocation> {
        let string = |bytes: &[u8]| CString::new(bytes).ok();
        Some(Invocation {
            path: string(path.as_os_str().as_bytes())?,
            arguments: arguments.iter().map(|argument| string(argument.as_bytes())).collect::<Option<_>>()?,
            environment: environment
                .iter()
                .map(|(key, value)| string(&[key.as_bytes(), b"=", value.as_bytes()].concat()))
                .collect::<Option<_>>()?,
        })
    }

    /// Adds a variable.
    pub fn set(&mut self, key: &str, value: &OsStr) {
        if let Ok(item) = CString::new([key.as_bytes(), b"=", value.as_bytes()].concat()) {
            let start = [key.as_bytes(), b"="].concat();
            match self.environment.iter_mut().find(|old| old.as_bytes().starts_with(&start)) {
                Some(old) => *old = item,
                None => self.environment.push(item),
            }
        }
    }

    /// Becomes the program.
    ///
    /// # Errors
    /// Why the kernel refused.
    pub fn become_it(mut self) -> Result<Infallible, Errno> {
        let reason = match execve(&self.path, &self.arguments, &self.environment) {
            Ok(never) => match never {},
            Err(reason) => reason,
        };
        if reason != Errno::ENOEXEC || !is_text(Path::new(OsStr::from_bytes(self.path.as_bytes()))) {
            return Err(reason);
        }
        if let Some(first) = self.arguments.first_mut() {
            first.clone_from(&self.path);
        }
        let shell = CString::new(SHELL).map_err(|_| reason)?;
        self.arguments.insert(0, shell.clone());
        execve(&shell, &self.arguments, &self.environment)
    }
}

/// Whether a file that the kernel would not execute is worth showing to the shell: not if it is a damaged program.
fn is_text(path: &Path) -> bool {
    let mut start = Vec::new();
    let read = detect::open_regular(path).and_then(|file| file.take(256).read_to_end(&mut start));
    read.is_ok() && !start.contains(&0)
}

/// The environment with libraries in front of what is preloaded already.
pub fn with_preload(libraries: &[PathBuf]) -> Vec<(OsString, OsString)> {
    let mut environment: Vec<(OsString, OsString)> = env::vars_os().collect();
    let all: Vec<&[u8]> = libraries.iter().map(|library| library.as_os_str().as_bytes()).collect();
    let all = all.join(&b':');
    join(&mut environment, "LD_PRELOAD", |old| [&all, &b":"[..], old].concat(), OsStr::from_bytes(&all));
    // A child of the program may be built with it; it is not watched, but would refuse to run behind another library.
    let asked = env::var_os(ASAN).is_some_and(|old| String::from_utf8_lossy(old.as_bytes()).contains(ASAN_ORDER));
    if !asked {
        let allow = format!("{ASAN_ORDER}=0");
        join(&mut environment, ASAN, |old| [old, b":", allow.as_bytes()].concat(), OsStr::new(&allow));
    }
    environment
}

/// Sets a variable: to a value of its own, or to what it was and more.
fn join(environment: &mut Vec<(OsString, OsString)>, key: &str, with: impl FnOnce(&[u8]) -> Vec<u8>, alone: &OsStr) {
    match environment.iter_mut().find(|(own, _)| own == key) {
        Some((_, old)) if !old.is_empty() => *old = OsString::from_vec(with(old.as_bytes())),
        Some((_, old)) => *old = alone.into(),
        None => environment.push((key.into(), alone.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_as_a_shell_finds_them() {
        assert!(find(OsStr::new("sh")).expect("in PATH").is_absolute());
        assert_eq!(find(OsStr::new("/bin/sh")), Ok(PathBuf::from("/bin/sh")));
        assert_eq!(find(OsStr::new("no-such-program-anywhere")), Err(Errno::ENOENT));
        assert_eq!(find(OsStr::new("")), Err(Errno::ENOENT));
        assert_eq!(find(OsStr::new("/etc/passwd")), Err(Errno::EACCES));
        assert_eq!(find(OsStr::new("/etc")), Err(Errno::EACCES));
        assert_eq!(exit_code(Errno::ENOENT), 127);
        assert_eq!(exit_code(Errno::EACCES), 126);
    }
}
