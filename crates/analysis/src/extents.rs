//! Where the blocks of each heap lie. Rows of heaps lag behind: a thread tells the ledger only now and then how far its
//! blocks reach, and a program that was killed never does again.

use heapledger_source::Heap;
use heapledger_source::format::Entry;

/// The address ranges of all blocks added, by heap.
pub(crate) struct Extents {
    /// Lowest address, and one past the highest.
    ends: [(u64, u64); 256],
}

impl Extents {
    pub(crate) fn new() -> Extents {
        Extents { ends: [(u64::MAX, 0); 256] }
    }

    #[inline]
    pub(crate) fn add(&mut self, entry: &Entry) {
        let Some(heap) = entry.heap else { return };
        let bytes = entry.actual.or(entry.size).unwrap_or(0).max(1);
        if let Some((low, high)) = self.ends.get_mut(usize::from(heap)) {
            *low = (*low).min(entry.address);
            *high = (*high).max(entry.address.saturating_add(bytes));
        }
    }

    pub(crate) fn join(&mut self, other: &Extents) {
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
