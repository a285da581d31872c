//! The history: a ring of freed blocks, of which threads lease entries.
//!
//! A thread fills what it has leased alone, so entries need no coordination. The ring grows up to
//! its capacity and then goes round: the chunk leased longest ago is leased anew and its entries are
//! overwritten one by one. What is leased is kept in private memory, because a page of the file may be given
//! back (see [`History::shrink`]).

use crate::chunks::{Chunks, Lease, Ring};
use crate::ledger::Ledger;
use crate::publication::{publish, retract};
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use heapledger_format::SectionKind;
use heapledger_format::record::HISTORY_WORDS;
use heapledger_linux::syscall;

/// Entries of a chunk, which is a page.
pub const CHUNK_ENTRIES: u64 = 64;

/// Who may write where in the ring.
pub struct History {
    ended: AtomicUsize,
    chunks_max: AtomicU64,
    chunks: Chunks<CHUNK_ENTRIES>,
}

/// The ring's chunks in a ledger.
struct InLedger<'a> {
    history: &'a History,
    ledger: &'a Ledger,
}

impl Ring for InLedger<'_> {
    fn ended(&self, chunk: u64) -> &AtomicU32 {
        self.history.ended(chunk)
    }
    fn grow(&self, entries: u64) -> Option<u64> {
        self.ledger.lease(SectionKind::History, entries)
    }
    fn entries(&self) -> u64 {
        self.ledger.section(SectionKind::History).used()
    }
    fn entries_max(&self) -> u64 {
        self.history.chunks_max.load(Ordering::Relaxed) * CHUNK_ENTRIES
    }
    fn give_back(&self, chunk: u64) -> bool {
        // SAFETY: a retired chunk is never leased again, so nobody stores into it.
        unsafe { self.ledger.give_back(SectionKind::History, chunk * CHUNK_ENTRIES, CHUNK_ENTRIES) }
    }
}

impl History {
    /// No ring.
    pub const fn new() -> History {
        History { ended: AtomicUsize::new(0), chunks_max: AtomicU64::new(0), chunks: Chunks::new() }
    }

    /// Prepares a ring of so many entries. False if there is no memory.
    pub fn start(&self, entries: u64) -> bool {
        let chunks = entries / CHUNK_ENTRIES;
        if chunks == 0 {
            return true;
        }
        let Ok(ended) = syscall::map_anonymous((chunks as usize * 4).next_multiple_of(4096)) else { return false };
        self.ended.store(ended as usize, Ordering::Release);
        self.chunks_max.store(chunks, Ordering::Release);
        true
    }

    /// Gives the memory of the words beside the ring back.
    ///
    /// # Safety
    /// Nobody may use them any more.
    pub(crate) unsafe fn unmap(&self) {
        let (ended, chunks) = (self.ended.load(Ordering::Acquire), self.chunks_max.load(Ordering::Acquire));
        if ended != 0 {
            // SAFETY: mapped by `start` with so many bytes; the caller vouches that nobody uses them.
            unsafe { syscall::unmap(ended as *mut u8, (chunks as usize * 4).next_multiple_of(4096)) };
        }
    }

    /// Whether freed blocks are kept at all.
    pub fn is_on(&self) -> bool {
        self.chunks_max.load(Ordering::Relaxed) != 0
    }

    /// Bytes of the words beside the ring that are present in memory. Asks the kernel.
    pub fn resident_bytes(&self) -> u64 {
        let bytes = self.chunks_max.load(Ordering::Acquire) as usize * 4;
        syscall::resident_bytes(self.ended.load(Ordering::Acquire), bytes)
    }

    fn ended(&self, chunk: u64) -> &AtomicU32 {
        let ended = self.ended.load(Ordering::Acquire);
        // SAFETY: one word per chunk below `chunks_max`, mapped for good; callers stay below it.
        unsafe { &*((ended + chunk as usize * 4) as *const AtomicU32) }
    }

    /// Leases entries to a thread that has filled so many before.
    pub fn lease(&self, ledger: &Ledger, filled: u64) -> Option<Lease> {
        self.chunks.lease(&InLedger { history: self, ledger }, filled)
    }

    /// Ends a lease.
    pub fn release(&self, ledger: &Ledger, lease: Lease) {
        self.chunks.release(&InLedger { history: self, ledger }, lease);
    }

    /// Gives half of the ring's storage back, because records need it more. Returns whether
    /// something was given back.
    pub fn shrink(&self, ledger: &Ledger) -> bool {
        self.chunks.shrink(&InLedger { history: self, ledger })
    }
}

impl Default for History {
    fn default() -> Self {
        Self::new()
    }
}

/// Writes an entry at its place: its commit word 0 first and its own last.
///
/// # Safety
/// `entry` must be leased to the calling thread.
pub unsafe fn write(entry: *mut u8, words: &[u64; HISTORY_WORDS]) {
    const COMMIT: usize = 4;
    // SAFETY: an aligned entry of 8 words, which only this thread writes; readers use atomic loads.
    let place = |index: usize| unsafe { &*entry.cast::<AtomicU64>().add(index) };
    retract(place(COMMIT));
    publish(place, COMMIT, words);
}
