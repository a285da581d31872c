//! Blocks on a chip: each byte that is watched is seen, in place and as what it is, and damage of every kind leads nowhere else.

extern crate std;

use core::cell::{Cell, RefCell};
use std::string::String;
use std::vec;
use std::vec::Vec;

use super::*;
use proptest::prelude::*;

const FIRST: u32 = 0x2000_0000;
const BYTES: u32 = 4096;

/// Memory of a heap, and nothing around it: who reads there fails the test.
struct Ram(RefCell<Vec<u8>>);

impl Ram {
    fn new() -> Ram {
        Ram(RefCell::new(vec![0x11; BYTES as usize]))
    }

    fn flip(&self, at: u32, bits: u8) {
        self.0.borrow_mut()[(at - FIRST) as usize] ^= bits;
    }
}

impl Memory for Ram {
    fn read<const COUNT: usize>(&self, address: u64) -> Option<[u8; COUNT]> {
        let at = usize::try_from(address.checked_sub(FIRST.into()).expect("in front of the heap")).expect("an address");
        let bytes = self.0.borrow();
        Some(*bytes.get(at..).and_then(|rest| rest.first_chunk()).expect("behind the heap"))
    }

    fn write<const COUNT: usize>(&self, address: u64, bytes: [u8; COUNT]) -> Option<()> {
        let at = (address - u64::from(FIRST)) as usize;
        self.0.borrow_mut()[at..at + COUNT].copy_from_slice(&bytes);
        Some(())
    }
}

fn bits() -> Vec<Cell<u32>> {
    vec![Cell::new(0); bit_words(BYTES as usize)]
}

fn heap<'a>(begins: &'a [Cell<u32>], filled: &'a [Cell<u32>]) -> SmallHeap<'a> {
    SmallHeap { first: FIRST, bytes: BYTES, begins, filled }
}

fn dressed(ram: &Ram, heap: &SmallHeap, given: u32, size: u32, alignment: u32) -> SmallBlock {
    let plan = SmallPlan::new(size, alignment).expect("it can be dressed");
    let block = dress_small(ram, &plan, given).expect("it lies at a multiple of eight");
    assert_eq!(
        (plan.bytes() % 8, plan.bytes() >= size + 12, plan.bytes() < size + alignment.max(8) + 12),
        (0, true, true)
    );
    assert!(heap.mark(block.address));
    block
}

#[test]
fn each_byte_around_a_block_is_seen_and_none_of_its_own() {
    for (size, alignment) in [(0, 1), (1, 8), (4, 4), (5, 8), (24, 8), (62, 16), (63, 32), (64, 64)] {
        let (ram, begins) = (Ram::new(), bits());
        let heap = heap(&begins, &[]);
        // The last one: behind it there is no memory that could be read.
        let plan = SmallPlan::new(size, alignment).expect("small");
        let given = FIRST + (BYTES - plan.bytes()) / 64 * 64;
        let block = dressed(&ram, &heap, given, size, alignment);
        assert_eq!(block.address % alignment.max(8), 0);
        assert_eq!(heap.examine(&ram, block.address), Ok(block));
        for at in block.given()..block.given() + block.bytes() {
            for bits in [1, 0x80, 0xFF] {
                ram.flip(at, bits);
                let is_watched = at >= block.address - 8 && !(block.address..block.end()).contains(&at);
                match heap.examine(&ram, block.address) {
                    Ok(whole) => assert!(!is_watched && whole == block, "{size}: {at:#x} is not seen"),
                    Err(Some(Bad::Damaged(checked))) => {
                        assert!(is_watched, "{size}: {at:#x} is nobody's business");
                        // Repaired, whichever byte it was.
                        assert_eq!(checked.block, Some(block), "{size}: {at:#x} {bits:#x}");
                        let (this, other) = if at < block.address {
                            (checked.below, checked.above)
                        } else {
                            (checked.above, checked.below)
                        };
                        let this = this.expect("damage");
                        let [found] = ram.read(at.into()).expect("memory");
                        let was = this.expected(Some(&block), 0);
                        assert_eq!((this.address, this.bytes, was, other), (at, 1, Some(found ^ bits), None));
                    }
                    other => panic!("{other:?}"),
                }
                ram.flip(at, bits);
            }
        }
    }
}

#[test]
fn what_is_no_block_is_none() {
    assert_eq!(SmallPlan::new(SMALL_BYTES_MAX + 1, 8), None);
    assert_eq!(SmallPlan::new(8, SMALL_ALIGNMENT_MAX * 2), None);
    let (ram, begins) = (Ram::new(), bits());
    let heap = heap(&begins, &[]);
    let plan = SmallPlan::new(8, 8).expect("small");
    assert_eq!(dress_small(&ram, &plan, FIRST + 4), None);
    let block = dressed(&ram, &heap, FIRST + 64, 40, 8);
    assert!(heap.begins(block.address) && !heap.begins(block.address + 1) && !heap.begins(block.address + 8));
    assert_eq!(heap.block_around(&ram, block.address + 7), Some(block));
    assert_eq!(heap.block_around(&ram, block.given() + block.bytes()), None);
    assert_eq!(heap.block_around(&ram, FIRST), None);
    assert!(!was_freed(&ram, block.address));
    mark_freed(&ram, block.address);
    assert!(was_freed(&ram, block.address));
    assert!(heap.unmark(block.address) && !heap.unmark(block.address) && !heap.unmark(block.address + 4));
    assert_eq!(heap.next_block(FIRST, usize::MAX), Err(FIRST + BYTES));
    // A word of bits at a time.
    assert_eq!(heap.next_block(FIRST + 8, 1), Err(FIRST + 256));
}

#[test]
fn two_blocks_in_one_place_are_told() {
    let (ram, begins) = (Ram::new(), bits());
    let heap = heap(&begins, &[]);
    let outer = dressed(&ram, &heap, FIRST + 64, 400, 8);
    let inner = dressed(&ram, &heap, FIRST + 408, 8, 8);
    assert_eq!(heap.examine(&ram, outer.address), Err(Some(Bad::Overlaps(inner.address))));
    assert_eq!(heap.examine(&ram, inner.address), Ok(inner));
    assert_eq!(heap.next_block(FIRST, usize::MAX), Ok(outer.address));
    assert_eq!(heap.next_block(outer.address + 1, usize::MAX), Ok(inner.address));
}

/// As an allocator would: it keeps the first word, and what it splits off has words of its own.
#[test]
fn freed_memory_is_seen_but_for_the_allocators_words() {
    let (ram, begins, filled) = (Ram::new(), bits(), bits());
    let heap = heap(&begins, &filled);
    let (first, bytes) = (FIRST + 128, 96);
    (0..bytes).for_each(|at| ram.write(u64::from(first + at), [SMALL_FREED_FILL]).expect("memory"));
    ram.write(first.into(), 0x1234_5678u32.to_le_bytes()).expect("memory");
    heap.note_filled(&ram, first, bytes);
    let told = |ram: &Ram, first, bytes| {
        let mut told = Vec::new();
        let mut at = first;
        while let Some(damage) = heap.damage_in_filled(ram, at, first + bytes - at) {
            told.push((damage.address, damage.bytes, damage.region));
            at = SmallHeap::behind(&damage);
        }
        told
    };
    assert_eq!(told(&ram, FIRST, BYTES), []);
    for at in 0..bytes {
        ram.flip(first + at, 1);
        let expected = if at < 8 { vec![] } else { vec![(first + at, 1, Region::Freed)] };
        assert_eq!(told(&ram, FIRST, BYTES), expected, "{at}");
        ram.flip(first + at, 1);
    }
    // Three bytes in two neighbours are one damage, what lies apart is another one.
    [15, 16, 22, 40].into_iter().for_each(|at| ram.flip(first + at, 2));
    assert_eq!(told(&ram, first, bytes), [(first + 15, 8, Region::Freed), (first + 40, 1, Region::Freed)]);
    [15, 16, 22, 40].into_iter().for_each(|at| ram.flip(first + at, 2));
    // The front is given away, and the allocator has a header in the middle of what is left.
    ram.write((first + 48).into(), 7u32.to_le_bytes()).expect("memory");
    heap.leave_allocators(&ram, first + 32, 24);
    heap.forget_filled(first, 32);
    assert_eq!(told(&ram, FIRST, BYTES), []);
    ram.flip(first + 8, 1);
    ram.flip(first + 50, 1);
    assert_eq!(told(&ram, FIRST, BYTES), []);
    ram.flip(first + 56, 1);
    assert_eq!(told(&ram, FIRST, BYTES), [(first + 56, 1, Region::Freed)]);
}

#[test]
fn lines_are_those_of_esp_idf() {
    let (ram, begins, filled) = (Ram::new(), bits(), bits());
    let heap = heap(&begins, &filled);
    let block = dressed(&ram, &heap, FIRST + 0x100, 5, 8);
    let lines = |ram: &Ram| {
        let mut text = Vec::new();
        if let Err(Some(Bad::Damaged(SmallChecked { block, below, above }))) = heap.examine(ram, block.address) {
            for damage in [below, above].into_iter().flatten() {
                corrupt_lines(ram, &damage, (block.as_ref(), heap.limit()), &mut |letter| text.push(letter));
            }
        }
        String::from_utf8(text).expect("text")
    };
    assert_eq!(lines(&ram), "");
    let with = |changes: &[(u32, u8)]| {
        changes.iter().for_each(|(at, bits)| ram.flip(block.address.wrapping_add(*at), *bits));
        let lines = lines(&ram);
        changes.iter().for_each(|(at, bits)| ram.flip(block.address.wrapping_add(*at), *bits));
        lines
    };
    let below = |bytes: u32| 0u32.wrapping_sub(bytes);
    assert_eq!(with(&[(below(4), 1)]), "CORRUPT HEAP: Bad head at 0x20000104. Expected 0xabba1234 got 0xabba1235\n");
    assert_eq!(with(&[(5, 0x78)]), "CORRUPT HEAP: Bad tail at 0x2000010d. Expected 0xbaad5678 got 0xbaad5600\n");
    assert_eq!(with(&[(7, 1)]), "CORRUPT HEAP: Bad tail at 0x2000010d. Expected 0xbaad5678 got 0xbaac5678\n");
    assert_eq!(with(&[(10, 3)]), "CORRUPT HEAP: Invalid data at 0x20000112. Expected 0xbd got 0xbe\n");
    assert_eq!(with(&[(below(8), 0x61)]), "CORRUPT HEAP: Size at 0x20000100 expected <=0x00000005 got 0x00000064\n");
    let both = "CORRUPT HEAP: Size at 0x20000100 expected <=0x00000005 got 0x00000004\nCORRUPT HEAP: Bad head at 0x20000104. Expected 0xabba1234 got 0xabba1236\n";
    assert_eq!(with(&[(below(8), 1), (below(4), 2)]), both);
    // Of more nobody knows what it was: it is as large as there is room, at most.
    let lost = with(&[(below(8), 0x61), (below(7), 0x13)]);
    assert_eq!(lost, "CORRUPT HEAP: Size at 0x20000100 expected <=0x00000ef8 got 0x00001364\n");

    let freed = FIRST + 0x200;
    (0..16).for_each(|at| ram.write(u64::from(freed + at), [SMALL_FREED_FILL]).expect("memory"));
    heap.note_filled(&ram, freed, 16);
    ram.write((freed + 4).into(), [0; 8]).expect("memory");
    let mut text = Vec::new();
    let damage = heap.damage_in_filled(&ram, freed, 16).expect("damage");
    corrupt_lines(&ram, &damage, (None, heap.limit()), &mut |letter| text.push(letter));
    let expected = "CORRUPT HEAP: Invalid data at 0x20000204. Expected 0xfefefefe got 0x00000000\nCORRUPT HEAP: Invalid data at 0x20000208. Expected 0xfefefefe got 0x00000000\n";
    assert_eq!(String::from_utf8(text).expect("text"), expected);
    let mut text = Vec::new();
    structure_line(0x3FFB_B71C, &mut |letter| text.push(letter));
    assert_eq!(text, b"CORRUPT HEAP: multi_heap.c:225 detected at 0x3ffbb71c\n");
}

proptest! {
    /// Whatever lies around a block, nothing outside of the heap is read (else the memory here panics), and nobody panics.
    #[test]
    fn nothing_leads_out_of_the_heap(bytes in proptest::collection::vec(any::<u8>(), 32), at in 0u32..508, size in 0u32..200) {
        let (ram, begins, filled) = (Ram::new(), bits(), bits());
        let heap = heap(&begins, &filled);
        let plan = SmallPlan::new(size, 8).expect("small");
        let given = FIRST + (at * 8).min(BYTES - plan.bytes());
        let block = dressed(&ram, &heap, given, size, 8);
        let first = block.address.saturating_sub(12).max(FIRST);
        for (at, byte) in (first..FIRST + BYTES).zip(bytes) {
            ram.flip(at, byte);
        }
        heap.mark(FIRST + at * 8);
        for address in [block.address, FIRST + at * 8] {
            let _ = heap.examine(&ram, address);
        }
        prop_assert!(heap.block_around(&ram, block.address).is_none_or(|found| heap.has_all(found.address, found.size)));
    }
}
