//! Address to slot: a hash table of small cells, part of the ledger.
//!
//! A cell holds a slot plus 1; 0 is vacant. The address is in the record, so a cell takes 2 bytes (4, if the shape allows more records than that tells apart). There
//! are more cells than records, so the table is never full and every search ends. Removing closes the
//! gap by moving later cells up: nothing marks where a block once was, and searches stay short however
//! long the program runs.

use super::ChipLedger;
use super::shape::{Fixed, Shape};
use super::word::Word;
use crate::backend::{Inserted, Slot};
use core::borrow::BorrowMut;

impl<S: Shape, R: BorrowMut<[S::Word]>> ChipLedger<S, R> {
    /// Where the search for an address begins.
    fn home(&self, address: u64) -> u32 {
        // Fibonacci hashing; blocks are 8 bytes apart, so the lowest bits tell nothing.
        let hash = ((address ^ address >> 32) as u32).rotate_right(3).wrapping_mul(0x9E37_79B1);
        (u64::from(hash).wrapping_mul(u64::from(self.places.index.count)) >> 32) as u32
    }

    fn after(&self, cell: u32) -> u32 {
        if cell.wrapping_add(1) == self.places.index.count { 0 } else { cell.wrapping_add(1) }
    }

    /// Where a cell lies, in bytes.
    fn cell_at(&self, cell: u32) -> usize {
        let first = self.places.index.at.wrapping_mul(S::WORD_BYTES);
        first.wrapping_add((cell as usize).wrapping_mul(S::CELL_BYTES))
    }

    fn cell(&self, cell: u32) -> Option<Slot> {
        (self.get(self.cell_at(cell), S::CELL_BYTES).widen() as u32).checked_sub(1).map(Slot)
    }

    fn set_cell(&mut self, cell: u32, slot: Option<Slot>) {
        let value = slot.map_or(0, |slot| slot.0.wrapping_add(1));
        self.put(self.cell_at(cell), S::CELL_BYTES, u64::from(value));
    }

    /// The cell of an address, or the vacant one where it belongs.
    fn find(&self, address: u64) -> (u32, Option<Slot>) {
        let mut cell = self.home(address);
        loop {
            match self.cell(cell) {
                Some(slot) if self.address_in(slot) != address => cell = self.after(cell),
                found => return (cell, found),
            }
        }
    }

    pub(super) fn index_insert(&mut self, address: u64, slot: Slot) -> Inserted {
        let (cell, found) = self.find(address);
        self.set_cell(cell, Some(slot));
        found.map_or(Inserted::Done, Inserted::Displaced)
    }

    pub(super) fn index_remove(&mut self, address: u64) -> Option<Slot> {
        let (mut gap, found) = self.find(address);
        let found = found?;
        let mut cell = self.after(gap);
        while let Some(slot) = self.cell(cell) {
            // A cell may move up only if its home does not lie behind the gap, seen from the cell.
            let home = self.home(self.address_in(slot));
            let reaches = if gap <= cell { home <= gap || home > cell } else { home <= gap && home > cell };
            if reaches {
                self.set_cell(gap, Some(slot));
                gap = cell;
            }
            cell = self.after(cell);
        }
        self.set_cell(gap, None);
        Some(found)
    }
}
