//! What a ledger records, and what it does not.

use crate::layout::{Field, RecordLayout};

/// What a ledger records beside address, size, number and kind. Each can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options(pub u32);

impl Options {
    /// Actual sizes.
    pub const ACTUAL_SIZE: u32 = 1;
    /// Time stamps.
    pub const TIME: u32 = 2;
    /// Threads.
    pub const THREAD: u32 = 4;
    /// Call stacks.
    pub const STACK: u32 = 8;
    /// Freed blocks.
    pub const HISTORY: u32 = 16;
    /// Heaps.
    pub const HEAP: u32 = 32;
    /// Addresses. Stored nowhere: they are recorded where a record has a place for them, which all but the ledgers of some logs
    /// have.
    pub const ADDRESS: u32 = 1 << 31;
    /// Processor cores, and their counters. Stored nowhere, as that: only ledgers of some logs have places for them.
    pub const CORE: u32 = 1 << 30;
    /// The counters of these.
    pub const CYCLES: u32 = 1 << 29;
    /// Everything that version 1 records.
    pub const ALL: Options = Options(63);

    /// Whether `option` is on.
    #[inline(always)]
    pub const fn has(self, option: u32) -> bool {
        // Addresses are there unless it is said that they are not: all recorders have them.
        (self.0 ^ Options::ADDRESS) & option != 0
    }

    /// The same of a ledger with these places: whether there are addresses, cores and their counters.
    #[must_use]
    pub fn of_layout(self, layout: &RecordLayout) -> Options {
        let bit = |option: u32, has: bool| if has { option } else { 0 };
        let places = bit(Options::ADDRESS, !layout.has(Field::Address))
            | bit(Options::CORE, layout.has(Field::Core))
            | bit(Options::CYCLES, layout.has(Field::Cycles));
        Options(self.stored().0 | places)
    }

    /// Those of them that a ledger stores.
    #[must_use]
    pub const fn stored(self) -> Options {
        Options(self.0 & !(Options::ADDRESS | Options::CORE | Options::CYCLES))
    }
}
