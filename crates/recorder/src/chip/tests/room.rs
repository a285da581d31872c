//! What there is room for, and what becomes of what finds none.

use super::*;
use heapledger_format::header::{State, at};
use std::println;

/// Of a heap of 64 KiB, so many records and nodes of the trie.
pub(super) struct Small<const RECORDS: u32, const SITES: u32>;

impl<const RECORDS: u32, const SITES: u32> Shape for Small<RECORDS, SITES> {
    type Word = u32;
    const CONFIG: Config<'static> = Config { largest_bytes: 0xFFFE, ..Config::minimal(RECORDS, SITES) };
}

pub(super) fn bytes<S: Shape>() -> usize {
    S::CONFIG.words::<S::Word>() * size_of::<S::Word>()
}

#[test]
fn what_a_ledger_takes_is_what_was_promised() {
    /// The stack of the block of this number: four frames, no two stacks of 40 with one in common.
    fn apart(number: u32) -> [u32; 4] {
        [1, 2, 3, 4].map(|frame| 0x0800_0000 + (number % 40) * 0x400 + frame * 2)
    }
    type Apart = Small<100, 174>;
    let mut ledger = new::<Apart>();
    for number in 0..100 {
        assert!(ledger.allocated(&block(0x2000_0000 + u64::from(number) * 16, number.into()), &caller(&apart(number))));
    }
    let live = entries(&ledger);
    for (entry, number) in live.iter().zip(0..) {
        assert_eq!(
            (entry.size, stack(&ledger, entry.site)),
            (Some(number.into()), apart(number).map(u64::from).to_vec())
        );
    }
    type Bare = Small<100, 0>;
    let block_bytes = |more: usize, less: usize| (more - less) as f64 / 1000.0;
    let of_a_block = block_bytes(bytes::<Small<2000, 1000>>(), bytes::<Small<1000, 1000>>());
    struct All<const RECORDS: u32>;
    impl<const RECORDS: u32> Shape for All<RECORDS> {
        type Word = u32;
        const CONFIG: Config<'static> =
            Config { history: 0, records: RECORDS, largest_bytes: 0xFFFE, ..Switched::<63, false, u32>::CONFIG };
    }
    let with_all = block_bytes(bytes::<All<2000>>(), bytes::<All<1000>>());
    println!(
        "bytes: 100 blocks of 40 stacks with four frames, none in common: {}; 100 blocks without stacks: {}; \
         for each block: {of_a_block}, with all fields {with_all}; header: {}",
        bytes::<Apart>(),
        bytes::<Bare>(),
        Bare::CONFIG.header_bytes::<u32>(),
    );
    assert!(bytes::<Apart>() <= 3000 && bytes::<Bare>() <= 1700);
    assert!(of_a_block <= 14.5 && with_all <= 24.0);
    assert!(Apart::CONFIG.header_bytes::<u32>() <= 256);
}

/// What is left of a region without its other parts are tasks (44 bytes), heaps (24), names, and four words of counters.
#[test]
fn a_region_is_the_sum_of_its_parts() {
    type All = Everything;
    let parts = All::CONFIG.region_bytes::<u32>();
    let RegionBytes { header, records, index, history, sites, others } = parts;
    assert_eq!(header + records + index + history + sites + others, bytes::<All>());
    let room = All::CONFIG.room::<u32>();
    assert_eq!((header + records) as u32, room.history_at * 4);
    assert_eq!((history, sites as u32), ((room.sites_at - room.history_at) as usize * 4, room.sites * 8));
    assert_eq!(index as u32, (room.words - room.index_at) * 4);
    let names = (room.names_bytes.next_multiple_of(4) + room.process_bytes.next_multiple_of(4)) as usize;
    assert_eq!(others, room.tasks as usize * 44 + room.heaps as usize * 24 + names + 16);
}

#[test]
fn the_101st_block_is_counted() {
    let mut ledger = new::<Small<100, 256>>();
    for number in 0..100 {
        let block = block(0x2000_0000 + u64::from(number) * 16, number.into());
        assert!(ledger.allocated(&block, &caller(&[0x100 + number, 0x50])));
    }
    assert!(!ledger.allocated(&block(0x2000_4000, 1), &caller(&[0x100])), "the 101st");
    let (bytes, header) = read(&ledger);
    assert_eq!(usize::from(header.codec.u16(&bytes, at::HEADER_BYTES)), header.bytes());
    assert_eq!((header.tally(TallyCounter::LostNoRecord), header.state), (1, State::Full));
    assert_eq!(header.global(GlobalCounter::LiveBytes), (0..100).sum::<u64>());
    let live = entries(&ledger);
    assert_eq!(live.len(), 100);
    for (entry, number) in live.iter().zip(0..) {
        assert_eq!((entry.address, entry.size), (0x2000_0000 + number * 16, Some(number)));
        assert_eq!(stack(&ledger, entry.site), [0x100 + number, 0x50]);
    }
    assert!(ledger.freed(0x2000_0000, Kind::FREE, &caller(&[])));
    assert_eq!(read(&ledger).1.state, State::Recording);
}

/// Enters blocks until a stack finds no room; returns how many did.
fn stacks_that_fit(frames: impl Fn(u32) -> [u32; 4]) -> u32 {
    NOTICES.set([0; 4]);
    let mut ledger = new::<Everything>();
    for number in 0..10_000 {
        let frames = frames(number);
        ledger.allocated(&block(0x2000_0000, 8), &caller(&frames));
        let kept = stack(&ledger, entries(&ledger)[0].site);
        if kept != frames.map(u64::from) {
            // Its innermost frame has a place, and so has that of the next one; what is known already is whole.
            assert_eq!(kept, [u64::from(frames[0])]);
            ledger.freed(0x2000_0000, Kind::FREE, &caller(&[frames[0]]));
            ledger.allocated(&block(0x2000_0000, 8), &caller(&[7, 1, 2, 3]));
            assert_eq!(stack(&ledger, entries(&ledger)[0].site), [7]);
            ledger.allocated(&block(0x2000_0010, 8), &caller(&self::frames(0)));
            assert_eq!(read(&ledger).1.tally(TallyCounter::SitesFull), 2);
            assert_eq!(NOTICES.get()[3], 2);
            return number;
        }
        ledger.freed(0x2000_0000, Kind::FREE, &caller(&frames));
    }
    panic!("there is room for all")
}

fn frames(number: u32) -> [u32; 4] {
    [1, 2, 3, 4].map(|frame| number * 16 + frame)
}

/// The smallest trees have no nodes for innermost frames alone.
#[test]
fn a_stack_for_which_there_is_no_node_at_all_has_none() {
    fn with<const SITES: u32>(whole: usize, innermost: usize) {
        let mut ledger = new::<Small<20, SITES>>();
        for number in 0..10 {
            let block = block(0x2000_0000 + u64::from(number) * 16, 8);
            assert!(ledger.allocated(&block, &caller(&[number * 16 + 1, 0x50])));
        }
        let depths: Vec<usize> = entries(&ledger).iter().map(|entry| stack(&ledger, entry.site).len()).collect();
        let with = |depth| depths.iter().filter(|kept| **kept == depth).count();
        assert_eq!((with(2), with(1), with(0)), (whole, innermost, 10 - whole - innermost), "{SITES}: {depths:?}");
    }
    with::<2>(0, 0);
    with::<3>(0, 1);
    with::<4>(1, 1);
    with::<6>(2, 2);
}

#[test]
fn a_stack_without_room_keeps_its_innermost_frame() {
    // 49 places, of which two are for innermost frames only.
    let apart = stacks_that_fit(frames);
    assert!((10..=11).contains(&apart), "{apart}");
}

/// A random stack of a firmware: five frames, each from one of up to four calls of the function that the frame above is of; 60 calls of an allocator.
fn of_a_firmware(random: &mut u32) -> [u32; 5] {
    let mut function = 0u32;
    let mut frames = [0; 5];
    for (frame, functions) in frames.iter_mut().rev().zip([4, 12, 30, 45, 60]) {
        *random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let call = function.wrapping_mul(4) + (*random >> 30);
        function = (call.wrapping_mul(0x9E37_79B1) >> 8) % functions;
        *frame = 0x0800_0000 + functions * 0x1000 + function * 8;
    }
    frames
}

/// What becomes of 10,000 stacks for which there is room for a few. Places for innermost frames hold as many of these as there are; if they held the
/// innermost two of a stack while there is room for both, and one of the others, fewer stacks would have any.
fn kept_without_room<const SITES: u32>() {
    let mut ledger = new::<Small<1, SITES>>();
    let places = Small::<1, SITES>::CONFIG.room::<u32>();
    let apart = (places.sites - 1 - places.places) as usize;
    let (mut random, mut whole, mut one, mut none) = (1, 0, 0, 0);
    let mut pairs: Vec<(u32, u32)> = Vec::new();
    let (mut two, mut with_two_none) = (0, 0);
    for _ in 0..10_000 {
        let frames = of_a_firmware(&mut random);
        ledger.allocated(&block(0x2000_0000, 8), &caller(&frames));
        let mut kept = [0; 5];
        let kept_frames = ledger.live_after(None, &mut kept).expect("a block").depth;
        ledger.freed(0x2000_0000, Kind::FREE, &caller(&[]));
        match kept_frames {
            5 => whole += 1,
            1 => one += 1,
            _ => none += 1,
        }
        assert_eq!(kept[..kept_frames], frames[..kept_frames]);
        if kept_frames != 5 {
            // A node of the outer of the two, and one of the inner below it; or one of the innermost alone.
            let (outer, inner, alone) = ((0, frames[1]), (frames[1], frames[0]), (0, frames[0]));
            let missing: Vec<_> = [outer, inner].into_iter().filter(|node| !pairs.contains(node)).collect();
            if pairs.len() + missing.len() <= apart {
                pairs.extend(missing);
                two += 1;
            } else if !pairs.contains(&alone) && pairs.len() < apart {
                pairs.push(alone);
            } else if !pairs.contains(&alone) {
                with_two_none += 1;
            }
        }
    }
    println!(
        "{SITES} nodes, {apart} of them apart: {whole} stacks are whole, {one} have their innermost frame, {none} none; \
         with two frames where both have room {two} would have two, and {with_two_none} none"
    );
    assert!(none < with_two_none && two < one);
}

#[test]
fn one_frame_of_many_stacks_is_kept_rather_than_two_of_few() {
    kept_without_room::<256>();
    kept_without_room::<512>();
}
