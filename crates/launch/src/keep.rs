//! Holding the ledgers of a program open while it runs.
//!
//! The program keeps no descriptor of its ledger. So when somebody removes the file (a cleaner of `/dev/shm`, the system
//! at logout), what is in it would be gone with the program. Here it is opened as soon as it appears, for each program
//! that the process becomes, and finished from the descriptor.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use heapledger_format::bytes::Codec;
use heapledger_format::header::HEADER_BYTES_MAX;
use heapledger_format::section::SectionRow;
use heapledger_format::session::{DIRECTORY, ending};
use heapledger_format::timeline::TimePoint;
use heapledger_format::{GlobalCounter, Header, SectionKind};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use nix::unistd::{Whence, getuid, lseek};

use crate::error::LaunchError;
use crate::live::{self, Live};
use crate::looks::{KeptCurve, Looks};
use crate::session::{self, is_at};

/// How often the directory is looked into where nobody tells of changes: no instance of inotify is left, or the
/// directory is gone.
pub const LOOK_AGAIN: Duration = Duration::from_millis(250);
/// Bytes copied at a time.
const COPY_BYTES: usize = 1 << 20;

/// An unfinished ledger of ours.
pub struct Kept {
    /// Its name, which may be gone or another's.
    pub live: Live,
    /// The file; `None` if we may not open it.
    file: Option<File>,
    /// What was seen of its program over time.
    pub(crate) curve: Option<KeptCurve>,
}

/// Opens each ledger of a session when it appears.
pub struct Keeper {
    /// Where the directories of ledgers are, one for each user; and ours.
    base: PathBuf,
    directory: PathBuf,
    session: String,
    /// Other users' that the system tells of: the program may have given up its rights.
    others: BTreeSet<PathBuf>,
    inotify: Option<Inotify>,
    /// The directory that the system tells of, by its inode: there may be another one of this name.
    watched: Option<u64>,
    /// A file of ours was removed. Then the directory may go without a word: it is told of when nobody has a file of it open any more.
    removed: bool,
    /// A ledger has appeared that was gone before it could be opened.
    missed: bool,
    kept: Vec<Kept>,
    children: Option<File>,
    looks: Option<Looks>,
    /// Children come and go, each with a file in the directory: the news of those wake nobody.
    has_family: bool,
}

impl Keeper {
    /// Begins to look. Before the program starts.
    pub fn new(base: &Path, session: &str) -> Keeper {
        let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK).ok();
        let mut keeper = Keeper {
            base: base.to_owned(),
            directory: live::directory_in(base),
            session: session.to_owned(),
            others: BTreeSet::new(),
            inotify,
            watched: None,
            removed: false,
            missed: false,
            kept: Vec::new(),
            children: None,
            looks: None,
            has_family: false,
        };
        keeper.watch();
        if getuid().is_root()
            && let Some(inotify) = &keeper.inotify
        {
            // Only root's program can become another user's, who makes a directory beside ours.
            let _ = inotify.add_watch(base, AddWatchFlags::IN_CREATE | AddWatchFlags::IN_ONLYDIR);
            keeper.watch_others();
        }
        keeper
    }

    /// Children are recorded, too: once there is a ledger, others are looked for now and then only.
    pub(crate) fn expect_children(&mut self) {
        self.has_family = true;
    }

    fn is_crowded(&self) -> bool {
        self.has_family && !self.kept.is_empty()
    }

    fn watch_others(&mut self) {
        let Some(inotify) = self.inotify.as_ref().filter(|_| getuid().is_root()) else { return };
        for directory in live::directories_in(&self.base) {
            let what = AddWatchFlags::IN_CREATE | AddWatchFlags::IN_ONLYDIR;
            // One of this name may be a new one: to add it again costs nothing.
            if directory != self.directory && inotify.add_watch(&directory, what).is_ok() {
                self.others.insert(directory);
            }
        }
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
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.inotify.as_ref().filter(|_| self.watched.is_some() && !self.is_crowded()).map(AsFd::as_fd)
    }

    /// When to look in any case.
    pub fn patience(&self) -> Option<Duration> {
        let again = (self.watched.is_none() || self.removed || self.is_crowded()).then_some(LOOK_AGAIN);
        let looks = self.looks.as_ref().filter(|_| !self.kept.is_empty()).map(Looks::patience);
        again.into_iter().chain(looks).min()
    }

    /// From now on the process is looked at, too: what its ledger says that lives, and what memory it has.
    pub(crate) fn look_at(&mut self, pid: i32) {
        self.looks = Some(Looks::at(pid));
    }

    /// Opens what has appeared. Files of other sessions in the same directory cost no more than the news of them.
    pub fn look(&mut self) {
        let mut ours = false;
        while let Some(events) = self.inotify.as_ref().and_then(|inotify| inotify.read_events().ok()) {
            for event in events {
                // Without a name it is about the directory: it is gone, or too much has happened.
                let name = event.name.as_ref().map(|name| name.as_encoded_bytes());
                // Others look after those, and there may be thousands.
                let of_name = event.name.as_ref().and_then(|name| Live::from_path(Path::new(name)));
                if of_name.is_some_and(|live| live.pid.is_some()) {
                    continue;
                }
                let is_ours = name.is_none_or(|name| {
                    name.starts_with(self.session.as_bytes()) || name.starts_with(DIRECTORY.as_bytes())
                });
                let gone = is_ours && event.mask.contains(AddWatchFlags::IN_DELETE);
                self.removed |= gone;
                let is_ledger = name.is_some_and(|name| name.ends_with(ending::LIVE.as_bytes()));
                self.missed |= gone && is_ledger && !self.kept.iter().any(Kept::was_removed);
                ours |= is_ours;
            }
        }
        if self.removed || self.watched.is_none() || ours {
            if self.watched.is_none() || self.watched != self.inode() {
                self.watch();
            }
            self.watch_others();
            self.open_new();
        }
        if let (Some(looks), Some(newest)) = (&mut self.looks, self.kept.iter_mut().max_by_key(|kept| kept.live.image))
        {
            looks.look(newest);
        }
    }

    /// Of the process that was started. Those of others are for [`crate::family`], or who finds them later.
    fn own_ledgers(&self) -> impl Iterator<Item = Live> + use<> {
        live::of_session(&self.base, &self.session, |live| live.pid.is_none()).into_iter()
    }

    fn open_new(&mut self) {
        for live in self.own_ledgers() {
            let is_known = |kept: &Kept| kept.file.as_ref().is_some_and(|file| is_at(file, &live.path));
            if self.kept.iter().any(is_known) {
                continue;
            }
            let mut options = fs::OpenOptions::new();
            if let Ok(file) = options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(&live.path) {
                // The process has become another program: how the last one ended is seen now.
                let last = self.kept.iter_mut().max_by_key(|kept| kept.live.image);
                self.looks.iter_mut().zip(last).for_each(|(looks, last)| looks.look_now(last, false));
                self.kept.push(Kept { live, file: Some(file), curve: None });
            }
        }
        if self.children.is_none() {
            self.children = File::open(session::children_file(&self.directory, &self.session)).ok();
        }
    }

    /// The ledger of what the process has become last.
    pub(crate) fn newest(&self) -> Option<&Kept> {
        // That has the highest number.
        self.kept.iter().max_by_key(|kept| kept.live.image)
    }

    /// What the program holds at this moment, as far as its threads have told; `None` if there is no ledger yet.
    pub fn live_bytes(&self) -> Option<u64> {
        self.newest()?.header().map(|header| header.global(GlobalCounter::LiveBytes))
    }

    /// Whether there was a ledger that was removed before it could be opened.
    pub fn missed(&self) -> bool {
        self.missed
    }

    /// The ledgers of this session, in the order of their making, when the program has ended; and how many child
    /// processes were not watched.
    pub fn ledgers(&mut self) -> (Vec<Kept>, u64) {
        self.look();
        self.inotify = None; // its descriptor may be needed
        self.open_new();
        let newest = self.kept.iter_mut().max_by_key(|kept| kept.live.image);
        self.looks.take().into_iter().zip(newest).for_each(|(mut looks, newest)| looks.look_now(newest, false));
        // What could not be opened is told of by who tries again.
        for live in self.own_ledgers() {
            if !self.kept.iter().any(|kept| kept.live == live) {
                self.kept.push(Kept { live, file: None, curve: None });
            }
        }
        // Each directory counts from 0: then only the time tells. Not when they were opened: a ledger has none before it has begun,
        // and two may be opened at once.
        let directories: BTreeSet<_> = self.kept.iter().map(|kept| kept.live.path.parent()).collect();
        if directories.len() > 1 {
            self.kept.sort_by_cached_key(Kept::began_unix_ns);
        }
        let mut children = 0;
        for directory in live::directories_in(&self.base) {
            let mut lines = String::new();
            let held = if directory == self.directory { self.children.take() } else { None };
            let file = held.or_else(|| File::open(session::children_file(&directory, &self.session)).ok());
            let _ = file.map(|mut file| file.read_to_string(&mut lines));
            children += session::children(&lines);
        }
        (std::mem::take(&mut self.kept), children)
    }
}

impl Kept {
    /// The file, to be read; by its name if it is not open.
    pub fn file(&self) -> Result<File, LaunchError> {
        match &self.file {
            Some(file) => file.try_clone().map_err(LaunchError::System),
            None => File::open(&self.live.path).map_err(LaunchError::of(&self.live.path)),
        }
    }

    /// Where its errors lie, if it has any.
    pub(crate) fn errors(&self) -> Option<(SectionRow, Codec)> {
        let header = self.header()?;
        let row = header.section(SectionKind::Errors as u16).filter(|row| row.used != 0 && row.element_bytes != 0)?;
        Some((*row, header.codec))
    }

    /// Reads what lies there.
    pub(crate) fn read(&self, bytes: &mut [u8], at: u64) -> Option<()> {
        self.file.as_ref()?.read_exact_at(bytes, at).ok()
    }

    /// Kilobytes, and not on the stack: whoever started us may have left us little of that.
    pub(crate) fn header(&self) -> Option<Box<Header>> {
        let mut bytes = vec![0; HEADER_BYTES_MAX];
        let there = self.file().ok()?.read_at(&mut bytes, 0).ok()?;
        Header::parse(bytes.get(..there)?).ok().map(Box::new)
    }

    /// What was seen of its program over time, in order.
    pub(crate) fn timeline(&self) -> &[TimePoint] {
        self.curve.as_ref().map_or(&[], KeptCurve::points)
    }

    /// When its program began, in nanoseconds since 1970; after all others if nothing says so: it got no further.
    fn began_unix_ns(&self) -> u64 {
        self.header().map_or(u64::MAX, |header| header.start_unix_ns)
    }

    /// Whether the file was removed while we had it.
    pub fn was_removed(&self) -> bool {
        self.file.as_ref().is_some_and(|file| !is_at(file, &self.live.path))
    }

    /// Gives a ledger a name that has none any more, by copying it: where it was, else to the first default place that
    /// has room. Holes stay holes.
    pub fn put_back(&self) -> Result<PathBuf, LaunchError> {
        let file = self.file()?;
        let own = self.live.path.parent().filter(|directory| live::make(directory).is_ok());
        let others = live::places().into_iter().map(|base| live::directory_in(&base));
        let mut problem = LaunchError::NoNameAgain;
        for directory in own.map(Path::to_owned).into_iter().chain(others) {
            if live::make(&directory).is_err() {
                continue;
            }
            // The image numbers of one session in one directory; another may have taken ours.
            let names = (self.live.image..).map(|image| Live::name(&self.live.session, image, self.live.pid));
            for path in names.map(|name| directory.join(name)).take(100) {
                let mut options = fs::OpenOptions::new();
                match options.write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW).open(&path) {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                    Err(_) => break,
                    Ok(mut to) => match copy_stored(&file, &mut to) {
                        Ok(()) => return Ok(path),
                        Err(error) => {
                            let _ = fs::remove_file(&path);
                            problem = LaunchError::File { path: directory.clone(), reason: error };
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
        let (kept, _) = keeper.ledgers();
        kept.iter().map(|kept| io::read_to_string(kept.file().expect("open")).expect("read")).collect()
    }

    #[test]
    fn what_is_removed_is_kept() {
        let place = Place::new("removed");
        let mut keeper = Keeper::new(&place.0, SESSION);
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
    fn ledgers_of_children_wake_nobody() {
        let place = Place::new("children");
        let mut keeper = Keeper::new(&place.0, SESSION);
        keeper.expect_children();
        assert!(keeper.descriptor().is_some(), "the first ledger is waited for");
        place.put(&format!("{SESSION}-0.hlive"), "first");
        keeper.look();
        assert!(keeper.descriptor().is_none() && keeper.patience() == Some(LOOK_AGAIN));
        place.put(&format!("{SESSION}-0-4711.hlive"), "a child's");
        place.put(&format!("{SESSION}-1.hlive"), "second");
        fs::remove_file(place.directory().join(format!("{SESSION}-0-4711.hlive"))).expect("removed");
        keeper.look();
        assert!(!keeper.removed && !keeper.missed());
        assert_eq!(texts(keeper), ["first", "second"]);
    }

    /// As a ledger begins.
    fn begun_at(unix_ns: u64) -> Vec<u8> {
        let mut bytes = heapledger_testing::Builder::new().bytes();
        let mut header = Header::parse(&bytes).expect("a header");
        header.start_unix_ns = unix_ns;
        header.write(&mut bytes).expect("room");
        bytes
    }

    #[test]
    fn programs_of_two_users_are_in_order_though_both_were_opened_at_once() {
        let place = Place::new("order");
        // As another user's: in a user namespace the owner of a directory is called differently.
        let theirs = place.0.join(format!("{DIRECTORY}{}", getuid().as_raw() + 1));
        live::make(&theirs).expect("made");
        let name = format!("{SESSION}-0.hlive");
        let (first, second) = (place.directory().join(&name), theirs.join(&name));
        for (begins_as, first, second) in [("mine", &first, &second), ("theirs", &second, &first)] {
            fs::write(first, begun_at(1000)).expect("written");
            // The second program's ledger has been made, and nothing is in it yet.
            fs::write(second, [0; 4096]).expect("written");
            let mut keeper = Keeper::new(&place.0, SESSION);
            keeper.look();
            keeper.open_new();
            fs::write(second, begun_at(2000)).expect("written");
            let order = |kept: &[Kept]| kept.iter().map(|kept| kept.live.path.clone()).collect::<Vec<_>>();
            assert_eq!(order(&keeper.ledgers().0), [first.clone(), second.clone()], "{begins_as}");
        }
    }

    #[test]
    fn what_was_gone_too_soon_is_known() {
        let place = Place::new("missed");
        let mut keeper = Keeper::new(&place.0, SESSION);
        place.put(&format!("{SESSION}-0.hlive"), "first");
        fs::remove_file(place.directory().join(format!("{SESSION}-0.hlive"))).expect("removed");
        keeper.look();
        assert!(keeper.missed() && keeper.ledgers().0.is_empty());
    }

    #[test]
    fn a_name_is_given_again() {
        let place = Place::new("again");
        let mut keeper = Keeper::new(&place.0, SESSION);
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
