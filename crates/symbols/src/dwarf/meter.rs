//! Bounds on work: a deadline for honest files, a budget for forged ones.
//!
//! A forged file can make any walk long: a thousand units may all refer to one line program
//! of a million rows. Every loop over such data pays per step, and stops when it is broke.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Steps between two looks at the clock.
const STRIDE: u64 = 4096;

/// Why a piece of debug information was given up.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Trouble {
    /// It does not parse.
    Damaged,
    /// It takes more work than any honest file.
    TooMuch,
    /// The caller's time is up.
    Late,
}

impl From<gimli::Error> for Trouble {
    fn from(_: gimli::Error) -> Self {
        // Which of a hundred ways it fails to parse helps no reader of a report.
        Trouble::Damaged
    }
}

/// Counts steps for all threads of a batch.
#[derive(Debug)]
pub(crate) struct Meter {
    deadline: Option<Instant>,
    left: AtomicU64,
}

/// One walk's account with the meter: it settles only now and then, as clocks and shared
/// counters are slow.
pub(crate) struct Tally<'a> {
    meter: &'a Meter,
    unpaid: u64,
}

impl Meter {
    pub(crate) fn new(deadline: Option<Instant>, budget: u64) -> Self {
        Meter { deadline, left: AtomicU64::new(budget) }
    }

    pub(crate) fn spend(&self, steps: u64) -> Result<(), Trouble> {
        if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Err(Trouble::Late);
        }
        let take = |left: u64| left.checked_sub(steps);
        // Relaxed: the count guards no other memory.
        match self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            Ok(_) => Ok(()),
            Err(_) => Err(Trouble::TooMuch),
        }
    }

    /// Fails unless there is time for what takes so long and cannot be interrupted.
    pub(crate) fn reserve(&self, time: Duration) -> Result<(), Trouble> {
        match self.deadline {
            Some(deadline) if Instant::now() + time >= deadline => Err(Trouble::Late),
            _ => Ok(()),
        }
    }

    pub(crate) fn tally(&self) -> Tally<'_> {
        Tally { meter: self, unpaid: 0 }
    }
}

impl Tally<'_> {
    pub(crate) fn step(&mut self) -> Result<(), Trouble> {
        self.unpaid += 1;
        if self.unpaid < STRIDE {
            return Ok(());
        }
        self.unpaid = 0;
        self.meter.spend(STRIDE)
    }
}

impl Drop for Tally<'_> {
    fn drop(&mut self) {
        // A million short walks must not be free.
        let _ = self.meter.spend(self.unpaid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_take_too_long_is_not_begun() {
        let hour = Duration::from_secs(3600);
        let meter = Meter::new(Some(Instant::now() + hour), 1);
        assert!(meter.reserve(Duration::ZERO).is_ok() && meter.reserve(hour / 2).is_ok());
        assert!(matches!(meter.reserve(2 * hour), Err(Trouble::Late)));
        assert!(Meter::new(None, 1).reserve(2 * hour).is_ok());
    }
}
