//! How much of the stacks of calls that ended blocks was taken, and when that changed.

use heapledger_format::mark::MarkKind;
use heapledger_format::session::process as key;
use heapledger_format::{FreeDepth, Ticks};

use crate::{Ledger, SourceError};

/// From a moment on another depth was in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeDepthChange {
    /// The number of the moment: events that began later have higher ones.
    pub number: u64,
    /// When it was.
    pub time: Ticks,
    /// What was taken from then on.
    pub depth: FreeDepth,
}

/// What was taken of the stacks of calls that ended blocks, over time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreeDepths {
    /// At the start.
    pub first: FreeDepth,
    /// In order.
    pub changes: Vec<FreeDepthChange>,
}

impl FreeDepths {
    /// Whether each stack was taken as a whole.
    pub fn is_whole(&self) -> bool {
        self.first.is_whole() && self.changes.iter().all(|change| change.depth.is_whole())
    }

    /// Whether the stack of a call that ended a block under this number may have been cut, if so many frames of it are known. A call that was
    /// under way when the depth changed has a stack as before: so all that was in force until then counts, not the last alone. `None`: its
    /// number is not known.
    pub fn may_cut(&self, number: Option<u64>, frames: usize) -> bool {
        let until = |change: &&FreeDepthChange| number.is_none_or(|number| change.number < number);
        self.first.may_cut(frames) || self.changes.iter().take_while(until).any(|change| change.depth.may_cut(frames))
    }
}

impl Ledger {
    /// How much of the stacks of calls that ended blocks was taken.
    ///
    /// # Errors
    /// If the file can no longer be read.
    pub fn free_depths(&self) -> Result<FreeDepths, SourceError> {
        let said = self.process().get(key::FREE_DEPTH).and_then(FreeDepth::parse);
        let change = |mark: crate::NamedRow<heapledger_format::mark::Mark>| {
            let depth = FreeDepth::parse(mark.name.as_bytes())?;
            Some(FreeDepthChange { number: mark.entry.number.saturating_sub(1), time: mark.entry.time, depth })
        };
        let marks = self.marks()?.into_iter().filter(|mark| mark.entry.kind == MarkKind::FreeDepth as u16);
        let mut changes: Vec<FreeDepthChange> = marks.filter_map(change).collect();
        changes.sort_by_key(|change| change.number);
        Ok(FreeDepths { first: said.unwrap_or(FreeDepth::WHOLE), changes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_in_force_until_then_says_whether_a_stack_may_have_been_cut() {
        let at = |number, depth| FreeDepthChange { number, time: Ticks(number), depth };
        let whole = FreeDepths { first: FreeDepth::WHOLE, changes: Vec::new() };
        assert!(whole.is_whole() && !whole.may_cut(Some(1), 1) && !whole.may_cut(None, 0));
        let lowered =
            FreeDepths { first: FreeDepth::WHOLE, changes: vec![at(10, FreeDepth::of(2)), at(20, FreeDepth::WHOLE)] };
        assert!(!lowered.is_whole());
        for (number, frames, expected) in
            [(9, 1, false), (10, 2, false), (11, 2, true), (11, 3, false), (21, 2, true), (21, 3, false)]
        {
            assert_eq!(lowered.may_cut(Some(number), frames), expected, "{number}, {frames}");
        }
        assert!(lowered.may_cut(None, 1) && !lowered.may_cut(None, 3));
        let raised = FreeDepths { first: FreeDepth::CALLER, changes: vec![at(10, FreeDepth::WHOLE)] };
        assert!(!raised.is_whole() && raised.may_cut(Some(11), 1) && !raised.may_cut(Some(11), 2));
    }
}
