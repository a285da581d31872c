//! Logs with lines of libwebsockets, whole and damaged, as ledgers.

use std::io::BufReader;
use std::path::Path;

use heapledger_format::record::Options;
use heapledger_format::{Site, TallyCounter};
use heapledger_logs::log::{LogOptions, read_log};
use heapledger_lws::{Flavour, Width, Word, encode, encode_as, line};
use heapledger_source::Ledger;

const OPTIONS: LogOptions = LogOptions { only: None, width: Width::W64 };

/// Sizes and frames, in order.
type Blocks = Vec<(u64, Vec<u64>)>;

fn compressed(frames: &[u64], size: u64) -> String {
    let (mut blob, mut text) = ([0; 200], String::new());
    let bytes = encode(frames, size, &mut blob).expect("it fits");
    line::write_compressed(&blob[..bytes], &mut text).expect("a String has room");
    text
}

fn open(text: &[u8]) -> Option<Ledger> {
    let mut made = read_log(BufReader::new(text), OPTIONS).expect("memory can be read");
    assert!(made.len() <= 1, "one heap, one ledger");
    made.pop().map(|made| Ledger::of_file(made.into_file().expect("a file"), Path::new("log")).expect("a ledger"))
}

fn blocks(ledger: &Ledger) -> Blocks {
    let mut entries = Vec::new();
    let mut records = ledger.records();
    while let Some(chunk) = records.next_chunk().expect("it can be read") {
        entries.extend_from_slice(chunk);
    }
    entries.sort_by_key(|entry| entry.number);
    let frames = |site: Site| {
        let stack = ledger.stack(site).expect("it can be read");
        stack
            .codes
            .iter()
            .map(|code| ledger.code(*code).expect("it can be read").expect("it is there").offset)
            .collect()
    };
    entries.iter().map(|entry| (entry.size.expect("a size"), frames(entry.site))).collect()
}

fn missing(ledger: &Ledger) -> Vec<String> {
    ledger.process().all_of("missing.").collect()
}

fn sample() -> (Blocks, String) {
    let blocks: Blocks = vec![
        (7520, vec![0x406651, 0x406852, 0x406c1b, 0x406294]),
        (64, vec![0x401136, 0x401153]),
        (7520, vec![0x406651, 0x406852, 0x406c1b, 0x406294]),
        (1 << 30, (0..31).map(|frame| 0x40_0000 + frame * 0x1234).collect()),
        (1, vec![]),
    ];
    let lines: Vec<String> = blocks.iter().map(|(size, frames)| compressed(frames, *size)).collect();
    (blocks, lines.join("\n") + "\n")
}

#[test]
fn lines_become_a_ledger_that_says_what_it_does_not_know() {
    let (expected, text) = sample();
    let ledger = open(text.as_bytes()).expect("there are backtraces");
    assert_eq!(blocks(&ledger), expected);
    let options = ledger.header().options;
    for absent in
        [Options::ADDRESS, Options::THREAD, Options::TIME, Options::HEAP, Options::ACTUAL_SIZE, Options::HISTORY]
    {
        assert!(!options.has(absent), "{absent:#x}");
    }
    assert!(options.has(Options::STACK));
    let totals = ledger.tallies().expect("it can be read");
    assert_eq!(totals.get(TallyCounter::Allocations), 5);
    assert_eq!(totals.get(TallyCounter::BytesAllocated), expected.iter().map(|(size, _)| size).sum::<u64>());
    assert_eq!(missing(&ledger), [""; 0]);
}

#[test]
fn other_text_around_and_what_a_terminal_adds_change_nothing() {
    let (expected, text) = sample();
    let mut log = String::from("rst:0x1 (POWERON)\r\r\nI (12) wifi: ~ # ~x\r\n");
    for (index, line) in text.lines().enumerate() {
        log += &format!("\x1b[0;32m[12:00:0{index}] N: {line} done\x1b[0m\r\r\nW ({index}) other: text\r\n");
    }
    assert_eq!(blocks(&open(log.as_bytes()).expect("there are backtraces")), expected);
    // In words, as the original's tool prints them and as its page shows them.
    let words = "~b#size: 7520, 0x406651 0x406852 \n[x] ~b#size: 64, 0x401136\n~b#size: 100, \n";
    let read = blocks(&open(words.as_bytes()).expect("there are backtraces"));
    assert_eq!(read, [(7520, vec![0x406651, 0x406852]), (64, vec![0x401136]), (100, vec![])]);
}

#[test]
fn a_line_that_another_one_cuts_in_two_is_whole_again_wherever_that_is() {
    let (expected, text) = sample();
    let first = text.lines().next().expect("a line");
    let rest: Vec<&str> = text.lines().skip(1).collect();
    for cut in 4..first.len() {
        for between in ["[12:01] hello\n", "hello\n", "I (3) wifi: up\nW (4) x: y\n", "\n", "plain\n"] {
            let log = format!("{}{between}{}\n{}\n", &first[..cut], &first[cut..], rest.join("\n"));
            let ledger = open(log.as_bytes()).expect("there are backtraces");
            assert_eq!(blocks(&ledger), expected, "{log}");
        }
    }
}

#[test]
fn what_does_not_decode_is_counted_and_the_first_is_told() {
    let (expected, text) = sample();
    let log = format!("~m#IF0BmUQugNCkgCnkhdAYpQa6wAAW\n{text}~m#\n~b#size: many\n");
    let ledger = open(log.as_bytes()).expect("there are backtraces");
    assert_eq!(blocks(&ledger), expected);
    let said = missing(&ledger);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].starts_with("3 backtraces could not be read; the first: line 1, its length"), "{said:?}");
}

#[test]
fn a_log_cut_anywhere_holds_all_lines_before_that() {
    let (expected, text) = sample();
    for cut in 0..text.len() {
        let whole = text[..cut].matches('\n').count();
        let read = open(&text.as_bytes()[..cut]).map_or_else(Vec::new, |ledger| blocks(&ledger));
        assert!(read.len() >= whole && read[..] == expected[..read.len()], "cut at {cut}: {read:?}");
    }
}

#[test]
fn flipped_bits_do_no_harm() {
    let (_, text) = sample();
    for bit in 0..text.len() * 8 {
        let mut bytes = text.clone().into_bytes();
        bytes[bit / 8] ^= 1 << (bit % 8);
        if let Some(ledger) = open(&bytes) {
            assert!(blocks(&ledger).len() <= 6, "bit {bit}");
        }
    }
}

#[test]
fn without_a_line_of_ours_there_is_no_ledger() {
    for text in ["", "\n", "hello\n~x\n~m\n", "~m#AAAA\n"] {
        assert!(open(text.as_bytes()).is_none(), "{text}");
    }
}

#[test]
fn a_million_frames_take_memory_by_stacks_and_not_by_lines() {
    let frames: Vec<Vec<u64>> =
        (0..100).map(|stack| (0..8).map(|frame| 0x40_0000 + stack * 64 + frame * 8).collect()).collect();
    let mut text = String::new();
    for number in 0..20_000 {
        text += &compressed(&frames[number % frames.len()], number as u64);
        text.push('\n');
    }
    let ledger = open(text.as_bytes()).expect("there are backtraces");
    assert_eq!(blocks(&ledger).len(), 20_000);
    let sites = ledger.count(heapledger_format::SectionKind::Sites).expect("it can be read");
    assert!(sites <= 801, "{sites}");
}

#[test]
fn many_different_stacks_and_a_log_that_is_no_text_are_read() {
    let mut text = String::new();
    for number in 0..30_000u64 {
        let frames: Vec<u64> = (0..6).map(|frame| 0x40_0000 + number * 7 + frame * 0x1_0000).collect();
        text += &compressed(&frames, number);
        text.push('\n');
    }
    assert_eq!(blocks(&open(text.as_bytes()).expect("there are backtraces")).len(), 30_000);
    let mut state = 1u64;
    let noise: Vec<u8> = (0..200_000)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        })
        .collect();
    let (expected, sample) = sample();
    let mixed = [&noise[..], b"\n", sample.as_bytes(), &noise].concat();
    assert_eq!(blocks(&open(&mixed).expect("there are backtraces")), expected);
}

fn original<W: Word>(frames: &[W], size: W) -> String {
    let (mut blob, mut text) = ([0; 400], String::new());
    let bytes = encode_as(frames, size, Flavour::Original, &mut blob).expect("there is room");
    line::write_compressed(&blob[..bytes], &mut text).expect("a String has room");
    text
}

/// What a build for 32 bits has written is whole, though nobody has said that it is one; of one for 64 bits no more is lost than must be.
#[test]
fn values_of_32_bits_are_what_they_were() {
    let chip: Vec<u32> = vec![0x8000_2560, 0x8000_02b2, 0x7fff_fffe, 0xffff_ffff, 0x8000_0000];
    let wide = [0x8000_2560_u64, 0x8000_02b2, 0x9fff_0000];
    let moved = [0x55d0_c3a8_1b2e_u64, 0x4000, 0x8000_0010];
    let text = [original(&chip, 0xc000_0000), original(&wide, 77), original(&moved, 78)].join("\n");
    let ledger = open(text.as_bytes()).expect("a ledger");
    let read = blocks(&ledger);
    assert_eq!(read[0], (0xc000_0000, chip.iter().map(|frame| u64::from(*frame)).collect()));
    assert_eq!(read[1], (77, wide.to_vec()));
    assert_ne!(read[2].1, moved, "this is lost");
    let remarks: Vec<String> = ledger.process().all_of("remark.").collect();
    assert!(
        remarks.iter().any(|remark| remark.starts_with("1 backtrace was with values of 2^31 or more")),
        "{remarks:?}"
    );
}

#[test]
fn sizes_beyond_all_reason_are_no_less_together() {
    let line = "~b#size: 18446744073709551615, 0x1234 \n";
    let dumped = "18446744073709551615 bytes (@ 0x3fc90010, Internal) allocated CPU 1 ccount 0x1 caller 0x40376321\n";
    for line in [line, dumped] {
        let ledger = open(line.repeat(3).as_bytes()).expect("a ledger");
        assert_eq!(blocks(&ledger).len(), 3);
        assert_eq!(ledger.tallies().expect("it can be read").get(TallyCounter::BytesAllocated), u64::MAX);
    }
}
