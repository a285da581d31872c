//! How often something is looked at that costs time of a processor.

use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};

/// Between two looks at first.
const STEP: Duration = Duration::from_millis(10);
/// And later this part of the time that has gone by: 200 looks while it doubles.
const PART: u32 = 200;
/// Looking may take this part of the time.
const COST: u32 = 50;

/// When the next look is due.
pub(super) struct Pace {
    begun: Instant,
    next: Instant,
}

impl Pace {
    pub(super) fn new() -> Pace {
        let begun = Instant::now();
        Pace { begun, next: begun + STEP }
    }

    pub(super) fn is_due(&self) -> bool {
        Instant::now() >= self.next
    }

    /// How long there is nothing to be looked at.
    pub(super) fn patience(&self) -> Duration {
        self.next.saturating_duration_since(Instant::now())
    }

    /// A look has been made, that began when this thread had used so much of a processor: where it had to wait for one, it cost no more.
    pub(super) fn looked(&mut self, began: Duration) {
        let cost = processor_time().saturating_sub(began);
        self.next = Instant::now() + STEP.max(self.begun.elapsed() / PART).max(cost * COST);
    }
}

/// What this thread has used of a processor.
pub(super) fn processor_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_looks_no_less_often() {
        let mut pace = Pace::new();
        let began = processor_time();
        std::thread::sleep(Duration::from_millis(40));
        pace.looked(began);
        assert!(pace.patience() <= STEP * 5, "{:?}", pace.patience());
        let began = processor_time();
        while processor_time() < began + Duration::from_millis(4) {}
        pace.looked(began);
        assert!(!pace.is_due() && pace.patience() > Duration::from_millis(100), "{:?}", pace.patience());
    }
}
