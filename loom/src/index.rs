//! Cells of the shadow map: neighbours in a granule, nodes that divide it, slots that are reused.

use crate::{check, race};
use heapledger_process::cells::{
    Addresses, Cells, GRANULE_BITS, IS_GONE, IS_NODE, Insert, insert, insert_at_once, remove, remove_at_once,
};
use heapledger_recorder::backend::Slot;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const GRANULES: usize = 2;
const NODES: usize = 4;
const NODE_CELLS: usize = 8;
/// Blocks in granule 0, and one elsewhere.
const A: u64 = 0x00;
const B: u64 = 0x08;
const C: u64 = 0x10;
const A_NEXT: u64 = 0x01;
const ELSEWHERE: u64 = 0x20;

/// What stays in the cell of a block that is gone.
fn remains(slot: Slot) -> u32 {
    IS_GONE | slot.0
}

struct Map {
    granules: Vec<AtomicU32>,
    /// Made up front and never reused, so the model needs no allocation.
    nodes: Vec<Vec<AtomicU32>>,
    nodes_used: std::sync::atomic::AtomicUsize,
    addresses: Vec<AtomicU64>,
}

impl Cells for Map {
    fn granule(&self, address: u64) -> Option<&AtomicU32> {
        self.granules.get((address >> GRANULE_BITS) as usize)
    }
    fn granule_or_new(&self, address: u64) -> Option<&AtomicU32> {
        self.granule(address)
    }
    fn child(&self, node: u32, index: usize) -> Option<&AtomicU32> {
        self.nodes.get((node & !IS_NODE) as usize)?.get(index)
    }
    fn new_node(&self, cells: usize) -> Option<u32> {
        assert!(cells <= NODE_CELLS);
        let number = self.nodes_used.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        (number < NODES).then_some(number as u32 | IS_NODE)
    }
}

impl Addresses for Map {
    fn address(&self, slot: Slot) -> u64 {
        self.addresses[slot.0 as usize].load(Ordering::Acquire)
    }
}

impl Map {
    fn new() -> Arc<Map> {
        let cells = |count| (0..count).map(|_| AtomicU32::new(0)).collect::<Vec<_>>();
        Arc::new(Map {
            granules: cells(GRANULES),
            nodes: (0..NODES).map(|_| cells(NODE_CELLS)).collect(),
            nodes_used: std::sync::atomic::AtomicUsize::new(0),
            addresses: (0..3).map(|_| AtomicU64::new(u64::MAX)).collect(),
        })
    }

    /// Enters a block at an address where there is none. The record comes first, its address relaxed, as
    /// `publication::publish` stores it.
    fn enter(&self, address: u64, slot: u32) {
        self.addresses[slot as usize].store(address, Ordering::Relaxed);
        // As `Index` does it: at once where that is possible.
        if !self.granule(address).is_some_and(|cell| insert_at_once(cell, Slot(slot))) {
            assert_eq!(insert(self, self, address, Slot(slot)), Insert::Done, "a live block was pushed out");
        }
    }

    fn take_out(&self, address: u64, slot: u32) {
        let at_once = self.granule(address).and_then(|cell| remove_at_once(cell, self, address, &remains));
        let found = at_once.or_else(|| remove(self, self, address, &remains));
        assert_eq!(found, Some(Slot(slot)), "the block at {address:#x} is lost");
    }
}

/// Fails if a cell is divided without taking the block in it along, and if a cell is stored to.
#[test]
fn neighbours_enter_and_leave_without_disturbing_each_other() {
    for (first, second) in [(A, B), (A, A_NEXT)] {
        check(3, move || {
            let map = Map::new();
            let enter_and_leave = |address, slot| {
                let map = Arc::clone(&map);
                move || {
                    map.enter(address, slot);
                    map.take_out(address, slot);
                }
            };
            race(enter_and_leave(first, 0), enter_and_leave(second, 1));
            assert_eq!(remove(&*map, &*map, first, &remains), None);
            assert_eq!(remove(&*map, &*map, second, &remains), None);
        });
    }
}

/// Fails without the search of the granule in `remove`: the block of the reused slot is filed where its
/// earlier address belongs.
#[test]
fn a_slot_that_is_reused_while_its_cell_is_divided_is_found() {
    check(3, || {
        let map = Map::new();
        map.enter(A, 0);
        let (mover, newcomer) = (Arc::clone(&map), Arc::clone(&map));
        let moves = move || {
            mover.take_out(A, 0);
            mover.enter(B, 0);
        };
        race(moves, move || newcomer.enter(C, 1));
        map.take_out(B, 0);
        map.take_out(C, 1);
        assert_eq!(remove(&*map, &*map, A, &remains), None);
    });
}

/// Fails if an address that does not belong into the cell lets a newcomer push its block out, as it first did.
#[test]
fn a_slot_that_comes_back_from_elsewhere_is_not_pushed_out() {
    check(3, || {
        let map = Map::new();
        map.enter(A, 0);
        let (mover, newcomer) = (Arc::clone(&map), Arc::clone(&map));
        let moves = move || {
            mover.take_out(A, 0);
            mover.enter(ELSEWHERE, 0);
            mover.take_out(ELSEWHERE, 0);
            mover.enter(B, 0);
        };
        race(moves, move || newcomer.enter(C, 1));
        map.take_out(B, 0);
        map.take_out(C, 1);
    });
}

/// A block filed under the wrong child of its granule (as above) meets a neighbour who belongs there. Fails
/// if the neighbour pushes it out, and if a search that loses a race gives the block up.
#[test]
fn a_block_in_the_wrong_cell_survives_the_arrival_of_its_neighbour() {
    check(3, || {
        let map = Map::new();
        map.enter(A, 0);
        map.enter(C, 1);
        // What the race of the check above leaves behind: the block at B lies in A's cell.
        map.addresses[0].store(B, Ordering::Relaxed);
        let (leaver, newcomer) = (Arc::clone(&map), Arc::clone(&map));
        race(move || leaver.take_out(B, 0), move || newcomer.enter(A_NEXT, 2));
        map.take_out(A_NEXT, 2);
        map.take_out(C, 1);
    });
}
