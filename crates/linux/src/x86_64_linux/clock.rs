//! The time, through the kernel's vDSO where there is one.

use super::coarse::CoarseWords;
use crate::loader::{self, Module};
use crate::syscall;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const MONOTONIC: usize = 1;
const MONOTONIC_COARSE: usize = 6;
const REALTIME: usize = 0;
const THREAD_CPU_TIME: usize = 3;

/// A moment that was read from the precise clock.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    coarse_ns: u64,
    now_ns: u64,
}

type ClockGettime = unsafe extern "C" fn(usize, *mut [u64; 2]) -> i32;

impl Moment {
    /// The time that was read, in nanoseconds since [`Clock::start`].
    #[inline(always)]
    pub fn ns(&self) -> u64 {
        self.now_ns
    }

    /// The step of the kernel's coarse clock in which it was read.
    #[inline(always)]
    pub fn coarse_ns(&self) -> u64 {
        self.coarse_ns
    }
}

/// A monotonic clock that starts at 0.
pub struct Clock {
    function: AtomicUsize,
    /// What that one reads of the coarse clock.
    coarse: CoarseWords,
    start_ns: core::sync::atomic::AtomicU64,
    /// The program has forbidden itself to read the processor's counter: the vDSO's precise clock would.
    without_counter: AtomicBool,
}

impl Clock {
    /// A clock that has not been started.
    pub const fn new() -> Self {
        Clock {
            function: AtomicUsize::new(0),
            coarse: CoarseWords::new(),
            start_ns: core::sync::atomic::AtomicU64::new(0),
            without_counter: AtomicBool::new(false),
        }
    }

    /// Looks for the vDSO's function, unless it is known, and calls this moment 0. Returns the wall clock, in
    /// nanoseconds since 1970.
    pub fn start(&self) -> u64 {
        if self.function.load(Ordering::Relaxed) == 0 {
            self.find();
        }
        self.start_ns.store(self.raw(), Ordering::Release);
        syscall::clock(REALTIME)
    }

    /// Looks for the vDSO's function. A clock that is not started says what the kernel's monotonic clock says.
    pub fn find(&self) {
        let vdso = loader::modules().find(|module| module.name().to_bytes().starts_with(b"linux-vdso"));
        let function = vdso.as_ref().and_then(|vdso: &Module| vdso.symbol(b"__vdso_clock_gettime"));
        self.function.store(function.map_or(0, |symbol| symbol.address), Ordering::Release);
        if let (Some(vdso), Some(_)) = (vdso, function) {
            self.coarse.find(vdso.bias(), &|| self.ask(MONOTONIC_COARSE).unwrap_or_default());
        }
        if syscall::counter_is_forbidden() {
            self.avoid_counter();
        }
    }

    /// Takes what another one has found out, in the same process or in one that it was forked from.
    pub fn take_from(&self, other: &Clock) {
        self.function.store(other.function.load(Ordering::Relaxed), Ordering::Release);
        self.coarse.take_from(&other.coarse);
        self.without_counter.store(other.without_counter.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// From now on the processor's counter is not read: the precise clock is a system call.
    pub fn avoid_counter(&self) {
        self.without_counter.store(true, Ordering::Relaxed);
    }

    /// Nanoseconds since [`Clock::start`].
    #[inline]
    pub fn now_ns(&self) -> u64 {
        self.raw().saturating_sub(self.start_ns.load(Ordering::Relaxed))
    }

    /// This moment.
    pub fn moment(&self) -> Moment {
        // In this order: a step of the coarse clock in between is noticed later.
        let coarse_ns = self.coarse_ns();
        self.coarse.check(coarse_ns, &|| self.coarse_ns());
        Moment { coarse_ns, now_ns: self.now_ns() }
    }

    /// [`Moment::coarse_ns`] of this moment, to see whether the clock has moved on: costs two loads where the kernel's own words are known. While
    /// they change it may be a figure of no step.
    #[inline(always)]
    pub fn step_ns(&self) -> u64 {
        match self.coarse.read_ns() {
            Some(noted) => noted,
            None if self.function.load(Ordering::Relaxed) == 0 => syscall::clock(MONOTONIC_COARSE),
            None => self.coarse_asked(),
        }
    }

    #[cold]
    #[inline(never)]
    fn coarse_asked(&self) -> u64 {
        self.coarse_ns()
    }

    /// What the kernel's coarse clock says: it moves on every 1 to 10 ms, by the kernel's configuration. To ask costs a third of
    /// what the precise clock does.
    #[inline(always)]
    fn coarse_ns(&self) -> u64 {
        self.read(MONOTONIC_COARSE)
    }

    fn raw(&self) -> u64 {
        self.read(MONOTONIC)
    }

    #[inline(always)]
    fn read(&self, which: usize) -> u64 {
        // The coarse clock is what the kernel has noted, wherever it is read.
        if (which == MONOTONIC_COARSE || !self.without_counter.load(Ordering::Relaxed))
            && let Some(time) = self.ask(which)
        {
            return time[0].wrapping_mul(1_000_000_000).wrapping_add(time[1]);
        }
        syscall::clock(which)
    }

    /// What the vDSO's function says, in seconds and nanoseconds.
    #[inline(always)]
    fn ask(&self, which: usize) -> Option<[u64; 2]> {
        let function = self.function.load(Ordering::Relaxed);
        if function == 0 {
            return None;
        }
        let mut time = [0u64; 2];
        // SAFETY: the address is that of the vDSO's clock_gettime, which writes a timespec.
        let status = unsafe { core::mem::transmute::<usize, ClockGettime>(function)(which, &mut time) };
        (status == 0).then_some(time)
    }
}

/// How long this thread has run on a processor, in nanoseconds; `None` if the kernel does not say. A system call.
pub fn thread_ran_ns() -> Option<u64> {
    Some(syscall::clock(THREAD_CPU_TIME)).filter(|ns| *ns != 0)
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_found_and_are_the_clock() {
        let clock = Clock::new();
        clock.start();
        if clock.coarse.read_ns().is_none() {
            // In a time namespace, say.
            std::eprintln!("this kernel does not show them: the function is asked");
            return;
        }
        let (mut steps, mut last, begun) = (0, 0, clock.now_ns());
        while steps < 5 {
            let before = clock.coarse_ns();
            let noted = clock.step_ns();
            if clock.coarse_ns() == before {
                assert_eq!(noted, before);
                steps += u32::from(noted != last);
                last = noted;
            }
            assert!(clock.now_ns() - begun < 10_000_000_000, "it stands still");
        }
        clock.moment();
        assert!(clock.coarse.read_ns().is_some(), "taken for something else");
        let other = Clock::new();
        other.take_from(&clock);
        assert!(other.coarse.read_ns().is_some());
    }

    #[test]
    fn what_is_not_the_clock_is_not_believed() {
        let clock = Clock::new();
        clock.start();
        // Two words that stand still, as in the page of a time namespace.
        static STILL: [u64; 2] = [1, 2];
        clock.coarse.set((&raw const STILL).expose_provenance());
        assert_eq!(clock.step_ns(), 1_000_000_002);
        clock.moment();
        assert_eq!(clock.coarse.read_ns(), None);
        // Nothing is looked for where the vDSO cannot be, and pages of ours are none of the kernel's.
        clock.coarse.find(4096, &|| [0, 0]);
        assert_eq!(clock.coarse.read_ns(), None);
        let (clock, mut pages) = (Clock::new(), std::vec![0u64; 4096]);
        pages[1000..1002].copy_from_slice(&[7, 9]);
        clock.coarse.find(pages.as_ptr().expose_provenance() + 8 * 2048, &|| [7, 9]);
        assert_eq!(clock.coarse.read_ns(), None);
    }
}
