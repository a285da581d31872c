//! Where unfinished ledgers lie, and whether their process is alive.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use heapledger_format::session::{BASES, Base, DIRECTORY, Key, VARIABLE, ending};
use nix::errno::Errno;
use nix::unistd::{AccessFlags, access, getuid};

use crate::error::LaunchError;
use crate::options::Settings;
use crate::roomy;
use crate::sys;

/// How often a directory is made that somebody removes at the same moment.
const TRIES: usize = 100;

/// An unfinished ledger, by its name: `SESSION-IMAGE.hlive`, of a child process `SESSION-IMAGE-PID.hlive`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Live {
    /// Which run it belongs to.
    pub session: String,
    /// Which program of the process: each exec begins the next.
    pub image: u32,
    /// The number of its process as that knows itself, if it is not the one that was started.
    pub pid: Option<u32>,
    /// The file.
    pub path: PathBuf,
}

impl Live {
    /// Its name, of so many programs of this run.
    pub fn name(session: &str, image: u32, pid: Option<u32>) -> String {
        let pid = pid.map_or_else(String::new, |pid| format!("-{pid}"));
        format!("{session}-{image}{pid}{}", ending::LIVE)
    }

    /// Takes the name apart. `None` if it is not the name of a ledger.
    pub fn from_path(path: &Path) -> Option<Live> {
        let mut parts = path.file_name()?.to_str()?.strip_suffix(ending::LIVE)?.split('-');
        let (session, image, pid) = (parts.next()?, parts.next()?.parse().ok()?, parts.next());
        let pid = pid.map(str::parse).transpose().ok()?;
        parts.next().is_none().then(|| Live { session: session.to_owned(), image, pid, path: path.to_owned() })
    }
}

/// Where ledgers of this user are looked for: in the directory that the environment names as `run` and the library
/// read it, or in all the default places.
pub fn places() -> Vec<PathBuf> {
    let mut settings = Settings::default();
    // What else is wrong in it is for `run` to say.
    settings.add_environment(&env::var_os(VARIABLE).unwrap_or_default());
    settings.get(Key::Dir).map_or_else(bases, |chosen| vec![chosen.into()])
}

/// All directories that may hold the ledger directory of a user, best first.
fn bases() -> Vec<PathBuf> {
    let from = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let place = |base| match base {
        Base::Path(path) => Some(OsStr::from_bytes(path.to_bytes()).into()),
        Base::Variable(name) => from(name),
    };
    BASES.into_iter().filter_map(place).collect()
}

/// Where a finished ledger may go if the working directory cannot be written, best first: files first, memory last.
pub fn lasting() -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> =
        env::var_os("TMPDIR").map(PathBuf::from).filter(|path| path.is_absolute()).into_iter().collect();
    all.extend(["/tmp", "/var/tmp"].map(PathBuf::from));
    all.extend(bases());
    all
}

/// The ledger directory inside a base: one for each user.
pub fn directory_in(base: &Path) -> PathBuf {
    base.join(format!("{DIRECTORY}{}", getuid()))
}

/// The ledger directories inside a base: this user's, and those of others that we may look into, each its owner's alone.
pub fn directories_in(base: &Path) -> Vec<PathBuf> {
    let own = directory_in(base);
    let mut all = vec![own.clone()];
    for item in fs::read_dir(base).into_iter().flatten().flatten() {
        let path = item.path();
        let name = item.file_name();
        let user = name.to_str().and_then(|name| name.strip_prefix(DIRECTORY)?.parse::<u32>().ok());
        let is_theirs = |user| {
            fs::symlink_metadata(&path).is_ok_and(|meta| {
                // Ours under another number: in a user namespace we are called differently.
                let owner_is_right = meta.uid() == user || meta.uid() == getuid().as_raw();
                meta.is_dir() && owner_is_right && meta.mode() & 0o077 == 0
            })
        };
        if path != own && user.is_some_and(is_theirs) {
            all.push(path);
        }
    }
    all
}

/// The ledgers of one run, those of a directory in the order in which its programs were. What a process of ours has become
/// by giving up its rights lies in another user's directory, which counts from 0 again. Only `wanted` ones: there may be thousands.
pub fn of_session(base: &Path, session: &str, wanted: impl Fn(&Live) -> bool) -> Vec<Live> {
    let mut all = Vec::new();
    for directory in directories_in(base) {
        // Of other runs only the names are looked at.
        let is_ours = |name: &OsStr| name.as_bytes().starts_with(session.as_bytes());
        let there = list_named(&directory, is_ours).unwrap_or_default().into_iter();
        all.extend(there.filter(|live| live.session == session && wanted(live) && is_file(live)));
    }
    all
}

/// No link, no pipe: another user can put anything there.
pub fn is_file(live: &Live) -> bool {
    fs::symlink_metadata(&live.path).is_ok_and(|meta| meta.is_file())
}

/// Chooses the base, with room for a ledger of so many bytes, and makes the ledger directory in it.
///
/// # Errors
/// If there is no place for it; for a chosen one, why.
pub fn prepare(chosen: Option<&OsStr>, max_ledger: Option<u64>) -> Result<PathBuf, LaunchError> {
    if let Some(base) = chosen.map(Path::new) {
        make(&directory_in(base))
            .map_err(|why| LaunchError::NoLedgerIn { base: base.to_owned(), why: Box::new(why) })?;
        return Ok(base.to_owned());
    }
    let usable = |base: &PathBuf| {
        base.is_dir()
            && access(base, AccessFlags::W_OK | AccessFlags::X_OK).is_ok()
            && make(&directory_in(base)).is_ok()
    };
    // Root's programs may become somebody else's, who makes a directory of their own beside ours.
    let for_all =
        |base: &PathBuf| !getuid().is_root() || fs::metadata(base).is_ok_and(|meta| meta.mode() & 0o003 == 0o003);
    roomy::choose(bases().into_iter().filter(|base| for_all(base) && usable(base)), max_ledger)
        .or_else(|| roomy::choose(bases().into_iter().filter(usable), max_ledger))
        .ok_or(LaunchError::NoPlace)
}

/// A directory that is ours alone.
pub fn make(directory: &Path) -> Result<(), LaunchError> {
    let look = || {
        match DirBuilder::new().mode(0o700).create(directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(LaunchError::NotMade(Errno::from_raw(error.raw_os_error().unwrap_or(0))));
            }
            _ => {}
        }
        fs::symlink_metadata(directory).map_err(LaunchError::System)
    };
    let mut found = look();
    for _ in 1..TRIES {
        // Somebody has removed it because it was empty.
        match &found {
            Err(LaunchError::System(error)) if error.kind() == io::ErrorKind::NotFound => found = look(),
            _ => break,
        }
    }
    let meta = found?;
    let ours = meta.is_dir() && meta.uid() == getuid().as_raw() && meta.mode() & 0o077 == 0;
    if ours { Ok(()) } else { Err(LaunchError::NotOursAlone(directory.to_owned())) }
}

/// The unfinished ledgers in a directory, in the order of their making.
pub fn list(directory: &Path) -> io::Result<Vec<Live>> {
    list_named(directory, |_| true)
}

fn list_named(directory: &Path, is_wanted: impl Fn(&OsStr) -> bool) -> io::Result<Vec<Live>> {
    let mut all = Vec::new();
    for item in fs::read_dir(directory)? {
        let item = item?;
        if is_wanted(&item.file_name()) {
            all.extend(Live::from_path(&item.path()));
        }
    }
    all.sort();
    Ok(all)
}

/// Holds a ledger against another `heapledger` that would finish it at the same time.
/// As long as the file is open.
pub fn hold(file: &File, path: &Path) -> Result<(), LaunchError> {
    sys::lock(file, sys::LockKind::Exclusive).map_err(|problem| match problem {
        Errno::EWOULDBLOCK => LaunchError::BeingFinished(path.to_owned()),
        other => LaunchError::NotLocked(path.to_owned(), other),
    })
}

/// Whether a process maps this file, which holds nothing yet that could tell whose it is. Told by the file itself, so it also holds for a process in a container, which
/// goes by another number there than here.
pub fn is_mapped(path: &Path) -> bool {
    let (Ok(meta), Some(name)) = (fs::metadata(path), path.file_name().and_then(OsStr::to_str)) else { return false };
    let inode = meta.ino().to_string();
    let maps = |item: io::Result<fs::DirEntry>| fs::read(item.ok()?.path().join("maps")).ok();
    fs::read_dir("/proc").is_ok_and(|processes| {
        processes.filter_map(maps).any(|maps| {
            let maps = String::from_utf8_lossy(&maps);
            let mut lines = maps.lines().filter(|line| line.trim_end_matches(" (deleted)").ends_with(name));
            lines.any(|line| line.split_ascii_whitespace().nth(4) == Some(inode.as_str()))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart() {
        let live = Live::from_path(Path::new("/x/0123456789abcdef-12.hlive")).expect("a ledger");
        assert_eq!((live.session.as_str(), live.image), ("0123456789abcdef", 12));
        assert_eq!(live.pid, None);
        let child = Live::from_path(Path::new("/x/0123456789abcdef-3-4711.hlive")).expect("a ledger");
        assert_eq!((child.image, child.pid), (3, Some(4711)));
        assert_eq!(Live::name(&child.session, 3, child.pid), "0123456789abcdef-3-4711.hlive");
        for other in
            ["/x/0123.children", "/x/a.hlive", "/x/a-b.hlive", "/x/a-1.hl", "/x/a-1-b.hlive", "/x/a-1-2-3.hlive"]
        {
            assert_eq!(Live::from_path(Path::new(other)), None, "{other}");
        }
    }

    #[test]
    fn a_directory_that_is_not_ours_alone_is_refused() {
        let base = env::temp_dir().join(format!("heapledger-live-{}", std::process::id()));
        fs::create_dir_all(&base).expect("a directory");
        assert_eq!(prepare(Some(base.as_os_str()), None).expect("made"), base);
        let own = directory_in(&base);
        fs::set_permissions(&own, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("chmod");
        assert!(prepare(Some(base.as_os_str()), None).is_err());
        fs::remove_dir_all(&base).expect("removed");
        assert!(prepare(Some(base.as_os_str()), None).is_err());
    }
}
