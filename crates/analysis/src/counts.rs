//! Live blocks by kind, thread, heap and call site, added up in one pass.

use heapledger_source::format::Entry;

use crate::sampling::{Sampling, Spread, Sum};

/// Rows of threads in the widest record.
const THREAD_ROWS: usize = 1 << 16;

/// The sums.
pub(crate) struct Counts {
    sampling: Sampling,
    pub(crate) kinds: [Sum; 256],
    pub(crate) threads: Vec<Sum>,
    pub(crate) without_thread: Sum,
    pub(crate) heaps: [Sum; 256],
    pub(crate) sites: Vec<Sum>,
    site_limit: usize,
    pub(crate) all: Sum,
    pub(crate) spread: Spread,
    /// Bytes that the blocks really have.
    pub(crate) actual: u64,
    pub(crate) sizes_unknown: u64,
    pub(crate) last_time: u64,
}

impl Counts {
    /// Sites from `site_limit` on are not believed.
    pub(crate) fn new(sampling: Sampling, site_limit: usize) -> Counts {
        Counts {
            sampling,
            kinds: [Sum::default(); 256],
            threads: Vec::new(),
            without_thread: Sum::default(),
            heaps: [Sum::default(); 256],
            sites: Vec::new(),
            site_limit,
            all: Sum::default(),
            spread: Spread::default(),
            actual: 0,
            sizes_unknown: 0,
            last_time: 0,
        }
    }

    pub(crate) fn add(&mut self, entry: &Entry) {
        let weight = self.sampling.weight(entry);
        self.all.add(entry, weight);
        self.spread.add(entry, weight);
        let actual = entry.actual.or(entry.size).unwrap_or(0);
        self.actual = self.actual.saturating_add(actual.saturating_mul(weight));
        self.sizes_unknown += u64::from(entry.size.is_none());
        self.last_time = self.last_time.max(entry.time.unwrap_or(0));
        if let Some(sum) = self.kinds.get_mut(usize::from(entry.kind.0)) {
            sum.add(entry, weight);
        }
        if let Some(sum) = entry.heap.and_then(|heap| self.heaps.get_mut(usize::from(heap))) {
            sum.add(entry, weight);
        }
        match entry.thread.map(|row| row as usize).filter(|row| *row < THREAD_ROWS) {
            Some(row) => at(&mut self.threads, row).add(entry, weight),
            None => self.without_thread.add(entry, weight),
        }
        let site = entry.site as usize;
        if site < self.site_limit {
            at(&mut self.sites, site).add(entry, weight);
        }
    }
}

/// The sum at `index`, made if it is not there.
fn at(sums: &mut Vec<Sum>, index: usize) -> &mut Sum {
    if index >= sums.len() {
        sums.resize((index + 1).max(sums.len() * 2), Sum::default());
    }
    &mut sums[index]
}
