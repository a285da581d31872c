//! Telling quickly that a block is not a sample.
//!
//! Where only one block for so many bytes is entered, nearly every `free` is of a block that the ledger does not know. A table
//! of small counters, by a hash of the address, says so without a look at the index: a counter of 0 means that no block of this
//! hash is in the ledger. It is never 0 for one that is. The hooks' entry points read the table in assembly.
//!
//! With `--sample` only one block for so many bytes takes the paths that hooks.rs describes. A thread draws the gap to its next sample from
//! an exponential distribution (`format::sample::next_gap`) and the stubs count it down; C++ operators are passed on
//! and sampled at the `malloc` that they call. A record stands for `Entry::weight` blocks of its size, which recorder
//! and readers reckon alike from size, number and interval; so every counter and every sum is an unbiased estimate,
//! and they agree.
#![forbid(unsafe_code)]

use crate::ledger::Ledger;
use crate::shared::Settings;
use core::sync::atomic::{AtomicU8, Ordering};
use heapledger_format::GlobalCounter;

/// Counters, a power of two.
pub const COUNTERS: usize = 1 << 14;
/// The hash of an address is so many bits of it from here on, and as many from [`SECOND_SHIFT`] on, added up.
pub const FIRST_SHIFT: u32 = 4;
/// See [`FIRST_SHIFT`].
pub const SECOND_SHIFT: u32 = 17;
/// A counter that has got here stays: it no longer knows how many there are.
const STUCK: u8 = u8::MAX;

/// The table.
#[repr(C)]
pub struct Sampling {
    /// 1 if the ledger samples. The entry points look at it first.
    pub is_on: AtomicU8,
    /// Blocks of the ledger, by hash.
    pub counters: [AtomicU8; COUNTERS],
}

impl Sampling {
    /// Not sampling.
    pub const fn new() -> Sampling {
        Sampling { is_on: AtomicU8::new(0), counters: [const { AtomicU8::new(0) }; COUNTERS] }
    }

    /// From now on blocks are sampled, if they are to be; before the ledger can be read, which tells by what.
    pub(crate) fn start_if(&self, ledger: &Ledger, settings: &Settings) {
        if settings.sample != 0 {
            let store = |counter, value| ledger.global(counter).store(value, Ordering::Relaxed);
            store(GlobalCounter::SampleInterval, settings.sample);
            store(GlobalCounter::SampleSeed, settings.sample_seed);
            self.start();
        }
    }

    /// From now on blocks are sampled.
    pub fn start(&self) {
        self.is_on.store(1, Ordering::Release);
    }

    /// Whether blocks are sampled.
    #[inline(always)]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed) != 0
    }

    #[expect(clippy::indexing_slicing, reason = "the remainder of the length")]
    fn counter(&self, address: u64) -> &AtomicU8 {
        let hash = (address >> FIRST_SHIFT).wrapping_add(address >> SECOND_SHIFT);
        &self.counters[hash as usize % COUNTERS]
    }

    /// Whether the block at an address can be in the ledger.
    #[inline(always)]
    pub fn may_hold(&self, address: u64) -> bool {
        !self.is_on() || self.counter(address).load(Ordering::Relaxed) != 0
    }

    /// The block at an address is about to be entered.
    #[inline(always)]
    pub fn note(&self, address: u64) {
        if self.is_on() {
            self.change(address, 1);
        }
    }

    /// It has been taken out.
    #[inline(always)]
    pub fn forget(&self, address: u64) {
        if self.is_on() {
            self.change(address, -1);
        }
    }

    #[cold]
    #[inline(never)]
    fn change(&self, address: u64, by: i8) {
        let changed = |count: u8| if count == STUCK { None } else { count.checked_add_signed(by) };
        let _ = self.counter(address).fetch_update(Ordering::AcqRel, Ordering::Relaxed, changed);
    }
}

impl Default for Sampling {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_in_the_ledger_is_never_denied() {
        let sampling = Sampling::new();
        assert!(sampling.may_hold(0x1000), "where nothing is sampled everything is in the ledger");
        sampling.start();
        assert!(!sampling.may_hold(0x1000));
        let same = 0x1000 + (1 << 30);
        assert!(core::ptr::eq(sampling.counter(0x1000), sampling.counter(same)) || !sampling.may_hold(same));
        for _ in 0..300 {
            sampling.note(0x1000);
        }
        for _ in 0..300 {
            sampling.forget(0x1000);
        }
        assert!(sampling.may_hold(0x1000), "it has lost count");
        sampling.note(0x2000);
        assert!(sampling.may_hold(0x2000));
        sampling.forget(0x2000);
        assert!(!sampling.may_hold(0x2000));
    }
}
