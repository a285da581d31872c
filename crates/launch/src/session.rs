//! What lies beside the ledgers of a run: a sign that its `run` lives, notes of the recorder, and where a finished ledger
//! is being written. And what is left of them when nobody needs them any more.
//!
//! Names in the directory of ledgers: `SESSION.run`, `SESSION.children`, `SESSION.unrecorded`, `SESSION-IMAGE.part`, `SESSION.part`,
//! both with `-PID` where another one lies there.

use std::collections::{BTreeSet, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use heapledger_format::session::ending;
use heapledger_source::{process_seen, processes};
use nix::errno::Errno;
use nix::unistd::getuid;

use crate::live::{self, Live};
use crate::output;
use crate::sys::{Lock, LockKind};

/// How often a sign is put up that somebody takes down at the same moment.
const TRIES: usize = 100;
/// Names that may lie beside ledgers, by how they end.
const BESIDE: [&str; 6] = [ending::RUN, ending::CHILDREN, ending::UNRECORDED, ending::FULL, ending::FAMILY, TAKEN];
/// Behind the name of a ledger: an empty file that is about to have that name ([`crate::finish::leave_empty`]).
pub(crate) const TAKEN: &str = ".taken";

/// The sign that `run` lives: a locked file, which the system unlocks however we end.
pub struct Sign {
    path: PathBuf,
    _lock: Option<Lock>,
}

impl Sign {
    /// Puts it up, before the program is started. Without one, because nothing can be written there, everything is as
    /// it would be otherwise, but that `recover` may come first when the program has ended.
    pub fn put_up(directory: &Path, session: &str) -> Option<Sign> {
        let path = beside(directory, session, ending::RUN);
        for _ in 0..TRIES {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
            let file = match options.open(&path) {
                Ok(file) => file,
                // Somebody has removed the directory because it was empty.
                Err(error) if error.kind() == io::ErrorKind::NotFound && live::make(directory).is_ok() => continue,
                Err(_) => return None,
            };
            let pid = std::process::id();
            // For file systems without locks: so it is known by number and start.
            let text = format!("{pid} {}\n", heapledger_source::start_ticks(pid).unwrap_or(0));
            let mut out = &file;
            let _ = out.write_all(text.as_bytes());
            let lock = Lock::take(file, LockKind::Exclusive);
            // Taken down between making and locking, by a `recover` that thought it was left over.
            if lock.as_ref().is_ok_and(|lock| !is_at(lock.file(), &path)) {
                continue;
            }
            return Some(Sign { path, _lock: lock.ok() });
        }
        None
    }
}

impl Sign {
    /// Takes it down.
    pub fn take_down(&self) {
        let _ = fs::remove_file(&self.path);
    }
}

impl Drop for Sign {
    fn drop(&mut self) {
        self.take_down();
    }
}

/// The process id of the `run` of a session, if it lives.
pub fn run_of(directory: &Path, session: &str) -> Option<u32> {
    let mut file = File::open(beside(directory, session, ending::RUN)).ok()?;
    let mut text = String::new();
    (&mut file).take(64).read_to_string(&mut text).ok()?;
    let _ = file.seek(SeekFrom::Start(0));
    let mut numbers = text.split_ascii_whitespace().map(str::parse::<u64>);
    let pid = numbers.next().and_then(|pid| u32::try_from(pid.ok()?).ok()).unwrap_or(0);
    let started = numbers.next().and_then(Result::ok);
    // Shared: two that look at the same time do not take each other for it.
    match Lock::take(file, LockKind::Shared) {
        Ok(_) => None,
        Err(Errno::EWOULDBLOCK) => Some(pid),
        Err(_) => Some(pid).filter(|pid| started.is_some() && heapledger_source::start_ticks(*pid) == started),
    }
}

/// Whether a process is there, other than this one, that belongs to a session by its environment, or by the ledger that it maps: it may have
/// recorded nothing yet. A server writes a title for `ps` over its environment, too; what it was forked from mapped a ledger.
pub fn anyone(session: &str) -> bool {
    !processes_of(session, 1).is_empty()
}

/// Such processes, up to so many.
///
/// One that is gone when it is looked at may have forked before that, when the list of processes was read already: the list is read again
/// until there is nobody new in it.
pub fn processes_of(session: &str, most: usize) -> Vec<u32> {
    /// So often, where processes come and go all the time.
    const LISTS_MAX: usize = 64;
    let (own, named, mapped) = (std::process::id(), format!("session={session}"), format!("/{session}-"));
    let says = |pid, file, mark: &str| {
        fs::read(format!("/proc/{pid}/{file}")).is_ok_and(|text| contains(&text, mark.as_bytes()))
    };
    let (mut looked_at, mut found) = (HashSet::from([own]), Vec::new());
    for _ in 0..LISTS_MAX {
        let new: Vec<u32> = processes().filter(|pid| looked_at.insert(*pid)).collect();
        if new.is_empty() || found.len() >= most {
            break;
        }
        let is_one =
            |pid: &u32| process_seen(*pid).is_some() && (says(*pid, "environ", &named) || says(*pid, "maps", &mapped));
        let left = most.saturating_sub(found.len());
        found.extend(new.into_iter().filter(is_one).take(left));
    }
    found
}

/// Whether a session has no ledger in this directory, and never will have one again.
pub fn is_over(directory: &Path, session: &str) -> bool {
    // In this order: who is gone has left what it leaves.
    !anyone(session) && live::list(directory).is_ok_and(|all| all.iter().all(|live| live.session != session))
}

/// Whether one text is in another.
pub(crate) fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// Whether the open file is the one of this name.
pub fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(own), Ok(other)) = (file.metadata(), fs::symlink_metadata(path)) else { return false };
    (own.dev(), own.ino()) == (other.dev(), other.ino())
}

/// A file of a session that is no ledger.
fn beside(directory: &Path, session: &str, ending: &str) -> PathBuf {
    directory.join(format!("{session}{ending}"))
}

/// The file that counts children.
pub fn children_file(directory: &Path, session: &str) -> PathBuf {
    beside(directory, session, ending::CHILDREN)
}

/// The symbolic link to the directory of a session of several processes.
pub fn family_link(directory: &Path, session: &str) -> PathBuf {
    beside(directory, session, ending::FAMILY)
}

/// The symbolic link in which a program that could not be recorded left its path.
pub fn unrecorded_file(directory: &Path, session: &str) -> PathBuf {
    beside(directory, session, ending::UNRECORDED)
}

/// How many child processes of a run were not watched: a line with its number for each, or several.
pub fn children(lines: &str) -> u64 {
    lines.lines().collect::<BTreeSet<_>>().len() as u64
}

/// Writes down where a finished ledger is being written, for `recover`, should we be killed meanwhile. Gone when dropped.
#[derive(Debug)]
pub struct Note(PathBuf);

impl Note {
    /// Writes it. Without it, because nothing can be written there, the workplace is found only by a `recover` that writes to the
    /// same directory.
    pub fn new(live: &Live, workplace: &Path) -> Note {
        Note::at(note_of(&live.path), workplace)
    }

    /// The same, of all ledgers of a session.
    pub fn of_session(directory: &Path, session: &str, workplace: &Path) -> Note {
        Note::at(beside(directory, session, ending::PART), workplace)
    }

    fn at(path: PathBuf, workplace: &Path) -> Note {
        let whole = std::path::absolute(workplace).unwrap_or_else(|_| workplace.to_owned());
        // One that was killed a moment ago, and may not be known to be gone yet, has its workplace still: that is not to be forgotten.
        let is_taken = fs::read_link(&path).is_ok_and(|other| other != whole && other.is_dir());
        let path = if is_taken { beside_another(&path) } else { path };
        let _ = fs::remove_file(&path);
        let _ = std::os::unix::fs::symlink(whole, &path);
        Note(path)
    }
}

impl Note {
    /// The file.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// The name of a note where there is one already: this process's own.
fn beside_another(path: &Path) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{stem}-{}{}", std::process::id(), ending::PART))
}

fn note_of(live: &Path) -> PathBuf {
    live.with_extension(ending::PART.trim_start_matches('.'))
}

/// What nobody needs any more in a directory of ledgers, `at_hand` being those that lie there now.
pub struct Remains {
    /// Workplaces of `heapledger` processes that were killed.
    pub workplaces: Vec<PathBuf>,
    /// Small files beside ledgers that are no more.
    files: Vec<PathBuf>,
    /// The directory, if it is one that `run` makes.
    directory: Option<PathBuf>,
}

impl Remains {
    /// Looks for those of some sessions.
    pub fn of(directory: &Path, is_meant: impl Fn(&str) -> bool) -> Remains {
        let mut remains = Remains { workplaces: Vec::new(), files: Vec::new(), directory: None };
        let ours = fs::symlink_metadata(directory).is_ok_and(|meta| meta.uid() == getuid().as_raw());
        let Ok(items) = fs::read_dir(directory) else { return remains };
        if !ours {
            return remains;
        }
        remains.directory =
            directory.parent().filter(|base| live::directory_in(base) == directory).map(|_| directory.to_owned());
        // After the list of files, so that whatever was made meanwhile is there.
        let paths: Vec<PathBuf> = items.filter_map(|item| Some(item.ok()?.path())).collect();
        let sessions: BTreeSet<String> =
            live::list(directory).unwrap_or_default().into_iter().map(|live| live.session).collect();
        for path in paths {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let Some((stem, ending)) = name.rfind('.').and_then(|dot| name.split_at_checked(dot)) else { continue };
            let session = stem.split('-').next().unwrap_or(stem);
            let known = session.len() == 16 && session.bytes().all(|byte| byte.is_ascii_hexdigit());
            if !known || !is_meant(session) || run_of(directory, session).is_some() {
                continue;
            }
            if ending == ending::PART
                && let Ok(workplace) = fs::read_link(&path)
            {
                match output::abandoned(&workplace) {
                    Some(true) => remains.workplaces.push(workplace),
                    Some(false) => continue,
                    None => {}
                }
                remains.files.push(path);
            } else if BESIDE.contains(&ending)
                && !sessions.contains(session)
                // A forked process that goes on may begin its ledger yet.
                && (ending != ending::FAMILY || is_over(directory, session))
            {
                remains.files.push(path);
            }
        }
        remains
    }

    /// Removes them, the directory, too, if nothing is left in it.
    pub fn remove(&self) {
        for workplace in &self.workplaces {
            output::remove_workplace(workplace);
        }
        for file in &self.files {
            let _ = fs::remove_file(file);
        }
        if let Some(directory) = &self.directory {
            let _ = fs::remove_dir(directory);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::DirBuilderExt;

    use super::*;

    const SESSION: &str = "0123456789abcdef";

    fn scratch(name: &str) -> PathBuf {
        let base = std::env::temp_dir().join(format!("heapledger-session-{name}-{}", std::process::id()));
        let directory = live::directory_in(&base);
        fs::create_dir_all(&base).expect("a directory");
        live::make(&directory).expect("made");
        directory
    }

    #[test]
    fn a_run_that_lives_is_known_by_its_lock() {
        let directory = scratch("sign");
        assert_eq!(run_of(&directory, SESSION), None);
        let sign = Sign::put_up(&directory, SESSION).expect("a sign");
        assert_eq!(run_of(&directory, SESSION), Some(std::process::id()));
        assert_eq!(run_of(&directory, "fedcba9876543210"), None);
        let path = sign.path.clone();
        let text = fs::read(&path).expect("read");
        drop(sign);
        assert!(!path.exists());
        fs::write(&path, text).expect("what a killed one leaves");
        assert_eq!(run_of(&directory, SESSION), None, "nobody holds it");
        fs::remove_dir_all(directory.parent().expect("a base")).expect("removed");
    }

    #[test]
    fn what_a_killed_one_was_writing_is_not_forgotten_by_the_next_that_writes() {
        let directory = scratch("notes");
        let output = directory.parent().expect("a base").join("output");
        fs::create_dir(&output).expect("a directory");
        // Two that were killed: their processes are gone, and so is the one's workplace.
        let [gone, left] = [output.join(".ledgers.4194398.part"), output.join(".ledgers.4194399.part")];
        fs::DirBuilder::new().mode(0o700).create(&left).expect("a workplace");
        std::mem::forget(Note::of_session(&directory, SESSION, &gone));
        std::mem::forget(Note::of_session(&directory, SESSION, &left));
        let name = |note: &Note| note.path().file_name().map(|name| name.to_string_lossy().into_owned());
        let own = output.join(format!(".ledgers.{}.part", std::process::id()));
        let note = Note::of_session(&directory, SESSION, &own);
        assert_eq!(name(&note), Some(format!("{SESSION}-{}.part", std::process::id())));
        drop(note);
        let remains = Remains::of(&directory, |_| true);
        assert_eq!(remains.workplaces, std::slice::from_ref(&left));
        remains.remove();
        assert!(!left.exists() && !directory.exists());
        fs::remove_dir_all(directory.parent().expect("a base")).expect("removed");
    }

    #[test]
    fn what_is_needed_is_left_alone() {
        let directory = scratch("remains");
        let put = |name: &str| fs::write(directory.join(name), "").expect("written");
        put(&format!("{SESSION}.children"));
        put(&format!("{SESSION}-0-7.hlive.taken"));
        put("fedcba9876543210.children");
        put("fedcba9876543210-0.hlive");
        put("notes.children");
        put("0123.children");
        let sign = Sign::put_up(&directory, SESSION).expect("a sign");
        let remains = |directory: &Path| Remains::of(directory, |_| true).files.len();
        assert_eq!(remains(&directory), 0, "its run lives, or its ledger is there, or it is not ours");
        std::mem::forget(sign);
        let left = directory.join(format!("{SESSION}.run"));
        fs::rename(&left, directory.join("x")).expect("renamed");
        fs::copy(directory.join("x"), &left).expect("copied");
        assert_eq!(remains(&directory), 3);
        Remains::of(&directory, |_| true).remove();
        assert_eq!(remains(&directory), 0);
        let names = fs::read_dir(&directory).expect("it is not empty").count();
        assert_eq!(names, 5);
        fs::remove_dir_all(&directory).expect("removed");
        live::make(&directory).expect("made");
        Remains::of(&directory, |_| true).remove();
        assert!(!directory.exists(), "an empty directory goes");
        fs::remove_dir_all(directory.parent().expect("a base")).expect("removed");
    }
}
