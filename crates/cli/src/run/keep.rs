//! Holding the ledgers of a program open while it runs.
//!
//! The program keeps no descriptor of its ledger. So when somebody removes the file (a cleaner of `/dev/shm`, the system
//! at logout), what is in it would be gone with the program. Here it is opened as soon as it appears, for each program
//! that the process becomes, and finished from the descriptor.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use nix::unistd::{Whence, lseek, pipe2};

use crate::live::{self, Live};
use crate::session::{self, Sign, is_at};

/// How often the directory is looked into where nobody tells of changes: no instance of inotify is left, or the
/// directory is gone.
const LOOK_AGAIN: Duration = Duration::from_millis(250);
/// Bytes of the stack of the thread that looks.
const WATCH_STACK_BYTES: usize = 256 << 10;
/// Bytes copied at a time.
const COPY_BYTES: usize = 1 << 20;

/// An unfinished ledger of ours.
pub(crate) struct Kept {
    /// Its name, which may be gone or another's.
    pub(crate) live: Live,
    /// The file; `None` if we may not open it.
    file: Option<File>,
}

/// A session in good hands: its ledgers are held open, and `recover` is told that they are.
pub(crate) struct Hold {
    keeper: Arc<Mutex<Keeper>>,
    sign: Option<Sign>,
    watch: Option<Watch>,
}

/// What was held of a program that has ended.
pub(crate) struct Held {
    /// Its ledgers, in the order of their making.
    pub(crate) ledgers: Vec<Kept>,
    /// How many child processes were not watched.
    pub(crate) children: u64,
    /// Whether there was a ledger that was removed before it could be opened.
    pub(crate) missed: bool,
    /// To be kept until all is finished.
    pub(crate) sign: Option<Sign>,
}

/// The thread that looks. It goes when its pipe is closed.
struct Watch {
    thread: JoinHandle<()>,
    stop: OwnedFd,
}

impl Hold {
    /// Takes a session over, before its program starts.
    pub(crate) fn new(directory: &Path, session: &str) -> Hold {
        let keeper = Arc::new(Mutex::new(Keeper::new(directory, session)));
        Hold { keeper, sign: Sign::put_up(directory, session), watch: None }
    }

    /// Looks for ledgers from now on, beside whatever this thread does. Not before the program is started: a process with
    /// threads is not forked. Where there can be no thread, ledgers are found by their names in the end.
    pub(crate) fn watch(&mut self) {
        let Ok((waiting, stop)) = pipe2(OFlag::O_CLOEXEC) else { return };
        let keeper = Arc::clone(&self.keeper);
        let thread = thread::Builder::new().name("ledgers".into()).stack_size(WATCH_STACK_BYTES).spawn(move || {
            keeper.lock().unwrap_or_else(PoisonError::into_inner).look_until(&waiting);
        });
        self.watch = thread.ok().map(|thread| Watch { thread, stop });
    }

    /// The program has ended: what was held of it.
    pub(crate) fn end(mut self) -> Held {
        if let Some(Watch { thread, stop }) = self.watch.take() {
            drop(stop);
            // A thread that panicked leaves what it had found.
            let _ = thread.join();
        }
        let mut keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner);
        let (ledgers, children) = keeper.ledgers();
        let missed = keeper.missed;
        drop(keeper);
        Held { ledgers, children, missed, sign: self.sign.take() }
    }
}

/// Opens each ledger of a session when it appears.
struct Keeper {
    directory: PathBuf,
    session: String,
    inotify: Option<Inotify>,
    /// The directory that the system tells of, by its inode: there may be another one of this name.
    watched: Option<u64>,
    /// Whether a file of ours was removed. Then the directory may go without a word, too: it is told of only when
    /// nobody has a file open any more that was in it.
    removed: bool,
    /// A ledger has appeared that was gone before it could be opened.
    missed: bool,
    kept: Vec<Kept>,
    children: Option<File>,
}

impl Keeper {
    fn new(directory: &Path, session: &str) -> Keeper {
        let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK).ok();
        let (directory, session) = (directory.to_owned(), session.to_owned());
        let mut keeper = Keeper {
            directory,
            session,
            inotify,
            watched: None,
            removed: false,
            missed: false,
            kept: Vec::new(),
            children: None,
        };
        keeper.watch();
        keeper
    }

    fn watch(&mut self) {
        let what = AddWatchFlags::IN_CREATE
            | AddWatchFlags::IN_MOVED_TO
            | AddWatchFlags::IN_DELETE
            | AddWatchFlags::IN_DELETE_SELF
            | AddWatchFlags::IN_MOVE_SELF
            | AddWatchFlags::IN_ONLYDIR;
        let inotify = self.inotify.as_ref();
        let added = inotify.is_some_and(|inotify| inotify.add_watch(&self.directory, what).is_ok());
        self.watched = self.inode().filter(|_| added);
    }

    fn inode(&self) -> Option<u64> {
        fs::symlink_metadata(&self.directory).ok().map(|meta| meta.ino())
    }

    /// Becomes readable when there is something to look at.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.inotify.as_ref().filter(|_| self.watched.is_some()).map(AsFd::as_fd)
    }

    /// When to look in any case.
    fn patience(&self) -> Option<Duration> {
        (self.watched.is_none() || self.removed).then_some(LOOK_AGAIN)
    }

    /// Looks whenever there may be something, until the other end of the pipe is closed.
    fn look_until(&mut self, closed: &OwnedFd) {
        loop {
            // At first, too: the program may have been faster.
            self.look();
            let limit = self.patience();
            let timeout =
                limit.map_or(PollTimeout::NONE, |limit| PollTimeout::try_from(limit).unwrap_or(PollTimeout::MAX));
            let both = std::iter::once(closed.as_fd()).chain(self.descriptor());
            let mut descriptors: Vec<PollFd<'_>> = both.map(|one| PollFd::new(one, PollFlags::POLLIN)).collect();
            let failed = poll(&mut descriptors, timeout).is_err_and(|reason| reason != Errno::EINTR);
            if failed || descriptors.first().is_none_or(|closed| closed.any().unwrap_or(true)) {
                return;
            }
        }
    }

    /// Opens what has appeared. Files of other sessions in the same directory cost no more than the news of them.
    fn look(&mut self) {
        let mut ours = false;
        while let Some(events) = self.inotify.as_ref().and_then(|inotify| inotify.read_events().ok()) {
            for event in events {
                // Without a name it is about the directory: it is gone, or too much has happened.
                let name = event.name.as_ref().map(|name| name.as_encoded_bytes());
                let is_ours = name.is_none_or(|name| name.starts_with(self.session.as_bytes()));
                let gone = is_ours && event.mask.contains(AddWatchFlags::IN_DELETE);
                self.removed |= gone;
                let is_ledger = name.is_some_and(|name| name.ends_with(b".hlive"));
                self.missed |= gone && is_ledger && !self.kept.iter().any(Kept::was_removed);
                ours |= is_ours;
            }
        }
        if self.removed || self.watched.is_none() || ours {
            if self.watched.is_none() || self.watched != self.inode() {
                self.watch();
            }
            self.open_new();
        }
    }

    fn open_new(&mut self) {
        for live in live::list(&self.directory).unwrap_or_default() {
            if live.session != self.session {
                continue;
            }
            let is_known = |kept: &Kept| kept.file.as_ref().is_some_and(|file| is_at(file, &live.path));
            if self.kept.iter().any(is_known) {
                continue;
            }
            let mut options = fs::OpenOptions::new();
            if let Ok(file) = options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(&live.path) {
                self.kept.push(Kept { live, file: Some(file) });
            }
        }
        if self.children.is_none() {
            self.children = File::open(session::children_file(&self.directory, &self.session)).ok();
        }
    }

    /// What is held, and what is there by name; and how many child processes were not watched.
    fn ledgers(&mut self) -> (Vec<Kept>, u64) {
        self.open_new();
        let mut kept = std::mem::take(&mut self.kept);
        // What could not be opened is told of by who tries again.
        for live in live::list(&self.directory).unwrap_or_default() {
            if live.session == self.session && !kept.iter().any(|kept| kept.live == live) {
                kept.push(Kept { live, file: None });
            }
        }
        let mut lines = String::new();
        let _ = self.children.take().map(|mut file| file.read_to_string(&mut lines));
        (kept, session::children(&lines))
    }
}

impl Kept {
    /// The file, to be read; by its name if it is not open.
    pub(crate) fn file(&self) -> Result<File> {
        match &self.file {
            Some(file) => Ok(file.try_clone()?),
            None => File::open(&self.live.path).with_context(|| self.live.path.display().to_string()),
        }
    }

    /// Whether the file was removed while we had it.
    pub(crate) fn was_removed(&self) -> bool {
        self.file.as_ref().is_some_and(|file| !is_at(file, &self.live.path))
    }

    /// Gives a ledger a name that has none any more, by copying it: where it was, else to the first default place that
    /// has room. Holes stay holes.
    pub(crate) fn put_back(&self) -> Result<PathBuf> {
        let file = self.file()?;
        let own = self.live.path.parent().filter(|directory| live::make(directory).is_ok());
        let others = live::places().into_iter().map(|base| live::directory_in(&base));
        let mut problem = anyhow::anyhow!("there is no place for it");
        for directory in own.map(Path::to_owned).into_iter().chain(others) {
            if live::make(&directory).is_err() {
                continue;
            }
            // The image numbers of one session in one directory; another may have taken ours.
            let names = (self.live.image..).map(|image| format!("{}-{image}.hlive", self.live.session));
            for path in names.map(|name| directory.join(name)).take(100) {
                let mut options = fs::OpenOptions::new();
                match options.write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW).open(&path) {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                    Err(_) => break,
                    Ok(mut to) => match copy_stored(&file, &mut to) {
                        Ok(()) => return Ok(path),
                        Err(error) => {
                            let _ = fs::remove_file(&path);
                            problem = anyhow::Error::from(error).context(directory.display().to_string());
                            break;
                        }
                    },
                }
            }
        }
        Err(problem)
    }
}

/// Copies what has storage.
fn copy_stored(from: &File, to: &mut File) -> io::Result<()> {
    let bytes = from.metadata()?.len();
    to.set_len(bytes)?;
    let mut buffer = vec![0; COPY_BYTES];
    let mut at = 0;
    while at < bytes {
        let whence = |at: u64, whence| lseek(from, i64::try_from(at).unwrap_or(i64::MAX), whence);
        // A file system that knows no holes says that everything is data; past the last byte of it, an error.
        let Ok(data) = whence(at, Whence::SeekData) else { break };
        let data = data.cast_unsigned();
        let end = whence(data, Whence::SeekHole).map_or(bytes, i64::cast_unsigned);
        to.seek(SeekFrom::Start(data))?;
        at = data;
        while at < end {
            let room = usize::try_from(end - at).unwrap_or(COPY_BYTES).min(COPY_BYTES);
            let there = from.read_at(buffer.get_mut(..room).unwrap_or_default(), at)?;
            if there == 0 {
                return Ok(());
            }
            io::Write::write_all(to, buffer.get(..there).unwrap_or_default())?;
            at += there as u64;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    const SESSION: &str = "0123456789abcdef";

    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Place {
            let base = std::env::temp_dir().join(format!("heapledger-keep-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&base);
            fs::create_dir_all(&base).expect("a directory");
            live::make(&live::directory_in(&base)).expect("made");
            Place(base)
        }

        fn directory(&self) -> PathBuf {
            live::directory_in(&self.0)
        }

        fn put(&self, name: &str, text: &str) {
            fs::write(self.directory().join(name), text).expect("written");
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn texts(mut keeper: Keeper) -> Vec<String> {
        let (kept, children) = keeper.ledgers();
        assert_eq!(children, 2);
        kept.iter().map(|kept| io::read_to_string(kept.file().expect("open")).expect("read")).collect()
    }

    #[test]
    fn what_is_removed_is_kept() {
        let place = Place::new("removed");
        let mut keeper = Keeper::new(&place.directory(), SESSION);
        assert!(keeper.descriptor().is_some() && keeper.patience().is_none());
        place.put(&format!("{SESSION}-0.hlive"), "first");
        place.put("fedcba9876543210-0.hlive", "of others");
        keeper.look();
        // The directory goes as well, and comes again with the next program of the process.
        fs::remove_dir_all(place.directory()).expect("removed");
        keeper.look();
        assert!(keeper.descriptor().is_none() && keeper.patience().is_some());
        keeper.look();
        live::make(&place.directory()).expect("made");
        place.put(&format!("{SESSION}-0.hlive"), "second");
        place.put(&format!("{SESSION}.children"), "7\n8\n7\n");
        keeper.look();
        assert!(keeper.descriptor().is_some() && keeper.patience().is_some(), "watched again, and looked after");
        fs::remove_file(place.directory().join(format!("{SESSION}-0.hlive"))).expect("removed");
        place.put(&format!("{SESSION}-0.hlive"), "third");
        keeper.look();
        assert_eq!(keeper.kept.iter().map(Kept::was_removed).collect::<Vec<_>>(), [true, true, false]);
        fs::remove_file(place.directory().join(format!("{SESSION}.children"))).expect("removed");
        assert_eq!(texts(keeper), ["first", "second", "third"]);
    }

    #[test]
    fn what_was_gone_too_soon_is_known() {
        let place = Place::new("missed");
        let mut keeper = Keeper::new(&place.directory(), SESSION);
        place.put(&format!("{SESSION}-0.hlive"), "first");
        fs::remove_file(place.directory().join(format!("{SESSION}-0.hlive"))).expect("removed");
        keeper.look();
        assert!(keeper.missed && keeper.ledgers().0.is_empty());
    }

    #[test]
    fn a_thread_looks() {
        let place = Place::new("thread");
        let mut hold = Hold::new(&place.directory(), SESSION);
        hold.watch();
        let path = place.directory().join(format!("{SESSION}-0.hlive"));
        place.put(&format!("{SESSION}-0.hlive"), "first");
        let held = || {
            let descriptors = fs::read_dir("/proc/self/fd").expect("list");
            descriptors.flatten().any(|item| fs::read_link(item.path()).is_ok_and(|target| target == path))
        };
        let begun = std::time::Instant::now();
        while !held() {
            assert!(begun.elapsed() < Duration::from_secs(60), "nobody looks");
            thread::sleep(Duration::from_millis(1));
        }
        fs::remove_file(&path).expect("removed");
        let Held { ledgers, missed, sign, .. } = hold.end();
        assert!(ledgers.len() == 1 && ledgers[0].was_removed() && sign.is_some() && !missed);
    }

    #[test]
    fn a_name_is_given_again() {
        let place = Place::new("again");
        let mut keeper = Keeper::new(&place.directory(), SESSION);
        let path = place.directory().join(format!("{SESSION}-3.hlive"));
        let mut file = File::create(&path).expect("made");
        file.set_len(1 << 30).expect("longer");
        file.seek(SeekFrom::Start(1 << 29)).expect("there");
        file.write_all(b"in the middle").expect("written");
        keeper.look();
        fs::remove_dir_all(place.directory()).expect("removed");
        let (kept, _) = keeper.ledgers();
        assert_eq!(kept[0].put_back().expect("put back"), path);
        let copy = File::open(&path).expect("open");
        let mut text = [0; 13];
        copy.read_exact_at(&mut text, 1 << 29).expect("read");
        assert_eq!(&text, b"in the middle");
        let meta = copy.metadata().expect("meta");
        assert!(meta.len() == 1 << 30 && meta.blocks() < 1 << 14, "holes are filled");
    }
}
