//! Something to be done when a program holds more than so much.

use std::time::{Duration, Instant};

use crate::keep::Keeper;

/// Between two looks at what the program holds.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How often one limit is told of; a program that swings around it would fill the disk.
const TOLD_MAX: u32 = 16;

/// A limit on live bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threshold {
    /// What they pass when there are more than so many.
    pub bytes: u64,
    is_above: bool,
    told: u32,
}

impl Threshold {
    /// A limit that was not passed yet.
    pub fn new(bytes: u64) -> Threshold {
        Threshold { bytes, is_above: false, told: 0 }
    }

    /// Whether they have just passed it. It is passed again only after they have fallen an eighth below it.
    fn passes(&mut self, live: u64) -> bool {
        if self.is_above {
            self.is_above = live > self.bytes - self.bytes / 8;
            return false;
        }
        self.is_above = live > self.bytes;
        let is_told = self.is_above && self.told < TOLD_MAX;
        self.told += u32::from(is_told);
        is_told
    }
}

/// A limit that was passed.
#[derive(Clone, Copy, Debug)]
pub struct Passed {
    /// The limit.
    pub limit: u64,
    /// What was live when it was seen.
    pub live: u64,
    /// The process.
    pub pid: i32,
    /// Whether it is the last time that this limit is told of.
    pub is_last: bool,
}

/// Limits, and what to do when one is passed.
pub struct Thresholds<'a> {
    limits: Vec<Threshold>,
    next_look: Instant,
    tell: &'a mut dyn FnMut(Passed),
}

impl<'a> Thresholds<'a> {
    /// `tell` is called from [`crate::wait::Running::wait`], and should not take long.
    pub fn new(limits: Vec<Threshold>, tell: &'a mut dyn FnMut(Passed)) -> Thresholds<'a> {
        Thresholds { limits, next_look: Instant::now(), tell }
    }

    /// How long nothing need be looked at; `None`: nothing ever.
    pub(crate) fn patience(&self) -> Option<Duration> {
        (!self.limits.is_empty()).then(|| self.next_look.saturating_duration_since(Instant::now()))
    }

    /// Looks, if it is time.
    pub(crate) fn look(&mut self, keeper: &Keeper, pid: i32) {
        let now = Instant::now();
        if self.limits.is_empty() || now < self.next_look {
            return;
        }
        self.next_look = now + LOOK_EVERY;
        let Some(live) = keeper.live_bytes() else { return };
        for limit in &mut self.limits {
            if limit.passes(live) {
                (self.tell)(Passed { limit: limit.bytes, live, pid, is_last: limit.told == TOLD_MAX });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_passed_once_until_they_have_fallen_well_below_it() {
        let mut limit = Threshold::new(800);
        let seen: Vec<_> = [0, 800, 801, 5000, 801, 750, 900, 700, 800, 801, 802].map(|live| limit.passes(live)).into();
        let expected = [false, false, true, false, false, false, false, false, false, true, false];
        assert_eq!(seen, expected);
    }

    #[test]
    fn it_is_not_told_of_for_ever() {
        let mut limit = Threshold::new(1);
        let told = (0..100).filter(|round| limit.passes(round % 2 * 100)).count();
        assert_eq!(told, TOLD_MAX as usize);
    }
}
