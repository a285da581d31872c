//! Atomics of the parts that threads share without a lock: the machine's, or loom's, which tries out
//! what other threads may see (`cargo xtask test loom`).
#![forbid(unsafe_code)]

#[cfg(not(feature = "loom"))]
pub(crate) use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
#[cfg(feature = "loom")]
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

/// Defines a function that is `const` except under loom, whose atomics cannot be made at compile time.
macro_rules! const_unless_loom {
    ($(#[$attribute:meta])* $visible:vis fn $($rest:tt)*) => {
        #[cfg(not(feature = "loom"))]
        $(#[$attribute])* $visible const fn $($rest)*
        #[cfg(feature = "loom")]
        $(#[$attribute])* $visible fn $($rest)*
    };
}
pub(crate) use const_unless_loom;
