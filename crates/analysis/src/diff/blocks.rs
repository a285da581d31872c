//! Blocks one by one: those that only one of two ledgers has.

use heapledger_source::format::Entry;
use heapledger_source::{Ledger, SourceError};

use super::{Accept, Amount, Numbers};
use crate::query::SortKeys;
use crate::sampling::Sampling;
use crate::selection::First;

/// Blocks that one ledger has and another has not.
#[derive(Clone, Debug, Default)]
pub struct OnlyHere {
    /// The first of them.
    pub blocks: Vec<Entry>,
    /// All of them.
    pub all: Amount,
}

impl OnlyHere {
    /// The blocks of `ledger` whose numbers are not in `other`; the first `limit` in this order, 0 for all.
    ///
    /// # Errors
    /// If the ledger can no longer be read.
    pub fn of(
        ledger: &Ledger,
        other: &Numbers,
        accept: &mut Accept<'_>,
        (keys, limit): (&SortKeys, usize),
        progress: &mut dyn FnMut(f32),
    ) -> Result<OnlyHere, SourceError> {
        let sampling = Sampling::of(ledger);
        let mut search = other.search();
        let mut found = OnlyHere::default();
        let mut first = First::new(keys, limit);
        let mut records = ledger.records();
        loop {
            progress(records.progress());
            let Some(chunk) = records.next_chunk()? else { break };
            for entry in chunk {
                if !search.has(entry.number) && accept(entry)? {
                    found.all.add(entry, sampling.weight(entry));
                    first.add(entry);
                }
            }
        }
        found.blocks = first.sorted();
        Ok(found)
    }

    /// Blocks that there are and that are not in the list.
    pub fn left_out(&self) -> u64 {
        self.all.samples.saturating_sub(self.blocks.len() as u64)
    }
}
