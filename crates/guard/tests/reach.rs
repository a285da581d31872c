//! What a check reaches: each byte around a block damaged in turn, for 32 and for 64 bits, and never a read elsewhere.

mod arena;

use arena::Arena;
use heapledger_guard::{
    Block, Checked, HEAD_CANARY, HEADER_BYTES, Plan, Region, SLACK_FILL, Secret, TAIL_BYTES, TAIL_CANARY, Width,
    Window, block_at, check, dress, undress, whole,
};

const SECRET: Secret = Secret::new(0x1122_3344_5566_7788);

/// Where blocks lie, by width: low, somewhere, and at the end of the address space.
const WHERE: [(Width, u64); 6] = [
    (Width::Bits32, 0x1000),
    (Width::Bits32, 0x3FFB_1230),
    (Width::Bits32, 0xFFFF_FF00),
    (Width::Bits64, 0x1000),
    (Width::Bits64, 0x7F12_3456_7890),
    (Width::Bits64, 0x7FFF_FFFF_FF00),
];

/// A dressed block in an arena that is as large as what an allocator gave, and has margins on both sides.
fn dressed(width: Width, given: u64, size: u64, alignment: u64, more: u64) -> (Arena, Block) {
    let plan = Plan::new(width, size, alignment).expect("a plan");
    let given = given.next_multiple_of(plan.alignment());
    let arena = Arena::new(given, plan.bytes() + more);
    let block = dress(&arena, SECRET, &plan, given, plan.bytes() + more).expect("dressed");
    assert_eq!(block.given(), given);
    assert_eq!(block.address % alignment, 0);
    (arena, block)
}

fn checked(arena: &Arena, width: Width, block: &Block) -> Checked {
    check(arena, SECRET, width, block.address).expect("in reach")
}

/// What a check must say of the byte at this offset to the block.
fn part(block: &Block, offset: i64) -> Option<Region> {
    let size = block.size as i64;
    match offset {
        -16..-4 => Some(Region::Header),
        -4..0 => Some(Region::HeadCanary),
        _ if (size..size + 4).contains(&offset) => Some(Region::TailCanary),
        _ if (size + 4..size + 4 + block.slack as i64).contains(&offset) => Some(Region::Slack),
        _ => None,
    }
}

#[test]
fn each_byte_around_a_block_is_found_and_no_other() {
    for (width, given) in WHERE {
        for size in [0, 1, 5, 16, 62] {
            for (alignment, more) in [(1, 0), (16, 11), (64, 24)] {
                if given >= width.last_address() - 0xFF && alignment > 16 {
                    continue;
                }
                let (arena, block) = dressed(width, given, size, alignment, more);
                assert_eq!(checked(&arena, width, &block), Checked { block: Some(block), below: None, above: None });
                let first = -(block.lead as i64);
                for offset in first..(size + TAIL_BYTES + more) as i64 {
                    for change in [0x01, 0x80, 0xFF] {
                        one_byte(&arena, width, &block, offset, change);
                    }
                }
                assert!(checked(&arena, width, &block).is_whole(), "restored");
            }
        }
    }
}

fn one_byte(arena: &Arena, width: Width, block: &Block, offset: i64, change: u8) {
    let address = block.address.wrapping_add_signed(offset);
    let before = arena.flip(address, change);
    let seen = checked(arena, width, block);
    let about = format!("{width:?} {block:x?} offset {offset} change {change:02x}: {seen:x?}");
    assert_eq!(seen.block, Some(*block), "one byte does not hide what the block was: {about}");
    let damage = if offset < 0 { (seen.below, seen.above) } else { (seen.above, seen.below) };
    assert_eq!(damage.1, None, "{about}");
    match part(block, offset) {
        None => assert_eq!(damage.0, None, "{about}"),
        Some(region) => {
            let damage = damage.0.unwrap_or_else(|| panic!("not found: {about}"));
            assert_eq!((damage.region, damage.offset, damage.bytes), (region, offset, 1), "{about}");
            assert_eq!(damage.expected.as_slice()[0], before, "{about}");
            assert_eq!(damage.found.as_slice()[0], before ^ change, "{about}");
            assert_eq!(damage.expected.as_slice()[1..], damage.found.as_slice()[1..], "{about}");
        }
    }
    arena.flip(address, change);
}

#[test]
fn all_values_of_all_bytes_of_a_header_lead_to_the_block() {
    for (width, given) in WHERE {
        let (arena, block) = dressed(width, given, 62, 16, 2);
        for offset in 1..=HEADER_BYTES {
            for change in 1..=u8::MAX {
                arena.flip(block.address - offset, change);
                assert_eq!(checked(&arena, width, &block).block, Some(block), "{offset} {change}");
                arena.flip(block.address - offset, change);
            }
        }
    }
}

#[test]
fn longer_overflows_say_how_far_they_went() {
    let (arena, block) = dressed(Width::Bits64, 0x5000, 13, 16, 20);
    for length in 1..=24_u64 {
        for at in 0..length {
            arena.set(block.end() + at, b'A');
        }
        let damage = checked(&arena, Width::Bits64, &block).above.expect("found");
        assert_eq!((damage.region, damage.offset, damage.bytes), (Region::TailCanary, 13, length));
        let mut expected = TAIL_CANARY.to_le_bytes().to_vec();
        expected.extend([SLACK_FILL; 4]);
        assert_eq!(damage.expected.as_slice(), expected);
        let found: Vec<u8> = (0..8).map(|at| if at < length { b'A' } else { expected[at as usize] }).collect();
        assert_eq!(damage.found.as_slice(), found);
    }
}

#[test]
fn a_header_that_is_gone_is_not_gone_by() {
    for (width, given) in WHERE {
        let (arena, block) = dressed(width, given, 40, 16, 8);
        // An underflow: from the block downwards.
        for length in 1..=HEADER_BYTES {
            arena.set(block.address - length, b'x');
            let seen = checked(&arena, width, &block);
            let damage = seen.below.expect("found");
            match length {
                ..=5 => {
                    assert_eq!(seen.block, Some(block));
                    assert_eq!((damage.offset, damage.bytes), (-(length as i64), length));
                }
                _ => {
                    assert_eq!((seen.block, seen.above), (None, None), "{length}");
                    assert_eq!((damage.region, damage.offset, damage.bytes), (Region::Header, -16, 16));
                    assert!(damage.expected.as_slice().is_empty());
                }
            }
        }
    }
}

#[test]
fn no_header_makes_a_check_read_elsewhere() {
    // The arena panics at a read beside the block's own bytes.
    let (arena, block) = dressed(Width::Bits32, 0x3FFB_1230, 62, 16, 2);
    let mut random = 88_172_645_463_325_252_u64;
    for round in 0..3_000_u64 {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let words = [random, random.rotate_left(round as u32)];
        for (at, byte) in words.iter().flat_map(|word| word.to_le_bytes()).enumerate() {
            arena.set(block.address - HEADER_BYTES + at as u64, byte);
        }
        let seen = checked(&arena, Width::Bits32, &block);
        assert_eq!(seen.block, None, "{words:x?}");
        assert!(!seen.is_whole());
    }
}

#[test]
fn a_header_of_another_block_or_process_is_none() {
    let (arena, block) = dressed(Width::Bits64, 0x5000, 62, 16, 0);
    let seen = check(&arena, Secret::new(1), Width::Bits64, block.address).expect("in reach");
    assert_eq!((seen.block, seen.above), (None, None), "dressed with another secret");
    let (other, copied) = dressed(Width::Bits64, 0x6000, 62, 16, 0);
    for at in 0..HEADER_BYTES {
        other.set(copied.address - HEADER_BYTES + at, arena.get(block.address - HEADER_BYTES + at));
    }
    assert_eq!(checked(&other, Width::Bits64, &copied).block, None, "dressed at another address");
}

#[test]
fn the_bytes_in_memory_are_as_documented() {
    let (arena, block) = dressed(Width::Bits32, 0x3FFB_1230, 5, 1, 3);
    let bytes = |from: u64, count: u64| (from..from + count).map(|at| arena.get(at)).collect::<Vec<_>>();
    assert_eq!(bytes(block.address - 4, 4), [0x34, 0x12, 0xBA, 0xAB]);
    assert_eq!(bytes(block.end(), 7), [0x78, 0x56, 0xAD, 0xBA, SLACK_FILL, SLACK_FILL, SLACK_FILL]);
    assert_eq!((HEAD_CANARY, TAIL_CANARY), (0xABBA_1234, 0xBAAD_5678));
    assert_eq!(bytes(block.address, 5), [0; 5], "the block's own bytes are the program's");
}

#[test]
fn a_plan_never_wraps() {
    for width in [Width::Bits32, Width::Bits64] {
        let most = if width == Width::Bits32 { (1_u64 << 31) - 1 } else { (1 << 46) - 1 };
        for alignment in [1, 2, 16, 4096, 2 << 20, 1 << 30] {
            let lead = alignment.max(HEADER_BYTES);
            let largest = most - lead - TAIL_BYTES;
            let plan = Plan::new(width, largest, alignment).expect("the largest");
            assert_eq!((plan.bytes(), plan.alignment()), (most, lead));
            for size in [largest + 1, most, u64::from(u32::MAX), u64::MAX - lead, u64::MAX - 3, u64::MAX] {
                if size > largest {
                    assert_eq!(Plan::new(width, size, alignment), None, "{size:x} {alignment:x}");
                }
            }
        }
        for alignment in [0, 3, 24, (1 << 31) + 1, 1 << 62, 1 << 63, u64::MAX] {
            assert_eq!(Plan::new(width, 1, alignment), None, "{alignment:x}");
        }
        for size in [0, 1, 16, 1000] {
            let plan = Plan::new(width, size, 16).expect("a plan");
            assert!(plan.bytes() - size <= 32, "at most 32 bytes a block");
        }
    }
}

#[test]
fn what_an_allocator_gave_amiss_is_not_dressed() {
    let plan = Plan::new(Width::Bits32, 100, 64).expect("a plan");
    let arena = Arena::new(0x1000, 4096);
    assert_eq!(dress(&arena, SECRET, &plan, 0x1000, plan.bytes() - 1), None, "too short");
    assert_eq!(dress(&arena, SECRET, &plan, 0x1010, 4000), None, "not aligned");
    assert_eq!(dress(&arena, SECRET, &plan, 0xFFFF_FFC0, 4000), None, "past the address space");
    assert_eq!(dress(&arena, SECRET, &plan, 0x1_0000_0000, 4000), None, "past the address space");
    let block = dress(&arena, SECRET, &plan, 0x1000, plan.bytes()).expect("dressed");
    assert_eq!((block.slack, block.lead), (0, 64));
    let wide = Plan::new(Width::Bits64, 10, 2 << 20).expect("a plan");
    let (arena, block) = dressed(Width::Bits64, 2 << 20, 10, 2 << 20, 5);
    assert_eq!((block.lead, wide.alignment()), (2 << 20, 2 << 20));
    assert!(checked(&arena, Width::Bits64, &block).is_whole());
    let (_, block) = dressed(Width::Bits64, 0x1000, 10, 16, 100_000);
    assert_eq!(block.slack, 4095, "what is watched of much slack");
}

#[test]
fn a_block_of_this_process_is_dressed_and_checked() {
    let plan = Plan::new(Width::Bits64, 100, 16).expect("a plan");
    let mut memory = vec![0_u128; 16];
    let first = memory.as_mut_ptr().expose_provenance() as u64;
    // SAFETY: it is the vector's memory, which nobody else uses until the last of it.
    let window = unsafe { Window::new(first, 256) };
    let block = dress(&window, SECRET, &plan, first, 256).expect("dressed");
    assert!(check(&window, SECRET, Width::Bits64, block.address).expect("in reach").is_whole());
    memory[0] ^= 1 << 8;
    let seen = check(&window, SECRET, Width::Bits64, block.address).expect("in reach");
    assert_eq!(seen.block, Some(block));
    assert_eq!(seen.below.expect("found").offset, -15);
    // SAFETY: as above.
    let short = unsafe { Window::new(first, 100) };
    assert_eq!(check(&short, SECRET, Width::Bits64, block.address), None, "the block is longer than what may be read");
    assert_eq!(check(&short, SECRET, Width::Bits64, 8), None);
    assert_eq!(check(&short, SECRET, Width::Bits64, u64::MAX), None);
}

#[test]
fn what_is_undressed_is_zeros_but_for_what_the_program_had() {
    for (size, more) in [(0, 0), (7, 3), (40, 100)] {
        let (arena, block) = dressed(Width::Bits64, 0x7000_0000, size, 16, more);
        assert!(whole(&arena, SECRET, Width::Bits64, block.address) == Some(block));
        assert_eq!(block_at(&arena, SECRET, Width::Bits64, block.address), Some(block));
        for offset in 0..size {
            arena.set(block.address + offset, 0x77);
        }
        undress(&arena, &block).expect("in reach");
        assert_eq!(block_at(&arena, SECRET, Width::Bits64, block.address), None);
        let end = block.end() + TAIL_BYTES + block.slack;
        for address in block.given()..end {
            let inside = (block.address..block.end()).contains(&address);
            assert_eq!(arena.get(address), if inside { 0x77 } else { 0 }, "{address:x}");
        }
    }
}

#[test]
fn a_quick_look_says_what_a_whole_one_does() {
    for (size, more) in (0..20).map(|size| (size, 0)).chain((0..40).map(|more| (13, more))) {
        let (arena, block) = dressed(Width::Bits64, 0x7000_0000, size, 16, more);
        for address in block.given()..block.end() + TAIL_BYTES + more {
            let before = arena.flip(address, 0x10);
            let found = checked(&arena, Width::Bits64, &block);
            let quick = whole(&arena, SECRET, Width::Bits64, block.address);
            assert_eq!(quick.is_some(), found.is_whole(), "{size} {more} {address:x}");
            arena.set(address, before);
        }
    }
}
