//! Hash tables that grow by whole segments: nothing in them is ever moved or taken out, so readers need no lock.
//!
//! A segment consists of blocks of 64 *windows*, and a window of places (a cache line or a few). A hash leads to a block, to one of
//! its first 56 windows, and to two of the other eight, the *stash*: they take the keys that find their window full. So
//! a segment is filled to eight tenths and more before the first key finds no room, and few windows have to be looked at. All of it lies close together, because the translation of an address costs more than the line itself. A key is entered in
//! the first segment that has room for it there.
//!
//! All threads look at the same windows in the same order before they enter a key, and take places in their order: so two
//! that enter the same key meet at the same place, and a window that is not full says that the key is in none behind it.

use core::sync::atomic::{AtomicUsize, Ordering};
use heapledger_linux::syscall;

/// Most segments of a table.
pub(crate) const SEGMENTS: usize = 32;
/// Windows of a segment in which a key may be: its own, and those of the stash, which are taken in their order.
pub(crate) const NEIGHBOURS: usize = 1 + STASH;
/// Windows of a block.
const BLOCK_WINDOWS: usize = 64;
/// Those of them that are not of the stash.
const OWN_WINDOWS: usize = 56;
/// Windows of the stash for a key; it is divided into four such groups.
const STASH: usize = 2;
const _: () = assert!(OWN_WINDOWS + 4 * STASH == BLOCK_WINDOWS);
/// So many times the table is doubled; from then on it grows by a third, since what was just made is nearly empty.
const DOUBLINGS: usize = 3;

/// Segments of a table whose windows are of `WINDOW_BYTES`; the first one has `FIRST` blocks.
pub(crate) struct Segments<const WINDOW_BYTES: usize, const FIRST: u32> {
    bases: [AtomicUsize; SEGMENTS],
    count: AtomicUsize,
}

/// Blocks of each segment.
#[expect(clippy::indexing_slicing, reason = "reckoned by the compiler: out of bounds would be its error")]
const fn sizes(first: u32) -> [u32; SEGMENTS] {
    let mut sizes = [first; SEGMENTS];
    let (mut index, mut total) = (1, first);
    while index < SEGMENTS {
        sizes[index] = if index <= DOUBLINGS { total } else { total / 3 };
        total += sizes[index];
        index += 1;
    }
    sizes
}

impl<const WINDOW_BYTES: usize, const FIRST: u32> Segments<WINDOW_BYTES, FIRST> {
    const SIZES: [u32; SEGMENTS] = sizes(FIRST);

    pub(crate) const fn new() -> Self {
        Segments { bases: [const { AtomicUsize::new(0) }; SEGMENTS], count: AtomicUsize::new(0) }
    }

    #[inline(always)]
    fn blocks(segment: usize) -> u32 {
        Self::SIZES.get(segment).copied().unwrap_or(0)
    }

    const fn bytes(blocks: u32) -> usize {
        blocks as usize * BLOCK_WINDOWS * WINDOW_BYTES
    }

    /// Windows of a segment and of all before it.
    #[expect(clippy::indexing_slicing, reason = "reckoned by the compiler: out of bounds would be its error")]
    pub(crate) const fn windows_up_to(segment: usize) -> u64 {
        let (mut index, mut blocks) = (0, 0);
        while index <= segment && index < SEGMENTS {
            blocks += Self::SIZES[index] as u64;
            index += 1;
        }
        blocks * BLOCK_WINDOWS as u64
    }

    pub(crate) fn resident_bytes(&self) -> u64 {
        let known = self.bases.iter().map(|base| base.load(Ordering::Acquire)).zip(Self::SIZES);
        known
            .filter(|(base, _)| *base != 0)
            .map(|(base, blocks)| syscall::resident_bytes(base, Self::bytes(blocks)))
            .sum()
    }

    /// Gives the memory of all segments back.
    ///
    /// # Safety
    /// Nobody may use them any more.
    pub(crate) unsafe fn unmap(&self) {
        for (base, blocks) in self.bases.iter().map(|base| base.load(Ordering::Acquire)).zip(Self::SIZES) {
            if base != 0 {
                // SAFETY: a segment of this size; the caller vouches that nobody uses it.
                unsafe { syscall::unmap(base as *mut u8, Self::bytes(blocks)) };
            }
        }
    }

    /// Where a window of a hash lies. Of the hash, the upper half is used.
    #[inline(always)]
    fn at(base: usize, segment: usize, hash: u64, neighbour: usize) -> usize {
        // The hash as a fraction, times the blocks: a block, and a fraction for what is chosen in it.
        let block = (hash >> 32) * u64::from(Self::blocks(segment));
        let own = u64::from(block as u32) * OWN_WINDOWS as u64;
        let window = match neighbour {
            0 => (own >> 32) as usize,
            _ => OWN_WINDOWS + (own as u32 >> 30) as usize * STASH + neighbour - 1,
        };
        base + ((block >> 32) as usize * BLOCK_WINDOWS + window) * WINDOW_BYTES
    }

    /// How many segments there are.
    #[inline(always)]
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// A window of a hash in a segment that is known to be there. `neighbour` is less than [`NEIGHBOURS`].
    #[inline(always)]
    pub(crate) fn known_window(&self, segment: usize, hash: u64, neighbour: usize) -> Option<usize> {
        match self.bases.get(segment)?.load(Ordering::Relaxed) {
            0 => None,
            base => Some(Self::at(base, segment, hash, neighbour)),
        }
    }

    /// A window of a hash in a segment, which is mapped if it was not.
    pub(crate) fn window(&self, segment: usize, hash: u64, neighbour: usize) -> Option<usize> {
        let place = self.bases.get(segment)?;
        let mut base = place.load(Ordering::Acquire);
        if base == 0 {
            let bytes = Self::bytes(Self::blocks(segment));
            let fresh = syscall::map_anonymous(bytes).ok()? as usize;
            match place.compare_exchange(0, fresh, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    self.count.fetch_max(segment + 1, Ordering::AcqRel);
                    base = fresh;
                }
                Err(other) => {
                    // SAFETY: nobody else has seen the fresh memory.
                    unsafe { syscall::unmap(fresh as *mut u8, bytes) };
                    base = other;
                }
            }
        }
        Some(Self::at(base, segment, hash, neighbour))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    type Table = Segments<64, 4>;

    #[test]
    fn windows_of_all_hashes_lie_inside_and_apart() {
        for segment in 0..SEGMENTS {
            let bytes = Table::bytes(Table::blocks(segment));
            for hash in [0, u64::MAX, 1 << 32, 1 << 63, 0x1234_5678_9abc_def0, 0x7fff_ffff_ffff_ffff] {
                let at = |neighbour| Table::at(1 << 20, segment, hash, neighbour) - (1 << 20);
                for neighbour in 0..NEIGHBOURS {
                    assert!(
                        at(neighbour).is_multiple_of(64) && at(neighbour) < bytes,
                        "{segment} {hash:x} {neighbour}"
                    );
                    assert_eq!(at(neighbour) / 4096, at(0) / 4096, "all on one page");
                    assert_eq!(at(neighbour) / 64 % BLOCK_WINDOWS < OWN_WINDOWS, neighbour == 0);
                }
            }
        }
    }

    #[test]
    fn a_table_grows_by_a_third_once_it_is_large() {
        let mut total = 0;
        for (index, size) in sizes(4).into_iter().enumerate() {
            let growth = f64::from(total + size) / f64::from(total.max(1));
            assert!(size > 0 && (index <= DOUBLINGS || growth <= 1.334), "{index}: {growth}");
            total += size;
        }
        assert_eq!(Table::windows_up_to(SEGMENTS - 1), u64::from(total) * BLOCK_WINDOWS as u64);
        assert!(Table::windows_up_to(SEGMENTS - 1) * 16 > 1 << 26, "room for all ids");
    }

    #[test]
    fn segments_are_nearly_full_when_the_first_key_finds_no_room() {
        const PLACES: u8 = 16;
        for segment in [2, 8, 11] {
            let mut taken = vec![0u8; Table::bytes(Table::blocks(segment)) / 64];
            let mut hash = 1u64;
            let entered = (0u64..)
                .take_while(|_| {
                    hash = hash.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    let mixed = (hash ^ hash >> 29).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                    let mut windows = (0..NEIGHBOURS).map(|neighbour| Table::at(0, segment, mixed, neighbour) / 64);
                    windows.find(|at| taken[*at] < PLACES).map(|at| taken[at] += 1).is_some()
                })
                .count();
            let share = entered as f64 / (taken.len() * usize::from(PLACES)) as f64;
            assert!((0.75..1.0).contains(&share), "segment {segment}: {share}");
            std::println!("{segment} {share}");
        }
    }
}
