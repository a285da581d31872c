//! The region of a board while it is lent to one.
//!
//! # Safety
//! A room with `unsafe`: it reads and writes words of the region, which [`Placed`] promises, and which whoever makes one of these has alone.

use super::{Address, On, Placed};
use core::marker::PhantomData;
use heapledger_recorder::chip::{Cells, ChipLedger, Memory, Table, first_word};

/// The ledger while it is lent.
pub(super) type Lent<B> = ChipLedger<On<B>, BoardRegion<B>>;

/// The board's region, which its owner has alone.
pub(super) struct BoardRegion<B>(PhantomData<fn() -> B>);

impl<B: Placed> BoardRegion<B> {
    /// For whoever has it.
    #[inline(always)]
    pub(super) const fn new() -> Self {
        BoardRegion(PhantomData)
    }

    /// Bytes of header and notes.
    const HEAD_BYTES: usize = first_word::<On<B>>().wrapping_mul(size_of::<Address>());

    /// How many words there are.
    #[inline(always)]
    fn count() -> usize {
        let words = B::words();
        // SAFETY: `Placed` promises header and notes.
        unsafe { core::hint::assert_unchecked(words >= const { first_word::<On<B>>() }) };
        words
    }

    /// Where an element of a table lies.
    #[inline(always)]
    fn place(table: Table, nth: u32) -> Option<*mut Address> {
        let at = table.at.wrapping_add((nth as usize).wrapping_mul(table.words));
        (nth < table.count).then(|| B::region().wrapping_add(at))
    }
}

impl<B: Placed> Memory<Address> for BoardRegion<B> {
    #[inline(always)]
    fn words(&self) -> &[Address] {
        // SAFETY: so many words are there, as `Placed` promises; whoever made this has them alone.
        unsafe { core::slice::from_raw_parts(B::region(), Self::count()) }
    }

    #[inline(always)]
    fn words_mut(&mut self) -> &mut [Address] {
        // SAFETY: as above.
        unsafe { core::slice::from_raw_parts_mut(B::region(), Self::count()) }
    }

    #[inline(always)]
    fn word(&self, at: usize) -> Address {
        // For the places of counters a library that is told how long the region is need not ask.
        let count = Self::count();
        if at >= const { first_word::<On<B>>() } && at >= count {
            return 0;
        }
        // SAFETY: `Placed` promises header and notes, and so many words; whoever made this has them alone.
        unsafe { B::region().wrapping_add(at).read() }
    }

    #[inline(always)]
    fn set_word(&mut self, at: usize, word: Address) {
        let count = Self::count();
        if at < const { first_word::<On<B>>() } || at < count {
            // SAFETY: as above.
            unsafe { B::region().wrapping_add(at).write(word) }
        }
    }

    // Tables are those of the shape, or those that `Placed::ROOM` tells of: both lie within the region, as `Placed` promises.
    #[inline(always)]
    fn element(&self, table: Table, nth: u32) -> &[Address] {
        let Some(first) = Self::place(table, nth) else { return &[] };
        // SAFETY: an element of a table of the region, which whoever made this has alone.
        unsafe { core::slice::from_raw_parts(first, table.words) }
    }

    #[inline(always)]
    fn element_mut(&mut self, table: Table, nth: u32) -> &mut [Address] {
        let Some(first) = Self::place(table, nth) else { return &mut [] };
        // SAFETY: as above.
        unsafe { core::slice::from_raw_parts_mut(first, table.words) }
    }

    #[inline(always)]
    fn elements(&mut self, from: (Table, u32), to: (Table, u32)) -> (&[Address], &mut [Address]) {
        let (Some(first), Some(second)) = (Self::place(from.0, from.1), Self::place(to.0, to.1)) else {
            return (&[], &mut []);
        };
        // SAFETY: as above. They are elements of two tables, which have no word in common.
        unsafe {
            (core::slice::from_raw_parts(first, from.0.words), core::slice::from_raw_parts_mut(second, to.0.words))
        }
    }

    #[inline(always)]
    fn cell(&self, cells: Cells, nth: u32) -> u32 {
        if nth >= cells.count {
            return 0;
        }
        let place = B::region().cast::<u8>().wrapping_add(cells.place::<Address>(nth));
        // SAFETY: a cell of the index, which whoever made this has alone: a byte, a half word or a word.
        unsafe {
            match cells.bytes {
                1 => u32::from(place.read()),
                2 => u32::from(place.cast::<u16>().read()),
                _ => place.cast::<u32>().read(),
            }
        }
    }

    #[inline(always)]
    fn set_cell(&mut self, cells: Cells, nth: u32, value: u32) {
        if nth >= cells.count {
            return;
        }
        let place = B::region().cast::<u8>().wrapping_add(cells.place::<Address>(nth));
        // SAFETY: as above.
        unsafe {
            match cells.bytes {
                1 => place.write(value as u8),
                2 => place.cast::<u16>().write(value as u16),
                _ => place.cast::<u32>().write(value),
            }
        }
    }

    #[inline(always)]
    fn byte(&self, place: usize) -> u8 {
        if place >= Self::HEAD_BYTES {
            return 0;
        }
        // SAFETY: as above; the same memory as bytes.
        unsafe { B::region().cast::<u8>().wrapping_add(place).read() }
    }

    #[inline(always)]
    fn set_byte(&mut self, place: usize, byte: u8) {
        if place < Self::HEAD_BYTES {
            // SAFETY: as above.
            unsafe { B::region().cast::<u8>().wrapping_add(place).write(byte) };
        }
    }

    #[inline(always)]
    fn set_half(&mut self, place: usize, half: u16) {
        if place & 1 == 0 && place < Self::HEAD_BYTES {
            // SAFETY: as above; the same memory as half words.
            unsafe { B::region().cast::<u8>().wrapping_add(place).cast::<u16>().write(half) };
        }
    }
}
