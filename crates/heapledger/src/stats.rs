//! Figures: what was allocated and freed.
#![forbid(unsafe_code)]

use crate::{Error, counting, live};

/// What was allocated and freed: by the program, by a thread, in a region.
///
/// A `realloc` counts as one allocation and one free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Calls that gave a block.
    pub allocations: u64,
    /// Bytes that they were asked for.
    pub allocated_bytes: u64,
    /// Blocks given back.
    pub frees: u64,
    /// Their bytes.
    pub freed_bytes: u64,
    /// Calls that gave no block.
    pub failures: u64,
    /// Most bytes that were allocated and not yet freed at any one time; in a region, and of a thread, more than at the beginning.
    pub peak_bytes: u64,
}

impl Stats {
    /// Blocks allocated and not freed. Fewer than none, if blocks were freed that were allocated before, or elsewhere.
    ///
    /// ```
    /// # use heapledger::Stats;
    /// assert_eq!(Stats::default().blocks(), 0);
    /// ```
    pub const fn blocks(&self) -> i64 {
        self.allocations.wrapping_sub(self.frees) as i64
    }

    /// Bytes allocated and not freed; see [`Stats::blocks`].
    ///
    /// ```
    /// # use heapledger::Stats;
    /// assert_eq!(Stats::default().bytes(), 0);
    /// ```
    pub const fn bytes(&self) -> i64 {
        self.allocated_bytes.wrapping_sub(self.freed_bytes) as i64
    }
}

/// What the program has done, all its threads, since its first call.
///
/// Counted are the calls that come to a [`Heapledger`](crate::Heapledger) that was made with
/// [`Options::counting`](crate::Options::counting) or [`Options::counted`](crate::Options::counted). What other threads do at
/// this very moment may be in it or not.
///
/// ```
/// use heapledger::{Heapledger, Options};
/// use std::alloc::System;
///
/// #[global_allocator]
/// static HEAP: Heapledger<System> = Heapledger::with(System, Options::new().counting());
///
/// fn main() -> Result<(), heapledger::Error> {
///     let before = heapledger::stats()?;
///     let kept = vec![0u8; 1_000_000];
///     let now = heapledger::stats()?;
///     assert!(now.bytes() >= before.bytes() + 1_000_000);
///     drop(kept);
///     assert!(heapledger::stats()?.peak_bytes >= 1_000_000);
///     Ok(())
/// }
/// ```
///
/// # Errors
/// If calls are not counted from the first on, or no `Heapledger` is the program's allocator.
pub fn stats() -> Result<Stats, Error> {
    counting::counts_all()?;
    Ok(counting::sums_since(&[0; 5], live::peak()))
}
