//! Sizes of runs: exact up to 16 units, then eight to a doubling, so that at most an eighth is more than asked for.

#![forbid(unsafe_code)]

/// Up to this each number of units is a class of its own.
const EXACT: u64 = 16;
/// Classes of a doubling, as a power of two.
const STEPS_LOG2: u32 = 3;

/// The smallest class whose runs have so many units.
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
pub(super) fn units_of(class: usize) -> u64 {
    let class = class as u64;
    let Some(above) = class.checked_sub(EXACT) else { return class.wrapping_add(1) };
    let step = above.wrapping_shr(STEPS_LOG2).wrapping_add(1).min(58);
    (above & 7).wrapping_add(9).wrapping_shl(step as u32)
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
}
