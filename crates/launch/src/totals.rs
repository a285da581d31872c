//! What the threads of a program have counted, read from its ledger while it runs.
//!
//! What lives is known exactly by it, other than by the live bytes of the header, to which each thread adds now and then only.

use heapledger_format::section::SectionRow;
use heapledger_format::{Header, SectionKind, TallyCounter};

/// Bytes of totals read at a time.
const READ_BYTES: usize = 64 << 10;

/// Totals of a ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) allocations: u64,
    pub(crate) frees: u64,
    pub(crate) bytes_allocated: u64,
    pub(crate) bytes_freed: u64,
}

impl Totals {
    /// The sums of what threads have counted, by who reads so many bytes from a place of the ledger.
    pub(crate) fn read(header: &Header, read: &dyn Fn(&mut [u8], u64) -> Option<()>) -> Option<Totals> {
        use TallyCounter::{Allocations, BytesAllocated, BytesFreed, Frees};
        // All that was allocated before anything that was freed: of a block that one thread allocates and another frees meanwhile, the
        // free may be counted alone, and the allocation never is. So there is a moment at which no less lived than what this comes to.
        let [allocations, bytes_allocated] = sums(header, read, [Allocations, BytesAllocated])?;
        let [frees, bytes_freed] = sums(header, read, [Frees, BytesFreed])?;
        Some(Totals { allocations, frees, bytes_allocated, bytes_freed })
    }

    /// Bytes that live.
    pub(crate) fn live_bytes(&self) -> u64 {
        // What threads did while this was read may be in one sum and not in the other.
        self.bytes_allocated.wrapping_sub(self.bytes_freed).cast_signed().max(0).cast_unsigned()
    }
}

/// Two counters, of all threads and of the header for them.
fn sums(header: &Header, read: &dyn Fn(&mut [u8], u64) -> Option<()>, counters: [TallyCounter; 2]) -> Option<[u64; 2]> {
    let codec = header.codec;
    let mut sums = counters.map(|counter| header.tally(counter));
    let Some(&SectionRow { offset, element_bytes, capacity, used, backed, .. }) = header.section(SectionKind::Tallies)
    else {
        return Some(sums);
    };
    let element_bytes = usize::from(element_bytes);
    let at_once = READ_BYTES.checked_div(element_bytes).filter(|at_once| *at_once != 0)? as u64;
    let (count, mut bytes) = (used.min(backed).min(capacity), Vec::new());
    let mut first = 0;
    while first < count {
        let now = at_once.min(count - first);
        bytes.resize(now as usize * element_bytes, 0);
        read(&mut bytes, first.checked_mul(element_bytes as u64)?.checked_add(offset)?)?;
        for element in bytes.chunks_exact(element_bytes) {
            for (sum, counter) in sums.iter_mut().zip(counters) {
                *sum = sum.wrapping_add(codec.word(element, counter as usize * codec.word.bytes()));
            }
        }
        first += now;
    }
    Some(sums)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use heapledger_testing::Builder;

    use super::*;

    #[test]
    fn what_is_done_while_it_is_read_is_never_taken_for_more_that_lives() {
        let ledger = |allocations: u64, frees: u64| {
            let mut builder = Builder::new();
            builder.tally(TallyCounter::Allocations, allocations).tally(TallyCounter::Frees, frees);
            builder.tally(TallyCounter::BytesAllocated, allocations * 100).tally(TallyCounter::BytesFreed, frees * 100);
            builder.bytes()
        };
        let header = Header::parse(&ledger(0, 0)).expect("a header");
        // Between two readings three more blocks were allocated, and four freed.
        let (states, reads) = ([ledger(7, 2), ledger(10, 6)], Cell::new(0));
        let read = |bytes: &mut [u8], at: u64| {
            let state = states.get(reads.replace(reads.get() + 1))?;
            bytes.copy_from_slice(state.get(at as usize..at as usize + bytes.len())?);
            Some(())
        };
        let totals = Totals::read(&header, &read).expect("read");
        assert_eq!(totals, Totals { allocations: 7, frees: 6, bytes_allocated: 700, bytes_freed: 600 });
        assert_eq!((totals.live_bytes(), reads.get()), (100, 2), "that it was 500 and 400 nobody has seen");
        let freed_more = Totals { bytes_allocated: 1, bytes_freed: 2, ..Totals::default() };
        assert_eq!(freed_more.live_bytes(), 0);
    }
}
