//! The counting library of the tests, and whether it has counted what the ledger says.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::ledger::Stats;
use crate::{Result, check};

/// Calls by name, as `libcounter.so` has written them. See `victims/README.md`.
#[derive(Clone, Debug)]
pub struct Counts(BTreeMap<String, u64>);

/// Names of the functions that allocate: `realloc-free` is the other half of `realloc`.
fn allocates(name: &str) -> bool {
    !name.contains("free") && !name.starts_with("delete")
}

impl Counts {
    /// Reads a file of counts. One of zeros is that of a process that was killed before it counted anything.
    pub fn read(path: &Path) -> Result<Counts> {
        const ENTRY: usize = 32;
        const NAME: usize = 24;
        let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let entries = bytes.chunks_exact(ENTRY).map(|entry| {
            let (name, count) = entry.split_at(NAME);
            let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
            (String::from_utf8_lossy(name).into_owned(), u64::from_ne_bytes(count.try_into().unwrap_or_default()))
        });
        let all: BTreeMap<String, u64> = entries.collect();
        let is_unwritten = bytes.iter().all(|byte| *byte == 0);
        check!(is_unwritten || all.contains_key("#counter 1"), "{} is not a file of counts", path.display());
        Ok(Counts(all.into_iter().filter(|(name, count)| !name.starts_with('#') && *count != 0).collect()))
    }

    /// The counts of the process that this ledger is about, if they were written to `BASE.PID`.
    pub fn of(base: &Path, stats: &Stats) -> Result<Counts> {
        let (pid, image) = (stats.inner("process", "pid"), stats.inner("process", "image"));
        let mut path = base.as_os_str().to_owned();
        path.push(format!(".{pid}"));
        if image > 0 {
            path.push(format!(".{image}"));
        }
        Counts::read(Path::new(&path))
    }

    /// The counts without those of some functions.
    pub fn without(mut self, names: &[String]) -> Counts {
        self.0.retain(|name, _| !names.contains(name));
        self
    }

    /// Allocations of all functions.
    pub fn allocations(&self) -> u64 {
        self.0.iter().filter(|(name, _)| allocates(name)).map(|(_, count)| count).sum()
    }

    /// Frees by all functions.
    pub fn frees(&self) -> u64 {
        self.0.iter().filter(|(name, _)| !allocates(name)).map(|(_, count)| count).sum()
    }

    /// Whether a ledger says the same, function by function. Calls of threads that were killed in the middle of one
    /// may have been counted here and not there, and so may be `own`: those that an allocator made because the recorder
    /// asked it something. Calls of a thread for whose state there was no memory are in no function's figure, and in a loss of
    /// their own: so many are missing, not one less.
    pub fn check(&self, stats: &Stats, own: u64) -> Result {
        let slack = stats.may_be_in_flight() + own;
        let stateless = stats.losses().get("lost_no_thread").copied().unwrap_or(0);
        let (begun, mut ended) = (stats.calls("allocated_by"), stats.calls("freed_by"));
        for both in ["realloc", "reallocarray"] {
            if let Some(count) = ended.remove(both) {
                ended.insert(format!("{both}-free"), count);
            }
        }
        ended.remove("unseen free"); // nobody called it
        let ours: BTreeMap<String, u64> = begun.into_iter().chain(ended).filter(|(_, count)| *count != 0).collect();
        let names: std::collections::BTreeSet<&String> = ours.keys().chain(self.0.keys()).collect();
        let mut wrong = Vec::new();
        for name in names {
            let count = |all: &BTreeMap<String, u64>| all.get(name).copied().unwrap_or(0);
            let (own, counted) = (count(&ours), count(&self.0));
            let missing = counted.saturating_sub(stateless);
            if own + slack < missing || own > counted + slack {
                wrong.push(format!("{name}: ledger {own}, counted {counted}"));
            }
        }
        let begun: u64 = ours.iter().filter(|(name, _)| allocates(name)).map(|(_, count)| count).sum();
        if (begun + stateless).abs_diff(self.allocations()) > slack * self.0.len() as u64 {
            wrong.push(format!("{begun} allocations and {stateless} without a state, counted {}", self.allocations()));
        }
        check!(wrong.is_empty(), "{} ({slack} may be missing)", wrong.join("; "));
        Ok(())
    }
}
