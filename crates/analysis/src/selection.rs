//! Live blocks, sorted and limited.

use heapledger_source::format::Entry;
use heapledger_source::{Ledger, SourceError};

use crate::blocks::{Blocks, First, Run};
use crate::query::{Evaluator, SortField, SortKey, SortKeys};
use crate::sampling::{Sampled, Sampling, Spread, Sum};

/// The most usual orders of blocks; any other is made of [`SortKeys`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// Lowest address first.
    #[default]
    Address,
    /// Largest first.
    Size,
    /// First allocated first.
    Number,
    /// Oldest first: by time, then number.
    Age,
}

/// Live blocks in order.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// The blocks to show.
    pub blocks: Blocks,
    /// How many there are in all: records.
    pub total: u64,
    /// How many blocks these stand for.
    pub total_blocks: u64,
    /// Their bytes in all.
    pub total_bytes: u64,
    /// The standard error of `total_bytes`; 0 if exact.
    pub total_bytes_error: u64,
    /// What estimates come from; `None` if every block was entered.
    pub sampled: Option<Sampled>,
    /// Records that were being written.
    pub in_flight: u64,
    /// Which blocks are meant, in the language of filters; `None` if all are.
    pub filter: Option<String>,
}

impl From<Sort> for SortKeys {
    fn from(sort: Sort) -> SortKeys {
        let key = |by, descending| SortKey { by, descending };
        SortKeys::new(match sort {
            Sort::Address => vec![key(SortField::Address, false)],
            Sort::Size => vec![key(SortField::Size, true)],
            Sort::Number => vec![key(SortField::Number, false)],
            Sort::Age => vec![key(SortField::Time, false)],
        })
    }
}

/// What one worker has found.
struct Chosen<'k> {
    sum: Sum,
    spread: Spread,
    first: First<'k>,
    /// What the filter cannot decide on with what it knows: new threads and stacks of a running program.
    undecided: Run,
}

impl Chosen<'_> {
    fn new(keys: &SortKeys, limit: usize) -> Chosen<'_> {
        let first = First::new(keys, limit);
        Chosen { sum: Sum::default(), spread: Spread::default(), first, undecided: Run::default() }
    }

    #[inline]
    fn add(&mut self, entry: &Entry, sampling: Sampling) {
        let weight = sampling.weight(entry);
        self.sum.add(entry, weight);
        self.spread.add(entry, weight);
        self.first.add(entry);
    }
}

impl Selection {
    /// The first `limit` live blocks in the order of `sort`, or in the reverse; 0 is all of them, and then
    /// all of them are held in memory (32 bytes each).
    ///
    /// # Errors
    /// If the ledger can no longer be read.
    pub fn of(
        ledger: &Ledger,
        sort: impl Into<SortKeys>,
        reverse: bool,
        limit: usize,
        progress: &mut dyn FnMut(f32),
    ) -> Result<Selection, SourceError> {
        let keys = sort.into();
        let keys = if reverse { keys.reversed() } else { keys };
        Self::matching(ledger, None, &keys, limit, progress)
    }

    /// As [`Selection::of`], of those blocks that `filter` means. Totals are those of these blocks.
    ///
    /// # Errors
    /// If the ledger can no longer be read.
    pub fn matching(
        ledger: &Ledger,
        mut filter: Option<&mut Evaluator<'_>>,
        keys: &SortKeys,
        limit: usize,
        progress: &mut dyn FnMut(f32),
    ) -> Result<Selection, SourceError> {
        filter = filter.filter(|filter| !filter.is_all());
        if let Some(filter) = &mut filter {
            filter.prepare_blocks(progress)?;
        }
        let sampling = Sampling::of(ledger);
        let decided = filter.as_deref();
        let scanned = ledger.scan_records(
            usize::MAX,
            &|| Chosen::new(keys, limit),
            &|chosen, entries| {
                for entry in entries {
                    match decided.map_or(Some(true), |filter| filter.known(entry)) {
                        Some(true) => chosen.add(entry, sampling),
                        Some(false) => {}
                        None => chosen.undecided.push(entry),
                    }
                }
            },
            progress,
        )?;
        let mut all = Chosen::new(keys, limit);
        for part in scanned.states {
            all.sum.join(part.sum);
            all.spread.join(part.spread);
            all.first.join(part.first);
            for entry in part.undecided.iter() {
                let meant = match &mut filter {
                    Some(filter) => filter.block(&entry)?,
                    None => true,
                };
                if meant {
                    all.add(&entry, sampling);
                }
            }
        }
        Ok(Selection {
            blocks: all.first.sorted(),
            total: all.sum.samples,
            total_blocks: all.sum.blocks,
            total_bytes: all.sum.bytes,
            total_bytes_error: all.spread.bytes_error(),
            sampled: sampling.from(all.sum.samples),
            in_flight: scanned.in_flight,
            filter: filter.map(|filter| filter.text().to_owned()),
        })
    }

    /// Blocks that there are and that are not shown.
    pub fn left_out(&self) -> u64 {
        self.total.saturating_sub(self.blocks.len() as u64)
    }
}
