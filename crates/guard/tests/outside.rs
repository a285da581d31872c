//! The tables of another process: here of this one, read through a [`Memory`] that has nothing but what it was told of.

mod land;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};

use heapledger_guard::{
    Bits, Closed, ClosedLimits, Cursor, Dressed, Fill, Full, Leaf, Life, Limits, Memory, NextBit, Pages, Request, Rows,
    RowsOf, Side, Slot,
};
use land::{Land, told};

const WORDS: usize = 8;
const LEAVES: usize = 64;
/// A leaf of the tests stands for 4 KiB.
const LEAF_BYTES: u64 = 4096;
type Map = Dressed<LEAVES, WORDS>;

struct Heap;

impl Pages<WORDS> for Heap {
    fn take(&self) -> Option<&'static Leaf<WORDS>> {
        Some(Box::leak(Box::new([const { AtomicU32::new(0) }; WORDS])))
    }

    fn give_back(&self, _: &'static Leaf<WORDS>) {}
}

/// Where a table begins, its bytes, and how many.
type Table<'t> = (u64, &'t dyn Fn(u64) -> u8, u64);

/// Tables at addresses of their own, which need not be where they really are; and memory of blocks.
struct Other<'t> {
    tables: Vec<Table<'t>>,
    land: Option<&'t Land>,
    reads: Cell<u64>,
}

impl Memory for Other<'_> {
    fn read<const BYTES: usize>(&self, address: u64) -> Option<[u8; BYTES]> {
        self.reads.set(self.reads.get() + 1);
        let mut bytes = [0; BYTES];
        for (done, place) in bytes.iter_mut().enumerate() {
            let at = address.checked_add(done as u64)?;
            let table = self.tables.iter().find(|(first, _, count)| (*first..first + count).contains(&at));
            let inside = |land: &&Land| (land.first..land.end()).contains(&at);
            *place = match (table, self.land.filter(inside)) {
                (Some((first, byte, _)), _) => byte(at - first),
                (None, Some(land)) => land.get(at),
                (None, None) => return None,
            };
        }
        Some(bytes)
    }

    fn write<const BYTES: usize>(&self, _: u64, _: [u8; BYTES]) -> Option<()> {
        None
    }

    fn first_other(&self, address: u64, bytes: u64, byte: u8) -> Option<u64> {
        for at in address..address.checked_add(bytes)? {
            if self.read(at)? != [byte] {
                return Some(at);
            }
        }
        None
    }
}

/// A bitmap made of leaves whose words are known, as it would lie in memory: the pointers at 0x1000, leaf `n` at 0x10000 + 32 n.
fn image(map: &Map, marked: &BTreeSet<u64>) -> (Vec<u8>, Vec<u8>) {
    let (mut root, mut leaves) = (vec![0; LEAVES * 8], vec![0u8; LEAVES * WORDS * 4]);
    for address in marked {
        assert!(map.begins(*address));
        let (leaf, bit) = ((address / LEAF_BYTES) as usize, (address % LEAF_BYTES / 16) as usize);
        root[leaf * 8..][..8].copy_from_slice(&(0x10000 + 32 * leaf as u64).to_le_bytes());
        leaves[leaf * 32 + bit / 8] |= 1 << (bit % 8);
    }
    (root, leaves)
}

#[test]
fn a_bitmap_is_the_same_from_outside() {
    let (map, bits) = (Map::new(), Bits { root: 0x1000, leaves: LEAVES as u64, leaf_words: WORDS as u64 });
    let mut marked = BTreeSet::new();
    for address in [16, 32, 4080, 4096, 4096 * 7 + 16, 4096 * 63 + 4080] {
        map.mark(address, &Heap);
        marked.insert(address);
    }
    let (root, leaves) = image(&map, &marked);
    let (of_root, of_leaves) = (|at| root[at as usize], |at| leaves[at as usize]);
    let tables: Vec<Table<'_>> =
        vec![(0x1000, &of_root, root.len() as u64), (0x10000, &of_leaves, leaves.len() as u64)];
    let mut memory = Other { tables, land: None, reads: Cell::new(0) };
    let mut next = 0;
    for expected in &marked {
        assert_eq!(map.first_from(next), Some(*expected));
        assert_eq!(bits.next_from(&memory, next), NextBit::Block(*expected));
        next = expected + 1;
    }
    assert_eq!(bits.next_from(&memory, next), NextBit::End);
    for address in (0..LEAVES as u64 * LEAF_BYTES).step_by(8).chain([!15]) {
        assert_eq!(bits.begins(&memory, address), Some(map.begins(address)), "{address:#x}");
    }
    // A leaf that is not there, and then the pointers.
    memory.tables[1].2 = 32 * 7;
    assert_eq!(bits.next_from(&memory, 4097), NextBit::Unread(4096 * 7, 4096 * 8));
    assert_eq!(bits.begins(&memory, 4096 * 7 + 16), None);
    memory.tables.clear();
    assert_eq!(bits.next_from(&memory, 0), NextBit::Unread(0, LEAF_BYTES));
    assert!(matches!(bits.next_from(&memory, 4096), NextBit::Unread(4096, _)));
    assert_eq!(bits.next_from(&memory, LEAVES as u64 * LEAF_BYTES), NextBit::End);
}

#[test]
fn a_bitmap_that_makes_no_sense_does_no_harm() {
    let of = |at: u64| (at * 37) as u8;
    let tables: Vec<Table<'_>> = vec![(0, &of, 1 << 20)];
    let memory = Other { tables, land: None, reads: Cell::new(0) };
    for (root, leaves, leaf_words) in
        [(0, 0, 0), (0, 9, 0), (u64::MAX, 5, 5), (0, u64::MAX, u64::MAX), (8, 3, u64::MAX), (0, 1 << 19, 1 << 19)]
    {
        let bits = Bits { root, leaves, leaf_words };
        for address in [0, 16, 1 << 40, u64::MAX] {
            bits.begins(&memory, address);
            bits.next_from(&memory, address);
        }
    }
    assert!(memory.reads.get() < 1000, "{}", memory.reads.get());
}

const FIRST: u64 = 0x10_0000_0000;
const TABLE: u64 = 0x20_0000_0000;

fn bytes_of(slots: &'static [Slot]) -> impl Fn(u64) -> u8 {
    let copied = |at: u64| slots[(at / Rows::SLOT_BYTES) as usize].bytes()[(at % Rows::SLOT_BYTES) as usize];
    move |at| copied(at)
}

#[test]
fn rows_are_the_same_from_outside() {
    let land = Land::new(FIRST, 40 * Full::UNIT_BYTES, false);
    let tables = land::tables(5000, 40, 256);
    let limits = Limits { quarantine_bytes: 1 << 20, quarantine_blocks: 100, fill_bytes_max: 3000, freed_fill: 0xFE };
    let full = Full::new(FIRST, land.bytes(), tables, limits).expect("an arena");
    let of_rows = bytes_of(tables.slots);
    let size = tables.slots.len() as u64 * Rows::SLOT_BYTES;
    let memory = Other { tables: vec![(TABLE, &of_rows, size)], land: Some(&land), reads: Cell::new(0) };
    let of = RowsOf::Full { fill_bytes_max: 3000, freed_fill: Some(0xFE) };
    let rows = Rows { first: FIRST, slots: TABLE, of };
    let from_outside = || {
        let (mut list, mut lives) = (Vec::new(), [0; 3]);
        for number in 0..full.slots_used_word().load(Ordering::Relaxed) as u32 {
            let life = rows.examine(&memory, number, &mut told(&mut list));
            assert_eq!(life, rows.life(&memory, number).map(|(life, _)| life));
            match life {
                Some(Life::Live) => lives[0] += 1,
                Some(Life::Freed) => lives[1] += 1,
                Some(_) => lives[2] += 1,
                None => {}
            }
        }
        (list, lives)
    };
    let from_inside = || {
        let (mut list, mut cursor) = (Vec::new(), Cursor::default());
        while !full.sweep(&land, &mut cursor, 7, 1000, &mut told(&mut list)) {}
        list
    };
    let give = |size| {
        let asked = Request { size, alignment: 16, fill: Fill::Byte(0xCE), words: [size, 7] };
        full.allocate(&land, &asked).expect("room")
    };
    let blocks: Vec<u64> = [0, 1, 13, 100, 5000, 20_000].map(give).into();
    assert_eq!(from_outside(), (vec![], [6, 0, 0]));
    for block in &blocks[3..] {
        full.free(&land, *block, [8, 9], &mut land::silent).expect("freed");
    }
    assert_eq!(from_outside(), (vec![], [3, 3, 0]));
    // Each byte around a live block and a freed one, and of the latter's own as far as they are filled.
    for (block, size, own, step) in [(blocks[2], 13, 0, 1), (blocks[3], 100, 100, 1), (blocks[4], 5000, 3000, 599)] {
        let around = (block - 16..block).chain(block + size..block + size + 48);
        for at in around.chain(block..block + own).step_by(step) {
            let byte = land.get(at);
            land.set(at, byte ^ 0x40);
            let (seen, _) = from_outside();
            assert_eq!((seen.len(), &seen), (1, &from_inside()), "{at:#x}");
            land.set(at, byte);
        }
    }
    for at in [blocks[2], blocks[4] + 3000, blocks[4] + 4999] {
        let byte = land.get(at);
        land.set(at, !byte);
        assert_eq!(from_outside(), (vec![], [3, 3, 0]), "nobody looks at {at:#x}");
        land.set(at, byte);
    }
    assert_eq!(full.drain(&land, 9, &mut land::silent), 3);
    assert_eq!(from_outside(), (vec![], [3, 0, 3]));
    assert_eq!(rows.life(&memory, u32::MAX), None);
}

#[test]
fn blocks_at_closed_pages_are_the_same_from_outside() {
    const PAGE: u64 = land::PAGE;
    const ALL: u64 = u64::MAX;
    let land = Land::new(FIRST, 600 * PAGE, false);
    let tables = land::tables(500, 600, 256);
    let limits =
        ClosedLimits { live_blocks: ALL, live_bytes: ALL, freed_blocks: ALL, freed_bytes: ALL, fill_bytes_max: ALL };
    let closed = Closed::new((FIRST, land.bytes()), PAGE, false, tables, limits).expect("an arena");
    let of_rows = bytes_of(tables.slots);
    let size = tables.slots.len() as u64 * Rows::SLOT_BYTES;
    let memory = Other { tables: vec![(TABLE, &of_rows, size)], land: Some(&land), reads: Cell::new(0) };
    let rows = Rows { first: FIRST, slots: TABLE, of: RowsOf::Closed { page_bytes: PAGE } };
    let from_outside = || {
        let (mut list, mut lives) = (Vec::new(), [0; 2]);
        for number in 0..closed.slots_used_word().load(Ordering::Relaxed) as u32 {
            match rows.examine(&memory, number, &mut told(&mut list)) {
                Some(Life::Live) => lives[0] += 1,
                Some(_) => lives[1] += 1,
                None => {}
            }
        }
        (list, lives)
    };
    let mut blocks = Vec::new();
    for (size, side) in
        [(0, Side::EndsAtPage), (100, Side::EndsAtPage), (13, Side::BeginsAtPage), (5000, Side::EndsAtPage)]
    {
        let request = Request { size, alignment: 16, fill: Fill::Byte(0xCE), words: [1, 2] };
        blocks.push(closed.allocate(&land, &request, side).expect("room"));
    }
    assert_eq!(from_outside(), (vec![], [4, 0]));
    let (front, behind) = (blocks[1], blocks[2]);
    for at in
        [front & !(PAGE - 1), front - 1, front + 100, front + 111, behind + 13, (behind | (PAGE - 1)), blocks[3] - 1]
    {
        let byte = land.get(at);
        land.set(at, byte ^ 0x40);
        let (mut inside, mut cursor) = (Vec::new(), Cursor::default());
        while !closed.sweep(&land, &mut cursor, 7, 1000, &mut told(&mut inside)) {}
        let (seen, _) = from_outside();
        assert_eq!((seen.len(), &seen), (1, &inside), "{at:#x}");
        land.set(at, byte);
    }
    let byte = land.get(front + 50);
    land.set(front + 50, !byte);
    assert_eq!(from_outside(), (vec![], [4, 0]), "its own bytes are its program's");
    closed.free(&land, front, [8, 9], &mut land::silent).expect("freed");
    assert_eq!(from_outside(), (vec![], [3, 1]), "nothing can be looked at where nothing can be touched");
    let forged = Rows { of: RowsOf::Closed { page_bytes: 0 }, ..rows };
    forged.examine(&memory, 2, &mut |_| panic!("no page has no bytes"));
}
