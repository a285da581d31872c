//! Hash tables that grow by whole segments: nothing in them is ever moved or taken out, so readers need no lock.
//!
//! A segment consists of blocks of 64 *windows*, and a window of places (a cache line or a few). A hash leads to a block, to one of
//! its first 56 windows, and to two of the other eight, the *stash*: they take the keys that find their window full. So
//! a segment is filled to eight tenths and more before the first key finds no room, and few windows have to be looked at. All of it lies close together, because the translation of an address costs more than the line itself. A key is entered in
//! the first segment that has room for it there.
//!
//! All threads look at the same windows in the same order before they enter a key, and take places in their order: so two
//! that enter the same key meet at the same place, and a window that is not full says that the key is in none behind it.

#![forbid(unsafe_code)]

use crate::private::{Alone, Run, Zeros};
use core::sync::atomic::{AtomicUsize, Ordering};

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

/// Segments of a table with such windows; the first one has `FIRST` blocks.
pub(crate) struct Segments<WINDOW, const FIRST: u32> {
    blocks: [Run<[WINDOW; BLOCK_WINDOWS]>; SEGMENTS],
    count: AtomicUsize,
}

/// Blocks of each segment.
#[expect(clippy::indexing_slicing, reason = "reckoned by the compiler: out of bounds would be its error")]
const fn sizes(first: u32) -> [u32; SEGMENTS] {
    let mut sizes = [first; SEGMENTS];
    let (mut index, mut total) = (1, first);
    while index < SEGMENTS {
        sizes[index] = if index <= DOUBLINGS { total } else { total / 3 };
        total = total.wrapping_add(sizes[index]);
        index = index.wrapping_add(1);
    }
    sizes
}

/// Which window of its block a hash leads to. `fraction`: what of the hash the choice of the block has left.
#[inline(always)]
fn window_in_block(fraction: u32, neighbour: usize) -> usize {
    let own = u64::from(fraction).wrapping_mul(OWN_WINDOWS as u64);
    match neighbour {
        0 => (own >> 32) as usize,
        _ => ((own as u32 >> 30) as usize)
            .wrapping_mul(STASH)
            .wrapping_add(OWN_WINDOWS)
            .wrapping_add(neighbour)
            .wrapping_sub(1),
    }
}

impl<WINDOW: Zeros, const FIRST: u32> Segments<WINDOW, FIRST> {
    const SIZES: [u32; SEGMENTS] = sizes(FIRST);

    pub(crate) const fn new() -> Self {
        Segments { blocks: [const { Run::new() }; SEGMENTS], count: AtomicUsize::new(0) }
    }

    /// Windows of a segment and of all before it.
    #[expect(clippy::indexing_slicing, reason = "reckoned by the compiler: out of bounds would be its error")]
    pub(crate) const fn windows_up_to(segment: usize) -> u64 {
        let (mut index, mut blocks) = (0, 0u64);
        while index <= segment && index < SEGMENTS {
            blocks = blocks.wrapping_add(Self::SIZES[index] as u64);
            index = index.wrapping_add(1);
        }
        blocks.wrapping_mul(BLOCK_WINDOWS as u64)
    }

    pub(crate) fn resident_bytes(&self) -> u64 {
        self.blocks.iter().map(Run::resident_bytes).sum()
    }

    /// Gives the memory of all segments back.
    pub(crate) fn unmap(&self, alone: &Alone) {
        self.blocks.iter().for_each(|blocks| blocks.unmap(alone));
    }

    /// How many segments there are.
    #[inline(always)]
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// A window of a hash, of which the upper half is used, in a segment that is known to be there. `neighbour` is less than
    /// [`NEIGHBOURS`].
    #[inline(always)]
    pub(crate) fn known_window(&self, segment: usize, hash: u64, neighbour: usize) -> Option<&'static WINDOW> {
        // The hash as a fraction of the blocks: one of them, and a fraction for what is chosen in it.
        let (block, left) = self.blocks.get(segment)?.at((hash >> 32) as u32)?;
        block.get(window_in_block(left, neighbour))
    }

    /// A window of a hash in a segment, which is mapped if it was not.
    pub(crate) fn window(&self, segment: usize, hash: u64, neighbour: usize) -> Option<&'static WINDOW> {
        let blocks = self.blocks.get(segment)?;
        if blocks.all().is_empty() {
            blocks.map(*Self::SIZES.get(segment)?)?;
            self.count.fetch_max(segment.wrapping_add(1), Ordering::AcqRel);
        }
        self.known_window(segment, hash, neighbour)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::private::{Sixteen, share};
    use std::vec;

    type Narrow = Segments<Sixteen, 4>;

    /// Number of a window in its segment.
    fn at(segment: usize, hash: u64, neighbour: usize) -> usize {
        let (block, left) = share((hash >> 32) as u32, Narrow::SIZES[segment]);
        block as usize * BLOCK_WINDOWS + window_in_block(left, neighbour)
    }

    fn windows(segment: usize) -> usize {
        Narrow::SIZES[segment] as usize * BLOCK_WINDOWS
    }

    #[test]
    fn windows_of_all_hashes_lie_inside_and_apart() {
        for segment in 0..SEGMENTS {
            for hash in [0, u64::MAX, 1 << 32, 1 << 63, 0x1234_5678_9abc_def0, 0x7fff_ffff_ffff_ffff] {
                let at = |neighbour| at(segment, hash, neighbour);
                for neighbour in 0..NEIGHBOURS {
                    assert!(at(neighbour) < windows(segment), "{segment} {hash:x} {neighbour}");
                    assert_eq!(at(neighbour) / BLOCK_WINDOWS, at(0) / BLOCK_WINDOWS, "all in one block");
                    assert_eq!(at(neighbour) % BLOCK_WINDOWS < OWN_WINDOWS, neighbour == 0);
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
        assert_eq!(Narrow::windows_up_to(SEGMENTS - 1), u64::from(total) * BLOCK_WINDOWS as u64);
        assert!(Narrow::windows_up_to(SEGMENTS - 1) * 16 > 1 << 26, "room for all ids");
    }

    #[test]
    fn segments_are_nearly_full_when_the_first_key_finds_no_room() {
        const PLACES: u8 = 16;
        for segment in [2, 8, 11] {
            let mut taken = vec![0u8; windows(segment)];
            let mut hash = 1u64;
            let entered = (0u64..)
                .take_while(|_| {
                    hash = hash.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    let mixed = (hash ^ hash >> 29).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                    let mut windows = (0..NEIGHBOURS).map(|neighbour| at(segment, mixed, neighbour));
                    windows.find(|at| taken[*at] < PLACES).map(|at| taken[at] += 1).is_some()
                })
                .count();
            let share = entered as f64 / (taken.len() * usize::from(PLACES)) as f64;
            assert!((0.75..1.0).contains(&share), "segment {segment}: {share}");
            std::println!("{segment} {share}");
        }
    }
}
