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

/// Between an [`exchange`] and a read of another word: of two threads that do that with the words the other way round, one sees what the
/// other has done.
#[inline(always)]
pub(crate) fn in_order() {
    // Such an exchange is that already, if it is one among several threads.
    #[cfg(all(target_arch = "x86_64", not(feature = "loom"), not(miri)))]
    core::sync::atomic::compiler_fence(Ordering::SeqCst);
    #[cfg(all(not(all(target_arch = "x86_64", not(miri))), not(feature = "loom")))]
    core::sync::atomic::fence(Ordering::SeqCst);
    #[cfg(feature = "loom")]
    loom::sync::atomic::fence(Ordering::SeqCst);
}
