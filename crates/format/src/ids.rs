//! Numbers of what a ledger lists, each of a type of its own: they are all small integers, and nothing else would tell a call
//! site from the row of a thread.

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
