//! Sets of sequence numbers, 8 bytes each.

/// Numbers, in order once they are settled.
#[derive(Clone, Debug, Default)]
pub struct NumberSet(Vec<u64>);

impl NumberSet {
    pub(super) fn push(&mut self, number: u64) {
        self.0.push(number);
    }

    /// Adds others.
    pub(super) fn join(&mut self, other: NumberSet) {
        if self.0.is_empty() { *self = other } else { self.0.extend(other.0) }
    }

    pub(super) fn settle(&mut self) {
        // Records are nearly in order, slot by slot, and come a chunk at a time: the sort that sees runs.
        if !self.0.is_sorted() {
            self.0.sort();
        }
        self.0.dedup();
        self.0.shrink_to_fit();
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Looks numbers up. Quick if they come about in order.
    pub fn search(&self) -> Search<'_> {
        Search { numbers: &self.0, at: 0 }
    }
}

/// A place in the set, from which the next number is not far.
#[derive(Clone, Debug)]
pub struct Search<'a> {
    numbers: &'a [u64],
    /// All before are less than what was asked for last, as far as was looked.
    at: usize,
}

impl Search<'_> {
    /// Whether the set has the number.
    pub fn has(&mut self, number: u64) -> bool {
        let numbers = self.numbers;
        // Steps that double, away from the last place, until the number lies between.
        let (mut low, mut high) = (self.at, self.at);
        let mut step = 1;
        if numbers.get(self.at).is_some_and(|here| *here < number) {
            while numbers.get(high).is_some_and(|here| *here < number) {
                low = high;
                high = high.saturating_add(step).min(numbers.len());
                step *= 2;
            }
        } else {
            while low > 0 && numbers.get(low).is_none_or(|here| *here >= number) {
                high = low;
                low = low.saturating_sub(step);
                step *= 2;
            }
        }
        let between = numbers.get(low..(high + 1).min(numbers.len())).unwrap_or(&[]);
        self.at = low + between.partition_point(|here| *here < number);
        numbers.get(self.at) == Some(&number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_is_there_in_any_order() {
        let there = |number: u64| number.is_multiple_of(7) || number.is_multiple_of(11);
        let mut numbers = NumberSet::default();
        for number in (0..2000).rev().filter(|number| there(*number)) {
            numbers.push(number);
            numbers.push(number);
        }
        numbers.settle();
        assert_eq!(numbers.len(), 442);
        let mut search = numbers.search();
        for round in 0..20u64 {
            for step in 0..500u64 {
                let number = step.wrapping_mul(1 + round * 977) % 2200;
                assert_eq!(search.has(number), number < 2000 && there(number), "{number} in round {round}");
            }
        }
        for number in (0..2200).chain((0..2200).rev()) {
            assert_eq!(search.has(number), number < 2000 && there(number), "{number}");
        }
        assert!(!NumberSet::default().search().has(0));
    }
}
