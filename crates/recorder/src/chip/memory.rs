//! Words of the region, and numbers that are parts of words.
//!
//! Where a place is a constant, which word and which of its bits is one too: what is left is a load or a store.

use super::ChipLedger;
use super::shape::{FieldPlace, Fixed, Shape};
use super::word::Word;
use core::borrow::BorrowMut;
use heapledger_format::bytes::ByteOrder;
use heapledger_format::layout::mask;

/// A word as it lies in the ledger, or from there.
#[inline(always)]
fn ordered<S: Shape>(word: S::Word) -> S::Word {
    if matches!(
        (S::ORDER, ByteOrder::NATIVE),
        (ByteOrder::Little, ByteOrder::Little) | (ByteOrder::Big, ByteOrder::Big)
    ) {
        word
    } else {
        word.swapped()
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

#[inline(always)]
fn bits<S: Shape>(width_bits: usize) -> S::Word {
    S::Word::cut(mask(width_bits as u8))
}

/// Puts a figure into its field of an element that is being filled in order: 0 where no field was yet. What does not fit is all ones.
#[inline(always)]
pub(super) fn set<S: Shape>(element: &mut [S::Word], place: FieldPlace, value: u64) {
    if place.width_bits == 0 {
        return;
    }
    if let Some(word) = element.get_mut(place.word) {
        let fitting = S::Word::cut(value.min(mask(place.width_bits)));
        *word = if place.shift == 0 {
            ordered::<S>(fitting)
        } else {
            ordered::<S>(ordered::<S>(*word).or(fitting.up(place.shift)))
        };
    }
}

/// Adds a figure to a field that is 0.
#[inline(always)]
pub(super) fn fill<S: Shape>(element: &mut [S::Word], place: FieldPlace, value: u64) {
    if let Some(word) = element.get_mut(place.word) {
        *word = ordered::<S>(ordered::<S>(*word).or(S::Word::cut(value).up(place.shift)));
    }
}

/// Makes a field 0, and leaves its neighbours alone.
#[inline(always)]
pub(super) fn clear<S: Shape>(element: &mut [S::Word], place: FieldPlace) {
    if let Some(word) = element.get_mut(place.word) {
        let others = bits::<S>(usize::from(place.width_bits)).up(place.shift).not();
        *word = ordered::<S>(ordered::<S>(*word).and(others));
    }
}

/// A figure of an element; 0 if it is not recorded.
#[inline(always)]
pub(super) fn figure<S: Shape>(element: &[S::Word], place: FieldPlace) -> u64 {
    match element.get(place.word) {
        Some(word) if place.width_bits != 0 => {
            ordered::<S>(*word).down(place.shift).and(bits::<S>(usize::from(place.width_bits))).widen()
        }
        _ => 0,
    }
}

impl<S: Shape, R: BorrowMut<[S::Word]>> ChipLedger<S, R> {
    /// So many words of the region; none, if it does not have them.
    #[inline(always)]
    pub(super) fn words(&self, at: usize, count: usize) -> &[S::Word] {
        self.region.borrow().get(at..at.wrapping_add(count)).unwrap_or(&[])
    }

    /// The same, to be changed.
    #[inline(always)]
    pub(super) fn words_mut(&mut self, at: usize, count: usize) -> &mut [S::Word] {
        self.region.borrow_mut().get_mut(at..at.wrapping_add(count)).unwrap_or(&mut [])
    }

    /// A word of the region.
    #[inline(always)]
    pub(super) fn word(&self, at: usize) -> S::Word {
        self.region.borrow().get(at).map_or(S::Word::default(), |word| ordered::<S>(*word))
    }

    #[inline(always)]
    pub(super) fn set_word(&mut self, at: usize, value: S::Word) {
        if let Some(word) = self.region.borrow_mut().get_mut(at) {
            *word = ordered::<S>(value);
        }
    }

    /// A number of `width` bytes at a place counted in bytes; it lies within one word.
    #[inline(always)]
    pub(super) fn get(&self, place: usize, width: usize) -> S::Word {
        self.word(place.wrapping_shr(S::WORD_BYTES.trailing_zeros()))
            .down(shift::<S>(place, width))
            .and(bits::<S>(width.wrapping_mul(8)))
    }

    #[inline(always)]
    pub(super) fn put(&mut self, place: usize, width: usize, value: u64) {
        let at = place.wrapping_shr(S::WORD_BYTES.trailing_zeros());
        if width == S::WORD_BYTES {
            return self.set_word(at, S::Word::cut(value));
        }
        let (shift, bits) = (shift::<S>(place, width), bits::<S>(width.wrapping_mul(8)));
        let others = self.word(at).and(bits.up(shift).not());
        self.set_word(at, others.or(S::Word::cut(value).and(bits).up(shift)));
    }
}
