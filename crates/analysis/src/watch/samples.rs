//! The readings of the last seconds: what rates are reckoned from.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Sample;

/// Rates are those of so much time, or of the time between two readings if that is longer: long enough to be calm,
/// short enough to follow.
pub const RATE_WINDOW_NS: u64 = 5_000_000_000;
/// Most readings kept.
const SAMPLES_MAX: usize = 16;

/// The last readings, the newest one last.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    kept: VecDeque<Arc<Sample>>,
}

impl Samples {
    /// Adds a reading.
    pub fn push(&mut self, sample: Arc<Sample>) {
        // Readings that follow each other closely would push the window out: the one between goes.
        let spacing = RATE_WINDOW_NS / (SAMPLES_MAX as u64 - 2);
        let count = self.kept.len();
        if count >= 2 && sample.at_ns.saturating_sub(self.kept[count - 2].at_ns) < spacing {
            self.kept.pop_back();
        }
        let end = sample.at_ns;
        self.kept.push_back(sample);
        // One reading at or before the window's begin stays.
        while self.kept.len() > SAMPLES_MAX
            || self.kept.get(1).is_some_and(|second| end.saturating_sub(second.at_ns) >= RATE_WINDOW_NS)
        {
            self.kept.pop_front();
        }
    }

    /// The newest.
    pub fn last(&self) -> Option<&Arc<Sample>> {
        self.kept.back()
    }

    /// The one that the newest is compared with for rates; `None` as long as there is only one.
    pub fn before(&self) -> Option<&Arc<Sample>> {
        self.kept.front().filter(|_| self.kept.len() > 1)
    }
}

/// By how much a figure grew in a second; `None` if no time has passed.
pub fn per_second(now: u64, before: u64, span_ns: u64) -> Option<f64> {
    (span_ns > 0).then(|| (i128::from(now) - i128::from(before)) as f64 * 1e9 / span_ns as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Arc<Sample> {
        Arc::new(Sample { at_ns: ms * 1_000_000, ..Sample::default() })
    }

    fn window(samples: &Samples) -> Option<u64> {
        Some((samples.last()?.at_ns - samples.before()?.at_ns) / 1_000_000)
    }

    #[test]
    fn rates_are_those_of_the_last_seconds() {
        let mut samples = Samples::default();
        assert!(samples.last().is_none());
        samples.push(at(0));
        assert_eq!(window(&samples), None, "one reading has no rate");
        for second in 1..=4 {
            samples.push(at(second * 1000));
            assert_eq!(window(&samples), Some(second * 1000));
        }
        for second in 5..50 {
            samples.push(at(second * 1000));
            assert_eq!(window(&samples), Some(5000));
        }
        // Now every 30 seconds.
        samples.push(at(80_000));
        assert_eq!(window(&samples), Some(31_000));
        samples.push(at(110_000));
        assert_eq!(window(&samples), Some(30_000));
    }

    #[test]
    fn fast_readings_do_not_shorten_the_window() {
        let mut samples = Samples::default();
        for step in 0..400 {
            samples.push(at(step * 50));
        }
        let window = window(&samples).expect("several");
        assert!((5000..6000).contains(&window), "{window}");
        assert!(samples.kept.len() <= SAMPLES_MAX);
        assert_eq!(samples.last().map(|sample| sample.at_ns), Some(399 * 50_000_000));
    }

    #[test]
    fn rates_have_signs() {
        assert_eq!(per_second(10, 20, 2_000_000_000), Some(-5.0));
        assert_eq!(per_second(u64::MAX, 0, 1_000_000_000), Some(u64::MAX as f64));
        assert_eq!(per_second(1, 0, 0), None);
    }
}
