//! Totals, selections and events of a made ledger, against what was put into it.

use std::path::PathBuf;
use std::time::SystemTime;

use heapledger_analysis::query::{Evaluator, Filter, SortKeys};
use heapledger_analysis::{Clock, Event, EventKind, Events, Holders, Names, Note, Selection, Sort, Summary};
use heapledger_format::bytes::{ByteOrder, WordSize};
use heapledger_format::{Entry, FreedEntry, GlobalCounter, Kind, Site, TallyCounter, ThreadRow, Ticks};
use heapledger_source::Ledger;
use heapledger_symbols::{Options, SourceReader, Symbolizer};
use heapledger_testing::{Builder, sample};

struct Made(PathBuf, Ledger);

impl Made {
    fn new(test: &str, builder: &Builder) -> Made {
        let path = std::env::temp_dir().join(format!("heapledger-reckoning-{test}-{}", std::process::id()));
        builder.write(&path).expect("written");
        let ledger = Ledger::open(&path).expect("a ledger");
        Made(path, ledger)
    }

    fn summary(&self, top: usize) -> Summary {
        let clock = Clock::new(&self.1, SystemTime::UNIX_EPOCH).expect("a clock");
        Summary::of(&self.1, clock, top, &mut |_| {}).expect("readable")
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn totals_add_up() {
    let made = Made::new("totals", &sample(ByteOrder::Little, WordSize::W64));
    let summary = made.summary(100);
    assert_eq!((summary.allocations, summary.frees, summary.live_blocks, summary.unaccounted), (60, 12, 48, 0));
    assert_eq!(summary.bytes_allocated - summary.bytes_freed, summary.live_bytes);
    let blocks =
        |counts: &mut dyn Iterator<Item = (u64, u64)>| counts.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let all = (summary.live_blocks, summary.live_bytes);
    assert_eq!(blocks(&mut summary.kinds.iter().map(|totals| (totals.live_blocks, totals.live_bytes))), all);
    assert_eq!(blocks(&mut summary.threads.iter().map(|totals| (totals.live_blocks, totals.live_bytes))), all);
    assert_eq!(blocks(&mut summary.heaps.iter().map(|totals| (totals.live_blocks, totals.live_bytes))), all);
    assert_eq!(summary.kinds.iter().filter_map(|totals| totals.begun).sum::<u64>(), 60);
    assert_eq!(summary.kinds.iter().map(|totals| totals.ended).sum::<u64>(), 12);
    assert_eq!((summary.sites.live, summary.sites.distinct), (6, 6));
    assert_eq!(summary.sites.top.len(), 6);
    assert!(summary.sites.top.is_sorted_by_key(|totals| std::cmp::Reverse(totals.bytes)));
    let three = made.summary(3);
    assert_eq!(three.sites.top, summary.sites.top[..3], "a limit changes nothing else");
    assert_eq!(made.summary(0).sites.top, []);
}

#[test]
fn heaps_reach_as_far_as_their_blocks() {
    // The rows were written before the last blocks began, as in the ledger of a program that was killed.
    let mut builder = Builder::new();
    builder.heap("brk heap", 0x1000, 0x2000).heap("arenas", u64::MAX, 0).heap("large mappings", 0x9000, 0xa000);
    builder.block(0x4000, 0x20).block(0xf00, 0x10);
    builder.entry(Entry {
        number: 2,
        address: 0x7000,
        size: Some(0x10),
        actual: None,
        kind: Kind::MALLOC,
        site: Site::NONE,
        thread: Some(ThreadRow(0)),
        heap: Some(1),
        time: Some(Ticks(2000)),
        ..Entry::NONE
    });
    let made = Made::new("extents", &builder);
    let ranges = |summary: &Summary| -> Vec<_> {
        summary.heaps.iter().map(|totals| (totals.heap.low, totals.heap.high, totals.live_blocks)).collect()
    };
    // The 0x20 bytes have 0x28.
    assert_eq!(ranges(&made.summary(0)), [(0xf00, 0x4028, 2), (0x7000, 0x7010, 1), (0x9000, 0xa000, 0)]);
    // A filter chooses blocks; heaps are as large as they are.
    let clock = Clock::new(&made.1, SystemTime::UNIX_EPOCH).expect("a clock");
    let names = Names::new(&made.1, Symbolizer::new(Options::default()), SourceReader::new(None)).expect("readable");
    let filter = Filter::parse("size == 32").expect("a filter");
    let mut filter = Evaluator::new(&made.1, &filter, clock, names, Holders::default()).expect("readable");
    let summary = Summary::matching(&made.1, clock, 0, Some(&mut filter), &mut |_| {}).expect("readable");
    assert_eq!(ranges(&summary), [(0xf00, 0x4028, 1), (0x7000, 0x7010, 0), (0x9000, 0xa000, 0)]);
}

#[test]
fn ages_of_a_copy_count_to_its_moment() {
    for (copied, span_ns) in [(Some("1700000102000000000"), 102_000_000_000), (None, 89_000_000_000)] {
        let mut builder = sample(ByteOrder::Little, WordSize::W64);
        builder.global(GlobalCounter::LastTime, 89_000_000);
        if let Some(at) = copied {
            builder.process("copied_unix_ns", at);
        }
        let mut bytes = builder.bytes();
        let open = |bytes: &[u8]| {
            let path = std::env::temp_dir().join(format!("heapledger-reckoning-copy-{}", std::process::id()));
            std::fs::write(&path, bytes).expect("written");
            let ledger = Ledger::open(&path).expect("a ledger");
            Made(path, ledger)
        };
        // What is no copy has nothing to do with such a pair.
        let whole = open(&bytes).summary(0);
        assert_eq!((whole.clock.span_ns(), whole.identity.copied_unix_ns), (Some(89_000_000_000), None));
        bytes[14] |= 8;
        let copy = open(&bytes).summary(0);
        assert_eq!((copy.clock.span_ns(), copy.identity.copied), (Some(span_ns), true));
        assert_eq!(copy.clock.age_ns(Ticks(88_000_000)), Some(span_ns - 88_000_000_000));
        assert_eq!(copy.identity.copied_unix_ns.map(|at| at.to_string()).as_deref(), copied);
        assert_eq!(copy.seen.notes.contains(&Note::CopiedSometime), copied.is_none());
    }
}

#[test]
fn a_ledger_that_does_not_add_up_says_so() {
    for (counter, missing) in [(TallyCounter::Allocations, 5), (TallyCounter::Frees, -5)] {
        let mut builder = sample(ByteOrder::Little, WordSize::W64);
        builder.tally(counter, 5);
        let summary = Made::new(&format!("sum{missing}"), &builder).summary(1);
        assert_eq!(summary.unaccounted, missing);
        assert!(summary.seen.notes.contains(&Note::Unaccounted { blocks: missing, estimated: false }));
    }
}

#[test]
fn a_limit_shows_the_first_of_all() {
    let made = Made::new("limit", &sample(ByteOrder::Little, WordSize::W64));
    let select = |sort: Sort, reverse, limit| {
        let keys = SortKeys::from(sort);
        let keys = if reverse { keys.reversed() } else { keys };
        Selection::of(&made.1, keys, limit, &mut |_| {}).expect("readable")
    };
    let size = |entry: &Entry| std::cmp::Reverse(entry.size);
    assert!(select(Sort::Size, false, 0).blocks.iter().is_sorted_by_key(|entry| size(&entry)));
    assert!(select(Sort::Address, false, 0).blocks.iter().is_sorted_by_key(|entry| entry.address));
    assert!(select(Sort::Age, false, 0).blocks.iter().is_sorted_by_key(|entry| entry.time));
    for sort in [Sort::Address, Sort::Size, Sort::Number, Sort::Age] {
        for reverse in [false, true] {
            let all = select(sort, reverse, 0);
            assert_eq!((all.blocks.len(), all.left_out()), (48, 0));
            for limit in [1, 7, 47, 48, 1000] {
                let some = select(sort, reverse, limit);
                assert!(some.blocks.iter().eq(all.blocks.iter().take(limit)), "{sort:?} {reverse} {limit}");
                assert_eq!((some.total, some.total_bytes), (48, all.total_bytes));
            }
        }
        let mut backwards: Vec<Entry> = select(sort, true, 0).blocks.iter().collect();
        backwards.reverse();
        assert!(select(sort, false, 0).blocks.iter().eq(backwards));
    }
}

#[test]
fn events_are_in_order_and_realloc_frees_first() {
    let block = |number, time| Entry {
        number,
        address: 0x1000 + number * 16,
        size: Some(8),
        actual: Some(8),
        kind: Kind::REALLOC,
        site: Site::NONE,
        thread: Some(ThreadRow(0)),
        heap: None,
        time: Some(time),
        ..Entry::NONE
    };
    let mut builder = Builder::new();
    // 1 becomes 5 by realloc; 9 was taken by another thread earlier than 2.
    builder.entry(block(5, Ticks(50))).entry(block(2, Ticks(20))).entry(block(9, Ticks(19)));
    builder.freed(FreedEntry {
        block: block(1, Ticks(10)),
        number: 5,
        later: 0,
        by: Kind::REALLOC,
        site: Site::NONE,
        thread: Some(ThreadRow(1)),
        time: Some(Ticks(50)),
        core: None,
    });
    builder.tally(TallyCounter::Frees, 3).tally(TallyCounter::Allocations, 3);
    let made = Made::new("events", &builder);
    let seen = |event: Event| match event.kind {
        EventKind::Allocation { freed } => (event.number(), if freed.is_some() { "gone" } else { "live" }),
        EventKind::Free(_) => (event.number(), "free"),
    };
    let events = Events::first(&made.1, 0, &mut |_| {}).expect("readable");
    let order: Vec<_> = events.events.iter().map(seen).collect();
    assert_eq!(order, [(1, "gone"), (9, "live"), (2, "live"), (5, "free"), (5, "live")]);
    assert_eq!((events.frees_missing, events.total, events.left_out()), (3, 5, 0));
    let last = Events::last(&made.1, 2, &mut |_| {}).expect("readable");
    assert_eq!(last.events.iter().map(seen).collect::<Vec<_>>(), [(5, "live"), (5, "free")]);
    assert_eq!(last.left_out(), 3);
}

#[test]
fn glibcs_heaps_are_as_large_as_their_parts_and_have_headers() {
    // Of two arenas, 256 MiB apart, and of a mapping: what lies between is not theirs.
    let block = |number: u64, heap: u8, address: u64, size: u64| Entry {
        number,
        address,
        size: Some(size),
        actual: Some(size + 8),
        kind: Kind::MALLOC,
        site: Site::NONE,
        thread: None,
        heap: Some(heap),
        time: None,
        ..Entry::NONE
    };
    let arena = 0x7f00_0000_0000;
    let mut builder = Builder::new();
    builder.heap("brk heap", 0, 0).heap("arenas", arena, arena + (1 << 28) + 0x2000).heap("large mappings", 0, 0);
    builder.entry(block(0, 0, 0x10_0000, 100)).entry(block(1, 0, 0x10_1000, 100));
    for (number, address) in [(2, arena + 0xb70), (3, arena + 0x1b70), (4, arena + (1 << 28) + 0xb70)] {
        builder.entry(block(number, 1, address, 500));
    }
    builder.entry(block(5, 2, 0x7e00_0000_0010, 1 << 20));
    let summary = Made::new("parts", &builder).summary(0);
    let parts: Vec<Option<u64>> = summary.heaps.iter().map(|heap| heap.parts_bytes).collect();
    assert_eq!(parts, [None, Some(0x1000 + 508 + 508), Some((1 << 20) + 8 + 16)]);
    assert_eq!(summary.headers_bytes, Some(5 * 8 + 16));
    // Also where the last block of all lies there.
    let mut alone = Builder::new();
    alone.heap("brk heap", 0, 0).heap("arenas", arena, arena + 0x2000).entry(block(0, 1, arena + 0xb70, 500));
    let parts = Made::new("alone", &alone).summary(0).heaps.iter().map(|heap| heap.parts_bytes).collect::<Vec<_>>();
    assert_eq!(parts, [None, Some(508)]);
    // One block of another allocator, and nobody knows.
    builder.heap("libjemalloc.so.2", 0, 0).entry(block(6, 3, 0x20_0000, 10));
    assert_eq!(Made::new("other", &builder).summary(0).headers_bytes, None);
    // When nothing was recorded of time, or nothing lived, there is no moment.
    assert_eq!(Made::new("nothing", &Builder::new()).summary(0).peak.time_ns, None);
}
