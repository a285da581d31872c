//! How threads enter and take out addresses in the cells of the shadow map, without a lock.
//!
//! A cell holds 0, a slot plus 1, what remains of a block that is gone, or the number of a node whose cells divide its addresses. It is only
//! ever changed by compare-and-swap, and a node stays where it is for good. What a slot plus 1 means
//! is told by the slot's record, and a slot may be freed and reused at any moment; so an address that was
//! read from a record can be that of another life of the slot, even if the cell still looks the same
//! afterwards. What follows from an outdated one is at worst that a block is filed under a wrong child *of
//! its own granule*: it is found there by search, and no block is ever pushed out for it.
//!
//! Where cells lie is not told here: see [`Cells`].
#![forbid(unsafe_code)]

use crate::sync::{AtomicU32, Ordering};
use heapledger_recorder::backend::Slot;

/// Marks a cell that holds a node.
pub const IS_NODE: u32 = 1 << 31;
/// Marks a cell whose block is gone. What its other bits mean is the affair of those who take blocks out.
pub const IS_GONE: u32 = 1 << 30;
/// Slots that a cell can lead to: those with a number below this.
pub const SLOTS_MAX: u32 = IS_GONE - 1;
/// Bits of the addresses in a granule.
pub const GRANULE_BITS: u32 = 5;
/// How a cell at each depth is divided: bits of the address below it, and bits that choose the child.
pub const DEPTHS: [(u32, u32); 2] = [(GRANULE_BITS, 2), (3, 3)];
/// How often an outdated address is read again before the block is given up.
const RETRIES: u32 = 1000;

/// The address in the record of a slot that a cell leads to.
pub trait Addresses {
    /// Reads it. The slot may be given to another block at any moment.
    fn address(&self, slot: Slot) -> u64;
    /// Starts to load the record. `slot` can be any number.
    fn fetch_soon(&self, slot: Slot) {
        let _ = slot;
    }
}

/// Where cells lie.
pub trait Cells {
    /// The cell of a granule, if there is one yet.
    fn granule(&self, address: u64) -> Option<&AtomicU32>;
    /// The cell of a granule, which is made if there is none; `None` if none can be had.
    fn granule_or_new(&self, address: u64) -> Option<&AtomicU32>;
    /// A cell of a node.
    fn child(&self, node: u32, index: usize) -> Option<&AtomicU32>;
    /// A node of so many cells, all 0; its number has [`IS_NODE`] set.
    fn new_node(&self, cells: usize) -> Option<u32>;
}

/// What [`insert`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Insert {
    /// The address leads to the slot.
    Done,
    /// It led to this other slot before.
    Displaced(Slot),
    /// No memory, or an address outside of the map.
    Full,
}

/// The slot that a cell leads to, if it is neither vacant nor a node.
#[inline(always)]
pub fn slot_in(cell: u32) -> Option<Slot> {
    Some(cell.wrapping_sub(1)).filter(|slot| *slot < SLOTS_MAX).map(Slot)
}

#[inline(always)]
fn cell_of(slot: Slot) -> u32 {
    slot.0.wrapping_add(1)
}

#[inline(always)]
fn is_vacant(cell: u32) -> bool {
    cell == 0 || cell & (IS_GONE | IS_NODE) == IS_GONE
}

#[inline]
fn child_of(cells: &impl Cells, node: u32, address: u64, depth: usize) -> Option<&AtomicU32> {
    let (bits, choose) = DEPTHS.get(depth)?;
    cells.child(node, (address >> bits.wrapping_sub(*choose)) as usize & (1usize << choose).wrapping_sub(1))
}

/// [`insert`] where nobody else enters or takes out anything in the address's granule meanwhile, if its cell is vacant: without a
/// locked instruction. False: it is not.
#[inline(always)]
pub fn insert_alone(cell: &AtomicU32, slot: Slot) -> bool {
    let is_vacant = is_vacant(cell.load(Ordering::Relaxed));
    if is_vacant {
        cell.store(cell_of(slot), Ordering::Release);
    }
    is_vacant
}

/// [`remove`] where there is no other thread. Finds nothing in a granule that is divided. Nothing remains.
#[inline(always)]
pub fn remove_alone(cell: &AtomicU32, records: &impl Addresses, address: u64) -> Option<Slot> {
    let slot = slot_in(cell.load(Ordering::Relaxed))?;
    if records.address(slot) != address {
        return None;
    }
    cell.store(0, Ordering::Release);
    Some(slot)
}

/// [`insert`], if the cell of the address's granule is vacant. False: it is not, or another thread was faster.
#[inline(always)]
pub fn insert_at_once(cell: &AtomicU32, slot: Slot) -> bool {
    let seen = cell.load(Ordering::Relaxed);
    is_vacant(seen) && cell.compare_exchange(seen, cell_of(slot), Ordering::AcqRel, Ordering::Acquire).is_ok()
}

/// [`remove`], if the address's granule is not divided. Finds nothing where another thread was faster, either.
#[inline(always)]
pub fn remove_at_once(
    cell: &AtomicU32,
    records: &impl Addresses,
    address: u64,
    remains: &impl Fn(Slot) -> u32,
) -> Option<Slot> {
    let seen = cell.load(Ordering::Acquire);
    let slot = slot_in(seen).filter(|slot| records.address(*slot) == address)?;
    cell.compare_exchange(seen, remains(slot), Ordering::AcqRel, Ordering::Acquire).ok().map(|_| slot)
}

/// Lets `address` lead to `slot`, whose record is complete.
#[inline]
pub fn insert(cells: &impl Cells, records: &impl Addresses, address: u64, slot: Slot) -> Insert {
    let Some(cell) = cells.granule_or_new(address) else { return Insert::Full };
    let seen = Some(cell.load(Ordering::Relaxed)).filter(|seen| is_vacant(*seen)).unwrap_or(0);
    match cell.compare_exchange(seen, cell_of(slot), Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Insert::Done,
        Err(seen) => insert_below(cells, records, address, cell_of(slot), cell, seen),
    }
}

/// The granule's cell is taken.
fn insert_below<'c>(
    cells: &'c impl Cells,
    records: &impl Addresses,
    address: u64,
    new: u32,
    mut cell: &'c AtomicU32,
    mut seen: u32,
) -> Insert {
    let mut depth = 0;
    let mut retries = 0u32;
    // Each round either ends, goes one level down, or follows a change that another thread made.
    loop {
        if seen & IS_NODE != 0 {
            let Some(child) = child_of(cells, seen, address, depth) else { return Insert::Full };
            cell = child;
            depth = depth.wrapping_add(1);
            seen = cell.load(Ordering::Acquire);
            continue;
        }
        let exchange = |new| cell.compare_exchange(seen, new, Ordering::AcqRel, Ordering::Acquire);
        let Some(other) = slot_in(seen) else {
            match exchange(new) {
                Ok(_) => return Insert::Done,
                Err(now) => seen = now,
            }
            continue;
        };
        let other_address = records.address(other);
        if other_address == address {
            match exchange(new) {
                Ok(_) => return Insert::Displaced(other),
                Err(now) => seen = now,
            }
        } else if other_address >> GRANULE_BITS != address >> GRANULE_BITS {
            // The slot has left this cell since we looked, if only to come back: never take its place.
            retries = retries.wrapping_add(1);
            if retries > RETRIES {
                return Insert::Full;
            }
            // An exchange, for a load may go on seeing what was there before the address was written.
            seen = exchange(seen).unwrap_or_else(|now| now);
        } else {
            let Some(node) = DEPTHS.get(depth).and_then(|(_, choose)| cells.new_node(1 << choose)) else {
                return Insert::Full;
            };
            let Some(child) = child_of(cells, node, other_address, depth) else { return Insert::Full };
            child.store(seen, Ordering::Relaxed);
            seen = match exchange(node) {
                Ok(_) => node,
                Err(now) => now,
            };
        }
    }
}

/// What the cell for an address holds, below the `node` of its granule; 0 if there is none.
pub fn held(cells: &impl Cells, mut node: u32, address: u64) -> u32 {
    for depth in 0..DEPTHS.len() {
        if node & IS_NODE == 0 {
            break;
        }
        node = child_of(cells, node, address, depth).map_or(0, |child| child.load(Ordering::Relaxed));
    }
    node
}

/// Tells of each slot that a granule's cell leads to.
pub fn each_slot(cells: &impl Cells, cell: u32, tell: &mut impl FnMut(Slot)) {
    each_slot_below(cells, cell, 0, tell);
}

fn each_slot_below(cells: &impl Cells, cell: u32, depth: usize, tell: &mut impl FnMut(Slot)) {
    if cell & IS_NODE == 0 {
        return slot_in(cell).into_iter().for_each(tell);
    }
    let Some((_, choose)) = DEPTHS.get(depth) else { return };
    for child in (0..1 << choose).filter_map(|index| cells.child(cell, index)) {
        each_slot_below(cells, child.load(Ordering::Acquire), depth.wrapping_add(1), tell);
    }
}

/// The slot that `address` leads to, which it no longer does. At most one caller gets it. `remains` says what stays in its
/// cell: 0, or something with [`IS_GONE`].
#[inline]
pub fn remove(
    cells: &impl Cells,
    records: &impl Addresses,
    address: u64,
    remains: &impl Fn(Slot) -> u32,
) -> Option<Slot> {
    let first = cells.granule(address)?;
    let mut cell = first;
    let mut depth = 0;
    loop {
        let seen = cell.load(Ordering::Acquire);
        if seen & IS_NODE != 0 {
            cell = child_of(cells, seen, address, depth)?;
            depth = depth.wrapping_add(1);
            continue;
        }
        match slot_in(seen) {
            Some(slot) if records.address(slot) == address => {
                if cell.compare_exchange(seen, remains(slot), Ordering::AcqRel, Ordering::Acquire).is_ok() {
                    return Some(slot);
                }
            }
            // A block whose granule was divided while its neighbour's slot changed hands can be
            // filed under the wrong child; it is in this granule all the same.
            _ if depth > 0 => return search(cells, records, first, address, (0, remains)),
            _ => return None,
        }
    }
}

#[cold]
fn search<R: Fn(Slot) -> u32>(
    cells: &impl Cells,
    records: &impl Addresses,
    cell: &AtomicU32,
    address: u64,
    (depth, remains): (usize, &R),
) -> Option<Slot> {
    loop {
        let seen = cell.load(Ordering::Acquire);
        if seen & IS_NODE != 0 {
            let (_, choose) = DEPTHS.get(depth)?;
            return (0..1 << choose).find_map(|index| {
                search(cells, records, cells.child(seen, index)?, address, (depth.wrapping_add(1), remains))
            });
        }
        let slot = slot_in(seen).filter(|slot| records.address(*slot) == address)?;
        // If the cell was divided meanwhile, the block is further down now.
        if cell.compare_exchange(seen, remains(slot), Ordering::AcqRel, Ordering::Acquire).is_ok() {
            return Some(slot);
        }
    }
}
