//! Blocks of the level `page`: which pages are closed when, and what is found of damage.

mod land;

use std::cell::RefCell;
use std::sync::atomic::Ordering;

use heapledger_guard::{
    Closed, ClosedLimits, Cursor, Fill, Life, Memory, NotFreed, Refused, Region, Request, SLACK_FILL, Side, System,
};
use land::{Land, PAGE, Told, silent, tables, told};

const FIRST: u64 = 0x20_0000_0000;
const ALL: ClosedLimits = ClosedLimits {
    live_blocks: u64::MAX,
    live_bytes: u64::MAX,
    freed_blocks: u64::MAX,
    freed_bytes: u64::MAX,
    fill_bytes_max: u64::MAX,
};
const SIDES: [Side; 2] = [Side::EndsAtPage, Side::BeginsAtPage];

fn arena(pages: u64, born_closed: bool, limits: ClosedLimits) -> (Land, Closed) {
    arena_at(FIRST, pages, born_closed, limits)
}

fn arena_at(first: u64, pages: u64, born_closed: bool, limits: ClosedLimits) -> (Land, Closed) {
    let land = Land::new(first, pages * PAGE, born_closed);
    let closed = Closed::new((first, land.bytes()), PAGE, born_closed, tables(2000, pages, 4096), limits);
    (land, closed.expect("an arena"))
}

fn request(size: u64, alignment: u64) -> Request {
    Request { size, alignment, fill: Fill::Byte(0xCE), words: [size, alignment] }
}

fn plain(size: u64) -> Request {
    request(size, 16)
}

fn sweep(closed: &Closed, land: &impl System) -> Vec<Told> {
    let (mut list, mut cursor) = (Vec::new(), Cursor::default());
    while !closed.sweep(land, &mut cursor, 3, 1000, &mut told(&mut list)) {}
    list
}

#[test]
fn a_block_stands_at_a_closed_page() {
    for born_closed in [false, true] {
        let (land, closed) = arena(6000, born_closed, ALL);
        let mut live = Vec::new();
        for (size, alignment) in [0, 1, 15, 16, 17, 100, 4095, 4096, 4097, 8192, 20_000, 100_001]
            .iter()
            .flat_map(|size| [1, 4, 16, 64, 4096, 8192, 1 << 18].map(|alignment| (*size, alignment)))
        {
            for side in SIDES {
                let start = closed.allocate(&land, &request(size, alignment), side).expect("room");
                let end = start + size;
                assert!(start.is_multiple_of(alignment), "{size} {alignment}");
                let slack = size.next_multiple_of(alignment) - size;
                let pages_end = end.next_multiple_of(PAGE);
                match side {
                    Side::EndsAtPage if alignment <= PAGE => assert_eq!(pages_end - end, slack, "{size} {alignment}"),
                    _ => assert!(start.is_multiple_of(PAGE)),
                }
                assert!(land.is_closed(pages_end) && land.is_closed((start & !(PAGE - 1)) - 1));
                if size > 0 {
                    assert!((start..end).step_by(PAGE as usize).all(|at| !land.is_closed(at)));
                    assert!(land.holds(start, size, 0xCE) && land.holds(end, pages_end - end, SLACK_FILL));
                    assert!(land.holds(start & !(PAGE - 1), start % PAGE, SLACK_FILL), "the far side");
                } else {
                    assert!(land.is_closed(start), "nothing of it can be read");
                }
                assert_eq!(closed.usable(start), Some(size));
                let block = closed.lookup(start).expect("found");
                assert_eq!((block.start, block.allocated, block.life), (start, [size, alignment], Life::Live));
                live.push((start, size));
            }
        }
        assert_eq!(sweep(&closed, &land), []);
        let counts = closed.counts();
        assert_eq!(counts.live_blocks, live.len() as u64);
        assert_eq!(counts.live_bytes, live.iter().map(|(_, size)| size.next_multiple_of(PAGE)).sum::<u64>());
        for (start, size) in live {
            let block = closed.lookup(start).expect("a block");
            closed.free(&land, start, [5, 6], &mut silent).expect("freed");
            assert_eq!((block.start, block.size), (start, size));
            assert!((start..start + size.max(1)).step_by(PAGE as usize).all(|at| land.is_closed(at)));
        }
        assert!((FIRST..FIRST + closed.counts().range_bytes).step_by(PAGE as usize).all(|page| land.is_closed(page)));
        assert_eq!((closed.counts().live_blocks, closed.counts().live_bytes), (0, 0));
    }
}

#[test]
fn alignments_of_huge_pages() {
    let (land, closed) = arena(3000, true, ALL);
    for side in SIDES {
        let start = closed.allocate(&land, &request(5000, 2 << 20), side).expect("room");
        assert!(start.is_multiple_of(2 << 20) && land.is_closed(start - 1) && land.is_closed(start + 2 * PAGE));
        closed.free(&land, start, [0, 0], &mut silent).expect("freed");
    }
    assert_eq!(closed.allocate(&land, &request(1, 1 << 40), SIDES[0]), Err(Refused::TooLarge));
    assert_eq!(closed.allocate(&land, &request(1, 48), SIDES[0]), Err(Refused::TooLarge));
    for size in [u64::MAX, u64::MAX - PAGE, 1 << 62, 3000 * PAGE] {
        assert_eq!(closed.allocate(&land, &plain(size), SIDES[0]), Err(Refused::TooLarge), "{size:x}");
    }
}

#[test]
fn every_byte_of_slack_and_of_the_far_side_is_watched() {
    // Somewhere, and at the end of what 32 bits can address.
    for first in [FIRST, 0x1_0000_0000 - 64 * PAGE] {
        for (side, size, alignment) in [(SIDES[0], 100, 64), (SIDES[1], 100, 1), (SIDES[0], 5000, 16)] {
            let (land, closed) = arena_at(first, 64, false, ALL);
            let start = closed.allocate(&land, &request(size, alignment), side).expect("room");
            let (from, to) = (start & !(PAGE - 1), (start + size).next_multiple_of(PAGE));
            for at in from..to {
                let was = land.get(at);
                land.set(at, was ^ 1);
                let offset = at.wrapping_sub(start) as i64;
                let expected = match offset {
                    ..0 => vec![(start, Region::HeadCanary, offset, 1)],
                    _ if offset as u64 >= size => vec![(start, Region::TailCanary, offset, 1)],
                    _ => vec![],
                };
                let mut list = Vec::new();
                let seen = closed.check(&land, at, &mut told(&mut list)).expect("found");
                assert_eq!((seen.start, seen.offset), (start, offset));
                assert_eq!(list, expected);
                land.set(at, was);
            }
            land.set(to - 1, 0);
            assert_eq!(sweep(&closed, &land).len(), usize::from(to > start + size));
            let mut list = Vec::new();
            closed.free(&land, start, [0, 0], &mut told(&mut list)).expect("freed");
            assert_eq!(list.len(), usize::from(to > start + size));
        }
    }
}

#[test]
fn a_free_of_anything_else_is_told_apart() {
    let (land, closed) = arena(64, false, ALL);
    let start = closed.allocate(&land, &plain(100), Side::EndsAtPage).expect("room");
    let empty = closed.allocate(&land, &plain(0), Side::EndsAtPage).expect("room");
    for address in [0, FIRST - 1, land.end() - 1, land.end(), u64::MAX] {
        assert_eq!(closed.free(&land, address, [3, 4], &mut silent), Err(NotFreed::NotOurs), "{address:x}");
    }
    for offset in [-1, 1, 99, 100, 112, 4000] {
        let freed = closed.free(&land, start.wrapping_add_signed(offset), [3, 4], &mut silent);
        assert!(matches!(freed, Err(NotFreed::Interior(block)) if block.offset == offset), "{offset} {freed:?}");
    }
    for address in [start, empty] {
        closed.free(&land, address, [3, 4], &mut silent).expect("freed");
        match closed.free(&land, address, [5, 6], &mut silent) {
            Err(NotFreed::Again(block)) => assert_eq!((block.life, block.freed), (Life::Freed, [3, 4])),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn of_two_blocks_beside_a_closed_page_the_nearer_is_meant() {
    let (land, closed) = arena(64, false, ALL);
    let all: Vec<u64> =
        (0..4).map(|_| closed.allocate(&land, &plain(100), Side::BeginsAtPage).expect("room")).collect();
    let [low, high] = [all.iter().min().copied(), all.iter().max().copied()].map(|start| start.expect("four"));
    let next = low + 2 * PAGE;
    assert!(all.contains(&next) && high == low + 6 * PAGE);
    let lookup = |address| closed.lookup(address).map(|block| (block.start, block.offset));
    assert_eq!(lookup(low - 1), Some((low, -1)), "in front of the first");
    assert_eq!(lookup(next - 1), Some((next, -1)));
    assert_eq!(lookup(next - 2000), Some((next, -2000)));
    assert_eq!(lookup(low + 100), Some((low, 100)));
    assert_eq!(lookup(low + 4000), Some((low, 4000)), "on its own page");
    assert_eq!(closed.after(&closed.lookup(low).expect("one")).map(|block| block.start), Some(next));
    assert_eq!(closed.before(&closed.lookup(next).expect("one")).map(|block| block.start), Some(low));
    assert_eq!(closed.before(&closed.lookup(low).expect("one")), None);
    let end = closed.allocate(&land, &plain(64), Side::EndsAtPage).expect("room");
    assert_eq!(lookup(end + 64 + 10), Some((end, 74)));
}

#[test]
fn freed_runs_are_used_again_when_the_budget_is_used_up_and_not_before() {
    for limits in [ClosedLimits { freed_blocks: 5, ..ALL }, ClosedLimits { freed_bytes: 5 * 2 * PAGE, ..ALL }] {
        let (land, closed) = arena(4000, false, limits);
        let mut freed = std::collections::VecDeque::new();
        for round in 0..400 {
            let start = closed.allocate(&land, &plain(PAGE), SIDES[round % 2]).expect("room");
            assert!(!freed.contains(&start), "it is still closed");
            assert!(land.holds(start, PAGE, 0xCE));
            closed.free(&land, start, [0, 0], &mut silent).expect("freed");
            freed.push_back(start);
            if freed.len() > 5 {
                freed.pop_front();
            }
            assert!(freed.iter().all(|start| land.is_closed(*start)));
        }
        assert_eq!((closed.counts().freed_blocks, closed.counts().freed_bytes), (5, 10 * PAGE));
        assert!(closed.counts().range_bytes <= 40 * PAGE, "{:?}", closed.counts());
    }
    // Without a budget for freed ones, the range's end lets the oldest go.
    let (land, closed) = arena(33, false, ALL);
    for _ in 0..200 {
        let start = closed.allocate(&land, &plain(PAGE), SIDES[0]).expect("room");
        closed.free(&land, start, [0, 0], &mut silent).expect("freed");
    }
    assert_eq!(closed.drain(&land, 1000), 16, "all runs there are");
}

#[test]
fn what_is_live_has_its_budget() {
    let limits = ClosedLimits { live_blocks: 3, live_bytes: 4 * PAGE, ..ALL };
    let (land, closed) = arena(100, false, limits);
    let first = closed.allocate(&land, &plain(1), SIDES[0]).expect("room");
    let large = closed.allocate(&land, &plain(3 * PAGE), SIDES[0]).expect("room");
    assert_eq!(closed.allocate(&land, &plain(1), SIDES[0]), Err(Refused::Budget), "no more bytes");
    closed.allocate(&land, &plain(0), SIDES[0]).expect("it has none");
    closed.free(&land, large, [0, 0], &mut silent).expect("freed");
    closed.allocate(&land, &plain(1), SIDES[0]).expect("room");
    assert_eq!(closed.allocate(&land, &plain(1), SIDES[0]), Err(Refused::Budget), "no more blocks");
    closed.free(&land, first, [0, 0], &mut silent).expect("freed");
    closed.set_limits(ClosedLimits { live_blocks: 2, ..limits });
    assert_eq!(closed.allocate(&land, &plain(1), SIDES[0]), Err(Refused::Budget));
    closed.set_limits(limits);
    closed.allocate(&land, &plain(1), SIDES[0]).expect("room");
    assert_eq!(closed.counts().live_blocks, 3);
}

#[test]
fn a_system_that_refuses_costs_no_more_than_the_block() {
    let (land, closed) = arena(64, false, ALL);
    land.no_close.store(true, Ordering::Relaxed);
    for _ in 0..1000 {
        assert_eq!(closed.allocate(&land, &plain(1), SIDES[0]), Err(Refused::System));
    }
    assert_eq!(closed.counts(), Default::default(), "nothing of the range is lost");
    land.no_close.store(false, Ordering::Relaxed);
    let start = closed.allocate(&land, &plain(1), SIDES[0]).expect("room");
    let used = closed.counts();
    land.no_open.store(true, Ordering::Relaxed);
    for _ in 0..1000 {
        assert_eq!(closed.allocate(&land, &plain(1), SIDES[0]), Err(Refused::System));
    }
    assert_eq!(closed.counts(), used);
    land.no_open.store(false, Ordering::Relaxed);
    // A freed block that cannot be closed is not handed out before it can.
    land.no_close.store(true, Ordering::Relaxed);
    closed.free(&land, start, [0, 0], &mut silent).expect("freed");
    assert!(matches!(closed.free(&land, start, [0, 0], &mut silent), Err(NotFreed::Again(_))));
    assert_eq!((closed.counts().not_closed, closed.counts().live_blocks), (1, 0));
    assert_eq!((closed.drain(&land, 1), closed.counts().not_closed), (1, 2));
    for tries in 3..10 {
        assert_eq!(closed.allocate(&land, &plain(1), SIDES[0]), Err(Refused::System));
        assert_eq!(closed.counts().not_closed, tries);
    }
    assert_eq!(land.get(start), 0xCE);
    land.no_close.store(false, Ordering::Relaxed);
    let zero = Request { fill: Fill::Zero, ..plain(1) };
    assert_eq!(closed.allocate(&land, &zero, SIDES[0]), Ok(start));
    assert_eq!(land.get(start), 0);
}

#[test]
fn a_page_that_was_opened_after_a_fault_is_closed_again() {
    // A budget of nothing: each run goes back at once.
    for limits in [ALL, ClosedLimits { freed_blocks: 0, ..ALL }] {
        let (land, closed) = arena(64, false, limits);
        let start = closed.allocate(&land, &plain(PAGE), SIDES[0]).expect("room");
        let behind = start + PAGE;
        let block = closed.open_at(&land, behind + 8).expect("its page");
        assert_eq!((block.start, block.offset, block.opened), (start, PAGE as i64 + 8, true));
        assert!(!land.is_closed(behind));
        land.set(behind + 8, 1);
        closed.free(&land, start, [0, 0], &mut silent).expect("freed");
        assert!(land.is_closed(start) && land.is_closed(behind));

        // A use after free: the page of a block that waits, or of one that waits no more.
        assert!(closed.open_at(&land, start).is_some_and(|block| block.opened && block.life != Life::Live));
        land.set(start, 1);
        closed.drain(&land, 100);
        let again: Vec<u64> = (0..32).map_while(|_| closed.allocate(&land, &plain(PAGE), SIDES[0]).ok()).collect();
        assert!(again.contains(&start) && land.holds(start, PAGE, 0xCE));
        assert!(again.iter().all(|start| land.is_closed(start + PAGE)));
        assert_eq!(closed.lookup(start).map(|block| block.opened), Some(false));
    }
    let (land, closed) = arena(64, false, ALL);
    assert_eq!(closed.open_at(&land, FIRST), None, "there is no run");
    let start = closed.allocate(&land, &plain(1), Side::BeginsAtPage).expect("room");
    assert!(closed.open_at(&land, start - 1).is_some_and(|block| block.start == start && block.offset == -1));
    closed.free(&land, start, [0, 0], &mut silent).expect("freed");
    assert!(land.is_closed(start - 1), "the page in front of it as well");
    land.no_open.store(true, Ordering::Relaxed);
    assert_eq!(closed.open_at(&land, start), None);
}

/// While somebody looks at a block, another thread frees it.
struct Freeing<'a> {
    land: &'a Land,
    closed: &'a Closed,
    block: RefCell<Option<u64>>,
}

impl Memory for Freeing<'_> {
    fn read<const BYTES: usize>(&self, address: u64) -> Option<[u8; BYTES]> {
        if let Some(block) = self.block.borrow_mut().take_if(|block| address / PAGE == *block / PAGE) {
            self.closed.free(self.land, block, [0, 0], &mut silent).expect("freed");
            assert!(!self.land.is_closed(block), "somebody looks at it");
            assert!(matches!(self.closed.free(self.land, block, [0, 0], &mut silent), Err(NotFreed::Again(_))));
            let other = self.closed.allocate(self.land, &plain(10), SIDES[0]).expect("room");
            assert_ne!(other & !(PAGE - 1), block & !(PAGE - 1));
        }
        self.land.read(address)
    }

    fn write<const BYTES: usize>(&self, address: u64, bytes: [u8; BYTES]) -> Option<()> {
        self.land.write(address, bytes)
    }
}

impl System for Freeing<'_> {
    fn close(&self, first: u64, bytes: u64) -> bool {
        self.land.close(first, bytes)
    }

    fn open(&self, first: u64, bytes: u64) -> bool {
        self.land.open(first, bytes)
    }

    fn discard(&self, first: u64, bytes: u64) -> bool {
        self.land.discard(first, bytes)
    }
}

#[test]
fn a_block_that_is_freed_while_somebody_looks_is_closed_after_that() {
    for limits in [ALL, ClosedLimits { freed_blocks: 0, ..ALL }] {
        let (land, closed) = arena(640, false, limits);
        for sweeping in [false, true] {
            let start = closed.allocate(&land, &plain(100), SIDES[0]).expect("room");
            let system = Freeing { land: &land, closed: &closed, block: RefCell::new(Some(start)) };
            if sweeping {
                assert_eq!(sweep(&closed, &system), []);
            } else {
                closed.check(&system, start, &mut silent).expect("a block");
            }
            assert!(land.is_closed(start), "who looked has closed it");
            let life = closed.lookup(start).map(|block| block.life);
            assert_eq!(life, Some(if limits.freed_blocks == 0 { Life::Released } else { Life::Freed }));
        }
    }
}

#[test]
fn what_is_sealed_goes_on_with_what_there_is() {
    let (land, closed) = arena(512, false, ALL);
    let blocks: Vec<u64> =
        (0..20).map(|_| closed.allocate(&land, &plain(40), Side::EndsAtPage).expect("room")).collect();
    let used = closed.seal();
    assert_eq!((closed.seal(), closed.counts().range_bytes, closed.counts().slots), (used, used.bytes, used.slots));
    assert!(used.bytes < land.bytes() && used.units * PAGE == used.bytes);
    assert_eq!(closed.allocate(&land, &plain(100 * PAGE), Side::EndsAtPage), Err(Refused::NoRoom));
    assert!(closed.lookup(FIRST + used.bytes).is_none() && !closed.contains(FIRST + used.bytes));
    while closed.allocate(&land, &plain(40), Side::EndsAtPage).is_ok() {}
    for block in &blocks {
        closed.free(&land, *block, [0; 2], &mut silent).expect("freed");
    }
    // Those that have waited are handed out again, since there is nothing else.
    let again = std::iter::from_fn(|| closed.allocate(&land, &plain(40), Side::EndsAtPage).ok()).count();
    assert_eq!(again, blocks.len());
    assert_eq!(sweep(&closed, &land), []);
}
