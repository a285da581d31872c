//! Live bytes of all threads, their peak, and that of each region of the program that is open.
//!
//! Calls compare live bytes with one limit and no more. What is above it is looked at here: it is a new peak, of the program or of
//! a region.
//!
//! The limit is never higher than the peak, so it is the peak where no region is open. Who sets it anew looks afterwards whether
//! a region has begun or ended meanwhile, and then does it again.

use core::sync::atomic::{AtomicIsize, AtomicU32, Ordering};

/// Regions at the same time.
const REGIONS: usize = 32;

/// Each in a line of its own: the first is written at each call.
#[repr(align(128))]
struct Apart(AtomicIsize);

static LIVE: Apart = Apart(AtomicIsize::new(0));
/// [`rose`] is called above it.
static ABOVE: Apart = Apart(AtomicIsize::new(0));
/// The peak, unless [`ABOVE`] is higher.
static PEAK: AtomicIsize = AtomicIsize::new(0);
/// Which regions are open, a bit each.
static USED: AtomicU32 = AtomicU32::new(0);
/// Goes on whenever one begins or ends.
static CHANGES: AtomicU32 = AtomicU32::new(0);
/// Highest live bytes since a region began.
static HIGHEST: [AtomicIsize; REGIONS] = [const { AtomicIsize::new(0) }; REGIONS];

/// There are so many more.
#[inline(always)]
pub fn grow(bytes: usize) {
    let live = LIVE.0.fetch_add(bytes as isize, Ordering::Relaxed).wrapping_add(bytes as isize);
    if live > ABOVE.0.load(Ordering::Relaxed) {
        rose(live);
    }
}

/// There are so many fewer.
#[inline(always)]
pub fn shrink(bytes: usize) {
    LIVE.0.fetch_sub(bytes as isize, Ordering::Relaxed);
}

#[inline(always)]
fn rose(live: isize) {
    if USED.load(Ordering::SeqCst) == 0 {
        ABOVE.0.fetch_max(live, Ordering::SeqCst);
        // Somebody who has begun a region meanwhile must not be passed over.
        if USED.load(Ordering::SeqCst) == 0 {
            return;
        }
    }
    pass(live);
}

fn used() -> impl Iterator<Item = usize> {
    let used = USED.load(Ordering::SeqCst);
    (0..REGIONS).filter(move |index| used >> index & 1 != 0)
}

#[cold]
#[inline(never)]
fn pass(live: isize) {
    PEAK.fetch_max(live, Ordering::SeqCst);
    for index in used() {
        if let Some(highest) = HIGHEST.get(index) {
            highest.fetch_max(live, Ordering::SeqCst);
        }
    }
    set_limits();
}

fn set_limits() {
    loop {
        let changes = CHANGES.load(Ordering::SeqCst);
        let peak = PEAK.load(Ordering::SeqCst);
        let highest = used().filter_map(|index| HIGHEST.get(index)).map(|highest| highest.load(Ordering::SeqCst));
        let before = ABOVE.0.swap(highest.fold(peak, isize::min), Ordering::SeqCst);
        PEAK.fetch_max(before, Ordering::SeqCst);
        if changes == CHANGES.load(Ordering::SeqCst) {
            return;
        }
    }
}

/// The same, which may be less than nothing where not all calls are counted.
pub fn signed_bytes() -> isize {
    LIVE.0.load(Ordering::Relaxed)
}

/// Bytes that live now.
pub fn bytes() -> u64 {
    LIVE.0.load(Ordering::Relaxed).max(0) as u64
}

/// The program's peak.
pub fn peak() -> u64 {
    PEAK.load(Ordering::SeqCst).max(ABOVE.0.load(Ordering::SeqCst)).max(0) as u64
}

/// A region that follows its own peak.
#[derive(Debug)]
pub struct Highest {
    index: usize,
    before: isize,
}

impl Highest {
    /// From now on.
    pub fn begin() -> Option<Highest> {
        let index = take()?;
        let highest = HIGHEST.get(index)?;
        let before = LIVE.0.load(Ordering::SeqCst);
        highest.store(before, Ordering::SeqCst);
        // It may have stood at something else when it was first seen.
        CHANGES.fetch_add(1, Ordering::SeqCst);
        set_limits();
        highest.fetch_max(LIVE.0.load(Ordering::SeqCst), Ordering::SeqCst);
        Some(Highest { index, before })
    }

    /// How far live bytes were above the beginning.
    pub fn bytes(&self) -> u64 {
        let highest = HIGHEST.get(self.index).map_or(0, |highest| highest.load(Ordering::SeqCst));
        highest.wrapping_sub(self.before).max(0) as u64
    }

    /// As words, for who can keep nothing else. It goes on.
    pub(crate) fn into_words(self) -> [usize; 2] {
        let words = [self.index, self.before as usize];
        core::mem::forget(self);
        words
    }

    /// Undoes [`Highest::into_words`], to end it.
    pub(crate) fn of_words([index, before]: [usize; 2]) -> Highest {
        Highest { index, before: before as isize }
    }

    /// [`Highest::bytes`] of one that is kept as words.
    pub(crate) fn bytes_of(words: [usize; 2]) -> u64 {
        let highest = Highest::of_words(words);
        let bytes = highest.bytes();
        core::mem::forget(highest);
        bytes
    }
}

impl Drop for Highest {
    fn drop(&mut self) {
        USED.fetch_and(!1u32.wrapping_shl(self.index as u32), Ordering::SeqCst);
        CHANGES.fetch_add(1, Ordering::SeqCst);
        set_limits();
    }
}

/// A vacant place.
fn take() -> Option<usize> {
    let mut used = USED.load(Ordering::SeqCst);
    loop {
        let index = used.trailing_ones();
        let with = used | 1u32.checked_shl(index)?;
        match USED.compare_exchange(used, with, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) => return Some(index as usize),
            Err(seen) => used = seen,
        }
    }
}
