//! Ticks of a ledger as times.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use heapledger_format::session::process as key;
use heapledger_format::{GlobalCounter, Ticks};
use heapledger_source::{Ledger, SourceError};

/// What ticks mean, and when the ledger was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    tick_ns: u64,
    start_unix_ns: u64,
    /// The moment that ages are counted to.
    end: Ticks,
}

impl Clock {
    /// The clock of `ledger`. Ages count to `now` if its program runs, to its moment if it is a snapshot
    /// or a copy that says when it was made, else to the end of the recording.
    ///
    /// # Errors
    /// If the ledger can no longer be read.
    pub fn new(ledger: &Ledger, now: SystemTime) -> Result<Clock, SourceError> {
        let header = ledger.current_header()?;
        let tick_ns = u64::from(header.tick_ns);
        let last = header.global(GlobalCounter::LastTime);
        let ended = ledger.process().number(key::WALL_NS).and_then(|wall| wall.checked_div(tick_ns));
        let end = Ticks(if ledger.is_running() {
            let now = now.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_nanos();
            let now = u64::try_from(now).unwrap_or(u64::MAX).saturating_sub(header.start_unix_ns);
            now.checked_div(tick_ns).unwrap_or(last).max(last)
        } else {
            let taken = ledger.moment_unix_ns().map(|at| at.saturating_sub(header.start_unix_ns));
            let taken = taken.and_then(|ns| ns.checked_div(tick_ns));
            last.max(ended.or(taken).unwrap_or(0))
        });
        Ok(Clock { tick_ns, start_unix_ns: header.start_unix_ns, end })
    }

    /// One whose ticks are nanoseconds.
    #[cfg(test)]
    pub(crate) fn for_tests() -> Clock {
        Clock { tick_ns: 1, start_unix_ns: 0, end: Ticks(0) }
    }

    /// Nanoseconds since the ledger began; `None` if ticks have no known length.
    pub fn ns(&self, time: Ticks) -> Option<u64> {
        (self.tick_ns != 0).then(|| time.0.saturating_mul(self.tick_ns))
    }

    /// The moment that ages are counted to.
    pub fn end(&self) -> Ticks {
        self.end
    }

    /// How long ago that was.
    pub fn age(&self, time: Ticks) -> Ticks {
        self.end.since(time)
    }

    /// How long ago that was, in nanoseconds.
    pub fn age_ns(&self, time: Ticks) -> Option<u64> {
        self.ns(self.age(time))
    }

    /// How long was recorded, in nanoseconds.
    pub fn span_ns(&self) -> Option<u64> {
        self.ns(self.end)
    }

    /// When the ledger began, in nanoseconds since 1970; `None` if unknown.
    pub fn start_unix_ns(&self) -> Option<u64> {
        Some(self.start_unix_ns).filter(|start| *start != 0)
    }
}
