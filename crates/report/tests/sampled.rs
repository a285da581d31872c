//! Reports of sampled ledgers mark every estimate; and what `stats` tells of the recorder itself.

mod common;

use common::reports;
use heapledger_format::bytes::{ByteOrder, WordSize};
use heapledger_format::{GlobalCounter, TallyCounter};
use heapledger_source::{Ledger, finish};
use heapledger_testing::{Scratch, sample};
use serde_json::{Value, json};

const INTERVAL: u64 = 64 << 10;

fn objects(lines: &str) -> Vec<Value> {
    lines.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect()
}

fn has(report: &str, lines: &[&str]) {
    for line in lines {
        assert!(report.lines().any(|seen| seen == *line), "no line {line}\n{report}");
    }
}

#[test]
fn every_estimate_is_marked() {
    let place = Scratch::in_memory("report-every_estimate_is_marked");
    let path = place.join("sampled.hlive");
    let mut builder = sample(ByteOrder::Little, WordSize::W64);
    builder.sampled(INTERVAL).tally(TallyCounter::Frees, 100).tally(TallyCounter::Allocations, 107);
    builder.write(&path).expect("written");
    let [stats, stats_lines, dump, dump_lines, history, history_lines] = reports(&path).expect("readable");
    has(
        &stats,
        &[
            "Sampled   : one block in 64.0 KiB; figures marked ~ are estimates (Poisson, unbiased), of live blocks from 48 samples",
            "Heap      : brk, 0x10000000 to 0x100fffff, size 1.00 MiB, holds ~1.50 MiB in ~80,985 blocks",
            "History   : ~105,342 allocations, ~6,767 frees",
            "Current   : ~5.80 MiB ± 7.4% in ~98,568 blocks",
            "Actual    : ~10.6 MiB",
            "Overhead  : ~4.75 MiB, 45.0%",
            "Peak      : ~5.80 MiB in ~98,568 blocks, after 88.5 ms",
            "          : ~3.30 MiB in ~67,491 blocks (8 samples)  library.so+0x2000 < program+0x1100 < program+0x1010",
            "          :  ~449 KiB in ~2,706 blocks (7 samples)   library.so+0x2030 < 0x7fff0000 < program+0x1100",
            "Allocators:                                 calls    live blocks   live bytes",
            "            malloc                        ~66,542        ~66,542     ~256 KiB",
            "            valloc                           ~779           ~617    ~2.99 MiB",
            "            free                           ~2,602",
            "    0  main             4711          ~40       ~6,879    ~962 KiB  at the end  0x12345678",
            "          : 2 threads more with ~1.19 MiB in ~77,229 blocks (--all shows them)",
            "          : history enabled, 23 records max, 12 held",
            "  ~7 blocks are in the totals and not among the records: calls under way, or records that were lost.",
            "  1 stack was cut at the depth limit: run --depth N takes more frames.",
        ],
    );
    assert!(!stats.contains("does not know"), "{stats}");
    has(
        &dump,
        &[
            "Sampled   : one block in 64.0 KiB; figures marked ~ are estimates (Poisson, unbiased), of live blocks from 48 samples",
            "0x10000040 : calloc 8 B, actual size 24 B (+16), stands for ~8,193 blocks, number 1, time 0.001500 s, age 298 ms",
            "5 of 48 samples, standing for ~98,568 blocks, ~5.80 MiB ± 7.4%; 43 left out (--limit 0 shows all).",
        ],
    );
    has(
        &history,
        &[
            "Sampled   : one block in 64.0 KiB; figures marked ~ are estimates (Poisson, unbiased), of all blocks from 60 samples",
            "Caution: history is incomplete: ~100 frees are no longer in the ring.",
            "free 407 B: 0x10000e80, actual size 424 B (+17), stands for ~162 blocks, number 158, time 0.200058 s, \
             allocated by valloc as number 58",
        ],
    );

    let [stats, dump, history] = [stats_lines, dump_lines, history_lines].map(|lines| objects(&lines));
    assert_eq!(stats[0]["sampled"], json!({"interval_bytes": INTERVAL, "samples": 48}));
    assert_eq!(dump[0]["sampled"], json!({"interval_bytes": INTERVAL, "samples": 48}));
    assert_eq!(history[0]["sampled"], json!({"interval_bytes": INTERVAL, "samples": 60}));
    assert_eq!((&history[0]["frees_missing"], &history[0]["complete"]), (&100.into(), &false.into()));
    let totals = &stats[1]["sampled"];
    assert_eq!((&totals["samples"], &stats[1]["live_blocks"]), (&48.into(), &98_568.into()));
    let error = totals["live_bytes_error"].as_f64().expect("a number") / stats[1]["live_bytes"].as_f64().expect("one");
    assert!((0.0735..0.0745).contains(&error), "{error}");
    assert_eq!(stats[1]["top_sites"][0]["samples"], 8);
    let records = |lines: &[Value], kind: &str| -> Vec<Value> {
        lines.iter().filter(|line| line["type"] == kind).map(|line| line["weight"].clone()).collect()
    };
    assert_eq!(records(&dump, "block")[1], 8193);
    assert_eq!(records(&history, "event")[0], 162);
}

#[test]
fn exact_figures_are_not_marked() {
    let place = Scratch::in_memory("report-exact_figures_are_not_marked");
    let path = place.join("exact.hlive");
    sample(ByteOrder::Little, WordSize::W64).write(&path).expect("written");
    let reports = reports(&path).expect("readable");
    for report in &reports {
        assert!(!report.contains('~') && !report.contains("\"weight\"") && !report.contains("ampled   :"), "{report}");
    }
    for lines in [&reports[1], &reports[3], &reports[5]] {
        assert_eq!(objects(lines)[0]["sampled"], Value::Null);
    }
    assert_eq!(objects(&reports[1])[1]["sampled"], Value::Null);
}

#[test]
fn the_recorders_own_figures_are_told() {
    let place = Scratch::in_memory("report-the_recorders_own_figures_are_told");
    let (live, path) = (place.join("own.hlive"), place.join("own.hl"));
    let mut builder = sample(ByteOrder::Little, WordSize::W64);
    builder
        .global(GlobalCounter::PrivateBytes, 1 << 20)
        .global(GlobalCounter::ShadowBytes, 500_000)
        .global(GlobalCounter::SitesPrivateBytes, 4096)
        .global(GlobalCounter::ThreadsPrivateBytes, 300 << 10)
        .tally(TallyCounter::FramesVerified, 12_345_678)
        .tally(TallyCounter::FramesWalked, 3_456_789)
        .tally(TallyCounter::RulesMade, 1_234)
        .tally(TallyCounter::StacksCompared, 1_234_567);
    builder.write(&live).expect("written");
    finish(&Ledger::open(&live).expect("a ledger"), &path, &[], &mut |_, _| {}).expect("finished");
    for path in [&live, &path] {
        let [stats, stats_lines, ..] = reports(path).expect("readable");
        has(
            &stats,
            &[
                "Stacks    : 12,345,678 frames verified (78.1%), 3,456,789 walked; 1,234 rules made",
                "Checked   : 1,234,567 stacks compared with a full walk, 0 differ",
                "          : 160 B in the ledger, 26.7 B for each stack",
                "          : 4.16 KiB in memory with the index, 709.3 B for each stack",
                "          : ledger: 1.56 KiB records, 832 B history, 160 B call sites, 6.05 KiB other",
                "          : outside: 488 KiB address index (12.5% of the peak), 4.00 KiB call sites, 300 KiB in 1 thread \
                 state, 232 KiB other",
                "          : 9,120 B for each of at most 55 blocks at a time: record 29.1 B, address index 9,091 B",
            ],
        );
        let object = &objects(&stats_lines)[1];
        let number = |part: &str, name: &str| object[part][name].as_f64().unwrap_or_else(|| panic!("{part}.{name}"));
        assert_eq!(number("call_sites", "bytes_per_stack_ledger"), 26.667);
        assert_eq!(number("call_sites", "bytes_per_stack_memory"), 709.333);
        assert_eq!(number("call_sites", "mean_frames"), 3.5);
        assert_eq!((number("call_sites", "distinct"), number("call_sites", "live")), (6.0, 6.0));
        assert_eq!(number("memory", "bytes_per_block"), 9120.0);
        assert_eq!(number("memory", "bytes_per_thread"), 307_200.0);
        assert_eq!(number("memory", "records_bytes"), 1600.0);
        assert_eq!(
            object["stacks"],
            json!({"frames_verified": 12_345_678, "frames_walked": 3_456_789, "rules_made": 1234,
                   "compared": 1_234_567, "differing": 0})
        );
        assert!(!stats.contains("full walk gave"));
    }

    builder.tally(TallyCounter::StacksDiffering, 2).write(&live).expect("written");
    let [stats, ..] = reports(&live).expect("readable");
    has(
        &stats,
        &[
            "Checked   : 1,234,567 stacks compared with a full walk, 2 differ",
            "  2 stacks differed from what a full walk gave: please report this.",
        ],
    );
}

#[test]
fn older_ledgers_leave_off_what_they_do_not_tell() {
    let place = Scratch::in_memory("report-older_ledgers_leave_off_what_they_do_not_tell");
    let path = place.join("older.hlive");
    let mut builder = sample(ByteOrder::Little, WordSize::W64);
    builder.counters(9, 22).write(&path).expect("written");
    let [stats, stats_lines, ..] = reports(&path).expect("readable");
    for absent in ["in memory with the index", "address index", "outside:", "Sampled", "Stacks", "Checked"] {
        assert!(!stats.contains(absent), "{stats}");
    }
    let object = &objects(&stats_lines)[1];
    assert_eq!(object["call_sites"]["bytes_per_stack_memory"], Value::Null);
    assert_eq!((&object["memory"]["shadow_bytes"], &object["memory"]["bytes_per_block"]), (&Value::Null, &Value::Null));
}
