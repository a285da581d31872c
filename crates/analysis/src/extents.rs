//! Where the blocks of each heap lie. Rows of heaps lag behind: a thread tells the ledger only now and then how far its
//! blocks reach, and a program that was killed never does again.

use std::collections::HashMap;

use heapledger_format::Entry;
use heapledger_source::Heap;

/// What an arena of glibc is aligned to, and at most as large as: a heap that lies in many of these is no larger than what
/// it has of each.
const REGION_SHIFT: u32 = 26;
/// Most regions that are told apart; a forged ledger may have a block in each.
const REGIONS_MAX: usize = 1 << 16;

/// A heap's part of a region.
type Region = (u8, u64);

/// The address ranges of all blocks added, by heap.
pub(crate) struct Extents {
    /// Lowest address, and one past the highest.
    ends: [(u64, u64); 256],
    /// The same by region.
    regions: HashMap<Region, (u64, u64)>,
    /// Where the last block was, which is nearly always where the next one is.
    last: (Region, (u64, u64)),
}

impl Extents {
    pub(crate) fn new() -> Extents {
        Extents { ends: [(u64::MAX, 0); 256], regions: HashMap::new(), last: ((0, 0), (u64::MAX, 0)) }
    }

    #[inline]
    pub(crate) fn add(&mut self, entry: &Entry) {
        let Some(heap) = entry.heap else { return };
        let bytes = entry.actual.or(entry.size).unwrap_or(0).max(1);
        if let Some((low, high)) = self.ends.get_mut(usize::from(heap)) {
            *low = (*low).min(entry.address);
            *high = (*high).max(entry.address.saturating_add(bytes));
        }
        let region = (heap, entry.address >> REGION_SHIFT);
        if region != self.last.0 {
            self.end_run();
            self.last = (region, (u64::MAX, 0));
        }
        let (low, high) = self.last.1;
        self.last.1 = (low.min(entry.address), high.max(entry.address.saturating_add(bytes)));
    }

    /// Enters where the last blocks were: before anything is asked.
    pub(crate) fn end_run(&mut self) {
        let (region, ends) = self.last;
        self.last.1 = (u64::MAX, 0);
        self.enter(region, ends);
    }

    fn enter(&mut self, region: Region, ends: (u64, u64)) {
        if ends.0 < ends.1 && (self.regions.len() < REGIONS_MAX || self.regions.contains_key(&region)) {
            let (low, high) = self.regions.entry(region).or_insert((u64::MAX, 0));
            (*low, *high) = ((*low).min(ends.0), (*high).max(ends.1));
        }
    }

    /// How much of all regions lies between the first and the last block there.
    pub(crate) fn bytes_in_regions(&self, heap: u32) -> u64 {
        let parts = self.regions.iter().filter(|((row, _), _)| u32::from(*row) == heap);
        parts.fold(0u64, |sum, (_, (low, high))| sum.saturating_add(high - low))
    }

    /// Whether there are regions in a heap's range where it has no live block.
    pub(crate) fn is_scattered(&self, heap: &Heap) -> bool {
        let Some(last) = heap.high.checked_sub(1).filter(|last| heap.low < *last) else { return false };
        let between = (last >> REGION_SHIFT) - (heap.low >> REGION_SHIFT);
        between >= self.regions.keys().filter(|(row, _)| u32::from(*row) == heap.row).count().max(1) as u64
    }

    pub(crate) fn join(&mut self, mut other: Extents) {
        self.end_run();
        other.end_run();
        for (region, ends) in other.regions {
            self.enter(region, ends);
        }
        for ((low, high), other) in self.ends.iter_mut().zip(&other.ends) {
            (*low, *high) = ((*low).min(other.0), (*high).max(other.1));
        }
    }

    /// The heap with room for the blocks that were added.
    pub(crate) fn widen(&self, mut heap: Heap) -> Heap {
        let Some((low, high)) = self.ends.get(heap.row as usize).filter(|(low, high)| low < high) else { return heap };
        // A range that is none has no end to keep.
        let known = heap.low < heap.high;
        heap.low = if known { heap.low.min(*low) } else { *low };
        heap.high = if known { heap.high.max(*high) } else { *high };
        heap
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapledger_format::{Kind, LabelId, Site};

    fn heap(low: u64, high: u64) -> Heap {
        Heap { row: 3, name: String::new(), low, high, capabilities: 0, gone: false, figures: None }
    }

    #[test]
    fn a_heap_is_scattered_where_it_has_gaps_of_a_region() {
        let mut extents = Extents::new();
        for address in [0x5555_0000_0000, 0x5555_0400_0000] {
            extents.add(&Entry {
                number: 1,
                address,
                size: Some(100),
                actual: None,
                kind: Kind::MALLOC,
                site: Site::NONE,
                thread: None,
                heap: Some(3),
                time: None,
                label: LabelId::NONE,
                core: None,
                cycles: None,
            });
        }
        extents.end_run();
        assert!(!extents.is_scattered(&heap(0x5555_0000_0000, 0x5555_0400_0064)));
        assert!(extents.is_scattered(&heap(0x5555_0000_0000, 0x5555_0800_0001)));
        assert!(extents.is_scattered(&heap(0x5555_0000_0000, 0x7fff_0000_0000)));
        assert!(!extents.is_scattered(&heap(0, 0)), "nothing is known of its range");
        assert_eq!(extents.bytes_in_regions(3), 200);
    }
}
