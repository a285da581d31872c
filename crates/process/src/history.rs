//! The history: a ring of freed blocks, of which threads lease entries.
//!
//! A thread fills what it has leased alone, so entries need no coordination. The ring grows up to
//! its capacity and then goes round: the chunk leased longest ago is leased anew and its entries are
//! overwritten one by one. What is leased is kept in private memory, because a page of the file may be given
//! back (see [`History::shrink`]).

#![forbid(unsafe_code)]

use crate::breaks::heapledger_break_overflow;
use crate::chunks::{Chunks, Lease, RETIRED, Ring};
use crate::ledger::Ledger;
use crate::private::{Alone, Run};
use crate::publication::{publish, retract};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use heapledger_format::SectionKind;
use heapledger_format::record::HISTORY_WORDS;

/// Entries of a chunk, which is a page.
pub const CHUNK_ENTRIES: u64 = 64;
/// The word of an entry that says that it is there.
pub(crate) const FREED_COMMIT: usize = 4;

/// Who may write where in the ring.
pub struct History {
    /// Of how many of a chunk's entries the leases have ended.
    ended: Run<AtomicU32>,
    chunks: Chunks<CHUNK_ENTRIES>,
    /// The rounds of which was told.
    told: AtomicU64,
    /// Chunks that somebody is reading, each plus 1.
    read: [AtomicU64; READERS],
}

/// So many threads may read at the same time.
const READERS: usize = 16;
/// Reads nothing at the moment.
const NO_CHUNK: u64 = u64::MAX;

/// The ring's chunks in a ledger.
struct InLedger<'a> {
    history: &'a History,
    ledger: &'a Ledger,
}

impl Ring for InLedger<'_> {
    fn ended(&self, chunk: u64) -> Option<&AtomicU32> {
        self.history.ended.all().get(chunk as usize)
    }
    fn grow(&self, entries: u64) -> Option<u64> {
        self.ledger.lease(SectionKind::History, entries)
    }
    fn is_short_of(&self, entries: u64) -> bool {
        self.ledger.is_short_of(SectionKind::History, entries)
    }
    fn entries(&self) -> u64 {
        self.ledger.section(SectionKind::History).used()
    }
    fn entries_max(&self) -> u64 {
        u64::from(self.history.ended.count()) * CHUNK_ENTRIES
    }
    fn give_back(&self, chunk: u64) -> bool {
        // A retired chunk is never leased again, so nobody stores into it. Who reads it keeps its storage: to touch what has none may be a
        // signal. It sees that the chunk is retired, or is seen here.
        fence(Ordering::SeqCst);
        let is_read = |place: &AtomicU64| place.load(Ordering::Acquire) == chunk.wrapping_add(1);
        if self.history.read.iter().any(is_read) {
            return false;
        }
        self.ledger.give_back(SectionKind::History, chunk.wrapping_mul(CHUNK_ENTRIES), CHUNK_ENTRIES)
    }
}

impl History {
    /// No ring.
    pub const fn new() -> History {
        History {
            ended: Run::new(),
            chunks: Chunks::new(),
            told: AtomicU64::new(0),
            read: [const { AtomicU64::new(0) }; READERS],
        }
    }

    /// Prepares a ring of so many entries. False if there is no memory.
    pub fn start(&self, entries: u64) -> bool {
        match u32::try_from(entries / CHUNK_ENTRIES) {
            Ok(0) => true,
            Ok(chunks) => self.ended.map(chunks).is_some(),
            Err(_) => false,
        }
    }

    /// Whether the storage of a chunk was given back.
    pub(crate) fn is_retired(&self, chunk: u64) -> bool {
        self.ended.all().get(chunk as usize).is_some_and(|ended| ended.load(Ordering::Acquire) == RETIRED)
    }

    /// Begins to read. `None` if too many do.
    pub(crate) fn reader(&self) -> Option<Reader<'_>> {
        let claims =
            |place: &&AtomicU64| place.compare_exchange(0, NO_CHUNK, Ordering::Acquire, Ordering::Relaxed).is_ok();
        self.read.iter().find(claims).map(|place| Reader { history: self, place })
    }

    /// Gives the memory of the words beside the ring back.
    pub(crate) fn unmap(&self, alone: &Alone) {
        self.ended.unmap(alone);
    }

    /// Whether freed blocks are kept at all.
    #[inline(always)]
    pub fn is_on(&self) -> bool {
        self.ended.count() != 0
    }

    /// Bytes of the words beside the ring that are present in memory. Asks the kernel.
    pub fn resident_bytes(&self) -> u64 {
        self.ended.resident_bytes()
    }

    /// Leases entries to a thread that has filled so many before.
    pub fn lease(&self, ledger: &Ledger, filled: u64) -> Option<Lease> {
        let lease = self.chunks.lease(&InLedger { history: self, ledger }, filled);
        let rounds = self.chunks.rounds();
        if rounds > self.told.load(Ordering::Relaxed) && self.told.fetch_max(rounds, Ordering::Relaxed) < rounds {
            heapledger_break_overflow();
        }
        lease
    }

    /// How often it has begun to overwrite what it holds.
    pub fn rounds(&self) -> u64 {
        self.told.load(Ordering::Relaxed)
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

/// Somebody who reads entries that others may be writing.
pub(crate) struct Reader<'h> {
    history: &'h History,
    place: &'h AtomicU64,
}

impl Reader<'_> {
    /// Whether a chunk has storage, and keeps it until the next one is asked for.
    pub(crate) fn may_read(&self, chunk: u64) -> bool {
        self.place.store(chunk.wrapping_add(1), Ordering::Release);
        fence(Ordering::SeqCst);
        !self.history.is_retired(chunk)
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        self.place.store(0, Ordering::Release);
    }
}

impl Default for History {
    fn default() -> Self {
        Self::new()
    }
}

/// Writes an entry that is leased to the calling thread: its commit word 0 first and its own last.
#[inline(always)]
pub fn write(entry: &[AtomicU64; HISTORY_WORDS], words: &[u64; HISTORY_WORDS]) {
    retract(&entry[FREED_COMMIT]);
    publish(entry, FREED_COMMIT, words);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn so_many_read_at_the_same_time() {
        let history = History::new();
        let readers: Vec<_> = (0..READERS).map(|_| history.reader().expect("a place")).collect();
        assert!(history.reader().is_none());
        assert!(readers.iter().all(|reader| reader.may_read(3)));
        drop(readers);
        assert!(history.reader().is_some());
    }
}
