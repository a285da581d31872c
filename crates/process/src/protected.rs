//! Pages of blocks that the program has closed itself (`mprotect`: the last page of a stack that it has from `posix_memalign`), or keeps from
//! its children (`MADV_DONTFORK`). An allocator need not look at them, and we do.
#![forbid(unsafe_code)]

use crate::guarded::GUARD;
use crate::{arenas, family};
use core::cell::Cell;
use core::sync::atomic::{AtomicBool, Ordering};
use heapledger_guard::{Around, Life, Memory, System};
use heapledger_linux::syscall;

const PAGE_BYTES: u64 = 4096;

/// The program has closed pages in which guarded blocks may lie.
static ARE_SOME: AtomicBool = AtomicBool::new(false);

/// Whether there may be such pages: then a block's are [opened](open) before anybody looks at it for the last time.
#[inline(always)]
pub fn are_some() -> bool {
    ARE_SOME.load(Ordering::Relaxed)
}

/// The program is about to close so many bytes from an address on, to writing at least. Whether these are the first in which blocks may lie.
#[cold]
pub fn closes(first: usize, bytes: usize) -> bool {
    let (own, own_bytes) = arenas::range();
    let (first, end) = (first as u64, (first as u64).saturating_add(bytes as u64));
    // Without memory of the guard's own blocks may lie anywhere.
    let may_be = own_bytes == 0 || first < own.saturating_add(own_bytes) && own < end;
    may_be && !ARE_SOME.swap(true, Ordering::Relaxed)
}

/// Opens all pages in which a block lies that is being given back: what the program keeps of it is nothing.
#[cold]
#[inline(never)]
pub fn open(start: u64, bytes: u64) {
    let first = start & !PAGE_BYTES.wrapping_sub(1);
    let end = start.saturating_add(bytes).next_multiple_of(PAGE_BYTES);
    // Whoever closes a page has it for itself.
    if bytes >= PAGE_BYTES && GUARD.makes_calls() {
        let _ = syscall::make_accessible(first as *mut u8, end.saturating_sub(first) as usize);
    }
}

/// The same of the live block of the guard's own memory that begins here.
#[cold]
#[inline(never)]
pub fn open_live(address: u64) {
    if let Some(block) = arenas::lookup(address).filter(|block| block.life == Life::Live && block.offset == 0) {
        open(block.start, block.size);
    }
}

/// Memory of which some may not be there: the kernel is asked about each page before it is looked at, where that can be.
pub(crate) struct Doubted<M> {
    memory: M,
    is_in_doubt: bool,
    /// The page that was asked about last.
    page: Cell<u64>,
    is_there: Cell<bool>,
    /// So many blocks, or sides of one, that are not all there.
    refused: Cell<u64>,
}

impl<M> Doubted<M> {
    pub(crate) fn new(memory: M) -> Doubted<M> {
        Doubted {
            memory,
            is_in_doubt: is_in_doubt(),
            page: Cell::new(u64::MAX),
            is_there: Cell::new(false),
            refused: Cell::new(0),
        }
    }

    /// So many blocks, or sides of one, could not be looked at.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.get()
    }

    fn has(&self, first: u64, bytes: u64) -> bool {
        if !self.is_in_doubt || bytes == 0 {
            return true;
        }
        let mut page = first & !PAGE_BYTES.wrapping_sub(1);
        while page < first.saturating_add(bytes) {
            if self.page.replace(page) != page {
                self.is_there.set(syscall::readable(page as usize));
            }
            if !self.is_there.get() {
                self.refused.set(self.refused.get().wrapping_add(1));
                return false;
            }
            page = page.saturating_add(PAGE_BYTES);
        }
        true
    }
}

/// Whether memory of blocks may not be there.
pub(crate) fn is_in_doubt() -> bool {
    are_some() || family::forks() != 0
}

impl<M: Memory> Memory for Doubted<M> {
    fn read<const BYTES: usize>(&self, address: u64) -> Option<[u8; BYTES]> {
        if self.has(address, BYTES as u64) { self.memory.read(address) } else { None }
    }

    fn write<const BYTES: usize>(&self, address: u64, bytes: [u8; BYTES]) -> Option<()> {
        if self.has(address, BYTES as u64) { self.memory.write(address, bytes) } else { None }
    }

    fn first_other(&self, address: u64, bytes: u64, byte: u8) -> Option<u64> {
        if self.has(address, bytes) { self.memory.first_other(address, bytes, byte) } else { None }
    }

    fn is_other(&self, wanted: Around) -> bool {
        if !self.is_in_doubt {
            return self.memory.is_other(wanted);
        }
        let refused = self.refused.get();
        let is_other = wanted.parts().into_iter().any(|part| self.first_other(part.0, part.1, part.2).is_some());
        // One block, however many parts of it are not there.
        self.refused.set(self.refused.get().min(refused.wrapping_add(1)));
        is_other
    }
}

impl<M: System> System for Doubted<M> {
    fn close(&self, first: u64, bytes: u64) -> bool {
        self.memory.close(first, bytes)
    }

    fn open(&self, first: u64, bytes: u64) -> bool {
        self.memory.open(first, bytes)
    }

    fn discard(&self, first: u64, bytes: u64) -> bool {
        self.memory.discard(first, bytes)
    }
}
