//! Options that all commands that read have in common, tried on ledgers of which every figure is known.

mod common;

use common::{Scratch, heapledger, output};
use heapledger_source::format::{Entry, FreedEntry, Kind};
use heapledger_source::testing::Builder;
use serde_json::Value;

const LEDGER: &str = "x.hl";

/// Ten live blocks of 1,000 to 10,000 bytes, of threads in turn, and ten freed ones of 1 to 10 bytes, which another
/// thread freed.
fn ledger() -> Builder {
    let mut builder = Builder::new();
    let module = builder.module("/opt/tool", &[7; 20], 0x10_0000, 0x10_0000, 0x20_0000);
    let made = builder.stack(&[(Some(module), 0x1234), (Some(module), 0x5678)]);
    let ended = builder.stack(&[(Some(module), 0x4321)]);
    builder.heap("brk heap", 0x1000, 0x100_0000).process("program", "tool").process("args", "tool");
    for (row, name) in [(0, "main"), (1, "worker"), (2, "closer")] {
        builder.thread(row, 4242 + row, 0x7f00, name, [10, 10, 0]);
    }
    for index in 0..10u64 {
        let (kind, heap, thread) = (Kind::MALLOC, Some(0), Some((index % 2) as u32));
        let size = Some((index + 1) * 1000);
        let (number, address) = (index, 0x1000 + index * 0x4000);
        let time = Some(number * 1000);
        builder.entry(Entry { number, address, size, actual: size, kind, site: made, thread, heap, time });
        let (number, address, size) = (10 + index, 0x10_0000 + index * 64, Some(index + 1));
        let (kind, time) = (Kind::CALLOC, Some(number * 1000));
        let block = Entry { number, address, size, actual: Some(24), kind, site: made, thread, heap, time };
        let (number, time) = (20 + index, Some((20 + index) * 1000));
        builder.freed(FreedEntry { block, number, by: Kind::FREE, site: ended, thread: Some(2), time });
    }
    builder
}

fn prepared(name: &str) -> Scratch {
    let scratch = Scratch::new(name);
    ledger().write(&scratch.cwd().join(LEDGER)).expect("written");
    scratch
}

/// Exit status, standard output and standard error.
fn ran(scratch: &Scratch, words: &[&str]) -> (Option<i32>, String, String) {
    let mut command = heapledger();
    let ran = output(command.args(words).current_dir(scratch.cwd()).env("LANG", "C.UTF-8"));
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
    (ran.status.code(), text(&ran.stdout), text(&ran.stderr))
}

/// What was written, of a command that has nothing to complain about.
fn shown(scratch: &Scratch, words: &[&str]) -> String {
    let (code, out, error) = ran(scratch, words);
    assert!(code == Some(0) && error.is_empty(), "{words:?}: {code:?} {error}{out}");
    out
}

fn json(scratch: &Scratch, words: &[&str]) -> Vec<Value> {
    let out = shown(scratch, &[words, &["--json"]].concat());
    out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn totals_of_a_part() {
    let scratch = prepared("options-stats");
    let lines = json(&scratch, &["stats", "--where", "size <= 5000", LEDGER]);
    assert_eq!(lines[0]["where"], "size <= 5000");
    let stats = &lines[1];
    let figures = ["allocations", "frees", "bytes_allocated", "bytes_freed", "live_blocks", "live_bytes"];
    assert_eq!(figures.map(|name| stats[name].as_u64()), [15, 10, 15_055, 55, 5, 15_000].map(Some));
    assert_eq!(stats["allocated_by"]["calloc"]["calls"], 10);
    assert_eq!(stats["allocated_by"]["malloc"]["calls"], 5);
    assert_eq!(stats["freed_by"]["free"]["calls"], 10);
    assert_eq!(stats["threads"][0]["live_bytes"], 9000);
    assert_eq!(stats["heaps"][0]["live_blocks"], 5);
    for name in ["peak_bytes", "failed_calls", "memory", "counters", "losses"] {
        assert!(stats[name].is_null(), "{name} is of the whole program");
    }
    let text = shown(&scratch, &["stats", "-Fthread=1", LEDGER]);
    assert!(text.contains("thread == 1") && !text.contains("Peak") && text.contains("5 allocations"), "{text}");
    // Without a filter nothing is left out.
    let whole = json(&scratch, &["stats", LEDGER]);
    assert!(whole[0]["where"].is_null() && whole[1]["peak_bytes"].is_u64() && whole[1]["live_bytes"] == 55_000);
    for words in [&["--style", "ecos", "-Fthread=1"][..], &["--where", "thraed == 1"]] {
        let (code, out, error) = ran(&scratch, &[&["stats"], words, &[LEDGER]].concat());
        assert!(
            code == Some(2) && out.is_empty() && error.starts_with("heapledger: --"),
            "{words:?}: {code:?} {error}"
        );
    }
}
