//! What is looked at around blocks of the level `full`, and in freed ones: of this process, or of another one.

#![forbid(unsafe_code)]

use super::found::{Finding, Found};
use super::full::WATCHED_BYTES;
use super::runs::run_bytes;
use super::slot::{Kind, PlaceOfBlock, Slot};
use super::{bytes, edge_bytes, edges_around, filled_around, tell_edges};
use crate::check::Region;
use crate::memory::Memory;

/// What is looked at of blocks: of this process, or of another one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watched {
    /// The first address of the range.
    pub(crate) first: u64,
    /// As the limits have it.
    pub(crate) fill_bytes_max: u64,
    /// What freed blocks hold, if they were filled.
    pub(crate) freed_fill: Option<u8>,
}

impl Watched {
    /// Looks at the block of a row, and says how many bytes it has looked at.
    pub(crate) fn examine(
        &self,
        memory: &impl Memory,
        slot: &Slot,
        number: u32,
        found: &mut impl FnMut(&Finding),
    ) -> u64 {
        let Some(place) = slot.place() else { return 0 };
        let still = |finding: &Finding| {
            // Freed or made anew meanwhile: what was seen is none of it.
            if slot.is_still(place.state) {
                found(finding);
            }
        };
        match place.state.kind() {
            Kind::Live => {
                let edges = self.edges(&place);
                if memory.is_other(edges_around(edges)) {
                    self.tell_edges(memory, (slot, number), still);
                }
                edge_bytes(edges)
            }
            Kind::Freed => self.tell_freed(memory, &place, (slot, number), still),
            _ => 0,
        }
    }

    #[inline(always)]
    pub(super) fn edges(&self, place: &PlaceOfBlock) -> ((u64, u64), (u64, u64)) {
        edges((self.first.wrapping_add(place.home), run_bytes(place.class)), place.start(self.first), place.size)
    }

    /// Tells what of a waiting block is damaged, on both sides of it and of its fill; how many bytes were looked at.
    #[inline(always)]
    pub(super) fn tell_freed(
        &self,
        memory: &impl Memory,
        place: &PlaceOfBlock,
        row: (&Slot, u32),
        found: impl FnMut(&Finding),
    ) -> u64 {
        let edges = self.edges(place);
        let filled = self.freed_fill.map_or(0, |_| place.size.min(self.fill_bytes_max));
        let wanted = filled_around(edges, filled, self.freed_fill.unwrap_or(0));
        if memory.is_other(wanted) {
            self.tell_other(memory, row, found);
        }
        filled.saturating_add(edge_bytes(edges))
    }

    /// Tells which part of a waiting block is not what it was.
    #[cold]
    #[inline(never)]
    fn tell_other(&self, memory: &impl Memory, (slot, number): (&Slot, u32), mut found: impl FnMut(&Finding)) {
        self.tell_edges(memory, (slot, number), &mut found);
        let (Some(place), Some(fill)) = (slot.place_begun(), self.freed_fill) else { return };
        let (start, filled) = (place.start(self.first), place.size.min(self.fill_bytes_max));
        if let Some(damage) = bytes::damage(memory, (start, start.wrapping_add(filled)), fill, start, Region::Freed) {
            found(&Finding { block: Found::new(&slot.row_of(place), self.first, number, start), damage });
        }
    }

    /// Tells what is damaged on both sides of a block. Whether anything is.
    #[cold]
    #[inline(never)]
    pub(super) fn tell_edges(
        &self,
        memory: &impl Memory,
        (slot, number): (&Slot, u32),
        found: impl FnMut(&Finding),
    ) -> bool {
        let Some(place) = slot.place_begun() else { return false };
        let start = place.start(self.first);
        let block = || Found::new(&slot.row_of(place), self.first, number, start);
        tell_edges(memory, (start, block), self.edges(&place), found)
    }
}

/// What is watched in front of a block and behind it.
#[inline(always)]
pub(super) fn edges((home, run): (u64, u64), start: u64, size: u64) -> ((u64, u64), (u64, u64)) {
    let end = start.wrapping_add(size);
    let last = home.wrapping_add(run);
    let front = start.wrapping_sub(home).min(WATCHED_BYTES);
    let behind = last.wrapping_sub(end).min(WATCHED_BYTES);
    ((start.wrapping_sub(front), start), (end, end.wrapping_add(behind)))
}
