//! What ESP-IDF prints of tasks and heaps, as ledgers.

use std::io::BufReader;
use std::path::Path;

use heapledger_format::record::Options;
use heapledger_format::{Entry, SectionKind};
use heapledger_logs::log::{LogLedger, LogOptions, read_log};
use heapledger_lws::Width;
use heapledger_source::{Ledger, ThreadState};

const OVERVIEW: &str = "\
┌────────────────────┬─────────┬──────────────────────┬───────────────────┬─────────────────┐
│ TASK               │ STATUS  │ CURRENT MEMORY USAGE │ PEAK MEMORY USAGE │ TOTAL HEAP USED │
├────────────────────┼─────────┼──────────────────────┼───────────────────┼─────────────────┤
│               main │ ALIVE   │                 3860 │              7412 │               2 │
│       a long name │ DELETED │                   12 │                13 │               1 │
└────────────────────┴─────────┴──────────────────────┴───────────────────┴─────────────────┘
";
const TREE: &str = "\
├ ALIVE: main, CURRENT MEMORY USAGE 308, PEAK MEMORY USAGE 7412, TOTAL HEAP USED 2:
│    ├ HEAP: RAM, CAPS: 0x0010580e, SIZE: 344400, USAGE: CURRENT 220 (0%), PEAK 220 (0%), ALLOC COUNT: 2
│    │    ├ ALLOC 0x3fc99024, SIZE 88
│    │    ├ ALLOC 0x3fc99124, SIZE 132
│    └ HEAP: RAM, CAPS: 0x0010580e, SIZE: 22308, USAGE: CURRENT 88 (0%), PEAK 7192 (32%), ALLOC COUNT: 5
│         ├ ALLOC 0x3fce99f8, SIZE 88
└ ALIVE: Pre-scheduler, CURRENT MEMORY USAGE 2236, PEAK MEMORY USAGE 2236, TOTAL HEAP USED 1:
     └ HEAP: RAM, CAPS: 0x0010580e, SIZE: 344400, USAGE: CURRENT 2236 (0%), PEAK 2236 (0%), ALLOC COUNT: 11
          ├ ALLOC 0x3fc95cb0, SIZE 164
";
const HEAPS: &str = "\
Heap summary for capabilities 0x00000004:
  At 0x3ffae6e0 len 6432 free 4 allocated 4676 min_free 4
    largest_free_block 0 alloc_blocks 32 free_blocks 0 total_blocks 32
  At 0x3ffb3210 len 183792 free 166372 allocated 15740 min_free 165372
    largest_free_block 163840 alloc_blocks 14 free_blocks 1 total_blocks 15
  Totals:
    free 292040 allocated 20416 min_free 291040 largest_free_block 163840
";
const BLOCKS: &str = "\
Showing data for heap: 0x3ffb3210 \nBlock 0x3ffb3468 data, size: 20 bytes, Free: No \nBlock 0x3ffb34c0 data, size: 3616 bytes, Free: Yes \nBlock 0x3ffb5000 data, size: 8 bytes, Free: No \nShowing data for heap: 0x3ffc0000 \nBlock 0x3ffc0010 data, size: 4 bytes, Free: No \n";

fn open(text: &str) -> Vec<(String, Ledger)> {
    let options = LogOptions { only: None, width: Width::W64 };
    let made = read_log(BufReader::new(text.as_bytes()), options).expect("memory can be read");
    let open = |made: LogLedger| {
        (made.name.clone(), Ledger::of_file(made.into_file().expect("a file"), Path::new("log")).expect("a ledger"))
    };
    made.into_iter().map(open).collect()
}

fn live(ledger: &Ledger) -> Vec<Entry> {
    let mut all = Vec::new();
    let mut records = ledger.records();
    while let Some(chunk) = records.next_chunk().expect("it can be read") {
        all.extend_from_slice(chunk);
    }
    all.sort_by_key(|entry| entry.number);
    all
}

#[test]
fn the_overview_of_tasks_gives_threads_and_what_they_hold() {
    let mut made = open(OVERVIEW);
    assert_eq!(made.len(), 1);
    let (name, ledger) = made.remove(0);
    assert_eq!(name, "overview of tasks in line 2");
    let threads = ledger.threads().expect("it can be read");
    assert_eq!(threads.iter().map(|thread| thread.name.as_str()).collect::<Vec<_>>(), ["main", "a long name"]);
    assert_ne!(threads[0].state, ThreadState::Gone);
    assert_eq!(threads[1].state, ThreadState::Gone);
    assert_eq!(ledger.count(SectionKind::Accounts).expect("it can be read"), 2);
}

#[test]
fn the_tree_of_tasks_gives_blocks_with_their_tasks_and_heaps() {
    let log = TREE.replace('\n', "\r\nI (77) other: text\n");
    let mut made = open(&log);
    assert_eq!(made.len(), 1);
    let (_, ledger) = made.remove(0);
    let blocks = live(&ledger);
    assert_eq!(
        blocks.iter().map(|entry| (entry.address, entry.size)).collect::<Vec<_>>(),
        [(0x3fc9_9024, Some(88)), (0x3fc9_9124, Some(132)), (0x3fce_99f8, Some(88)), (0x3fc9_5cb0, Some(164))]
    );
    assert_eq!(blocks.iter().map(|entry| entry.thread.expect("a task").0).collect::<Vec<_>>(), [0, 0, 0, 1]);
    assert_eq!(blocks.iter().map(|entry| entry.heap.expect("a heap")).collect::<Vec<_>>(), [0, 0, 1, 0]);
    let heaps = ledger.heaps().expect("it can be read");
    assert_eq!((heaps.len(), heaps[1].capabilities), (2, 0x10_580e));
    assert_eq!(heaps[0].figures.and_then(|figures| figures.total), Some(344_400));
    assert!(!ledger.header().options.has(Options::TIME) && !ledger.header().options.has(Options::HISTORY));
}

#[test]
fn heaps_and_their_blocks_are_read() {
    let made = open(&format!("{HEAPS}{BLOCKS}"));
    assert_eq!(
        made.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
        ["heaps in line 1", "blocks by heap in line 8"]
    );
    let heaps = made[0].1.heaps().expect("it can be read");
    let figures = heaps[1].figures.expect("figures");
    assert_eq!((figures.total, figures.free, figures.least_free), (Some(183_792), Some(166_372), Some(165_372)));
    assert_eq!((figures.largest_free, figures.allocated), (Some(163_840), Some(15740)));
    assert_eq!((figures.blocks, figures.free_blocks, figures.failures), (Some(14), Some(1), None));
    let blocks = live(&made[1].1);
    assert_eq!(
        blocks.iter().map(|entry| (entry.address, entry.heap)).collect::<Vec<_>>(),
        [(0x3ffb_3468, Some(0)), (0x3ffb_5000, Some(0)), (0x3ffc_0010, Some(1))]
    );
}

#[test]
fn several_in_a_log_are_several_ledgers_in_the_order_of_lines() {
    let made = open(&format!("{TREE}{OVERVIEW}{TREE}{BLOCKS}{BLOCKS}{HEAPS}"));
    let names: Vec<&str> = made.iter().map(|(name, _)| name.split(" in ").next().unwrap_or("")).collect();
    assert_eq!(
        names,
        ["blocks by task", "overview of tasks", "blocks by task", "blocks by heap", "blocks by heap", "heaps"]
    );
    assert_eq!(live(&made[0].1).len(), 4);
    assert_eq!(live(&made[2].1).len(), 4);
}

#[test]
fn texts_cut_anywhere_or_with_any_byte_changed_do_no_harm() {
    let text = format!("{OVERVIEW}{TREE}{HEAPS}{BLOCKS}");
    for cut in (0..text.len()).filter(|cut| text.is_char_boundary(*cut)) {
        for (_, ledger) in open(&text[..cut]) {
            live(&ledger);
        }
    }
    for at in (0..text.len()).step_by(3) {
        let mut bytes = text.clone().into_bytes();
        bytes[at] = b'9';
        for (_, ledger) in open(&String::from_utf8_lossy(&bytes)) {
            live(&ledger);
        }
    }
}
