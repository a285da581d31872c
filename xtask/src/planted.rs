//! Something of the user's, planted before the tests and looked for after them.
//!
//! A test that runs `heapledger recover` without a place takes every ended ledger of its user. So the tests have places
//! of their own (`e2e/src/tools.rs`, `crates/cli/tests/common`), and this is the proof, for all of them at once: what
//! lies in the first default place is a live file without a word in it, and old. `recover` removes such.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::step::{Result, target};

/// The variable that names the place.
const VARIABLE: &str = "XDG_RUNTIME_DIR";
/// Older than anything that `recover` thinks is still being made.
const AGE: Duration = Duration::from_secs(24 * 3600);

/// A ledger of somebody else, in a place of his.
pub(crate) struct Planted {
    place: PathBuf,
    file: PathBuf,
}

impl Planted {
    /// Plants it.
    pub(crate) fn new() -> Result<Planted> {
        let place = target().join(format!("planted-{}", std::process::id()));
        let problem = |error: std::io::Error| format!("{}: {error}", place.display());
        let uid = fs::metadata("/proc/self").map_err(problem)?.uid();
        let directory = place.join(format!("heapledger-{uid}"));
        fs::DirBuilder::new().mode(0o700).recursive(true).create(&directory).map_err(problem)?;
        let file = directory.join("00000000deadbeef-0.hlive");
        let written = File::create(&file).map_err(problem)?;
        written.set_len(4096).map_err(problem)?;
        written.set_modified(SystemTime::now() - AGE).map_err(problem)?;
        Ok(Planted { place, file })
    }

    /// What is set in the environment of the tests.
    pub(crate) fn variable(&self) -> (OsString, OsString) {
        (VARIABLE.into(), self.place.clone().into())
    }

    /// Looks for it.
    pub(crate) fn check(&self) -> Result {
        if !self.file.exists() {
            return Err(format!("a test has taken a ledger that was not its own: {} is gone", self.file.display()));
        }
        let directory = self.file.parent().unwrap_or(Path::new(""));
        let items = fs::read_dir(directory).map_err(|error| error.to_string())?.flatten().map(|item| item.path());
        let others: Vec<PathBuf> = items.filter(|path| *path != self.file).collect();
        if others.is_empty() { Ok(()) } else { Err(format!("a test has left {others:?} in the user's place")) }
    }
}

impl Drop for Planted {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_or_left_is_noticed() {
        let planted = Planted::new().expect("planted");
        assert_eq!(planted.check(), Ok(()));
        let other = planted.file.with_file_name("x.children");
        fs::write(&other, "").expect("written");
        assert!(planted.check().expect_err("something is there").contains("left"));
        fs::remove_file(&planted.file).expect("removed");
        assert!(planted.check().expect_err("it is gone").contains("taken"));
    }
}
