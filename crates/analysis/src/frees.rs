//! Frees that the history does not have: of a program that runs, those count that were before the history was read.

use heapledger_format::{FreedEntry, GlobalCounter, TallyCounter};
use heapledger_source::{Ledger, SourceError};

/// How many frees there were before the history is read, and which those are.
///
/// What is freed while the history is read may be in it or not, and is missing in neither case. It has numbers from `next_number` on, but for
/// what threads had leased before: these are used up or given back within one step of the kernel's coarse clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FreesBefore {
    /// So many.
    pub(crate) frees: u64,
    next_number: u64,
}

impl FreesBefore {
    /// Call it before the history is read.
    pub(crate) fn of(ledger: &Ledger) -> Result<FreesBefore, SourceError> {
        let next_number = match ledger.is_running() {
            true => ledger.current_header()?.global(GlobalCounter::NextNumber),
            false => u64::MAX,
        };
        Ok(FreesBefore { frees: ledger.tallies()?.get(TallyCounter::Frees), next_number })
    }

    /// For how many of them this free stands, which stands for so many: all, or none.
    pub(crate) fn of_these(&self, freed: &FreedEntry, weight: u64) -> u64 {
        if freed.number < self.next_number { weight } else { 0 }
    }

    /// How many are not in the history, if it has so many of them.
    pub(crate) fn missing(&self, met: u64) -> u64 {
        self.frees.saturating_sub(met)
    }
}
