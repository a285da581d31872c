//! Runs that may be handed out again, of one size, in groups of neighbours: without a lock, and in the order of their addresses.
//!
//! Up to 64 runs that follow each other are a group: a word with a bit for each that is free. Blocks are taken out of one group until
//! nothing of it is free, lowest address first, and only then out of another one. So blocks that are made one after the other lie one behind
//! the other, with their rows, and the processor loads what comes next by itself. (A stack hands out what was freed last, since that is in the
//! cache still; where blocks wait before, it is as cold as any other.)
//!
//! A group is *held* while it is the current one or stands in the list of those that wait to become it. Any other is put into the list by
//! whoever frees the run that makes it worth while, which is for the caller to say: what is free in a group that
//! nobody holds is left unused until then.

#![forbid(unsafe_code)]

use crate::stack::{Links, Stack};
use crate::sync::{AtomicU64, Ordering, exchange, in_order};

/// Runs of a group.
pub const GROUP_RUNS: u32 = 64;
/// Tries until it is left: each of them failed because another thread got on.
const TRIES: u32 = 1000;
/// Of a group's second word: it is held. Below it stands the number of the next one in the list, and one.
const HELD: u64 = 1 << 32;
const NEXT: u64 = HELD - 1;

/// Neighbours. All zeros are a group of which nothing is free, and that nobody holds.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Group {
    /// A bit for each run that is free.
    free: AtomicU64,
    link: AtomicU64,
}

impl Group {
    /// Takes the free run of it that lies lowest. `None` if there is none, or if another thread was faster. `number`: its own.
    #[inline(always)]
    fn take(&self, number: u32) -> Option<Taken> {
        let free = self.free.load(Ordering::Relaxed);
        let left = free & free.wrapping_sub(1);
        // Whoever frees a run has set its bit last: what was written of it before is seen.
        let is_taken = free != 0 && exchange(&self.free, free, left, Ordering::Acquire, Ordering::Relaxed).is_ok();
        is_taken.then(|| Taken { group: number, bit: free.trailing_zeros(), left })
    }
}

/// All groups there are, by number.
#[derive(Clone, Copy, Debug)]
struct Table<'g>(&'g [Group]);

impl Links for Table<'_> {
    fn next(&self, number: u32) -> u32 {
        self.0.get(number as usize).map_or(0, |group| (group.link.load(Ordering::Relaxed) & NEXT) as u32)
    }

    fn set_next(&self, number: u32, next: u32) {
        if let Some(group) = self.0.get(number as usize) {
            group.link.store(HELD | u64::from(next), Ordering::Relaxed);
        }
    }
}

/// A run that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Of which group.
    pub group: u32,
    /// Which one of it.
    pub bit: u32,
    /// Those of it that are free still, a bit for each.
    pub left: u64,
}

/// The groups of one size.
#[derive(Debug)]
pub struct Groups {
    /// The number of the current one, and one; 0: there is none.
    current: AtomicU64,
    listed: Stack,
}

impl Default for Groups {
    fn default() -> Self {
        Self::new()
    }
}

/// A bit for each of so many runs.
#[inline(always)]
fn all_of(runs: u32) -> u64 {
    u64::MAX.checked_shr(GROUP_RUNS.saturating_sub(runs)).unwrap_or(0)
}

impl Groups {
    /// None.
    pub fn new() -> Self {
        Self { current: AtomicU64::new(0), listed: Stack::new() }
    }

    /// Takes a free run. `None` if none of these groups has one.
    #[inline(always)]
    pub fn pop(&self, groups: &[Group]) -> Option<Taken> {
        let current = (self.current.load(Ordering::Acquire) as u32).checked_sub(1);
        let taken = current.and_then(|number| groups.get(number as usize)?.take(number));
        if taken.is_some() { taken } else { self.pop_of_next(groups) }
    }

    #[cold]
    #[inline(never)]
    fn pop_of_next(&self, groups: &[Group]) -> Option<Taken> {
        for _ in 0..TRIES {
            let current = self.current.load(Ordering::Acquire);
            if let Some(number) = (current as u32).checked_sub(1) {
                let group = groups.get(number as usize)?;
                let taken = group.take(number);
                if taken.is_some() {
                    return taken;
                }
                if group.free.load(Ordering::Relaxed) != 0 {
                    continue;
                }
            }
            let next = self.listed.pop(&Table(groups));
            let new = next.map_or(0, |next| u64::from(next).wrapping_add(1));
            match exchange(&self.current, current, new, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => match (current as u32).checked_sub(1) {
                    Some(left) => self.leave(groups, left),
                    None if next.is_none() => return None,
                    None => {}
                },
                // Another thread has put one there.
                Err(_) => next.map_or((), |next| self.listed.push(&Table(groups), next, next)),
            }
        }
        None
    }

    /// Holds a group no more, unless some of it were freed meanwhile.
    fn leave(&self, groups: &[Group], number: u32) {
        let Some(group) = groups.get(number as usize) else { return };
        group.link.swap(0, Ordering::AcqRel);
        in_order();
        if group.free.load(Ordering::Relaxed) != 0 {
            self.list(groups, number);
        }
    }

    /// Lists a group, if nobody holds it.
    fn list(&self, groups: &[Group], number: u32) {
        if let Some(group) = groups.get(number as usize)
            && exchange(&group.link, 0, HELD, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        {
            self.listed.push(&Table(groups), number, number);
        }
    }

    /// Frees a run. `is_worth_while`: whether a group that nobody holds is to be listed when so many of it are free.
    #[inline(always)]
    pub fn push(&self, groups: &[Group], (number, bit): (u32, u32), is_worth_while: impl FnOnce(u32) -> bool) {
        let Some(group) = groups.get(number as usize) else { return };
        let mut free = group.free.load(Ordering::Relaxed);
        let now = loop {
            let now = free | 1u64.wrapping_shl(bit);
            // Without a bound: what is not put back is lost, and of two who fail, one has got on.
            match exchange(&group.free, free, now, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => break now,
                Err(other) => free = other,
            }
        };
        in_order();
        if group.link.load(Ordering::Relaxed) == 0 && is_worth_while(now.count_ones()) {
            self.list(groups, number);
        }
    }

    /// Adds groups that were never used, one behind the other, of so many runs: all but the last one are full ones. The first so many runs are
    /// not free.
    pub fn add(&self, groups: &[Group], first: u32, runs: u32, taken: u32) {
        let last = first.saturating_add(runs.saturating_sub(1) / GROUP_RUNS);
        for number in first..=last {
            let Some(group) = groups.get(number as usize) else { return };
            let before = number.saturating_sub(first).saturating_mul(GROUP_RUNS);
            let (all, taken) =
                (runs.saturating_sub(before).min(GROUP_RUNS), taken.saturating_sub(before).min(GROUP_RUNS));
            // Each leads to the one behind it; the last one's link is set when the chain is listed.
            let next = u64::from(number).wrapping_add(2);
            group.link.store(HELD | next & NEXT, Ordering::Relaxed);
            // Release: who sees that something of it is free sees that it is held.
            group.free.store(all_of(all) & !all_of(taken), Ordering::Release);
        }
        self.listed.push(&Table(groups), first, last);
    }

    /// Lists a group of which something is free, if nobody holds it. What makes it worth while for those who free was stored by an exchange before
    /// that.
    pub fn list_if_any(&self, groups: &[Group], number: u32) {
        in_order();
        if groups.get(number as usize).is_some_and(|group| group.free.load(Ordering::Acquire) != 0) {
            self.list(groups, number);
        }
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    fn groups<const COUNT: usize>() -> [Group; COUNT] {
        core::array::from_fn(|_| Group::default())
    }

    fn pop(groups: &Groups, table: &[Group]) -> Option<(u32, u32)> {
        groups.pop(table).map(|taken| (taken.group, taken.bit))
    }

    #[test]
    fn neighbours_follow_each_other() {
        let (of_size, table) = (Groups::new(), groups::<8>());
        assert_eq!(of_size.pop(&table), None);
        of_size.add(&table, 2, 70, 1);
        assert_eq!(of_size.pop(&table), Some(Taken { group: 2, bit: 1, left: !3 }));
        for expected in (2..64).map(|bit| (2, bit)).chain((0..6).map(|bit| (3, bit))) {
            assert_eq!(pop(&of_size, &table), Some(expected));
        }
        assert_eq!(of_size.pop(&table), None);
    }

    #[test]
    fn a_group_is_used_again_when_it_is_worth_while() {
        let (of_size, table) = (Groups::new(), groups::<4>());
        of_size.add(&table, 0, 128, 0);
        while of_size.pop(&table).is_some() {}
        for bit in [9, 7, 5] {
            of_size.push(&table, (1, bit), |free| free >= 4);
            assert_eq!(of_size.pop(&table), None);
        }
        of_size.push(&table, (1, 50), |free| free >= 4);
        // One that is freed while its group is the current one is taken at once.
        assert_eq!(pop(&of_size, &table), Some((1, 5)));
        of_size.push(&table, (1, 2), |free| free >= 4);
        assert_eq!([(); 4].map(|()| pop(&of_size, &table)), [Some((1, 2)), Some((1, 7)), Some((1, 9)), Some((1, 50))]);
        assert_eq!(of_size.pop(&table), None);
        // Where memory is short one is enough, and so it is where there are no more.
        of_size.push(&table, (0, 3), |free| free >= 1);
        assert_eq!(pop(&of_size, &table), Some((0, 3)));
        assert_eq!(of_size.pop(&table), None);
        of_size.push(&table, (0, 0), |free| free >= 2);
        assert_eq!(of_size.pop(&table), None);
        of_size.push(&table, (0, 1), |free| free >= 2);
        assert_eq!([(); 2].map(|()| pop(&of_size, &table)), [Some((0, 0)), Some((0, 1))]);
        // What was left is found when somebody looks for it.
        of_size.push(&table, (1, 1), |free| free >= 4);
        assert_eq!(of_size.pop(&table), None);
        of_size.list_if_any(&table, 1);
        of_size.list_if_any(&table, 1);
        assert_eq!([(); 2].map(|()| pop(&of_size, &table)), [Some((1, 1)), None]);
    }
}
