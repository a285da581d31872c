//! Directories for one test, gone at its end.

use std::fs;
use std::path::{Path, PathBuf};

/// A directory to work in, and one in memory for unfinished ledgers.
#[derive(Debug)]
pub struct Scratch {
    work: heapledger_testing::Scratch,
    live: heapledger_testing::Scratch,
}

impl Scratch {
    /// Two new directories.
    pub fn new() -> Scratch {
        Scratch {
            work: heapledger_testing::Scratch::new("e2e"),
            live: heapledger_testing::Scratch::in_memory("e2e-live"),
        }
    }

    /// Where the program works and finished ledgers go.
    pub fn work(&self) -> &Path {
        self.work.path()
    }

    /// The base of the directory of unfinished ledgers.
    pub fn live(&self) -> &Path {
        self.live.path()
    }

    /// A file in the work directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.work.join(name)
    }

    /// Finished ledgers, by name.
    pub fn finished(&self) -> Vec<PathBuf> {
        files(self.work.path()).into_iter().filter(|path| name(path).contains(".hl")).collect()
    }

    /// What lies in the directory of unfinished ledgers.
    pub fn unfinished(&self) -> Vec<PathBuf> {
        files(self.live.path()).iter().flat_map(|directory| files(directory)).collect()
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
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
