//! Atomics of what threads share without a lock: the machine's, or loom's, which tries out what other threads may see
//! (`cargo xtask test loom`).

#![forbid(unsafe_code)]

#[cfg(not(feature = "loom"))]
pub(crate) use crate::alone::exchange;
#[cfg(not(feature = "loom"))]
pub(crate) use core::sync::atomic::{AtomicU64, Ordering};
#[cfg(feature = "loom")]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};

#[cfg(feature = "loom")]
pub(crate) fn exchange(word: &AtomicU64, from: u64, to: u64, done: Ordering, failed: Ordering) -> Result<u64, u64> {
    word.compare_exchange(from, to, done, failed)
}
