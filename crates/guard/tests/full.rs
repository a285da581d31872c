//! Blocks of the level `full`: where they lie, what is found of damage, and how freed ones wait.

mod land;

use heapledger_guard::{
    Cursor, Fill, Full, Life, Limits, NotFreed, Position, Refused, Region, Request, SLACK_FILL, System,
};
use land::{Land, Random, Told, silent, tables, told};

const FIRST: u64 = 0x10_0000_0000;
const FREED: u8 = 0xFE;

fn limits(bytes: u64, blocks: u64) -> Limits {
    Limits { quarantine_bytes: bytes, quarantine_blocks: blocks, fill_bytes_max: u64::MAX, freed_fill: FREED }
}

fn arena_at(first: u64, units: u64, limits: Limits) -> (Land, Full) {
    let land = Land::new(first, units * Full::UNIT_BYTES, false);
    let full = Full::new(first, land.bytes(), tables(40_000, units, 256), limits).expect("an arena");
    (land, full)
}

fn arena(units: u64, limits: Limits) -> (Land, Full) {
    arena_at(FIRST, units, limits)
}

fn request(size: u64) -> Request {
    Request { size, alignment: 16, fill: Fill::Byte(0xCE), words: [size, !size] }
}

fn sweep(full: &Full, land: &Land) -> Vec<Told> {
    let (mut list, mut cursor) = (Vec::new(), Cursor::default());
    while !full.sweep(land, &mut cursor, 7, 1000, &mut told(&mut list)) {}
    list
}

#[test]
fn a_block_is_as_it_was_asked_for() {
    let (land, full) = arena(400, limits(0, 0));
    let mut blocks: Vec<(u64, u64)> = Vec::new();
    for size in [0, 1, 15, 16, 17, 100, 255, 256, 257, 1000, 4096, 10_000, 16_320, 16_321, 65_472, 65_473, 200_000] {
        for alignment in [1, 8, 16, 32, 256, 4096, 1 << 16] {
            let fill = if size % 2 == 0 { Fill::Zero } else { Fill::Byte(0xCE) };
            let asked = Request { size, alignment, fill, words: [size, alignment] };
            let start = full.allocate(&land, &asked).expect("room");
            assert!(start.is_multiple_of(alignment.max(16)), "{start:x} {alignment}");
            assert!(land.holds(start, size, if size % 2 == 0 { 0 } else { 0xCE }), "{size} {alignment}");
            assert!(land.holds(start - 16, 16, SLACK_FILL) && land.holds(start + size, 48, SLACK_FILL));
            let apart = |(other, bytes): &(u64, u64)| other + bytes + 64 <= start || start + size + 64 <= *other;
            assert!(blocks.iter().all(apart), "64 bytes apart: {start:x} {size}");
            blocks.push((start, size));
            assert_eq!(full.usable(start), Some(size));
            assert_eq!(full.usable(start + 1), None);
            let block = full.lookup(start).expect("found");
            assert_eq!(
                (block.start, block.size, block.life, block.allocated),
                (start, size, Life::Live, [size, alignment])
            );
            assert_eq!(block.freed, [0, 0]);
        }
        // What is made of memory that was used before is as good.
        for (start, size) in blocks.split_off(blocks.len() / 2) {
            land.write_all(start, size, 0x55);
            full.free(&land, start, [1, 2], &mut silent).expect("freed");
        }
    }
    assert_eq!(sweep(&full, &land), []);
}

#[test]
fn what_cannot_be_is_refused() {
    let (land, full) = arena(4, limits(0, 0));
    for size in [u64::MAX, u64::MAX - 64, 1 << 62, 5 * Full::UNIT_BYTES, 4 * Full::UNIT_BYTES] {
        assert_eq!(full.allocate(&land, &request(size)), Err(Refused::TooLarge), "{size:x}");
    }
    for alignment in [0, 3, 1 << 40] {
        assert_eq!(full.allocate(&land, &Request { alignment, ..request(1) }), Err(Refused::TooLarge));
    }
    let all = full.allocate(&land, &request(4 * Full::UNIT_BYTES - 64)).expect("all of it");
    assert_eq!(full.allocate(&land, &request(1)), Err(Refused::NoRoom));
    full.free(&land, all, [0, 0], &mut silent).expect("freed");
    assert_eq!(full.allocate(&land, &request(1)), Err(Refused::NoRoom), "a run stays what it is");
    assert_eq!(full.allocate(&land, &request(4 * Full::UNIT_BYTES - 64)), Ok(all));

    // Rows come to an end as well.
    let land = Land::new(FIRST, 4 * Full::UNIT_BYTES, false);
    let full = Full::new(FIRST, land.bytes(), tables(10, 4, 4), limits(0, 0)).expect("an arena");
    assert_eq!(full.allocate(&land, &request(1)), Err(Refused::NoRoom), "a unit of small ones has more");
    assert!(full.allocate(&land, &request(20_000)).is_ok());
    assert!(Full::new(FIRST + 1, land.bytes(), tables(1, 1, 1), limits(0, 0)).is_none(), "begins at no unit");
    assert!(Full::new(FIRST, land.bytes(), tables(1, 1, 3), limits(0, 0)).is_none(), "a ring of three");
    assert!(Full::new(u64::MAX << 16, 1 << 17, tables(1, 1, 1), limits(0, 0)).is_none(), "past the last address");
}

#[test]
fn every_byte_around_a_block_is_watched_and_none_of_its_own() {
    for (first, size) in [(FIRST, 40), (FIRST, 41), (0xFFFF_0000, 40), (FIRST, 0), (FIRST, 70_000)] {
        let units = if size > 60_000 { 2 } else { 1 };
        let (land, full) = arena_at(first, units, limits(1 << 20, 100));
        let start = full.allocate(&land, &request(size)).expect("room");
        for offset in (-16..size as i64 + 48).filter(|offset| *offset < 100 || *offset > size as i64 - 100) {
            let at = start.wrapping_add_signed(offset);
            let was = land.get(at);
            land.set(at, was ^ 0x40);
            let mut list = Vec::new();
            let seen = full.check(&land, at, &mut told(&mut list)).expect("its own");
            assert_eq!((seen.start, seen.offset), (start, offset));
            let expected: Vec<Told> = match offset {
                ..0 => vec![(start, Region::HeadCanary, offset, 1)],
                _ if offset as u64 >= size => vec![(start, Region::TailCanary, offset, 1)],
                _ => vec![],
            };
            assert_eq!(list, expected);
            assert_eq!(sweep(&full, &land), expected);
            land.set(at, was);
        }
        full.free(&land, start, [7, 8], &mut silent).expect("freed");
        assert!(land.holds(start, size, FREED));
        for offset in (-16..size as i64 + 48).filter(|offset| *offset < 100 || *offset > size as i64 - 100) {
            let at = start.wrapping_add_signed(offset);
            let was = land.get(at);
            land.set(at, 0);
            let region = match offset {
                ..0 => Region::HeadCanary,
                _ if offset as u64 >= size => Region::TailCanary,
                _ => Region::Freed,
            };
            assert_eq!(sweep(&full, &land), [(start, region, offset, 1)]);
            land.set(at, was);
        }
        assert_eq!(sweep(&full, &land), []);
    }
}

#[test]
fn a_finding_says_what_was_there() {
    let (land, full) = arena(1, limits(1 << 20, 100));
    let start = full.allocate(&land, &request(24)).expect("room");
    land.set(start + 26, 1);
    land.set(start + 24, 2);
    land.set(start - 3, 9);
    let mut seen = Vec::new();
    full.free(&land, start, [7, 8], &mut |finding| seen.push(*finding)).expect("freed");
    assert_eq!(seen.len(), 2);
    let (head, tail) = (seen[0].damage, seen[1].damage);
    assert_eq!((head.region, head.offset, head.bytes), (Region::HeadCanary, -3, 1));
    assert_eq!(head.found.as_slice(), [9, SLACK_FILL, SLACK_FILL]);
    assert_eq!((tail.region, tail.offset, tail.bytes), (Region::TailCanary, 24, 3));
    assert_eq!(tail.found.as_slice(), [2, SLACK_FILL, 1, SLACK_FILL, SLACK_FILL, SLACK_FILL, SLACK_FILL, SLACK_FILL]);
    assert_eq!(tail.expected.as_slice(), [SLACK_FILL; 8]);
    land.set(start + 23, 0);
    seen.clear();
    assert_eq!(full.drain(&land, 10, &mut |finding| seen.push(*finding)), 1);
    assert_eq!(seen[0].damage.expected.as_slice(), [FREED]);
    assert_eq!((seen[0].block.allocated, seen[0].block.freed, seen[0].block.life), ([24, !24], [7, 8], Life::Freed));
}

#[test]
fn a_free_of_anything_else_is_told_apart() {
    let (land, full) = arena(8, limits(1 << 20, 100));
    let start = full.allocate(&land, &request(100)).expect("room");
    let free = |address| full.free(&land, address, [3, 4], &mut silent);
    for address in [0, FIRST - 1, FIRST + Full::UNIT_BYTES, land.end(), u64::MAX, start + 2000] {
        assert_eq!(free(address), Err(NotFreed::NotOurs), "{address:x}");
    }
    for offset in [-16, -1, 1, 99, 100, 147] {
        match free(start.wrapping_add_signed(offset)) {
            Err(NotFreed::Interior(block)) => {
                assert_eq!((block.start, block.offset, block.life), (start, offset, Life::Live));
                let position = match offset {
                    ..0 => Position::Before(offset.unsigned_abs()),
                    0..100 => Position::Inside(offset as u64),
                    _ => Position::Behind(offset as u64 - 100),
                };
                assert_eq!(block.position(), position);
            }
            other => panic!("{offset}: {other:?}"),
        }
    }
    let block = full.lookup(start).expect("a block");
    assert_eq!((block.start, block.size, block.life), (start, 100, Life::Live));
    free(start).expect("freed");
    for _ in 0..2 {
        match free(start) {
            Err(NotFreed::Again(block)) => {
                assert_eq!((block.life, block.allocated, block.freed), (Life::Freed, [100, !100], [3, 4]));
            }
            other => panic!("{other:?}"),
        }
        assert!(matches!(free(start + 1), Err(NotFreed::Interior(block)) if block.life == Life::Freed));
    }
    assert_eq!(full.drain(&land, 10, &mut silent), 1);
    assert!(matches!(free(start), Err(NotFreed::Again(block)) if block.life == Life::Released));
    assert_eq!(full.allocate(&land, &request(100)), Ok(start));
    free(start).expect("another block");
    let again = full.lookup(start).expect("it waits");
    assert_ne!(again.life_number, block.life_number);
}

#[test]
fn freed_blocks_wait_their_turn_within_the_limits() {
    // Three blocks by number, then by bytes.
    for limits in [limits(1 << 20, 3), limits(3 * (64 + 64 + Full::WAITING_BYTES), 100)] {
        let (land, full) = arena(2, limits);
        let blocks: Vec<u64> = (0..6).map(|_| full.allocate(&land, &request(64)).expect("room")).collect();
        for block in &blocks[..3] {
            full.free(&land, *block, [0, 0], &mut silent).expect("freed");
        }
        for block in &blocks {
            land.set(block + 5, 0);
        }
        for (gone, freed) in blocks.iter().zip(&blocks[3..]) {
            let mut list = Vec::new();
            full.free(&land, *freed, [0, 0], &mut told(&mut list)).expect("freed");
            assert_eq!(list, [(*gone, Region::Freed, 5, 1)], "the oldest goes, and what was written to it is told");
            assert_eq!(full.lookup(*gone).map(|block| block.life), Some(Life::Released));
            assert_eq!(full.counts().waiting_blocks, 3);
        }
        full.set_limits(1 << 20, 1);
        assert_eq!(full.drain(&land, 2, &mut silent), 2);
        assert_eq!((full.counts().waiting_blocks, full.counts().waiting_bytes), (1, 64 + 64));
        // What is larger than all that may wait does not drive out everything else.
        full.set_limits(1000, 100);
        let large = full.allocate(&land, &request(1000)).expect("room");
        full.free(&land, large, [0, 0], &mut silent).expect("freed");
        assert_eq!((full.counts().waiting_blocks, full.counts().not_kept), (1, 1));
    }
}

#[test]
fn large_blocks_give_their_memory_back_and_zeros_are_zeros() {
    let size = 300_000;
    let zeros = Request { fill: Fill::Zero, ..request(size) };
    for no_discard in [false, true] {
        let (land, full) = arena(16, limits(0, 0));
        land.no_discard.store(no_discard, std::sync::atomic::Ordering::Relaxed);
        let start = full.allocate(&land, &zeros).expect("room");
        land.write_all(start, size, 1);
        full.free(&land, start, [0, 0], &mut silent).expect("freed");
        let kept = (start..start + size).any(|at| land.get(at) != 0);
        assert_eq!(kept, no_discard);
        assert_eq!(full.allocate(&land, &zeros), Ok(start));
        assert!(land.holds(start, size, 0));
        assert_eq!(sweep(&full, &land), []);
    }
}

#[test]
fn fills_are_bounded() {
    let land = Land::new(FIRST, 4 * Full::UNIT_BYTES, false);
    let bounded = Limits { fill_bytes_max: 100, ..limits(1 << 20, 10) };
    let full = Full::new(FIRST, land.bytes(), tables(1000, 4, 32), bounded).expect("an arena");
    let start = full.allocate(&land, &request(1000)).expect("room");
    assert!(land.holds(start, 100, 0xCE) && land.holds(start + 100, 900, 0));
    land.write_all(start, 1000, 1);
    full.free(&land, start, [0, 0], &mut silent).expect("freed");
    assert!(land.holds(start, 100, FREED) && land.holds(start + 100, 900, 1));
    land.set(start + 100, 2);
    assert_eq!(sweep(&full, &land), []);
    land.set(start + 99, 2);
    assert_eq!(sweep(&full, &land), [(start, Region::Freed, 99, 1)]);
}

#[test]
fn neighbours_are_known() {
    let (land, full) = arena(4, limits(0, 0));
    let size = 16_000;
    let mut blocks: Vec<u64> = (0..6).map(|_| full.allocate(&land, &request(size)).expect("room")).collect();
    blocks.sort_unstable();
    for pair in blocks.windows(2) {
        let [one, other] = [pair[0], pair[1]].map(|start| full.lookup(start).expect("live"));
        assert_eq!(full.after(&one).map(|block| block.start), Some(other.start));
        let before = full.before(&other).expect("one");
        assert_eq!((before.start, before.offset), (one.start, (other.start - one.start) as i64));
    }
    assert_eq!(full.before(&full.lookup(blocks[0]).expect("live")), None);
}

#[test]
fn who_leaves_out_of_a_report_harms_nobody() {
    let (land, full) = arena(2, limits(1 << 20, 2));
    let blocks: Vec<u64> = (0..5).map(|_| full.allocate(&land, &request(32)).expect("room")).collect();
    land.set(blocks[0] + 32, 0);
    let left = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        full.free(&land, blocks[0], [0, 0], &mut |_| panic!("a longjmp of the program's"))
    }));
    assert!(left.is_err());
    assert!(matches!(full.free(&land, blocks[0], [0, 0], &mut silent), Err(NotFreed::Again(_))));
    for block in &blocks[1..] {
        full.free(&land, *block, [0, 0], &mut silent).expect("freed");
    }
    assert_eq!(full.counts().waiting_blocks, 2);
    assert_eq!(full.drain(&land, 10, &mut silent), 2);
    let again: Vec<u64> = (0..500).map(|_| full.allocate(&land, &request(32)).expect("room")).collect();
    assert!(!again.contains(&blocks[0]), "that one is lost, and nothing else");
    assert!(blocks[1..].iter().all(|block| again.contains(block)));
}

/// While one call is in the middle, a signal handler makes others.
struct Interrupted<'a>(&'a Land, &'a Full);

impl heapledger_guard::Memory for Interrupted<'_> {
    fn read<const BYTES: usize>(&self, address: u64) -> Option<[u8; BYTES]> {
        self.handler();
        self.0.read(address)
    }

    fn write<const BYTES: usize>(&self, address: u64, bytes: [u8; BYTES]) -> Option<()> {
        self.handler();
        self.0.write(address, bytes)
    }
}

impl System for Interrupted<'_> {
    fn close(&self, first: u64, bytes: u64) -> bool {
        self.0.close(first, bytes)
    }

    fn open(&self, first: u64, bytes: u64) -> bool {
        self.0.open(first, bytes)
    }

    fn discard(&self, first: u64, bytes: u64) -> bool {
        self.handler();
        self.0.discard(first, bytes)
    }
}

impl Interrupted<'_> {
    fn handler(&self) {
        let start = self.1.allocate(self.0, &request(50)).expect("room");
        self.0.write_all(start, 50, 0x77);
        self.1.free(self.0, start, [0, 0], &mut silent).expect("freed");
    }
}

#[test]
fn a_signal_handler_in_the_middle_of_a_call_harms_nobody() {
    let (land, full) = arena(32, limits(2000, 4));
    let interrupted = Interrupted(&land, &full);
    for size in [50, 40, 0, 50, 300_000] {
        let start = full.allocate(&interrupted, &request(size)).expect("room");
        assert!(land.holds(start, size, 0xCE));
        full.free(&interrupted, start, [0, 0], &mut silent).expect("freed");
        assert!(matches!(full.free(&interrupted, start, [0, 0], &mut silent), Err(NotFreed::Again(_))));
    }
    assert!(full.counts().waiting_blocks <= 4);
    assert_eq!(sweep(&full, &land), []);
}

#[test]
fn blocks_that_are_made_one_after_the_other_lie_one_behind_the_other() {
    const COUNT: usize = 600;
    let (land, full) = arena(4, limits(0, 0));
    let mut random = Random(7);
    for round in 0..20 {
        let mut blocks: Vec<u64> = (0..COUNT).map(|_| full.allocate(&land, &request(40)).expect("room")).collect();
        // A unit has 585 runs of this size, in ten groups.
        let turns = blocks.windows(2).filter(|pair| pair[1] < pair[0]).count();
        assert!(turns <= COUNT / 64 + 2, "{turns} in round {round}");
        while !blocks.is_empty() {
            let one = blocks.swap_remove(random.below(blocks.len() as u64) as usize);
            full.free(&land, one, [1, 2], &mut silent).expect("freed");
        }
    }
    assert_eq!(full.counts().range_bytes, 2 * Full::UNIT_BYTES, "what is freed is used again");
}

#[test]
fn where_memory_is_used_up_nothing_is_left_unused() {
    let (land, full) = arena(2, limits(0, 0));
    let all: Vec<u64> = std::iter::from_fn(|| full.allocate(&land, &request(40)).ok()).collect();
    assert!(all.len() > 1000 && full.counts().range_bytes == 2 * Full::UNIT_BYTES);
    let free = |block: u64| full.free(&land, block, [1, 2], &mut silent).expect("freed");
    let make = || full.allocate(&land, &request(40));
    // Far too few of each group to be worth while. When the last block was refused, that was known.
    for step in [100, 60, 1] {
        let some: Vec<u64> = all.iter().copied().step_by(step).collect();
        some.iter().copied().for_each(free);
        let mut again: Vec<u64> = some.iter().map(|_| make().expect("what was freed")).collect();
        again.sort_unstable();
        assert_eq!((again, make()), (some, Err(Refused::NoRoom)));
    }
}

#[test]
fn a_large_block_that_finds_no_room_says_nothing_of_small_ones() {
    let (land, full) = arena(4, limits(0, 0));
    let make = || full.allocate(&land, &request(40));
    let all: Vec<u64> = (0..585).map(|_| make().expect("room")).collect();
    assert_eq!(full.allocate(&land, &request(4 * Full::UNIT_BYTES - 64)), Err(Refused::NoRoom));
    full.free(&land, all[100], [1, 2], &mut silent).expect("freed");
    assert_ne!(make().expect("room"), all[100], "it is not worth while");
    assert_eq!(full.counts().range_bytes, 2 * Full::UNIT_BYTES);
}

#[test]
fn what_was_left_unused_is_found_when_memory_is_used_up() {
    let (land, full) = arena(2, limits(0, 0));
    let make = || full.allocate(&land, &request(40));
    let all: Vec<u64> = (0..585).map(|_| make().expect("room")).collect();
    for block in all.iter().step_by(100) {
        full.free(&land, *block, [1, 2], &mut silent).expect("freed");
    }
    // All of the second unit, and the six of the first one.
    let more: Vec<u64> = std::iter::from_fn(|| make().ok()).collect();
    assert_eq!(more.len(), 585 + 6);
    assert!(all.iter().step_by(100).all(|block| more.contains(block)));
}

#[test]
fn what_is_sealed_goes_on_with_what_there_is() {
    let (land, full) = arena(64, limits(0, 0));
    let blocks: Vec<u64> = (0..100).map(|_| full.allocate(&land, &request(40)).expect("room")).collect();
    let used = full.seal();
    assert_eq!((full.seal(), full.counts().range_bytes, full.counts().slots), (used, used.bytes, used.slots));
    assert!(used.bytes < land.bytes() && used.units * Full::UNIT_BYTES == used.bytes && used.slots >= 100);
    assert_eq!(full.allocate(&land, &request(100_000)), Err(Refused::NoRoom));
    assert!(full.lookup(FIRST + used.bytes).is_none() && !full.contains(FIRST + used.bytes));
    let left = std::iter::from_fn(|| full.allocate(&land, &request(40)).ok()).count();
    assert!(left < 3000, "those that were cut");
    for block in &blocks {
        full.free(&land, *block, [0; 2], &mut silent).expect("freed");
    }
    assert_eq!(std::iter::from_fn(|| full.allocate(&land, &request(40)).ok()).count(), blocks.len());
    assert_eq!(sweep(&full, &land), []);
}
