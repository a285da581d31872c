//! Directories that belong to one test and go when it ends.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, process};

/// What tests that write a lot may need in memory together. Containers often have 64 MiB there.
const ROOM_KIB: u64 = 512 << 10;

/// A directory that nobody else uses: not another test of this process, nor the same test run twice at once.
/// It is removed with all that is in it when the value is dropped.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes one below the directory for temporary files; `name` is for the person who finds it after a crash.
    ///
    /// # Panics
    /// If it cannot be made.
    pub fn new(name: &str) -> Scratch {
        Scratch::below(&env::temp_dir(), name)
    }

    /// Makes one in memory (`/dev/shm`, where there is room and one may write), for tests that write a lot.
    ///
    /// # Panics
    /// If it cannot be made.
    pub fn in_memory(name: &str) -> Scratch {
        static IS_ROOMY: OnceLock<bool> = OnceLock::new();
        let memory = Path::new("/dev/shm");
        if *IS_ROOMY.get_or_init(|| is_roomy(memory)) { Scratch::below(memory, name) } else { Scratch::new(name) }
    }

    fn below(base: &Path, name: &str) -> Scratch {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let count = MADE.fetch_add(1, Ordering::Relaxed);
        let path = base.join(format!("heapledger-{name}-{}-{count}", process::id()));
        // What an earlier process of the same number left there when it was killed.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a directory of its own for a test");
        Scratch(path)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Where a file of this name is, or would be.
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file there.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn write(&self, name: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.join(name);
        fs::write(&path, bytes).expect("a file for a test");
        path
    }
}

/// Whether one may write there, and as far as `df` says there is room.
fn is_roomy(place: &Path) -> bool {
    let trial = place.join(format!("heapledger-trial-{}", process::id()));
    let is_writable = fs::create_dir(&trial).is_ok() && fs::remove_dir(&trial).is_ok();
    let free_kib = || {
        let told = Command::new("df").args(["-k", "--output=avail"]).arg(place).output().ok()?;
        String::from_utf8_lossy(&told.stdout).split_whitespace().last()?.parse::<u64>().ok()
    };
    is_writable && free_kib().is_none_or(|free| free >= ROOM_KIB)
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // HEAPLEDGER_E2E_KEEP=1: somebody wants to look.
        if env::var_os("HEAPLEDGER_E2E_KEEP").is_none() {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}
