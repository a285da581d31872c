//! Measuring what a part of the program does.
#![forbid(unsafe_code)]

use crate::{Error, Stats};
use core::marker::PhantomData;
use heapledger_watch::counting::{self, Begun};
use heapledger_watch::live::Highest;
use heapledger_watch::state::{self, Want};

/// What all threads do from some moment on. It ends when it is dropped.
///
/// See [`region`].
#[derive(Debug)]
#[must_use = "it ends when it is dropped"]
pub struct Region {
    before: [usize; 5],
    highest: Highest,
}

/// What the thread does that has begun it. It ends when it is dropped.
///
/// See [`thread_region`].
#[derive(Debug)]
#[must_use = "it ends when it is dropped"]
pub struct ThreadRegion {
    begun: Begun,
    /// It is the thread's own.
    thread: PhantomData<*const ()>,
}

/// Has calls counted as long as something is measured.
fn count() -> Result<(), Error> {
    match state::base() {
        state::UNSTARTED => Err(Error::NoAllocator),
        _ if state::join(Want::Counted) => Ok(()),
        _ => Err(Error::TooMany),
    }
}

/// Measures what the program does from now on, all its threads.
///
/// Whatever is recorded, and under `heapledger run` too: as long as a region is open, calls are counted. What other threads do
/// at the very moment when it begins may be in it or not.
///
/// ```
/// # use heapledger::Heapledger;
/// # use std::alloc::System;
/// # #[global_allocator]
/// # static HEAP: Heapledger<System> = Heapledger::system();
/// # fn main() -> Result<(), heapledger::Error> {
/// let region = heapledger::region()?;
/// std::thread::spawn(|| drop(vec![1u8; 100_000])).join().unwrap();
/// let stats = region.stats();
/// assert!(stats.peak_bytes >= 100_000 && stats.bytes() < 100_000);
/// # heapledger::discard();
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Error::NoAllocator`] if no [`Heapledger`](crate::Heapledger) is the program's allocator, [`Error::TooMany`] if 32 are open.
pub fn region() -> Result<Region, Error> {
    count()?;
    let Some(highest) = Highest::begin() else {
        state::leave(Want::Counted);
        return Err(Error::TooMany);
    };
    Ok(Region { before: counting::sums(), highest })
}

/// Measures what the calling thread does from now on, exactly. Regions may be nested, and end in any order.
///
/// ```
/// # use heapledger::Heapledger;
/// # use std::alloc::System;
/// # #[global_allocator]
/// # static HEAP: Heapledger<System> = Heapledger::system();
/// # fn main() -> Result<(), heapledger::Error> {
/// let outer = heapledger::thread_region()?;
/// let kept = Box::new([0u8; 300]);
/// let inner = heapledger::thread_region()?;
/// drop(Box::new([0u8; 1000]));
///
/// let stats = inner.stats();
/// assert_eq!((stats.allocations, stats.blocks(), stats.peak_bytes), (1, 0, 1000));
/// let stats = outer.stats();
/// assert_eq!((stats.allocations, stats.bytes(), stats.peak_bytes), (2, 300, 1300));
/// # heapledger::discard();
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Error::NoAllocator`] if no [`Heapledger`](crate::Heapledger) is the program's allocator, [`Error::TooMany`] if 32 of this
/// thread are open, or there are too many threads (see [`thread_stats`](crate::thread_stats)).
pub fn thread_region() -> Result<ThreadRegion, Error> {
    count()?;
    let Some(begun) = counting::begin_region() else {
        state::leave(Want::Counted);
        return Err(Error::TooMany);
    };
    Ok(ThreadRegion { begun, thread: PhantomData })
}

impl Region {
    /// What was done in it until now.
    pub fn stats(&self) -> Stats {
        counting::sums_since(&self.before, self.highest.bytes())
    }
}

impl ThreadRegion {
    /// What was done in it until now.
    pub fn stats(&self) -> Stats {
        counting::region(&self.begun)
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        state::leave(Want::Counted);
    }
}

impl Drop for ThreadRegion {
    fn drop(&mut self) {
        counting::end_region(&self.begun);
        state::leave(Want::Counted);
    }
}
