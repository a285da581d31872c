//! Address to slot: a shadow map.
//!
//! One 32-bit cell per 32 bytes of address space, in leaves of 512 KiB for 4 MiB of addresses, mapped
//! when first needed and touched where blocks are. Leaves are found through two levels of tables, so
//! that a program whose address space is limited is deprived of little. glibc never starts two blocks in one granule;
//! jemalloc and tcmalloc do (8 bytes apart), and pools closer still. Then the cell leads to a node
//! that divides the granule: first by 8 bytes, then by single bytes. A node is never taken away
//! again, so no cell needs a lock, and correctness does not depend on an allocator's spacing.
//!
//! ```text
//! top[address >> 37] -> middle -> leaf -> cell of 32 bytes:   0 | slot + 1 | gone | node of 4 cells of 8 bytes
//!                                                                      cell:   0 | slot + 1 | gone | node of 8 cells of 1 byte
//! ```
//!
//! The map is private memory and not part of the file: it would take room of a tmpfs for what a
//! reader gets by sorting, and its pages would have to be reserved one by one.

#![forbid(unsafe_code)]

use crate::cells::{self, Cells, GRANULE_BITS, IS_NODE};
pub use crate::cells::{Addresses, Insert};
use crate::private::{Alone, Table};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use heapledger_linux::memory;
use heapledger_recorder::backend::Slot;

const ADDRESS_BITS: u32 = 47;
const MIDDLE_BITS: u32 = 37;
const LEAF_BITS: u32 = 22;
const TOP_ENTRIES: usize = 1 << (ADDRESS_BITS - MIDDLE_BITS);
const MIDDLE_ENTRIES: usize = 1 << (MIDDLE_BITS - LEAF_BITS);
const LEAF_CELLS: usize = 1 << (LEAF_BITS - GRANULE_BITS);

/// Nodes are counted in units of 4 cells.
const UNIT_CELLS: usize = 4;
const CHUNK_UNITS: usize = 1 << 16;
const CHUNKS: usize = 1 << 12;

/// A cell for every granule of its addresses.
type Leaf = [AtomicU32; LEAF_CELLS];
/// A leaf for every part of its addresses.
type Middle = [Table<Leaf>; MIDDLE_ENTRIES];
/// Room for nodes. None crosses two chunks.
type Chunk = [[AtomicU32; UNIT_CELLS]; CHUNK_UNITS];

/// The map.
pub struct Index {
    top: [Table<Middle>; TOP_ENTRIES],
    chunks: [Table<Chunk>; CHUNKS],
    units: AtomicU64,
    /// Blocks may lie closer together than granules: some allocator's did.
    close_together: AtomicBool,
}

impl Index {
    /// An empty map.
    pub const fn new() -> Index {
        Index {
            top: [const { Table::new() }; TOP_ENTRIES],
            chunks: [const { Table::new() }; CHUNKS],
            units: AtomicU64::new(0),
            close_together: AtomicBool::new(false),
        }
    }

    /// Bytes of the map that are present in memory: what blocks have touched. Asks the kernel.
    pub fn resident_bytes(&self) -> u64 {
        let leaves = |middle: &Table<Middle>| {
            let mut bytes = 0u64;
            let of_middle = middle.each_present(|leaf| {
                if leaf.is_there() {
                    bytes = bytes.wrapping_add(leaf.resident_bytes());
                }
            });
            bytes.wrapping_add(of_middle)
        };
        let tables = self.top.iter().map(leaves).sum::<u64>();
        tables.wrapping_add(self.chunks_in_use().map(Table::resident_bytes).sum::<u64>())
    }

    /// Gives the memory of the map back.
    pub(crate) fn unmap(&self, alone: &Alone) {
        for middle in &self.top {
            middle.each_present(|leaf| leaf.unmap(alone));
            middle.unmap(alone);
        }
        self.chunks_in_use().for_each(|chunk| chunk.unmap(alone));
    }

    /// Those that there may be: to look at the others would cost page faults.
    fn chunks_in_use(&self) -> impl Iterator<Item = &Table<Chunk>> {
        let units = self.units.load(Ordering::Relaxed) as usize;
        self.chunks.iter().take(units.div_ceil(CHUNK_UNITS).wrapping_add(1))
    }

    #[inline(always)]
    fn middle(&self, address: u64) -> Option<&Table<Middle>> {
        self.top.get((address >> MIDDLE_BITS) as usize)
    }

    #[inline(always)]
    fn leaf_in(middle: &'static Middle, address: u64) -> Option<&'static Table<Leaf>> {
        middle.get(((address & ((1 << MIDDLE_BITS) - 1)) >> LEAF_BITS) as usize)
    }

    /// The leaf that holds an address, if there is one yet.
    #[inline(always)]
    fn leaf(&self, address: u64) -> Option<&'static Leaf> {
        Self::leaf_in(self.middle(address)?.get()?, address)?.get()
    }

    #[cold]
    #[inline(never)]
    fn new_leaf(&self, address: u64) -> Option<&'static Leaf> {
        Self::leaf_in(self.middle(address)?.get_or_map()?, address)?.get_or_map()
    }

    /// Lets `address` lead to `slot`, whose record is complete. `is_apart`: the block's allocator never starts two blocks in
    /// one granule. As long as all allocators are like that, who was given an address has its cell to himself. `cell`: where
    /// [`Index::cell`] found it.
    #[inline(always)]
    pub fn insert(
        &self,
        records: &impl Addresses,
        (address, cell): (u64, Option<&AtomicU32>),
        slot: Slot,
        is_apart: bool,
    ) -> Insert {
        if !is_apart && !self.close_together.load(Ordering::Relaxed) {
            self.close_together.store(true, Ordering::SeqCst);
        }
        let is_done = cell.is_some_and(|cell| match self.close_together.load(Ordering::Relaxed) {
            false => cells::insert_alone(cell, slot),
            true => cells::insert_at_once(cell, slot),
        });
        if is_done { Insert::Done } else { self.insert_with_others(records, address, slot) }
    }

    #[inline(never)]
    fn insert_with_others(&self, records: &impl Addresses, address: u64, slot: Slot) -> Insert {
        cells::insert(self, records, address, slot)
    }

    /// The slot that `address` leads to, which it no longer does. At most one caller gets it. `is_single`: there is
    /// only one thread, so a block that is freed twice is not freed twice at once; where blocks lie close together, that is no
    /// help, since a second thread may just have begun. Otherwise `remains` says what stays in the cell, see [`cells::remove`].
    #[inline(always)]
    pub fn remove(
        &self,
        records: &impl Addresses,
        (address, cell): (u64, Option<&AtomicU32>),
        is_single: bool,
        remains: &impl Fn(Slot) -> u32,
    ) -> Option<Slot> {
        // With others, its leaf may have been made since.
        let Some(cell) = cell else { return self.remove_among_others(records, address, remains) };
        let found = match is_single && !self.close_together.load(Ordering::Relaxed) {
            true => cells::remove_alone(cell, records, address),
            false => cells::remove_at_once(cell, records, address, remains),
        };
        if found.is_some() { found } else { self.remove_among_others(records, address, remains) }
    }

    #[inline(never)]
    fn remove_among_others(
        &self,
        records: &impl Addresses,
        address: u64,
        remains: &impl Fn(Slot) -> u32,
    ) -> Option<Slot> {
        cells::remove(self, records, address, remains)
    }

    /// What the cell of an address holds, with the cell of its granule: see [`cells`].
    #[inline(always)]
    pub fn held(&self, (address, cell): (u64, Option<&AtomicU32>)) -> u32 {
        let held = cell.map_or(0, |cell| cell.load(Ordering::Relaxed));
        if held & IS_NODE == 0 { held } else { cells::held(self, held, address) }
    }

    /// The cell of an address, if there is one yet. It stays for good.
    #[inline(always)]
    pub fn cell(&self, address: u64) -> Option<&AtomicU32> {
        self.granule(address)
    }

    /// The first granule from that of `low` on, and below `end`, that may have a block: where it begins, and what its cell holds.
    pub(crate) fn first_granule(&self, low: u64, end: u64) -> Option<(u64, u32)> {
        let mut at = low >> GRANULE_BITS << GRANULE_BITS;
        while at < end {
            let Some(middle) = self.middle(at)?.get() else {
                at = (at >> MIDDLE_BITS).wrapping_add(1) << MIDDLE_BITS;
                continue;
            };
            let next = (at >> LEAF_BITS).wrapping_add(1) << LEAF_BITS;
            if let Some(leaf) = Self::leaf_in(middle, at)?.get() {
                let mut cells = leaf.iter().skip(number_of(at)).map(|cell| cell.load(Ordering::Acquire));
                if let Some(passed) = cells.clone().position(may_lead) {
                    let granule = at.wrapping_add((passed as u64) << GRANULE_BITS);
                    return cells.nth(passed).filter(|_| granule < end).map(|cell| (granule, cell));
                }
            }
            at = next;
        }
        None
    }

    /// The last granule below `end`, and not below that of `low`.
    pub(crate) fn last_granule(&self, low: u64, end: u64) -> Option<(u64, u32)> {
        let mut end = end.min(1 << ADDRESS_BITS);
        while low < end {
            let at = end.wrapping_sub(1);
            let Some(middle) = self.middle(at)?.get() else {
                end = at >> MIDDLE_BITS << MIDDLE_BITS;
                continue;
            };
            let first = at >> LEAF_BITS << LEAF_BITS;
            if let Some(leaf) = Self::leaf_in(middle, at)?.get() {
                let cells = leaf.iter().take(number_of(at).wrapping_add(1));
                if let Some((number, cell)) =
                    cells.map(|cell| cell.load(Ordering::Acquire)).enumerate().rev().find(|(_, cell)| may_lead(*cell))
                {
                    let granule = first.wrapping_add((number as u64) << GRANULE_BITS);
                    return (granule.wrapping_add(1 << GRANULE_BITS) > low).then_some((granule, cell));
                }
            }
            end = first;
        }
        None
    }

    /// Starts to load what [`Index::remove`] will need, while something else is done.
    #[inline(always)]
    pub fn fetch_record_soon(&self, records: &impl Addresses, cell: Option<&AtomicU32>) {
        if let Some(slot) = cell.and_then(|cell| cells::slot_in(cell.load(Ordering::Relaxed))) {
            records.fetch_soon(slot);
        }
    }

    /// Starts to load what [`Index::insert`] will change.
    #[inline(always)]
    pub fn fetch_cell_soon(&self, cell: Option<&AtomicU32>) {
        if let Some(cell) = cell {
            memory::fetch_soon((&raw const *cell).cast());
        }
    }
}

/// Which cell of its leaf is an address's.
#[inline(always)]
fn number_of(address: u64) -> usize {
    ((address & ((1 << LEAF_BITS) - 1)) >> GRANULE_BITS) as usize
}

#[inline(always)]
fn cell_of(leaf: &Leaf, address: u64) -> Option<&AtomicU32> {
    leaf.get(number_of(address))
}

/// Whether a cell is a node, or leads to a slot.
fn may_lead(cell: u32) -> bool {
    cell & IS_NODE != 0 || cells::slot_in(cell).is_some()
}

impl Cells for Index {
    #[inline(always)]
    fn granule(&self, address: u64) -> Option<&AtomicU32> {
        cell_of(self.leaf(address)?, address)
    }

    #[inline(always)]
    fn granule_or_new(&self, address: u64) -> Option<&AtomicU32> {
        let leaf = match self.leaf(address) {
            None => self.new_leaf(address)?,
            Some(leaf) => leaf,
        };
        cell_of(leaf, address)
    }

    fn child(&self, node: u32, index: usize) -> Option<&AtomicU32> {
        let unit = (node & !IS_NODE) as usize;
        let cells = self.chunks.get(unit / CHUNK_UNITS)?.get()?;
        cells.as_flattened().get((unit % CHUNK_UNITS).wrapping_mul(UNIT_CELLS).wrapping_add(index))
    }

    fn new_node(&self, cells: usize) -> Option<u32> {
        let units = (cells / UNIT_CELLS) as u64;
        let next = || self.units.fetch_add(units, Ordering::Relaxed) as usize;
        let mut unit = next();
        while unit / CHUNK_UNITS != unit.wrapping_add(units as usize).wrapping_sub(1) / CHUNK_UNITS {
            unit = next(); // it would cross two chunks
        }
        // The number is told to others by the exchange that puts it into a cell, after the chunk is there.
        self.chunks.get(unit / CHUNK_UNITS)?.get_or_map()?;
        Some(unit as u32 | IS_NODE)
    }
}

impl Default for Index {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::boxed::Box;
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use std::vec::Vec;

    struct Records(Vec<AtomicU64>);

    impl Addresses for Records {
        fn address(&self, slot: Slot) -> u64 {
            self.0[slot.0 as usize].load(Ordering::Acquire)
        }
    }

    fn index() -> Box<Index> {
        Box::new(Index::new())
    }

    fn records(count: usize) -> Records {
        Records((0..count).map(|_| AtomicU64::new(0)).collect())
    }

    #[test]
    fn blocks_at_any_spacing_are_found() {
        for spacing in [1u64, 2, 3, 7, 8, 16, 24, 32, 48, 4096, 1 << 26] {
            let (index, records) = (index(), records(1000));
            let base = 0x7f00_0000_0000 + 5;
            for slot in 0..1000u32 {
                let address = base + u64::from(slot) * spacing;
                records.0[slot as usize].store(address, Ordering::Release);
                assert_eq!(
                    index.insert(&records, (address, index.cell(address)), Slot(slot), false),
                    Insert::Done,
                    "spacing {spacing}"
                );
            }
            for slot in (0..1000u32).rev() {
                let address = base + u64::from(slot) * spacing;
                assert_eq!(
                    index.remove(&records, (address, index.cell(address)), false, &|_| 0),
                    Some(Slot(slot)),
                    "spacing {spacing}"
                );
                assert_eq!(index.remove(&records, (address, index.cell(address)), false, &|_| 0), None);
            }
        }
    }

    #[test]
    fn granules_with_blocks_are_found_from_both_sides() {
        let (index, records) = (index(), records(4));
        let blocks = [0x1000u64, 0x1008, 0x60_0000 - 32, (3 << MIDDLE_BITS) + 64];
        for (slot, address) in (0..).zip(blocks) {
            records.0[slot as usize].store(address, Ordering::Release);
            index.insert(&records, (address, index.cell(address)), Slot(slot), false);
        }
        let of = |found: Option<(u64, u32)>| found.map(|(granule, _)| granule);
        let all = 0..1 << ADDRESS_BITS;
        let (mut up, mut down) = (Vec::new(), Vec::new());
        let mut at = all.start;
        while let Some(granule) = of(index.first_granule(at, all.end)) {
            up.push(granule);
            at = granule + 32;
        }
        let mut end = all.end;
        while let Some(granule) = of(index.last_granule(0, end)) {
            down.push(granule);
            end = granule;
        }
        down.reverse();
        assert_eq!(up, [0x1000, 0x60_0000 - 32, (3 << MIDDLE_BITS) + 64]);
        assert_eq!(down, up);
        assert_eq!(of(index.first_granule(0x1001, 0x1002)), Some(0x1000), "the granule of an address in it");
        assert_eq!(of(index.first_granule(0x1020, 0x60_0000 - 32)), None);
        assert_eq!(of(index.last_granule(0x1010, 0x2000)), Some(0x1000), "the granule of an address in it");
        assert_eq!(of(index.last_granule(0x1020, 0x60_0000 - 32)), None);
        let mut slots = Vec::new();
        let (_, cell) = index.first_granule(0, all.end).expect("the first");
        cells::each_slot(&*index, cell, &mut |slot| slots.push(slot.0));
        assert_eq!(slots, [0, 1], "a granule that is divided");
    }

    #[test]
    fn an_address_given_out_twice_displaces() {
        let (index, records) = (index(), records(2));
        records.0[0].store(0x1000, Ordering::Release);
        records.0[1].store(0x1000, Ordering::Release);
        assert_eq!(index.insert(&records, (0x1000, index.cell(0x1000)), Slot(0), true), Insert::Done);
        assert_eq!(index.insert(&records, (0x1000, index.cell(0x1000)), Slot(1), true), Insert::Displaced(Slot(0)));
        assert_eq!(index.remove(&records, (0x1000, index.cell(0x1000)), true, &|_| 0), Some(Slot(1)));
        assert_eq!(
            index.insert(&records, (1 << 47, index.cell(1 << 47)), Slot(0), true),
            Insert::Full,
            "kernel addresses"
        );
    }

    #[test]
    fn threads_with_neighbouring_blocks_do_not_disturb_each_other() {
        const THREADS: u64 = 4;
        let shared = Arc::new((index(), records(4096)));
        let workers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || {
                    let (index, records) = &*shared;
                    let mut live = BTreeMap::new();
                    let mut random = thread + 1;
                    for round in 0..200_000u64 {
                        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                        // Addresses of all threads share granules; slots move between addresses.
                        let address = 0x10_0000 + (random >> 33) % 256 * THREADS + thread;
                        let slot = (thread * 1024 + round % 1024) as u32;
                        match live.remove(&address) {
                            Some(slot) => {
                                assert_eq!(
                                    index.remove(records, (address, index.cell(address)), false, &|_| 0),
                                    Some(Slot(slot))
                                )
                            }
                            None if live.values().all(|used| *used != slot) => {
                                records.0[slot as usize].store(address, Ordering::Release);
                                assert_eq!(
                                    index.insert(records, (address, index.cell(address)), Slot(slot), false),
                                    Insert::Done
                                );
                                live.insert(address, slot);
                            }
                            None => {}
                        }
                    }
                    for (address, slot) in live {
                        assert_eq!(
                            index.remove(records, (address, index.cell(address)), false, &|_| 0),
                            Some(Slot(slot))
                        );
                    }
                })
            })
            .collect();
        for worker in workers {
            worker.join().expect("worker");
        }
    }
}
