//! Sums by call site over the whole run: what was freed of each, and how much of that had lived at the peak.

use crate::bytes::Codec;
use crate::element::{Word, published};
use crate::layout::mask;

published! {
    /// An element of `sums`: blocks of a call site that were freed. Element 0 is no call site's, see [`PEAK_AT_WORD`].
    Sum by site_plus_1 {
        /// Their call site plus 1, so that blocks without a stack have one, too; the commit word.
        site_plus_1: u32,
        /// 0.
        reserved: u32,
        /// Blocks.
        blocks: Word,
        /// Bytes asked for in these.
        bytes: Word,
        /// Of these, blocks that were freed by the very next event of the thread that had allocated them.
        temporary_blocks: Word,
        /// Blocks that had lived at the peak, with its [generation](Tagged).
        peak_blocks: Word,
        /// Bytes asked for in these, with its generation.
        peak_bytes: Word,
        /// Bytes asked for in the temporary blocks.
        temporary_bytes: Word,
        /// For how many events the blocks have lived in all: by how much the number of each free was higher than that of its allocation. 0 in a
        /// ledger without the section `lifetimes`.
        lived_events: Word,
    }
}

/// Events from which on a lifetime is of the next class; below the first it is of none that is counted.
pub const LIVED_EVENTS: [u64; 5] = [10, 100, 1_000, 10_000, 100_000];
/// The same in nanoseconds. A clock with steps of 4 ms tells of nothing shorter than the first.
pub const LIVED_NS: [u64; 3] = [10_000_000, 1_000_000_000, 100_000_000_000];

/// An element of `lifetimes`: for how long the blocks have lived that the element of `sums` with the same number tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Lifetimes {
    /// Blocks by class of [`LIVED_EVENTS`]; those of fewer events than the first are not in it.
    pub by_events: [u64; LIVED_EVENTS.len()],
    /// Blocks by class of [`LIVED_NS`]; those of less are not in it, and none where times are not recorded.
    pub by_time: [u64; LIVED_NS.len()],
}

/// Words of an element of `lifetimes`.
pub const LIFETIME_WORDS: usize = LIVED_EVENTS.len() + LIVED_NS.len();

impl Lifetimes {
    /// The class of a lifetime: how many of these are reached.
    pub const fn class(mut bounds: &[u64], lived: u64) -> usize {
        let mut class = 0usize;
        while let [bound, others @ ..] = bounds {
            class = class.saturating_add((lived >= *bound) as usize);
            bounds = others;
        }
        class
    }

    /// Reads an element.
    pub fn read(codec: Codec, element: &[u8]) -> Lifetimes {
        let step = codec.word.bytes();
        let word = |index: usize| codec.word(element, index.saturating_mul(step));
        Lifetimes {
            by_events: core::array::from_fn(word),
            by_time: core::array::from_fn(|index| word(index.saturating_add(LIVED_EVENTS.len()))),
        }
    }
}

/// An amount that holds for a generation of the peak only: 16 bits and 48.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tagged(pub u64);

impl Tagged {
    /// Bits of the amount.
    pub const AMOUNT_BITS: u8 = 48;

    /// Puts the parts together. What is too large stays at the largest.
    pub const fn new(generation: u16, amount: u64) -> Tagged {
        let most = mask(Tagged::AMOUNT_BITS);
        let amount = if amount < most { amount } else { most };
        Tagged(amount | (generation as u64) << Tagged::AMOUNT_BITS)
    }

    /// The generation; 0 before there was one.
    pub const fn generation(self) -> u16 {
        (self.0 >> Tagged::AMOUNT_BITS) as u16
    }

    /// The amount.
    pub const fn amount(self) -> u64 {
        self.0 & mask(Tagged::AMOUNT_BITS)
    }

    /// The amount, if it is of this generation.
    pub const fn of(self, generation: u16) -> u64 {
        if self.generation() == generation { self.amount() } else { 0 }
    }
}

/// The second word of element 0 of `sums`: for which value of the peak the sums of which generation hold, a [`Tagged`].
pub const PEAK_AT_WORD: usize = 1;

published! {
    /// An element of `peak_cuts`, of the thread with the same row in `threads`: its numbers below `number` lie before the peak of so many bytes. If
    /// the peak is another one by now, all of its numbers do.
    PeakCut by peak_bytes_plus_1 {
        /// The number.
        number: Word,
        /// The peak in bytes plus 1: the commit word.
        peak_bytes_plus_1: Word,
    }
}

impl PeakCut {
    /// Whether what has this number lies before a peak of so many bytes.
    pub fn is_before(cut: Option<&PeakCut>, peak_bytes: u64, number: u64) -> bool {
        match cut {
            Some(cut) if cut.peak_bytes_plus_1.0.wrapping_sub(1) == peak_bytes => number < cut.number.0,
            _ => true,
        }
    }
}
