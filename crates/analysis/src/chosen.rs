//! Freed blocks of a history that a filter means.

use std::collections::BTreeMap;

use heapledger_format::FreedEntry;
use heapledger_source::{Ledger, SourceError};

use crate::fold::{Act, Fold, fold};
use crate::frees::FreesBefore;
use crate::notes::records_frees;
use crate::query::Evaluator;

/// Which blocks were added up, and what the history has of them. Estimates, if the ledger is sampled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chosen {
    /// The filter, as it can be read again.
    pub filter: String,
    /// Freed blocks that it means.
    pub blocks: u64,
    /// Bytes asked for in them.
    pub bytes: u64,
    /// Frees that are counted and no longer in the history: whether they were of such blocks is not known.
    pub frees_missing: u64,
    /// Whether the ledger recorded freed blocks at all.
    pub frees_recorded: bool,
    before: FreesBefore,
    /// Freed blocks of the history from before it was read, whether it means them or not.
    met: u64,
    begun: Kinds,
    ended: Kinds,
}

/// Blocks by the number of the function.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Kinds([u64; 256]);

impl Default for Kinds {
    fn default() -> Kinds {
        Kinds([0; 256])
    }
}

impl Kinds {
    fn join(&mut self, other: &Kinds) {
        self.0.iter_mut().zip(other.0).for_each(|(own, other)| *own = own.saturating_add(other));
    }

    fn counted(&self) -> BTreeMap<u8, u64> {
        (0u8..=u8::MAX).zip(self.0).filter(|(_, blocks)| *blocks != 0).collect()
    }
}

impl Fold<FreedEntry> for Chosen {
    #[inline]
    fn meet(&mut self, entry: &FreedEntry, weight: u64) -> bool {
        self.met = self.met.saturating_add(self.before.of_these(entry, weight));
        true
    }

    fn add(&mut self, entry: &FreedEntry, _: Act, weight: u64) {
        self.blocks = self.blocks.saturating_add(weight);
        self.bytes = self.bytes.saturating_add(entry.block.size.unwrap_or(0).saturating_mul(weight));
        let (begun, ended) = (usize::from(entry.block.kind.0), usize::from(entry.by.0));
        for (kinds, kind) in [(&mut self.begun, begun), (&mut self.ended, ended)] {
            if let Some(blocks) = kinds.0.get_mut(kind) {
                *blocks = blocks.saturating_add(weight);
            }
        }
    }

    fn join(&mut self, other: Self) {
        self.met = self.met.saturating_add(other.met);
        self.blocks = self.blocks.saturating_add(other.blocks);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.begun.join(&other.begun);
        self.ended.join(&other.ended);
    }
}

impl Chosen {
    /// Adds up what the history of `ledger` has.
    pub(crate) fn of(
        ledger: &Ledger,
        filter: &mut Evaluator<'_>,
        progress: &mut dyn FnMut(f32),
    ) -> Result<Chosen, SourceError> {
        filter.prepare_events(progress)?;
        let before = FreesBefore::of(ledger)?;
        let fresh = || Chosen { before, ..Chosen::default() };
        let folded = fold(ledger, Some(filter), usize::MAX, &fresh, &mut |_| {})?;
        let mut found = Chosen { filter: filter.text().to_owned(), ..folded.sum };
        found.frees_missing = before.missing(found.met);
        found.frees_recorded = records_frees(ledger);
        Ok(found)
    }

    /// How many each function began, and how many each ended.
    pub(crate) fn by_kind(&self) -> (BTreeMap<u8, u64>, BTreeMap<u8, u64>) {
        (self.begun.counted(), self.ended.counted())
    }
}
