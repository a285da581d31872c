//! Between what bounds a figure lies, and what makes that so.

use crate::Note;

/// Why a figure may be another than the ledger says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// It is an estimate from samples; the bounds are those of twice its standard error.
    Sampled,
    /// It is a peak of several threads, each of which keeps some bytes back.
    PeakError,
    /// It is the peak of several processes together, and nobody looked at all of them all the time.
    Together,
    /// Blocks without a stack: whether a condition or an excuse means them is not known.
    WithoutStack {
        /// How many.
        blocks: u64,
    },
    /// Something was not seen.
    Unseen(Note),
}

impl Doubt {
    /// What was not seen, if that is the reason.
    pub fn note(&self) -> Option<&Note> {
        match self {
            Doubt::Unseen(note) => Some(note),
            _ => None,
        }
    }
}

/// How far a figure may be from what the ledger says, in one direction, for one reason.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Off {
    /// Not at all.
    #[default]
    Not,
    /// By so much at most.
    By(u64),
    /// By so much, as chance has it: such errors of two estimates seldom come together.
    Error(f64),
    /// Nobody knows.
    Unknown,
}

/// All reasons in one direction.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Reach {
    by: u64,
    error: f64,
    open: bool,
    doubts: Vec<Doubt>,
}

impl Reach {
    pub(super) fn add(&mut self, doubt: &Doubt, off: Off) {
        match off {
            Off::Not | Off::By(0) => return,
            Off::Error(error) if error <= 0.0 => return,
            Off::By(by) => self.by = self.by.saturating_add(by),
            Off::Error(error) => self.error = self.error.hypot(error),
            Off::Unknown => self.open = true,
        }
        if !self.doubts.contains(doubt) {
            self.doubts.push(doubt.clone());
        }
    }

    /// Adds what another figure may be off, from which this one is reckoned, so many times.
    fn join(&mut self, other: &Reach, times: f64) {
        self.by = self.by.saturating_add((other.by as f64 * times).ceil() as u64);
        self.error = self.error.hypot(other.error * times);
        self.open |= other.open;
        for doubt in &other.doubts {
            if !self.doubts.contains(doubt) {
                self.doubts.push(doubt.clone());
            }
        }
    }

    /// What is sure of it cannot be more than this.
    fn at_most(&mut self, by: u64) {
        if self.open || self.by > by {
            (self.by, self.open) = (by, false);
        }
    }

    /// In all; `None` if nobody knows.
    fn total(&self) -> Option<u64> {
        (!self.open).then(|| self.by.saturating_add(self.error.ceil() as u64))
    }
}

/// A figure, and how far it may be off.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Range {
    /// What the ledger says.
    pub(super) found: u64,
    /// How much less it may be.
    pub(super) below: Reach,
    /// How much more it may be.
    pub(super) above: Reach,
    /// Something else says that it is no less.
    floor: u64,
    /// Something else says that it is no more.
    ceiling: Option<u64>,
}

impl Range {
    pub(super) fn of(found: u64) -> Range {
        Range { found, ..Range::default() }
    }

    pub(super) fn add(&mut self, doubt: &Doubt, [below, above]: [Off; 2]) {
        self.below.add(doubt, below);
        self.above.add(doubt, above);
    }

    /// Something else says that it is no less than `least`, and no more than `most`.
    pub(super) fn within(&mut self, least: u64, most: Option<u64>) {
        self.floor = self.floor.max(least.min(self.found));
        if let Some(most) = most {
            let most = most.max(self.found);
            self.ceiling = Some(self.ceiling.map_or(most, |other| other.min(most)));
        }
    }

    pub(super) fn least(&self) -> u64 {
        self.below.total().map_or(0, |off| self.found.saturating_sub(off)).max(self.floor)
    }

    pub(super) fn most(&self) -> Option<u64> {
        let most = self.above.total().map(|off| self.found.saturating_add(off));
        most.into_iter().chain(self.ceiling).min()
    }

    /// The same, held against a limit that is itself `times` a figure which is not known exactly: as if that one were.
    pub(super) fn against(mut self, other: &Range, times: f64) -> Range {
        let bounded = |range: &mut Range| {
            range.below.at_most(range.found - range.floor);
            if let Some(most) = range.ceiling.take() {
                range.above.at_most(most - range.found);
            }
            range.floor = 0;
        };
        let mut other = other.clone();
        bounded(&mut self);
        bounded(&mut other);
        self.above.join(&other.below, times);
        self.below.join(&other.above, times);
        self
    }

    /// All that makes it uncertain.
    pub(super) fn reasons(&self) -> Vec<Doubt> {
        let mut reasons = self.below.doubts.clone();
        reasons.extend(self.above.doubts.iter().filter(|doubt| !self.below.doubts.contains(doubt)).cloned());
        reasons
    }

    /// Whether it keeps the limit, and what leaves that open.
    pub(super) fn verdict(&self, limit: u64) -> (Verdict, Vec<Doubt>) {
        if self.most().is_some_and(|most| most <= limit) {
            (Verdict::Holds, Vec::new())
        } else if self.least() > limit {
            (Verdict::Exceeded, Vec::new())
        } else if self.found <= limit {
            (Verdict::Uncertain, self.above.doubts.clone())
        } else {
            (Verdict::Uncertain, self.below.doubts.clone())
        }
    }
}

/// Whether a limit holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It does.
    Holds,
    /// Nobody knows: the figure is nearer to the limit than it may be off.
    Uncertain,
    /// It does not.
    Exceeded,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(found: u64, below: &[Off], above: &[Off]) -> Range {
        let mut range = Range::of(found);
        below.iter().for_each(|off| range.below.add(&Doubt::PeakError, *off));
        above.iter().for_each(|off| range.above.add(&Doubt::PeakError, *off));
        range
    }

    #[test]
    fn a_limit_within_the_bounds_is_uncertain() {
        for (found, below, above, limit, verdict) in [
            (10, Off::Not, Off::Not, 10, Verdict::Holds),
            (11, Off::Not, Off::Not, 10, Verdict::Exceeded),
            (11, Off::By(1), Off::Not, 10, Verdict::Uncertain),
            (12, Off::By(1), Off::Not, 10, Verdict::Exceeded),
            (9, Off::Not, Off::By(1), 10, Verdict::Holds),
            (9, Off::Not, Off::By(2), 10, Verdict::Uncertain),
            (9, Off::Unknown, Off::Not, 10, Verdict::Holds),
            (9, Off::Not, Off::Unknown, 10, Verdict::Uncertain),
            (11, Off::Not, Off::Unknown, 10, Verdict::Exceeded),
            (11, Off::Unknown, Off::Unknown, 10, Verdict::Uncertain),
            (11, Off::Error(0.5), Off::Not, 10, Verdict::Uncertain),
            (u64::MAX, Off::By(u64::MAX), Off::By(u64::MAX), 0, Verdict::Uncertain),
        ] {
            let range = range(found, &[below], &[above]);
            let (is, doubts) = range.verdict(limit);
            assert_eq!(is, verdict, "{found} {below:?} {above:?} against {limit}");
            assert_eq!(doubts.is_empty(), verdict != Verdict::Uncertain, "{found} {below:?} {above:?}");
        }
    }

    #[test]
    fn sure_bounds_add_up_and_chance_does_not() {
        let both = range(100, &[Off::By(3), Off::By(4)], &[Off::Error(3.0), Off::Error(4.0)]);
        assert_eq!((both.least(), both.most()), (93, Some(105)));
        let mut known = range(100, &[Off::Unknown], &[Off::Unknown]);
        assert_eq!((known.least(), known.most()), (0, None));
        known.within(90, Some(120));
        assert_eq!((known.least(), known.most()), (90, Some(120)));
        // What a baseline may be off moves the limit the other way; what is unknown there is at most all of it.
        let old = range(50, &[Off::Unknown], &[Off::By(10)]);
        let new = range(100, &[], &[]).against(&old, 1.0);
        assert_eq!((new.least(), new.most()), (90, Some(150)));
    }
}
