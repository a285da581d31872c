//! Figures: what was allocated and freed.
#![forbid(unsafe_code)]

use crate::Error;
use heapledger_watch::{Stats, counting, live, state};

/// Whether calls are counted from the first on.
pub(crate) fn counts_all() -> Result<(), Error> {
    match state::base() {
        state::UNSTARTED => Err(Error::NoAllocator),
        _ if counting::counts_all() => Ok(()),
        _ => Err(Error::NotCounted),
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
    counts_all()?;
    Ok(counting::sums_since(&[0; 5], live::peak()))
}

/// What the calling thread has done since it began: blocks that it frees count as its frees, whoever allocated them.
///
/// ```
/// # use heapledger::{Heapledger, Options};
/// # use std::alloc::System;
/// # #[global_allocator]
/// # static HEAP: Heapledger<System> = Heapledger::with(System, Options::new().counting());
/// # fn main() -> Result<(), heapledger::Error> {
/// let before = heapledger::thread_stats()?;
/// let kept = Box::new([0u8; 500]);
/// let now = heapledger::thread_stats()?;
/// assert_eq!(now.allocations, before.allocations + 1);
/// assert_eq!(now.bytes(), before.bytes() + 500);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// As of [`stats`](crate::stats), and [`Error::TooMany`] if there is no place for this thread's figures: there is one for 1,024 threads at the same
/// time on x86-64 Linux, for 1,024 altogether on other systems that have threads with words of their own (Linux, macOS, FreeBSD,
/// Windows with MSVC), for none elsewhere. The program's own figures are exact all the same.
pub fn thread_stats() -> Result<Stats, Error> {
    counts_all()?;
    counting::of_thread().ok_or(Error::TooMany)
}
