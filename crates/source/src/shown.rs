//! What of the history an earlier copy shows.

use heapledger_format::header::flag;
use heapledger_format::{FreedEntry, GlobalCounter, Header, Ticks};

use crate::Ledger;

/// The frees that copies show which a debugger made of the same ledger before this one.
///
/// Threads use numbers that they leased earlier. So a number alone does not tell: a free that came after the copy may
/// have a lower one than a free before it, but not an earlier time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    below: u64,
    until: Ticks,
}

impl Shown {
    /// By the header of a copy. Of a ledger that is no copy everything is shown, whatever the debugger noted there.
    pub fn of(header: &Header) -> Shown {
        if header.flags & flag::COPY == 0 {
            return Shown::default();
        }
        Shown {
            below: header.global(GlobalCounter::HistoryShown),
            until: Ticks(header.global(GlobalCounter::HistoryShownTime)),
        }
    }

    /// Whether this is one of them.
    #[inline]
    pub fn has(&self, freed: &FreedEntry) -> bool {
        freed.number < self.below && freed.time.is_none_or(|time| time <= self.until)
    }
}

impl Ledger {
    /// The frees that an earlier copy shows; none, unless this is a copy that a debugger made.
    pub fn shown_before(&self) -> Shown {
        Shown::of(self.header())
    }
}
