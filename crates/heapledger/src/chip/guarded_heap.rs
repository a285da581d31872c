//! Heaps whose blocks are guarded: their memory, and what is known of it.
//!
//! # Safety
//! A room with `unsafe`: it reads and writes around blocks, in memory that a board has said is a heap's.

use core::cell::Cell;
use core::ptr::{null, with_exposed_provenance, with_exposed_provenance_mut};
use heapledger_guard::Memory;
use heapledger_guard::small::SmallHeap;

/// Bits of a [`GuardedHeap`]: one for each eight bytes, in so many words. They are zero at the start.
pub struct GuardBits<const WORDS: usize>([Cell<u32>; WORDS]);

// SAFETY: only looked at alone, as a board says.
unsafe impl<const WORDS: usize> Sync for GuardBits<WORDS> {}

impl<const WORDS: usize> GuardBits<WORDS> {
    /// None is set.
    pub const fn new() -> Self {
        GuardBits([const { Cell::new(0) }; WORDS])
    }
}

impl<const WORDS: usize> Default for GuardBits<WORDS> {
    fn default() -> Self {
        GuardBits::new()
    }
}

/// Memory in which an allocator's blocks lie, and what the guard knows of it. [`guarded_heaps!`](crate::guarded_heaps) makes it.
#[derive(Debug)]
#[repr(C)]
pub struct GuardedHeap {
    pub(super) first: *const u8,
    pub(super) bytes: usize,
    begins: *const Cell<u32>,
    /// Null, if freed memory is not filled, as the next.
    filled: *const Cell<u32>,
    /// How often a block was given.
    given: *const Cell<u32>,
}

// SAFETY: constant; what it leads to is only looked at alone.
unsafe impl Sync for GuardedHeap {}

impl GuardedHeap {
    /// So many bytes from this one on. `begins` has a bit for each eight of them; `filled` as well, and `given` a word, if freed memory is to be filled; else
    /// none of both.
    ///
    /// # Safety
    /// The memory is there, and blocks of one allocator lie in it. The bits are nobody else's.
    pub const unsafe fn new<const BEGINS: usize, const FILLED: usize, const GIVEN: usize>(
        (first, bytes): (*const u8, usize),
        GuardBits(begins): &'static GuardBits<BEGINS>,
        GuardBits(filled): &'static GuardBits<FILLED>,
        GuardBits(given): &'static GuardBits<GIVEN>,
    ) -> Self {
        assert!(BEGINS >= guard_words(bytes) && (FILLED == 0 || FILLED >= guard_words(bytes) && GIVEN != 0));
        GuardedHeap {
            first,
            bytes,
            begins: begins.as_ptr(),
            filled: if FILLED == 0 { null() } else { filled.as_ptr() },
            given: if FILLED == 0 { null() } else { given.as_ptr() },
        }
    }

    /// Where it lies.
    pub fn first(&self) -> usize {
        self.first.expose_provenance()
    }

    /// A word of its row in the ledger.
    pub(super) fn word(&self, place: usize) -> usize {
        let words = [self.first(), self.bytes, self.begins.expose_provenance(), self.filled.expose_provenance()];
        words.get(place).copied().unwrap_or(0)
    }

    /// The level, as the ledger says it.
    pub(super) fn level(&self) -> usize {
        if self.filled.is_null() { 1 } else { 2 }
    }

    /// As the guard's code knows it.
    #[inline(always)]
    pub(super) fn heap(&self) -> SmallHeap<'static> {
        let bits = |bits: *const Cell<u32>| {
            if bits.is_null() {
                return [].as_slice();
            }
            // SAFETY: so many are there, as whoever made this has said, for ever; who calls this is alone with them.
            unsafe { core::slice::from_raw_parts(bits, guard_words(self.bytes)) }
        };
        let into = (self.first.addr() as u32).wrapping_neg() & 7;
        let bytes = (self.bytes as u32).saturating_sub(into) & !7;
        let first = (self.first.addr() as u32).wrapping_add(into);
        SmallHeap { first, bytes, begins: bits(self.begins), filled: bits(self.filled) }
    }

    /// Whether an address lies in it.
    #[inline(always)]
    pub(super) fn has(&self, address: usize) -> bool {
        address.wrapping_sub(self.first.addr()) < self.bytes
    }

    #[inline(always)]
    pub(super) fn memory(&self) -> HeapMemory {
        HeapMemory { first: self.first.expose_provenance() }
    }

    pub(super) fn given(&self) -> Option<&'static Cell<u32>> {
        // SAFETY: null, or a word that is there for ever; who calls this is alone with it.
        unsafe { self.given.as_ref() }
    }
}

/// Words of bits for a heap of so many bytes.
pub const fn guard_words(bytes: usize) -> usize {
    heapledger_guard::small::bit_words(bytes)
}

/// The memory of a heap. Its addresses are the lower halves of those that this program has.
#[derive(Clone, Copy)]
pub(super) struct HeapMemory {
    first: usize,
}

/// A word at any address.
#[derive(Clone, Copy)]
#[repr(C, packed)]
struct Anywhere(u32);

impl HeapMemory {
    #[inline(always)]
    pub(super) fn whole(self, address: u32) -> usize {
        self.first.wrapping_add(address.wrapping_sub(self.first as u32) as usize)
    }

    pub(super) fn fill(self, first: u32, bytes: u32, byte: u8) {
        // SAFETY: memory of the heap that nobody but its allocator's caller has, as `guard` asks for.
        unsafe { with_exposed_provenance_mut::<u8>(self.whole(first)).write_bytes(byte, bytes as usize) };
    }
}

impl Memory for HeapMemory {
    #[inline(always)]
    fn read_word(&self, address: u64) -> Option<[u8; 4]> {
        let place = with_exposed_provenance::<u32>(self.whole(address as u32));
        // SAFETY: as below; a multiple of four, as the heap's first address is one of eight.
        Some(unsafe { place.read_volatile() }.to_ne_bytes())
    }

    #[inline(always)]
    fn write_word(&self, address: u64, bytes: [u8; 4]) -> Option<()> {
        let place = with_exposed_provenance_mut::<u32>(self.whole(address as u32));
        // SAFETY: as above; it may be written.
        unsafe { place.write_volatile(u32::from_ne_bytes(bytes)) };
        Some(())
    }

    #[inline(always)]
    fn read<const BYTES: usize>(&self, address: u64) -> Option<[u8; BYTES]> {
        let place = self.whole(address as u32);
        let mut read = [0; BYTES];
        if BYTES == 4 {
            // SAFETY: in the heap, as what asks for it has looked; a program that writes there at the same time is why it is volatile.
            let word = unsafe { with_exposed_provenance::<Anywhere>(place).read_volatile() }.0;
            read.iter_mut().zip(word.to_ne_bytes()).for_each(|(byte, there)| *byte = there);
        } else {
            for (nth, byte) in read.iter_mut().enumerate() {
                // SAFETY: as above.
                *byte = unsafe { with_exposed_provenance::<u8>(place.wrapping_add(nth)).read_volatile() };
            }
        }
        Some(read)
    }

    #[inline(always)]
    fn write<const BYTES: usize>(&self, address: u64, bytes: [u8; BYTES]) -> Option<()> {
        let place = self.whole(address as u32);
        if let Some(word) = bytes.first_chunk::<4>().filter(|_| BYTES == 4) {
            let word = Anywhere(u32::from_ne_bytes(*word));
            // SAFETY: as above; it may be written.
            unsafe { with_exposed_provenance_mut::<Anywhere>(place).write_volatile(word) };
        } else {
            for (nth, byte) in bytes.into_iter().enumerate() {
                // SAFETY: as above.
                unsafe { with_exposed_provenance_mut::<u8>(place.wrapping_add(nth)).write_volatile(byte) };
            }
        }
        Some(())
    }
}
