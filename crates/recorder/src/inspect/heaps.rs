//! What a heap has: from its range, its blocks in the order of addresses, and what is known of its allocator.

use core::ops::Range;

/// What an allocator takes beside what it is asked for. All zeros: nothing, or nobody knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct HeapShape {
    /// Bytes in front of each block.
    pub before: usize,
    /// Bytes behind each block.
    pub after: usize,
    /// A block's bytes are a multiple of this.
    pub granule: usize,
    /// And at least so many.
    pub least: usize,
    /// Bytes at the beginning of the range that no block gets.
    pub first: usize,
    /// And at its end.
    pub last: usize,
}

impl HeapShape {
    /// Bytes that a block really has which was asked for with so many.
    pub fn usable(&self, bytes: usize) -> usize {
        let bytes = bytes.max(self.least);
        bytes.checked_next_multiple_of(self.granule.max(1)).unwrap_or(bytes)
    }

    /// And with what lies in front of it and behind it.
    pub fn taken(&self, bytes: usize) -> usize {
        self.usable(bytes).saturating_add(self.around())
    }

    fn around(&self) -> usize {
        self.before.saturating_add(self.after)
    }

    /// Bytes of the largest block that fits into so many free ones; 0: none does.
    pub fn fits(&self, free: usize) -> usize {
        let room = free.saturating_sub(self.around());
        let most = room.saturating_sub(room.checked_rem(self.granule).unwrap_or(0));
        if most < self.least { 0 } else { most }
    }

    /// Bytes that are nobody's, whatever is allocated.
    pub fn fixed(&self) -> usize {
        self.first.saturating_add(self.last)
    }

    /// Whether such an allocator can be, in a range of so many bytes.
    pub fn can_be(&self, range_bytes: usize) -> bool {
        let parts = [self.before, self.after, self.granule, self.least, self.first, self.last];
        parts.iter().all(|part| *part <= range_bytes.max(1)) && self.fixed() <= range_bytes
    }
}

/// What lies between the blocks of a range.
#[derive(Clone, Copy, Debug)]
pub struct Gaps {
    shape: HeapShape,
    next: usize,
    end: usize,
}

impl Gaps {
    /// Of a range; its blocks are told in the order of their addresses.
    pub fn new(range: &Range<usize>, shape: &HeapShape) -> Gaps {
        let next = range.start.saturating_add(shape.first).min(range.end);
        Gaps { shape: *shape, next, end: range.end.saturating_sub(shape.last).max(next) }
    }

    /// The gap in front of a block.
    pub fn before(&mut self, address: usize, bytes: usize) -> Option<Range<usize>> {
        let first = address.saturating_sub(self.shape.before);
        let gap = self.next..first.min(self.end);
        let end = address.saturating_add(self.shape.usable(bytes)).saturating_add(self.shape.after);
        self.next = self.next.max(end);
        (!gap.is_empty()).then_some(gap)
    }

    /// The gap behind the last one.
    pub fn last(self) -> Option<Range<usize>> {
        let gap = self.next..self.end;
        (!gap.is_empty()).then_some(gap)
    }
}

/// What is known of a heap, or of several.
pub mod known {
    /// How many bytes it has, and how many are free.
    pub const TOTAL: u32 = 1;
    /// What its allocator takes for itself.
    pub const OVERHEAD: u32 = 2;
    /// The gaps between its blocks.
    pub const GAPS: u32 = 4;
    /// The least that was free.
    pub const MINIMUM: u32 = 8;
    /// Every block: none has passed by.
    pub const ALL_BLOCKS: u32 = 16;
    /// All of these.
    pub const EVERYTHING: u32 = 31;
}

/// What a heap has. What is not [`known`] is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct HeapFigures {
    /// How many heaps.
    pub heaps: usize,
    /// Bytes of their ranges.
    pub total_bytes: usize,
    /// Of these free.
    pub free_bytes: usize,
    /// Asked for, in blocks.
    pub used_bytes: usize,
    /// What allocators take for themselves: all the rest.
    pub overhead_bytes: usize,
    /// The largest block that could be had.
    pub largest_free_bytes: usize,
    /// The least that was free, of each heap; since the watch began, if there is one.
    pub minimum_free_bytes: usize,
    /// The least that ever was.
    pub least_free_bytes: usize,
    /// Blocks.
    pub used_blocks: usize,
    /// Gaps.
    pub free_blocks: usize,
    /// What is [`known`].
    pub known: u32,
    /// Heaps that began when others had blocks already: a sum of minima has nothing of theirs.
    pub late_heaps: u32,
}

impl HeapFigures {
    /// Of no heap.
    pub const NONE: HeapFigures = HeapFigures {
        heaps: 0,
        total_bytes: 0,
        free_bytes: 0,
        used_bytes: 0,
        overhead_bytes: 0,
        largest_free_bytes: 0,
        minimum_free_bytes: 0,
        least_free_bytes: 0,
        used_blocks: 0,
        free_blocks: 0,
        known: known::EVERYTHING,
        late_heaps: 0,
    };

    /// A heap more.
    pub fn add(&mut self, heap: &HeapFigures) {
        let minima = if heap.late_heaps == 0 { [heap.minimum_free_bytes, heap.least_free_bytes] } else { [0, 0] };
        let sums = [
            (&mut self.heaps, heap.heaps),
            (&mut self.total_bytes, heap.total_bytes),
            (&mut self.free_bytes, heap.free_bytes),
            (&mut self.used_bytes, heap.used_bytes),
            (&mut self.overhead_bytes, heap.overhead_bytes),
            (&mut self.minimum_free_bytes, minima[0]),
            (&mut self.least_free_bytes, minima[1]),
            (&mut self.used_blocks, heap.used_blocks),
            (&mut self.free_blocks, heap.free_blocks),
        ];
        for (sum, more) in sums {
            *sum = sum.saturating_add(more);
        }
        self.largest_free_bytes = self.largest_free_bytes.max(heap.largest_free_bytes);
        self.known &= heap.known;
        self.late_heaps = self.late_heaps.saturating_add(heap.late_heaps);
    }

    /// A gap more.
    pub fn add_gap(&mut self, gap: &Range<usize>, shape: &HeapShape) {
        self.free_blocks = self.free_blocks.saturating_add(1);
        self.largest_free_bytes = self.largest_free_bytes.max(shape.fits(gap.len()));
    }

    /// Sets what follows from how much blocks take, now and at most, in a range of so many bytes.
    pub fn set_bytes(&mut self, range_bytes: usize, shape: &HeapShape, taken: &Taken) {
        let given = range_bytes.saturating_sub(shape.fixed());
        let free = |taken: usize| given.saturating_sub(taken);
        self.total_bytes = range_bytes;
        self.used_bytes = taken.used_bytes.min(range_bytes);
        self.free_bytes = free(taken.now).min(range_bytes.saturating_sub(self.used_bytes));
        self.overhead_bytes = range_bytes.saturating_sub(self.free_bytes).saturating_sub(self.used_bytes);
        self.minimum_free_bytes = free(taken.most_watched).min(self.free_bytes);
        self.least_free_bytes = free(taken.most).min(self.minimum_free_bytes);
    }
}

/// How much blocks take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Asked for in them.
    pub used_bytes: usize,
    /// With what their allocator takes.
    pub now: usize,
    /// The most that was.
    pub most: usize,
    /// The most since the watch began.
    pub most_watched: usize,
}

/// Whether a range may become a heap beside one that is there: outside of it, or a part of it. It may reach to an edge from
/// either side, but not beyond.
pub fn may_lie_beside(new: &Range<usize>, there: &Range<usize>) -> bool {
    let is_apart = new.end <= there.start || there.end <= new.start;
    let is_part = there.start <= new.start && new.end <= there.end && new != there;
    is_apart || is_part
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    const SHAPE: HeapShape = HeapShape { before: 16, after: 0, granule: 16, least: 16, first: 32, last: 16 };

    #[test]
    fn what_may_overlap() {
        let there = 0x1000..0x3000;
        for new in [0..0x1000, 0x3000..0x4000, 0x1800..0x2000, 0x1000..0x2000, 0x2000..0x3000, 0x8000..0x9000] {
            assert!(may_lie_beside(&new, &there), "{new:x?}");
        }
        for new in [0..0x2000, 0..0x4000, 0x1000..0x4000, 0x2000..0x4000, 0x1000..0x3000, 0..0x3000] {
            assert!(!may_lie_beside(&new, &there), "{new:x?}");
        }
    }

    #[test]
    fn blocks_take_what_their_allocator_takes() {
        assert_eq!([0, 1, 16, 17].map(|bytes| SHAPE.taken(bytes)), [32, 32, 32, 48]);
        assert_eq!([0, 31, 32, 47, 48, 49].map(|free| SHAPE.fits(free)), [0, 0, 16, 16, 32, 32]);
        assert_eq!(HeapShape::default().fits(7), 7);
        assert_eq!(HeapShape::default().taken(usize::MAX), usize::MAX);
        assert!(SHAPE.can_be(48) && !SHAPE.can_be(47) && !HeapShape { granule: 100, ..SHAPE }.can_be(50));
    }

    #[test]
    fn gaps_and_blocks_are_the_whole_range() {
        let range = 0x1000..0x2000;
        let blocks = [(0x1030, 5), (0x1100, 40), (0x1140, 16), (0x1fe0, 16)];
        let mut gaps = Gaps::new(&range, &SHAPE);
        let mut found: Vec<_> = blocks.iter().filter_map(|(address, bytes)| gaps.before(*address, *bytes)).collect();
        found.extend(gaps.last());
        assert_eq!(found, [0x1040..0x10f0, 0x1150..0x1fd0]);
        let taken: usize = blocks.iter().map(|(_, bytes)| SHAPE.taken(*bytes)).sum();
        let free: usize = found.iter().map(|gap| gap.len()).sum();
        assert_eq!(SHAPE.fixed() + taken + free, range.len());

        let mut figures = HeapFigures { heaps: 1, ..HeapFigures::NONE };
        found.iter().for_each(|gap| figures.add_gap(gap, &SHAPE));
        let used_bytes = 5 + 40 + 16 + 16;
        figures.set_bytes(
            range.len(),
            &SHAPE,
            &Taken { used_bytes, now: taken, most: taken + 100, most_watched: taken },
        );
        assert_eq!(figures.free_bytes, free);
        assert_eq!(figures.free_bytes + figures.used_bytes + figures.overhead_bytes, figures.total_bytes);
        assert_eq!((figures.largest_free_bytes, figures.free_blocks), (0x1fd0 - 0x1150 - 16, 2));
        assert_eq!((figures.minimum_free_bytes, figures.least_free_bytes), (free, free - 100));
    }

    #[test]
    fn what_lies_wrong_is_no_gap_below_nothing() {
        let mut gaps = Gaps::new(&(100..200), &HeapShape::default());
        assert_eq!(gaps.before(50, 20), None);
        assert_eq!(gaps.before(150, 100), Some(100..150));
        assert_eq!(gaps.before(160, 10), None);
        assert_eq!(gaps.last(), None);
        let mut figures = HeapFigures::NONE;
        figures.set_bytes(
            100,
            &HeapShape::default(),
            &Taken { used_bytes: 300, now: 300, most: 300, most_watched: 300 },
        );
        assert_eq!((figures.free_bytes, figures.used_bytes, figures.overhead_bytes), (0, 100, 0));
    }

    #[test]
    fn a_late_heap_raises_no_minimum() {
        let heap = HeapFigures {
            heaps: 1,
            free_bytes: 70,
            minimum_free_bytes: 50,
            least_free_bytes: 40,
            largest_free_bytes: 30,
            ..HeapFigures::NONE
        };
        let late = HeapFigures { late_heaps: 1, largest_free_bytes: 20, known: known::TOTAL, ..heap };
        let mut all = HeapFigures::NONE;
        all.add(&heap);
        all.add(&late);
        assert_eq!((all.heaps, all.free_bytes, all.minimum_free_bytes, all.least_free_bytes), (2, 140, 50, 40));
        assert_eq!((all.largest_free_bytes, all.known, all.late_heaps), (30, known::TOTAL, 1));
    }
}
