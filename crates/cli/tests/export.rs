//! `heapledger export`: what can be asked for, where it goes, and names that a program may have.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use common::{Scratch, heapledger, output};
use heapledger_format::{Entry, Kind, ThreadRow, Ticks};
use heapledger_testing::{Builder, freed_at};

const FORMATS: &[&str] = &[
    "pprof",
    "speedscope",
    "heaptrack",
    "dhat",
    "massif",
    "folded",
    "difffolded",
    "callgrind",
    "firefox",
    "perfetto",
    "otlp",
];

/// Names of code that was made at run time, as an engine writes them: bytes of any kind.
const NAMES: &[u8] =
    b"1000 10 with;semicolon\n2000 10 with#hash{closure#0}\n3000 10 say \"hi\" \\\n4000 10 latin\xe9\xff1\n5000 10 ends 12\n";

/// A ledger of five such functions, each called by the one before, with a block each, and one that was freed.
fn ledger(scratch: &Scratch) -> String {
    let mut builder = Builder::new();
    for number in 1..=5u64 {
        let frames: Vec<(Option<u16>, u64)> = (1..=number).rev().map(|at| (None, at * 0x1000 + 5)).collect();
        let site = builder.stack(&frames);
        let entry = Entry {
            number,
            address: 0x10_0000 * number,
            size: Some(100 * number + 3),
            actual: None,
            kind: Kind::MALLOC,
            site,
            thread: Some(ThreadRow(0)),
            heap: Some(0),
            time: Some(Ticks(number)),
            ..Entry::NONE
        };
        builder.entry(entry);
        if number == 3 {
            builder.freed(freed_at(Entry { number: 10, address: 0x77_0000, size: Some(4000), ..entry }, 11));
        }
    }
    builder.thread(1, 7, 0x7, "a;b", [6, 1, 5515]);
    builder.process("program", "prog").process("pid", "4711");
    let path = scratch.0.join("prog.hl");
    builder.write(&path).expect("written");
    fs::write(scratch.0.join("perf.map"), NAMES).expect("written");
    path.to_string_lossy().into_owned()
}

struct Told {
    code: Option<i32>,
    out: Vec<u8>,
    err: String,
}

fn export(scratch: &Scratch, words: &[&str]) -> Told {
    let mut command = heapledger();
    command.arg("export").args(words).current_dir(scratch.cwd());
    if scratch.0.join("perf.map").exists() && !words.contains(&"--help") {
        command.arg("--perf-map").arg(scratch.0.join("perf.map"));
    }
    let output = output(&mut command);
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    Told { code: output.status.code(), out: output.stdout, err }
}

/// `LINE 5` is 5.
fn sum(text: &str) -> u64 {
    text.lines().filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

#[test]
fn names_of_any_bytes_are_in_lines_of_one_stack_each() {
    let scratch = Scratch::new("export-names");
    let ledger = ledger(&scratch);
    let told = export(&scratch, &["folded", &ledger, "-o", "-"]);
    assert_eq!(told.code, Some(0), "{}", told.err);
    let text = String::from_utf8(told.out).expect("UTF-8, whatever the names are");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 5, "{text}");
    assert!(
        lines.contains(&"with:semicolon;with#hash{closure#0};say \"hi\" \\;latin\u{fffd}\u{fffd}1;ends_12 503"),
        "{text}"
    );
    assert_eq!(sum(&text), 103 + 203 + 303 + 403 + 503);
}

#[test]
fn every_format_is_written_for_its_owner_alone_and_replaces_nothing_unasked() {
    let scratch = Scratch::new("export-files");
    let ledger = ledger(&scratch);
    for format in FORMATS {
        let diff: &[&str] = if *format == "difffolded" { &["--diff", &ledger] } else { &[] };
        for round in 0..2 {
            let told = export(&scratch, &[&[format, ledger.as_str()], diff].concat());
            assert_eq!(told.code, Some(0), "{format}: {}", told.err);
            assert!(told.out.is_empty(), "{format}");
            assert_eq!(told.err.matches("has no place for").count(), 1, "{format}: {}", told.err);
            let wrote = fs::read_dir(scratch.cwd()).expect("list").count();
            let before = FORMATS.iter().position(|other| other == format).unwrap_or(0);
            assert_eq!(wrote, before * 2 + round + 1, "{format}");
        }
    }
    for item in fs::read_dir(scratch.cwd()).expect("list") {
        let meta = item.expect("an item").metadata().expect("there");
        assert_eq!(meta.permissions().mode() & 0o777, 0o600);
        assert!(meta.len() > 50);
    }
}

#[test]
fn files_are_packed_as_their_names_say() {
    let scratch = Scratch::new("export-packed");
    let ledger = ledger(&scratch);
    let begins = |format: &str, name: &str, magic: &[u8]| {
        let told = export(&scratch, &[format, &ledger, "-o", name]);
        assert_eq!(told.code, Some(0), "{}", told.err);
        let bytes = fs::read(scratch.cwd().join(name)).expect("written");
        assert!(bytes.starts_with(magic), "{name}: {:x?}", &bytes[..8]);
    };
    begins("heaptrack", "a.gz", &[0x1f, 0x8b]);
    begins("heaptrack", "a.zst", &[0x28, 0xb5, 0x2f, 0xfd]);
    begins("heaptrack", "a", b"v 10400 3\n");
    // pprof's are always packed.
    begins("pprof", "b.pb", &[0x1f, 0x8b]);
    begins("dhat", "c.json", b"{\"dhatFileVersion\":2");
}

#[test]
fn figures_filters_and_threads_are_those_that_were_asked_for() {
    let scratch = Scratch::new("export-figures");
    let ledger = ledger(&scratch);
    let folded = |words: &[&str]| {
        let told = export(&scratch, &[&["folded", ledger.as_str(), "-o", "-"], words].concat());
        assert_eq!(told.code, Some(0), "{words:?}: {}", told.err);
        String::from_utf8(told.out).expect("UTF-8")
    };
    assert_eq!(sum(&folded(&["--by", "blocks"])), 5);
    assert_eq!(sum(&folded(&["--by", "allocated"])), 1515 + 4000);
    assert_eq!(sum(&folded(&["--by", "freed"])), 4000);
    assert_eq!(sum(&folded(&["--where", "size > 400"])), 403 + 503);
    assert!(folded(&["--threads"]).lines().all(|line| line.starts_with("0: a:b") || line.contains("a:b")));
    // What is hidden counts for its callers.
    let hidden = folded(&["--hide", "say|latin"]);
    assert!(!hidden.contains("say") && sum(&hidden) == 1515, "{hidden}");
}

#[test]
fn what_cannot_be_had_is_refused_before_anything_is_written() {
    let scratch = Scratch::new("export-refused");
    let ledger = ledger(&scratch);
    for (words, code, word) in [
        (&["nosuch", &ledger][..], 2, "pprof"),
        (&["difffolded", &ledger], 2, "--diff OLD"),
        (&["massif", "--diff", &ledger, &ledger], 2, "comparison"),
        (&["massif", "--by", "blocks", &ledger], 2, "no place"),
        (&["heaptrack", "--by", "allocated", &ledger], 2, "no place"),
        // This ledger has no sums: it does not know its peak.
        (&["folded", "--at", "peak", &ledger], 1, "does not say"),
        (&["folded", "--where", "size >", &ledger], 2, "--where"),
        (&["folded", "no/such/file"], 1, "no/such/file"),
    ] {
        let told = export(&scratch, words);
        assert_eq!(told.code, Some(code), "{words:?}: {}", told.err);
        assert!(told.err.contains(word), "{words:?}: {}", told.err);
        assert!(told.out.is_empty(), "{words:?}");
    }
    let told = export(&scratch, &["folded", &ledger, "-o", "no/such/place"]);
    assert!(told.code != Some(0) && told.err.contains("no/such/place"), "{}", told.err);
    assert_eq!(fs::read_dir(scratch.cwd()).expect("list").count(), 0);
}

#[test]
fn a_full_disk_is_a_failure_and_a_closed_pipe_none() {
    let scratch = Scratch::new("export-full");
    let ledger = ledger(&scratch);
    for format in FORMATS {
        let mut words = vec!["export", format, &ledger, "-o", "-"];
        words.extend(if *format == "difffolded" { vec!["--diff", &ledger] } else { vec![] });
        let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
        let told = heapledger().args(&words).stdout(full).output().expect("started");
        let said = String::from_utf8_lossy(&told.stderr).into_owned();
        assert_eq!(told.status.code(), Some(1), "{format}: {said}");
        assert!(said.contains("No space left") && !said.contains("os error"), "{format}: {said}");
        // As a pipe to `head` that has read enough.
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let told = heapledger().args(&words).stdout(writer).output().expect("started");
        let said = String::from_utf8_lossy(&told.stderr).into_owned();
        assert!(told.status.success() && !said.contains("roken pipe"), "{format}: {:?} {said}", told.status);
    }
}

#[test]
fn help_lists_all_formats_and_each_has_a_page() {
    let scratch = Scratch::new("export-help");
    let told = export(&scratch, &["--help"]);
    let help = String::from_utf8(told.out).expect("UTF-8");
    let list = help.split_once("Formats:\n").expect("a list").1.split("\n\n").next().expect("its lines");
    let names: Vec<&str> = list.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, FORMATS);
    let pages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/viewers");
    for name in FORMATS.iter().filter(|name| **name != "difffolded") {
        let page = fs::read_to_string(pages.join(format!("{name}.md"))).expect("a page");
        assert!(page.contains(&format!("heapledger export {name}")), "{name}");
    }
}
