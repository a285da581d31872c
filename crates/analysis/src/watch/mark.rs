//! The mark: what was there, and what came later.

use std::sync::Arc;

use super::Sample;

/// Most numbers that a reading keeps: an order bound is some thousands.
pub(super) const NUMBERS_MAX: u64 = 1 << 20;

/// The numbers that a reading saw, as far as they do not tell by themselves on which side they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SeenNumbers {
    /// Below: taken before the reading began.
    pub(super) floor: u64,
    /// Those seen from there on, sorted.
    pub(super) seen: Vec<u64>,
}

impl SeenNumbers {
    /// For a reading that begins when `next` is the next number to be leased.
    pub(super) fn from(next: u64, order_bound: u64) -> SeenNumbers {
        SeenNumbers { floor: next.saturating_sub(order_bound.min(NUMBERS_MAX)), seen: Vec::new() }
    }

    #[inline]
    pub(super) fn note(&mut self, number: u64) {
        if number >= self.floor && (self.seen.len() as u64) < 2 * NUMBERS_MAX {
            self.seen.push(number);
        }
    }

    pub(super) fn join(&mut self, other: SeenNumbers) {
        self.seen.extend(other.seen);
    }

    pub(super) fn finish(&mut self) {
        self.seen.sort_unstable();
    }

    #[inline]
    fn has(&self, number: u64) -> bool {
        number < self.floor
            || self.seen.last().is_some_and(|last| number <= *last) && self.seen.binary_search(&number).is_ok()
    }
}

/// A moment that blocks are compared with: those which its reading did not see are young.
#[derive(Clone, Debug)]
pub struct Mark {
    sample: Arc<Sample>,
}

impl Mark {
    /// The moment of this reading.
    pub fn at(sample: Arc<Sample>) -> Mark {
        Mark { sample }
    }

    /// The reading.
    pub fn sample(&self) -> &Arc<Sample> {
        &self.sample
    }

    /// Whether the block with this number came after the mark.
    #[inline]
    pub fn is_young(&self, number: u64) -> bool {
        !self.sample.numbers.has(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_were_seen_or_cannot_come_any_more_are_old() {
        let mut numbers = SeenNumbers::from(1000, 100);
        for number in [5, 950, 1003, 899, 901] {
            numbers.note(number);
        }
        numbers.finish();
        assert_eq!(numbers.seen, [901, 950, 1003], "what lies below the floor is not kept");
        let sample = Sample { numbers, ..Sample::default() };
        let mark = Mark::at(Arc::new(sample));
        for old in [0, 5, 899, 901, 950, 1003] {
            assert!(!mark.is_young(old), "{old}");
        }
        // 900 and 949 were leased and not used yet, or freed before: nobody can tell, and both are right.
        for young in [900, 949, 1002, 1004, u64::MAX] {
            assert!(mark.is_young(young), "{young}");
        }
    }

    #[test]
    fn a_forged_order_bound_costs_no_memory() {
        let mut numbers = SeenNumbers::from(u64::MAX, u64::MAX);
        assert_eq!(numbers.floor, u64::MAX - NUMBERS_MAX);
        numbers.note(7);
        assert!(numbers.seen.is_empty());
    }
}
