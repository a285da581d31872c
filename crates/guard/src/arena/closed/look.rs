//! What is asked of blocks at closed pages: which one lies at an address, and whether what lies around it is whole.

#![forbid(unsafe_code)]

use super::super::found::{Cursor, Finding, Found, System};
use super::super::slot::{Kind, Row, Slot, flag};
use super::super::{edge_bytes, sweep, tell_edges, usable};
use super::Closed;

impl Closed {
    /// Opens the page at an address, after a fault there, so that the program can go on: the block is guarded less from then on.
    /// The block, or `None` if there is no run, or the page could not be opened.
    pub fn open_at(&self, system: &impl System, address: u64) -> Option<Found> {
        let slot = self.store.slot(self.number(address)?)?;
        slot.set(flag::OPENED);
        let opened = system.open(self.page_floor(address), self.store.unit_bytes());
        // Once more: the run may have gone its way to the free ones meanwhile, and its pages closed before this one was opened.
        slot.set(flag::OPENED);
        if opened { self.lookup(address) } else { None }
    }

    /// The row of the run that follows.
    fn number_after(&self, number: u32) -> Option<u32> {
        let (home, class) = self.store.slot(number)?.home();
        let after = home.checked_add(self.run_bytes(class))?;
        self.number(self.store.first().checked_add(after)?)
    }

    /// The block next to an address: the one in whose pages it lies, or of the two beside a closed page the nearer one.
    pub fn lookup(&self, address: u64) -> Option<Found> {
        let number = self.number(address)?;
        let below = self.store.found(number, address);
        let above = || self.store.found(self.number_after(number)?, address);
        match below {
            None => above(),
            // In its pages, or in front of them.
            Some(block) if address < self.pages(block.start, block.size).1 || block.offset < 0 => Some(block),
            Some(block) => match above() {
                Some(above) if above.distance() < block.distance() => Some(above),
                _ => Some(block),
            },
        }
    }

    /// Says what is to be kept of the block that begins here, live or waiting: words in place of those of its [`Request`], and those
    /// that it was or will be freed with, if it is freed with zeros.
    pub fn annotate(&self, address: u64, allocated: [u64; 2], freed: [u64; 2]) {
        if let Some(number) = self.number(address)
            && self.store.found(number, address).is_some_and(|block| block.offset == 0)
            && let Some(slot) = self.store.slot(number)
        {
            slot.annotate(allocated, freed);
        }
    }

    /// What it was asked to be aligned to, of the live block that begins here.
    pub fn alignment(&self, address: u64) -> Option<u64> {
        self.store.alignment(self.number(address)?, address)
    }

    /// What was asked for, of the live block that begins here.
    pub fn usable(&self, address: u64) -> Option<u64> {
        usable(self.store.found(self.number(address)?, address)?)
    }

    /// The block in the run below that one's, seen from that one's first byte.
    pub fn before(&self, block: &Found) -> Option<Found> {
        let (home, _) = self.store.slot(block.slot)?.home();
        let page = self.store.unit_bytes();
        let mut number = self.number(self.store.first().checked_add(home)?.checked_sub(page)?)?;
        if number == block.slot {
            // The first of its batch.
            number = self.number(self.store.first().checked_add(home)?.checked_sub(page.checked_mul(2)?)?)?;
        }
        self.store.found(number, block.start)
    }

    /// The block in the run above that one's, seen from that one's first byte.
    pub fn after(&self, block: &Found) -> Option<Found> {
        self.store.found(self.number_after(block.slot)?, block.start)
    }

    /// Looks at the block in whose run this address lies, if it is live and nobody else looks at it.
    pub fn check(&self, system: &impl System, address: u64, found: &mut impl FnMut(&Finding)) -> Option<Found> {
        let block = self.lookup(address)?;
        self.examine(system, block.slot, found);
        Some(block)
    }

    /// Looks at all live blocks, a few in each call: so many rows, and about so many bytes. Whether it has come to the end; the
    /// next call begins anew then.
    pub fn sweep(
        &self,
        system: &impl System,
        cursor: &mut Cursor,
        slots_max: u32,
        bytes_max: u64,
        found: &mut impl FnMut(&Finding),
    ) -> bool {
        sweep(self.store.slots_used(), cursor, slots_max, bytes_max, |number| self.examine(system, number, found))
    }

    /// Looks at one block, and says how many bytes it has looked at.
    fn examine(&self, system: &impl System, number: u32, found: &mut impl FnMut(&Finding)) -> u64 {
        let Some(slot) = self.store.slot(number) else { return 0 };
        let Some(row) = slot.row() else { return 0 };
        if row.place.state.kind() != Kind::Live || row.place.state.has(flag::PINNED) {
            return 0;
        }
        let Ok(()) = slot.change(row.place.state, row.place.state.and(flag::PINNED)) else { return 0 };
        let block = self.block(&row, number);
        let edges = self.edges(&block);
        tell_edges(system, (block.start, || block), edges, |finding| {
            // Who frees it tells of it as well.
            if slot.state().kind() == Kind::Live {
                found(finding);
            }
        });
        self.unpin(system, number, slot, &block);
        edge_bytes(edges)
    }

    /// Looks at a block no more; if it was freed meanwhile, closes it.
    fn unpin(&self, system: &impl System, number: u32, slot: &Slot, block: &Found) {
        let mut state = slot.state();
        loop {
            let freed = state.kind() == Kind::Freed;
            let next = if freed { state.with(Kind::Freeing) } else { state }.without(flag::PINNED);
            match slot.change(state, next) {
                Ok(()) if freed => return self.close(system, number, slot, block),
                Ok(()) => return,
                Err(now) => state = now,
            }
        }
    }

    /// The block of a row, seen from its first byte.
    fn block(&self, row: &Row, number: u32) -> Found {
        let block = Found::new(row, self.store.first(), number, 0);
        Found { offset: 0, ..block }
    }
}
