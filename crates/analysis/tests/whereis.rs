//! Addresses are found in one pass as they would be one by one.

use heapledger_analysis::whereis::{Found, KnownAddresses};
use heapledger_format::{Entry, Kind, Site, TallyCounter, ThreadRow, Ticks};
use heapledger_source::Ledger;
use heapledger_testing::{Builder, freed_at};

fn entry(number: u64, address: u64, size: u64, actual: Option<u64>) -> Entry {
    Entry {
        number,
        address,
        size: Some(size),
        actual,
        kind: Kind::MALLOC,
        site: Site::NONE,
        thread: Some(ThreadRow(0)),
        heap: Some(0),
        time: Some(Ticks(number)),
        ..Entry::NONE
    }
}

fn open(name: &str, builder: &Builder) -> Ledger {
    let path = std::env::temp_dir().join(format!("heapledger-whereis-{name}-{}", std::process::id()));
    builder.write(&path).expect("written");
    let ledger = Ledger::open(&path).expect("a ledger");
    std::fs::remove_file(&path).expect("removed");
    ledger
}

fn look(ledger: &Ledger, addresses: &[u64], lives: usize) -> KnownAddresses {
    KnownAddresses::of(ledger, addresses, lives, &mut |_| {}).expect("readable")
}

#[test]
fn inside_behind_freed_and_nothing() {
    let mut builder = Builder::new();
    builder.heap("arenas", 0x1000, 0x9000);
    builder.entry(entry(5, 0x1100, 0x30, Some(0x38))).entry(entry(9, 0x1180, 0, Some(0x18)));
    // An address with two lives, and one that began before it.
    builder.freed(freed_at(entry(1, 0x1200, 0x40, None), 2));
    builder.freed(freed_at(entry(3, 0x11f0, 0x20, None), 4));
    builder.freed(freed_at(entry(6, 0x1200, 0x10, None), 8));
    builder.tally(TallyCounter::Frees, 10);
    let ledger = open("kinds", &builder);
    let places = look(&ledger, &[0x1100, 0x112f, 0x1130, 0x1138, 0x1180, 0x1208, 0x5000, 0x10], 2);
    let found: Vec<Found> = places.places.iter().map(|place| place.found).collect();
    let expected = [
        Found::Inside(0),
        Found::Inside(0x2f),
        Found::Behind(0),
        Found::Nothing,
        Found::Behind(0),
        Found::Freed,
        Found::Nothing,
        Found::Nothing,
    ];
    assert_eq!(found, expected);
    assert!(!places.all_in_blocks());
    // The builder counts the three itself.
    assert_eq!(places.frees_missing, 10);
    let place = &places.places[5];
    assert_eq!(place.lives.iter().map(|life| life.number).collect::<Vec<_>>(), [8, 4]);
    assert_eq!(place.lives_left_out, 1);
    assert_eq!(place.before.map(|entry| entry.number), Some(9));
    assert_eq!(place.distance_before(), Some(0x1208 - 0x1198));
    assert_eq!(place.after, None);
    assert_eq!(place.heap.as_ref().map(|heap| heap.name.as_str()), Some("arenas"));
    let first = &places.places[0];
    assert_eq!((first.before, first.after.map(|entry| entry.number)), (None, Some(9)));
    assert_eq!(first.distance_after(), Some(0x1180 - 0x1138));
    assert_eq!(places.places[7].heap, None);
    assert_eq!(look(&ledger, &[0x1208], 0).places[0].lives.len(), 3);
}

#[test]
fn as_one_by_one() {
    let mut state = 7u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut builder = Builder::new();
    let mut blocks = Vec::new();
    let mut at = 0x1000;
    for _ in 0..500 {
        at += random(64);
        let size = random(100);
        blocks.push(entry(0, at, size, Some(size + random(8))));
        at += size + 8;
    }
    // Records lie in no order.
    for index in (1..blocks.len()).rev() {
        blocks.swap(index, random(index as u64 + 1) as usize);
    }
    for (number, block) in blocks.iter_mut().enumerate() {
        block.number = number as u64;
        builder.entry(*block);
    }
    let addresses: Vec<u64> = (0..400).map(|_| 0xfc0 + random(at - 0xf80)).collect();
    let ledger = open("random", &builder);
    let places = look(&ledger, &addresses, 1);
    blocks.sort_by_key(|block| block.address);
    for (place, address) in places.places.iter().zip(&addresses) {
        let end = |block: &Entry| block.address + block.actual.unwrap_or(0).max(1);
        let inside = blocks.iter().position(|block| block.address <= *address && *address < end(block));
        let begun = blocks.iter().filter(|block| block.address <= *address).count();
        let first = inside.unwrap_or(begun);
        assert_eq!(place.block, inside.map(|index| blocks[index]), "{address:#x}");
        assert_eq!(place.before, first.checked_sub(1).map(|index| blocks[index]), "{address:#x}");
        let after = blocks.get(begun);
        assert_eq!(place.after, after.copied(), "{address:#x}");
    }
}

#[test]
fn heaps_reach_as_far_as_their_blocks() {
    // The rows were written before the last blocks began, as in the ledger of a program that was killed.
    let mut builder = Builder::new();
    builder.heap("brk heap", 0x1000, 0x2000).heap("arenas", u64::MAX, 0).heap("large mappings", 0x9000, 0xa000);
    builder.entry(entry(1, 0x1010, 0x10, Some(0x18))).entry(entry(2, 0x4000, 0x20, Some(0x28)));
    builder.entry(Entry { heap: Some(1), ..entry(3, 0x7000, 0x10, None) });
    let ledger = open("extents", &builder);
    let places = look(&ledger, &[0x3000, 0x4027, 0x4028, 0x7000, 0x7010, 0x9800], 1);
    let heaps = places.places.iter().map(|place| place.heap.as_ref().map(|heap| (heap.row, heap.low, heap.high)));
    let (brk, arenas) = (Some((0, 0x1000, 0x4028)), Some((1, 0x7000, 0x7010)));
    assert_eq!(heaps.collect::<Vec<_>>(), [brk, brk, None, arenas, None, Some((2, 0x9000, 0xa000))]);
}
