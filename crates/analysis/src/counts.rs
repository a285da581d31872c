//! Live blocks by kind, thread, heap and call site, added up in one pass.

use heapledger_format::{Entry, Kind, ThreadRow, Ticks};
use heapledger_source::{Ledger, SourceError};

use crate::extents::Extents;
use crate::fold::{self, Act, Fold};
use crate::query::Evaluator;
use crate::{Amount, Estimate, amount};

/// Rows of threads in the widest record.
const THREAD_ROWS: usize = 1 << 16;

/// The sums.
pub(crate) struct Counts {
    pub(crate) kinds: [Amount; 256],
    pub(crate) threads: Vec<Amount>,
    pub(crate) without_thread: Amount,
    pub(crate) heaps: [Amount; 256],
    /// Bytes that the blocks of each really have.
    pub(crate) heaps_actual: [u64; 256],
    /// Of all blocks, whatever a filter means.
    pub(crate) extents: Extents,
    pub(crate) sites: Vec<Amount>,
    site_limit: usize,
    pub(crate) all: Estimate,
    /// Bytes that the blocks really have.
    pub(crate) actual: u64,
    pub(crate) sizes_unknown: u64,
    pub(crate) last_time: Ticks,
    /// What the last blocks had in common, which is nearly always much: they are added up first by themselves.
    run: (Kind, Option<u8>, Option<ThreadRow>),
    run_sum: Amount,
}

impl Counts {
    /// Sites from `site_limit` on are not believed.
    fn new(site_limit: usize) -> Counts {
        Counts {
            kinds: [Amount::default(); 256],
            threads: Vec::new(),
            without_thread: Amount::default(),
            heaps: [Amount::default(); 256],
            heaps_actual: [0; 256],
            extents: Extents::new(),
            sites: Vec::new(),
            site_limit,
            all: Estimate::default(),
            actual: 0,
            sizes_unknown: 0,
            last_time: Ticks(0),
            run: (Kind(0), None, None),
            run_sum: Amount::default(),
        }
    }

    /// Adds up the records of `ledger`, or those that `filter` means, and says how many were being written.
    pub(crate) fn of(
        ledger: &Ledger,
        site_limit: usize,
        filter: Option<&mut Evaluator<'_>>,
        progress: &mut dyn FnMut(f32),
    ) -> Result<(Counts, u64), SourceError> {
        let workers = fold::workers(ledger, site_limit, size_of::<Amount>())?;
        let fresh = || Counts::new(site_limit);
        let mut folded = fold::fold(ledger, filter, workers, &fresh, progress)?;
        folded.sum.end_run();
        folded.sum.extents.end_run();
        Ok((folded.sum, folded.in_flight))
    }

    /// Adds a run to what it belongs to.
    fn end_run(&mut self) {
        let sum = std::mem::take(&mut self.run_sum);
        if sum.samples == 0 {
            return;
        }
        let (kind, heap, thread) = self.run;
        if let Some(kind) = self.kinds.get_mut(usize::from(kind.0)) {
            kind.join(sum);
        }
        if let Some(heap) = heap.and_then(|heap| self.heaps.get_mut(usize::from(heap))) {
            heap.join(sum);
        }
        match thread.map(|row| row.0 as usize).filter(|row| *row < THREAD_ROWS) {
            Some(row) => amount::at(&mut self.threads, row).join(sum),
            None => self.without_thread.join(sum),
        }
    }
}

impl Fold<Entry> for Counts {
    #[inline]
    fn meet(&mut self, entry: &Entry, _: u64) -> bool {
        self.extents.add(entry);
        true
    }

    #[inline]
    fn add(&mut self, entry: &Entry, _: Act, weight: u64) {
        self.all.add(entry, weight);
        let actual = entry.actual.or(entry.size).unwrap_or(0);
        let actual = actual.saturating_mul(weight);
        self.actual = self.actual.saturating_add(actual);
        if let Some(of_heap) = entry.heap.and_then(|heap| self.heaps_actual.get_mut(usize::from(heap))) {
            *of_heap = of_heap.saturating_add(actual);
        }
        self.sizes_unknown += u64::from(entry.size.is_none());
        self.last_time = self.last_time.max(entry.time.unwrap_or_default());
        let run = (entry.kind, entry.heap, entry.thread);
        if run != self.run {
            self.end_run();
            self.run = run;
        }
        self.run_sum.add(entry, weight);
        let site = entry.site.index();
        if site < self.site_limit {
            amount::at(&mut self.sites, site).add(entry, weight);
        }
    }

    fn join(&mut self, mut other: Self) {
        other.end_run();
        self.kinds.iter_mut().zip(&other.kinds).for_each(|(own, other)| own.join(*other));
        self.heaps.iter_mut().zip(&other.heaps).for_each(|(own, other)| own.join(*other));
        self.extents.join(other.extents);
        for (own, other) in self.heaps_actual.iter_mut().zip(other.heaps_actual) {
            *own = own.saturating_add(other);
        }
        amount::join_all(&mut self.threads, other.threads, |own, other| own.join(*other));
        amount::join_all(&mut self.sites, other.sites, |own, other| own.join(*other));
        self.without_thread.join(other.without_thread);
        self.all.join(&other.all);
        self.actual = self.actual.saturating_add(other.actual);
        self.sizes_unknown += other.sizes_unknown;
        self.last_time = self.last_time.max(other.last_time);
    }
}
