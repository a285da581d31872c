//! Looks at guarded blocks now and then: a few in each step, after so many allocations or so much time, by whatever thread allocates then.
//!
//! A step is some 256 blocks, at most a MiB of them. When all were looked at it begins anew. Nobody waits for a step: a thread that
//! finds another one at it goes on.
#![forbid(unsafe_code)]

use crate::shared::Shared;
use crate::{arena_sweep, hooks, sweep};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use heapledger_format::Ticks;
use heapledger_format::session::guard::Every;
use heapledger_linux::syscall::SignalsBlocked;
use heapledger_linux::{apart, syscall};

const CLOCK_MONOTONIC: usize = 1;
const NS_OF_A_MS: u64 = 1_000_000;
/// Where steps are a matter of time, the clock is asked after so many allocations.
const ALLOCATIONS_AT_ONCE: u64 = 16;
/// Damaged blocks that are remembered, so that each is told once.
const TOLD: usize = 256;

/// The looks of a process.
pub struct Periodic {
    is_on: AtomicBool,
    /// Allocations between two steps, or between two looks at the clock.
    allocations: AtomicU64,
    /// Nanoseconds between two steps; 0: none are asked for.
    ns: AtomicU64,
    /// Allocations so far.
    count: AtomicU64,
    /// When the last step began.
    last_ns: AtomicU64,
    /// The process in which a thread is at it; 0: in none. A fork leaves the other threads out.
    busy: AtomicU32,
    /// Where the next step begins: among the dressed blocks, or, if that is [`DONE`], in the side table.
    address: AtomicU64,
    slot: AtomicU32,
    /// When the look at all blocks began that goes on, and whether damage was found.
    begun: AtomicU64,
    has_found: AtomicBool,
    /// When the last one began in which all were whole.
    whole: AtomicU64,
    told: [AtomicU64; TOLD],
    told_count: AtomicU64,
}

/// All dressed blocks were looked at.
const DONE: u64 = u64::MAX;

/// There is one in a process.
pub static PERIODIC: Periodic = Periodic::new();

impl Periodic {
    const fn new() -> Periodic {
        Periodic {
            is_on: AtomicBool::new(false),
            allocations: AtomicU64::new(0),
            ns: AtomicU64::new(0),
            count: AtomicU64::new(0),
            last_ns: AtomicU64::new(0),
            busy: AtomicU32::new(0),
            address: AtomicU64::new(0),
            slot: AtomicU32::new(0),
            begun: AtomicU64::new(0),
            has_found: AtomicBool::new(false),
            whole: AtomicU64::new(0),
            told: [const { AtomicU64::new(0) }; TOLD],
            told_count: AtomicU64::new(0),
        }
    }

    /// From now on, if that is not never.
    pub fn start(&self, every: Every) {
        let (allocations, ns) = match every {
            Every::Never => return,
            Every::Allocations(allocations) => (allocations.max(1), 0),
            Every::Ms(ms) => (ALLOCATIONS_AT_ONCE, ms.saturating_mul(NS_OF_A_MS)),
        };
        self.allocations.store(allocations, Ordering::Relaxed);
        self.ns.store(ns, Ordering::Relaxed);
        self.is_on.store(true, Ordering::Release);
    }

    /// A forked child has a clock of its own: looks at all blocks begin anew. What was told stays told: it was there before.
    pub(crate) fn begin_anew(&self) {
        for word in [&self.address, &self.begun, &self.whole] {
            word.store(0, Ordering::Relaxed);
        }
        self.slot.store(0, Ordering::Relaxed);
    }

    /// Whether anything is done now and then.
    #[inline(always)]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// A block is about to be allocated: if it is time, a step is made.
    #[cold]
    #[inline(never)]
    pub fn tick(&self, shared: &'static Shared) {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let is_due = count.checked_rem(self.allocations.load(Ordering::Relaxed)) == Some(0) && self.is_time();
        // Nobody reads what is found in a forked child that is not recorded, and nearly all of its blocks are its parent's.
        if is_due && hooks::follows(shared) {
            let _blocked = SignalsBlocked::new();
            let (free, own) = (0, syscall::getpid());
            let known = self.busy.load(Ordering::Relaxed);
            let may = known == free || known != own;
            if may && self.busy.compare_exchange(known, own, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                apart::run(&mut || self.step(shared));
                self.busy.store(free, Ordering::Release);
            }
        }
    }

    fn is_time(&self) -> bool {
        let ns = self.ns.load(Ordering::Relaxed);
        if ns == 0 {
            return true;
        }
        let (now, last) = (syscall::clock(CLOCK_MONOTONIC), self.last_ns.load(Ordering::Relaxed));
        now.saturating_sub(last) >= ns
            && self.last_ns.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Of the one thread that is at it.
    fn step(&self, shared: &'static Shared) {
        let (address, slot) = (self.address.load(Ordering::Relaxed), self.slot.load(Ordering::Relaxed));
        let mut found = false;
        if address == 0 && slot == 0 {
            self.begun.store(shared.now().0, Ordering::Relaxed);
            self.has_found.store(false, Ordering::Relaxed);
        }
        let is_done = if address == DONE {
            let next = arena_sweep::step(shared, slot, &mut found);
            self.slot.store(next.unwrap_or(0), Ordering::Relaxed);
            next.is_none()
        } else {
            let next = sweep::step(shared, address as usize, &mut found);
            self.address.store(next.map_or(DONE, |next| next as u64), Ordering::Relaxed);
            false
        };
        if found {
            self.has_found.store(true, Ordering::Relaxed);
        }
        if is_done {
            self.address.store(0, Ordering::Relaxed);
            if !self.has_found.load(Ordering::Relaxed) {
                self.all_were_whole(Ticks(self.begun.load(Ordering::Relaxed)));
            }
        }
    }

    /// A look at all blocks that began then found nothing.
    pub(crate) fn all_were_whole(&self, begun: Ticks) {
        self.whole.fetch_max(begun.0, Ordering::Relaxed);
    }

    /// When the last look at all blocks began that found nothing; 0: there was none.
    pub(crate) fn whole(&self) -> Ticks {
        Ticks(self.whole.load(Ordering::Relaxed))
    }

    /// Whether damage of the block at an address was told.
    pub(crate) fn is_told(&self, block: u64) -> bool {
        self.told.iter().any(|told| told.load(Ordering::Relaxed) == block)
    }

    /// Whether it was not, and is from now on. Of many the oldest are told again.
    pub(crate) fn is_new(&self, block: u64) -> bool {
        if self.is_told(block) {
            return false;
        }
        let place = self.told_count.fetch_add(1, Ordering::Relaxed) as usize % TOLD;
        if let Some(told) = self.told.get(place) {
            told.store(block, Ordering::Relaxed);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_is_told_once() {
        let periodic = Periodic::new();
        assert!(periodic.is_new(16) && !periodic.is_new(16) && periodic.is_told(16));
        assert!((2..=TOLD as u64).all(|block| periodic.is_new(block * 16)) && periodic.is_told(16));
        assert!(periodic.is_new(1 << 40) && !periodic.is_told(16));
    }

    #[test]
    fn the_last_look_in_which_all_was_whole_counts() {
        let periodic = Periodic::new();
        assert_eq!(periodic.whole(), Ticks(0));
        periodic.all_were_whole(Ticks(9));
        periodic.all_were_whole(Ticks(5));
        assert_eq!(periodic.whole(), Ticks(9));
    }

    #[test]
    fn time_passes_between_two_steps() {
        let periodic = Periodic::new();
        assert!(!periodic.is_on());
        periodic.start(Every::Ms(1 << 32));
        assert!(periodic.is_on());
        periodic.last_ns.store(syscall::clock(CLOCK_MONOTONIC), Ordering::Relaxed);
        assert!(!periodic.is_time());
        periodic.ns.store(1, Ordering::Relaxed);
        assert!(periodic.is_time());
        periodic.start(Every::Allocations(3));
        assert!(periodic.is_time() && periodic.allocations.load(Ordering::Relaxed) == 3);
    }
}
