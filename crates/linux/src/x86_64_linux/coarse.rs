//! Where the kernel notes its coarse clock.
//!
//! The vDSO reads the clock from a page that the kernel writes to at each step (`[vvar]` in `/proc/PID/maps`), and its function for the
//! coarse clock gives two words of it as they are: seconds and nanoseconds. Where in the page they stand is the kernel's own affair and
//! differs between versions, so they are looked for: a pair that is what the function has just said. Whoever only wants to know whether the
//! clock has moved on asks them, which costs a tenth of a call. What is found is compared again with what the function says, now and then:
//! a page of another kind (a process that enters a time namespace gets one) is noticed.

use crate::syscall::{self, Errno, advice};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

const PAGE_BYTES: usize = 4096;
/// Below the vDSO lie so many of the kernel's pages at most (Linux 6.13: four of its own, and two of hypervisors).
const PAGES_MAX: usize = 6;
const WORDS: usize = PAGE_BYTES / size_of::<u64>();
/// How often it is tried: only a step of the clock in between makes a try fail.
const TRIES: usize = 4;

/// The place of the two words; 0 if they are not known.
pub(super) struct CoarseWords(AtomicUsize);

impl CoarseWords {
    pub(super) const fn new() -> CoarseWords {
        CoarseWords(AtomicUsize::new(0))
    }

    /// Looks for them below the vDSO, which begins here. `clock` asks its function: seconds and nanoseconds.
    pub(super) fn find(&self, vdso: usize, clock: &dyn Fn() -> [u64; 2]) {
        let pages = (1..=PAGES_MAX).filter_map(|page| vdso.checked_sub(page.wrapping_mul(PAGE_BYTES)));
        let found = pages.filter(|page| is_kernels(*page)).find_map(|page| find_in(page, clock));
        self.0.store(found.unwrap_or(0), Ordering::Relaxed);
    }

    /// Says that they stand there.
    #[cfg(test)]
    pub(super) fn set(&self, place: usize) {
        self.0.store(place, Ordering::Relaxed);
    }

    /// Takes what another one has found.
    pub(super) fn take_from(&self, other: &CoarseWords) {
        self.0.store(other.0.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// The clock, if the words are known, in nanoseconds. Where a second begins while they are read, it may be seconds of one step and
    /// nanoseconds of the next: a second off, and so no step that is asked about, unless one was at the very same nanosecond of the second before.
    #[inline(always)]
    pub(super) fn read_ns(&self) -> Option<u64> {
        let place = self.0.load(Ordering::Relaxed);
        // SAFETY: `find` has read there, and the kernel's page stays as long as the process does.
        (place != 0).then(|| nanoseconds(unsafe { words_at(place) }))
    }

    /// Compares with what the function says, and forgets them if they are not the clock. `clock`: it, in nanoseconds.
    #[inline(always)]
    pub(super) fn check(&self, now_ns: u64, clock: &dyn Fn() -> u64) {
        if self.read_ns().is_some_and(|noted| noted != now_ns) {
            self.check_again(clock);
        }
    }

    /// A step may have come in between: not again and again.
    #[cold]
    #[inline(never)]
    fn check_again(&self, clock: &dyn Fn() -> u64) {
        let is_clock = || {
            let before = clock();
            self.read_ns() == Some(before) || clock() != before
        };
        if !(0..TRIES).all(|_| is_clock()) {
            self.0.store(0, Ordering::Relaxed);
        }
    }
}

#[inline(always)]
fn nanoseconds([seconds, rest]: [u64; 2]) -> u64 {
    seconds.wrapping_mul(1_000_000_000).wrapping_add(rest)
}

/// # Safety
/// Two words can be read there, at a multiple of eight.
#[inline(always)]
unsafe fn words_at(place: usize) -> [u64; 2] {
    let words = core::ptr::with_exposed_provenance::<[AtomicU64; 2]>(place);
    // SAFETY: as the caller says. The kernel changes them at any time.
    unsafe { [&(*words)[0], &(*words)[1]].map(|word| word.load(Ordering::Relaxed)) }
}

/// Whether it is a page of the kernel's own that can be read: one of any other mapping may go away. There the kernel refuses advice that it
/// takes for every other kind of memory. (That is asked with a call which is made at the start anyway: a filter may end a process that makes
/// another one.)
fn is_kernels(page: usize) -> bool {
    let refuses = |page: usize| {
        let place = core::ptr::with_exposed_provenance_mut(page & !PAGE_BYTES.wrapping_sub(1));
        syscall::advise(place, PAGE_BYTES, advice::COLD) == Err(Errno::INVAL)
    };
    // A kernel before 5.4, or locked memory, refuses it everywhere.
    let own = core::ptr::from_ref(&OWN).expose_provenance();
    syscall::readable(page) && refuses(page) && !refuses(own)
}

/// Lies in a page of ours.
static OWN: AtomicUsize = AtomicUsize::new(0);

fn find_in(page: usize, clock: &dyn Fn() -> [u64; 2]) -> Option<usize> {
    let place_of = |word: usize| page.wrapping_add(word.wrapping_mul(size_of::<u64>()));
    for _ in 0..TRIES {
        let before = clock();
        let places = (0..WORDS.wrapping_sub(1)).map(place_of);
        // SAFETY: the page can be read, and both words lie in it.
        let mut found = places.filter(|place| unsafe { words_at(*place) } == before);
        let (first, other) = (found.next(), found.next());
        if clock() == before {
            // Two of them: which is the clock?
            return first.filter(|_| other.is_none());
        }
    }
    None
}
