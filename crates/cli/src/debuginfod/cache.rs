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
        Some(Cache { directory })
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
        let told = fs::read_to_string(self.directory.join(MISS_FILE)).ok();
        let miss = told.and_then(|text| text.trim().parse().ok()).map_or(MISS, Duration::from_secs);
        // A time in the future is no reason to believe it for ever.
        let age = meta.modified().ok().and_then(|modified| modified.elapsed().ok());
        if age.is_some_and(|age| age <= miss) { Cached::Nowhere } else { Cached::Unknown }
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
