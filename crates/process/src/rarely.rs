//! Which blocks are guarded where only a few are: those of call sites that have had few so far, and others by chance; so many a second.
//!
//! A program makes nearly all of its blocks at a few places, and what is wrong is mostly elsewhere. So each call site has its turn when it
//! makes its first block, its second, its fourth and so on, and each block has one chance in N beside that. (Sites share a count where
//! their numbers differ by a multiple of [`COUNTS`]: then one of them may pass for known.) Half of what may be spent in a second is kept
//! for call sites that are new.
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};
use heapledger_format::{Site, sample};
use heapledger_linux::syscall;

const COUNTS: usize = 1 << 15;
/// Blocks that are guarded in a second at most: each costs some ten microseconds.
const PER_SECOND: u64 = 500;
/// A site is new as long as it has had fewer blocks.
const KNOWN: u16 = 1 << 12;

/// How many blocks call sites have had, about: two threads may count one.
static SEEN: [AtomicU16; COUNTS] = [const { AtomicU16::new(0) }; COUNTS];
/// One of so many blocks has its turn by chance; 0: none.
static ONE_IN: AtomicU32 = AtomicU32::new(0);
/// A second, and above it how many blocks were chosen in it.
static SPENT: AtomicU64 = AtomicU64::new(0);

/// One block in so many.
pub(crate) fn start(one_in: u32) {
    ONE_IN.store(one_in, Ordering::Relaxed);
}

/// More than can be left before a thread's next turn.
const NEVER: u64 = 1 << 40;

/// A thread's part in it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Turns {
    /// Blocks up to its next turn, that one included. 0: not drawn yet.
    left: u64,
    random: u64,
}

/// Whether a block of this call site is to be guarded. `turns` are the calling thread's.
#[inline(always)]
pub(crate) fn chooses(site: Site, turns: &mut Turns) -> bool {
    let Some(place) = SEEN.get(site.0 as usize % COUNTS) else { return false };
    let seen = place.load(Ordering::Relaxed).saturating_add(1);
    place.store(seen, Ordering::Relaxed);
    turns.left = turns.left.wrapping_sub(1);
    if (1..NEVER).contains(&turns.left) && seen & seen.wrapping_sub(1) != 0 {
        return false;
    }
    chooses_rarely(seen, turns)
}

#[cold]
#[inline(never)]
fn chooses_rarely(seen: u16, turns: &mut Turns) -> bool {
    let is_new = seen.is_power_of_two() && seen <= KNOWN;
    let by_chance = turns.left == 0;
    if !(1..NEVER).contains(&turns.left) {
        turns.draw(ONE_IN.load(Ordering::Relaxed));
    }
    (is_new || by_chance) && may_spend(is_new)
}

impl Turns {
    /// How many blocks come before the next one that has its turn: any number up to twice the mean.
    fn draw(&mut self, one_in: u32) {
        if self.random == 0 {
            self.random = syscall::random_again();
        }
        self.random = self.random.wrapping_add(sample::STEP);
        let ends = u64::from(one_in).wrapping_mul(2).saturating_sub(1);
        self.left = sample::scramble(self.random).checked_rem(ends).map_or(NEVER, |gap| gap.wrapping_add(1));
    }
}

#[cold]
#[inline(never)]
fn may_spend(is_new: bool) -> bool {
    const CLOCK_MONOTONIC_COARSE: usize = 6;
    const NS: u64 = 1_000_000_000;
    let second = u64::from((syscall::clock(CLOCK_MONOTONIC_COARSE) / NS) as u32);
    spend(&SPENT, second, is_new)
}

fn spend(spent: &AtomicU64, second: u64, is_new: bool) -> bool {
    let most = if is_new { PER_SECOND } else { PER_SECOND / 2 };
    let next = |word: u64| {
        let used = if word as u32 == second as u32 { word >> 32 } else { 0 };
        (used < most).then(|| used.wrapping_add(1) << 32 | u64::from(second as u32))
    };
    spent.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_so_many() {
        let spent = AtomicU64::new(0);
        let count = |second, is_new| (0..10_000).filter(|_| spend(&spent, second, is_new)).count() as u64;
        assert_eq!((count(7, false), count(7, true), count(7, true)), (PER_SECOND / 2, PER_SECOND / 2, 0));
        assert_eq!((count(8, true), count(8, false), count(9, false)), (PER_SECOND, 0, PER_SECOND / 2));
    }

    #[test]
    fn new_sites_come_first_and_others_by_chance() {
        start(1000);
        let mut turns = Turns::default();
        let mut chosen = |site: u32, blocks: usize| (0..blocks).filter(|_| chooses(Site(site), &mut turns)).count();
        // One of ten that came before has had a million, and each of them its turns.
        let hot = chosen(5, 1_000_000);
        assert!((20..=PER_SECOND as usize * 60).contains(&hot), "{hot}");
        let seldom: std::vec::Vec<usize> = (100..110).map(|site| chosen(site, 1)).collect();
        assert!(seldom.iter().sum::<usize>() >= 8, "{seldom:?}");
    }

    #[test]
    fn turns_come_as_often_as_was_asked() {
        for one_in in [1, 2, 10, 1000] {
            let (mut turns, mut drawn, mut blocks) = (Turns::default(), 0, 0);
            while drawn < 2000 {
                turns.draw(one_in);
                assert!((1..2 * u64::from(one_in)).contains(&turns.left), "{turns:?}");
                (drawn, blocks) = (drawn + 1, blocks + turns.left);
            }
            let (mean, wanted) = (blocks as f64 / 2000.0, f64::from(one_in));
            assert!((mean - wanted).abs() <= wanted / 10.0, "{mean}");
        }
    }
}
