//! Opens a ledger wherever it lies: a live file that a program still maps, a finished file, a process, a core
//! dump, an image of memory.
//!
//! You supply a path or a process id; this crate answers with entries, stacks, threads, heaps,
//! modules and totals, in bounded pieces. It names nothing and reckons nothing.
//!
//! * Files are read by positioned reads, never mapped: a ledger that is cut while it is read gives
//!   an answer, not SIGBUS, and no hole of a sparse file is filled by looking at it.
//! * A live ledger is read while its program runs. Each record is whole, as its writer published it,
//!   or absent and counted as *in flight* ([`Records::in_flight`]).
//! * Nothing in a file is believed. What is damaged is passed over and counted in [`Damage`];
//!   memory stays in proportion to what the file really holds.
//!
//! ```
//! use heapledger_source::Ledger;
//! use heapledger_testing::Builder;
//!
//! let path = std::env::temp_dir().join(format!("heapledger-doc-{}.hlive", std::process::id()));
//! Builder::new().block(0x1000, 24).block(0x2000, 100).write(&path)?;
//! let ledger = Ledger::open(&path)?;
//! let mut records = ledger.records();
//! let mut bytes = 0;
//! while let Some(entries) = records.next_chunk()? {
//!     bytes += entries.iter().filter_map(|entry| entry.size).sum::<u64>();
//! }
//! assert_eq!(bytes, 124);
//! # std::fs::remove_file(&path)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod cache;
mod chip_guard;
mod coredump;
mod damage;
mod decode;
mod error;
mod esp;
mod family;
mod file;
mod finish;
mod finished;
mod found;
mod free_depths;
mod hex;
mod inherited;
mod labels;
mod ledger;
mod life;
mod live;
mod planes;
mod process;
mod program;
mod quick;
mod records;
mod scan;
mod search;
mod shown;
mod sites;
mod snapshot;
mod storage;
mod sums;
mod system;
mod tables;
mod timeline;
mod told;

pub use chip_guard::{ChipGuard, ChipHeap};
pub use damage::Damage;
pub use error::SourceError;
pub use esp::{has_core_text, is_core_text};
pub use family::{
    Family, FamilyEnded, FamilyHead, FamilyLine, FamilyLoss, FamilyMemory, FamilyProcess, FamilyWriter, Member,
    MemberEnd, MemberLedger, ProcessKey, ProcessTree, SESSION_FILE, TreeProcess,
};
pub use finish::{Finished, More, finish, finish_with};
pub use found::{Found, FoundIn, ImageOptions, LedgerAt, WhichLedger};
pub use free_depths::{FreeDepthChange, FreeDepths};
pub use hex::is_hex;
pub use inherited::Fork;
pub use labels::Labels;
pub use ledger::Ledger;
pub use life::Life;
pub use process::ProcessInfo;
pub use program::ProgramMemory;
pub use quick::{QuickHash, QuickHasher, QuickMap};
pub use records::{FreedRecords, Records};
pub use scan::Scanned;
pub use shown::Shown;
pub use sites::{Code, CodeMarks, ScriptLine, Stack};
pub use snapshot::{Meanwhile, Snapshot, Taken};
pub use storage::{SectionStorage, Storage};
pub use sums::{FreedSum, FreedSums, LivedSum, PeakPlace};
pub use system::{Mapping, ProcessSeen, process_seen, processes, start_ticks, start_ticks_of_any, zombie_status};
pub use tables::{Heap, HeapFigures, Module, Tallies, Thread, ThreadState};
pub use timeline::{Curve, POINTS_MAX};
pub use told::{FoundError, NamedRow};

/// What a mutex protects. A thread that panicked meanwhile left it as whole as any other: nothing here unwinds.
fn locked<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
