//! Both arenas against a plain model: any order of calls, any damage, and each answer is the model's.

mod land;

use std::collections::VecDeque;

use heapledger_guard::{
    Closed, ClosedLimits, Cursor, Fill, Full, Life, Limits, NotFreed, Refused, Region, Request, Side, System,
};
use land::{Land, PAGE, Told, tables, told};
use proptest::prelude::*;

const FIRST: u64 = 0x7F00_0000_0000;
const FREED: u8 = 0xFE;

#[derive(Clone, Debug)]
enum Step {
    Allocate {
        size: u64,
        alignment_log2: u32,
        zero: bool,
        ends: bool,
    },
    /// Of the live block at this place of the list.
    Free(usize),
    FreeAgain(usize),
    FreeInside(usize, u64),
    /// A byte of a live block's own.
    Write(usize, u64),
    /// A byte in front of it (of 16) or behind it (of 48).
    Overrun(usize, i64),
    /// A byte of a freed block, or around it.
    WriteAfterFree(usize, u64),
    Lookup(usize, i64),
    Sweep,
    Drain,
}

fn size() -> impl Strategy<Value = u64> {
    prop_oneof![6 => 0..200u64, 3 => 200..5000u64, 1 => 5000..70_000u64]
}

fn step() -> impl Strategy<Value = Step> {
    let place = 0..1000usize;
    prop_oneof![
        8 => (size(), 0..14u32, any::<bool>(), any::<bool>())
            .prop_map(|(size, alignment_log2, zero, ends)| Step::Allocate { size, alignment_log2, zero, ends }),
        6 => place.clone().prop_map(Step::Free),
        1 => place.clone().prop_map(Step::FreeAgain),
        1 => (place.clone(), 1..5000u64).prop_map(|(place, offset)| Step::FreeInside(place, offset)),
        2 => (place.clone(), any::<u64>()).prop_map(|(place, at)| Step::Write(place, at)),
        2 => (place.clone(), -16..48i64).prop_map(|(place, at)| Step::Overrun(place, at)),
        2 => (place.clone(), any::<u64>()).prop_map(|(place, at)| Step::WriteAfterFree(place, at)),
        3 => (place, -16..5000i64).prop_map(|(place, at)| Step::Lookup(place, at)),
        1 => Just(Step::Sweep),
        1 => Just(Step::Drain),
    ]
}

#[derive(Clone, Debug)]
struct Block {
    start: u64,
    size: u64,
    words: [u64; 2],
    freed: [u64; 2],
    /// Bytes of its own that were written, in front, behind.
    damaged: Vec<i64>,
}

impl Block {
    fn told(&self, region: Region) -> Option<Told> {
        let size = self.size as i64;
        let part = |offset: &&i64| match region {
            Region::HeadCanary => **offset < 0,
            Region::TailCanary => **offset >= size,
            _ => (0..size).contains(*offset),
        };
        let (first, last) = (self.damaged.iter().filter(part).min()?, self.damaged.iter().filter(part).max()?);
        Some((self.start, region, *first, (last - first) as u64 + 1))
    }

    /// Of one that waits.
    fn freed_told(&self) -> Vec<Told> {
        self.edges_told().into_iter().chain(self.told(Region::Freed)).collect()
    }

    fn edges_told(&self) -> Vec<Told> {
        [Region::HeadCanary, Region::TailCanary].into_iter().filter_map(|region| self.told(region)).collect()
    }
}

/// What the model has of either arena.
#[derive(Default)]
struct Model {
    live: Vec<Block>,
    waiting: VecDeque<Block>,
    number: u64,
}

impl Model {
    fn next(&mut self) -> [u64; 2] {
        self.number += 1;
        [self.number, !self.number]
    }

    /// Beside everything that is live or waits.
    fn is_apart(&self, start: u64, size: u64, gap: u64) -> bool {
        let apart = |other: &Block| other.start + other.size + gap <= start || start + size + gap <= other.start;
        self.live.iter().chain(&self.waiting).all(apart)
    }

    fn live_at(&self, place: usize) -> Option<usize> {
        place.checked_rem(self.live.len())
    }

    fn waiting_at(&self, place: usize) -> Option<usize> {
        place.checked_rem(self.waiting.len())
    }
}

fn sorted(mut list: Vec<Told>) -> Vec<Told> {
    list.sort_by_key(|(start, region, offset, _)| (*start, *region as u8, *offset));
    list
}

fn full(steps: &[Step], quarantine_bytes: u64, quarantine_blocks: u64) {
    const UNITS: u64 = 200;
    let land = Land::new(FIRST, UNITS * Full::UNIT_BYTES, false);
    let limits = Limits { quarantine_bytes, quarantine_blocks, fill_bytes_max: u64::MAX, freed_fill: FREED };
    let arena = Full::new(FIRST, land.bytes(), tables(60_000, UNITS, 64), limits).expect("an arena");
    let mut model = Model::default();
    let weight = |block: &Block| block.size.next_multiple_of(16) + 64 + Full::WAITING_BYTES;
    for step in steps {
        let mut list = Vec::new();
        match *step {
            Step::Allocate { size, alignment_log2, zero, .. } => {
                let words = model.next();
                let fill = if zero { Fill::Zero } else { Fill::Byte(0xCE) };
                let alignment = 1 << alignment_log2;
                let start = arena.allocate(&land, &Request { size, alignment, fill, words }).expect("room");
                assert!(start.is_multiple_of(alignment.max(16)) && model.is_apart(start, size, 64));
                assert!(land.holds(start, size, if zero { 0 } else { 0xCE }));
                model.live.push(Block { start, size, words, freed: [0; 2], damaged: Vec::new() });
            }
            Step::Free(place) => {
                let Some(place) = model.live_at(place) else { continue };
                let mut block = model.live.swap_remove(place);
                block.freed = model.next();
                let freed = arena.lookup(block.start).expect("a block");
                arena.free(&land, block.start, block.freed, &mut told(&mut list)).expect("freed");
                assert_eq!((freed.start, freed.size, freed.allocated), (block.start, block.size, block.words));
                let mut expected = block.edges_told();
                block.damaged.clear();
                if weight(&block) <= quarantine_bytes && quarantine_blocks > 0 {
                    model.waiting.push_back(block);
                }
                // As many go for one as it needs, and no more than sixteen.
                for _ in 0..16 {
                    let bytes = model.waiting.iter().map(weight).sum::<u64>();
                    if model.waiting.len() as u64 > quarantine_blocks.min(32) || bytes > quarantine_bytes {
                        expected.extend(model.waiting.pop_front().iter().flat_map(Block::freed_told));
                    }
                }
                assert_eq!(list, expected);
                continue;
            }
            Step::Sweep => {
                let mut cursor = Cursor::default();
                while !arena.sweep(&land, &mut cursor, 100, 50_000, &mut told(&mut list)) {}
                let freed = model.waiting.iter().flat_map(Block::freed_told);
                let expected = model.live.iter().flat_map(Block::edges_told).chain(freed).collect();
                assert_eq!(sorted(list), sorted(expected));
                continue;
            }
            Step::Drain => {
                let gone = arena.drain(&land, 3, &mut told(&mut list));
                let expected: Vec<Told> =
                    (0..gone).flat_map(|_| model.waiting.pop_front().expect("as many wait").freed_told()).collect();
                assert!(gone == 3 || model.waiting.is_empty());
                assert_eq!(list, expected);
                continue;
            }
            Step::WriteAfterFree(place, at) => {
                let Some(place) = model.waiting_at(place) else { continue };
                let block = &mut model.waiting[place];
                let at = (at % (block.size + 64)) as i64 - 16;
                land.set(block.start.wrapping_add_signed(at), 0x11);
                block.damaged.push(at);
            }
            Step::Overrun(place, at) => {
                let Some(place) = model.live_at(place) else { continue };
                let block = &mut model.live[place];
                let offset = if at < 0 { at } else { block.size as i64 + at };
                land.set(block.start.wrapping_add_signed(offset), 0x11);
                block.damaged.push(offset);
            }
            ref other => common(
                other,
                &mut model,
                &land,
                |address| arena.lookup(address),
                |address, words| arena.free(&land, address, words, &mut told(&mut list)),
            ),
        }
        assert_eq!(list, [], "{step:?}");
    }
}

fn closed(steps: &[Step], born_closed: bool, limits: ClosedLimits) {
    const PAGES: u64 = 4000;
    let land = Land::new(FIRST, PAGES * PAGE, born_closed);
    let arena = Closed::new((FIRST, land.bytes()), PAGE, born_closed, tables(2000, PAGES, 64), limits);
    let arena = arena.expect("an arena");
    let mut model = Model::default();
    let data = |block: &Block| block.size.next_multiple_of(PAGE);
    for step in steps {
        let mut list = Vec::new();
        match *step {
            Step::Allocate { size, alignment_log2, zero, ends } => {
                let words = model.next();
                let fill = if zero { Fill::Zero } else { Fill::Byte(0xCE) };
                let side = if ends { Side::EndsAtPage } else { Side::BeginsAtPage };
                let alignment = 1 << alignment_log2;
                let bytes = model.live.iter().map(data).sum::<u64>() + size.next_multiple_of(PAGE);
                let fits = (model.live.len() as u64) < limits.live_blocks && bytes <= limits.live_bytes;
                let start = match arena.allocate(&land, &Request { size, alignment, fill, words }, side) {
                    Ok(start) => start,
                    Err(refused) => {
                        assert!(refused == Refused::Budget && !fits, "{refused:?}");
                        continue;
                    }
                };
                // What waits stays closed, so no block lies there.
                assert!(fits && start.is_multiple_of(alignment) && model.is_apart(start, size, 1));
                assert!(size == 0 || land.holds(start, size, if zero { 0 } else { 0xCE }));
                model.live.push(Block { start, size, words, freed: [0; 2], damaged: Vec::new() });
            }
            Step::Free(place) => {
                let Some(place) = model.live_at(place) else { continue };
                let mut block = model.live.swap_remove(place);
                block.freed = model.next();
                arena.free(&land, block.start, block.freed, &mut told(&mut list)).expect("freed");
                assert_eq!(list, block.edges_told());
                let run = arena.lookup(block.start).map_or(Life::Live, |block| block.life);
                if run == Life::Freed {
                    model.waiting.push_back(block);
                }
                let kept = arena.counts();
                let gone = model.waiting.len() - kept.freed_blocks as usize;
                let within = kept.freed_blocks <= limits.freed_blocks && kept.freed_bytes <= limits.freed_bytes;
                assert!(within || gone == 16, "as many go for one as it needs, and no more than sixteen");
                model.waiting.drain(..gone);
                list.clear();
            }
            Step::Sweep => {
                let mut cursor = Cursor::default();
                while !arena.sweep(&land, &mut cursor, 10, 50_000, &mut told(&mut list)) {}
                assert_eq!(sorted(list), sorted(model.live.iter().flat_map(Block::edges_told).collect()));
                continue;
            }
            Step::Drain => {
                for _ in 0..arena.drain(&land, 3) {
                    model.waiting.pop_front().expect("as many wait");
                }
            }
            Step::WriteAfterFree(..) => {}
            Step::Overrun(place, at) => {
                let Some(place) = model.live_at(place) else { continue };
                let block = &mut model.live[place];
                let offset = if at < 0 { at } else { block.size as i64 + at };
                let address = block.start.wrapping_add_signed(offset);
                // Elsewhere it is a fault.
                if block.size > 0 && !land.is_closed(address) {
                    land.set(address, 0x11);
                    block.damaged.push(offset);
                }
            }
            ref other => common(
                other,
                &mut model,
                &land,
                |address| arena.lookup(address),
                |address, words| arena.free(&land, address, words, &mut told(&mut list)),
            ),
        }
        assert_eq!(list, [], "{step:?}");
        let used = FIRST + arena.counts().range_bytes;
        let open = (FIRST..used).step_by(PAGE as usize).filter(|page| !land.is_closed(*page)).count() as u64;
        assert_eq!(open * PAGE, model.live.iter().map(data).sum::<u64>(), "all is closed but the pages of live blocks");
        assert!(model.live.iter().all(|block| block.size == 0 || !land.is_closed(block.start)));
    }
}

/// Steps that mean the same for both.
fn common(
    step: &Step,
    model: &mut Model,
    land: &impl System,
    lookup: impl Fn(u64) -> Option<heapledger_guard::Found>,
    mut free: impl FnMut(u64, [u64; 2]) -> Result<(), NotFreed>,
) {
    match *step {
        Step::FreeAgain(place) => {
            let Some(place) = model.waiting_at(place) else { return };
            let block = &model.waiting[place];
            match free(block.start, [0, 0]) {
                Err(NotFreed::Again(found)) => {
                    assert_eq!((found.start, found.size, found.life), (block.start, block.size, Life::Freed));
                    assert_eq!((found.allocated, found.freed), (block.words, block.freed));
                }
                other => panic!("{other:?}"),
            }
        }
        Step::FreeInside(place, offset) => {
            let Some(place) = model.live_at(place) else { return };
            let block = &model.live[place];
            let Some(offset) = offset.checked_rem(block.size).filter(|offset| *offset > 0) else { return };
            match free(block.start + offset, [0, 0]) {
                Err(NotFreed::Interior(found)) => assert_eq!((found.start, found.offset), (block.start, offset as i64)),
                other => panic!("{other:?}"),
            }
        }
        Step::Write(place, at) => {
            let Some(place) = model.live_at(place) else { return };
            let block = &model.live[place];
            let Some(at) = at.checked_rem(block.size) else { return };
            land.write(block.start + at, [0x22]).expect("it is the program's");
        }
        Step::Lookup(place, at) => {
            let Some(place) = model.live_at(place) else { return };
            let block = &model.live[place];
            // In the block, just in front of it, or just behind it.
            let offset = if at < 0 { at } else { at % (block.size as i64 + 16) };
            let found = lookup(block.start.wrapping_add_signed(offset)).expect("beside a block");
            assert_eq!((found.start, found.size, found.life), (block.start, block.size, Life::Live));
            assert_eq!((found.offset, found.allocated, found.freed), (offset, block.words, [0, 0]));
        }
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn full_is_as_the_model(
        steps in prop::collection::vec(step(), 1..300),
        bytes in prop_oneof![Just(0u64), 100..5000u64, Just(u64::MAX)],
        blocks in 0..40u64,
    ) {
        full(&steps, bytes, blocks);
    }

    #[test]
    fn closed_is_as_the_model(
        steps in prop::collection::vec(step(), 1..200),
        born_closed in any::<bool>(),
        live_blocks in prop_oneof![Just(u64::MAX), 1..20u64],
        live_bytes in prop_oneof![Just(u64::MAX), 1..200_000u64],
        freed_blocks in 0..32u64,
        freed_bytes in prop_oneof![Just(u64::MAX), 0..200_000u64],
    ) {
        let limits = ClosedLimits { live_blocks, live_bytes, freed_blocks, freed_bytes, fill_bytes_max: u64::MAX };
        closed(&steps, born_closed, limits);
    }
}
