//! Names of ledgers that were finished while their processes go on, as other programs.
//!
//! A recorder takes the first free name of its process (`SESSION-0-PID`, `SESSION-1-PID`, …), and the number in it tells the order of the
//! programs that the process was. So a name stays taken, by an empty file, until the process has ended.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::live::Live;

/// Those names, by the number of their process.
#[derive(Debug, Default)]
pub(super) struct TakenNames(BTreeMap<u32, Vec<PathBuf>>);

impl TakenNames {
    /// The ledger of this name was finished, and an empty file has its place.
    pub(super) fn add(&mut self, live: &Live) {
        if let Some(pid) = live.pid {
            self.0.entry(pid).or_default().push(live.path.clone());
        }
    }

    /// Whether it is one.
    pub(super) fn has(&self, live: &Live) -> bool {
        live.pid.and_then(|pid| self.0.get(&pid)).is_some_and(|paths| paths.contains(&live.path))
    }

    /// The process has ended.
    pub(super) fn release(&mut self, pid: Option<u32>) {
        let paths = pid.and_then(|pid| self.0.remove(&pid)).unwrap_or_default();
        paths.iter().for_each(|path| _ = fs::remove_file(path));
    }

    /// Nobody looks after them any more: those of processes that go on are left, for what these may become; `recover` removes them.
    pub(super) fn release_of_ended(&mut self) {
        let has_ended = |pid: &&u32| !Path::new("/proc").join(pid.to_string()).is_dir();
        let ended: Vec<u32> = self.0.keys().filter(has_ended).copied().collect();
        ended.into_iter().for_each(|pid| self.release(Some(pid)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finish::leave_empty;

    #[test]
    fn a_name_stays_taken_until_its_process_has_ended() {
        let directory = std::env::temp_dir().join(format!("heapledger-taken-{}", std::process::id()));
        fs::create_dir_all(&directory).expect("a directory");
        // No process has such a number: it is above the highest one.
        let live = |image, pid| {
            let name = Live::name("0123456789abcdef", image, Some(pid));
            Live::from_path(&directory.join(name)).expect("a name")
        };
        let (own, gone, other) = (std::process::id(), u32::MAX, u32::MAX - 1);
        let mut taken = TakenNames::default();
        for live in [live(0, own), live(0, gone), live(1, gone), live(0, other)] {
            fs::write(&live.path, "a ledger").expect("written");
            leave_empty(&live.path).expect("replaced");
            assert_eq!(fs::metadata(&live.path).map(|meta| meta.len()).ok(), Some(0));
            assert!(!taken.has(&live));
            taken.add(&live);
            assert!(taken.has(&live));
        }
        taken.release(Some(gone));
        taken.release(None);
        let is_there = |live: Live| live.path.exists();
        assert!(!is_there(live(0, gone)) && !is_there(live(1, gone)) && is_there(live(0, other)));
        assert!(!taken.has(&live(0, gone)));
        taken.release_of_ended();
        assert!(!is_there(live(0, other)) && is_there(live(0, own)), "of one that goes on it stays");
        assert_eq!(fs::read_dir(&directory).map(Iterator::count).ok(), Some(1), "and nothing else");
        fs::remove_dir_all(&directory).expect("removed");
    }
}
