//! Elements of the sections that programs fill themselves, byte for byte, in both byte orders and word sizes.

use crate::ids::{Site, ThreadRowPlus1, Ticks};
use std::fmt::Debug;
use std::format;
use std::string::String;
use std::vec;
use std::vec::Vec;

use super::Value;
use crate::account::{Account, FreedOfOthers};
use crate::bytes::{ByteOrder, Codec, WordSize};
use crate::element::Word;
use crate::errors::{Direction, ErrorEntry, ErrorKind, ErrorStack, FoundAt, FoundBy, Neighbour, StackTag, Whereabouts};
use crate::kind::Kind;
use crate::label::Label;
use crate::mark::{Mark, MarkKind, Window, WindowMode, WindowState, reach};
use crate::section::{heap, heap_figures, heap_state};

const CODECS: [Codec; 4] = [
    Codec { order: ByteOrder::Little, word: WordSize::W64 },
    Codec { order: ByteOrder::Big, word: WordSize::W64 },
    Codec { order: ByteOrder::Little, word: WordSize::W32 },
    Codec { order: ByteOrder::Big, word: WordSize::W32 },
];

/// Little-endian and big-endian, of 8-byte words and of 4-byte words.
const LABEL: [&str; 4] = [
    "01000000 02010000 03020000 05000403",
    "00000001 00000102 00000203 00050304",
    "01000000 02010000 03020000 05000403",
    "00000001 00000102 00000203 00050304",
];
/// Little-endian and big-endian, of 8-byte words and of 4-byte words.
const MARK: [&str; 4] = [
    "01100000 00000000 02000200 00000000 11000000 12000000 03000000 04000100 15000000 16000000",
    "00000000 00001001 00000000 00020002 00000011 00000012 00000003 00040001 00000015 00000016",
    "01100000 00000000 02000200 00000000 11000000 12000000 03000000 04000100 15000000 16000000",
    "00000000 00001001 00000000 00020002 00000011 00000012 00000003 00040001 00000015 00000016",
];
/// Little-endian and big-endian, of 8-byte words and of 4-byte words.
const WINDOW: [&str; 4] = [
    "02000000 01001000 21000000 22000000 07000000 02000000 00010000 00000000 01010000 00000000 02010000 \
     00000000 03010000 00000000 04010000 00000000 05010000 00000000 06010000 00000000 07010000 00000000 \
     08010000 00000000 09010000 00000000 0a010000 00000000 0b010000 00000000",
    "00000002 00010010 00000021 00000022 00000007 00000002 00000000 00000100 00000000 00000101 00000000 \
     00000102 00000000 00000103 00000000 00000104 00000000 00000105 00000000 00000106 00000000 00000107 \
     00000000 00000108 00000000 00000109 00000000 0000010a 00000000 0000010b",
    "02000000 01001000 21000000 22000000 07000000 02000000 00010000 00000000 01010000 00000000 02010000 \
     00000000 03010000 00000000 04010000 00000000 05010000 00000000 06010000 00000000 07010000 00000000 \
     08010000 00000000 09010000 00000000 0a010000 00000000 0b010000 00000000",
    "00000002 00010010 00000021 00000022 00000007 00000002 00000000 00000100 00000000 00000101 00000000 \
     00000102 00000000 00000103 00000000 00000104 00000000 00000105 00000000 00000106 00000000 00000107 \
     00000000 00000108 00000000 00000109 00000000 0000010a 00000000 0000010b",
];
/// Little-endian and big-endian, of 8-byte words and of 4-byte words.
const ACCOUNT: [&str; 4] = [
    "03000000 01000000 00100000 00000000 01100000 00000000 02100000 00000000 03100000 00000000 04100000 \
     00000000 05100000 00000000 06100000 00000000",
    "00000003 00000001 00000000 00001000 00000000 00001001 00000000 00001002 00000000 00001003 00000000 \
     00001004 00000000 00001005 00000000 00001006",
    "03000000 01000000 00100000 01100000 02100000 03100000 04100000 05100000 06100000",
    "00000003 00000001 00001000 00001001 00001002 00001003 00001004 00001005 00001006",
];
/// Little-endian and big-endian, of 8-byte words and of 4-byte words.
const FREED: [&str; 4] = [
    "09000000 02000000 31000000 00000000 00320000 00000000",
    "00000009 00000002 00000000 00000031 00000000 00003200",
    "09000000 02000000 31000000 00320000",
    "00000009 00000002 00000031 00003200",
];
/// Little-endian and big-endian, of 8-byte words and of 4-byte words.
const ERROR: [&str; 4] = [
    "16000403 02010120 02000000 04080000 10007f00 00000000 04000000 00000000 00007f00 00000000 10000000 \
     00000000 20000000 00000000 05000000 00000000 06000000 00000000 91000000 00000000 92000000 00000000 \
     03000000 00000000 11110000 00000000 22220000 00000000 a1000000 00000000 41000000 51000000 01000000 \
     00000000 a2000000 00000000 42000000 52000000 02000000 00000000 a3000000 00000000 44000000 54000000 \
     04000000 99000000 7856adba 00000000 7800adba 01020304 e0ff7e00 00000000 00030000 40000000 40030000 \
     06000000 01700000 00000000 61000000 00000000 71000000 81000000 02700000 00000000 62000000 00000000 \
     72000000 82000000 00104000 00000000 00fe7f00 00000000 40fe7f00 00000000 0c000000 04000200",
    "00160403 02010120 00000002 00000804 00000000 007f0010 00000000 00000004 00000000 007f0000 00000000 \
     00000010 00000000 00000020 00000000 00000005 00000000 00000006 00000000 00000091 00000000 00000092 \
     00000000 00000003 00000000 00001111 00000000 00002222 00000000 000000a1 00000041 00000051 00010000 \
     00000000 00000000 000000a2 00000042 00000052 00020000 00000000 00000000 000000a3 00000044 00000054 \
     00040000 00000099 7856adba 00000000 7800adba 01020304 00000000 007effe0 00000300 00000040 00000340 \
     00000006 00000000 00007001 00000000 00000061 00000071 00000081 00000000 00007002 00000000 00000062 \
     00000072 00000082 00000000 00401000 00000000 007ffe00 00000000 007ffe40 0000000c 00040002",
    "16000403 02010120 02000000 04080000 10007f00 00000000 04000000 00000000 00007f00 00000000 10000000 \
     00000000 20000000 00000000 05000000 00000000 06000000 00000000 91000000 00000000 92000000 00000000 \
     03000000 00000000 11110000 00000000 22220000 00000000 a1000000 00000000 41000000 51000000 01000000 \
     00000000 a2000000 00000000 42000000 52000000 02000000 00000000 a3000000 00000000 44000000 54000000 \
     04000000 99000000 7856adba 00000000 7800adba 01020304 e0ff7e00 00000000 00030000 40000000 40030000 \
     06000000 01700000 00000000 61000000 00000000 71000000 81000000 02700000 00000000 62000000 00000000 \
     72000000 82000000 00104000 00000000 00fe7f00 00000000 40fe7f00 00000000 0c000000 04000200",
    "00160403 02010120 00000002 00000804 00000000 007f0010 00000000 00000004 00000000 007f0000 00000000 \
     00000010 00000000 00000020 00000000 00000005 00000000 00000006 00000000 00000091 00000000 00000092 \
     00000000 00000003 00000000 00001111 00000000 00002222 00000000 000000a1 00000041 00000051 00010000 \
     00000000 00000000 000000a2 00000042 00000052 00020000 00000000 00000000 000000a3 00000044 00000054 \
     00040000 00000099 7856adba 00000000 7800adba 01020304 00000000 007effe0 00000300 00000040 00000340 \
     00000006 00000000 00007001 00000000 00000061 00000071 00000081 00000000 00007002 00000000 00000062 \
     00000072 00000082 00000000 00401000 00000000 007ffe00 00000000 007ffe40 0000000c 00040002",
];
/// Little-endian and big-endian, of 8-byte words and of 4-byte words.
const HEAP: [&str; 4] = [
    "02000000 40000000 06000000 04180000 00100000 00000000 00900000 00000000 00050000 00000000 01050000 \
     00000000 02050000 00000000 03050000 00000000 04050000 00000000 05050000 00000000 06050000 00000000 \
     07050000 00000000 08050000 00000000 09050000 00000000",
    "00000002 00000040 00000006 00001804 00000000 00001000 00000000 00009000 00000000 00000500 00000000 \
     00000501 00000000 00000502 00000000 00000503 00000000 00000504 00000000 00000505 00000000 00000506 \
     00000000 00000507 00000000 00000508 00000000 00000509",
    "02000000 40000000 06000000 04180000 00100000 00900000 00050000 01050000 02050000 03050000 04050000 \
     05050000 06050000 07050000 08050000 09050000",
    "00000002 00000040 00000006 00001804 00001000 00009000 00000500 00000501 00000502 00000503 00000504 \
     00000505 00000506 00000507 00000508 00000509",
];

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes and reads `value` in all four ways, and holds the bytes against `expected`.
fn all_ways<V: Value + PartialEq + Debug>(
    value: V,
    expected: &[&str; 4],
    write: fn(&V, Codec, &mut [u8]) -> bool,
    read: fn(Codec, &[u8]) -> Option<V>,
) {
    for (codec, expected) in CODECS.into_iter().zip(expected) {
        let mut bytes = vec![0xa5; V::bytes(codec.word)];
        assert!(write(&value, codec, &mut bytes), "{codec:?}");
        assert_eq!(hex(&bytes), expected.replace(' ', ""), "{codec:?}");
        assert_eq!(read(codec, &bytes), Some(value), "{codec:?}");
        bytes.extend([0x5a; 9]);
        assert_eq!(read(codec, &bytes), Some(value), "a longer element of a later version, {codec:?}");
        assert_eq!(read(codec, &vec![0; bytes.len()]), None, "vacant, {codec:?}");
        assert_eq!(read(codec, &[]), None, "{codec:?}");
        for length in 0..V::bytes(codec.word) {
            let mut short = vec![0u8; length];
            assert!(!write(&value, codec, &mut short), "no room in {length}, {codec:?}");
            assert!(length != 0 || read(codec, &short).is_none(), "{codec:?}");
        }
    }
}

#[test]
fn labels() {
    let label = Label { parent: 1, key_at: 0x102, value_at: 0x203, key_bytes: 5, value_bytes: 0x304 };
    all_ways(label, &LABEL, Label::write, Label::read);
    assert_eq!(Label::commit_at(WordSize::W32), 12);
}

#[test]
fn marks() {
    let mark = Mark {
        number: 0x1001,
        time: Ticks(0x20002),
        name_at: 0x11,
        name_bytes: 0x12,
        thread: ThreadRowPlus1(3),
        kind: MarkKind::WindowStarts as u16,
        reach: reach::OWN_THREAD,
        about: 0x15,
        label: 0x16,
    };
    all_ways(mark, &MARK, Mark::write, Mark::read);
}

#[test]
fn windows() {
    let window = Window {
        state: WindowState::Paused as u32,
        mode: WindowMode::Leaks as u16,
        depth: 16,
        name_at: 0x21,
        name_bytes: 0x22,
        thread: ThreadRowPlus1(7),
        starts: 2,
        capacity: 0x100,
        allocations: 0x101,
        frees: 0x102,
        bytes_allocated: 0x103,
        bytes_freed: 0x104,
        live_blocks: 0x105,
        live_bytes: 0x106,
        peak_records: 0x107,
        peak_bytes: 0x108,
        peak_error: 0x109,
        dropped_freed: 0x10a,
        dropped_live: 0x10b,
    };
    all_ways(window, &WINDOW, Window::write, Window::read);
}

#[test]
fn accounts() {
    let account = Account {
        thread: ThreadRowPlus1(3),
        heap: 1,
        bytes: Word(0x1000),
        peak_bytes: Word(0x1001),
        blocks: Word(0x1002),
        peak_blocks: Word(0x1003),
        allocations: Word(0x1004),
        frees: Word(0x1005),
        frees_by_others: Word(0x1006),
    };
    all_ways(account, &ACCOUNT, Account::write, Account::read);
    let freed = FreedOfOthers { account: 9, thread: ThreadRowPlus1(2), blocks: Word(0x31), bytes: Word(0x3200) };
    all_ways(freed, &FREED, FreedOfOthers::write, FreedOfOthers::read);

    let left = account.less(&FreedOfOthers { bytes: Word(0x10), ..freed });
    assert_eq!((left.blocks, left.bytes), (Word(0x1002 - 0x31), Word(0x1000 - 0x10)));
    assert_eq!((left.frees, left.frees_by_others), (account.frees, Word(0x1006 + 0x31)));
    assert_eq!(left.less(&FreedOfOthers { bytes: Word(u64::MAX), ..freed }).bytes, Word(0), "it may lag");
}

#[test]
fn a_word_stays_at_the_highest_that_fits() {
    let codec = CODECS[2];
    let mut bytes = [0u8; 4];
    assert!(Word(1 << 40).put(codec, &mut bytes, 0));
    assert_eq!(Word::get(codec, &bytes, 0), Word(u64::from(u32::MAX)));
}

#[test]
fn errors() {
    let stack = |time, tag, custom| ErrorStack {
        time,
        site: Site(0x40 + u32::from(tag)),
        thread: ThreadRowPlus1(0x50 + u32::from(tag)),
        tag,
        ancestor: 0,
        custom,
    };
    let neighbour = |index: u32| Neighbour {
        address: 0x7000 + u64::from(index),
        bytes: 0x60 + u64::from(index),
        site: Site(0x70 + index),
        thread: ThreadRowPlus1(0x80 + index),
    };
    let error = ErrorEntry {
        kind: ErrorKind::BufferOverflow as u16,
        found_by: FoundBy::Canary as u8,
        found_at: FoundAt::Free as u8,
        direction: Direction::Write as u8,
        whereabouts: Whereabouts::Block as u8,
        given_by: Kind::MALLOC.number(),
        called: Kind::FREE.number(),
        heap: 2,
        capabilities: 0x804,
        address: 0x7f_0010,
        bytes: 4,
        block: 0x7f_0000,
        block_bytes: 16,
        alignment: 32,
        operands: [5, 6],
        allocated: 0x91,
        freed: 0x92,
        repeats: 3,
        first_time: Ticks(0x1111),
        last_time: Ticks(0x2222),
        stacks: [
            stack(Ticks(0xa1), StackTag::Allocation as u16, 0),
            stack(Ticks(0xa2), StackTag::Free as u16, 0),
            stack(Ticks(0xa3), StackTag::Custom as u16, 0x99),
        ],
        expected: [0x78, 0x56, 0xad, 0xba, 0, 0, 0, 0],
        found: [0x78, 0, 0xad, 0xba, 1, 2, 3, 4],
        around_address: 0x7e_ffe0,
        around_at: 0x300,
        around_bytes: 64,
        function_at: 0x340,
        function_bytes: 6,
        neighbours: [neighbour(1), neighbour(2)],
        program_counter: 0x40_1000,
        stack_pointer: 0x7f_fe00,
        frame_pointer: 0x7f_fe40,
        label: 12,
        compared: 4,
        core: 2,
    };
    all_ways(error, &ERROR, ErrorEntry::write, ErrorEntry::read);
    assert_eq!(ErrorEntry::bytes(WordSize::W32), 304);
    // One of a chip that has room for the block and one stack.
    let codec = CODECS[3];
    let mut short = [0u8; 136];
    assert!(!error.write(codec, &mut short));
    let read = ErrorEntry::read(codec, &short).expect("an error");
    assert_eq!((read.kind, read.block_bytes, read.last_time), (22, 16, Ticks(0x2222)));
    assert_eq!(read.stacks, [error.stacks[0], ErrorStack::default(), ErrorStack::default()]);
    assert_eq!(read.neighbours, [Neighbour::default(); 2]);
}

#[test]
fn a_heap_that_knows_itself() {
    for (codec, expected) in CODECS.into_iter().zip(HEAP) {
        let word = codec.word;
        assert_eq!(heap_figures::total(word), heap::bytes(word), "they follow the rest of the row");
        let mut bytes = vec![0u8; heap_figures::bytes(word)];
        let mut put = |at: usize, width: usize, value: u64| assert!(codec.put(&mut bytes, at, width, value));
        put(heap::state(word), 4, u64::from(heap_state::GONE));
        put(heap::name_at(word), 4, 0x40);
        put(heap::name_bytes(word), 4, 6);
        put(heap::capabilities(word), 4, 0x1804);
        put(heap::low(word), word.bytes(), 0x1000);
        put(heap::high(word), word.bytes(), 0x9000);
        let figures: [fn(WordSize) -> usize; 10] = [
            heap_figures::total,
            heap_figures::free,
            heap_figures::least_free,
            heap_figures::least_free_since,
            heap_figures::largest_free,
            heap_figures::allocated,
            heap_figures::blocks,
            heap_figures::free_blocks,
            heap_figures::failures,
            heap_figures::noted,
        ];
        for (index, place) in (0u64..).zip(figures) {
            put(place(word), word.bytes(), 0x500 + index);
        }
        assert_eq!(hex(&bytes), expected.replace(' ', ""), "{codec:?}");
        for (index, place) in (0u64..).zip(figures) {
            assert_eq!(heap_figures::get(codec, &bytes, place), 0x500 + index, "{codec:?}");
        }
    }
}

#[test]
fn names_and_numbers_go_both_ways() {
    fn both<T: Copy + PartialEq + Debug>(
        all: &[T],
        number: fn(T) -> u64,
        of: fn(u64) -> Option<T>,
        name: fn(T) -> &'static str,
    ) {
        let mut names = Vec::new();
        for item in all {
            assert_eq!(of(number(*item)), Some(*item));
            assert_ne!(number(*item), 0, "0 is none: {item:?}");
            assert!(!names.contains(&name(*item)), "{item:?}");
            names.push(name(*item));
        }
        assert_eq!(of(0), None);
        assert_eq!(of(255), None);
    }
    both(ErrorKind::ALL, |item| item as u64, |number| ErrorKind::from_number(number as u16), ErrorKind::name);
    both(FoundBy::ALL, |item| item as u64, |number| FoundBy::from_number(number as u8), FoundBy::name);
    both(FoundAt::ALL, |item| item as u64, |number| FoundAt::from_number(number as u8), FoundAt::name);
    both(Direction::ALL, |item| item as u64, |number| Direction::from_number(number as u8), Direction::name);
    both(Whereabouts::ALL, |item| item as u64, |number| Whereabouts::from_number(number as u8), Whereabouts::name);
    both(StackTag::ALL, |item| item as u64, |number| StackTag::from_number(number as u16), StackTag::name);
    both(MarkKind::ALL, |item| item as u64, |number| MarkKind::from_number(number as u16), MarkKind::name);
    both(WindowState::ALL, |item| item as u64, |number| WindowState::from_number(number as u32), WindowState::name);
    both(WindowMode::ALL, |item| item as u64, |number| WindowMode::from_number(number as u16), WindowMode::name);
}
