//! Errors of a made ledger, in each form.

use std::sync::Arc;
use std::time::SystemTime;

use heapledger_analysis::{Clock, NamedFrame, NamedStack, Note, Sampling};
use heapledger_format::Site;
use heapledger_format::bytes::{ByteOrder, WordSize};
use heapledger_format::errors::{FoundAt, FoundBy};
use heapledger_source::{Ledger, SourceError};
use heapledger_testing::{Scratch, everything};

use super::*;
use crate::Paint;

/// Stacks of a function each, which is called by the number of its site.
struct Numbered;

impl Stacks for Numbered {
    fn stack(&mut self, site: Site) -> Result<NamedStack, SourceError> {
        let frame = NamedFrame { function: Some(format!("site_{}", site.0).into()), ..Default::default() };
        Ok(NamedStack { frames: if site == Site::NONE { Vec::new() } else { vec![frame] }, ..NamedStack::default() })
    }

    fn notes(&mut self) -> Vec<Note> {
        Vec::new()
    }
}

fn context(ledger: &Ledger) -> Context {
    Context {
        ledger: "x".to_owned(),
        parts: Vec::new(),
        clock: Clock::new(ledger, SystemTime::UNIX_EPOCH).expect("a clock"),
        threads: ledger.threads().expect("read").into_iter().map(|thread| (thread.row, thread)).collect(),
        heaps: ledger.heaps().expect("read").into_iter().map(|heap| (heap.row, heap)).collect(),
        told: Arc::default(),
        sampling: Sampling::of(ledger),
        free_depths: ledger.free_depths().expect("marks"),
        paint: Paint::default(),
    }
}

fn written(form: &Form, shown: usize) -> String {
    let scratch = Scratch::new("errors");
    let path = scratch.join("x");
    everything(ByteOrder::Big, WordSize::W32).write(&path).expect("written");
    let ledger = Ledger::open(&path).expect("a ledger");
    let context = context(&ledger);
    let (errors, labels) = (ledger.errors().expect("read"), ledger.labels().expect("read"));
    let left_out = (errors.len() - shown) as u64;
    let (errors, labels, seen) = (&errors[..shown], &labels, Seen::default());
    let names = &mut Numbered;
    let excused = &[Excused { by: "bad-free:x*".to_owned(), errors: 2, times: 5 }];
    let mut report =
        ErrorsReport { context: &context, errors, excused, left_out, tokens: true, labels, names, seen, origins: &[] };
    let mut out = Vec::new();
    report.write(form, &mut out).expect("memory");
    String::from_utf8(out).expect("text")
}

#[test]
fn errors_as_text() {
    let text = written(&Form::Text, 2);
    for part in [
        "heap-buffer-overflow: WRITE of 4 bytes at 0x10000044, in a live block\n",
        "Detected  : by canary, at free, 198 ms after the allocation, time ",
        "Place     : not known: it was written in the 198 ms from the allocation on\n",
        "Call      : free\n",
        "Block     : 0x10000040, malloc 4 B, number 1\n",
        "Expected  : 78 56 ad ba (tail canary)\nFound     : 78 56 ad 00\n",
        "Before    : 0x10000000, 1 B, 63 bytes in front, allocated by site_1\n",
        "Memory    : 0x10000020  5a 5a ",
        "\n          : 0x10000040 [5a 5a 5a 5a]5a 5a ",
        "\n          :                         ^^ ^^ ^^ ^^\n          : 0x10000050  5a ",
        "\nallocated, time ",
        "\nfound, time ",
        "site_2\nDEDUP_TOKEN: heap-buffer-overflow--allocation--site_2\nSUMMARY: heap-buffer-overflow in site_2, where its block was allocated\n",
        "\n\nfailed-allocation\nDetected  : by answer, at call, time ",
        "Again     : 2 times, time ",
        "Call      : calloc, count 1,024, size 1,024\nRequested : 1,048,576 B\n",
    ] {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
    assert!(text.contains("\n\nSuppressed:\n  bad-free:x*  2 errors, found 5 times\n"), "{text}");
    assert!(!text.contains("After") && !text.contains("left out"), "{text}");
    assert!(written(&Form::Text, 1).contains("\n1 error left out (--limit 0 shows all)"));
    assert!(written(&Form::Text, 0).starts_with("No errors"), "none is shown");
}

/// An error as text, without its stacks but with what is said above them.
fn told(error: ErrorEntry) -> String {
    let scratch = Scratch::new("told");
    let path = scratch.join("x");
    everything(ByteOrder::Little, WordSize::W64).write(&path).expect("written");
    let context = context(&Ledger::open(&path).expect("a ledger"));
    let errors =
        [FoundError { row: 0, entry: error, around: Vec::new(), function: String::new(), of_ancestors: Vec::new() }];
    let (labels, seen) = (&Labels::default(), Seen::default());
    let (errors, names) = (&errors, &mut Numbered);
    let mut report = ErrorsReport {
        context: &context,
        errors,
        excused: &[],
        left_out: 0,
        tokens: false,
        labels,
        names,
        seen,
        origins: &[],
    };
    let mut out = Vec::new();
    report.write(&Form::Text, &mut out).expect("memory");
    String::from_utf8(out).expect("text")
}

#[test]
fn a_wrong_layout_has_both_and_both_stacks() {
    let stack =
        |tag: StackTag, site| ErrorStack { time: Ticks(1), site: Site(site), tag: tag as u16, ..ErrorStack::default() };
    let error = ErrorEntry {
        kind: ErrorKind::WrongLayout as u16,
        found_by: FoundBy::Argument as u8,
        found_at: FoundAt::Free as u8,
        given_by: Kind::RUST_ALLOC.number(),
        called: Kind::RUST_DEALLOC.number(),
        block: 0x1000,
        block_bytes: 2048,
        alignment: 8,
        operands: [1024, 64],
        stacks: [stack(StackTag::Allocation, 1), stack(StackTag::Free, 2), ErrorStack::default()],
        ..ErrorEntry::default()
    };
    assert_eq!(
        told(error),
        "wrong-layout\n\
         Detected  : by argument, at free\n\
         Call      : __rust_dealloc, size given 1,024, alignment given 64\n\
         Block     : 0x1000, __rust_alloc 2,048 B, aligned to 8\n\
         allocated, time 0.000001 s, age 300 ms\n\
         \x20 1) 0x? site_1\n\
         freed, time 0.000001 s, age 300 ms\n\
         \x20 1) 0x? site_2\n\
         SUMMARY: wrong-layout in site_2\n"
    );
    let called = Kind::RUST_REALLOC.number();
    let resized = told(ErrorEntry { found_at: FoundAt::Realloc as u8, called, ..error });
    assert!(resized.contains("Call      : __rust_realloc, size given") && resized.contains("\nresized, time "));
}

#[test]
fn a_wrong_free_says_where_it_points_and_how_long_ago_that_was_freed() {
    let stack = |tag: StackTag, site, ticks| ErrorStack {
        time: Ticks(ticks),
        site: Site(site),
        tag: tag as u16,
        ..ErrorStack::default()
    };
    let error = ErrorEntry {
        kind: ErrorKind::BadFree as u16,
        found_by: FoundBy::State as u8,
        found_at: FoundAt::Free as u8,
        whereabouts: Whereabouts::FreedBlock as u8,
        given_by: Kind::MALLOC.number(),
        called: Kind::FREE.number(),
        address: 0x1004,
        block: 0x1000,
        block_bytes: 400,
        stacks: [stack(StackTag::Allocation, 1, 1), stack(StackTag::Free, 2, 1001), stack(StackTag::Access, 3, 4001)],
        ..ErrorEntry::default()
    };
    let text = told(error);
    for part in [
        "bad-free: at 0x1004, in a freed block\n",
        "Block     : 0x1000, malloc 400 B\nAddress   : 4 bytes inside a 400-byte region\n",
        "\nfreed, time 0.001001 s, age 299 ms, 3.00 ms before\n",
        "\nwrong call, time 0.004001 s, age 296 ms\n",
    ] {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
    assert!(text.ends_with("\nSUMMARY: bad-free in site_3\n"), "{text}");
    let of = |address| told(ErrorEntry { address, ..error });
    assert!(of(0xfff).contains("Address   : 1 byte before a 400-byte region\n"));
    assert!(of(0x1190).contains("Address   : 0 bytes after a 400-byte region\n"));
    let double = told(ErrorEntry { kind: ErrorKind::DoubleFree as u16, address: 0x1000, ..error });
    assert!(double.contains("\nfreed again, time ") && double.contains("Address   : 0 bytes inside"), "{double}");
}

/// A block of 20 bytes at 0x1010, with its canaries around, damaged.
fn damaged(kind: ErrorKind, address: u64, bytes: u64, expected: &[u8], found: &[u8]) -> ErrorEntry {
    let eight = |bytes: &[u8]| {
        let mut eight = [0; 8];
        eight.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        eight
    };
    let stack = |tag: StackTag, site, ticks| ErrorStack {
        time: Ticks(ticks),
        site: Site(site),
        thread: heapledger_format::ThreadRowPlus1(1),
        tag: tag as u16,
        ..ErrorStack::default()
    };
    ErrorEntry {
        kind: kind as u16,
        found_by: FoundBy::Canary as u8,
        found_at: FoundAt::Exit as u8,
        direction: Direction::Write as u8,
        address,
        bytes,
        block: 0x1010,
        block_bytes: 20,
        first_time: Ticks(4001),
        stacks: [stack(StackTag::Allocation, 1, 1001), ErrorStack::default(), ErrorStack::default()],
        expected: eight(expected),
        found: eight(found),
        compared: expected.len() as u16,
        ..ErrorEntry::default()
    }
}

const TAIL: [u8; 4] = [0x78, 0x56, 0xad, 0xba];
const HEAD: [u8; 4] = [0x34, 0x12, 0xba, 0xab];

#[test]
fn damage_that_nobody_saw_is_at_the_allocation_and_says_so() {
    let end = 0x1010 + 20;
    let text = told(damaged(ErrorKind::BufferOverflow, end, 1, &TAIL, &[0, 0x56, 0xad, 0xba]));
    for part in [
        "heap-buffer-overflow: WRITE of 1 byte at 0x1024\n",
        "Detected  : by canary, at exit, 3.00 ms after the allocation, time 0.004001 s",
        "Place     : not known: it was written in the 3.00 ms from the allocation on\n",
        "Address   : 0 bytes after a 20-byte region\n",
        "Expected  : 78 56 ad ba (tail canary)\nFound     : 00 56 ad ba\n",
        "Hint      : one zero byte right behind the end: a string's last byte that was not counted\n",
        "\n  By thread 0, ",
    ] {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
    assert!(text.ends_with("\nSUMMARY: heap-buffer-overflow in site_1, where its block was allocated\n"), "{text}");
    let letters = told(damaged(ErrorKind::BufferOverflow, end, 4, &TAIL, b"left"));
    assert!(letters.contains("Found     : 6c 65 66 74 \"left\"\n") && !letters.contains("Hint"), "{letters}");
    let slack = told(damaged(ErrorKind::BufferOverflow, end + 4, 1, &[0xbd; 8], &[1; 8]));
    assert!(slack.contains("(fill beside the block)\n") && slack.contains("4 bytes after a"), "{slack}");
    let copied = told(damaged(ErrorKind::BufferOverflow, end, 4, &TAIL, &HEAD));
    assert!(copied.contains("Hint      : a head canary was copied here"), "{copied}");
    let unwritten = told(damaged(ErrorKind::BufferOverflow, end, 4, &TAIL, &[0xce; 4]));
    assert!(unwritten.contains("Hint      : 0xcececece… fills memory that was never written"), "{unwritten}");
}

#[test]
fn damage_in_front_leads_to_the_block_there() {
    let mut error = damaged(ErrorKind::BufferUnderflow, 0x100c, 4, &HEAD, b"over");
    error.neighbours[0] = heapledger_format::errors::Neighbour {
        address: 0xff0,
        bytes: 20,
        site: Site(7),
        thread: heapledger_format::ThreadRowPlus1(1),
    };
    let text = told(error);
    for part in [
        "Address   : 4 bytes before a 20-byte region\n",
        "(head canary)\n",
        "Before    : 0xff0, 20 B, 12 bytes in front, allocated by site_7\n",
        "Hint      : the block in front ends 12 bytes before this one and may have overrun: its allocation is below\n",
        "\nblock in front, which may have overrun, allocated\n  By thread 0, ",
        " site_7\nSUMMARY: heap-buffer-underflow in site_1, where its block was allocated\n",
    ] {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
}

#[test]
fn a_write_after_free_is_later_than_the_free() {
    let mut error = damaged(ErrorKind::UseAfterFree, 0x1018, 8, &[0xfe; 8], &[0xce; 8]);
    error.found_by = FoundBy::Fill as u8;
    error.found_at = FoundAt::Quarantine as u8;
    error.stacks[1] =
        ErrorStack { time: Ticks(2001), site: Site(2), tag: StackTag::Free as u16, ..ErrorStack::default() };
    let text = told(error);
    for part in [
        "Detected  : by fill, at quarantine, 2.00 ms after the free, time ",
        "Place     : not known: it was written in the 2.00 ms from the free on\n",
        "Address   : 8 bytes inside a 20-byte region\n",
        "Expected  : fe fe fe fe fe fe fe fe (fill of freed memory)\n",
        "\nfreed, time 0.002001 s, age 298 ms, 2.00 ms before\n",
    ] {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
}

#[test]
fn an_access_that_was_seen_is_where_it_was() {
    let mut error = damaged(ErrorKind::BufferOverflow, 0x1020, 8, &[], &[]);
    error.found_by = FoundBy::GuardPage as u8;
    error.found_at = FoundAt::Instruction as u8;
    error.direction = Direction::Read as u8;
    error.stacks[1] =
        ErrorStack { time: Ticks(3001), site: Site(3), tag: StackTag::Access as u16, ..ErrorStack::default() };
    let text = told(error);
    for part in [
        "heap-buffer-overflow: READ of 8 bytes at 0x1020\n",
        "Detected  : by guard page, at instruction, time ",
        "Place     : sure: the very instruction\n",
        "Address   : 16 bytes inside a 20-byte region, and 4 bytes past its end\n",
        "\naccess, time ",
        "\nSUMMARY: heap-buffer-overflow in site_3\n",
    ] {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
    let call = told(ErrorEntry { found_by: FoundBy::Range as u8, found_at: FoundAt::Call as u8, bytes: 0, ..error });
    assert!(call.contains(": READ at 0x1020\n") && call.contains("Place     : sure: the very call\n"), "{call}");
    let counter = told(ErrorEntry { program_counter: 0x4711, ..error });
    assert!(counter.contains("Place     : sure: the instruction at 0x4711\n"), "{counter}");
}

#[test]
fn addresses_of_filled_memory_are_known_again() {
    let of = |address| told(ErrorEntry { kind: ErrorKind::BadFree as u16, address, ..ErrorEntry::default() });
    let freed = "Hint      : the address is 0xfefefefe…, which fills memory that was freed: it was read from such\n";
    assert!(of(0xfefe_fefe_fefe_fefe).contains(freed) && of(0xfefe_fefe).contains(freed));
    assert!(of(0xcece_cece_cece_ced6).contains("0xcececece…, which fills memory that was never written"));
    assert!(!of(0x5555_5555_1000).contains("Hint"));
}

#[test]
fn the_edges_of_a_block_are_marked_in_memory() {
    let error = ErrorEntry {
        block: 0x1010,
        block_bytes: 16,
        address: 0x1020,
        bytes: 2,
        around_address: 0x1000,
        ..ErrorEntry::default()
    };
    let zeros = ["00"; 16].join(" ");
    let rows = memory::rows(&error, &[0; 50]);
    let expected = [
        format!("0x1000  {zeros}"),
        format!("0x1010 [{zeros}]"),
        "0x1020  00 00".to_owned() + &" 00".repeat(14),
        "        ^^ ^^".to_owned(),
        "0x1030  00 00".to_owned(),
    ];
    assert_eq!(rows, expected);
    let nothing = ErrorEntry { block_bytes: 0, address: 0, ..error };
    assert_eq!(memory::rows(&nothing, &[0; 17])[1], "0x1010 |00");
    assert_eq!(memory::rows(&ErrorEntry { block: 0x1004, ..error }, &[0; 16])[0], {
        format!("0x1000  00 00 00 00[{}", ["00"; 12].join(" "))
    });
}

#[test]
fn a_failed_call_says_what_was_requested() {
    let access = ErrorStack { time: Ticks(1), site: Site(2), tag: StackTag::Access as u16, ..ErrorStack::default() };
    let stacks = [access, ErrorStack::default(), ErrorStack::default()];
    let failed = ErrorKind::FailedAllocation as u16;
    let called = Kind::REALLOC.number();
    let error =
        ErrorEntry { kind: failed, called, block: 0x1000, block_bytes: 1 << 40, stacks, ..ErrorEntry::default() };
    assert_eq!(
        told(error),
        "failed-allocation\n\
         Call      : realloc\n\
         Requested : 1,099,511,627,776 B\n\
         Block     : 0x1000, which stays as it is\n\
         failed call, time 0.000001 s, age 300 ms\n\
         \x20 1) 0x? site_2\n\
         SUMMARY: failed-allocation in site_2\n"
    );
    let aligned = told(ErrorEntry { block: 0, alignment: 4096, ..error });
    assert!(aligned.contains("Requested : 1,099,511,627,776 B, aligned to 4,096\n") && !aligned.contains("Block"));
}

#[test]
fn errors_as_json() {
    let lines: Vec<serde_json::Value> =
        written(&Form::Json, 2).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let types: Vec<&str> = lines.iter().filter_map(|line| line["type"].as_str()).collect();
    assert_eq!(types, ["header", "site", "site", "error", "error", "suppressed", "end"], "each stack once");
    let (overflow, failed) = (&lines[3], &lines[4]);
    for (key, value) in [
        ("kind", serde_json::json!("heap-buffer-overflow")),
        ("found_by", "canary".into()),
        ("direction", "write".into()),
        ("address", "0x10000044".into()),
        ("block_bytes", 4.into()),
        ("given_by", "malloc".into()),
        ("called", "free".into()),
        ("allocated", 1.into()),
        ("freed", serde_json::Value::Null),
        ("expected", "78 56 ad ba".into()),
        ("token", "heap-buffer-overflow--allocation--site_2".into()),
    ] {
        assert_eq!(overflow[key], value, "{key}: {overflow}");
    }
    assert_eq!((&overflow["stacks"][1]["of"], &overflow["stacks"][1]["site"]), (&"access".into(), &2.into()));
    assert_eq!(overflow["stacks"][0]["thread"]["row"], 0);
    assert_eq!((&overflow["before"]["bytes"], &overflow["after"]), (&1.into(), &serde_json::Value::Null));
    assert_eq!(
        (&failed["repeats"], &failed["operands"][0], &failed["block"]),
        (&2.into(), &1024.into(), &serde_json::Value::Null)
    );
    assert_eq!(
        (&lines[5]["by"], &lines[5]["errors"], &lines[5]["times"]),
        (&"bad-free:x*".into(), &2.into(), &5.into())
    );
    assert_eq!(lines[6]["shown"], 2);
}

#[test]
fn errors_as_a_table() {
    let csv = written(&Form::Csv, 2);
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines.len(), 3, "{csv}");
    assert!(lines[0].starts_with("row,kind,found_by,found_at,direction,address,bytes,called,block,"), "{csv}");
    assert!(
        lines[1].starts_with("0,heap-buffer-overflow,canary,free,write,0x10000044,4,free,0x10000040,4,malloc,0,"),
        "{csv}"
    );
    assert!(
        lines[1].ends_with(",allocation: site_2; access: site_2,heap-buffer-overflow--allocation--site_2,"),
        "{csv}"
    );
    assert!(lines[2].contains(",failed-allocation,answer,call,,,0,calloc,,1048576,,2,"), "{csv}");
}

#[test]
fn what_nobody_knows_is_said_by_number() {
    let error = ErrorEntry { kind: 99, called: 1, ..ErrorEntry::default() };
    let stack = ErrorStack { tag: 9, ..ErrorStack::default() };
    assert_eq!((kind_name(&error).as_str(), stack_name(&stack).as_str()), ("error 99", "stack 9"));
    assert!(whereabouts(&ErrorEntry { whereabouts: 77, ..error }).is_none());
}
