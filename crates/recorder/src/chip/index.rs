//! Address to slot: a hash table of small cells, part of the ledger.
//!
//! A cell holds a slot plus 1; 0 is vacant. The address is in the record, so a cell takes 1, 2 or 4 bytes, by how many records there are. There
//! are more cells than records, so the table is never full and every search ends. Removing closes the
//! gap by moving later cells up: nothing marks where a block once was, and searches stay short however
//! long the program runs.

use super::ChipLedger;
use super::memory::{Cells, Memory, cell_ordered};
use super::shape::{Fixed, Shape};
use super::word::Word;
use crate::backend::Slot;

impl<S: Shape, R: Memory<S::Word>> ChipLedger<S, R> {
    /// Where the search for an address begins.
    #[inline(always)]
    fn home(address: S::Word) -> u32 {
        // Fibonacci hashing; blocks are 8 bytes apart, so the lowest bits tell nothing.
        let address = address.widen();
        let folded = if S::IS_WIDE { address ^ address >> 32 } else { address };
        let hash = (folded as u32).rotate_right(3).wrapping_mul(0x9E37_79B1);
        (u64::from(hash).wrapping_mul(u64::from(S::room().cells)) >> 32) as u32
    }

    #[inline(always)]
    fn after(cell: u32) -> u32 {
        if cell.wrapping_add(1) >= S::room().cells { 0 } else { cell.wrapping_add(1) }
    }

    #[inline(always)]
    fn cells() -> Cells {
        Cells { at: S::room().index_at as usize, bytes: S::PLAN.cell_bytes, count: S::room().cells }
    }

    #[inline(always)]
    fn cell(&self, cell: u32) -> Option<Slot> {
        let cells = Self::cells();
        cell_ordered::<S>(cells.bytes, self.region.cell(cells, cell)).checked_sub(1).and_then(Self::slot)
    }

    #[inline(always)]
    fn set_cell(&mut self, cell: u32, slot: Option<Slot>) {
        let cells = Self::cells();
        let number = slot.map_or(0, |slot| slot.0.wrapping_add(1));
        self.region.set_cell(cells, cell, cell_ordered::<S>(cells.bytes, number));
    }

    /// The cell of an address, or the vacant one where it belongs: in the lower half. In the upper one the slot that it leads to plus 1,
    /// or 0. (One number: it comes back in registers.)
    #[inline(never)]
    fn find(&self, address: S::Word) -> u64 {
        let mut cell = Self::home(address);
        // A table that somebody has written over may have no vacant cell.
        let mut left = S::room().cells;
        loop {
            match self.cell(cell) {
                Some(slot) if self.address_in(slot) != address && left != 0 => cell = Self::after(cell),
                found => {
                    let slot = found.map_or(0, |slot| slot.0.wrapping_add(1));
                    return u64::from(cell) | u64::from(slot) << 32;
                }
            }
            left = left.wrapping_sub(1);
        }
    }

    /// Lets an address lead to a slot. Returns the one that it led to before.
    #[inline(always)]
    pub(super) fn index_insert(&mut self, address: S::Word, slot: Slot) -> Option<Slot> {
        let found = self.find(address);
        self.set_cell(found as u32, Some(slot));
        ((found >> 32) as u32).checked_sub(1).map(Slot)
    }

    /// The slot that an address leads to, which it no longer does.
    #[inline(never)]
    pub(super) fn index_remove(&mut self, address: S::Word) -> Option<Slot> {
        let found = self.find(address);
        let slot = ((found >> 32) as u32).checked_sub(1).map(Slot)?;
        let mut gap = found as u32;
        let mut cell = Self::after(gap);
        let mut left = S::room().cells;
        while let (Some(slot), true) = (self.cell(cell), left != 0) {
            // A cell may move up only if its home does not lie behind the gap, seen from the cell.
            let home = Self::home(self.address_in(slot));
            let reaches = if gap <= cell { home <= gap || home > cell } else { home <= gap && home > cell };
            if reaches {
                self.set_cell(gap, Some(slot));
                gap = cell;
            }
            cell = Self::after(cell);
            left = left.wrapping_sub(1);
        }
        self.set_cell(gap, None);
        Some(slot)
    }
}
