//! Ledgers of a session that appear while it runs.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor};
use nix::unistd::getuid;

use crate::live::{self, Live};

/// All that there is, is looked through so often at least.
const LOOK_ANYWAY: Duration = Duration::from_millis(500);

/// Tells of them, each by its name as the system tells it: to look through thousands for each new one would take longer than they live.
pub(super) struct NewLedgers {
    base: PathBuf,
    session: String,
    inotify: Option<Inotify>,
    watched: BTreeMap<WatchDescriptor, PathBuf>,
    /// When everything was last looked through.
    looked: Option<Instant>,
}

impl NewLedgers {
    pub(super) fn new(base: &Path, session: &str) -> NewLedgers {
        NewLedgers {
            base: base.to_owned(),
            session: session.to_owned(),
            inotify: Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK).ok(),
            watched: BTreeMap::new(),
            looked: None,
        }
    }

    /// Becomes readable when something has appeared; `None`: nobody tells.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.inotify.as_ref().map(AsFd::as_fd)
    }

    pub(super) fn directories(&self) -> Vec<PathBuf> {
        live::directories_in(&self.base)
    }

    /// The next time all that there is, is looked through.
    pub(super) fn look_through(&mut self) {
        self.looked = None;
    }

    /// What may have appeared since the last time, without those that are `known`.
    pub(super) fn appeared(&mut self, known: impl Fn(&Live) -> bool) -> Vec<Live> {
        match self.told().filter(|_| self.looked.is_some_and(|looked| looked.elapsed() <= LOOK_ANYWAY)) {
            Some(told) => told
                .into_iter()
                .filter(|live| live.session == self.session && !known(live) && live::is_file(live))
                .collect(),
            None => {
                self.looked = Some(Instant::now());
                self.watch();
                live::of_session(&self.base, &self.session, |live| !known(live))
            }
        }
    }

    fn watch(&mut self) {
        let Some(inotify) = &self.inotify else { return };
        // Only root's program can become another user's, who makes a directory beside ours.
        if getuid().is_root()
            && let Ok(told) = inotify.add_watch(&self.base, AddWatchFlags::IN_CREATE | AddWatchFlags::IN_ONLYDIR)
        {
            self.watched.insert(told, self.base.clone());
        }
        for directory in self.directories() {
            if let Ok(told) = inotify.add_watch(&directory, AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVED_TO) {
                self.watched.insert(told, directory);
            }
        }
    }

    /// What the system has told; `None` if it cannot be known from that what there is.
    fn told(&self) -> Option<Vec<Live>> {
        let (mut told, mut is_whole) = (Vec::new(), true);
        while let Some(events) = self.inotify.as_ref()?.read_events().ok().filter(|events| !events.is_empty()) {
            for event in events {
                // Without a name it is about the directory: it is gone, or too much has happened.
                let path = event.name.zip(self.watched.get(&event.wd)).map(|(name, directory)| directory.join(name));
                let Some(path) = path else {
                    is_whole = false;
                    continue;
                };
                is_whole &= !self.is_directory_of_ledgers(&path);
                told.extend(Live::from_path(&path));
            }
        }
        is_whole.then_some(told)
    }

    fn is_directory_of_ledgers(&self, path: &Path) -> bool {
        path.parent() == Some(&self.base)
            && path.file_name().is_some_and(|name| {
                name.as_encoded_bytes().starts_with(heapledger_format::session::DIRECTORY.as_bytes())
            })
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, slice};

    use super::*;

    const SESSION: &str = "0123456789abcdef";

    fn names(lives: Vec<Live>) -> Vec<String> {
        lives.iter().filter_map(|live| Some(live.path.file_name()?.to_string_lossy().into_owned())).collect()
    }

    #[test]
    fn what_appears_is_told_of_once_by_name_and_all_of_it_after_a_change_of_directory() {
        let base = std::env::temp_dir().join(format!("heapledger-news-{}", std::process::id()));
        let directory = live::directory_in(&base);
        fs::create_dir_all(&base).expect("a directory");
        live::make(&directory).expect("made");
        let put = |name: &str| fs::write(directory.join(name), "").expect("written");
        let (first, second) = (format!("{SESSION}-0-7.hlive"), format!("{SESSION}-1-7.hlive"));
        put(&first);
        let mut news = NewLedgers::new(&base, SESSION);
        assert_eq!(names(news.appeared(|_| false)), slice::from_ref(&first), "it was there before");
        assert!(news.appeared(|_| false).is_empty(), "only what is new");
        put(&second);
        put("fedcba9876543210-0-8.hlive");
        put(&format!("{SESSION}.children"));
        fs::create_dir(directory.join(format!("{SESSION}-2-7.hlive"))).expect("no file");
        assert_eq!(names(news.appeared(|_| false)), slice::from_ref(&second));
        news.look_through();
        assert_eq!(names(news.appeared(|live| live.image == 0)), slice::from_ref(&second), "all but known ones");
        fs::remove_dir_all(&directory).expect("removed");
        live::make(&directory).expect("made");
        put(&first);
        assert_eq!(names(news.appeared(|_| false)), slice::from_ref(&first), "in a directory that was made again");
        put(&second);
        assert_eq!(names(news.appeared(|_| false)), [second]);
        fs::remove_dir_all(&base).expect("removed");
    }
}
