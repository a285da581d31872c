//! Live blocks by kind, thread, heap and call site, added up in one pass.

use heapledger_source::format::{Entry, Kind, SectionKind};
use heapledger_source::{Ledger, SourceError};

use crate::extents::Extents;
use crate::query::Evaluator;
use crate::sampling::{Sampling, Spread, Sum};

/// Bytes of a record, about.
const RECORD_BYTES: u64 = 32;
/// Rows of threads in the widest record.
const THREAD_ROWS: usize = 1 << 16;

/// The sums.
pub(crate) struct Counts {
    sampling: Sampling,
    pub(crate) kinds: [Sum; 256],
    pub(crate) threads: Vec<Sum>,
    pub(crate) without_thread: Sum,
    pub(crate) heaps: [Sum; 256],
    /// Bytes that the blocks of each really have.
    pub(crate) heaps_actual: [u64; 256],
    /// Of all blocks, whatever a filter means.
    pub(crate) extents: Extents,
    pub(crate) sites: Vec<Sum>,
    site_limit: usize,
    pub(crate) all: Sum,
    pub(crate) spread: Spread,
    /// Bytes that the blocks really have.
    pub(crate) actual: u64,
    pub(crate) sizes_unknown: u64,
    pub(crate) last_time: u64,
    /// What the last blocks had in common, which is nearly always much: they are added up first by themselves.
    run: (Kind, Option<u8>, Option<u32>),
    run_sum: Sum,
}

impl Counts {
    /// Sites from `site_limit` on are not believed.
    fn new(sampling: Sampling, site_limit: usize) -> Counts {
        Counts {
            sampling,
            kinds: [Sum::default(); 256],
            threads: Vec::new(),
            without_thread: Sum::default(),
            heaps: [Sum::default(); 256],
            heaps_actual: [0; 256],
            extents: Extents::new(),
            sites: Vec::new(),
            site_limit,
            all: Sum::default(),
            spread: Spread::default(),
            actual: 0,
            sizes_unknown: 0,
            last_time: 0,
            run: (Kind(0), None, None),
            run_sum: Sum::default(),
        }
    }

    /// Adds up the records of `ledger`, or those that `filter` means, and says how many were being written.
    pub(crate) fn of(
        ledger: &Ledger,
        site_limit: usize,
        filter: Option<&mut Evaluator<'_>>,
        progress: &mut dyn FnMut(f32),
    ) -> Result<(Counts, u64), SourceError> {
        let sampling = Sampling::of(ledger);
        // Each worker has sums of its own for all sites. They are worth that only as long as the records take more.
        let records_bytes = ledger.count(SectionKind::Records)?.saturating_mul(RECORD_BYTES);
        let sums_bytes = (site_limit as u64).saturating_mul(size_of::<Sum>() as u64).max(1);
        let workers = records_bytes / 4 / sums_bytes;
        let scanned = ledger.scan_records(
            usize::try_from(workers).unwrap_or(usize::MAX),
            &|| (Counts::new(sampling, site_limit), Vec::new()),
            &|(counts, undecided), entries| match filter.as_deref() {
                None => {
                    for entry in entries {
                        counts.extents.add(entry);
                        counts.add(entry);
                    }
                }
                Some(filter) => {
                    for entry in entries {
                        counts.extents.add(entry);
                        match filter.known(entry) {
                            Some(true) => counts.add(entry),
                            Some(false) => {}
                            None => undecided.push(*entry),
                        }
                    }
                }
            },
            progress,
        )?;
        let mut all = Counts::new(sampling, site_limit);
        let mut filter = filter;
        for (counts, undecided) in scanned.states {
            all.join(counts);
            for entry in &undecided {
                if filter.as_deref_mut().map_or(Ok(true), |filter| filter.block(entry))? {
                    all.add(entry);
                }
            }
        }
        all.end_run();
        Ok((all, scanned.in_flight))
    }

    /// Adds what another has added up.
    fn join(&mut self, mut other: Counts) {
        fn join_all(own: &mut Vec<Sum>, other: &mut Vec<Sum>) {
            if other.len() > own.len() {
                std::mem::swap(own, other);
            }
            own.iter_mut().zip(other).for_each(|(own, other)| own.join(*other));
        }
        other.end_run();
        self.kinds.iter_mut().zip(other.kinds).for_each(|(own, other)| own.join(other));
        self.heaps.iter_mut().zip(other.heaps).for_each(|(own, other)| own.join(other));
        self.extents.join(other.extents);
        for (own, other) in self.heaps_actual.iter_mut().zip(other.heaps_actual) {
            *own = own.saturating_add(other);
        }
        join_all(&mut self.threads, &mut other.threads);
        join_all(&mut self.sites, &mut other.sites);
        self.without_thread.join(other.without_thread);
        self.all.join(other.all);
        self.spread.join(other.spread);
        self.actual = self.actual.saturating_add(other.actual);
        self.sizes_unknown += other.sizes_unknown;
        self.last_time = self.last_time.max(other.last_time);
    }

    fn add(&mut self, entry: &Entry) {
        let weight = self.sampling.weight(entry);
        self.spread.add(entry, weight);
        let actual = entry.actual.or(entry.size).unwrap_or(0);
        let actual = actual.saturating_mul(weight);
        self.actual = self.actual.saturating_add(actual);
        if let Some(of_heap) = entry.heap.and_then(|heap| self.heaps_actual.get_mut(usize::from(heap))) {
            *of_heap = of_heap.saturating_add(actual);
        }
        self.sizes_unknown += u64::from(entry.size.is_none());
        self.last_time = self.last_time.max(entry.time.unwrap_or(0));
        let run = (entry.kind, entry.heap, entry.thread);
        if run != self.run {
            self.end_run();
            self.run = run;
        }
        self.run_sum.add(entry, weight);
        let site = entry.site as usize;
        if site < self.site_limit {
            at(&mut self.sites, site).add(entry, weight);
        }
    }

    /// Adds a run to what it belongs to.
    fn end_run(&mut self) {
        let sum = std::mem::take(&mut self.run_sum);
        if sum.samples == 0 {
            return;
        }
        let (kind, heap, thread) = self.run;
        self.all.join(sum);
        if let Some(kind) = self.kinds.get_mut(usize::from(kind.0)) {
            kind.join(sum);
        }
        if let Some(heap) = heap.and_then(|heap| self.heaps.get_mut(usize::from(heap))) {
            heap.join(sum);
        }
        match thread.map(|row| row as usize).filter(|row| *row < THREAD_ROWS) {
            Some(row) => at(&mut self.threads, row).join(sum),
            None => self.without_thread.join(sum),
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
