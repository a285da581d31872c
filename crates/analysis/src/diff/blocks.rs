//! Blocks one by one: those that only one of two ledgers has.

use heapledger_format::Entry;
use heapledger_source::{Ledger, SourceError};

use super::NumberSet;
use super::numbers::Search;
use crate::Estimate;
use crate::blocks::Blocks;
use crate::fold::{Act, Fold, fold};
use crate::query::{Evaluator, SortKeys};
use crate::selection::ChosenBlocks;

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
    chosen: ChosenBlocks<'k>,
}

impl Fold<Entry> for Looking<'_, '_> {
    #[inline]
    fn meet(&mut self, entry: &Entry, _: u64) -> bool {
        !self.search.has(entry.number)
    }

    #[inline]
    fn add(&mut self, entry: &Entry, act: Act, weight: u64) {
        self.chosen.add(entry, act, weight);
    }

    fn join(&mut self, other: Self) {
        self.chosen.join(other.chosen);
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
        let fresh = || Looking { search: other.search(), chosen: ChosenBlocks::none(keys, limit) };
        let ChosenBlocks { all, first } = fold(ledger, filter, usize::MAX, &fresh, progress)?.sum.chosen;
        Ok(OnlyHere { blocks: first.sorted(), all })
    }

    /// Blocks that there are and that are not in the list.
    pub fn left_out(&self) -> u64 {
        self.all.samples.saturating_sub(self.blocks.len() as u64)
    }
}
