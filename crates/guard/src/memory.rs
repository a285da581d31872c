//! Memory that blocks lie in: of this process, or whatever a caller has instead.

use crate::pattern::{Differences, PATTERN_BYTES, Pattern, STEP_BYTES, fetch_soon};

/// Where blocks and their dressing are read and written.
pub trait Memory {
    /// So many bytes from this address on, or `None` if they are not all in this memory.
    fn read<const BYTES: usize>(&self, address: u64) -> Option<[u8; BYTES]>;

    /// Stores bytes from this address on; `None`, and nothing stored, if not all of them are in this memory.
    fn write<const BYTES: usize>(&self, address: u64, bytes: [u8; BYTES]) -> Option<()>;

    /// Four bytes from a multiple of four on.
    #[inline(always)]
    fn read_word(&self, address: u64) -> Option<[u8; 4]> {
        self.read(address)
    }

    /// Stores them there.
    #[inline(always)]
    fn write_word(&self, address: u64, bytes: [u8; 4]) -> Option<()> {
        self.write(address, bytes)
    }

    /// Stores one byte so many times from this address on. This one is for memories that have no faster way.
    fn fill(&self, address: u64, bytes: u64, byte: u8) -> Option<()> {
        (0..bytes).try_for_each(|done| self.write(address.wrapping_add(done), [byte]))
    }

    /// Starts to load what lies at an address, if this memory can be loaded ahead of its use.
    fn fetch_soon(&self, _address: u64) {}

    /// The first of so many addresses at which another byte lies than this one; `None` as well if they are not all in this memory.
    fn first_other(&self, address: u64, bytes: u64, byte: u8) -> Option<u64> {
        let mut addresses = (0..bytes).map(|done| address.wrapping_add(done));
        addresses.find(|at| self.read(*at).is_some_and(|found| found != [byte]))
    }

    /// Whether another byte lies anywhere in a block and around it than is to be there. A part that is not all in this memory is left out,
    /// as [`first_other`](Self::first_other) does.
    fn is_other(&self, wanted: Around) -> bool {
        wanted.parts().into_iter().any(|(from, bytes, byte)| self.first_other(from, bytes, byte).is_some())
    }

    /// Makes a block, and what lies around it, what it is to be. What is not in this memory is left out.
    fn lay(&self, wanted: Around) {
        for (from, bytes, byte) in wanted.parts() {
            let _ = self.fill(from, bytes, byte);
        }
    }
}

/// A block, and what is to lie in it and around it: four parts that follow each other.
#[derive(Clone, Copy, Debug)]
pub struct Around {
    /// The first address of what lies in front of the block.
    pub from: u64,
    /// Bytes of that.
    pub front: u64,
    /// Bytes of the block that are filled, from its first on.
    pub filled: u64,
    /// Its others: anything may lie there.
    pub rest: u64,
    /// Bytes of what lies behind it.
    pub behind: u64,
    /// What lies around it.
    pub edge: u8,
    /// What it is filled with.
    pub fill: u8,
}

impl Around {
    /// Where each of its parts begins, how many bytes it has, and what lies there.
    pub fn parts(&self) -> [(u64, u64, u8); 3] {
        let block = self.from.wrapping_add(self.front);
        let end = block.wrapping_add(self.filled).wrapping_add(self.rest);
        [(self.from, self.front, self.edge), (block, self.filled, self.fill), (end, self.behind, self.edge)]
    }

    /// All of its bytes, if that is a number.
    #[inline(always)]
    fn bytes(&self) -> Option<u64> {
        self.front.checked_add(self.filled)?.checked_add(self.rest)?.checked_add(self.behind)
    }
}

/// A word at any address.
#[derive(Clone, Copy)]
#[repr(C, packed)]
struct Packed<T>(T);

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
    #[inline(always)]
    fn at<const BYTES: usize>(&self, address: u64) -> Option<*mut [u8; BYTES]> {
        let has = self.has(address, BYTES as u64);
        has.then_some(core::ptr::with_exposed_provenance_mut(usize::try_from(address).ok()?))
    }

    #[inline(always)]
    fn has(&self, address: u64, bytes: u64) -> bool {
        let end = address.checked_add(bytes);
        address >= self.first && address != 0 && end.is_some_and(|end| end <= self.end)
    }

    /// Where the last of the pieces begins that make so many bytes, one at least, if all of them lie in the range.
    #[inline(always)]
    fn last_piece(&self, address: u64, bytes: u64) -> Option<u64> {
        let last = address.wrapping_add(bytes).wrapping_sub(PATTERN_BYTES);
        (self.has(address, bytes) && usize::try_from(last.wrapping_add(PATTERN_BYTES).wrapping_sub(1)).is_ok())
            .then_some(last)
    }

    #[inline(never)]
    fn fill_few(&self, address: u64, bytes: u64, byte: u8) -> Option<()> {
        if let Some(last) = bytes.checked_sub(8) {
            // Two words with bytes in common: nothing is left over.
            self.write(address, [byte; 8])?;
            return self.write(address.wrapping_add(last), [byte; 8]);
        }
        let end = address.checked_add(bytes).filter(|_| self.has(address, bytes))?;
        (address..end).try_for_each(|at| self.write(at, [byte]))
    }

    /// Whether all of it lies in the window, at addresses that there are.
    #[inline(always)]
    fn has_all(&self, wanted: &Around) -> bool {
        wanted.bytes().is_some_and(|bytes| self.last_piece(wanted.from, bytes).is_some())
    }

    /// Adds to what differs so far what does in so many bytes, which are all in the window.
    #[inline(always)]
    fn compare(&self, (from, bytes, byte): (u64, u64, u8), differences: &mut Differences) {
        if bytes < PATTERN_BYTES {
            if bytes != 0 && self.is_other_of_few(from, bytes, byte) {
                *differences = Differences::some();
            }
            return;
        }
        let last = from.wrapping_add(bytes).wrapping_sub(PATTERN_BYTES);
        let piece = Pattern::of(byte);
        let mut at = from;
        while last.wrapping_sub(at) >= STEP_BYTES {
            // SAFETY: as in `read`: the caller has looked at the addresses. `last` is never below `at`.
            unsafe { differences.add_step(piece, at as usize) };
            at = at.wrapping_add(STEP_BYTES);
        }
        while at < last {
            // SAFETY: as above.
            unsafe { differences.add(piece, at as usize) };
            at = at.wrapping_add(PATTERN_BYTES);
        }
        // SAFETY: as above.
        unsafe { differences.add(piece, last as usize) };
    }

    /// [`Memory::is_other`], where not all of it is in the window.
    #[cold]
    #[inline(never)]
    fn is_other_in_part(&self, [from, front, filled, rest, behind]: [u64; 5], edge: u8, fill: u8) -> bool {
        let wanted = Around { from, front, filled, rest, behind, edge, fill };
        wanted.parts().into_iter().any(|(from, bytes, byte)| self.first_other(from, bytes, byte).is_some())
    }

    /// Stores one byte so many times, all of them in the window.
    #[inline(always)]
    fn store(&self, (from, bytes, byte): (u64, u64, u8)) {
        if bytes < PATTERN_BYTES {
            if bytes != 0 {
                let _ = self.fill_few(from, bytes, byte);
            }
            return;
        }
        let last = from.wrapping_add(bytes).wrapping_sub(PATTERN_BYTES);
        let piece = Pattern::of(byte);
        let mut at = from;
        while last.wrapping_sub(at) >= STEP_BYTES {
            // SAFETY: as in `write`: the caller has looked at the addresses. `last` is never below `at`.
            unsafe { piece.store_step(at as usize) };
            at = at.wrapping_add(STEP_BYTES);
        }
        while at < last {
            // SAFETY: as above.
            unsafe { piece.store(at as usize) };
            at = at.wrapping_add(PATTERN_BYTES);
        }
        // The last one reaches back into the one before, so that nothing is left over.
        // SAFETY: as above.
        unsafe { piece.store(last as usize) };
    }

    #[inline(never)]
    fn is_other_of_few(&self, address: u64, bytes: u64, byte: u8) -> bool {
        if let Some(last) = bytes.checked_sub(8) {
            let differs = |at: u64| self.read(at).is_some_and(|found| found != [byte; 8]);
            return differs(address) || differs(address.wrapping_add(last));
        }
        self.first_other_of_few(address, bytes, byte).is_some()
    }

    #[inline(never)]
    fn first_other_of_few(&self, address: u64, bytes: u64, byte: u8) -> Option<u64> {
        let end = address.checked_add(bytes).filter(|_| self.has(address, bytes))?;
        (address..end).find(|at| self.read(*at).is_some_and(|found| found != [byte]))
    }
}

impl Memory for Window {
    #[inline(always)]
    fn read<const BYTES: usize>(&self, address: u64) -> Option<[u8; BYTES]> {
        let at = self.at::<BYTES>(address)?;
        // SAFETY: the bytes lie in the window, whose maker says that they may be read. Neither an array of bytes nor a packed word
        // needs alignment, and the program, which may write to them at any time, is no reason to read them twice: the access is volatile.
        // (One of an array would be made byte by byte.)
        unsafe {
            match BYTES {
                8 => at.cast::<Packed<u64>>().read_volatile().0.to_ne_bytes().first_chunk().copied(),
                4 => at.cast::<Packed<u32>>().read_volatile().0.to_ne_bytes().first_chunk().copied(),
                _ => Some(at.read_volatile()),
            }
        }
    }

    #[inline(always)]
    fn write<const BYTES: usize>(&self, address: u64, bytes: [u8; BYTES]) -> Option<()> {
        let at = self.at::<BYTES>(address)?;
        // SAFETY: as in `read`; they may be written as well.
        unsafe {
            match BYTES {
                8 => at.cast::<Packed<u64>>().write_volatile(Packed(u64::from_ne_bytes(*bytes.first_chunk::<8>()?))),
                4 => at.cast::<Packed<u32>>().write_volatile(Packed(u32::from_ne_bytes(*bytes.first_chunk::<4>()?))),
                _ => at.write_volatile(bytes),
            }
        }
        Some(())
    }

    fn fetch_soon(&self, address: u64) {
        fetch_soon(core::ptr::without_provenance::<u8>(address as usize));
    }

    #[inline(always)]
    fn fill(&self, address: u64, bytes: u64, byte: u8) -> Option<()> {
        if bytes < PATTERN_BYTES {
            return self.fill_few(address, bytes, byte);
        }
        self.last_piece(address, bytes)?;
        self.store((address, bytes, byte));
        Some(())
    }

    #[inline(always)]
    fn first_other(&self, address: u64, bytes: u64, byte: u8) -> Option<u64> {
        if bytes < PATTERN_BYTES {
            return self.first_other_of_few(address, bytes, byte);
        }
        let last = self.last_piece(address, bytes)?;
        let piece = Pattern::of(byte);
        let mut at = address;
        while at < last {
            // SAFETY: as in `read`: `last_piece` has looked at the addresses.
            if unsafe { piece.differs(at as usize) } {
                return self.first_other_of_few(at, PATTERN_BYTES, byte);
            }
            at = at.wrapping_add(PATTERN_BYTES);
        }
        // SAFETY: as above.
        let differs = unsafe { piece.differs(last as usize) };
        if differs { self.first_other_of_few(last, PATTERN_BYTES, byte) } else { None }
    }

    #[inline(always)]
    fn is_other(&self, wanted: Around) -> bool {
        if !self.has_all(&wanted) {
            let Around { from, front, filled, rest, behind, edge, fill } = wanted;
            return self.is_other_in_part([from, front, filled, rest, behind], edge, fill);
        }
        let mut differences = Differences::none();
        let [front, filled, behind] = wanted.parts();
        self.compare(front, &mut differences);
        self.compare(filled, &mut differences);
        self.compare(behind, &mut differences);
        differences.is_any()
    }

    #[inline(always)]
    fn lay(&self, wanted: Around) {
        if self.has_all(&wanted) {
            let [front, filled, behind] = wanted.parts();
            self.store(front);
            self.store(filled);
            self.store(behind);
        }
    }
}
