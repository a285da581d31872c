//! Whether a program can be tracked at all, found out before it is started.
//!
//! Only files are read; nothing is run. What cannot be found out counts as trackable: the loader has the last word.

use std::ffi::{CString, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::{getegid, getgid, getuid};

use self::elf::Executable;
pub use self::verdict::{Verdict, Why};

mod elf;
mod needed;
mod sanitizer;
mod script;
mod verdict;

/// How far `#!` is followed; the kernel stops at 4 as well.
const INTERPRETERS_MAX: usize = 4;
/// The file attribute that holds capabilities.
const CAPABILITIES: &std::ffi::CStr = c"security.capability";

/// What is known of the program at `path` that will get `arguments` (its own name first).
pub fn examine(path: &Path, arguments: &[OsString], search: &dyn Fn(&std::ffi::OsStr) -> Option<PathBuf>) -> Verdict {
    let mut path = path.to_owned();
    let mut arguments = arguments.to_vec();
    for _ in 0..INTERPRETERS_MAX {
        match script::step(&path, &arguments, search) {
            Some((interpreter, its_arguments)) => (path, arguments) = (interpreter, its_arguments),
            None => break,
        }
    }
    let why = blocked(&path);
    Verdict { path, why }
}

/// Why the library cannot see the allocations of a program that runs, whose file this is.
pub fn of_running(path: &Path) -> Option<Why> {
    let file = File::open(path).ok()?;
    let mut start = [0; 20];
    (&file).read_exact(&mut start).ok()?;
    foreign(&start).or_else(|| by_image(path, &elf::read(file)?))
}

/// Opens what may be a program. Whoever opens a pipe that has a name waits until somebody writes to it.
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    if fs::metadata(path)?.is_file() { File::open(path) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

/// Why the library cannot see the allocations of this file's program.
fn blocked(path: &Path) -> Option<Why> {
    let file = open_regular(path).ok()?;
    let mut start = [0; 20];
    (&file).read_exact(&mut start).ok()?;
    if !start.starts_with(b"\x7fELF") {
        return None;
    }
    if let Some(why) = foreign(&start) {
        return Some(why);
    }
    if let Some(why) = privileged(path) {
        return Some(why);
    }
    let image = elf::read(file)?;
    by_image(path, &image)
}

/// A program for another kind of processor than this library.
fn foreign(start: &[u8; 20]) -> Option<Why> {
    const CLASS_64: u8 = 2;
    const LITTLE: u8 = 1;
    let [_, _, _, _, class, order, .., low, high] = *start;
    let machine = if order == LITTLE { u16::from_le_bytes([low, high]) } else { u16::from_be_bytes([low, high]) };
    let own = (class, order, machine) == (CLASS_64, LITTLE, object::elf::EM_X86_64.0);
    (!own).then_some(Why::Foreign { bits: if class == CLASS_64 { 64 } else { 32 }, machine })
}

/// Secure execution: the loader ignores `LD_PRELOAD` for a program that gains rights by being executed.
fn privileged(path: &Path) -> Option<Why> {
    const SET_UID: u32 = 0o4000;
    const SET_GID_AND_EXECUTABLE: u32 = 0o2010;
    let meta = fs::metadata(path).ok()?;
    let no_gain = statvfs(path).is_ok_and(|fs| fs.flags().contains(FsFlags::ST_NOSUID));
    if no_gain || no_new_privileges() {
        return None;
    }
    if meta.mode() & SET_UID != 0 && meta.uid() != getuid().as_raw() {
        return Some(Why::SetUid);
    }
    let own_group = [getgid(), getegid()].iter().any(|group| group.as_raw() == meta.gid());
    if meta.mode() & SET_GID_AND_EXECUTABLE == SET_GID_AND_EXECUTABLE && !own_group {
        return Some(Why::SetGid);
    }
    let name = CString::new(path.as_os_str().as_bytes()).ok()?;
    // Root gains nothing by capabilities, so its programs are not executed securely.
    (!getuid().is_root() && crate::sys::has_attribute(&name, CAPABILITIES)).then_some(Why::Capabilities)
}

fn no_new_privileges() -> bool {
    nix::sys::prctl::get_no_new_privs().unwrap_or(false)
}

fn by_image(path: &Path, image: &Executable) -> Option<Why> {
    /// The first release of which every promise of the recorder was checked.
    const OLDEST_GLIBC: (u32, u32) = (2, 35);
    let Some(interpreter) = &image.interpreter else {
        // The loader itself, called by hand with a program as its argument, has no interpreter either.
        let why = if image.records { Why::RecordsItself } else { Why::Static };
        return (!image.is_loader).then_some(why);
    };
    let name = interpreter.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if name.starts_with("ld-musl") {
        return Some(Why::Musl);
    }
    if let Some(version) = elf::glibc_of(interpreter)
        && version < OLDEST_GLIBC
    {
        return Some(Why::OldGlibc(version));
    }
    if let Some(name) = image.sanitizer.or_else(|| sanitizer::needed_by(path)) {
        return Some(Why::Sanitizer(name));
    }
    if image.exports_malloc {
        return Some(Why::OwnAllocator);
    }
    image.built_in_allocator.clone().map(Why::BuiltInAllocator)
}

#[cfg(test)]
mod tests;
