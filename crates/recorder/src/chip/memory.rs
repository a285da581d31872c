//! Words of the region, and numbers that are parts of words.
//!
//! Where a place is a constant, which word and which of its bits is one too: what is left is a load or a store.

use super::ChipLedger;
use super::plan::FieldPlace;
use super::shape::{Fixed, Shape};
use super::word::Word;
use core::borrow::BorrowMut;
use heapledger_format::bytes::ByteOrder;
use heapledger_format::layout::mask;

/// The memory of a region: words, and the same as bytes and half words. Anything that is a row of words is one; a firmware's can say how it
/// is quicker.
pub trait Memory<W: Word> {
    /// All of it.
    fn words(&self) -> &[W];
    /// All of it, to be changed.
    fn words_mut(&mut self) -> &mut [W];

    /// The byte at a place; 0 where there is none.
    #[inline(always)]
    fn byte(&self, place: usize) -> u8 {
        let word = self.words().get(place.wrapping_shr(W::SIZE.bytes().trailing_zeros())).copied().unwrap_or(W::ZERO);
        word.down(native_shift::<W>(place, 1)).widen() as u8
    }

    /// Stores a byte.
    #[inline(always)]
    fn set_byte(&mut self, place: usize, byte: u8) {
        set_part(self.words_mut(), place, 1, u64::from(byte));
    }

    /// The half word at an even place; 0 where there is none.
    #[inline(always)]
    fn half(&self, place: usize) -> u16 {
        let word = self.words().get(place.wrapping_shr(W::SIZE.bytes().trailing_zeros())).copied().unwrap_or(W::ZERO);
        word.down(native_shift::<W>(place, 2)).widen() as u16
    }

    /// Stores a half word.
    #[inline(always)]
    fn set_half(&mut self, place: usize, half: u16) {
        set_part(self.words_mut(), place, 2, u64::from(half));
    }
}

impl<W: Word, R: BorrowMut<[W]>> Memory<W> for R {
    #[inline(always)]
    fn words(&self) -> &[W] {
        self.borrow()
    }
    #[inline(always)]
    fn words_mut(&mut self) -> &mut [W] {
        self.borrow_mut()
    }
}

/// How far up in its word a part lies, as this machine has words in memory.
#[inline(always)]
fn native_shift<W: Word>(place: usize, width: usize) -> u32 {
    let within = place & W::SIZE.bytes().wrapping_sub(1);
    let bytes = match ByteOrder::NATIVE {
        ByteOrder::Little => within,
        ByteOrder::Big => W::SIZE.bytes().wrapping_sub(width).wrapping_sub(within),
    };
    (bytes as u32).wrapping_mul(8)
}

#[inline(always)]
fn set_part<W: Word>(words: &mut [W], place: usize, width: usize, value: u64) {
    if let Some(word) = words.get_mut(place.wrapping_shr(W::SIZE.bytes().trailing_zeros())) {
        let shift = native_shift::<W>(place, width);
        let ones = W::cut(mask((width as u8).wrapping_mul(8))).up(shift);
        *word = word.and(ones.not()).or(W::cut(value).up(shift));
    }
}

/// A word as it lies in the ledger, or from there.
#[inline(always)]
pub(super) fn ordered<S: Shape>(word: S::Word) -> S::Word {
    if matches!(
        (S::ORDER, ByteOrder::NATIVE),
        (ByteOrder::Little, ByteOrder::Little) | (ByteOrder::Big, ByteOrder::Big)
    ) {
        word
    } else {
        word.swapped()
    }
}

/// A half word as it lies in the ledger, or from there.
#[inline(always)]
pub(super) fn half_ordered<S: Shape>(half: u16) -> u16 {
    if matches!(
        (S::ORDER, ByteOrder::NATIVE),
        (ByteOrder::Little, ByteOrder::Little) | (ByteOrder::Big, ByteOrder::Big)
    ) {
        half
    } else {
        half.swap_bytes()
    }
}

/// How far up in its word a number of `width` bytes lies.
#[inline(always)]
fn shift<S: Shape>(place: usize, width: usize) -> u32 {
    let within = place & S::WORD_BYTES.wrapping_sub(1);
    let bytes = match S::ORDER {
        ByteOrder::Little => within,
        ByteOrder::Big => S::WORD_BYTES.wrapping_sub(width).wrapping_sub(within),
    };
    (bytes as u32).wrapping_mul(8)
}

/// A word with so many bits set.
#[inline(always)]
pub(super) fn ones<S: Shape>(width_bits: u8) -> S::Word {
    S::Word::cut(mask(width_bits))
}

/// Puts a figure into its field of an element that is being filled in order: 0 where no field was yet. What does not fit is all ones.
#[inline(always)]
pub(super) fn set<S: Shape>(element: &mut [S::Word], place: FieldPlace, value: S::Word) {
    if place.width_bits == 0 {
        return;
    }
    if let Some(word) = element.get_mut(place.word) {
        let most = ones::<S>(place.width_bits);
        let fitting = if value > most { most } else { value };
        *word = if place.shift == 0 {
            ordered::<S>(fitting)
        } else {
            ordered::<S>(ordered::<S>(*word).or(fitting.up(place.shift)))
        };
    }
}

/// Adds a figure to a field that is 0.
#[inline(always)]
pub(super) fn fill<S: Shape>(element: &mut [S::Word], place: FieldPlace, value: S::Word) {
    if let Some(word) = element.get_mut(place.word) {
        *word = ordered::<S>(ordered::<S>(*word).or(value.up(place.shift)));
    }
}

/// Makes a field 0, and leaves its neighbours alone.
#[inline(always)]
pub(super) fn clear<S: Shape>(element: &mut [S::Word], place: FieldPlace) {
    if let Some(word) = element.get_mut(place.word) {
        let others = ones::<S>(place.width_bits).up(place.shift).not();
        *word = ordered::<S>(ordered::<S>(*word).and(others));
    }
}

/// A figure of an element; 0 if it is not recorded.
#[inline(always)]
pub(super) fn figure<S: Shape>(element: &[S::Word], place: FieldPlace) -> S::Word {
    match element.get(place.word) {
        Some(word) if place.width_bits != 0 => ordered::<S>(*word).down(place.shift).and(ones::<S>(place.width_bits)),
        _ => S::Word::ZERO,
    }
}

impl<S: Shape, R: Memory<S::Word>> ChipLedger<S, R> {
    /// So many words of the region; none, if it does not have them.
    #[inline(always)]
    pub(super) fn words(&self, at: usize, count: usize) -> &[S::Word] {
        self.region.words().get(at..at.wrapping_add(count)).unwrap_or(&[])
    }

    /// The same, to be changed.
    #[inline(always)]
    pub(super) fn words_mut(&mut self, at: usize, count: usize) -> &mut [S::Word] {
        self.region.words_mut().get_mut(at..at.wrapping_add(count)).unwrap_or(&mut [])
    }

    /// A word of the region.
    #[inline(always)]
    pub(super) fn word(&self, at: usize) -> S::Word {
        self.region.words().get(at).map_or(S::Word::ZERO, |word| ordered::<S>(*word))
    }

    #[inline(always)]
    pub(super) fn set_word(&mut self, at: usize, value: S::Word) {
        if let Some(word) = self.region.words_mut().get_mut(at) {
            *word = ordered::<S>(value);
        }
    }

    /// Adds to a word, which goes round at its end.
    #[inline(always)]
    pub(super) fn add(&mut self, at: usize, amount: S::Word) {
        if let Some(word) = self.region.words_mut().get_mut(at) {
            *word = ordered::<S>(ordered::<S>(*word).plus(amount));
        }
    }

    /// A number of `width` bytes at a place counted in bytes; it lies within one word.
    #[inline(always)]
    pub(super) fn get(&self, place: usize, width: usize) -> S::Word {
        self.word(place.wrapping_shr(S::WORD_BYTES.trailing_zeros()))
            .down(shift::<S>(place, width))
            .and(ones::<S>((width as u8).wrapping_mul(8)))
    }

    #[inline(always)]
    pub(super) fn put(&mut self, place: usize, width: usize, value: u64) {
        let at = place.wrapping_shr(S::WORD_BYTES.trailing_zeros());
        if width == S::WORD_BYTES {
            return self.set_word(at, S::Word::cut(value));
        }
        let (shift, bits) = (shift::<S>(place, width), ones::<S>((width as u8).wrapping_mul(8)));
        let others = self.word(at).and(bits.up(shift).not());
        self.set_word(at, others.or(S::Word::cut(value).and(bits).up(shift)));
    }
}
