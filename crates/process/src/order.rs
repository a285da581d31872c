//! What comes before what: numbers and times that follow cause and effect.
//!
//! A thread leases a few numbers at once, and reads the clock with them: all events of a lease have the time of the lease.
//! The clock is read after the counter of numbers was, and the lease is only had if the counter has not changed since. So
//! times never fall as numbers rise, and whoever leases later has the higher numbers.
//!
//! What is left is that an event of one thread may come before one of another whose lease is older. Where we can know of it
//! that thread leases anew ("follows"):
//!
//! - a block's end comes after its beginning, whose number is in the record;
//! - a block begins after the ends of those that were where it is now. [`Returned`] has about the highest number of all ends of
//!   blocks in a region. If that is of a later lease, what remains in the index of the block that was there tells whether it was the
//!   thread's own a moment ago: then it does not matter what others did nearby.
//!
//! A lease is also over when the coarse clock has moved on, so a thread that was idle has no old numbers left, and when somebody has
//! [ended it](crate::lease).
#![forbid(unsafe_code)]

use crate::access::{AboutBlock, Access};
use crate::cells::{self, Addresses as _, IS_GONE};
use crate::lease;
use crate::shared::{Shared, TICK_NS, ticks};
use crate::state::{Entered, ThreadBooks};
use crate::threads::refresh_name;
use core::sync::atomic::{AtomicU64, Ordering};
use heapledger_format::record::{NUMBER_MAX, Options, TIME_MAX};
use heapledger_format::{Entry, GlobalCounter, TallyCounter, Ticks};
use heapledger_recorder::backend::{Begun, Slot};

/// Numbers that a thread leases at once.
pub const NUMBER_LEASE: u64 = 16;
/// And if there is no other, which could take the next ones, if there are more than [`FEW_THREADS`], or no clock to be read with it.
pub const LONG_LEASE: u64 = 64;
const FEW_THREADS: u64 = 8;
/// Where times are not recorded, a lease is over when the counter has moved on by so much.
pub(crate) const OLD_LEASE: u64 = 4096;
/// How often somebody else may be faster before a lease is had in any case, with a time that was read a little early.
pub(crate) const TRIES: u32 = 32;
/// Numbers of two threads are at most so far out of order, unless a thread is kept from running between taking its number
/// and using it: what is leased within a step of the coarse clock.
pub const ORDER_BOUND: u64 = 1 << 18;

/// Leases after which a thread looks for a new name of its own, and for another thread that is gone.
const LOOK_EVERY: u32 = 64;

const REGION_BITS: u32 = 16;
const REGIONS: usize = 512;
/// How long a block was, in words.
const LENGTH_BITS: u32 = 8;
const LENGTH_UNKNOWN: u32 = (1 << LENGTH_BITS) - 1;
/// Longer blocks are not kept for their thread, but come from what all share: there they are joined and cut, and what was at an
/// address a moment ago does not tell in whose hands it was since, as part of a block that began elsewhere. glibc's caches of
/// threads keep blocks of up to 1,032 bytes, as they are.
const KEPT_BYTES_MAX: u64 = 1032;
const LEASE_BITS: u32 = 7;
const LEASE_MASK: u32 = (1 << LEASE_BITS) - 1;

#[repr(align(64))]
struct Line(AtomicU64);

/// For each region of the address space the end of the latest lease that a block's end there was numbered from. Regions share
/// places: too high a figure only makes a thread lease anew that need not.
pub struct Returned {
    ends: [Line; REGIONS],
}

impl Returned {
    /// Nothing was returned.
    pub const fn new() -> Returned {
        Returned { ends: [const { Line(AtomicU64::new(0)) }; REGIONS] }
    }

    /// The regions of a block: first and last.
    #[inline(always)]
    fn regions(address: u64, bytes: u64) -> (u64, u64) {
        let first = address >> REGION_BITS;
        let last = address.saturating_add(bytes.max(1).wrapping_sub(1)) >> REGION_BITS;
        // More regions than there are places need each place once.
        (first, last.min(first.wrapping_add(REGIONS as u64).wrapping_sub(1)))
    }

    #[inline(always)]
    #[expect(clippy::indexing_slicing, reason = "the remainder of the length")]
    fn end_in(&self, region: u64) -> &AtomicU64 {
        let place = region.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 64u32.wrapping_sub(REGIONS.trailing_zeros());
        &self.ends[place as usize % REGIONS].0
    }

    /// A block ends with a number of the lease that ends at `end`.
    #[inline(always)]
    fn note(&self, address: u64, bytes: u64, end: u64) {
        let note = |region| {
            // Looking first keeps the line shared: a lease is noted in a region once.
            let known = self.end_in(region);
            if known.load(Ordering::Relaxed) < end {
                known.fetch_max(end, Ordering::Release);
            }
        };
        match Self::regions(address, bytes) {
            (first, last) if first == last => note(first),
            (first, last) => Self::of_each(first, last, note),
        }
    }

    /// The latest lease there.
    #[inline(always)]
    fn latest(&self, address: u64, bytes: u64) -> u64 {
        let end_in = |region| self.end_in(region).load(Ordering::Acquire);
        let (first, last) = Self::regions(address, bytes);
        let mut latest = end_in(first);
        if first != last {
            Self::of_each(first.wrapping_add(1), last, |region| latest = latest.max(end_in(region)));
        }
        latest
    }

    #[cold]
    #[inline(never)]
    fn of_each(first: u64, last: u64, each: impl FnMut(u64)) {
        (first..=last).for_each(each);
    }
}

impl Default for Returned {
    fn default() -> Self {
        Self::new()
    }
}

/// A length in words, if a block of it may be kept.
#[inline(always)]
fn length(bytes: u64) -> u32 {
    if bytes <= KEPT_BYTES_MAX { bytes.div_ceil(8) as u32 } else { LENGTH_UNKNOWN }
}

/// What remains in the index of a block that a thread has taken out: whose it was, lately, and how long.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Remains(u32);

impl Remains {
    /// Of a block of so many bytes, taken out with this state in its lease of this count.
    #[inline(always)]
    fn new(state_number: u32, lease: u32, bytes: u64) -> Remains {
        // There are fewer states than can be told apart.
        let whose = state_number << (LEASE_BITS + LENGTH_BITS) & (IS_GONE - 1);
        Remains(IS_GONE | whose | (lease & LEASE_MASK) << LENGTH_BITS | length(bytes))
    }

    /// Whether a thread had all of the place where it gets this block now, and that in its present lease or the one before. What
    /// lay there longer may have been in other hands, as part of another block.
    #[inline(always)]
    fn is_own(self, state_number: u32, lease: u32, bytes: u64) -> bool {
        let own = Remains::new(state_number, 0, 0).0;
        let (whose, known) = (self.0 & !(LEASE_MASK << LENGTH_BITS | LENGTH_UNKNOWN), self.0 & LENGTH_UNKNOWN);
        let leases_since = lease.wrapping_sub(self.0 >> LENGTH_BITS) & LEASE_MASK;
        whose == own && leases_since <= 1 && known != LENGTH_UNKNOWN && known >= length(bytes)
    }
}

/// How many bytes the block of a record has, as far as they are known without looking elsewhere. `is_aligned`: the record has an
/// alignment where others have how much longer the block is.
#[inline(always)]
fn bytes_of(shared: &Shared, slot: Slot, is_aligned: bool) -> u64 {
    let [_, _, size, time] = shared.record(slot);
    let size = size.load(Ordering::Relaxed);
    let bytes = match is_aligned {
        true => Entry::packed_size(size),
        false => Entry::packed_actual(&[0, 0, size, time.load(Ordering::Relaxed)]),
    };
    bytes.unwrap_or(u64::MAX >> 8)
}

impl Shared {
    /// What is to remain in the index of the block in a slot that a thread takes out.
    #[inline(always)]
    pub(crate) fn remains(&self, state: &ThreadBooks, slot: Slot, is_aligned: bool) -> u32 {
        Remains::new(state.number_plus_1, state.leases, bytes_of(self, slot, is_aligned)).0
    }

    /// The number of the block in a slot; 0 if there is none.
    #[inline(always)]
    fn number_in(&self, slot: Slot) -> u64 {
        (self.record(slot)[0].load(Ordering::Acquire) & NUMBER_MASK).saturating_sub(1)
    }
}

const NUMBER_MASK: u64 = heapledger_format::layout::mask(48);

impl ThreadBooks {
    /// Whether this number is of the lease that the thread has now: others are at most as high as its end says.
    #[inline(always)]
    fn is_of_this_lease(&self, number: u64) -> bool {
        number >= self.first_number
    }
}

impl Access<'_> {
    /// A new number, `least` at least, and with it the time.
    #[inline(always)]
    pub(crate) fn number_from(&mut self, least: u64) -> Option<u64> {
        let state = &self.state;
        let is_over = if self.is_usual || self.shared.settings().options.has(Options::TIME) {
            !state.thread().step.is(self.shared.clock.step_ns())
        } else {
            let counter = self.shared.ledger().global(GlobalCounter::NextNumber).load(Ordering::Relaxed);
            counter.wrapping_sub(state.end_number) > OLD_LEASE && counter > state.end_number
        };
        if (is_over || state.next_number == state.end_number || state.next_number < least)
            && !new_lease(self.shared, self.state.again())
        {
            return None;
        }
        let number = self.state.next_number;
        self.state.next_number = self.state.next_number.wrapping_add(1);
        Some(number)
    }

    /// The number that a block must have at least which begins here; 0 if any will do.
    #[inline(always)]
    pub(crate) fn least_number(&mut self, block: &Begun) -> u64 {
        if self.shared.threads.is_single() {
            return 0;
        }
        let bytes = block.actual.unwrap_or(block.size);
        let held = self.index().held((block.address, self.cell(block.address)));
        let latest = self.shared.returned.latest(block.address, bytes);
        if latest <= self.state.end_number && cells::slot_in(held).is_none() {
            return 0;
        }
        least_number_after_others((self.shared, &self.state), (block.address, bytes), held, latest)
    }

    /// The number of the end of the block in a slot.
    #[inline(always)]
    pub(crate) fn number_of_end(&mut self, slot: Slot, address: u64) -> Option<u64> {
        let number = self.number_from(self.shared.number_in(slot).wrapping_add(1));
        if !self.shared.threads.is_single() {
            let bytes = bytes_of(self.shared, slot, self.about == AboutBlock::Aligned);
            self.shared.returned.note(address, bytes, self.state.end_number);
        }
        number
    }

    /// The number of the block that a `realloc` gave: the one that was taken before, unless the block lies where another
    /// thread's ended since, our lease was over in between, or somebody has set a mark.
    pub(crate) fn number_of_moved(&mut self, number: u64, block: &Begun) -> u64 {
        let least = self.least_number(block);
        let is_old = self.shared.marks.is_after(number);
        if least == 0 && !is_old && (self.state.is_of_this_lease(number) || self.shared.threads.is_single()) {
            return number;
        }
        self.number_from(least).unwrap_or(number).max(number)
    }
}

/// Takes no access, for which that would have to lie in memory.
#[cold]
#[inline(never)]
fn least_number_after_others(
    (shared, state): (&Shared, &ThreadBooks),
    (address, bytes): (u64, u64),
    held: u32,
    latest: u64,
) -> u64 {
    let is_own = Remains(held).is_own(state.number_plus_1, state.leases, bytes);
    let least = if latest > state.end_number && !is_own { latest } else { 0 };
    // A block that is still there ends now: nobody saw its free.
    let there = cells::slot_in(held).filter(|slot| shared.address(*slot) == address);
    there.map_or(least, |slot| least.max(shared.number_in(slot).wrapping_add(1)))
}

/// Leases numbers, with the time. One after the other, not one inside of the other: that takes less stack.
#[cold]
#[inline(never)]
fn new_lease(shared: &Shared, mut state: Entered) -> bool {
    let Some(now) = take_lease(shared, state.again()) else { return false };
    after_lease(shared, state, now);
    true
}

/// Leases numbers, and tells the time in ticks; `None`: there are no more. If nobody has leased any since, the old lease goes on, and
/// no number is left out.
#[inline(never)]
fn take_lease(shared: &Shared, mut state: Entered) -> Option<Ticks> {
    let counter = shared.ledger().global(GlobalCounter::NextNumber);
    let has_time = shared.settings().options.has(Options::TIME);
    let is_short = has_time && !shared.threads.is_single() && shared.threads.in_use() <= FEW_THREADS;
    let count = if is_short { NUMBER_LEASE } else { LONG_LEASE };
    let unused = state.end_number.wrapping_sub(state.next_number);
    let (mut tries, mut end) = (0u32, counter.load(Ordering::Acquire));
    let moment = loop {
        let moment = shared.clock.moment();
        // At least one, or nobody who has read the counter would notice.
        let goes_on = end == state.end_number && unused < count;
        let more = if goes_on { count.wrapping_sub(unused) } else { count };
        if end.wrapping_add(more) > NUMBER_MAX {
            state.count(TallyCounter::NumbersUnused, unused);
            (state.next_number, state.end_number) = (0, 0);
            return None;
        }
        tries = tries.wrapping_add(1);
        let step = (&state.thread().step, moment.coarse_ns());
        match lease::take((counter, end), more, step, tries >= TRIES) {
            Ok(first) => {
                // A block with the last number, as its record would say it, unless the next number is one higher.
                state.before_lease = 0;
                if !goes_on || first != end {
                    state.before_lease = state.next_number & NUMBER_MASK | u64::from(state.row.0) << 48;
                    state.count(TallyCounter::NumbersUnused, unused);
                    state.next_number = first;
                }
                state.first_number = state.next_number;
                state.end_number = first.wrapping_add(more);
                break moment;
            }
            Err(now) => end = now,
        }
    };
    let now = ticks(moment.ns());
    if has_time {
        state.ticks = now.min(TIME_MAX);
    }
    Some(now)
}

/// What is looked after now and then.
fn after_lease(shared: &Shared, mut state: Entered, now: Ticks) {
    let last = shared.ledger().global(GlobalCounter::LastTime);
    if last.load(Ordering::Relaxed) < now.0 {
        last.store(now.0, Ordering::Relaxed);
    }
    state.leases = state.leases.wrapping_add(1);
    if state.leases.is_power_of_two() || state.leases.is_multiple_of(LOOK_EVERY) {
        refresh_name(&mut state);
        shared.threads.look_after_one(shared);
    }
    let made = state.cache.counters().made;
    state.count(TallyCounter::RulesMade, made.wrapping_sub(state.rules_counted));
    state.rules_counted = made;
    shared.measure_now_and_then(now.0.wrapping_mul(u64::from(TICK_NS)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_remains_tells_whose_it_was_and_how_long() {
        for (state, lease) in [(1, 0), (2, 127), (77, 128), (32767, 1000)] {
            for bytes in [0u64, 1, 8, 24, 25, 1024] {
                let left = Remains::new(state, lease, bytes);
                assert!(left.0 & IS_GONE != 0 && left.0 & cells::IS_NODE == 0 && cells::slot_in(left.0).is_none());
                assert!(left.is_own(state, lease, bytes) && left.is_own(state, lease + 1, 0), "{state} {bytes}");
                assert!(!left.is_own(state, lease, bytes + 8), "{state} {bytes}");
                assert!(!left.is_own(state + 1, lease, bytes), "{state} {bytes}");
                assert!(!left.is_own(state, lease + 2, bytes) && !left.is_own(state, lease + 127, bytes));
            }
            assert!(!Remains::new(state, lease, 1033).is_own(state, lease, 1), "too long to be told");
        }
        for held in [0, 1, 5, cells::SLOTS_MAX, cells::IS_NODE | 1] {
            assert!(!Remains(held).is_own(1, 0, 1), "{held:#x}");
        }
    }

    #[test]
    fn what_was_returned_anywhere_in_a_block_is_known() {
        let returned = std::boxed::Box::new(Returned::new());
        let base = 0x7f12_3456_0000u64;
        assert_eq!(returned.latest(base, u64::MAX), 0);
        returned.note(base + 5 * 65_536 - 1, 2, 64);
        for (address, bytes) in [(base + 5 * 65_536, 16), (base + 4 * 65_536 + 7, 0), (base, 1 << 20)] {
            assert_eq!(returned.latest(address, bytes), 64, "{address:#x} {bytes}");
        }
        returned.note(base + 5 * 65_536, 2, 32);
        assert_eq!(returned.latest(base + 5 * 65_536, 1), 64, "an older lease hides the later one");
        returned.note(base, u64::MAX, 96);
        assert_eq!(returned.latest(1, 1), 96, "a huge block is everywhere");
    }
}
