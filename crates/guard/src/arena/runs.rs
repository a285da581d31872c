//! Of what sizes runs of the level `full` are, and where those lie that may be handed out again.

#![forbid(unsafe_code)]

use super::classes::{class_of, shares_of, units_of};
use super::slot::Slot;
use super::store::Store;
use crate::groups::{GROUP_RUNS, Group, Groups};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// What the range is cut into.
pub(super) const UNIT_BYTES: u64 = 1 << 16;
/// What small runs are multiples of, and every block is aligned to at least.
pub(super) const GRAIN_BYTES: u64 = 16;
/// So many of these are a unit.
const GRAINS: u64 = UNIT_BYTES / GRAIN_BYTES;
/// Runs of up to so many bytes share a unit.
const SMALL_BYTES: u64 = 16 << 10;
/// The class of the smallest run of whole units: behind those of small ones.
pub(super) const LARGE: usize = 72;
/// Groups of a unit's runs, of two words each: no run is smaller than what lies around a block.
pub(super) const GROUPS_PER_UNIT: u32 = 16;
/// So many units have runs whose places fit into a row.
const UNITS_MAX: u64 = (1 << 32) / (GROUPS_PER_UNIT * GROUP_RUNS) as u64;
/// A group is listed when one in so many of its runs is free.
const WORTH_WHILE: u32 = 4;
const _: () = assert!(GROUPS_PER_UNIT as u64 * GROUP_RUNS as u64 * super::Full::GAP_BYTES >= UNIT_BYTES);

/// The class of the runs in which so many bytes lie.
#[inline(always)]
pub(super) fn class_for(need: u64) -> usize {
    match need <= SMALL_BYTES {
        true => class_of(need.wrapping_add(GRAIN_BYTES.wrapping_sub(1)).wrapping_shr(GRAIN_BYTES.trailing_zeros())),
        false => class_of(need.div_ceil(UNIT_BYTES)).saturating_add(LARGE),
    }
}

/// Bytes of small runs, by class.
#[expect(clippy::indexing_slicing, reason = "at compile time")]
const SMALL_RUNS: [u32; LARGE] = {
    let mut runs = [0; LARGE];
    let mut class = 0;
    while class < LARGE {
        runs[class] = units_of(class).wrapping_mul(GRAIN_BYTES) as u32;
        class += 1;
    }
    runs
};

/// How many of them a unit has.
#[expect(clippy::indexing_slicing, reason = "at compile time")]
static RUNS_OF_UNIT: [u16; LARGE] = {
    let mut runs = [0; LARGE];
    let mut class = 0;
    while class < LARGE {
        runs[class] = (UNIT_BYTES / SMALL_RUNS[class] as u64) as u16;
        class += 1;
    }
    runs
};

#[inline(always)]
pub(super) fn run_bytes(class: usize) -> u64 {
    static RUNS: [u32; LARGE] = SMALL_RUNS;
    match RUNS.get(class) {
        Some(bytes) => u64::from(*bytes),
        None => units_of(class.wrapping_sub(LARGE)).saturating_mul(UNIT_BYTES),
    }
}

/// How many runs of so many bytes, which are fewer than a unit's, a unit has, and what its word says.
pub(super) fn runs_of_unit(bytes: u64) -> (u64, u32) {
    shares_of(bytes.checked_div(GRAIN_BYTES).unwrap_or(1), GRAINS)
}

/// A run that was taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct TakenRun {
    /// The number of its row.
    pub(super) number: u32,
    /// So many behind it lies the one that will probably be taken next; 0: that is not known.
    pub(super) ahead: u32,
}

/// What the row of a small run keeps, so that nobody has to look for its group: in the lowest bits which run of its group it is, and above them
/// that one's number.
#[inline(always)]
pub(super) fn place_of(offset: u64, run: u64) -> u32 {
    (offset / UNIT_BYTES).wrapping_mul(u64::from(GROUPS_PER_UNIT * GROUP_RUNS)).wrapping_add(run) as u32
}

/// Which run of its unit is the first one of a group.
#[inline(always)]
fn first_of(group: u32) -> u32 {
    (group % GROUPS_PER_UNIT).wrapping_mul(GROUP_RUNS)
}

/// Those that are free.
#[derive(Debug)]
pub(super) struct FreeRuns {
    /// Of small ones, as many as are a unit's for each unit.
    groups: &'static [Group],
    of_class: [Groups; LARGE],
    /// A group is listed when one in so many of its runs is free: [`WORTH_WHILE`], or as many as it has, where memory is used up.
    worth_while: AtomicU32,
    /// Units that were cut for small ones.
    units: AtomicU64,
}

impl FreeRuns {
    /// Of so many units at most. `None` if there are not groups for all of them, or if a row cannot keep where a run of the last one is.
    pub(super) fn new(groups: &'static [Group], units: u64) -> Option<Self> {
        let per_unit = u64::from(GROUPS_PER_UNIT);
        let sound = units <= UNITS_MAX && units.checked_mul(per_unit).is_some_and(|all| groups.len() as u64 >= all);
        let of_class = core::array::from_fn(|_| Groups::new());
        sound.then_some(Self { groups, of_class, worth_while: AtomicU32::new(WORTH_WHILE), units: AtomicU64::new(0) })
    }

    /// Takes one of this class.
    #[inline(always)]
    pub(super) fn pop(&self, store: &Store, class: usize) -> Option<TakenRun> {
        let Some(of_class) = self.of_class.get(class) else {
            return store.pop_free(class).map(|number| TakenRun { number, ahead: 0 });
        };
        let taken = of_class.pop(self.groups)?;
        let first = first_of(taken.group);
        let unit = store.unit_of_number(u64::from(taken.group / GROUPS_PER_UNIT))?;
        let ahead = if taken.left == 0 { 0 } else { taken.left.trailing_zeros().wrapping_sub(taken.bit) };
        Some(TakenRun { number: unit.slot.wrapping_add(first).wrapping_add(taken.bit), ahead })
    }

    /// Adds those of a unit that was cut for small ones, but for the first so many.
    pub(super) fn add(&self, class: usize, offset: u64, runs: u64, taken: u32) {
        if let Some(of_class) = self.of_class.get(class) {
            let first = (offset / UNIT_BYTES) as u32;
            self.units.fetch_add(1, Ordering::Relaxed);
            of_class.add(self.groups, first.wrapping_mul(GROUPS_PER_UNIT), runs as u32, taken);
        }
    }

    /// Frees the run of a class whose row this is, of this number.
    #[inline(always)]
    pub(super) fn push(&self, store: &Store, class: usize, (number, slot): (u32, &Slot)) {
        let Some(of_class) = self.of_class.get(class) else { return store.push_free(class, number, 1) };
        let place = slot.link();
        let (group, bit) = (place / GROUP_RUNS, place % GROUP_RUNS);
        of_class.push(self.groups, (group, bit), |free| {
            let runs = RUNS_OF_UNIT.get(class).map_or(0, |runs| u32::from(*runs));
            let of_group = runs.saturating_sub(first_of(group)).min(GROUP_RUNS);
            free.wrapping_mul(self.worth_while.load(Ordering::Relaxed)) >= of_group
        });
    }

    /// Memory is used up: what is left unused otherwise can be had from now on.
    #[cold]
    #[inline(never)]
    pub(super) fn run_short(&self, store: &Store) {
        if self.worth_while.swap(GROUP_RUNS, Ordering::AcqRel) == GROUP_RUNS {
            return;
        }
        for unit in 0..store.used_bytes() / UNIT_BYTES {
            let slot = store.unit_of_number(unit).and_then(|unit| store.slot(unit.slot));
            if let Some(of_class) = slot.and_then(|slot| self.of_class.get(slot.home().1)) {
                let first = (unit as u32).wrapping_mul(GROUPS_PER_UNIT);
                let groups = first..first.wrapping_add(GROUPS_PER_UNIT);
                groups.for_each(|group| of_class.list_if_any(self.groups, group));
            }
        }
    }

    /// Bytes of the table of groups that were ever used.
    pub(super) fn table_bytes(&self) -> u64 {
        let of_unit = u64::from(GROUPS_PER_UNIT).saturating_mul(size_of::<Group>() as u64);
        self.units.load(Ordering::Relaxed).saturating_mul(of_unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_has_as_many_runs_as_its_word_says() {
        for (class, runs) in RUNS_OF_UNIT.iter().enumerate() {
            assert_eq!(u64::from(*runs), runs_of_unit(run_bytes(class)).0, "{class}");
        }
        assert_eq!(run_bytes(LARGE), UNIT_BYTES);
        assert!(class_for(SMALL_BYTES) < LARGE && class_for(SMALL_BYTES + 1) == LARGE);
    }
}
