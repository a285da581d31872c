//! The preload library: it travels inside this program, and lies beside it where a package has put it; else it is written to a file where
//! the loader can find it.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, OpenOptions};
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::getuid;

use crate::error::LaunchError;

/// Built by `build.rs`. Empty on platforms without a recorder.
static LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/preload.so"));
/// What is preloaded behind it where calls are judged.
static CALLS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/calls.so"));
/// The same as the first, to be linked with by `--wrap`.
static ARCHIVE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/linked.a"));
/// What the archive wraps.
static WRAPPED: &str = include_str!(concat!(env!("OUT_DIR"), "/wrapped.txt"));
/// Metadata before blocks, for C.
static METADATA: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/metadata.a"));
/// Names another library, for those who work on it.
const OVERRIDE: &str = "HEAPLEDGER_PRELOAD";
/// The file of the one that judges calls, as cargo builds it.
const CALLS_NAME: &str = "libheapledger_calls.so";
/// Others may read it (the program may run as somebody else in the end), nobody but us may change it.
const MODE: u32 = 0o755;

/// The path of a library that can be preloaded: the one asked for, or ours, written out if it is not there yet.
pub fn library(chosen: Option<&Path>) -> Result<PathBuf, LaunchError> {
    if let Some(path) = chosen.map(Path::to_owned).or_else(named_in_environment) {
        let whole = path.canonicalize().map_err(|reason| LaunchError::Library { path, reason })?;
        return if loadable_name(&whole) { Ok(whole) } else { Err(LaunchError::LibraryPath(whole)) };
    }
    written(&PRELOAD)
}

/// The path of the library that judges calls, which is preloaded behind that one: of one that was chosen, what lies beside it, if it does.
pub fn calls(chosen: Option<&Path>) -> Result<PathBuf, LaunchError> {
    let chosen = chosen.map(Path::to_owned).or_else(named_in_environment);
    let beside = chosen.and_then(|path| Some(path.canonicalize().ok()?.with_file_name(CALLS_NAME)));
    beside.filter(|path| path.exists()).map_or_else(|| written(&JUDGE), Ok)
}

/// The path of a script for a debugger, of which `name` is the name without its end `.gdb`, and `text` what it holds.
pub fn script(name: &'static str, text: &'static str) -> Result<PathBuf, LaunchError> {
    written(&Inside { name, end: ".gdb", package: "share/heapledger", bytes: text.as_bytes(), hash: None })
}

/// A file that travels inside.
struct Inside {
    /// How its name begins.
    name: &'static str,
    /// How it ends.
    end: &'static str,
    /// The directory in which a package has it, seen from the one above the command's.
    package: &'static str,
    bytes: &'static [u8],
    /// Of large ones a hash of the bytes, in hexadecimal digits.
    hash: Option<&'static str>,
}

/// A library: a package has it by the same name as we give it.
const fn inside(name: &'static str, bytes: &'static [u8], hash: Option<&'static str>) -> Inside {
    Inside { name, end: ".so", package: "lib/heapledger", bytes, hash }
}

const PRELOAD: Inside = inside("libheapledger", LIBRARY, Some(env!("PRELOAD_HASH")));
const JUDGE: Inside = inside("libheapledger-calls", CALLS, Some(env!("CALLS_HASH")));

/// Its path, where it is written out if it is not there yet.
fn written(library: &Inside) -> Result<PathBuf, LaunchError> {
    if library.bytes.is_empty() {
        return Err(LaunchError::NoLibrary);
    }
    if let Some(path) = env::current_exe().ok().and_then(|command| packaged(&command, library)) {
        return Ok(path);
    }
    let mut last = LaunchError::Unfit("found no directory for the preload library: no directory to try");
    for directory in by_reach(directories()) {
        match place(&directory, library) {
            Ok(path) => return Ok(path),
            Err(why) => last = LaunchError::NoPlaceForLibrary { directory, why: Box::new(why) },
        }
    }
    Err(last)
}

/// What programs are linked with: what is preloaded, and archives.
pub struct Linked {
    /// The shared library.
    pub library: &'static [u8],
    /// The archive, for `--wrap`.
    pub archive: &'static [u8],
    /// The functions that are to be wrapped then, a line for each.
    pub wrapped: &'static str,
    /// The archive for compressed backtraces before blocks.
    pub metadata: &'static [u8],
}

/// All of them.
pub fn linked() -> Result<Linked, LaunchError> {
    let linked = Linked { library: LIBRARY, archive: ARCHIVE, wrapped: WRAPPED, metadata: METADATA };
    if LIBRARY.is_empty() { Err(LaunchError::NoLibrary) } else { Ok(linked) }
}

fn named_in_environment() -> Option<PathBuf> {
    env::var_os(OVERRIDE).map(Into::into)
}

/// Whether somebody wants a library of their own.
pub fn is_chosen(chosen: Option<&Path>) -> bool {
    chosen.is_some() || named_in_environment().is_some()
}

/// Where it may go, best first. What is in memory comes last: it would be written anew after each start.
fn directories() -> Vec<PathBuf> {
    let user = getuid();
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")));
    let own = format!("heapledger-{user}-lib");
    let temporary = absolute("TMPDIR").unwrap_or_else(|| "/tmp".into());
    let mut all: Vec<PathBuf> = cache.map(|cache| cache.join("heapledger")).into_iter().collect();
    if user.is_root() {
        all.push("/var/cache/heapledger".into());
    }
    all.extend([temporary, "/tmp".into(), "/var/tmp".into(), "/dev/shm".into()].map(|base: PathBuf| base.join(&own)));
    all
}

/// The same; but root's programs may become somebody else's (`setpriv`, `su`, an entry point of a container), and those need
/// the library too: places that anybody can get to come first.
fn by_reach(mut all: Vec<PathBuf>) -> Vec<PathBuf> {
    if getuid().is_root() {
        // Stable: the order stays within both kinds.
        all.sort_by_cached_key(|directory| !is_for_everybody(directory));
    }
    all
}

/// Whether everybody may go where this directory is, or would be.
fn is_for_everybody(directory: &Path) -> bool {
    const MAY_PASS: u32 = 0o001;
    let above = directory.ancestors().skip(1).find_map(|above| above.canonicalize().ok());
    above.is_some_and(|there| {
        let passes = |place: &Path| fs::metadata(place).is_ok_and(|meta| meta.mode() & MAY_PASS != 0);
        there.ancestors().all(passes)
    })
}

/// A name by content: different builds stand side by side, and an old one is never overwritten while in use.
fn name(library: &Inside) -> String {
    let hash = library.hash.map_or_else(
        || {
            let mut hasher = DefaultHasher::new();
            hasher.write(library.bytes);
            format!("{:016x}", hasher.finish())
        },
        str::to_owned,
    );
    format!("{}-{hash}{}", library.name, library.end)
}

/// Where a package has put it: `/usr/bin/heapledger` has its libraries in `/usr/lib/heapledger`. Nothing need be written then, and whoever
/// the program becomes can read it. It must be byte for byte what travels inside, and nobody's to change who could not change the command.
fn packaged(command: &Path, file: &Inside) -> Option<PathBuf> {
    let prefix = command.canonicalize().ok()?.parent()?.parent()?.to_owned();
    let directory = prefix.join(file.package).canonicalize().ok()?;
    let owner = fs::metadata(command).ok()?.uid();
    let path = directory.join(name(file));
    let meta = fs::metadata(&directory).ok()?;
    let is_safe = |meta: &fs::Metadata| [0, owner].contains(&meta.uid()) && meta.mode() & 0o022 == 0;
    (loadable_name(&path) && is_safe(&meta) && holds(&path, file.bytes, is_safe)).then_some(path)
}

/// The loader splits `LD_PRELOAD` at spaces and colons.
fn loadable_name(path: &Path) -> bool {
    !path.as_os_str().as_bytes().iter().any(|byte| matches!(byte, b' ' | b':' | b'$'))
}

fn place(directory: &Path, library: &Inside) -> Result<PathBuf, LaunchError> {
    unless(loadable_name(directory), "the loader cannot preload from a path with a space or a colon")?;
    if let Some(parent) = directory.parent() {
        fs::create_dir_all(parent).map_err(LaunchError::System)?;
    }
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(LaunchError::System(error)),
        _ => {}
    }
    check_directory(directory)?;
    if getuid().is_root() {
        // If that is refused, only what becomes somebody else goes without.
        let _ = fs::set_permissions(directory, fs::Permissions::from_mode(0o755));
    }
    let (path, bytes) = (directory.join(name(library)), library.bytes);
    if is_ours(&path, bytes) {
        return Ok(path);
    }
    let temporary = directory.join(format!(".{}.{}", name(library), std::process::id()));
    let written = write(&temporary, bytes).and_then(|()| fs::rename(&temporary, &path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written.map_err(LaunchError::System)?;
    unless(is_ours(&path, bytes), "what was written does not read back")?;
    Ok(path)
}

/// What is not so is a reason not to use a directory.
fn unless(so: bool, why: &'static str) -> Result<(), LaunchError> {
    if so { Ok(()) } else { Err(LaunchError::Unfit(why)) }
}

/// Only we can put files there, and code can be mapped from there.
fn check_directory(directory: &Path) -> Result<(), LaunchError> {
    let meta = fs::symlink_metadata(directory).map_err(LaunchError::System)?;
    unless(meta.is_dir(), "not a directory")?;
    unless(meta.uid() == getuid().as_raw(), "it belongs to somebody else")?;
    unless(meta.mode() & 0o022 == 0, "others may write there")?;
    let flags = statvfs(directory).map_err(|reason| LaunchError::System(reason.into()))?.flags();
    unless(!flags.contains(FsFlags::ST_NOEXEC), "it is mounted noexec")?;
    // Whoever can rename a directory above can replace everything below. In a sticky one like /tmp nobody can.
    for above in directory.canonicalize().map_err(LaunchError::System)?.ancestors().skip(1) {
        let mode = fs::metadata(above).map_err(LaunchError::System)?.mode();
        if mode & 0o002 != 0 && mode & 0o1000 == 0 {
            return Err(LaunchError::Renamable(above.to_owned()));
        }
    }
    Ok(())
}

/// Whether the file is our library: owner, permissions and every byte.
fn is_ours(path: &Path, library: &[u8]) -> bool {
    holds(path, library, |meta| meta.uid() == getuid().as_raw() && meta.mode() & 0o022 == 0)
}

/// Whether it is a file that is fit, and holds these bytes.
fn holds(path: &Path, library: &[u8], is_fit: impl Fn(&fs::Metadata) -> bool) -> bool {
    let Ok(mut file) = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)
    else {
        return false;
    };
    let Ok(meta) = file.metadata() else { return false };
    meta.is_file() && is_fit(&meta) && meta.len() == library.len() as u64 && reads(&mut file, library)
}

/// Whether just these bytes are read, a piece at a time: room for all of them would take longer than to read them.
fn reads(from: &mut impl Read, bytes: &[u8]) -> bool {
    let mut piece = vec![0; 64 << 10];
    let mut left = bytes;
    loop {
        match from.read(&mut piece) {
            Ok(0) => return left.is_empty(),
            Ok(count) => match piece.get(..count).and_then(|read| left.strip_prefix(read)) {
                Some(rest) => left = rest,
                None => return false,
            },
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
}

fn write(path: &Path, library: &[u8]) -> io::Result<()> {
    let _ = fs::remove_file(path);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(MODE).open(path)?;
    file.write_all(library)?;
    file.set_permissions(fs::Permissions::from_mode(MODE))?;
    Ok(())
}

/// The name of the program for a person: without its directories.
pub fn short_name(program: &OsStr) -> &OsStr {
    Path::new(program).file_name().unwrap_or(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_others_can_write_is_refused() {
        let base = env::temp_dir().join(format!("heapledger-locate-{}", std::process::id()));
        fs::create_dir_all(&base).expect("a directory");
        let set = |mode| fs::set_permissions(&base, fs::Permissions::from_mode(mode)).expect("chmod");
        set(0o777);
        assert!(check_directory(&base).is_err());
        set(0o700);
        assert!(check_directory(&base).is_ok());
        assert!(check_directory(&base.join("missing")).is_err());
        fs::remove_dir_all(&base).expect("removed");
    }

    #[test]
    fn paths_that_the_loader_would_split_are_refused() {
        assert!(!loadable_name(Path::new("/home/a b/lib.so")));
        assert!(!loadable_name(Path::new("/home/a:b/lib.so")));
        assert!(loadable_name(Path::new("/home/ä-b/lib.so")));
    }

    #[test]
    fn the_library_is_written_once_and_restored_when_changed() {
        if LIBRARY.is_empty() {
            return;
        }
        let base = env::temp_dir().join(format!("heapledger-place-{}", std::process::id()));
        let place = |base: &Path| place(base, &PRELOAD);
        let path = place(&base).expect("placed");
        let first = fs::metadata(&path).expect("there").ino();
        assert_eq!(place(&base).expect("again"), path);
        assert_eq!(fs::metadata(&path).expect("there").ino(), first, "not written again");
        fs::write(&path, b"something else").expect("changed");
        assert_eq!(place(&base).expect("again"), path);
        assert_eq!(fs::read(&path).expect("read"), LIBRARY);
        fs::remove_dir_all(&base).expect("removed");
    }

    /// As a package lays it out; what is not the same library, or others could change, is not taken.
    #[test]
    fn a_packages_library_is_taken_if_it_is_ours() {
        let base = env::temp_dir().join(format!("heapledger-packaged-{}", std::process::id()));
        let library = inside("libheapledger", b"a library", None);
        let (bin, lib) = (base.join("bin"), base.join("lib/heapledger"));
        for directory in [&bin, &lib] {
            fs::create_dir_all(directory).expect("a directory");
            fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).expect("chmod");
        }
        let (command, path) = (bin.join("heapledger"), lib.join(name(&library)));
        fs::write(&command, b"a command").expect("a command");
        assert_eq!(packaged(&command, &library), None, "there is none yet");
        write(&path, library.bytes).expect("a library");
        let taken = Some(path.canonicalize().expect("a path"));
        assert_eq!(packaged(&command, &library), taken);
        for place in [&path, &lib] {
            fs::set_permissions(place, fs::Permissions::from_mode(0o777)).expect("chmod");
            assert_eq!(packaged(&command, &library), None, "others can change {}", place.display());
            fs::set_permissions(place, fs::Permissions::from_mode(0o755)).expect("chmod");
        }
        assert_eq!(packaged(&command, &library), taken);
        fs::write(&path, b"a lobrary").expect("changed");
        assert_eq!(packaged(&command, &library), None, "it is another one");
        fs::remove_dir_all(&base).expect("removed");
    }
}
