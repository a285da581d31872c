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
    let mut report = ErrorsReport { context: &context, errors, left_out, labels, names: &mut Numbered, seen };
    let mut out = Vec::new();
    report.write(form, &mut out).expect("memory");
    String::from_utf8(out).expect("text")
}

#[test]
fn errors_as_text() {
    let text = written(&Form::Text, 2);
    for part in [
        "heap-buffer-overflow: 4 B written at 0x10000044, in a live block\n",
        "Detected  : by canary, at free, time ",
        "Call      : free\n",
        "Block     : 0x10000040, malloc 4 B, number 1\n",
        "Expected  : 78 56 ad ba\nFound     : 78 56 ad 00\n",
        "Before    : 0x10000000, 1 B\n",
        "Memory    : 0x10000020  5a 5a ",
        "\n          : 0x10000050  5a ",
        "\nallocated, time ",
        "\naccess, time ",
        "site_2",
        "\n\nfailed-allocation\nDetected  : by answer, at call, time ",
        "Again     : 2 times, time ",
        "Call      : calloc, count 1,024, size 1,024\nRequested : 1,048,576 B\n",
    ] {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
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
    let errors = [FoundError { row: 0, entry: error, around: Vec::new(), function: String::new() }];
    let (labels, seen) = (&Labels::default(), Seen::default());
    let mut report =
        ErrorsReport { context: &context, errors: &errors, left_out: 0, labels, names: &mut Numbered, seen };
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
         \x20 1) 0x? site_2\n"
    );
    let called = Kind::RUST_REALLOC.number();
    let resized = told(ErrorEntry { found_at: FoundAt::Realloc as u8, called, ..error });
    assert!(resized.contains("Call      : __rust_realloc, size given") && resized.contains("\nresized, time "));
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
         \x20 1) 0x? site_2\n"
    );
    let aligned = told(ErrorEntry { block: 0, alignment: 4096, ..error });
    assert!(aligned.contains("Requested : 1,099,511,627,776 B, aligned to 4,096\n") && !aligned.contains("Block"));
}

#[test]
fn errors_as_json() {
    let lines: Vec<serde_json::Value> =
        written(&Form::Json, 2).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let types: Vec<&str> = lines.iter().filter_map(|line| line["type"].as_str()).collect();
    assert_eq!(types, ["header", "site", "site", "error", "error", "end"], "each stack once");
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
    assert_eq!(lines[5]["shown"], 2);
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
    assert!(lines[1].ends_with(",allocation: site_2; access: site_2"), "{csv}");
    assert!(lines[2].contains(",failed-allocation,answer,call,,,0,calloc,,1048576,,2,"), "{csv}");
}

#[test]
fn what_nobody_knows_is_said_by_number() {
    let error = ErrorEntry { kind: 99, called: 1, ..ErrorEntry::default() };
    let stack = ErrorStack { tag: 9, ..ErrorStack::default() };
    assert_eq!((kind_name(&error).as_str(), stack_name(&stack).as_str()), ("error 99", "stack 9"));
    assert!(whereabouts(&ErrorEntry { whereabouts: 77, ..error }).is_none());
}
