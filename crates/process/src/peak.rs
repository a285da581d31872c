//! Following live bytes and their peak without a shared counter at each block.
//!
//! A thread keeps changes to itself up to an *allowance*, then folds them in. The allowances of all threads together are never more
//! than one hundredth of the peak, or [`ALLOWED_BYTES_MIN`] while it is small: a thread gets a part of what the others leave, more
//! each time it folds, so that a thread that rests has little. So live bytes are known up to the sum of all allowances at any
//! time, and the peak up to the highest such sum at which it may have been.
#![forbid(unsafe_code)]

use crate::sync::{AtomicU64, Ordering, const_unless_loom};

/// What all threads together may keep to themselves in any case.
pub const ALLOWED_BYTES_MIN: u64 = 64 << 10;
/// One in so many bytes of the peak, if that is more.
const ALLOWED_ONE_IN: u64 = 100;
/// Most that one thread may keep to itself; what the first one gets.
pub const ALLOWANCE_MAX: i64 = 32 << 10;
/// What a thread gets when it first folds.
const ALLOWANCE_FIRST: i64 = 256;
/// A thread gets one in so many of the bytes that others leave.
const PART: i64 = 4;
/// How often an error is written anew because what it follows from has changed meanwhile.
const RETRIES: usize = 16;

/// Where the figures are kept.
pub trait Figures {
    /// Live bytes, without what threads keep to themselves.
    fn live(&self) -> &AtomicU64;
    /// The highest value of it.
    fn peak(&self) -> &AtomicU64;
    /// By how much that may differ from the peak.
    fn error(&self) -> &AtomicU64;
}

/// The allowances of all threads.
pub struct Peak {
    given: AtomicU64,
    /// Live bytes were never more than this since there are two threads.
    upper: AtomicU64,
}

/// What folding has shown.
#[derive(Clone, Copy, Debug)]
pub struct Folded {
    /// Live bytes now.
    pub live: i64,
    /// The peak until now.
    pub highest: i64,
}

impl Peak {
    const_unless_loom! {
        /// No allowances.
        pub fn new() -> Peak {
            Peak { given: AtomicU64::new(0), upper: AtomicU64::new(0) }
        }
    }

    /// Gives the first thread its allowance, which is all that one thread can have.
    pub fn give_first(&self) -> i64 {
        self.given.fetch_add(ALLOWANCE_MAX as u64, Ordering::SeqCst);
        ALLOWANCE_MAX
    }

    /// Takes an allowance back.
    pub fn give_back(&self, allowance: &mut i64) {
        self.given.fetch_sub(*allowance as u64, Ordering::SeqCst);
        *allowance = 0;
    }

    /// Folds in what a thread kept to itself, which is none afterwards, and sets its allowance anew, if there is more than one.
    #[inline(always)]
    pub fn fold(&self, figures: &impl Figures, bytes: i64, allowance: &mut i64, is_single: bool) -> Folded {
        let before = figures.live().fetch_add(bytes as u64, Ordering::SeqCst);
        let live = before.wrapping_add(bytes as u64) as i64;
        let highest = figures.peak().load(Ordering::SeqCst) as i64;
        if !is_single {
            self.bound(figures, (live, highest), allowance);
        }
        Folded { live, highest }
    }

    fn bound(&self, figures: &impl Figures, (live, highest): (i64, i64), allowance: &mut i64) {
        let given = self.set_allowance(highest as u64, allowance);
        // Who raises an allowance looks at live bytes afterwards, and who changes these at the allowances: one of two sees the other.
        let now = (figures.live().load(Ordering::SeqCst) as i64).max(live);
        let upper = (now.max(0) as u64).wrapping_add(given);
        let is_raised = live > highest;
        if is_raised {
            figures.peak().fetch_max(live as u64, Ordering::SeqCst);
        }
        let is_higher =
            upper > self.upper.load(Ordering::Relaxed) && upper > self.upper.fetch_max(upper, Ordering::SeqCst);
        if !is_raised && !is_higher {
            return;
        }
        for _ in 0..RETRIES {
            let (upper, peak) = (self.upper.load(Ordering::SeqCst), figures.peak().load(Ordering::SeqCst));
            let above = upper.saturating_sub(peak);
            if is_raised {
                figures.error().swap(above.max(given), Ordering::SeqCst);
            } else {
                figures.error().fetch_max(above, Ordering::SeqCst);
            }
            if (upper, peak) == (self.upper.load(Ordering::SeqCst), figures.peak().load(Ordering::SeqCst)) {
                break;
            }
        }
    }

    /// Returns the sum of all allowances afterwards.
    #[inline(always)]
    fn set_allowance(&self, peak: u64, allowance: &mut i64) -> u64 {
        let all = (peak / ALLOWED_ONE_IN).max(ALLOWED_BYTES_MIN) as i64;
        let mut given = self.given.load(Ordering::SeqCst);
        loop {
            let others = (given as i64).wrapping_sub(*allowance);
            let fair = (all.wrapping_sub(others) / PART).clamp(0, ALLOWANCE_MAX);
            let next = fair.min((*allowance).wrapping_mul(2).wrapping_add(ALLOWANCE_FIRST));
            // Small differences are not worth the exchange, unless it is too much.
            if next <= (*allowance).wrapping_mul(2) && next >= *allowance / 2 && given as i64 <= all {
                return given;
            }
            let now = others.wrapping_add(next) as u64;
            match self.given.compare_exchange_weak(given, now, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => {
                    *allowance = next;
                    return now;
                }
                Err(seen) => given = seen,
            }
        }
    }
}

impl Default for Peak {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[derive(Default)]
    struct Header([AtomicU64; 3]);

    impl Figures for Header {
        fn live(&self) -> &AtomicU64 {
            &self.0[0]
        }
        fn peak(&self) -> &AtomicU64 {
            &self.0[1]
        }
        fn error(&self) -> &AtomicU64 {
            &self.0[2]
        }
    }

    #[derive(Clone, Copy, Default)]
    struct Thread {
        pending: i64,
        allowance: i64,
        live: i64,
    }

    struct Process {
        peak: Peak,
        header: Header,
        threads: Vec<Thread>,
        live: i64,
        highest: i64,
    }

    impl Process {
        fn new(threads: usize) -> Process {
            let peak = Peak::new();
            let mut all = std::vec![Thread::default(); threads];
            all[0].allowance = peak.give_first();
            Process { peak, header: Header::default(), threads: all, live: 0, highest: 0 }
        }

        fn change(&mut self, thread: usize, bytes: i64) {
            let thread = &mut self.threads[thread];
            thread.live += bytes;
            thread.pending += bytes;
            self.live += bytes;
            self.highest = self.highest.max(self.live);
            if thread.pending.abs() > thread.allowance {
                self.peak.fold(&self.header, thread.pending, &mut thread.allowance, false);
                thread.pending = 0;
            }
        }

        fn expect_bound(&self, what: &str) {
            let [_, peak, error] = [0, 1, 2].map(|index: usize| self.header.0[index].load(Ordering::Relaxed) as i64);
            assert!((peak - self.highest).abs() <= error, "{what}: {peak} ± {error}, it was {}", self.highest);
            let most = (ALLOWED_BYTES_MIN as i64).max(peak / 100);
            assert!(error <= most, "{what}: {peak} ± {error}");
        }
    }

    #[test]
    fn the_error_is_a_bound_and_small_however_many_threads_there_are() {
        let mut random = 1u64;
        let mut below = |limit: usize| {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (random >> 33) as usize % limit
        };
        for threads in [2, 3, 8, 64, 1000] {
            for (size, mean) in [(64, 1 << 14), (2000, 1 << 20), (40_000, 8 << 20), (300, 100 << 20)] {
                let mut process = Process::new(threads);
                process.change(1, 1); // the second thread's first update is folded in at once
                let mut busy = 1;
                for step in 0..60_000 {
                    if step % 1000 == 0 {
                        busy = 1 + below(threads); // the others rest with what they have
                    }
                    let thread = below(busy);
                    let room = process.threads[thread].live;
                    let bytes = 1 + below(size) as i64;
                    let grows = process.live < mean && step % 20_000 < 12_000 || below(2) == 0;
                    process.change(thread, if grows || room < bytes { bytes } else { -bytes });
                    process.expect_bound("each step");
                }
            }
        }
    }

    #[test]
    fn who_rests_has_little_and_who_works_has_a_part_of_the_rest() {
        let mut process = Process::new(64);
        for thread in 1..64 {
            process.change(thread, 10);
        }
        assert!(process.threads[1..].iter().all(|thread| thread.allowance <= 2 * ALLOWANCE_FIRST));
        for _ in 0..20 {
            process.change(5, 30_000);
            process.change(5, -30_000);
        }
        assert!(process.threads[5].allowance > 2000, "{}", process.threads[5].allowance);
        let mut allowance = process.threads[5].allowance;
        let given = process.peak.given.load(Ordering::Relaxed);
        process.peak.give_back(&mut allowance);
        assert_eq!(process.peak.given.load(Ordering::Relaxed), given - process.threads[5].allowance as u64);
    }
}
