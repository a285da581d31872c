//! Sampling by bytes: which blocks are entered, and for how many each of them stands.
//!
//! Bytes are hit at random, one in `interval` on the average, independently of each other (a Poisson
//! process). A block is entered if one of its bytes is hit, so with the probability
//! `p(size) = 1 − e^(−size / interval)`; a block of size 0 counts as one byte here. To be right on
//! the average, a block that was entered must stand for `1 / p` blocks of its size.
//!
//! `1 / p` is no whole number, and counters are. So it is rounded up or down at random, such that the
//! mean is exact. The choice hangs on nothing but the record's number and a word of the ledger's own, the
//! seed: whoever looks at a record, when it is entered, when it is freed, or years later, finds the same
//! weight, and sums over records agree with the recorder's counters to the last block. What is computed
//! here must therefore never change; the tests hold pinned values.
//!
//! Without the seed the first record of every run would be rounded alike, and so the second: in a program
//! of few large blocks all runs would be wrong by the same, whatever their mean.
//!
//! The spread of such sums is known too: for a block of weight `w`, `w · (w − 1)` is an unbiased
//! estimate of its share in the variance of the number of blocks, and `size² · w · (w − 1)` in that of
//! the bytes, the rounding included.
//!
//! Exponential and logarithm are made of the four basic operations of IEEE 754 here. So the result is
//! the same on every host, and nothing from outside is needed inside of a program that is watched.

/// The greatest interval that can be asked for: 1 TiB.
pub const INTERVAL_MAX: u64 = 1 << 40;

/// Steps of [`scramble`]'s argument that follow each other without a pattern.
pub const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// 64 bits without a pattern for each number, a permutation (the end of SplitMix64). With a `state` that
/// grows by [`STEP`] it gives random numbers for [`next_gap`].
#[inline]
pub const fn scramble(number: u64) -> u64 {
    let mixed = (number ^ number >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ mixed >> 31
}

/// What the weights of a ledger's records hang on, beside their sizes and numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SampleRule {
    /// Mean bytes between two samples; 0: every block is entered.
    pub interval: u64,
    /// A random word, another one in each ledger. 0 in ledgers of older writers.
    pub seed: u64,
}

impl SampleRule {
    /// For how many blocks of its size a block of `size` bytes with the sequence number `number` stands. 1 if
    /// every block is entered.
    pub fn weight(self, size: u64, number: u64) -> u64 {
        if self.interval == 0 {
            return 1;
        }
        // The constant keeps it apart from the draws of gaps, which may scramble small numbers too.
        let fraction = unit(scramble(number.wrapping_mul(STEP) ^ 0x6865_6170_6C65_6467 ^ self.seed));
        (blocks_per_sample(size.max(1) as f64 / self.interval as f64) + fraction) as u64
    }
}

/// In how many bytes the next hit comes, drawn from 64 random bits: 1 is the very next byte. It is
/// distributed exponentially with the mean `interval`, rounded up to whole bytes.
///
/// A block of `size` bytes (at least 1) is entered if the gap that is left is not above `size`; then the
/// next gap is drawn and counts from the end of the block. Else the gap gets shorter by `size`. Because the
/// distribution has no memory, this gives every block exactly the `p(size)` that [weights](SampleRule::weight) assume, and
/// each thread may have a gap of its own.
pub fn next_gap(random: u64, interval: u64) -> u64 {
    // In the middle between two of 2^53 steps: neither 0, whose logarithm is none, nor 1.
    let drawn = unit(random) + 0.5 / UNIT_STEPS;
    let bytes = -ln(drawn) * interval as f64;
    let whole = bytes as u64;
    (whole.saturating_add(u64::from((whole as f64) < bytes))).max(1)
}

const UNIT_STEPS: f64 = (1u64 << 53) as f64;

/// A number of the interval [0, 1) from 64 random bits.
fn unit(random: u64) -> f64 {
    (random >> 11) as f64 / UNIT_STEPS
}

/// 1 / (1 − e^−x) for x > 0.
fn blocks_per_sample(x: f64) -> f64 {
    /// From here on the difference from 1 is below the last bit of any sum with it.
    const CERTAIN: f64 = 45.0;
    if x < 1.0 {
        // 1 − e^−x would lose what small blocks are about. This is x / (1 − e^−x) as a series, whose
        // coefficients are Bernoulli numbers over factorials; the first one left out changes 1e-14.
        const SERIES: [f64; 8] = [
            1.0 / 12.0,
            -1.0 / 720.0,
            1.0 / 30_240.0,
            -1.0 / 1_209_600.0,
            1.0 / 47_900_160.0,
            -691.0 / 1_307_674_368_000.0,
            1.0 / 74_724_249_600.0,
            -3617.0 / 10_670_622_842_880_000.0,
        ];
        let square = x * x;
        let sum = SERIES.iter().rev().fold(0.0, |sum, coefficient| sum * square + coefficient);
        (1.0 + x / 2.0 + square * sum) / x
    } else if x < CERTAIN {
        1.0 / (1.0 - exp_minus(x))
    } else {
        1.0
    }
}

/// ln 2, in two parts: the first has so few bits that small multiples of it are exact.
const LN_2: [f64; 2] = [f64::from_bits(0x3FE6_2E42_FEE0_0000), f64::from_bits(0x3DEA_39EF_3579_3C76)];

/// e^−x for x from 0 to 700.
fn exp_minus(x: f64) -> f64 {
    let halvings = (x * core::f64::consts::LOG2_E + 0.5) as u32;
    // At most half of ln 2 is left, of either sign.
    let rest = x - f64::from(halvings) * LN_2[0] - f64::from(halvings) * LN_2[1];
    const TERMS: u32 = 14;
    let sum = (1..=TERMS).rev().fold(1.0, |sum, term| 1.0 - rest * (1.0 / f64::from(term)) * sum);
    sum * f64::from_bits(u64::from(1023u32.saturating_sub(halvings)) << 52)
}

/// The natural logarithm of a number above 0 with a full mantissa.
fn ln(number: f64) -> f64 {
    let bits = number.to_bits();
    // The mantissa as a number from √½ to √2, and the power of two that goes with it.
    let shifted = bits.wrapping_sub(core::f64::consts::FRAC_1_SQRT_2.to_bits());
    let power = (shifted as i64 >> 52) as f64;
    let mantissa = f64::from_bits((shifted & ((1 << 52) - 1)).wrapping_add(core::f64::consts::FRAC_1_SQRT_2.to_bits()));
    // ln m = 2 artanh ((m − 1) / (m + 1)), and that quotient is at most 0.172.
    let quotient = (mantissa - 1.0) / (mantissa + 1.0);
    let square = quotient * quotient;
    const LAST: u32 = 21;
    let sum = (0..=LAST / 2).rev().fold(0.0, |sum, term| sum * square + 1.0 / (2.0 * f64::from(term) + 1.0));
    2.0 * quotient * sum + power * LN_2[1] + power * LN_2[0]
}

#[cfg(test)]
mod tests;
