//! The time, through the kernel's vDSO where there is one.

use crate::loader::{self, Module};
use crate::syscall;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const MONOTONIC: usize = 1;
const MONOTONIC_COARSE: usize = 6;
const REALTIME: usize = 0;

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
    start_ns: core::sync::atomic::AtomicU64,
    /// The program has forbidden itself to read the processor's counter: the vDSO's precise clock would.
    without_counter: AtomicBool,
}

impl Clock {
    /// A clock that has not been started.
    pub const fn new() -> Self {
        Clock {
            function: AtomicUsize::new(0),
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
        let function = vdso.and_then(|vdso: Module| vdso.symbol(b"__vdso_clock_gettime"));
        self.function.store(function.map_or(0, |symbol| symbol.address), Ordering::Release);
        if syscall::counter_is_forbidden() {
            self.avoid_counter();
        }
    }

    /// Takes what another one has found out, in the same process or in one that it was forked from.
    pub fn take_from(&self, other: &Clock) {
        self.function.store(other.function.load(Ordering::Relaxed), Ordering::Release);
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
        Moment { coarse_ns, now_ns: self.now_ns() }
    }

    /// What the kernel's coarse clock says: it moves on every 1 to 10 ms, by the kernel's configuration. To ask costs a third of
    /// what the precise clock does.
    #[inline(always)]
    pub fn coarse_ns(&self) -> u64 {
        self.read(MONOTONIC_COARSE)
    }

    fn raw(&self) -> u64 {
        self.read(MONOTONIC)
    }

    #[inline(always)]
    fn read(&self, which: usize) -> u64 {
        let function = self.function.load(Ordering::Relaxed);
        // The coarse clock is what the kernel has noted, wherever it is read.
        if function != 0 && (which == MONOTONIC_COARSE || !self.without_counter.load(Ordering::Relaxed)) {
            let mut time = [0u64; 2];
            // SAFETY: the address is that of the vDSO's clock_gettime, which writes a timespec.
            let status = unsafe { core::mem::transmute::<usize, ClockGettime>(function)(which, &mut time) };
            if status == 0 {
                return time[0].wrapping_mul(1_000_000_000).wrapping_add(time[1]);
            }
        }
        syscall::clock(which)
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}
