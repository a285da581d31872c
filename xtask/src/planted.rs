//! Something of the user's, planted before the tests and looked for after them.
//!
//! A test that runs `heapledger recover` without a place takes every ended ledger of its user. So the tests have places
//! of their own (`e2e/src/tools.rs`, `crates/cli/tests/common`), and this is the proof, for all of them at once: what
//! lies in the first two default places is a live file without a word in it, and old. `recover` removes such.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::step::{Result, target};

/// The first default place, which no variable names.
const MEMORY: &str = "/dev/shm";
/// The variable that names the second one.
const VARIABLE: &str = "XDG_RUNTIME_DIR";
/// Older than anything that `recover` thinks is still being made.
const AGE: Duration = Duration::from_secs(24 * 3600);

/// Ledgers of somebody else, in places of his.
pub(crate) struct Planted {
    /// Where the variable leads: nobody else puts anything there.
    place: PathBuf,
    file: PathBuf,
    /// In the user's own first place, if there is one, among whatever else lies there.
    in_memory: Option<PathBuf>,
}

/// A live file without a word in it, and old.
fn plant(file: &Path) -> std::io::Result<()> {
    let directory = file.parent().unwrap_or(Path::new(""));
    fs::DirBuilder::new().mode(0o700).recursive(true).create(directory)?;
    let written = File::create(file)?;
    written.set_len(4096)?;
    written.set_modified(SystemTime::now() - AGE)
}

impl Planted {
    /// Plants them, the second one below a directory, the first one below another if there is that.
    pub(crate) fn new(place: PathBuf, memory: &Path) -> Result<Planted> {
        let problem = |error: std::io::Error| format!("{}: {error}", place.display());
        let uid = fs::metadata("/proc/self").map_err(problem)?.uid();
        // As a live file of this process would be called, but for the session, which is nobody's.
        let name = format!("heapledger-{uid}/00000000deadbeef-{}.hlive", std::process::id());
        let file = place.join(&name);
        plant(&file).map_err(problem)?;
        let in_memory = Some(memory.join(&name)).filter(|_| memory.is_dir());
        if let Some(in_memory) = &in_memory {
            plant(in_memory).map_err(|error| format!("{}: {error}", in_memory.display()))?;
        }
        Ok(Planted { place, file, in_memory })
    }

    /// Plants them for the tests that this command runs.
    pub(crate) fn for_tests() -> Result<Planted> {
        Planted::new(target().join(format!("planted-{}", std::process::id())), Path::new(MEMORY))
    }

    /// What is set in the environment of the tests.
    pub(crate) fn variable(&self) -> (OsString, OsString) {
        (VARIABLE.into(), self.place.clone().into())
    }

    /// Looks for them.
    pub(crate) fn check(&self) -> Result {
        if let Some(gone) =
            [Some(&self.file), self.in_memory.as_ref()].into_iter().flatten().find(|file| !file.exists())
        {
            return Err(format!("a test has taken a ledger that was not its own: {} is gone", gone.display()));
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
        if let Some(in_memory) = &self.in_memory {
            let _ = fs::remove_file(in_memory);
            // It stays, if there is something else in it.
            let _ = in_memory.parent().map(fs::remove_dir);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_or_left_is_noticed() {
        let scratch = target().join(format!("planted-test-{}", std::process::id()));
        let memory = scratch.join("memory");
        fs::create_dir_all(&memory).expect("made");
        let planted = Planted::new(scratch.join("place"), &memory).expect("planted");
        assert_eq!(planted.check(), Ok(()));
        let in_memory = planted.in_memory.clone().expect("planted in memory, too");
        fs::write(in_memory.with_file_name("of the user"), "").expect("written");
        assert_eq!(planted.check(), Ok(()));
        let other = planted.file.with_file_name("x.children");
        fs::write(&other, "").expect("written");
        assert!(planted.check().expect_err("something is there").contains("left"));
        fs::remove_file(&in_memory).expect("removed");
        assert!(planted.check().expect_err("it is gone").contains("taken"));
        fs::write(&in_memory, "").expect("written again");
        fs::remove_file(&planted.file).expect("removed");
        assert!(planted.check().expect_err("it is gone").contains("taken"));
        drop(planted);
        assert!(
            in_memory.with_file_name("of the user").exists() && !in_memory.exists() && !scratch.join("place").exists()
        );
        fs::remove_dir_all(&scratch).expect("removed");
    }
}
