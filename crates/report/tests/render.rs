//! All reports of made ledgers: what they say, and that no damage upsets them.

mod common;

use std::os::unix::fs::FileExt;

use common::reports;
use heapledger_format::bytes::{ByteOrder, WordSize};
use heapledger_source::{Ledger, finish};
use heapledger_testing::{Scratch, sample};

/// Without what tells how much the ledger takes: that differs between word sizes, and between forms of a ledger.
fn comparable(reports: &[String; 6]) -> Vec<String> {
    let mut out = Vec::new();
    for report in reports {
        let mut field = "";
        let mut lines = Vec::new();
        for line in report.lines() {
            field = line.split(" :").next().filter(|field| !field.trim().is_empty()).unwrap_or(field);
            if line.starts_with('{') {
                let mut object: serde_json::Value = serde_json::from_str(line).expect("an object");
                for (part, figures) in [
                    ("ledger", &["bytes", "file_bytes", "finished"][..]),
                    ("call_sites", &["packed_bytes", "bytes_per_stack_file"]),
                ] {
                    if let Some(part) = object.get_mut(part).and_then(|part| part.as_object_mut()) {
                        part.retain(|name, _| !figures.contains(&name.as_str()));
                    }
                }
                if let Some(object) = object.as_object_mut() {
                    object.remove("memory");
                }
                lines.push(object.to_string());
            } else if !field.starts_with("Debugdata") {
                lines.push(line.to_owned());
            }
        }
        out.push(lines.join("\n"));
    }
    out
}

#[test]
fn a_ledger_of_any_machine_reads_the_same() {
    let place = Scratch::in_memory("report-a_ledger_of_any_machine_reads_the_same");
    let mut all = Vec::new();
    for order in [ByteOrder::Little, ByteOrder::Big] {
        for word in [WordSize::W64, WordSize::W32] {
            let path = place.join(format!("{order:?}{word:?}"));
            sample(order, word).write(&path).expect("written");
            all.push(comparable(&reports(&path).expect("readable")));
        }
    }
    for other in &all[1..] {
        for (one, other) in all[0].iter().zip(other) {
            assert_eq!(one, other);
        }
    }
}

#[test]
fn a_finished_ledger_reads_as_the_live_one() {
    let place = Scratch::in_memory("report-a_finished_ledger_reads_as_the_live_one");
    let (live, finished) = (place.join("same.hlive"), place.join("same.hl"));
    sample(ByteOrder::Little, WordSize::W64).write(&live).expect("written");
    finish(&Ledger::open(&live).expect("a ledger"), &finished, &[], &mut |_, _| {}).expect("finished");
    let [one, two] = [&live, &finished].map(|path| comparable(&reports(path).expect("readable")));
    for (index, (one, two)) in one.iter().zip(&two).enumerate() {
        assert_eq!(one, two, "report {index}");
    }
}

#[test]
fn what_a_person_sees() {
    let place = Scratch::in_memory("report-what_a_person_sees");
    let path = place.join("seen.hlive");
    sample(ByteOrder::Little, WordSize::W64).write(&path).expect("written");
    let [stats, stats_lines, dump, dump_lines, history, history_lines] = reports(&path).expect("readable");
    for line in [
        "a ledger: statistics",
        "Program   : program, pid 4711, began 2023-11-14 22:13:20 UTC, ended after about 300 ms; how is not known",
        "          : program 'two words'",
        "Heap      : brk, 0x10000000 to 0x100fffff, size 1.00 MiB, holds 4.62 KiB in 24 blocks",
        "History   : 60 allocations, 12 frees",
        "Current   : 2.87 MiB (3,009,826 B) in 48 blocks",
        "Actual    : approximately 5.73 MiB (6,010,536 B)",
        "          : what the allocator keeps beside the blocks is not known",
        "Overhead  : approximately 2.86 MiB (3,000,710 B), 49.9%",
        "Peak      : 3.81 MiB (4,000,000 B) ± 4.00 KiB in about 55 blocks, after 90.0 ms",
        "Call sites: 6 distinct stacks, 6 of them with live blocks; 3.5 frames each",
        "          : 160 B in the ledger, 26.7 B for each stack",
        "Threads   : 4 threads",
        "  ROW  NAME               ID  ALLOCATIONS  LIVE BLOCKS  LIVE BYTES  ENDED       HANDLE",
        "    1  worker\\u{1b}[1m  4712           10           14    2.86 MiB  gone        0x12349999",
        "          : 2 threads more with 3.88 KiB in 19 blocks (--all shows them)",
        "          : backtrace enabled, 512 levels at most",
        "          : history enabled, 23 records max, 12 held",
        "  1 stack was cut at the depth limit: run --depth N takes more frames.",
        "  /nonexistent/library.so is not there.",
    ] {
        assert!(stats.lines().any(|seen| seen == line), "no line {line}\n{stats}");
    }
    assert!(
        dump.starts_with(
            "0x10000000 : malloc 1 B, actual size 24 B (+23), number 0, time 0.000 s, age 300 ms\n  \
             By a thread without a row\n  1) 0x30002000 (in library.so+0x2000)\n  2) 0x00401100 (in program+0x1100)\n"
        ),
        "{dump}"
    );
    assert!(dump.contains("\n5 of 48 blocks, 2.87 MiB (3,009,826 B); 43 left out (--limit 0 shows all).\n"), "{dump}");
    assert!(
        history.starts_with(
            "free 407 B: 0x10000e80, actual size 424 B (+17), number 158, time 0.200058 s, \
             allocated by valloc as number 58\n  By thread 1, 4712 worker\\u{1b}[1m\n"
        ),
        "{history}"
    );
    assert!(history.contains("\n5 of 72 events; 67 left out (--limit 0 shows all).\n"), "{history}");
    for (lines, kind, count) in [(stats_lines, "stats", 1), (dump_lines, "block", 5), (history_lines, "event", 5)] {
        let objects: Vec<serde_json::Value> =
            lines.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect();
        assert_eq!(objects[0]["schema"], "heapledger/2");
        assert_eq!(objects.iter().filter(|object| object["type"] == kind).count(), count);
        let end = objects.last().expect("an end");
        assert_eq!((&end["type"], &end["shown"]), (&"end".into(), &count.into()));
        assert_eq!(end["notes"][0]["kind"], "unknown_frees");
    }
}

#[test]
fn a_ledger_without_options_has_the_rest() {
    let place = Scratch::in_memory("report-a_ledger_without_options_has_the_rest");
    use heapledger_format::record::Options;
    let path = place.join("bare.hlive");
    let mut builder = sample(ByteOrder::Little, WordSize::W64);
    builder.options(Options(0)).write(&path).expect("written");
    let [stats, _, dump, ..] = reports(&path).expect("readable");
    assert!(!stats.contains("Actual ") && !stats.contains("\nThreads"));
    assert!(stats.contains("backtrace disabled") && stats.contains("history disabled"));
    assert!(dump.starts_with("0x10000000 : malloc 1 B, number 0\n"), "{dump}");
}

/// Changes one place in `of`, from the `part`-th on, in a live or a finished ledger, and cuts it.
fn no_damage_upsets_a_report(is_finished: bool, part: usize, of: usize) {
    let place = Scratch::in_memory(&format!("no_damage_upsets_a_report-{is_finished}-{part}"));
    let mut path = place.join("damage.hlive");
    sample(ByteOrder::Little, WordSize::W64).write(&path).expect("written");
    if is_finished {
        let finished = place.join("damage.hl");
        finish(&Ledger::open(&path).expect("a ledger"), &finished, &[], &mut |_, _| {}).expect("finished");
        path = finished;
    }
    let bytes = std::fs::read(&path).expect("read");
    let file = std::fs::OpenOptions::new().write(true).open(&path).expect("opened");
    let mut shown = 0;
    let places = bytes.iter().enumerate().filter(|(at, _)| *at < 900 || at % 6 == 0);
    for (at, byte) in places.skip(part).step_by(of) {
        let flip = [0x01, 0x80, 0xff][at % 7 % 3];
        file.write_all_at(&[byte ^ flip], at as u64).expect("written");
        if let Ok(reports) = reports(&path) {
            shown += 1;
            for report in reports {
                // Five stacks that go in circles until the limit of 4,096 frames.
                assert!(report.len() < 5 << 20, "changed at {at}: {} bytes", report.len());
                assert!(!report.contains('\x1b'), "changed at {at}: an escape sequence");
            }
        }
        file.write_all_at(&[*byte], at as u64).expect("written");
    }
    assert!(shown > 500 / of, "{shown} readable");
    for cut in (0..bytes.len()).rev().step_by(7).skip(part).step_by(of) {
        file.set_len(cut as u64).expect("cut");
        if let Ok(reports) = reports(&path) {
            assert!(reports.iter().all(|report| !report.is_empty()));
        }
    }
}

#[test]
fn no_damage_of_a_live_ledger_upsets_a_report() {
    no_damage_upsets_a_report(false, 0, 2);
}

#[test]
fn no_further_damage_of_a_live_ledger_upsets_a_report() {
    no_damage_upsets_a_report(false, 1, 2);
}

#[test]
fn no_damage_of_a_finished_ledger_upsets_a_report() {
    no_damage_upsets_a_report(true, 0, 2);
}

#[test]
fn no_further_damage_of_a_finished_ledger_upsets_a_report() {
    no_damage_upsets_a_report(true, 1, 2);
}
