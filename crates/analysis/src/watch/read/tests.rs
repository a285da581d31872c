//! Readings of made ledgers, one after the other.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use heapledger_format::{Site, ThreadRow, Ticks};
use heapledger_symbols::{Options, SourceReader, Symbolizer};
use heapledger_testing::Builder;

use super::*;
use crate::query::Filter;
use crate::{Holders, Names};

struct File(PathBuf);

impl File {
    fn of(builder: &Builder) -> File {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("heapledger-watch-{}-{number}.hlive", std::process::id()));
        builder.write(&path).expect("written");
        File(path)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn entry(number: u64, site: u32, thread: u32, size: u64) -> Entry {
    Entry {
        number,
        address: 0x1000 + number * 0x1000,
        size: Some(size),
        actual: Some(size + 8),
        kind: Kind::MALLOC,
        site: Site(site),
        thread: Some(ThreadRow(thread)),
        heap: Some(0),
        time: Some(Ticks(number * 10)),
        ..Entry::NONE
    }
}

fn read(builder: &Builder, mark: Option<&Mark>, filter: &str) -> Sample {
    let file = File::of(builder);
    let ledger = Ledger::open(&file.0).expect("a ledger");
    let filter = Filter::parse(filter).expect("a filter");
    let clock = Clock::new(&ledger, SystemTime::UNIX_EPOCH).expect("a clock");
    let names = Names::new(&ledger, Symbolizer::new(Options::default()), SourceReader::new(None)).expect("read");
    let mut filter = Evaluator::new(&ledger, &filter, clock, names, Holders::default()).expect("read");
    Reader::new(&ledger, Instant::now()).sample(mark, Some(&mut filter)).expect("read")
}

#[test]
fn blocks_are_added_up_by_site_thread_and_kind() {
    let mut builder = Builder::new();
    builder.entry(entry(0, 1, 0, 10)).entry(entry(1, 1, 1, 20)).entry(entry(2, 1, 0, 30)).entry(entry(3, 2, 0, 5));
    builder.entry(Entry { kind: Kind::NEW, ..entry(4, 1, 0, 7) });
    builder.entry(Entry { thread: None, ..entry(5, 0, 0, 1) });
    let sample = read(&builder, None, "size >= 0");
    let seen: Vec<_> = sample
        .cells
        .iter()
        .map(|cell| {
            (cell.key.site.0, cell.key.thread.map(|row| row.0), cell.key.kind, cell.live.blocks, cell.live.bytes)
        })
        .collect();
    assert_eq!(
        seen,
        [
            (0, None, Kind::MALLOC, 1, 1),
            (1, Some(0), Kind::MALLOC, 2, 40),
            (1, Some(0), Kind::NEW, 1, 7),
            (1, Some(1), Kind::MALLOC, 1, 20),
            (2, Some(0), Kind::MALLOC, 1, 5),
        ]
    );
    assert_eq!(sample.live, Amount { samples: 6, blocks: 6, bytes: 73 });
    assert_eq!(sample.young, Amount::default());
    assert_eq!((sample.cells[1].oldest, sample.cells[1].newest), (Some(Ticks(0)), Some(Ticks(20))));
    let large = read(&builder, None, "size >= 20");
    assert_eq!(large.live, Amount { samples: 2, blocks: 2, bytes: 50 });
}

#[test]
fn what_came_after_the_mark_is_young() {
    let mut builder = Builder::new();
    builder.global(GlobalCounter::NextNumber, 5000);
    builder.entry(entry(10, 1, 0, 100)).entry(entry(4990, 1, 0, 10));
    let mark = Mark::at(Arc::new(read(&builder, None, "size >= 0")));
    // A second thread had leased 4980 and uses it only now; the order bound of made-up ledgers is 4096.
    builder.entry(entry(4980, 1, 1, 3)).entry(entry(5001, 1, 0, 4)).entry(entry(6000, 2, 0, 5));
    let sample = read(&builder, Some(&mark), "size >= 0");
    assert_eq!(sample.live, Amount { samples: 5, blocks: 5, bytes: 122 });
    assert_eq!(sample.young, Amount { samples: 3, blocks: 3, bytes: 12 });
    let mixed = sample
        .cells
        .iter()
        .find(|cell| cell.key.site == Site(1) && cell.key.thread == Some(ThreadRow(0)))
        .expect("a cell");
    assert_eq!((mixed.live.bytes, mixed.young.bytes), (114, 4));
    assert_eq!(mixed.oldest, Some(Ticks(50_010)), "the age is that of the young ones");
}

#[test]
fn a_mark_that_was_set_while_something_was_filtered_knows_all_blocks() {
    let mut builder = Builder::new();
    builder.global(GlobalCounter::NextNumber, 3).entry(entry(0, 1, 0, 100)).entry(entry(1, 1, 0, 1));
    let mark = Mark::at(Arc::new(read(&builder, None, "size >= 50")));
    builder.entry(entry(2, 1, 0, 9));
    assert_eq!(read(&builder, Some(&mark), "size >= 0").young.bytes, 9);
}

#[test]
fn totals_say_what_lives_and_what_was_allocated() {
    let mut builder = Builder::new();
    builder.block(0x1000, 100).block(0x2000, 50).thread(1, 7, 0, "main", [2, 0, 150]);
    builder.global(GlobalCounter::PeakBytes, 120);
    let file = File::of(&builder);
    let ledger = Ledger::open(&file.0).expect("a ledger");
    let totals = Reader::new(&ledger, Instant::now()).totals(SystemTime::UNIX_EPOCH).expect("read");
    assert_eq!((totals.live_bytes, totals.live_blocks, totals.allocations, totals.frees), (150, 2, 2, 0));
    assert_eq!(totals.peak_bytes, 150, "a peak is never below what lives");
    assert_eq!(totals.kinds, [(Kind::MALLOC, 2)]);
    assert_eq!(totals.threads[0].bytes_allocated, 150);
}

#[test]
fn samples_stand_for_more() {
    let mut builder = Builder::new();
    builder.sampled(1000).entry(entry(0, 1, 0, 10));
    let sample = read(&builder, None, "size >= 0");
    assert_eq!(sample.live.samples, 1);
    assert!(sample.live.blocks > 10 && sample.live.bytes == sample.live.blocks * 10, "{:?}", sample.live);
}

#[test]
fn cells_that_several_threads_found_come_to_the_same() {
    let mut builder = Builder::new();
    builder.global(GlobalCounter::NextNumber, 40);
    for number in 0..20 {
        builder.entry(entry(number, number as u32 % 3, number as u32 % 2, number));
    }
    let mark = Mark::at(Arc::new(read(&builder, None, "size >= 0")));
    let fresh = || Sums {
        mark: Some(&mark),
        cells: Vec::new(),
        latest: Vec::new(),
        places: HashMap::default(),
        sample: Sample::default(),
    };
    let (mut one, mut parts) = (fresh(), [fresh(), fresh(), fresh()]);
    for number in (0..40).rev() {
        let entry = entry(number, number as u32 % 3, number as u32 % 2, number);
        one.add(&entry, Act::Allocation, 1);
        parts[number as usize / 16].add(&entry, Act::Allocation, 1);
    }
    let [mut joined, second, third] = parts;
    joined.join(second);
    joined.join(third);
    one.cells.sort_unstable_by_key(|cell| cell.key);
    joined.cells.sort_unstable_by_key(|cell| cell.key);
    assert_eq!(joined.cells, one.cells);
    assert_eq!((joined.sample.live, joined.sample.young), (one.sample.live, one.sample.young));
    assert_eq!((one.sample.live.samples, one.sample.young.samples), (40, 20));
}
