//! Blocks one by one: those that only one of two ledgers has.

use heapledger_format::Entry;
use heapledger_source::{Ledger, SourceError};

use super::NumberSet;
use super::numbers::Search;
use crate::Estimate;
use crate::blocks::{Blocks, FirstBlocks};
use crate::fold::{Act, Fold, fold};
use crate::query::{Evaluator, SortKeys};

/// Blocks that one ledger has and another has not.
#[derive(Clone, Debug, Default)]
pub struct OnlyHere {
    /// The first of them.
    pub blocks: Blocks,
    /// All of them.
    pub all: Estimate,
}

/// Those of them that were found.
struct Looking<'n, 'k> {
    search: Search<'n>,
    all: Estimate,
    first: FirstBlocks<'k>,
}

impl Fold<Entry> for Looking<'_, '_> {
    #[inline]
    fn meet(&mut self, entry: &Entry, _: u64) -> bool {
        !self.search.has(entry.number)
    }

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

impl OnlyHere {
    /// The blocks of `ledger` that `filter` means and whose numbers are not in `other`; the first `limit` in this
    /// order, 0 for all. A filter that is [prepared](Evaluator::prepare_blocks) decides faster.
    ///
    /// # Errors
    /// If the ledger can no longer be read.
    pub fn of(
        ledger: &Ledger,
        other: &NumberSet,
        filter: Option<&mut Evaluator<'_>>,
        (keys, limit): (&SortKeys, usize),
        progress: &mut dyn FnMut(f32),
    ) -> Result<OnlyHere, SourceError> {
        let fresh =
            || Looking { search: other.search(), all: Estimate::default(), first: FirstBlocks::new(keys, limit) };
        let found = fold(ledger, filter, usize::MAX, &fresh, progress)?.sum;
        Ok(OnlyHere { blocks: found.first.sorted(), all: found.all })
    }

    /// Blocks that there are and that are not in the list.
    pub fn left_out(&self) -> u64 {
        self.all.samples.saturating_sub(self.blocks.len() as u64)
    }
}
