//! PatternNames of finished ledgers: patterns, and files that never replace another one unasked.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use heapledger_format::session::ending;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use nix::unistd::{AccessFlags, access, getuid};

use crate::error::LaunchError;
use crate::sys::{Lock, LockKind};

/// The name of what is being written, in its workplace.
const TEMPORARY: &str = "ledger";
/// The name of a copy of a live ledger, beside it.
const COPY: &str = "copy";
/// How often a free name is looked for by counting up.
const TRIES: u32 = 100_000;
/// So much of a program's name goes into a file's, which has 255 bytes at most.
const PROGRAM_BYTES_MAX: usize = 120;

/// What a pattern can name.
pub struct PatternNames<'a> {
    /// `%n`.
    pub program: &'a OsStr,
    /// `%p`.
    pub pid: u32,
    /// `%i`, where outputs are numbered.
    pub index: Option<u32>,
}

/// Puts the names into a pattern.
///
/// # Errors
/// If a letter behind `%` means nothing.
pub fn expand(pattern: &OsStr, names: &PatternNames<'_>) -> Result<PathBuf, LaunchError> {
    let mut out = Vec::new();
    let mut bytes = pattern.as_bytes().iter();
    while let Some(byte) = bytes.next() {
        if *byte != b'%' {
            out.push(*byte);
            continue;
        }
        match bytes.next() {
            Some(b'n') => out.extend(name_for_files(names.program.as_bytes())),
            Some(b'p') => out.extend_from_slice(names.pid.to_string().as_bytes()),
            Some(b'i') if names.index.is_some() => {
                out.extend_from_slice(names.index.unwrap_or(0).to_string().as_bytes());
            }
            Some(b'h') => out.extend_from_slice(nix::unistd::gethostname().unwrap_or_default().as_bytes()),
            Some(b't') => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                out.extend_from_slice(now.as_secs().to_string().as_bytes());
            }
            Some(b'%') => out.push(b'%'),
            Some(other) => {
                let (letter, numbered) = (char::from(*other), names.index.is_some());
                return Err(LaunchError::UnknownLetter { letter, numbered });
            }
            None => return Err(LaunchError::LonePercent),
        }
    }
    Ok(PathBuf::from(OsString::from_vec(out)))
}

/// A program's name as part of a file's: it is free to call itself `a/b`, with line ends, or by a whole text.
fn name_for_files(name: &[u8]) -> impl Iterator<Item = u8> {
    // Not within a character of UTF-8.
    let is_inside = |end: usize| name.get(end).is_some_and(|byte| byte & 0xc0 == 0x80);
    let end = (0..=PROGRAM_BYTES_MAX.min(name.len())).rev().find(|end| !is_inside(*end)).unwrap_or(0);
    name.iter().take(end).map(|byte| if *byte == b'/' || byte.is_ascii_control() { b'_' } else { *byte })
}

/// Says at once that an output cannot be written, before the program has run for an hour.
pub fn check(path: &Path) -> Result<(), LaunchError> {
    if path.as_os_str().is_empty() || path.file_name().is_none() {
        return Err(LaunchError::NoName);
    }
    if path.is_dir() {
        return Err(LaunchError::IsDirectory(path.to_owned()));
    }
    if path.exists() && !path.is_file() {
        return Err(LaunchError::NoFile(path.to_owned()));
    }
    let directory = directory_of(path);
    // A directory that was removed can be written, says the kernel; but nothing can be made there.
    let gone = directory == Path::new(".")
        && std::env::current_dir().is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    if gone {
        return Err(LaunchError::NoWorkingDirectory);
    }
    access(directory, AccessFlags::W_OK | AccessFlags::X_OK)
        .map_err(|error| LaunchError::NotWritable(directory.to_owned(), error))
}

/// The same, and tries it: what is made there for a ledger is made, and removed again. Some names are too long for a file system, and in
/// some directories, as `/proc`, nobody can make a file, whatever their permissions say.
///
/// # Errors
/// If it cannot be written, as far as that is known now: a full disk may have room by then.
pub fn check_by_making(path: &Path) -> Result<(), LaunchError> {
    check(path)?;
    let Err(error) = Workplace::beside(path) else { return Ok(()) };
    match error.raw_os_error().map_or(Errno::EIO, Errno::from_raw) {
        Errno::ENOSPC | Errno::EDQUOT => Ok(()),
        Errno::ENAMETOOLONG => Err(LaunchError::NameTooLong(path.file_name().unwrap_or_default().len())),
        // What file systems of the kernel's own say.
        Errno::ENOENT | Errno::EPERM => Err(LaunchError::NoFilesIn(directory_of(path).to_owned())),
        other => Err(LaunchError::NotWritable(directory_of(path).to_owned(), other)),
    }
}

/// Whether this is a name of what a process has open, as `/dev/stdout` is, whatever that may be just now: no file can be put in its place.
pub fn is_descriptor(path: &Path) -> bool {
    const LINKS_MAX: u32 = 40; // as the kernel has it
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        let Ok(directory) = directory_of(&path).canonicalize() else { return false };
        if directory.starts_with("/proc") && directory.file_name() == Some(OsStr::new("fd")) {
            return true;
        }
        let Ok(target) = fs::read_link(&path) else { return false };
        path = directory.join(target);
    }
    false
}

/// The place, and the pattern for a file of that name in there.
pub fn below(place: &Path, pattern: &OsStr) -> (PathBuf, OsString) {
    let mut whole = without_variables(place);
    whole.push("/");
    whole.push(pattern);
    (place.to_owned(), whole)
}

/// A path as a pattern of file names, in which a percent sign is just that.
pub fn without_variables(path: &Path) -> OsString {
    let mut pattern = Vec::new();
    for byte in path.as_os_str().as_bytes() {
        pattern.extend_from_slice(if *byte == b'%' { b"%%" } else { std::slice::from_ref(byte) });
    }
    OsString::from_vec(pattern)
}

/// Where a file of this name lies.
pub fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A directory of ours to write in, which is removed in the end.
#[derive(Debug)]
pub struct Workplace {
    path: PathBuf,
    /// Tells those who find the directory that somebody is at work there.
    _lock: Option<Lock>,
}

/// A file that is not there under its own name until it is complete.
#[derive(Debug)]
pub struct Pending {
    wanted: PathBuf,
    workplace: Arc<Workplace>,
}

/// Whether a directory is a workplace, `.NAME.PID.part`, whose owner is gone. `None` if it is no workplace of ours at all, or not there.
///
/// Sure of it: its name, that it belongs to us alone, that nobody holds it, that no process has the number that its
/// name tells, and that there is nothing else in it.
pub fn abandoned(path: &Path) -> Option<bool> {
    let name = path.file_name()?.to_str()?.strip_prefix('.')?.strip_suffix(ending::PART)?;
    let owner: u32 = name.rsplit_once('.')?.1.parse().ok()?;
    let meta = fs::symlink_metadata(path).ok()?;
    if !meta.is_dir() || meta.uid() != getuid().as_raw() || meta.mode() & 0o777 != 0o700 {
        return None;
    }
    let other = |item: io::Result<fs::DirEntry>| item.map_or(true, |item| !is_of_workplace(&item.file_name()));
    if fs::read_dir(path).ok()?.any(other) {
        return None;
    }
    let free = File::open(path).is_ok_and(|place| Lock::take(place, LockKind::Exclusive).is_ok());
    let gone = owner == std::process::id() || heapledger_source::start_ticks(owner).is_none();
    Some(free && gone)
}

/// What we write in a workplace: `ledger`, what becomes of it, and the copy that a snapshot is made of.
fn is_of_workplace(name: &OsStr) -> bool {
    let bytes = name.as_bytes();
    bytes == TEMPORARY.as_bytes()
        || bytes == COPY.as_bytes()
        || bytes.starts_with(b".ledger.") && bytes.ends_with(b".tmp")
}

/// Removes a workplace, and nothing that was put there meanwhile.
pub fn remove_workplace(path: &Path) {
    // To look into a directory takes a descriptor; there may be none.
    let _ = fs::remove_file(path.join(TEMPORARY));
    for item in fs::read_dir(path).into_iter().flatten().flatten() {
        if is_of_workplace(&item.file_name()) {
            let _ = fs::remove_file(item.path());
        }
    }
    // Nothing better can be done about what cannot be removed.
    let _ = fs::remove_dir(path);
}

/// Workplaces in a directory whose owners are gone.
pub fn abandoned_in(directory: &Path) -> Vec<PathBuf> {
    let items = fs::read_dir(directory).into_iter().flatten();
    let paths = items.filter_map(|item| Some(item.ok()?.path()));
    paths.filter(|path| abandoned(path) == Some(true)).collect()
}

impl Workplace {
    /// Makes it beside the file that is wanted, or the first of several: so it is on the same file system, and whatever is
    /// left half done there can be removed as a whole.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn beside(wanted: &Path) -> io::Result<Workplace> {
        let path = Workplace::place_beside(wanted);
        let mut made = DirBuilder::new().mode(0o700).create(&path);
        // One that was killed had the number that we have now, as in containers, where numbers are small.
        if made.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::AlreadyExists)
            && abandoned(&path) == Some(true)
        {
            remove_workplace(&path);
            made = DirBuilder::new().mode(0o700).create(&path);
        }
        made?;
        let lock = File::open(&path).ok().and_then(|file| Lock::take(file, LockKind::Shared).ok());
        Ok(Workplace { path, _lock: lock })
    }

    /// Where [`Workplace::beside`] makes it.
    pub fn place_beside(wanted: &Path) -> PathBuf {
        let mut name = OsString::from(".");
        name.push(wanted.file_name().unwrap_or_default());
        name.push(format!(".{}{}", std::process::id(), ending::PART));
        wanted.with_file_name(name)
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Workplace {
    fn drop(&mut self) {
        remove_workplace(&self.path);
    }
}

impl Pending {
    /// Makes a directory beside the wanted file, to write in.
    ///
    /// # Errors
    /// If there can be none.
    pub fn new(wanted: PathBuf) -> io::Result<Pending> {
        let workplace = Arc::new(Workplace::beside(&wanted)?);
        Ok(Pending { wanted, workplace })
    }

    /// Written in a workplace that is there already, and that nothing else is written in at the same time.
    pub fn written_in(workplace: &Arc<Workplace>, wanted: PathBuf) -> Pending {
        Pending { wanted, workplace: Arc::clone(workplace) }
    }

    /// Where to write.
    pub fn temporary(&self) -> PathBuf {
        self.workplace.path.join(TEMPORARY)
    }

    /// The file to write to, for nobody else: names of functions, paths and arguments are in it, as in a ledger.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn create(&self) -> io::Result<File> {
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(self.temporary())
    }

    /// Where to copy a live ledger to, before it is packed.
    pub fn copy(&self) -> PathBuf {
        self.workplace.path.join(COPY)
    }

    /// The directory to remove if it comes to nothing.
    pub fn workplace(&self) -> &Path {
        &self.workplace.path
    }

    /// Gives the file its name, or a free one like it. Files in `fresh` were written by us just now: those are not
    /// replaced even by force. A symbolic link is replaced, not followed: whoever made it in a directory of everybody's could lead us to any
    /// file, for the kernel's care of such links is for those that are opened.
    pub fn place(self, force: bool, fresh: &mut BTreeSet<PathBuf>) -> io::Result<PathBuf> {
        let temporary = self.temporary();
        for number in 0..TRIES {
            let path = if number == 0 { self.wanted.clone() } else { with_number(&self.wanted, number) };
            let may_replace = force && !fresh.contains(&path);
            if may_replace && (path.is_file() || !path.exists()) {
                fs::rename(&temporary, &path)?;
            } else if !rename_to_free(&temporary, &path)? {
                continue;
            }
            fresh.insert(path.clone());
            return Ok(path);
        }
        Err(io::Error::new(io::ErrorKind::AlreadyExists, "no free name"))
    }

    /// Gives the file the first of these names that is free.
    pub fn place_at_first(self, names: impl IntoIterator<Item = PathBuf>) -> io::Result<PathBuf> {
        let temporary = self.temporary();
        for path in names.into_iter().take(TRIES as usize) {
            if rename_to_free(&temporary, &path)? {
                return Ok(path);
            }
        }
        Err(io::Error::new(io::ErrorKind::AlreadyExists, "no free name"))
    }

    /// The name that was asked for.
    pub fn wanted(&self) -> &Path {
        &self.wanted
    }
}

/// Writes a file that was asked for by name. A device, or a pipe that has a name, is written to; a file is replaced when
/// the new one is complete.
///
/// # Errors
/// If it cannot be written: then what was there before is there still.
pub fn replace(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), LaunchError> {
    let written = || {
        let into = |path: &Path| {
            let mut out = BufWriter::new(File::create(path)?);
            write(&mut out)?;
            out.flush()
        };
        if fs::metadata(path).is_ok_and(|meta| !meta.is_file()) {
            return into(path);
        }
        let pending = Pending::new(path.to_owned())?;
        into(&pending.temporary())?;
        pending.place(true, &mut BTreeSet::new()).map(drop)
    };
    written().map_err(|error| unwritten(path, &error))
}

/// Why a file could not be written, in a sentence.
pub fn unwritten(path: &Path, error: &io::Error) -> LaunchError {
    let reason = error.raw_os_error().map_or_else(|| error.to_string(), |code| Errno::from_raw(code).desc().to_owned());
    LaunchError::Unwritten { path: path.to_owned(), reason }
}

/// `x.1.html` for `x.html`: what opens a file goes by the end of its name.
pub fn numbered_before_ending(path: &Path, number: u32) -> PathBuf {
    let (Some(stem), Some(ending), 1..) = (path.file_stem(), path.extension(), number) else {
        return if number == 0 { path.to_owned() } else { with_number(path, number) };
    };
    path.with_file_name([stem, OsStr::new(&format!(".{number}.")), ending].join(OsStr::new("")))
}

fn with_number(path: &Path, number: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    PathBuf::from(name)
}

/// Renames unless there is a file of that name: then false.
fn rename_to_free(from: &Path, to: &Path) -> io::Result<bool> {
    match renameat2(AT_FDCWD, from, AT_FDCWD, to, RenameFlags::RENAME_NOREPLACE) {
        Ok(()) => Ok(true),
        Err(Errno::EEXIST) => Ok(false),
        // File systems that cannot promise it (NFS, old FUSE): the gap between look and rename is accepted there.
        Err(Errno::EINVAL | Errno::ENOSYS) if to.symlink_metadata().is_ok() => Ok(false),
        Err(Errno::EINVAL | Errno::ENOSYS) => fs::rename(from, to).map(|()| true),
        Err(other) => Err(other.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(pattern: &str) -> Result<String, LaunchError> {
        let names = PatternNames { program: OsStr::new("a/jq"), pid: 42, index: None };
        Ok(expand(OsStr::new(pattern), &names)?.to_string_lossy().into_owned())
    }

    #[test]
    fn patterns() {
        assert_eq!(expanded("heapledger.%n.%p.hl").expect("good"), "heapledger.a_jq.42.hl");
        assert_eq!(expanded("100%%").expect("good"), "100%");
        assert!(expanded("%t").expect("good").parse::<u64>().expect("a number") > 1_600_000_000);
        assert!(!expanded("%h").expect("good").is_empty());
        assert!(expanded("%x").is_err());
        assert!(expanded("x%").is_err());
    }

    #[test]
    fn any_program_has_a_file_name() {
        let named = |name: &str| String::from_utf8(name_for_files(name.as_bytes()).collect()).expect("UTF-8");
        assert_eq!(named("a/b\n\x1b c"), "a_b__ c");
        assert_eq!(named(&"x".repeat(300)).len(), PROGRAM_BYTES_MAX);
        assert_eq!(named(&format!("x{}", "ü".repeat(300))), format!("x{}", "ü".repeat(59)));
        assert_eq!(named("\u{fffd}"), "\u{fffd}");
        assert_eq!(named(""), "");
    }

    #[test]
    fn nothing_is_replaced_unasked() {
        let base = std::env::temp_dir().join(format!("heapledger-output-{}", std::process::id()));
        fs::create_dir_all(&base).expect("a directory");
        let wanted = base.join("x.hl");
        let mut fresh = BTreeSet::new();
        let put = |text: &str, force: bool, fresh: &mut BTreeSet<PathBuf>| {
            let pending = Pending::new(wanted.clone()).expect("a directory");
            fs::write(pending.temporary(), text).expect("written");
            pending.place(force, fresh).expect("placed")
        };
        assert_eq!(put("0", false, &mut fresh), wanted);
        assert_eq!(put("1", false, &mut fresh), base.join("x.hl.1"));
        assert_eq!(put("2", true, &mut fresh), base.join("x.hl.2"), "our own files stay even by force");
        assert_eq!(put("3", true, &mut BTreeSet::new()), wanted);
        assert_eq!(fs::read_to_string(&wanted).expect("read"), "3");
        assert_eq!(fs::read_dir(&base).expect("list").count(), 3, "no temporary file is left");
        fs::remove_dir_all(&base).expect("removed");
    }

    #[test]
    fn numbered_names_go_on_where_they_end() {
        let base = std::env::temp_dir().join(format!("heapledger-numbered-{}", std::process::id()));
        fs::create_dir_all(&base).expect("a directory");
        let name = |index| {
            let names = PatternNames { program: OsStr::new("jq"), pid: 42, index: Some(index) };
            base.join(expand(OsStr::new("%n.%i"), &names).expect("good"))
        };
        for wanted in ["jq.0", "jq.1", "jq.2"] {
            let pending = Pending::new(name(0)).expect("a directory");
            fs::write(pending.temporary(), wanted).expect("written");
            assert_eq!(pending.place_at_first((0..).map(name)).expect("placed"), base.join(wanted));
        }
        assert_eq!(fs::read_to_string(name(0)).expect("read"), "jq.0");
        fs::remove_dir_all(&base).expect("removed");
    }

    #[test]
    fn numbers_before_the_ending() {
        let named = |path: &str, number| numbered_before_ending(Path::new(path), number).to_string_lossy().into_owned();
        assert_eq!(named("a/heapledger.jq.42.html", 0), "a/heapledger.jq.42.html");
        assert_eq!(named("a/heapledger.jq.42.html", 3), "a/heapledger.jq.42.3.html");
        assert_eq!(named("a.b/x", 2), "a.b/x.2");
    }

    #[test]
    fn an_output_that_cannot_be_written_is_refused_early() {
        assert!(check(Path::new("/no/such/directory/x.hl")).is_err());
        assert!(check(Path::new("/tmp")).is_err());
        assert!(check(Path::new("")).is_err());
        assert!(check(Path::new("x.hl")).is_ok());
        let base = std::env::temp_dir().join(format!("heapledger-tried-{}", std::process::id()));
        fs::create_dir_all(&base).expect("a directory");
        assert!(check_by_making(&base.join("x.hl")).is_ok());
        let long = base.join("x".repeat(300));
        assert!(matches!(check_by_making(&long), Err(LaunchError::NameTooLong(300))));
        assert_eq!(fs::read_dir(&base).expect("list").count(), 0, "nothing stays");
        fs::remove_dir_all(&base).expect("removed");
        assert!(check_by_making(Path::new("/proc/x.hl")).is_err());
    }

    #[test]
    fn what_is_open_is_no_place_for_a_file() {
        for path in ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/0"] {
            assert!(is_descriptor(Path::new(path)), "{path}");
        }
        for path in ["x.hl", "/dev/null", "/proc/x.hl", "/no/such/directory/x.hl", "/tmp", ""] {
            assert!(!is_descriptor(Path::new(path)), "{path}");
        }
    }
}
