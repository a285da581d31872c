//! Numbers of what a ledger lists, each of a type of its own: they are all small integers, and nothing else would tell a call
//! site from the row of a thread, or ticks from nanoseconds.

use core::fmt;

/// The number of a call site: with it, the whole stack is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Site(pub u32);

impl Site {
    /// None is known.
    pub const NONE: Site = Site(0);

    /// Where it lies among all, for tables that have a place for each.
    #[inline(always)]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The number of a label: with it, all pairs of key and value that were in force are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct LabelId(pub u32);

impl LabelId {
    /// There is none.
    pub const NONE: LabelId = LabelId(0);
    /// There is one, and which is not known: its number did not fit into the history.
    pub const UNKNOWN: LabelId = LabelId(u32::MAX);
}

/// The number of a code address; not that of a call site. 0: none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct CodeId(pub u32);

/// The row of a thread in `threads`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct ThreadRow(pub u32);

impl ThreadRow {
    /// In place of a row in records, whose rows are 16 bits wide: every thread that has none.
    pub const OTHER: ThreadRow = ThreadRow(0xFFFF);
}

/// The row of a thread, plus 1: as elements of tables name one. 0: none is named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct ThreadRowPlus1(pub u32);

impl ThreadRowPlus1 {
    /// None is named.
    pub const NONE: ThreadRowPlus1 = ThreadRowPlus1(0);
    /// All threads that have no row.
    pub const WITHOUT_ROW: ThreadRowPlus1 = ThreadRowPlus1(u32::MAX);

    /// The row of the thread; `None` if none is named, or one without a row.
    pub const fn row(self) -> Option<ThreadRow> {
        match self.0.checked_sub(1) {
            Some(row) if self.0 != Self::WITHOUT_ROW.0 => Some(ThreadRow(row)),
            _ => None,
        }
    }
}

impl From<ThreadRow> for ThreadRowPlus1 {
    fn from(row: ThreadRow) -> Self {
        ThreadRowPlus1(row.0.saturating_add(1))
    }
}

/// Ticks since the ledger began, or between two moments: how long one is, the ledger's header says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Ticks(pub u64);

impl Ticks {
    /// From an `earlier` moment to this one.
    pub const fn since(self, earlier: Ticks) -> Ticks {
        Ticks(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Display for ThreadRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Ticks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
