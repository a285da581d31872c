//! The ledger's bytes as the format crate reads them. That the ordinary reader reads them too, and random
//! sequences against a model: `tests/model.rs`.

mod cut;
mod errors;
mod live;
mod odd;
mod room;
mod written_over;

use super::*;
use core::cell::Cell;
use core::marker::PhantomData;
use heapledger_format::bytes::{ByteOrder, Codec, WordSize};
use heapledger_format::record::Options;
use heapledger_format::section::site;
use heapledger_format::{Entry, FreedEntry, Header, SectionKind, Site, ThreadRow, Ticks};
use std::vec;
use std::vec::Vec;

std::thread_local! {
    static NOW: Cell<u32> = const { Cell::new(0) };
    /// Updates, turns of the history, blocks and stacks without room.
    static NOTICES: Cell<[u32; 4]> = const { Cell::new([0; 4]) };
}

/// With these options, in this byte order, with that word.
struct Switched<const OPTIONS: u32, const IS_BIG: bool, W>(PhantomData<W>);

impl<const OPTIONS: u32, const IS_BIG: bool, W: Word> Shape for Switched<OPTIONS, IS_BIG, W> {
    type Word = W;
    const CONFIG: Config<'static> = {
        Config {
            sites: 50 * (OPTIONS & Options::STACK != 0) as u32,
            history: 8 * (OPTIONS & Options::HISTORY != 0) as u32,
            tasks: 3 * (OPTIONS & Options::THREAD != 0) as u32,
            heaps: if OPTIONS & Options::HEAP != 0 { HEAPS } else { &[] },
            actual_sizes: OPTIONS & Options::ACTUAL_SIZE != 0,
            clock: if OPTIONS & Options::TIME != 0 { Some(Clock { tick_ns: 1_000_000, bits: 32 }) } else { None },
            process: b"program=firmware\0",
            machine: 40,
            ..Config::minimal(20, 0)
        }
    };
    const ORDER: ByteOrder = if IS_BIG { ByteOrder::Big } else { ByteOrder::Little };

    fn ticks() -> u32 {
        NOW.get()
    }
    fn update_done() {
        NOTICES.set([NOTICES.get()[0] + 1, NOTICES.get()[1], NOTICES.get()[2], NOTICES.get()[3]]);
    }
    fn history_full() {
        NOTICES.set([NOTICES.get()[0], NOTICES.get()[1] + 1, NOTICES.get()[2], NOTICES.get()[3]]);
    }
    fn records_full() {
        NOTICES.set([NOTICES.get()[0], NOTICES.get()[1], NOTICES.get()[2] + 1, NOTICES.get()[3]]);
    }
    fn sites_full() {
        NOTICES.set([NOTICES.get()[0], NOTICES.get()[1], NOTICES.get()[2], NOTICES.get()[3] + 1]);
    }
}

type Everything = Switched<63, false, u32>;

/// A ledger of this shape in memory of its own, whose contents before do not matter.
fn new<S: Shape>() -> ChipLedger<S, Vec<S::Word>> {
    ChipLedger::new(vec![S::Word::cut(0xAAAA_AAAA); S::CONFIG.words::<S::Word>()]).expect("room")
}

fn full() -> ChipLedger<Everything, Vec<u32>> {
    new()
}

fn block<W: Word>(address: u64, size: u64) -> NewBlock<W> {
    NewBlock {
        kind: Kind::MALLOC,
        address: W::cut(address),
        size: W::cut(size),
        actual: Some(W::cut(size.checked_next_multiple_of(8).unwrap_or(size))),
        heap: Some(0),
    }
}

fn caller<W>(frames: &[W]) -> Caller<'_, W> {
    Caller { frames, running: Running::Unknown, is_guessed: false }
}

const HEAPS: &[HeapDescription] = &[
    HeapDescription { name: "internal", low: 0x2000_0000, high: 0x2000_8000 },
    HeapDescription { name: "external", low: 0x6000_0000, high: 0x6010_0000 },
];

/// The elements of a section that are in use.
fn elements<'a>(bytes: &'a [u8], header: &Header, kind: SectionKind) -> impl Iterator<Item = &'a [u8]> + use<'a> {
    let row = header.section(kind).copied().unwrap_or_default();
    let end = row.offset as usize + row.used as usize * row.element_bytes as usize;
    bytes[row.offset as usize..end].chunks_exact(row.element_bytes.max(1) as usize)
}

fn read<S: Shape, R: Memory<S::Word>>(ledger: &ChipLedger<S, R>) -> (Vec<u8>, Header) {
    let bytes: Vec<u8> = ledger.bytes().collect();
    let header = Header::parse(&bytes).expect("a header");
    (bytes, header)
}

fn entries<S: Shape, R: Memory<S::Word>>(ledger: &ChipLedger<S, R>) -> Vec<Entry> {
    let (bytes, header) = read(ledger);
    elements(&bytes, &header, SectionKind::Records)
        .filter_map(|element| Entry::read(&header.layout, header.codec, element))
        .collect()
}

fn freed<S: Shape, R: Memory<S::Word>>(ledger: &ChipLedger<S, R>) -> Vec<FreedEntry> {
    let (bytes, header) = read(ledger);
    elements(&bytes, &header, SectionKind::History)
        .filter_map(|element| FreedEntry::read(&header.layout, header.codec, element))
        .collect()
}

fn stack<S: Shape, R: Memory<S::Word>>(ledger: &ChipLedger<S, R>, Site(mut node): Site) -> Vec<u64> {
    let (bytes, header) = read(ledger);
    let nodes: Vec<&[u8]> = elements(&bytes, &header, SectionKind::Sites).collect();
    let pcs: Vec<&[u8]> = elements(&bytes, &header, SectionKind::Pcs).collect();
    let mut codes = Vec::new();
    while node != 0 {
        let element = nodes[node as usize];
        let code = header.codec.u32(element, site::CODE);
        codes.push(match header.codec.word {
            WordSize::W32 => u64::from(code),
            WordSize::W64 => header.codec.u64(pcs[code as usize], 0),
        });
        node = header.codec.u32(element, site::PARENT);
    }
    codes
}

/// A block at the end of memory lives and dies, another lives.
fn reads_back<const OPTIONS: u32, const IS_BIG: bool, W: Word>() {
    type Chip<const OPTIONS: u32, const IS_BIG: bool, W> = ChipLedger<Switched<OPTIONS, IS_BIG, W>, Vec<W>>;
    NOW.set(1000);
    let mut ledger: Chip<OPTIONS, IS_BIG, W> = new();
    NOW.set(1007);
    let on = |option| Options(OPTIONS).has(option);
    let is_wide = W::SIZE == WordSize::W64;
    let task = W::cut(0xABCD_EF01_2000_7000);
    // The highest address and size that a record has room for, and code as high as addresses go.
    let (highest, largest) = if is_wide { ((1 << 48) - 8, (1 << 48) - 2) } else { (0xFFFF_FFF8, 0xFFFF_FFFE) };
    let code = if is_wide { 0x7F12_3456_0111 } else { 0x111 };
    assert_eq!(ledger.task_begins(task, 9, "a name that is too long"), on(Options::THREAD));
    let frames = [W::cut(code), W::cut(0x222)];
    let caller = Caller { frames: &frames, running: Running::Task(task), is_guessed: false };
    assert!(ledger.allocated(&NewBlock { heap: Some(1), ..block(highest, largest) }, &caller));
    assert!(ledger.allocated(&block(0x2000_0008, 5), &Caller { running: Running::Unknown, ..caller }));
    NOW.set(1009);
    assert!(ledger.freed(W::cut(highest), Kind::CFREE, &caller));

    let (_, header) = read(&ledger);
    let order = if IS_BIG { ByteOrder::Big } else { ByteOrder::Little };
    assert_eq!((header.codec, header.busy), (Codec { order, word: W::SIZE }, 0));
    assert_eq!(
        (header.options, header.machine, header.tick_ns),
        (Options(OPTIONS), 40, if on(Options::TIME) { 1_000_000 } else { 0 })
    );
    assert_eq!(header.bytes(), Switched::<OPTIONS, IS_BIG, W>::CONFIG.header_bytes::<W>());
    assert_eq!(header.global(GlobalCounter::LastTime), if on(Options::TIME) { 9 } else { 0 });
    for pair in header.sections().windows(2) {
        assert!(pair[0].offset + pair[0].capacity * u64::from(pair[0].element_bytes) <= pair[1].offset);
    }
    let live = entries(&ledger);
    let [entry] = live.as_slice() else { panic!("{live:?}") };
    assert_eq!((entry.number, entry.size, entry.kind), (1, Some(5), Kind::MALLOC));
    assert_eq!(entry.thread, None, "called from no task");
    assert_eq!(entry.actual, on(Options::ACTUAL_SIZE).then_some(8));
    assert_eq!(entry.time, on(Options::TIME).then_some(Ticks(7)));
    assert_eq!(entry.heap, on(Options::HEAP).then_some(0));
    let expected: &[u64] = if on(Options::STACK) { &[code, 0x222] } else { &[] };
    assert_eq!(stack(&ledger, entry.site), expected);
    let history = freed(&ledger);
    assert_eq!(history.len(), usize::from(on(Options::HISTORY)));
    if let [freed] = history.as_slice() {
        assert_eq!((freed.number, freed.by, freed.block.number), (2, Kind::CFREE, 0));
        assert_eq!((freed.block.address, freed.block.size), (highest, Some(largest)));
        assert_eq!((freed.block.kind, freed.later), (Kind::MALLOC, 0));
        assert_eq!(freed.block.heap, on(Options::HEAP).then_some(1));
        assert_eq!([freed.thread, freed.block.thread], [on(Options::THREAD).then_some(ThreadRow(0)); 2]);
        assert_eq!([freed.block.time, freed.time], [7, 9].map(|time| on(Options::TIME).then_some(Ticks(time))));
        assert_eq!(stack(&ledger, freed.site), expected);
        assert_eq!(freed.site, freed.block.site);
    }
}

macro_rules! with_options {
    ($each:ident, $big:literal, $word:ty: $($options:literal)*) => { $($each::<$options, $big, $word>();)* };
}

#[test]
fn every_switch_reads_back() {
    with_options!(reads_back, false, u32:
        0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
        32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63);
}

#[test]
fn every_word_and_byte_order_reads_back() {
    with_options!(reads_back, true, u32: 0 1 2 4 8 16 32 63);
    with_options!(reads_back, false, u64: 0 1 2 4 8 16 32 9 17 24 26 28 47 62 63);
    with_options!(reads_back, true, u64: 0 1 2 4 8 16 32 9 17 24 26 28 47 62 63);
}

#[test]
fn a_region_that_is_too_small_is_refused() {
    let needed = room::bytes::<Everything>();
    let mut region = vec![0u32; needed / 4 - 1];
    let error = ChipLedger::<Everything, _>::new(region.as_mut_slice()).err();
    assert_eq!(error, Some(ChipError::TooSmall { needed, given: needed - 4 }));
    let config = |change: fn(&mut Config)| {
        let mut config = Everything::CONFIG;
        change(&mut config);
        config.check().err()
    };
    assert_eq!(config(|_| ()), None);
    assert_eq!(config(|config| config.tasks = 0xFFFF), Some(ChipError::TooMany("tasks")));
    assert_eq!(config(|config| config.sites = 1 << 25), Some(ChipError::TooMany("sites")));
    assert_eq!(config(|config| config.records = 1 << 25), Some(ChipError::TooMany("records")));
    assert_eq!(config(|config| config.records = 0), Some(ChipError::TooFew("records")));
    assert_eq!(config(|config| config.sites = 1), Some(ChipError::TooFew("sites")));
    assert_eq!(config(|config| config.depth = 0), Some(ChipError::TooFew("depth")));
    let clock = |bits| Some(Clock { tick_ns: 1, bits });
    let with_clock = |clock| Config { clock, ..Everything::CONFIG }.check().err();
    assert_eq!(with_clock(clock(0)), Some(ChipError::TooFew("clock bits")));
    assert_eq!(with_clock(clock(33)), Some(ChipError::TooMany("clock bits")));
}

#[test]
fn what_is_there_already_is_opened_and_goes_on() {
    let mut region = vec![0u32; Everything::CONFIG.words::<u32>()];
    fn open(region: &mut [u32]) -> ChipLedger<Everything, &mut [u32]> {
        ChipLedger::open(region).expect("room")
    }
    assert!(open(&mut region[..]).allocated(&block(0x100, 10), &caller(&[1])));
    let mut again = open(&mut region[..]);
    assert_eq!(entries(&again)[0].size, Some(10));
    assert!(again.freed(0x100, Kind::FREE, &caller(&[])));
    // Garbage, and what was left in the middle of an update, are none.
    region[13] |= 1 << 16;
    assert!(freed(&open(&mut region[..])).is_empty());
    region.fill(0x5A5A_5A5A);
    assert!(entries(&open(&mut region[..])).is_empty());
}

#[test]
fn two_ledgers_know_nothing_of_each_other() {
    type Wide = Switched<63, false, u64>;
    let (mut first, mut second, mut third) = (new::<Wide>(), new::<Wide>(), full());
    assert!(first.allocated(&block(0x7F00_0000_0010, 100), &caller(&[0x5555_0000_1234])));
    assert!(second.allocated(&block(0x7F00_0000_0010, 200), &caller(&[0x5555_0000_5678])));
    assert!(third.allocated(&block(0x10, 300), &caller(&[0x1234])));
    assert!(first.freed(0x7F00_0000_0010, Kind::FREE, &caller(&[])));
    assert!(!first.freed(0x7F00_0000_0010, Kind::FREE, &caller(&[])));
    assert!(second.freed(0x7F00_0000_0010, Kind::FREE, &caller(&[])));
    assert_eq!((freed(&first)[0].block.size, freed(&second)[0].block.size), (Some(100), Some(200)));
    assert_eq!(stack(&second, freed(&second)[0].block.site), [0x5555_0000_5678]);
    assert_eq!(entries(&third)[0].size, Some(300));
    for (header, unknown) in [(read(&first).1, 1), (read(&second).1, 0), (read(&third).1, 0)] {
        assert_eq!(header.tally(TallyCounter::UnknownFrees), unknown);
    }
}

#[test]
fn code_and_blocks_that_are_too_high_are_counted() {
    type Wide = Switched<63, false, u64>;
    let mut ledger = new::<Wide>();
    assert!(!ledger.allocated(&block(1 << 48, 8), &caller(&[0x1000])));
    assert!(!ledger.freed(1 << 48, Kind::FREE, &caller(&[0x1000])));
    assert!(ledger.allocated(&block(0x1000, 8), &caller(&[0x1000, 1 << 48])));
    assert!(ledger.allocated(&block(0x2000, 8), &caller(&[0])));
    let (_, header) = read(&ledger);
    let tally = |counter| header.tally(counter);
    assert_eq!((tally(TallyCounter::LostNoIndex), tally(TallyCounter::SitesFull)), (1, 2));
    let stacks: Vec<_> = entries(&ledger).iter().map(|entry| stack(&ledger, entry.site)).collect();
    assert_eq!(stacks, [vec![0x1000], vec![]]);
}

#[test]
fn the_ring_keeps_the_last_frees_and_says_when_it_is_full() {
    NOTICES.set([0; 4]);
    let mut ledger = full();
    for number in 0..20 {
        ledger.allocated(&block(0x2000_0000 + number * 8, number), &caller(&[1]));
        ledger.freed(0x2000_0000 + number as u32 * 8, Kind::FREE, &caller(&[2]));
        let mut sizes: Vec<u64> = freed(&ledger).iter().filter_map(|freed| freed.block.size).collect();
        sizes.sort_unstable();
        let expected: Vec<u64> = ((number + 1).saturating_sub(8)..=number).collect();
        assert_eq!(sizes, expected);
    }
    assert_eq!(NOTICES.get(), [40, 2, 0, 0]);
}

#[test]
fn actual_sizes_and_numbers_that_do_not_fit_are_counted() {
    let mut ledger = full();
    let wide = NewBlock { actual: Some(0x1_0000 + 8), ..block(8, 8) };
    ledger.allocated(&wide, &caller(&[]));
    ledger.set_global(GlobalCounter::NextNumber, u32::MAX - 1);
    assert!(ledger.allocated(&block(16, 1), &caller(&[])), "the last number");
    assert!(!ledger.allocated(&block(24, 1), &caller(&[])));
    assert!(ledger.freed(16, Kind::FREE, &caller(&[])), "frees are followed all the same");
    let (_, header) = read(&ledger);
    assert_eq!((header.tally(TallyCounter::WideLost), header.tally(TallyCounter::LostNoRecord)), (1, 1));
    assert_eq!(entries(&ledger)[0].actual, None);
}

#[test]
fn tasks_keep_their_rows_and_a_full_table_is_counted() {
    let mut ledger = full();
    let by = |task| Caller { running: Running::Task(task), ..caller(&[1]) };
    for (at, task) in [(8, 0x100), (16, 0x200), (24, 0x100)] {
        ledger.allocated(&block(at, 1), &by(task));
    }
    ledger.task_ends(0x100);
    ledger.allocated(&block(32, 1), &by(0x100)); // another task with the handle of the first
    ledger.allocated(&block(40, 1), &by(0x300));
    let rows: Vec<_> = entries(&ledger).iter().map(|entry| entry.thread.map(|row| row.0)).collect();
    assert_eq!(rows, [Some(0), Some(1), Some(0), Some(2), None]);
    let (_, header) = read(&ledger);
    assert_eq!(header.tally(TallyCounter::ThreadsUnnamed), 1);
}

#[test]
fn time_goes_on_where_the_clock_goes_round() {
    NOW.set(u32::MAX - 1);
    let mut ledger = full();
    for (now, time) in [(u32::MAX - 1, 0), (3, 5), (u32::MAX - 2, u32::MAX), (u32::MAX, u32::MAX)] {
        NOW.set(now);
        ledger.allocated(&block(8, 1), &caller(&[]));
        let times: Vec<_> = entries(&ledger).iter().map(|entry| entry.time).collect();
        assert_eq!(times, [Some(Ticks(u64::from(time)))], "all ones: at least that much");
        ledger.freed(8, Kind::FREE, &caller(&[]));
    }
}

/// With a clock of 24 bits.
struct ShortClock;

impl Shape for ShortClock {
    type Word = u32;
    const CONFIG: Config<'static> = Config { clock: Some(Clock { tick_ns: 40, bits: 24 }), ..Config::minimal(20, 0) };
    fn ticks() -> u32 {
        NOW.get()
    }
}

#[test]
fn a_clock_of_few_bits_goes_round_without_a_jump() {
    NOW.set(0xFF_FFF0);
    let mut ledger = new::<ShortClock>();
    let mut time = 0;
    for (now, gone) in
        [(0xFF_FFF8, 8), (0x00_0010, 0x18), (0x00_0010, 0), (0x80_0000, 0x7F_FFF0), (0xAB00_0000, 0x80_0000)]
    {
        NOW.set(now);
        time += gone;
        ledger.allocated(&block(8, 1), &caller(&[]));
        assert_eq!(entries(&ledger)[0].time, Some(Ticks(time)));
        ledger.freed(8, Kind::FREE, &caller(&[]));
    }
    NOW.set(1);
    ledger.note_time();
    assert_eq!(read(&ledger).1.global(GlobalCounter::LastTime), time + 1);
}

#[test]
fn interrupts_together_have_a_row() {
    let mut ledger = full();
    let by = |running| Caller { running, ..caller(&[1]) };
    ledger.allocated(&block(8, 1), &by(Running::Task(0x100)));
    ledger.allocated(&block(16, 2), &by(Running::Interrupt));
    ledger.allocated(&block(24, 3), &by(Running::Interrupt));
    ledger.allocated(&block(32, 4), &by(Running::Unknown));
    let rows: Vec<_> = entries(&ledger).iter().map(|entry| entry.thread.map(|row| row.0)).collect();
    assert_eq!(rows, [Some(0), Some(1), Some(1), None]);
    let (bytes, header) = read(&ledger);
    let names: Vec<_> = elements(&bytes, &header, SectionKind::Threads)
        .map(|row| row[heapledger_format::section::thread::name(WordSize::W32)..][..11].to_vec())
        .collect();
    assert_eq!(names, [b"\0\0\0\0\0\0\0\0\0\0\0", b"interrupts\0"]);
}

#[test]
fn the_index_survives_any_order_of_removals() {
    for seed in 1..200u32 {
        let mut ledger = new::<room::Small<60, 0>>();
        let mut random = seed;
        let mut live = Vec::new();
        for step in 0..400u32 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            if live.len() < 60 && random >> 31 == 0 {
                let address = 0x2000_0000 + (random >> 8) % 4096 * 8;
                if !live.contains(&address) {
                    assert!(ledger.allocated(&block(address.into(), step.into()), &caller(&[])));
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
