//! Headers, written and read again, forged and cut.

use super::*;
use crate::ids::{Site, ThreadRow, Ticks};
use crate::layout::Field;
use crate::record::{Entry, layout_64};
use crate::section::{SectionKind, site};
use std::collections::BTreeSet;
use std::println;
use std::vec;
use std::vec::Vec;

fn sample(order: ByteOrder, word: WordSize) -> Header {
    let layout = match word {
        WordSize::W64 => layout_64(Options::ALL),
        WordSize::W32 => chip_layout(),
    };
    let mut header = Header::new(Codec { order, word }, layout, Options::ALL);
    header.id = *b"0123456789abcdef";
    header.tick_ns = 1000;
    header.start_unix_ns = 0x1122_3344_5566_7788;
    header.order_bound = 4096;
    header.state = State::Recording;
    header.depth_limit = 512;
    header.set_global(GlobalCounter::PeakBytes, 0xfeed_f00d);
    header.set_tally(TallyCounter::Frees, 7);
    assert!(header.add_section(SectionRow {
        kind: SectionKind::Records as u16,
        element_bytes: 32,
        offset: 4096,
        capacity: 100,
        used: 64,
        backed: 100
    }));
    header
}

/// The fields of a 32-bit target, 20 bytes a record.
fn chip_layout() -> RecordLayout {
    let places = [
        (Field::Number, 32, 0),
        (Field::Address, 32, 32),
        (Field::Size, 20, 64),
        (Field::Kind, 6, 84),
        (Field::Thread, 6, 90),
        (Field::Site, 16, 96),
        (Field::Excess, 16, 112),
        (Field::Time, 32, 128),
    ];
    places.iter().fold(RecordLayout::empty(WordSize::W32), |layout, (field, width, at)| {
        layout.with(*field as u8, *width, *at).expect("fits")
    })
}

#[test]
fn a_header_reads_back_in_every_order_and_word_size() {
    for order in [ByteOrder::Little, ByteOrder::Big] {
        for word in [WordSize::W32, WordSize::W64] {
            let header = sample(order, word);
            let mut bytes = [0u8; HEADER_BYTES_MAX];
            let length = header.write(&mut bytes).expect("room");
            let back = Header::parse(&bytes[..length]).expect("a header");
            assert_eq!(back.codec, header.codec);
            assert_eq!(back.id, header.id);
            assert_eq!(back.start_unix_ns, header.start_unix_ns);
            assert_eq!(back.sections(), header.sections());
            assert_eq!(back.layout.descriptors(), header.layout.descriptors());
            assert_eq!(back.global(GlobalCounter::PeakBytes), 0xfeed_f00d);
            assert_eq!(back.tally(TallyCounter::Frees), 7);
            assert_eq!((back.state, back.depth_limit, back.order_bound), (State::Recording, 512, 4096));
            for cut in 0..length {
                assert!(Header::parse(&bytes[..cut]).is_err(), "cut at {cut}");
            }
        }
    }
}

#[test]
fn wrong_bytes_get_a_reason() {
    let mut bytes = [0u8; HEADER_BYTES_MAX];
    sample(ByteOrder::Little, WordSize::W64).write(&mut bytes).expect("room");
    assert_eq!(Header::parse(b"").unwrap_err(), FormatError::NotALedger);
    assert_eq!(Header::parse(b"\x7fELF and so on").unwrap_err(), FormatError::NotALedger);
    let mut newer = bytes;
    newer[at::VERSION] = VERSION + 1;
    assert_eq!(Header::parse(&newer).unwrap_err(), FormatError::Newer(VERSION + 1));
    let mut starting = bytes;
    starting[at::BYTE_ORDER..at::BYTE_ORDER + 2].fill(0);
    assert_eq!(Header::parse(&starting).unwrap_err(), FormatError::NotReady);
    // Any single byte may be wrong: an answer, never a panic.
    for place in 0..1024 {
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut forged = bytes;
            forged[place] = value;
            let _ = Header::parse(&forged);
        }
    }
}

#[test]
fn the_smallest_ledger_fits_a_chip() {
    const LEDGER_BYTES: usize = 4096;
    const RECORDS: usize = 100;
    const RECORD_BYTES: usize = 20;
    let codec = Codec { order: ByteOrder::Little, word: WordSize::W32 };
    let mut header = Header::new(codec, chip_layout(), Options(Options::ACTUAL_SIZE | Options::TIME | Options::STACK));
    let globals = GlobalCounter::SMALL_COUNT;
    header.limit_counters(globals, globals + TallyCounter::LostNoRecord as usize + 1);
    for kind in [SectionKind::Records, SectionKind::Sites, SectionKind::Heaps, SectionKind::Strings] {
        assert!(header.add_section(SectionRow { kind: kind as u16, ..SectionRow::default() }));
    }
    let header_bytes = header.bytes();
    assert!(header_bytes <= 256, "header, descriptors and section table take {header_bytes} bytes");

    let mut ledger = vec![0u8; LEDGER_BYTES];
    let records_at = 256;
    let sites_at = records_at + RECORDS * RECORD_BYTES;
    let node_room = (LEDGER_BYTES - sites_at) / site::BYTES;
    // Stacks of 4 frames as a program makes them: a few tasks, each with a tree of calls.
    let mut nodes: BTreeSet<Vec<u32>> = BTreeSet::new();
    let mut stacks = 0;
    for stack in 0u32.. {
        let frames = [stack % 3, stack / 3 % 5, stack / 15 % 6, stack / 90];
        let before = nodes.len();
        for depth in 1..=4 {
            nodes.insert(frames[..depth].to_vec());
        }
        if nodes.len() + 1 > node_room {
            break;
        }
        assert!(nodes.len() > before, "each stack is a new one");
        stacks += 1;
    }
    println!(
        "header {header_bytes} bytes; {RECORDS} records of {RECORD_BYTES} bytes; {stacks} distinct 4-deep stacks beside them in {LEDGER_BYTES} bytes"
    );
    assert!(stacks >= 100, "only {stacks} stacks");

    for number in 0..RECORDS {
        let entry = Entry {
            number: number as u64,
            address: 0x2000_0000 + number as u64 * 16,
            size: Some(number as u64),
            actual: Some(number as u64 + 8),
            kind: crate::Kind::MALLOC,
            site: Site(number as u32),
            thread: Some(ThreadRow(1)),
            heap: None,
            time: Some(Ticks(number as u64)),
            ..Entry::NONE
        };
        let place = records_at + number * RECORD_BYTES;
        entry.write(&header.layout, codec, &mut ledger[place..place + RECORD_BYTES]);
        let back = Entry::read(&header.layout, codec, &ledger[place..place + RECORD_BYTES]);
        assert_eq!(back, Some(entry));
    }
}

#[test]
fn a_ledger_with_fewer_counters_reads_and_copies() {
    // As they were before there was sampling: 9 that exist once, 22 that are summed.
    let mut header = sample(ByteOrder::Little, WordSize::W64);
    header.limit_counters(9, 9 + 22);
    header.set_global(GlobalCounter::PeakBlocks, 5);
    header.set_global(GlobalCounter::SampleInterval, 77);
    header.set_tally(TallyCounter::Allocations, 6);
    header.set_tally(TallyCounter::FreesBusy, 7);
    header.set_tally(TallyCounter::StacksCompared, 8);
    let mut bytes = [0u8; HEADER_BYTES_MAX];
    let length = header.write(&mut bytes).expect("room");
    let back = Header::parse(&bytes[..length]).expect("a header");
    assert_eq!((back.global_count(), back.counter_count()), (9, 31));
    assert_eq!((back.global(GlobalCounter::PeakBlocks), back.global(GlobalCounter::SampleInterval)), (5, 0));
    let tallies = [TallyCounter::Allocations, TallyCounter::FreesBusy, TallyCounter::StacksCompared];
    assert_eq!(tallies.map(|counter| back.tally(counter)), [6, 7, 0]);
}

/// The script for gdb has no other way to know.
#[test]
fn the_marks_of_a_debugger_are_where_its_script_looks() {
    let script = include_str!("../../../../gdb/heapledger.gdb");
    let (first, second) = (GlobalCounter::HistoryShown as usize, GlobalCounter::HistoryShownTime as usize);
    assert_eq!(second, first + 1);
    let parts = ["SHOWN = ", "$mdd_word * ", "62) > "].into_iter().zip([first, first, second]);
    for part in parts.map(|(words, number)| std::format!("{words}{number}\n")) {
        assert!(script.contains(&part), "{part:?} is not in the script");
    }
}
