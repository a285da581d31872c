//! Address to slot: a hash table with chains of small cells, part of the ledger.
//!
//! A cell holds a slot plus 1; 0 is the end. First come the cells in which chains begin, one for four records; then each slot has one, with the slot behind it
//! in its chain. The address is in the record, so a cell takes 1, 2 or 4 bytes, by how many records there are. Taking an address out changes one cell: what it costs hardly
//! depends on how many blocks live, nor on where they lie. (Open addressing in as much memory took up to 1,500 instructions.)

use super::ChipLedger;
use super::memory::{Cells, Memory, cell_ordered};
use super::shape::{Fixed, Shape};
use super::word::Word;
use crate::backend::Slot;

impl<S: Shape, R: Memory<S::Word>> ChipLedger<S, R> {
    /// Cells in which chains begin.
    #[inline(always)]
    fn chains() -> u32 {
        S::room().cells.wrapping_sub(S::room().records)
    }

    /// The cell where the chain of an address begins.
    #[inline(always)]
    fn home(address: S::Word) -> u32 {
        // Fibonacci hashing; blocks are 8 bytes apart, so the lowest bits tell nothing.
        let address = address.widen();
        let folded = if S::IS_WIDE { address ^ address >> 32 } else { address };
        let hash = (folded as u32).rotate_right(3).wrapping_mul(0x9E37_79B1);
        (u64::from(hash).wrapping_mul(u64::from(Self::chains())) >> 32) as u32
    }

    #[inline(always)]
    fn cells() -> Cells {
        Cells { at: S::room().index_at as usize, bytes: S::PLAN.cell_bytes, count: S::room().cells }
    }

    /// The slot that a cell leads to, plus 1.
    #[inline(always)]
    fn cell(&self, cell: u32) -> u32 {
        let cells = Self::cells();
        cell_ordered::<S>(cells.bytes, self.region.cell(cells, cell))
    }

    #[inline(always)]
    fn set_cell(&mut self, cell: u32, number: u32) {
        let cells = Self::cells();
        self.region.set_cell(cells, cell, cell_ordered::<S>(cells.bytes, number));
    }

    /// The cell that leads to an address, and its slot plus 1; if there is none the last cell of its chain, and 0.
    #[inline(always)]
    fn find(&self, address: S::Word) -> (u32, u32) {
        let mut cell = Self::home(address);
        // A chain that somebody has written over may have no end.
        let mut left = S::room().records;
        loop {
            let number = self.cell(cell);
            let Some(slot) = Self::of_number(number).and_then(|slot| Self::slot(slot.0)) else { return (cell, 0) };
            if self.address_in(slot) == address {
                return (cell, number);
            }
            cell = Self::behind(slot);
            left = left.wrapping_sub(1);
            if left == 0 {
                return (cell, 0);
            }
        }
    }

    /// The cell behind a slot.
    #[inline(always)]
    fn behind(slot: Slot) -> u32 {
        Self::chains().wrapping_add(slot.0)
    }

    /// The slot that has a number, which is the slot plus 1; none has 0.
    #[inline(always)]
    fn of_number(number: u32) -> Option<Slot> {
        if number == 0 { None } else { Some(Slot(number.wrapping_sub(1))) }
    }

    /// Lets an address lead to the slot of this number, or with 0 to none. Returns the number that it led to before, or 0. (Both in one
    /// function: it is there once.)
    #[inline(never)]
    fn lead(&mut self, address: S::Word, number: u32) -> u32 {
        let (cell, old) = self.find(address);
        let mut next = Self::of_number(old).map_or(0, |old| self.cell(Self::behind(old)));
        if let Some(slot) = Self::of_number(number) {
            self.set_cell(Self::behind(slot), next);
            next = number;
        }
        self.set_cell(cell, next);
        old
    }

    /// Lets an address lead to a slot. Returns the one that it led to before.
    #[inline(always)]
    pub(super) fn index_insert(&mut self, address: S::Word, slot: Slot) -> Option<Slot> {
        Self::of_number(self.lead(address, slot.0.wrapping_add(1)))
    }

    /// The slot that an address leads to.
    #[inline(never)]
    pub(super) fn index_find(&self, address: S::Word) -> Option<Slot> {
        Self::of_number(self.find(address).1)
    }

    /// The slot that an address leads to, which it no longer does.
    #[inline(always)]
    pub(super) fn index_remove(&mut self, address: S::Word) -> Option<Slot> {
        Self::of_number(self.lead(address, 0))
    }
}
