//! The memory of all processes of a session together, over time.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use heapledger_format::Header;
use heapledger_format::header::HEADER_BYTES_MAX;
use heapledger_source::FamilyMemory;

use super::child::Child;
use super::now_unix_ns;
use super::pace::Pace;
use crate::live::Live;
use crate::totals::Totals;

/// So many processes of a moment are named.
const MOST: usize = 8;

/// What is looked at, and when.
pub(super) struct Memory {
    pid: u32,
    start_ticks: u64,
    pub(super) pace: Pace,
    /// The newest ledger of the program that was started.
    first: Option<(Live, File)>,
}

impl Memory {
    pub(super) fn new(pid: u32) -> Memory {
        Memory {
            pid,
            start_ticks: heapledger_source::start_ticks(pid).unwrap_or_default(),
            pace: Pace::new(),
            first: None,
        }
    }

    /// What they hold now; `None` if none is there.
    pub(super) fn look<'c>(&mut self, children: impl Iterator<Item = &'c Child>) -> Option<FamilyMemory> {
        let first = self.first.as_ref().map(|(_, file)| (self.pid, self.start_ticks, live_bytes(file)));
        let others = children.filter_map(|child| {
            let process = child.process.as_ref()?;
            Some((process.pid, process.start_ticks, child.file().ok().and_then(|file| live_bytes(&file))))
        });
        let known = |(pid, start, bytes): (u32, u64, Option<u64>)| Some((pid, start, bytes?));
        let mut held: Vec<(u32, u64, u64)> = first.into_iter().chain(others).filter_map(known).collect();
        if held.is_empty() {
            return None;
        }
        let mut memory = FamilyMemory { at_unix_ns: now_unix_ns(), pss_bytes: Some(0), ..FamilyMemory::default() };
        held.sort_unstable_by_key(|(pid, start, bytes)| (std::cmp::Reverse(*bytes), *pid, *start));
        held.dedup_by_key(|(pid, start, _)| (*pid, *start));
        memory.processes = u32::try_from(held.len()).unwrap_or(u32::MAX);
        for (pid, _, bytes) in &held {
            memory.live_bytes = memory.live_bytes.saturating_add(*bytes);
            let Some(resident) = resident(*pid) else { continue };
            memory.rss_bytes = memory.rss_bytes.saturating_add(resident.rss_bytes);
            memory.pss_bytes = memory.pss_bytes.zip(resident.pss_bytes).map(|(sum, bytes)| sum.saturating_add(bytes));
        }
        held.truncate(MOST);
        memory.most = held;
        Some(memory)
    }

    /// A ledger of the program that was started has appeared: that of what it has become last counts. False if it cannot be opened now.
    pub(super) fn add_first(&mut self, live: &Live) -> bool {
        let Ok(file) = File::open(&live.path) else { return false };
        if self.first.as_ref().is_none_or(|(first, _)| first.image <= live.image) {
            self.first = Some((live.clone(), file));
        }
        true
    }

    /// The program that was started is no more.
    pub(super) fn forget_first(&mut self) {
        self.first = None;
    }
}

fn live_bytes(file: &File) -> Option<u64> {
    let mut bytes = [0; HEADER_BYTES_MAX];
    let there = file.read_at(&mut bytes, 0).ok()?;
    let header = Header::parse(bytes.get(..there)?).ok()?;
    // The header's own live bytes lack what each thread keeps to itself, which of a small process is nearly all.
    Some(Totals::read(&header, &|bytes, at| file.read_exact_at(bytes, at).ok())?.live_bytes())
}

/// Of one process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Resident {
    rss_bytes: u64,
    pss_bytes: Option<u64>,
}

fn resident(pid: u32) -> Option<Resident> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok();
    match rollup.filter(|text| !text.is_empty()) {
        Some(text) => Some(Resident { rss_bytes: kilobytes(&text, "Rss:")?, pss_bytes: kilobytes(&text, "Pss:") }),
        // Without the right to look, or an old kernel.
        None => {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
            Some(Resident { rss_bytes: kilobytes(&status, "VmRSS:")?, pss_bytes: None })
        }
    }
}

/// The bytes of a line `Name:   123 kB`.
fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use heapledger_format::{GlobalCounter, TallyCounter};
    use heapledger_testing::{Builder, Scratch};

    use super::*;

    #[test]
    fn a_process_holds_what_its_threads_have_counted_and_not_only_what_they_have_told() {
        let mut ledger = Builder::new();
        ledger.global(GlobalCounter::LiveBytes, 1000).global(GlobalCounter::PeakBytes, 1000);
        ledger.tally(TallyCounter::BytesAllocated, 20_500).tally(TallyCounter::BytesFreed, 400);
        let scratch = Scratch::new("family-memory");
        ledger.write(&scratch.join("live")).expect("written");
        assert_eq!(live_bytes(&File::open(scratch.join("live")).expect("there")), Some(20_100));
    }

    #[test]
    fn what_the_kernel_says_is_read() {
        let text =
            "55d0-7ffe ---p 00000000 00:00 0 [rollup]\nRss:                1234 kB\nPss:                 600 kB\n";
        assert_eq!((kilobytes(text, "Rss:"), kilobytes(text, "Pss:")), (Some(1234 << 10), Some(600 << 10)));
        assert_eq!((kilobytes(text, "Swap:"), kilobytes("Rss: x kB", "Rss:")), (None, None));
        let own = resident(std::process::id()).expect("this process");
        assert!(own.rss_bytes > 0 && own.pss_bytes.is_none_or(|pss| pss <= own.rss_bytes));
        assert_eq!(resident(0), None);
    }
}
