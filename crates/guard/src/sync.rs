//! Atomics of what threads share without a lock: the machine's, or loom's, which tries out what other threads may see
//! (`cargo xtask test loom`).

#![forbid(unsafe_code)]

#[cfg(not(feature = "loom"))]
pub(crate) use core::sync::atomic::{AtomicU64, Ordering};
#[cfg(feature = "loom")]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};
