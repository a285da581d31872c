//! Memory that blocks lie in: of this process, or whatever a caller has instead.

use core::ops::Range;

/// Where blocks and their dressing are read and written.
pub trait Memory {
    /// So many bytes from this address on, or `None` if they are not all in this memory.
    fn read<const BYTES: usize>(&self, address: u64) -> Option<[u8; BYTES]>;

    /// Stores bytes from this address on; `None`, and nothing stored, if not all of them are in this memory.
    fn write<const BYTES: usize>(&self, address: u64, bytes: [u8; BYTES]) -> Option<()>;

    /// Stores one byte so many times from this address on. This one is for memories that have no faster way.
    fn fill(&self, address: u64, bytes: u64, byte: u8) -> Option<()> {
        (0..bytes).try_for_each(|done| self.write(address.wrapping_add(done), [byte]))
    }

    /// The first of so many addresses at which another byte lies than this one; `None` as well if they are not all in this memory.
    fn first_other(&self, address: u64, bytes: u64, byte: u8) -> Option<u64> {
        let mut addresses = (0..bytes).map(|done| address.wrapping_add(done));
        addresses.find(|at| self.read(*at).is_some_and(|found| found != [byte]))
    }
}

/// What is read and written at once where there is much of it.
type Word = u64;
const WORD_BYTES: u64 = size_of::<Word>() as u64;

/// A range of this process's own memory.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    first: u64,
    end: u64,
}

impl Window {
    /// The range of so many bytes from this address on; an end past the last address is that one.
    ///
    /// # Safety
    ///
    /// As long as it is in use, what is asked of functions of this crate with it are blocks that [`dress`](crate::dress)
    /// may write to or has dressed, in this range, or all of it is an arena's ([`Full`](crate::Full), [`Closed`](crate::Closed)): their memory, from what the allocator gave to the end of the slack, is
    /// mapped, may be read and written, and no reference to any of it is used meanwhile.
    pub const unsafe fn new(first: u64, bytes: u64) -> Self {
        Self { first, end: first.saturating_add(bytes) }
    }

    /// A pointer to so many bytes at this address, if they lie in the range.
    fn at<const BYTES: usize>(&self, address: u64) -> Option<*mut [u8; BYTES]> {
        let has = self.has(address, BYTES as u64);
        has.then_some(core::ptr::with_exposed_provenance_mut(usize::try_from(address).ok()?))
    }

    fn has(&self, address: u64, bytes: u64) -> bool {
        let end = address.checked_add(bytes);
        address >= self.first && address != 0 && end.is_some_and(|end| end <= self.end)
    }

    /// So many bytes at this address as single ones, words, and single ones, if they lie in the range.
    fn parts(&self, address: u64, bytes: u64) -> Option<(Range<u64>, Range<u64>, Range<u64>)> {
        let end = address.checked_add(bytes).filter(|_| self.has(address, bytes))?;
        usize::try_from(end.wrapping_sub(1)).ok()?;
        let first = address.checked_next_multiple_of(WORD_BYTES).unwrap_or(end).min(end);
        let last = (end & !WORD_BYTES.wrapping_sub(1)).max(first);
        Some((address..first, first..last, last..end))
    }
}

impl Memory for Window {
    fn read<const BYTES: usize>(&self, address: u64) -> Option<[u8; BYTES]> {
        let at = self.at(address)?;
        // SAFETY: the bytes lie in the window, whose maker says that they may be read. An array of bytes needs no alignment,
        // and the program, which may write to them at any time, is no reason to read them twice: the access is volatile.
        Some(unsafe { at.read_volatile() })
    }

    fn write<const BYTES: usize>(&self, address: u64, bytes: [u8; BYTES]) -> Option<()> {
        let at = self.at(address)?;
        // SAFETY: as in `read`; they may be written as well.
        unsafe { at.write_volatile(bytes) };
        Some(())
    }
    fn fill(&self, address: u64, bytes: u64, byte: u8) -> Option<()> {
        let (front, words, back) = self.parts(address, bytes)?;
        let single = |at: u64| {
            let place: *mut u8 = core::ptr::with_exposed_provenance_mut(at as usize);
            // SAFETY: as in `write`: `parts` has looked at the addresses.
            unsafe { place.write_volatile(byte) };
        };
        front.for_each(single);
        for at in words.step_by(WORD_BYTES as usize) {
            let place: *mut Word = core::ptr::with_exposed_provenance_mut(at as usize);
            // SAFETY: as in `write`; it is aligned, and all of it belongs to the part.
            unsafe { place.write_volatile(Word::from_ne_bytes([byte; WORD_BYTES as usize])) };
        }
        back.for_each(single);
        Some(())
    }

    fn first_other(&self, address: u64, bytes: u64, byte: u8) -> Option<u64> {
        let (mut front, words, mut back) = self.parts(address, bytes)?;
        let single = |at: &u64| {
            let place: *const u8 = core::ptr::with_exposed_provenance(*at as usize);
            // SAFETY: as in `read`: `parts` has looked at the addresses.
            unsafe { place.read_volatile() != byte }
        };
        let other = |at: &u64| {
            let place: *const Word = core::ptr::with_exposed_provenance(*at as usize);
            // SAFETY: as in `read`; it is aligned, and all of it belongs to the part.
            unsafe { place.read_volatile() != Word::from_ne_bytes([byte; WORD_BYTES as usize]) }
        };
        let word = |at: u64| (at..at.wrapping_add(WORD_BYTES)).find(single);
        front
            .find(single)
            .or_else(|| words.step_by(WORD_BYTES as usize).find(other).and_then(word))
            .or_else(|| back.find(single))
    }
}
