//! Leases of numbers, and what ends those of all threads at once: the pure protocol.
//!
//! A thread's lease is over when the clock has moved on from the [step](Step) in which it was had. So whoever wants all leases
//! to be over makes the steps of all threads none: at its next event each thread finds that the clock says something else.
//! The thread looks at one word of its own for that, as it always does.
//!
//! A thread writes the step *before* it takes numbers off the counter, and who [passes numbers over](pass) clears the steps of
//! all *after* it did. Both change the counter, so one of the two was first: if the thread was, what it has written is cleared; if
//! the other was, the thread's numbers are higher anyway, and to be cleared costs it only the rest of them.
#![forbid(unsafe_code)]

use crate::sync::{AtomicU64, Ordering, const_unless_loom};

/// The step of the coarse clock in which a thread has leased its numbers, in nanoseconds; 0: they are over.
pub struct Step(AtomicU64);

impl Step {
    const_unless_loom! {
        /// None.
        pub fn new() -> Step {
            Step(AtomicU64::new(0))
        }
    }

    /// Whether it is this one. Asked by the thread.
    #[inline(always)]
    pub fn is(&self, coarse_ns: u64) -> bool {
        self.0.load(Ordering::Relaxed) == coarse_ns
    }

    /// What was leased is over. Anybody may say so.
    pub fn end(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Whether somebody has said so, or nothing was leased yet.
    pub fn is_over(&self) -> bool {
        self.is(0)
    }

    fn begin(&self, coarse_ns: u64) {
        self.0.store(coarse_ns, Ordering::Relaxed);
    }
}

impl Default for Step {
    fn default() -> Self {
        Self::new()
    }
}

/// Takes `count` numbers off the counter for the thread whose step this is: the first of them. `must`: whatever the counter
/// says.
///
/// # Errors
/// What the counter says, if that is not what was `seen`.
pub fn take(
    (counter, seen): (&AtomicU64, u64),
    count: u64,
    (step, coarse_ns): (&Step, u64),
    must: bool,
) -> Result<u64, u64> {
    step.begin(coarse_ns);
    if must {
        return Ok(counter.fetch_add(count, Ordering::AcqRel));
    }
    counter.compare_exchange(seen, seen.wrapping_add(count), Ordering::AcqRel, Ordering::Acquire)
}

/// Takes a number off the counter and passes `passed` others over, for who then [ends](Step::end) the steps of all threads that
/// there are: what they begin after that has higher numbers, and what they have ended has lower ones.
///
/// # Errors
/// What the counter says, if that is not what was `seen`.
pub fn pass(counter: &AtomicU64, seen: u64, passed: u64, must: bool) -> Result<u64, u64> {
    let more = passed.wrapping_add(1);
    if must {
        return Ok(counter.fetch_add(more, Ordering::AcqRel));
    }
    counter.compare_exchange(seen, seen.wrapping_add(more), Ordering::AcqRel, Ordering::Acquire)
}
