//! Blocks one by one: those that only one of two ledgers has.

use heapledger_source::{Ledger, SourceError};

use super::{Amount, Numbers};
use crate::blocks::{Blocks, First, Run};
use crate::query::{Evaluator, SortKeys};
use crate::sampling::Sampling;

/// Blocks that one ledger has and another has not.
#[derive(Clone, Debug, Default)]
pub struct OnlyHere {
    /// The first of them.
    pub blocks: Blocks,
    /// All of them.
    pub all: Amount,
}

impl OnlyHere {
    /// The blocks of `ledger` that `filter` means and whose numbers are not in `other`; the first `limit` in this
    /// order, 0 for all. A filter that is [prepared](Evaluator::prepare_blocks) decides faster.
    ///
    /// # Errors
    /// If the ledger can no longer be read.
    pub fn of(
        ledger: &Ledger,
        other: &Numbers,
        mut filter: Option<&mut Evaluator<'_>>,
        (keys, limit): (&SortKeys, usize),
        progress: &mut dyn FnMut(f32),
    ) -> Result<OnlyHere, SourceError> {
        let sampling = Sampling::of(ledger);
        let decided = filter.as_deref();
        let scanned = ledger.scan_records(
            usize::MAX,
            &|| (other.search(), Amount::default(), First::new(keys, limit), Run::default()),
            &|(search, all, first, undecided), entries| {
                for entry in entries.iter().filter(|entry| !search.has(entry.number)) {
                    match decided.map_or(Some(true), |filter| filter.known(entry)) {
                        Some(true) => {
                            all.add(entry, sampling.weight(entry));
                            first.add(entry);
                        }
                        Some(false) => {}
                        None => undecided.push(entry),
                    }
                }
            },
            progress,
        )?;
        let (mut all, mut first) = (Amount::default(), First::new(keys, limit));
        for (_, amount, found, undecided) in scanned.states {
            all.join(&amount);
            first.join(found);
            for entry in undecided.iter() {
                if filter.as_mut().map_or(Ok(true), |filter| filter.block(&entry))? {
                    all.add(&entry, sampling.weight(&entry));
                    first.add(&entry);
                }
            }
        }
        Ok(OnlyHere { blocks: first.sorted(), all })
    }

    /// Blocks that there are and that are not in the list.
    pub fn left_out(&self) -> u64 {
        self.all.samples.saturating_sub(self.blocks.len() as u64)
    }
}
