//! Which symbols matter to a few addresses: most tables are far longer than what is asked of them, and to sort one takes longer than all
//! else that is done with it.

use crate::symtab::{Choice, STEPS_MAX, Symbol};

/// Which symbols begin nearest to each of a few addresses, and which are the innermost around them. Is shown all of them, in any order.
pub(crate) struct Bounds {
    /// Sorted.
    wanted: Vec<u64>,
    /// The first and the last start in each stretch between two of them, the earlier one excluded, and behind the last.
    stretches: Vec<Option<(u64, u64)>>,
    /// For each address the last start of a symbol whose size covers it.
    covers: Vec<Option<u64>>,
    /// So many addresses may yet be found to be covered: where symbols lie over each other, all of them by each.
    steps_left: usize,
}

impl Bounds {
    /// `symbols`: so many it will be shown.
    pub(crate) fn around(addresses: &[u64], symbols: usize) -> Bounds {
        let mut wanted = addresses.to_vec();
        wanted.sort_unstable();
        wanted.dedup();
        let (stretches, covers) = (vec![None; wanted.len() + 1], vec![None; wanted.len()]);
        let steps_left = symbols.saturating_mul(4).saturating_add(STEPS_MAX.saturating_mul(wanted.len()));
        Bounds { wanted, stretches, covers, steps_left }
    }

    /// The stretch that a start is in: also the first address that it does not lie behind.
    fn place(&self, start: u64) -> usize {
        self.wanted.partition_point(|address| *address < start)
    }

    /// What is known of the addresses that a symbol covers. The first one lies at `place`, if there is any.
    fn covered(&mut self, place: usize, start: u64, size: u64) -> &mut [Option<u64>] {
        let count = self.wanted[place..].partition_point(|address| *address - start < size);
        self.steps_left = self.steps_left.saturating_sub(count);
        &mut self.covers[place..place + count]
    }

    /// Those that are to be kept, once it has seen all. `None` if it has not: it would have taken too long.
    pub(crate) fn starts(&self) -> Option<Starts> {
        if self.steps_left == 0 {
            return None;
        }
        let mut last = None;
        let lasts = self.stretches.iter().map(|stretch| {
            last = stretch.map(|(_, last)| last).or(last);
            last
        });
        let lasts: Vec<Option<u64>> = lasts.take(self.wanted.len()).collect();
        let spans = lasts.iter().zip(&self.covers).filter_map(|(last, cover)| Some((cover.or(*last)?, (*last)?)));
        let spans: Vec<(u64, u64)> = spans.collect();
        // The first one behind a stretch with nothing in it is that of a later one.
        let firsts = self.stretches.iter().flatten().map(|(first, _)| *first);
        let mut starts: Vec<u64> = spans.iter().flat_map(|(cover, last)| [*cover, *last]).chain(firsts).collect();
        starts.sort_unstable();
        starts.dedup();
        Some(Starts { counts: vec![0; starts.len()], starts, spans, symbols: Vec::new() })
    }
}

impl Choice for Bounds {
    fn may_matter(&mut self, start: u64, size: u64) -> bool {
        if self.steps_left == 0 {
            return false;
        }
        let place = self.place(start);
        let is_bound = self.stretches[place].is_none_or(|(first, last)| start < first || last < start);
        is_bound || self.covered(place, start, size).iter().any(|cover| cover.is_none_or(|cover| cover < start))
    }

    fn take(&mut self, symbol: Symbol) {
        let (start, size) = (symbol.start, symbol.size.0);
        let place = self.place(start);
        let (first, last) = self.stretches[place].unwrap_or((start, start));
        self.stretches[place] = Some((first.min(start), last.max(start)));
        self.covered(place, start, size).iter_mut().for_each(|cover| *cover = (*cover).max(Some(start)));
    }
}

/// Where the symbols begin that matter. Is shown all once more.
pub(crate) struct Starts {
    /// Sorted.
    starts: Vec<u64>,
    /// How many begin at each, or behind it and before the next.
    counts: Vec<usize>,
    /// From which of them to which one goes to find the name of an address.
    spans: Vec<(u64, u64)>,
    symbols: Vec<Symbol>,
}

impl Starts {
    /// Those that matter; `None` if one would not look as far among all.
    pub(crate) fn symbols(self) -> Option<Vec<Symbol>> {
        let mut sum = 0usize;
        let sums = self.counts.iter().map(|count| {
            sum = sum.saturating_add(*count);
            sum
        });
        let sums: Vec<usize> = std::iter::once(0).chain(sums).collect();
        let before = |start: u64| sums[self.starts.partition_point(|other| *other < start)];
        let behind = |start: u64| sums[self.starts.partition_point(|other| *other <= start)];
        let are_short = self.spans.iter().all(|(from, to)| behind(*to) - before(*from) <= STEPS_MAX);
        are_short.then_some(self.symbols)
    }
}

impl Choice for Starts {
    fn may_matter(&mut self, start: u64, _: u64) -> bool {
        let behind = self.starts.partition_point(|other| *other <= start);
        let Some(at) = behind.checked_sub(1) else { return false };
        self.counts[at] = self.counts[at].saturating_add(1);
        self.starts[at] == start
    }

    fn take(&mut self, symbol: Symbol) {
        self.symbols.push(symbol);
    }
}
