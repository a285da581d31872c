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

/// A table of a ledger: where its shape, or who tells how much there is room for, says that there is one.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// Its first word.
    pub at: usize,
    /// Words of an element.
    pub words: usize,
    /// Elements.
    pub count: u32,
}

impl Table {
    /// The words of an element; none, if there is no such one.
    #[inline(always)]
    fn range(self, nth: u32) -> core::ops::Range<usize> {
        let first = self.at.wrapping_add((nth as usize).wrapping_mul(self.words));
        if nth < self.count { first..first.wrapping_add(self.words) } else { 0..0 }
    }
}

/// The cells of an index, which lie packed in words: from which word on, bytes of each, and how many.
#[derive(Clone, Copy, Debug)]
pub struct Cells {
    /// Their first word.
    pub at: usize,
    /// Bytes of each: 1, 2 or 4.
    pub bytes: usize,
    /// Cells.
    pub count: u32,
}

impl Cells {
    /// Where one lies, in bytes of the region.
    #[inline(always)]
    pub fn place<W: Word>(self, nth: u32) -> usize {
        self.at.wrapping_mul(W::SIZE.bytes()).wrapping_add((nth as usize).wrapping_mul(self.bytes))
    }
}

/// The memory of a region: words, and the same as bytes and half words. Anything that is a row of words is one; a firmware's can say how it
/// is quicker.
pub trait Memory<W: Word> {
    /// All of it.
    fn words(&self) -> &[W];
    /// All of it, to be changed.
    fn words_mut(&mut self) -> &mut [W];

    /// A word, as it lies in memory; 0 where there is none.
    #[inline(always)]
    fn word(&self, at: usize) -> W {
        self.words().get(at).copied().unwrap_or(W::ZERO)
    }

    /// Stores a word.
    #[inline(always)]
    fn set_word(&mut self, at: usize, word: W) {
        if let Some(there) = self.words_mut().get_mut(at) {
            *there = word;
        }
    }

    /// An element of a table of the ledger; nothing, if it does not have so many.
    #[inline(always)]
    fn element(&self, table: Table, nth: u32) -> &[W] {
        self.words().get(table.range(nth)).unwrap_or(&[])
    }

    /// The same, to be changed.
    #[inline(always)]
    fn element_mut(&mut self, table: Table, nth: u32) -> &mut [W] {
        self.words_mut().get_mut(table.range(nth)).unwrap_or(&mut [])
    }

    /// An element of a table, and one of another table further behind, which is to be changed.
    #[inline(always)]
    fn elements(&mut self, from: (Table, u32), to: (Table, u32)) -> (&[W], &mut [W]) {
        let (from, to) = (from.0.range(from.1), to.0.range(to.1));
        match self.words_mut().split_at_mut_checked(to.start) {
            Some((before, behind)) => {
                (before.get(from).unwrap_or(&[]), behind.get_mut(..to.end.wrapping_sub(to.start)).unwrap_or(&mut []))
            }
            None => (&[], &mut []),
        }
    }

    /// What is in a cell, as it lies in memory; 0 where there is none.
    #[inline(always)]
    fn cell(&self, cells: Cells, nth: u32) -> u32 {
        let place = cells.place::<W>(nth);
        let word = self.words().get(place.wrapping_shr(W::SIZE.bytes().trailing_zeros())).copied().unwrap_or(W::ZERO);
        let bits = mask((cells.bytes as u8).wrapping_mul(8));
        (word.down(native_shift::<W>(place, cells.bytes)).widen() & bits) as u32
    }

    /// Stores into a cell.
    #[inline(always)]
    fn set_cell(&mut self, cells: Cells, nth: u32, value: u32) {
        set_part(self.words_mut(), cells.place::<W>(nth), cells.bytes, u64::from(value));
    }

    /// The byte at a place of the header; 0 where there is none.
    #[inline(always)]
    fn byte(&self, place: usize) -> u8 {
        let word = self.words().get(place.wrapping_shr(W::SIZE.bytes().trailing_zeros())).copied().unwrap_or(W::ZERO);
        word.down(native_shift::<W>(place, 1)).widen() as u8
    }

    /// Stores a byte there.
    #[inline(always)]
    fn set_byte(&mut self, place: usize, byte: u8) {
        set_part(self.words_mut(), place, 1, u64::from(byte));
    }

    /// Stores a half word there, at an even place.
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

/// The value of a cell as it lies in the ledger, or from there.
#[inline(always)]
pub(super) fn cell_ordered<S: Shape>(bytes: usize, value: u32) -> u32 {
    let is_native = matches!(
        (S::ORDER, ByteOrder::NATIVE),
        (ByteOrder::Little, ByteOrder::Little) | (ByteOrder::Big, ByteOrder::Big)
    );
    match bytes {
        _ if is_native => value,
        1 => value,
        2 => u32::from((value as u16).swap_bytes()),
        _ => value.swap_bytes(),
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
pub(super) fn shift<S: Shape>(place: usize, width: usize) -> u32 {
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

    /// A word of the region.
    #[inline(always)]
    pub(super) fn word(&self, at: usize) -> S::Word {
        ordered::<S>(self.region.word(at))
    }

    #[inline(always)]
    pub(super) fn set_word(&mut self, at: usize, value: S::Word) {
        self.region.set_word(at, ordered::<S>(value));
    }

    /// Adds to a word, which goes round at its end.
    #[inline(always)]
    pub(super) fn add(&mut self, at: usize, amount: S::Word) {
        self.set_word(at, self.word(at).plus(amount));
    }

    /// A number of `width` bytes of an element, at a place counted in bytes; it lies within one word.
    #[inline(always)]
    pub(super) fn get_part(&self, (table, nth): (Table, u32), place: usize, width: usize) -> S::Word {
        let element = self.region.element(table, nth);
        let word = element.get(place.wrapping_shr(S::WORD_BYTES.trailing_zeros())).copied().unwrap_or(S::Word::ZERO);
        ordered::<S>(word).down(shift::<S>(place, width)).and(ones::<S>((width as u8).wrapping_mul(8)))
    }

    /// Stores one there.
    #[inline(always)]
    pub(super) fn put_part(&mut self, (table, nth): (Table, u32), place: usize, width: usize, value: S::Word) {
        let element = self.region.element_mut(table, nth);
        if let Some(word) = element.get_mut(place.wrapping_shr(S::WORD_BYTES.trailing_zeros())) {
            let (shift, bits) = (shift::<S>(place, width), ones::<S>((width as u8).wrapping_mul(8)));
            let others = ordered::<S>(*word).and(bits.up(shift).not());
            *word = ordered::<S>(others.or(value.and(bits).up(shift)));
        }
    }

    /// Stores one at a place of the region.
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
