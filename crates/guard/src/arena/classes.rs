//! Sizes of runs: exact up to 16 units, then eight to a doubling, so that at most an eighth is more than asked for.

#![forbid(unsafe_code)]

/// Up to this each number of units is a class of its own.
const EXACT: u64 = 16;
/// Classes of a doubling, as a power of two.
const STEPS_LOG2: u32 = 3;

/// The smallest class whose runs have so many units.
#[inline(always)]
pub(super) fn class_of(units: u64) -> usize {
    let Some(below) = units.checked_sub(1) else { return 0 };
    if below < EXACT {
        return below as usize;
    }
    // 17 to 32 units are the first doubling, cut in steps of 2 units; the next one in steps of 4.
    let doubling = below.ilog2();
    let step = doubling.saturating_sub(STEPS_LOG2);
    let part = below.wrapping_shr(step) & 7;
    let before = u64::from(doubling.saturating_sub(EXACT.trailing_zeros())).wrapping_shl(STEPS_LOG2);
    EXACT.wrapping_add(before).wrapping_add(part) as usize
}

/// Units of each run of a class.
pub(super) const fn units_of(class: usize) -> u64 {
    let class = class as u64;
    let Some(above) = class.checked_sub(EXACT) else { return class.wrapping_add(1) };
    let step = above.wrapping_shr(STEPS_LOG2).wrapping_add(1);
    let step = if step > 58 { 58 } else { step };
    (above & 7).wrapping_add(9).wrapping_shl(step as u32)
}

/// What a unit of grains says that is shared by runs: how many of them there are, and above that what to multiply with in place of dividing
/// by the grains of one.
const RUNS_BITS: u32 = 11;
/// A unit has at most 2^12 grains, and a run at most 2^10: with so many bits of a quotient it is exact.
const QUOTIENT_BITS: u32 = 22;
/// What one says that is all of one run.
pub(super) const ALL_ONE: u32 = 1;

/// How many runs of so many grains there are in a unit, and what it says.
pub(super) fn shares_of(grains: u64, unit_grains: u64) -> (u64, u32) {
    let grains = grains.max(1);
    let runs = unit_grains.checked_div(grains).unwrap_or(1);
    let factor = 1u64.wrapping_shl(QUOTIENT_BITS).div_ceil(grains);
    (runs, factor.wrapping_shl(RUNS_BITS) as u32 | runs as u32)
}

/// In which run of a unit a grain lies. What is left over at its end belongs to its last run.
#[inline(always)]
pub(super) fn run_at(shares: u32, grain: u64) -> u32 {
    let factor = u64::from(shares.wrapping_shr(RUNS_BITS));
    let run = grain.wrapping_mul(factor).wrapping_shr(QUOTIENT_BITS) as u32;
    run.min((shares & 1u32.wrapping_shl(RUNS_BITS).wrapping_sub(1)).wrapping_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_of_units_has_the_smallest_class_that_is_large_enough() {
        for units in (0..100_000).chain((0..40).map(|power| 1 << power)).chain((5..40).map(|power| (1 << power) + 1)) {
            let class = class_of(units);
            assert!(units_of(class) >= units, "{units}");
            assert!(class == 0 || units_of(class - 1) < units, "{units}");
            assert!(units_of(class) <= units.max(1) + units / 8, "{units}");
        }
        assert!((0..300).is_sorted_by(|one, next| units_of(*one) < units_of(*next)));
    }

    #[test]
    fn each_grain_of_a_unit_lies_in_the_run_that_a_division_says() {
        const UNIT: u64 = 1 << 12;
        for grains in 4..=1 << 10 {
            let (runs, shares) = shares_of(grains, UNIT);
            assert_eq!(runs, UNIT / grains);
            for grain in 0..UNIT {
                assert_eq!(u64::from(run_at(shares, grain)), (grain / grains).min(runs - 1), "{grain} of {grains}");
            }
        }
        assert_eq!((run_at(ALL_ONE, 0), run_at(ALL_ONE, UNIT - 1)), (0, 0));
    }
}
