//! Live blocks, sorted and limited.

use heapledger_format::Entry;
use heapledger_source::{Ledger, SourceError};

use crate::Estimate;
use crate::blocks::{Blocks, FirstBlocks};
use crate::fields::Field;
use crate::fold::{Act, Fold, Folded, fold};
use crate::query::{Evaluator, SortKey, SortKeys};
use crate::sampling::{Sampled, Sampling};

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
            Sort::Address => vec![key(Field::Address, false)],
            Sort::Size => vec![key(Field::Size, true)],
            Sort::Number => vec![key(Field::Number, false)],
            Sort::Age => vec![key(Field::Time, false)],
        })
    }
}

/// What blocks come to: the first of them, and all.
pub(crate) struct ChosenBlocks<'k> {
    pub(crate) all: Estimate,
    pub(crate) first: FirstBlocks<'k>,
}

impl<'k> ChosenBlocks<'k> {
    /// None yet, of so many in this order; 0: of all.
    pub(crate) fn none(keys: &'k SortKeys, limit: usize) -> ChosenBlocks<'k> {
        ChosenBlocks { all: Estimate::default(), first: FirstBlocks::new(keys, limit) }
    }
}

impl Fold<Entry> for ChosenBlocks<'_> {
    #[inline]
    fn add(&mut self, entry: &Entry, _: Act, weight: u64) {
        self.all.add(entry, weight);
        self.first.add(entry);
    }

    fn join(&mut self, other: Self) {
        self.all.join(&other.all);
        self.first.join(other.first);
    }
}

impl Selection {
    /// The first `limit` live blocks in the order of `sort`; 0 is all of them, and then
    /// all of them are held in memory (32 bytes each).
    ///
    /// # Errors
    /// If the ledger can no longer be read.
    pub fn of(
        ledger: &Ledger,
        sort: impl Into<SortKeys>,
        limit: usize,
        progress: &mut dyn FnMut(f32),
    ) -> Result<Selection, SourceError> {
        Self::matching(ledger, None, &sort.into(), limit, progress)
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
        let fresh = || ChosenBlocks::none(keys, limit);
        let Folded { sum: ChosenBlocks { all, first }, in_flight } =
            fold(ledger, filter.as_deref_mut(), usize::MAX, &fresh, progress)?;
        Ok(Selection {
            blocks: first.sorted(),
            total: all.samples,
            total_blocks: all.blocks,
            total_bytes: all.bytes,
            total_bytes_error: all.bytes_error(),
            sampled: Sampling::of(ledger).from(all.samples),
            in_flight,
            filter: filter.map(|filter| filter.text().to_owned()),
        })
    }

    /// Blocks that there are and that are not shown.
    pub fn left_out(&self) -> u64 {
        self.total.saturating_sub(self.blocks.len() as u64)
    }
}
