//! The cache, as the client of elfutils lays it out: `DIRECTORY/BUILDID/debuginfo`, an empty file where no server had it.

use std::env;
use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The file in the cache that says for how many seconds it is believed that no server has something.
const MISS_FILE: &str = "cache_miss_s";
/// How long that is if the file is not there.
const MISS: Duration = Duration::from_secs(600);

/// The file whose age says when the cache was cleaned last, and which says after how many seconds it is again.
const INTERVAL_FILE: &str = "cache_clean_interval_s";
const INTERVAL: Duration = Duration::from_secs(24 * 3600);
/// The file that says how many seconds a file stays that nobody reads.
const UNUSED_FILE: &str = "max_unused_age_s";
const UNUSED: Duration = Duration::from_secs(7 * 24 * 3600);

/// The directory.
#[derive(Debug)]
pub(super) struct Cache {
    directory: PathBuf,
}

/// What the cache knows of a build.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Cached {
    /// Its file.
    File(PathBuf),
    /// No server had it a short while ago.
    Nowhere,
    /// Nothing.
    Unknown,
}

impl Cache {
    /// Where the environment says; `None` if it says nothing.
    pub(super) fn from_environment() -> Option<Cache> {
        let path = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let directory = path("DEBUGINFOD_CACHE_PATH").or_else(|| {
            let home = path("HOME");
            // Where older versions had it: used for as long as it is there.
            let old = home.as_ref().map(|home| home.join(".debuginfod_client_cache")).filter(|old| old.exists());
            let base = path("XDG_CACHE_HOME").or_else(|| home.map(|home| home.join(".cache")));
            old.or_else(|| base.map(|base| base.join("debuginfod_client")))
        })?;
        Some(Cache::at(directory))
    }

    /// In this directory, which need not be there.
    pub(super) fn at(directory: PathBuf) -> Cache {
        Cache { directory }
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    fn place(&self, id: &str) -> PathBuf {
        self.directory.join(id).join("debuginfo")
    }

    /// What is known of a build.
    pub(super) fn look(&self, id: &str) -> Cached {
        let path = self.place(id);
        let Ok(meta) = path.metadata() else { return Cached::Unknown };
        if meta.len() != 0 {
            return Cached::File(path);
        }
        let miss = self.setting(MISS_FILE, MISS);
        // A time in the future is no reason to believe it for ever.
        let age = meta.modified().ok().and_then(|modified| modified.elapsed().ok());
        if age.is_some_and(|age| age <= miss) { Cached::Nowhere } else { Cached::Unknown }
    }

    /// A time that is set by a file in the cache.
    fn setting(&self, name: &str, otherwise: Duration) -> Duration {
        let told = fs::read_to_string(self.directory.join(name)).ok();
        told.and_then(|text| text.trim().parse().ok()).map_or(otherwise, Duration::from_secs)
    }

    /// Removes what nobody has read for a week, once a day, as the client of elfutils does. What cannot be removed stays.
    pub(super) fn clean(&self) {
        let stamp = self.directory.join(INTERVAL_FILE);
        let interval = self.setting(INTERVAL_FILE, INTERVAL);
        match stamp.metadata().and_then(|meta| meta.modified()) {
            Ok(last) if last.elapsed().is_ok_and(|age| age < interval) => return,
            // The first time: there is nothing old yet.
            Err(_) => {
                let _ = fs::write(&stamp, format!("{}\n", INTERVAL.as_secs()));
                return;
            }
            Ok(_) => {}
        }
        let _ = fs::write(&stamp, format!("{}\n", interval.as_secs()));
        let unused = self.setting(UNUSED_FILE, UNUSED);
        let old = |path: &Path| {
            let read = path.metadata().and_then(|meta| meta.accessed());
            read.is_ok_and(|read| read.elapsed().is_ok_and(|age| age > unused))
        };
        let builds = fs::read_dir(&self.directory).into_iter().flatten().flatten().map(|item| item.path());
        // Nothing else is ours to remove, should the variable have named some other directory.
        let is_id = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().as_encoded_bytes();
            name.len() >= 4 && name.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        };
        for build in builds.filter(is_id) {
            for item in fs::read_dir(&build).into_iter().flatten().flatten() {
                let name = item.file_name();
                let ours = ["debuginfo", "executable", "source", "section"];
                let ours = ours.iter().any(|kind| name.as_encoded_bytes().starts_with(kind.as_bytes()));
                if ours && old(&item.path()) {
                    let _ = fs::remove_file(item.path());
                }
            }
            // Stays if there is something in it.
            let _ = fs::remove_dir(&build);
        }
    }

    /// Notes that no server has it.
    pub(super) fn note_nowhere(&self, id: &str) {
        let path = self.place(id);
        // A stale note, if anything: a file with something in it is not replaced. Without the note it is asked again.
        if path.metadata().is_ok_and(|meta| meta.len() == 0) {
            let _ = fs::remove_file(&path);
        }
        let _ = OpenOptions::new().write(true).create_new(true).open(path);
    }

    /// A file to write to that is not in the cache before it is complete.
    pub(super) fn prepare(&self, id: &str) -> io::Result<Pending> {
        let wanted = self.place(id);
        let directory = self.directory.join(id);
        DirBuilder::new().mode(0o700).recursive(true).create(&directory)?;
        let path = directory.join(format!("debuginfo.{}", std::process::id()));
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        OpenOptions::new().write(true).create_new(true).open(&path)?;
        Ok(Pending { path, wanted })
    }
}

/// A file on its way into the cache; removed if it does not get there.
#[derive(Debug)]
pub(super) struct Pending {
    path: PathBuf,
    wanted: PathBuf,
}

impl Pending {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Puts it into its place, at once and whole.
    pub(super) fn place(&self) -> io::Result<PathBuf> {
        fs::set_permissions(&self.path, Permissions::from_mode(0o400))?;
        fs::rename(&self.path, &self.wanted)?;
        Ok(self.wanted.clone())
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        // It is gone already if it got there.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{File, FileTimes};
    use std::time::SystemTime;

    #[test]
    fn what_nobody_reads_goes() {
        let directory = env::temp_dir().join(format!("heapledger-cache-{}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        let cache = Cache { directory: directory.clone() };
        let long_ago = SystemTime::now() - 8 * INTERVAL;
        let age = |path: &Path| {
            let file = File::options().write(true).open(path).expect("opened");
            file.set_times(FileTimes::new().set_accessed(long_ago).set_modified(long_ago)).expect("set");
        };
        let file = |name: &str, old: bool| {
            let path = directory.join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            fs::write(&path, "x").expect("written");
            if old {
                age(&path);
            }
            path
        };
        let (read, unread) = (file("abcd01/debuginfo", false), file("abcd02/debuginfo", true));
        let strangers = [file("abcd03/letter", true), file("Documents/debuginfo", true), file("debuginfo", true)];
        cache.clean();
        assert!(unread.exists() && directory.join(INTERVAL_FILE).exists(), "the first time only a stamp is made");
        cache.clean();
        assert!(unread.exists(), "it was cleaned just now");
        age(&directory.join(INTERVAL_FILE));
        cache.clean();
        assert!(read.exists() && !unread.exists() && !directory.join("abcd02").exists());
        assert!(strangers.iter().all(|path| path.exists()), "what is not the cache's stays");
        assert!(directory.join(INTERVAL_FILE).metadata().expect("a stamp").modified().expect("a time") > long_ago);
        fs::remove_dir_all(&directory).expect("removed");
    }
}
