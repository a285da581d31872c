//! Gaps between samples and their weights, against the distribution that they promise.

use super::*;
use std::println;

const INTERVALS: [u64; 6] = [1, 100, 4096, 512 << 10, 1 << 30, INTERVAL_MAX];

/// 1 / p, by the standard library.
fn reference(size: u64, interval: u64) -> f64 {
    -1.0 / (-(size.max(1) as f64) / interval as f64).exp_m1()
}

/// Sizes from nothing to a hundred intervals.
fn sizes(interval: u64) -> impl Iterator<Item = u64> {
    let parts = [1000, 30, 10, 3].map(|part| interval / part);
    let times = [1, 2, 5, 10, 44, 46, 100].map(|times| interval * times);
    [0, 1, 2, 7, 16, 100, 1000, 100_000].into_iter().chain(parts).chain(times)
}

#[test]
fn the_mean_of_the_weights_is_one_by_p() {
    const NUMBERS: u64 = 20_000;
    for interval in INTERVALS {
        for (index, size) in sizes(interval).enumerate() {
            // Numbers as ledgers have them, one after the other; each size its own.
            let first = index as u64 * 1_000_003;
            let wanted = reference(size, interval);
            let rule = SampleRule { interval, seed: 0 };
            let mut sum = 0u128;
            for number in first..first + NUMBERS {
                let weight = rule.weight(size, number);
                assert!(
                    weight as f64 >= (wanted - 1e-9 * wanted).floor(),
                    "{size} of {interval}: {weight} of {wanted}"
                );
                assert!(weight as f64 <= (wanted + 1e-9 * wanted).ceil(), "{size} of {interval}: {weight} of {wanted}");
                assert!(weight >= 1);
                sum += u128::from(weight);
            }
            // Rounding has a standard deviation of at most a half.
            let bound = 5.0 * 0.5 / (NUMBERS as f64).sqrt() + 1e-12 * wanted;
            let mean = sum as f64 / NUMBERS as f64;
            assert!((mean - wanted).abs() < bound, "size {size}, interval {interval}: {mean} and not {wanted}");
        }
    }
}

#[test]
fn without_sampling_every_block_stands_for_itself() {
    for size in [0, 1, 4096, u64::MAX] {
        assert_eq!(SampleRule { interval: 0, seed: size }.weight(size, size), 1);
        assert_eq!(next_gap(size, 0), 1);
    }
    assert_eq!(SampleRule { interval: INTERVAL_MAX, seed: 0 }.weight(u64::MAX, 3), 1);
    let rule = SampleRule { interval: 4096, seed: 0 };
    assert_eq!(rule.weight(0, 9), rule.weight(1, 9));
}

#[test]
fn gaps_are_exponential() {
    const DRAWS: u64 = 400_000;
    for (seed, interval) in INTERVALS.into_iter().enumerate() {
        let mut state = seed as u64;
        let mut sum = 0u128;
        let mut longer = [0u64; 4];
        let limits = [interval.div_ceil(10), interval.div_ceil(2), interval, interval * 3];
        for _ in 0..DRAWS {
            state = state.wrapping_add(STEP);
            let gap = next_gap(scramble(state), interval);
            assert!(gap >= 1);
            sum += u128::from(gap);
            for (longer, limit) in longer.iter_mut().zip(limits) {
                *longer += u64::from(gap > limit);
            }
        }
        let draws = DRAWS as f64;
        // Rounding up makes it a geometric distribution: its mean is 1 / p of one byte.
        let mean = reference(1, interval);
        let error = (sum as f64 / draws - mean) / (mean / draws.sqrt());
        assert!(error.abs() < 5.0, "interval {interval}: the mean is {} and not {mean}", sum as f64 / draws);
        for (longer, limit) in longer.into_iter().zip(limits) {
            let wanted = (-(limit as f64) / interval as f64).exp();
            let found = longer as f64 / draws;
            let error = (found - wanted) / (wanted * (1.0 - wanted) / draws).sqrt();
            assert!(error.abs() < 5.0, "interval {interval}: {found} of the gaps are above {limit}, not {wanted}");
        }
    }
    assert_eq!(next_gap(u64::MAX, 512 << 10), 1);
    assert!(next_gap(0, u64::MAX) == u64::MAX);
    // 1 in e is above the interval: the figure that one remembers.
    let above = (0..DRAWS).filter(|draw| next_gap(scramble(draw.wrapping_mul(STEP)), 4096) > 4096).count();
    assert!((above as f64 / DRAWS as f64 - (-1f64).exp()).abs() < 0.004);
}

/// Programs of blocks of mixed sizes, sampled as a recorder does it: the estimates are right on the average,
/// and as far off as they say they are.
#[test]
fn sums_are_unbiased_and_know_their_error() {
    const PROGRAMS: u64 = 3000;
    const INTERVAL: u64 = 4096;
    let block = |index: u64| match index % 10 {
        0 => 0,
        1..=5 => 16 + index % 64,
        6 | 7 => 600,
        8 => 5_000,
        _ => 30_000,
    };
    const BLOCKS: u64 = 500;
    let truth: u64 = (0..BLOCKS).map(block).sum();
    let (mut z_bytes, mut z_blocks, mut square) = (0.0, 0.0, 0.0);
    let (mut variance_bytes, mut spread_bytes) = (0.0, 0.0);
    for program in 0..PROGRAMS {
        let mut state = scramble(program + 1);
        let mut gap = || {
            state = state.wrapping_add(STEP);
            next_gap(scramble(state), INTERVAL)
        };
        let (mut left, mut number) = (gap(), 0);
        let (mut bytes, mut blocks, mut variance) = (0, 0, 0.0);
        for index in 0..BLOCKS {
            let size = block(index);
            if left > size.max(1) {
                left -= size.max(1);
                continue;
            }
            left = gap();
            let weight = SampleRule { interval: INTERVAL, seed: scramble(program ^ STEP) }.weight(size, number);
            number += 1;
            bytes += weight * size;
            blocks += weight;
            variance += (size * size) as f64 * (weight * (weight - 1)) as f64;
        }
        let off = bytes as f64 - truth as f64;
        spread_bytes += off * off;
        variance_bytes += variance;
        z_bytes += off;
        z_blocks += blocks as f64 - BLOCKS as f64;
        square += (blocks as f64 - BLOCKS as f64).powi(2);
    }
    let programs = PROGRAMS as f64;
    let within = |sum: f64, squares: f64| sum.abs() / squares.sqrt();
    assert!(within(z_bytes, spread_bytes) < 4.0, "bytes are off by {} on the average", z_bytes / programs);
    assert!(within(z_blocks, square) < 4.0, "blocks are off by {} on the average", z_blocks / programs);
    let ratio = variance_bytes / spread_bytes;
    assert!((ratio - 1.0).abs() < 0.12, "the estimated variance is {ratio} of what it was");
}

/// A program that makes one block, run again and again: its number is the same in each run, and the toss is another one.
#[test]
fn one_block_is_rounded_fairly_over_many_runs() {
    const RUNS: u64 = 20_000;
    for size in [1, 30_000, 100_000, 400_000] {
        for number in [0, 1, 2, 77] {
            let of_run = |run: u64| {
                SampleRule { interval: 64 << 10, seed: scramble(run.wrapping_mul(STEP)) | 1 }.weight(size, number)
            };
            let mean = (1..=RUNS).map(of_run).sum::<u64>() as f64 / RUNS as f64;
            let wanted = reference(size, 64 << 10);
            let bound = 5.0 * 0.5 / (RUNS as f64).sqrt() + 1e-12 * wanted;
            assert!((mean - wanted).abs() < bound, "size {size}, number {number}: {mean} and not {wanted}");
        }
    }
}

/// Recorders and readers of all versions must agree: these figures never change.
#[test]
fn weights_are_what_they_always_were() {
    for (size, number, interval, wanted) in PINNED {
        let weight = SampleRule { interval: *interval, seed: 0 }.weight(*size, *number);
        assert_eq!(weight, *wanted, "size {size}, number {number}, interval {interval}");
    }
    let seeds = [1, 3, STEP, u64::MAX];
    let wanted =
        [[17, 17, 16, 16, 17, 16], [16, 17, 17, 16, 17, 16], [17, 17, 17, 16, 16, 16], [17, 16, 17, 17, 17, 17]];
    for (seed, wanted) in seeds.into_iter().zip(wanted) {
        let weights = [0, 1, 2, 3, 4, 5].map(|number| SampleRule { interval: 64 << 10, seed }.weight(4096, number));
        assert_eq!(weights, wanted, "seed {seed:#x}");
    }
    assert_eq!(scramble(1), 0x5692_161D_100B_05E5);
    assert_eq!([0, 1 << 63, u64::MAX].map(|random| next_gap(random, 512 << 10)), [19_624_073, 363_409, 1]);
}

const PINNED: &[(u64, u64, u64, u64)] = &[
    (0, 13, 1, 2),
    (1, 104, 1, 2),
    (24, 741, 1, 1),
    (4096, 5200, 1, 1),
    (100_000, 36_413, 1, 1),
    (524_288, 254_904, 1, 1),
    (700_000, 1_784_341, 1, 1),
    (10_000_000, 12_490_400, 1, 1),
    (4_294_967_296, 87_432_813, 1, 1),
    (0, 612_029_704, 4096, 4097),
    (1, 4_284_207_941, 4096, 4097),
    (24, 29_989_455_600, 4096, 171),
    (4096, 209_926_189_213, 4096, 1),
    (100_000, 1_469_483_324_504, 4096, 1),
    (524_288, 10_286_383_271_541, 4096, 1),
    (700_000, 72_004_682_900_800, 4096, 1),
    (10_000_000, 222_557_803_594_957, 4096, 1),
    (4_294_967_296, 150_529_741_611_432, 4096, 1),
    (0, 209_283_261_148_069, 524_288, 524_289),
    (1, 57_607_944_483_216, 524_288, 524_288),
    (24, 121_780_634_671_869, 524_288, 21_846),
    (4096, 8_039_512_571_128, 524_288, 128),
    (100_000, 56_276_587_997_909, 524_288, 6),
    (524_288, 112_461_139_274_720, 524_288, 1),
    (700_000, 224_278_021_501_741, 524_288, 1),
    (10_000_000, 162_571_266_958_920, 524_288, 1),
    (4_294_967_296, 12_098_961_869_829, 524_288, 1),
    (0, 84_692_733_088_816, 1_099_511_627_776, 1_099_511_627_777),
    (1, 29_899_178_200_413, 1_099_511_627_776, 1_099_511_627_776),
    (24, 209_294_247_402_904, 1_099_511_627_776, 45_812_984_492),
    (4096, 57_684_848_267_061, 1_099_511_627_776, 268_435_456),
    (100_000, 122_318_961_158_784, 1_099_511_627_776, 10_995_117),
    (524_288, 11_807_797_979_533, 1_099_511_627_776, 2_097_153),
    (700_000, 82_654_585_856_744, 1_099_511_627_776, 1_570_731),
    (10_000_000, 15_632_147_575_909, 1_099_511_627_776, 109_952),
    (4_294_967_296, 109_425_033_031_376, 1_099_511_627_776, 256),
];

#[test]
fn exponential_and_logarithm_are_exact() {
    let mut state = 7u64;
    let mut worst = [0f64; 3];
    for _ in 0..200_000 {
        state = state.wrapping_add(STEP);
        let random = scramble(state);
        let x = unit(random) * 45.0;
        worst[0] = worst[0].max((exp_minus(x) / (-x).exp() - 1.0).abs());
        let small = unit(random) + 0.5 / UNIT_STEPS;
        worst[1] = worst[1].max((ln(small) - small.ln()).abs() / small.ln().abs());
        let ratio = unit(random) * [1e-9, 0.1, 1.0, 3.0, 50.0][state as usize % 5] + 1e-12;
        worst[2] = worst[2].max((blocks_per_sample(ratio) * -(-ratio).exp_m1() - 1.0).abs());
    }
    println!("relative errors: e^-x {:.1e}, ln {:.1e}, 1/p {:.1e}", worst[0], worst[1], worst[2]);
    assert!(worst[0] < 2e-15 && worst[1] < 2e-15 && worst[2] < 3e-14, "{worst:?}");
    assert_eq!((exp_minus(0.0), ln(1.0)), (1.0, 0.0));
}
