//! Directories for one test, gone at its end.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A directory to work in, and one in memory for unfinished ledgers.
#[derive(Debug)]
pub struct Scratch {
    work: PathBuf,
    live: PathBuf,
}

impl Scratch {
    /// Two new directories.
    pub fn new() -> Scratch {
        let name = format!("heapledger-e2e-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let memory = Path::new("/dev/shm");
        let work = std::env::temp_dir().join(&name);
        let live = if memory.is_dir() { memory.join(&name) } else { work.join("live") };
        for path in [&work, &live] {
            let _ = fs::remove_dir_all(path);
            fs::create_dir_all(path).expect("a scratch directory");
        }
        Scratch { work, live }
    }

    /// Where the program works and finished ledgers go.
    pub fn work(&self) -> &Path {
        &self.work
    }

    /// The base of the directory of unfinished ledgers.
    pub fn live(&self) -> &Path {
        &self.live
    }

    /// A file in the work directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.work.join(name)
    }

    /// Finished ledgers, by name.
    pub fn finished(&self) -> Vec<PathBuf> {
        files(&self.work).into_iter().filter(|path| name(path).contains(".hl")).collect()
    }

    /// What lies in the directory of unfinished ledgers.
    pub fn unfinished(&self) -> Vec<PathBuf> {
        files(&self.live).iter().flat_map(|directory| files(directory)).collect()
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // HEAPLEDGER_E2E_KEEP=1: somebody wants to look.
        if std::env::var_os("HEAPLEDGER_E2E_KEEP").is_none() {
            let _ = fs::remove_dir_all(&self.live);
            let _ = fs::remove_dir_all(&self.work);
        }
    }
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = fs::read_dir(directory)
        .map(|items| items.filter_map(|item| Some(item.ok()?.path())).collect())
        .unwrap_or_default();
    all.sort();
    all
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
