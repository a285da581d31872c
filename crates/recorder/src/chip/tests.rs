//! The ledger's bytes as the format crate reads them. That the ordinary reader reads them too, and random
//! sequences against a model: `tests/model.rs`.

use super::*;
use core::cell::Cell;
use heapledger_format::bytes::{ByteOrder, Codec};
use heapledger_format::section::site;
use heapledger_format::{Entry, FreedEntry, Header, SectionKind, Site, ThreadRow, Ticks};
use std::println;
use std::vec;
use std::vec::Vec;

std::thread_local! {
    static NOW: Cell<u32> = const { Cell::new(0) };
    static NOTICES: Cell<(u32, u32)> = const { Cell::new((0, 0)) };
}

fn clock() -> u32 {
    NOW.get()
}

fn block(address: u32, size: u32) -> NewBlock {
    NewBlock {
        kind: Kind::MALLOC,
        address,
        size,
        actual: Some(size.checked_next_multiple_of(8).unwrap_or(size)),
        heap: 0,
    }
}

fn caller(frames: &[u32]) -> Caller<'_> {
    Caller { frames, task: None }
}

const HEAPS: &[HeapDescription] = &[
    HeapDescription { name: "internal", low: 0x2000_0000, high: 0x2000_8000 },
    HeapDescription { name: "external", low: 0x6000_0000, high: 0x6010_0000 },
];

const FULL: Config = Config {
    options: Options::ALL,
    history: 8,
    tasks: 3,
    heaps: HEAPS,
    process: b"program=firmware\0",
    machine: 40,
    tick_ns: 1_000_000,
    ..Config::minimal(20, 50)
};

/// The elements of a section that are in use.
fn elements<'a>(bytes: &'a [u8], header: &Header, kind: SectionKind) -> impl Iterator<Item = &'a [u8]> + use<'a> {
    let row = header.section(kind).copied().unwrap_or_default();
    let end = row.offset as usize + row.used as usize * row.element_bytes as usize;
    bytes[row.offset as usize..end].chunks_exact(row.element_bytes.max(1) as usize)
}

fn entries(ledger: &ChipLedger) -> Vec<Entry> {
    let header = Header::parse(ledger.bytes()).expect("a header");
    elements(ledger.bytes(), &header, SectionKind::Records)
        .filter_map(|element| Entry::read(&header.layout, header.codec, element))
        .collect()
}

fn freed(ledger: &ChipLedger) -> Vec<FreedEntry> {
    let header = Header::parse(ledger.bytes()).expect("a header");
    elements(ledger.bytes(), &header, SectionKind::History)
        .filter_map(|element| FreedEntry::read(&header.layout, header.codec, element))
        .collect()
}

fn stack(ledger: &ChipLedger, Site(mut node): Site) -> Vec<u32> {
    let header = Header::parse(ledger.bytes()).expect("a header");
    let nodes: Vec<&[u8]> = elements(ledger.bytes(), &header, SectionKind::Sites).collect();
    let mut codes = Vec::new();
    while node != 0 {
        let element = nodes[node as usize];
        codes.push(header.codec.u32(element, site::CODE));
        node = header.codec.u32(element, site::PARENT);
    }
    codes
}

/// Enters blocks until `sites` overflows; returns how many stacks found room.
fn stacks_that_fit(config: &Config, region: &mut [u8], frames: impl Fn(u32) -> [u32; 4]) -> u32 {
    let mut ledger = ChipLedger::new(region, config, clock, Notices::default()).expect("room");
    let mut fit = 0;
    for number in 0..10_000 {
        let frames = frames(number);
        ledger.allocated(&block(0x2000_0000, 8), &caller(&frames));
        if entries(&ledger)[0].site == Site::NONE {
            break;
        }
        ledger.freed(0x2000_0000, Kind::FREE, &caller(&frames));
        fit += 1;
    }
    let header = Header::parse(ledger.bytes()).expect("a header");
    assert_eq!(header.tally(TallyCounter::SitesFull), 1);
    fit
}

#[test]
fn a_minimal_ledger_of_100_records_fits_in_4_kib() {
    const RECORDS: u32 = 100;
    const BYTES: usize = 4096;
    const SITES: u32 = {
        let rest = BYTES - Config::minimal(RECORDS, 2).bytes();
        2 + (rest / site::BYTES) as u32
    };
    const CONFIG: Config = Config::minimal(RECORDS, SITES);
    const { assert!(CONFIG.bytes() <= BYTES && CONFIG.header_bytes() <= 256) };
    let mut region = [0u8; BYTES];

    let mut ledger = ChipLedger::new(&mut region, &CONFIG, clock, Notices::default()).expect("room");
    for number in 0..RECORDS {
        assert!(ledger.allocated(&block(0x2000_0000 + number * 16, number), &caller(&[0x100 + number, 0x50])));
    }
    assert!(!ledger.allocated(&block(0x2000_4000, 1), &caller(&[0x100])), "the 101st");
    let header = Header::parse(ledger.bytes()).expect("a header");
    assert_eq!(usize::from(header.codec.u16(ledger.bytes(), at::HEADER_BYTES)), CONFIG.header_bytes());
    assert_eq!((header.tally(TallyCounter::LostNoRecord), header.state), (1, State::Full));
    assert_eq!(header.global(GlobalCounter::LiveBytes), (0..100).sum::<u64>());
    let live = entries(&ledger);
    assert_eq!(live.len(), 100);
    for (entry, number) in live.iter().zip(0..) {
        assert_eq!((entry.address, entry.size), (0x2000_0000 + u64::from(number) * 16, Some(u64::from(number))));
        assert_eq!(stack(&ledger, entry.site), [0x100 + number, 0x50]);
    }

    let apart = stacks_that_fit(&CONFIG, &mut region, |number| [1, 2, 3, 4].map(|frame| number * 16 + frame));
    let alike = stacks_that_fit(&CONFIG, &mut region, |number| [number * 16, 0x1_0000, 0x2_0000, 0x3_0000]);
    println!(
        "minimal 32-bit ledger: {} bytes of header, {RECORDS} records, {} bytes in all; \
         distinct 4-deep stacks beside them: {apart} with no frame in common, {alike} that differ in the innermost",
        CONFIG.header_bytes(),
        CONFIG.bytes(),
    );
    assert!(apart >= 50 && alike >= 200, "{apart} {alike}");
}

#[test]
fn every_switch_and_byte_order_reads_back() {
    for switches in 0..64 {
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let config = Config { options: Options(switches), order, ..FULL };
            // One byte off: nothing may depend on the region's alignment.
            let mut region = vec![0xAA; config.bytes() + 1];
            NOW.set(1000);
            let mut ledger = ChipLedger::new(&mut region[1..], &config, clock, Notices::default()).expect("room");
            NOW.set(1007);
            let on = |option| Options(switches).has(option);
            assert_eq!(ledger.task_begins(0x2000_7000, 9, "a name that is too long"), on(Options::THREAD));
            let caller = Caller { frames: &[0x111, 0x222], task: Some(0x2000_7000) };
            let new = NewBlock { heap: 1, ..block(0xFFFF_FFF8, u32::MAX - 1) };
            assert!(ledger.allocated(&new, &caller));
            assert!(ledger.allocated(&block(0x2000_0008, 5), &Caller { task: None, ..caller }));
            NOW.set(1009);
            assert!(ledger.freed(0xFFFF_FFF8, Kind::CFREE, &caller));

            let header = Header::parse(ledger.bytes()).expect("a header");
            assert_eq!((header.codec, header.busy), (Codec { order, word: WordSize::W32 }, 0));
            assert_eq!((header.options, header.machine, header.tick_ns), (Options(switches), 40, 1_000_000));
            assert_eq!(header.bytes(), config.header_bytes());
            for pair in header.sections().windows(2) {
                assert!(pair[0].offset + pair[0].capacity * u64::from(pair[0].element_bytes) <= pair[1].offset);
            }
            let live = entries(&ledger);
            let [entry] = live.as_slice() else { panic!("{live:?}") };
            assert_eq!((entry.number, entry.size, entry.kind), (1, Some(5), Kind::MALLOC));
            assert_eq!(entry.thread, None, "called from no task");
            assert_eq!(entry.actual, on(Options::ACTUAL_SIZE).then_some(8));
            assert_eq!(entry.time, on(Options::TIME).then_some(Ticks(7)));
            assert_eq!(stack(&ledger, entry.site).len(), if on(Options::STACK) { 2 } else { 0 });
            let history = freed(&ledger);
            assert_eq!(history.len(), usize::from(on(Options::HISTORY)));
            if let [freed] = history.as_slice() {
                assert_eq!((freed.number, freed.by, freed.block.number), (2, Kind::CFREE, 0));
                assert_eq!((freed.block.address, freed.block.size), (0xFFFF_FFF8, Some(u64::from(u32::MAX) - 1)));
                assert_eq!(freed.block.heap, on(Options::HEAP).then_some(1));
                assert_eq!([freed.thread, freed.block.thread], [on(Options::THREAD).then_some(ThreadRow(0)); 2]);
                assert_eq!(freed.time, on(Options::TIME).then_some(Ticks(9)));
                assert_eq!(freed.site != Site::NONE, on(Options::STACK));
            }
        }
    }
}

#[test]
fn a_region_that_is_too_small_is_refused() {
    let mut region = vec![0u8; FULL.bytes() - 1];
    let error = ChipLedger::new(&mut region, &FULL, clock, Notices::default()).err();
    assert_eq!(error, Some(ChipError::TooSmall { needed: FULL.bytes(), given: FULL.bytes() - 1 }));
    let many = Config { tasks: 0x1_0000, ..FULL };
    assert_eq!(ChipLedger::new(&mut [], &many, clock, Notices::default()).err(), Some(ChipError::TooMany("tasks")));
    let none = Config { records: 0, ..FULL };
    assert_eq!(ChipLedger::new(&mut [], &none, clock, Notices::default()).err(), Some(ChipError::NoRecords));
}

#[test]
fn the_ring_keeps_the_last_frees_and_says_when_it_is_full() {
    let notices = Notices {
        update_done: Some(|| NOTICES.set((NOTICES.get().0 + 1, NOTICES.get().1))),
        history_full: Some(|| NOTICES.set((NOTICES.get().0, NOTICES.get().1 + 1))),
    };
    let mut region = vec![0u8; FULL.bytes()];
    let mut ledger = ChipLedger::new(&mut region, &FULL, clock, notices).expect("room");
    for number in 0..20 {
        ledger.allocated(&block(0x2000_0000 + number * 8, number), &caller(&[1]));
        ledger.freed(0x2000_0000 + number * 8, Kind::FREE, &caller(&[2]));
        let mut sizes: Vec<u64> = freed(&ledger).iter().filter_map(|freed| freed.block.size).collect();
        sizes.sort_unstable();
        let expected: Vec<u64> = (u64::from(number + 1).saturating_sub(8)..=u64::from(number)).collect();
        assert_eq!(sizes, expected);
    }
    assert_eq!(NOTICES.get(), (40, 2));
}

#[test]
fn actual_sizes_and_numbers_that_do_not_fit_are_counted() {
    let mut region = vec![0u8; FULL.bytes()];
    let mut ledger = ChipLedger::new(&mut region, &FULL, clock, Notices::default()).expect("room");
    let wide = NewBlock { actual: Some(0x1_0000 + 8), ..block(8, 8) };
    ledger.allocated(&wide, &caller(&[]));
    ledger.set_global(GlobalCounter::NextNumber, u64::from(u32::MAX) - 1);
    assert!(ledger.allocated(&block(16, 1), &caller(&[])), "the last number");
    assert!(!ledger.allocated(&block(24, 1), &caller(&[])));
    assert!(ledger.freed(16, Kind::FREE, &caller(&[])), "frees are followed all the same");
    let header = Header::parse(ledger.bytes()).expect("a header");
    assert_eq!((header.tally(TallyCounter::WideLost), header.tally(TallyCounter::LostNoRecord)), (1, 1));
    assert_eq!(entries(&ledger)[0].actual, None);
}

#[test]
fn tasks_keep_their_rows_and_a_full_table_is_counted() {
    let mut region = vec![0u8; FULL.bytes()];
    let mut ledger = ChipLedger::new(&mut region, &FULL, clock, Notices::default()).expect("room");
    let by = |task| Caller { frames: &[1], task: Some(task) };
    for (at, task) in [(8, 0x100), (16, 0x200), (24, 0x100)] {
        ledger.allocated(&block(at, 1), &by(task));
    }
    ledger.task_ends(0x100);
    ledger.allocated(&block(32, 1), &by(0x100)); // another task with the handle of the first
    ledger.allocated(&block(40, 1), &by(0x300));
    let rows: Vec<_> = entries(&ledger).iter().map(|entry| entry.thread.map(|row| row.0)).collect();
    assert_eq!(rows, [Some(0), Some(1), Some(0), Some(2), None]);
    let header = Header::parse(ledger.bytes()).expect("a header");
    assert_eq!(header.tally(TallyCounter::ThreadsUnnamed), 1);
}

#[test]
fn time_goes_on_where_the_clock_goes_round() {
    let mut region = vec![0u8; FULL.bytes()];
    NOW.set(u32::MAX - 1);
    let mut ledger = ChipLedger::new(&mut region, &FULL, clock, Notices::default()).expect("room");
    for (now, time) in [(u32::MAX - 1, 0), (3, 5), (u32::MAX - 2, u32::MAX), (u32::MAX, u32::MAX)] {
        NOW.set(now);
        ledger.allocated(&block(8, 1), &caller(&[]));
        let times: Vec<_> = entries(&ledger).iter().map(|entry| entry.time).collect();
        assert_eq!(times, [Some(Ticks(u64::from(time)))], "all ones: at least that much");
        ledger.freed(8, Kind::FREE, &caller(&[]));
    }
}

#[test]
fn the_index_survives_any_order_of_removals() {
    let config = Config::minimal(60, 2);
    for seed in 1..200u32 {
        let mut region = vec![0u8; config.bytes()];
        let mut ledger = ChipLedger::new(&mut region, &config, clock, Notices::default()).expect("room");
        let mut random = seed;
        let mut live = Vec::new();
        for step in 0..400 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            if live.len() < 60 && random >> 31 == 0 {
                let address = 0x2000_0000 + (random >> 8) % 4096 * 8;
                if !live.contains(&address) {
                    assert!(ledger.allocated(&block(address, step), &caller(&[])));
                    live.push(address);
                }
            } else if !live.is_empty() {
                let address = live.swap_remove(random as usize % live.len());
                assert!(ledger.freed(address, Kind::FREE, &caller(&[])));
                assert!(!ledger.freed(address, Kind::FREE, &caller(&[])));
            }
        }
        for address in live {
            assert!(ledger.freed(address, Kind::FREE, &caller(&[])));
        }
    }
}
