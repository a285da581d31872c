//! Figures: what was allocated and freed.
#![forbid(unsafe_code)]

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
    /// # use heapledger_watch::Stats;
    /// assert_eq!(Stats::default().blocks(), 0);
    /// ```
    pub const fn blocks(&self) -> i64 {
        self.allocations.wrapping_sub(self.frees) as i64
    }

    /// Bytes allocated and not freed; see [`Stats::blocks`].
    ///
    /// ```
    /// # use heapledger_watch::Stats;
    /// assert_eq!(Stats::default().bytes(), 0);
    /// ```
    pub const fn bytes(&self) -> i64 {
        self.allocated_bytes.wrapping_sub(self.freed_bytes) as i64
    }
}
