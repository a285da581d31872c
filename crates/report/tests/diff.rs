//! Comparisons of made ledgers, as text and JSON.

use std::path::PathBuf;

use heapledger_analysis::diff::{Census, Diff, Keep};
use heapledger_analysis::{NamedFrame, NamedStack, Note, Seen};
use heapledger_format::{Entry, Kind, Site};
use heapledger_report::{Compared, DiffReport, DiffSide, Form, Paint, Report, SnapshotReport, Stacks, Stepwise};
use heapledger_source::{Ledger, SourceError, Taken};
use heapledger_testing::Builder;

fn ledger(name: &str, blocks: &[(u64, u64, u32)]) -> (PathBuf, Ledger) {
    let mut builder = Builder::new();
    builder.stack(&[(None, 1), (None, 0x1000)]);
    builder.stack(&[(None, 2), (None, 0x1000)]);
    for (number, size, site) in blocks {
        builder.entry(Entry {
            number: *number,
            address: 0x1000 + number * 16,
            size: Some(*size),
            actual: None,
            kind: Kind::MALLOC,
            site: Site(*site),
            thread: None,
            heap: None,
            time: None,
            ..Entry::NONE
        });
    }
    let path = std::env::temp_dir().join(format!("heapledger-report-diff-{name}-{}", std::process::id()));
    builder.write(&path).expect("written");
    let ledger = Ledger::open(&path).expect("a ledger");
    (path, ledger)
}

fn diff(test: &str) -> Diff {
    let a = ledger(&format!("{test}-a"), &[(1, 100, 2), (2, 30_000, 2), (3, 64, 3)]);
    let b = ledger(&format!("{test}-b"), &[(2, 30_000, 2), (4, 2_000_000, 2), (5, 48, 2), (6, 5, 0)]);
    let before = Census::of(&a.1, None, Keep::Numbers, &mut |_| ()).expect("read");
    let (diff, _) = Diff::since(&before, &b.1, None, Keep::Sums, &mut |_| ()).expect("read");
    for path in [a.0, b.0] {
        std::fs::remove_file(path).expect("removed");
    }
    diff
}

fn stack(site: Site) -> NamedStack {
    let frame = |name: &str, file: Option<&str>| NamedFrame {
        function: Some(name.into()),
        file: file.map(Into::into),
        line: file.map(|_| 42),
        module: Some("/usr/bin/prog\x1b[31m".into()),
        ..NamedFrame::default()
    };
    let frames = match site {
        Site::NONE => vec![],
        Site(2) => {
            vec![frame("keep", Some("/src/keep.c")), frame("serve", None), frame("main", None), frame("_start", None)]
        }
        _ => vec![frame("lose", Some("/src/lose.c"))],
    };
    NamedStack { frames, damaged: false }
}

const SIDES: [DiffSide<'_>; 2] = [
    DiffSide { ledger: "a.hl", unix_ns: Some(1_000_000_000), peak_error: None },
    DiffSide { ledger: "b.hl", unix_ns: Some(11_000_000_000), peak_error: None },
];

/// Names that are known by heart.
struct Known;

impl Stacks for Known {
    fn stack(&mut self, site: Site) -> Result<NamedStack, SourceError> {
        Ok(stack(site))
    }

    fn notes(&mut self) -> Vec<Note> {
        Vec::new()
    }
}

/// Hands out the report of a comparison, of at most so many stacks of each list with two frames.
fn report<T>(diff: &Diff, limit: usize, paint: Paint, show: impl FnOnce(&mut DiffReport<'_>) -> T) -> T {
    let compared = Compared { diff, sides: SIDES, filter: Some("size > 1"), paint };
    let names: [&mut dyn Stacks; 2] = [&mut Known, &mut Known];
    show(&mut DiffReport { compared, limit, frames: Some(2), names, seen: Seen::default() })
}

fn text(diff: &Diff, limit: usize, paint: Paint) -> String {
    let mut out = Vec::new();
    report(diff, limit, paint, |report| report.write(&Form::Text, &mut out)).expect("written");
    String::from_utf8(out).expect("text")
}

#[test]
fn text_is_aligned_and_says_what_became_of_what() {
    let out = text(&diff("text"), 0, Paint::default());
    assert_eq!(
        out,
        "\
Only      : size > 1
A         : a.hl, 29.5 KiB (30,164 B) in 3 blocks
B         : b.hl, 1.94 MiB (2,030,053 B) in 4 blocks, 10.0 s later
New       : 3 blocks, 1.91 MiB, in B but not in A
Freed     : 2 blocks, 164 B, in A but freed in B
Growth    : +1.91 MiB (+1,999,889 B), +1 block; by number, within one run

Grown     : 2 stacks, +1.91 MiB
+1.91 MiB  +1 block  keep (keep.c:42) < serve < main
    1.94 MiB in 3 blocks now, 29.4 KiB in 2 blocks before; 2 new, 1 freed
    1) keep   /src/keep.c:42
    2) serve  in prog\\u{1b}[31m
       … 2 more frames (--frames 0 shows all)
     +5 B  +1 block  code without a stack
    new, none before

Shrunk    : 1 stack, -64 B
-64 B  -1 block  lose (lose.c:42)
    64 B in 1 block before, none now
    1) lose  /src/lose.c:42
"
    );
}

fn json(write: impl FnOnce(&mut Vec<u8>)) -> Vec<serde_json::Value> {
    let mut out = Vec::new();
    write(&mut out);
    let text = String::from_utf8(out).expect("text");
    text.lines().map(|line| serde_json::from_str(line).expect("an object")).collect()
}

#[test]
fn json_holds_all_of_it() {
    let diff = diff("json");
    let lines = json(|out| {
        report(&diff, 1, Paint::default(), |report| report.write(&Form::Json, out)).expect("written");
    });
    let [header, totals, change, shrunk, end] = lines.as_slice() else { panic!("{lines:?}") };
    assert_eq!(
        (&header["before"], &header["ledger"], &header["where"]),
        (&"a.hl".into(), &"b.hl".into(), &"size > 1".into())
    );
    assert_eq!(
        (&totals["type"], &totals["one_run"], &totals["growth_bytes"]),
        (&"diff".into(), &true.into(), &1_999_889.into())
    );
    assert_eq!(totals["freed"], serde_json::json!({"blocks": 2, "bytes": 164}));
    assert_eq!(totals["shrunk"], serde_json::json!({"stacks": 1, "bytes": -64}));
    assert_eq!(change["change"], "grown");
    assert_eq!(change["sites"], serde_json::json!([2, 2]));
    assert_eq!(change["frames"][0]["function"], "keep");
    assert_eq!(shrunk["change"], "gone");
    assert_eq!((&end["shown"], &end["left_out"]), (&2.into(), &1.into()));
}

#[test]
fn intervals_have_one_beginning_and_one_end() {
    let diff = diff("steps");
    let lines = json(|out| {
        for number in [1, 2] {
            report(&diff, 1, Paint::default(), |report| report.step(&Form::Json, number, out)).expect("written");
        }
        report(&diff, 0, Paint::default(), |report| report.end(&Form::Json, 2, out)).expect("written");
    });
    let types: Vec<&str> = lines.iter().map(|line| line["type"].as_str().unwrap_or_default()).collect();
    let interval = ["interval", "change", "change"];
    let wanted = [&["header"][..], &interval, &interval, &["diff", "change", "change", "change", "end"]].concat();
    assert_eq!(types, wanted);
    let mut out = Vec::new();
    report(&diff, 1, Paint::default(), |report| report.step(&Form::Text, 1, &mut out)).expect("written");
    report(&diff, 1, Paint::default(), |report| report.step(&Form::Text, 2, &mut out)).expect("written");
    report(&diff, 1, Paint::default(), |report| report.end(&Form::Text, 2, &mut out)).expect("written");
    let out = String::from_utf8(out).expect("text");
    assert_eq!(out.matches("Only      : size > 1\n").count(), 1, "{out}");
    assert_eq!(out.matches("+1.91 MiB, +1 block in 10.0 s (3 new, 2 freed)\n").count(), 2, "{out}");
    assert!(out.contains("\n\nIn all:\nA         : a.hl"), "{out}");
}

#[test]
fn a_snapshot_is_one_line() {
    let report = |held_ns, ended, in_flight| {
        let taken = Taken { unix_ns: 1, held_ns, in_flight, before: None };
        let mut report = SnapshotReport {
            ledger: "42",
            path: "x.0.hl",
            instead_of: None,
            program: "x",
            pid: Some(42),
            ended,
            taken,
            records: 1234,
            bytes: 2048,
            seen: SnapshotReport::seen_of(&taken),
            paint: Paint::default(),
        };
        let mut out = Vec::new();
        report.write(&Form::Text, &mut out).expect("written");
        String::from_utf8(out).expect("text")
    };
    let begin = "x (process 42) -> x.0.hl (2.00 KiB): 1,234 records";
    assert_eq!(report(Some(1_500_000), false, 0), format!("{begin}; it was held for 1.50 ms\n"));
    assert_eq!(report(None, false, 0), format!("{begin}, 0 in flight\n"));
    assert_eq!(report(None, true, 0), format!("{begin}; it has ended\n"));
    assert_eq!(report(Some(1_500_000), false, 2), format!("{begin}; it was held for 1.50 ms, 2 in flight\n"));
}

#[test]
fn bytes_are_exact_where_that_is_wanted() {
    let out = text(&diff("exact"), 1, Paint { exact_bytes: true, ..Paint::default() });
    assert!(out.contains("A         : a.hl, 30,164 B in 3 blocks\n"), "{out}");
    assert!(out.contains("Growth    : +1,999,889 B, +1 block; by number"), "{out}");
    assert!(out.contains("\n… and 1 more stack, +5 B (--limit 0 shows all)\n"), "{out}");
    assert!(!out.contains("iB"), "{out}");
}
