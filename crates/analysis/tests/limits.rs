//! What has a limit, and what makes it that nobody knows whether it holds: a table of losses and errors by figures.

use std::path::PathBuf;
use std::time::SystemTime;

use heapledger_analysis::query::{Evaluator, Filter};
use heapledger_analysis::{
    Clock, Evidence, Figure, Finding, Growth, Holders, Leaked, Limits, MatchingBlocks, Names, Summary, Verdict, check,
};
use heapledger_format::bytes::{ByteOrder, Codec, WordSize};
use heapledger_format::errors::{ErrorEntry, ErrorKind, FoundAt, FoundBy};
use heapledger_format::{Entry, FreedEntry, GlobalCounter, Kind, SectionKind, Site, TallyCounter, ThreadRow, Ticks};
use heapledger_source::Ledger;
use heapledger_symbols::{Options, SourceReader, Symbolizer};
use heapledger_testing::Builder;

const LIVE_BYTES: u64 = 5_500;
const LIVE_BLOCKS: u64 = 10;
const LARGEST: u64 = 1_000;
const PEAK: u64 = 9_000;
const ALLOCATIONS: u64 = 20;
const ALLOCATED: u64 = 15_500;

/// Ten blocks of 100 to 1,000 bytes that live, ten of 1,000 that were freed, nothing missing. The first has no stack.
fn whole() -> Builder {
    let mut builder = Builder::new();
    builder.thread(1, 100, 0, "main", [20, 10, ALLOCATED]);
    let program = builder.module("/nonexistent/jq", b"", 0, 0x10000, 0x90000);
    let site = builder.stack(&[(Some(program), 0x20)]);
    for number in 0..20 {
        let block = Entry {
            number,
            address: 0x1000 * (number + 1),
            size: Some(if number < LIVE_BLOCKS { 100 * (number + 1) } else { 1_000 }),
            actual: None,
            kind: Kind::MALLOC,
            site: if number == 0 { Site::NONE } else { site },
            thread: Some(ThreadRow(0)),
            heap: Some(0),
            time: Some(Ticks(number)),
            ..Entry::NONE
        };
        if number < LIVE_BLOCKS {
            builder.entry(block);
        } else {
            let by = Kind::FREE;
            builder.freed(FreedEntry {
                block,
                number: number + 20,
                by,
                site,
                thread: Some(ThreadRow(0)),
                time: Some(Ticks(50)),
                later: 0,
                core: None,
            });
        }
    }
    builder.global(GlobalCounter::PeakBytes, PEAK).global(GlobalCounter::PeakBlocks, 15);
    builder
}

/// Errors that tell of four frees of no blocks, and others that tell of none.
fn wrong_frees(builder: &mut Builder) {
    let error = |kind: ErrorKind, by: FoundBy, at: FoundAt, repeats| ErrorEntry {
        kind: kind as u16,
        found_by: by as u8,
        found_at: at as u8,
        repeats,
        first_time: Ticks(1),
        ..ErrorEntry::default()
    };
    let errors = [
        error(ErrorKind::DoubleFree, FoundBy::State, FoundAt::Free, 1),
        error(ErrorKind::BadFree, FoundBy::State, FoundAt::Free, 0),
        error(ErrorKind::RacingFree, FoundBy::State, FoundAt::Free, 0),
        error(ErrorKind::AllocDeallocMismatch, FoundBy::Argument, FoundAt::Free, 7),
        error(ErrorKind::BadRealloc, FoundBy::State, FoundAt::Realloc, 7),
        error(ErrorKind::DoubleFree, FoundBy::Program, FoundAt::Free, 7),
        error(ErrorKind::BufferOverflow, FoundBy::Canary, FoundAt::Free, 7),
    ];
    let codec = Codec { order: ByteOrder::Little, word: WordSize::W64 };
    let bytes = ErrorEntry::bytes(codec.word);
    let mut all = vec![0; errors.len() * bytes];
    for (error, element) in errors.iter().zip(all.chunks_exact_mut(bytes)) {
        error.write(codec, element);
    }
    builder.section(SectionKind::Errors as u16, bytes, all).process("pid", "100");
}

struct Made(PathBuf, Ledger);

impl Made {
    fn new(test: &str, builder: &Builder) -> Made {
        let path = std::env::temp_dir().join(format!("heapledger-limits-{test}-{}", std::process::id()));
        builder.write(&path).expect("written");
        let ledger = Ledger::open(&path).expect("a ledger");
        Made(path, ledger)
    }

    fn evidence(&self, filter: Option<&str>, allow_losses: bool) -> Evidence {
        let clock = Clock::new(&self.1, SystemTime::UNIX_EPOCH).expect("a clock");
        let summary = Summary::of(&self.1, clock, usize::MAX, &mut |_| {}).expect("readable");
        let held = filter.map(|text| {
            let filter = Filter::parse(text).expect("a filter");
            let names = Names::new(&self.1, Symbolizer::new(Options::default()), SourceReader::new(None));
            let names = names.expect("readable");
            let mut filter = Evaluator::new(&self.1, &filter, clock, names, Holders::default()).expect("readable");
            MatchingBlocks::of(&self.1, &mut filter, &mut |_| {}).expect("readable")
        });
        Evidence::of(&self.1, summary, held, allow_losses).expect("readable")
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn limits(figure: Figure, limit: u64) -> Limits {
    let limit = Some(limit);
    match figure {
        Figure::Live => Limits { live: limit, ..Limits::default() },
        Figure::LiveBlocks => Limits { live_blocks: limit, ..Limits::default() },
        Figure::Leaked => Limits { leaked: limit, ..Limits::default() },
        Figure::Peak => Limits { peak: limit, ..Limits::default() },
        Figure::Allocations => Limits { allocations: limit, ..Limits::default() },
        Figure::Allocated => Limits { allocated: limit, ..Limits::default() },
        Figure::LiveGrowth | Figure::PeakGrowth => unreachable!("those have a baseline"),
        Figure::Errors => unreachable!("those are no blocks"),
    }
}

fn finding(evidence: &Evidence, figure: Figure, limit: u64) -> Finding {
    let leaked = Leaked::of(evidence, None);
    check(evidence, &limits(figure, limit), Some(&leaked), None).remove(0)
}

/// What a figure of [`whole`] may be because of something: at least and at most; `None` if nobody knows.
type Bounds = (u64, Option<u64>);

struct Row {
    what: &'static str,
    change: fn(&mut Builder),
    live: Bounds,
    live_blocks: Bounds,
    peak: Bounds,
    allocations: Bounds,
    allocated: Bounds,
}

const WHOLE: Row = Row {
    what: "nothing is missing",
    change: |_| {},
    live: (LIVE_BYTES, Some(LIVE_BYTES)),
    live_blocks: (LIVE_BLOCKS, Some(LIVE_BLOCKS)),
    peak: (PEAK, Some(PEAK)),
    allocations: (ALLOCATIONS, Some(ALLOCATIONS)),
    allocated: (ALLOCATED, Some(ALLOCATED)),
};

fn rows() -> Vec<Row> {
    let lost = |what, change| Row {
        what,
        change,
        live: (LIVE_BYTES, None),
        live_blocks: (LIVE_BLOCKS, Some(LIVE_BLOCKS + 3)),
        peak: (PEAK, None),
        allocations: (ALLOCATIONS, Some(ALLOCATIONS + 3)),
        allocated: (ALLOCATED, None),
    };
    vec![
        WHOLE,
        lost("no room for records", |builder| {
            builder.tally(TallyCounter::LostNoRecord, 3);
        }),
        lost("no room in the index", |builder| {
            builder.tally(TallyCounter::LostNoIndex, 3);
        }),
        lost("allocated in a signal handler", |builder| {
            builder.tally(TallyCounter::LostBusy, 2).tally(TallyCounter::LostNoThread, 1);
        }),
        lost("lost, and freed", |builder| {
            builder.tally(TallyCounter::LostNoRecord, 3).tally(TallyCounter::UnknownFrees, 3);
        }),
        Row {
            what: "frees of blocks that nobody entered and nobody counted",
            change: |builder| {
                builder.tally(TallyCounter::UnknownFrees, 1);
            },
            live: (LIVE_BYTES, None),
            live_blocks: (LIVE_BLOCKS, None),
            peak: (PEAK, None),
            allocations: (ALLOCATIONS, None),
            allocated: (ALLOCATED, None),
        },
        Row {
            what: "frees of which errors tell: nothing was missed",
            change: |builder| {
                builder.tally(TallyCounter::UnknownFrees, 4);
                wrong_frees(builder);
            },
            ..WHOLE
        },
        Row {
            what: "one free more than errors tell of",
            change: |builder| {
                builder.tally(TallyCounter::UnknownFrees, 5);
                wrong_frees(builder);
            },
            live: (LIVE_BYTES, None),
            live_blocks: (LIVE_BLOCKS, None),
            peak: (PEAK, None),
            allocations: (ALLOCATIONS, None),
            allocated: (ALLOCATED, None),
        },
        Row {
            what: "freed in a signal handler: these look alive",
            change: |builder| {
                builder.tally(TallyCounter::FreesBusy, 2);
            },
            live: (LIVE_BYTES - LARGEST - 900, Some(LIVE_BYTES)),
            live_blocks: (LIVE_BLOCKS - 2, Some(LIVE_BLOCKS)),
            // No less than what certainly lives.
            peak: (LIVE_BYTES - LARGEST - 900, Some(PEAK)),
            ..WHOLE
        },
        Row {
            what: "more freed in signal handlers than there are blocks",
            change: |builder| {
                builder.tally(TallyCounter::FreesBusy, 200_000);
            },
            live: (0, Some(LIVE_BYTES)),
            live_blocks: (0, Some(LIVE_BLOCKS)),
            peak: (0, Some(PEAK)),
            ..WHOLE
        },
        Row {
            what: "addresses given out again: frees that nobody saw",
            change: |builder| {
                builder.tally(TallyCounter::Displaced, 1);
            },
            live: (0, Some(LIVE_BYTES)),
            live_blocks: (0, Some(LIVE_BLOCKS)),
            peak: (0, Some(PEAK)),
            ..WHOLE
        },
        Row {
            what: "a library that goes past us",
            change: |builder| {
                builder.tally(TallyCounter::DeepBound, 1);
            },
            live: (0, None),
            live_blocks: (0, None),
            peak: (0, None),
            allocations: (ALLOCATIONS, None),
            allocated: (ALLOCATED, None),
        },
        Row {
            what: "libraries that were not linked with the recorder",
            change: |builder| {
                builder.tally(TallyCounter::FilesUnseen, 2);
            },
            live: (0, None),
            live_blocks: (0, None),
            peak: (0, None),
            allocations: (ALLOCATIONS, None),
            allocated: (ALLOCATED, None),
        },
        Row {
            what: "several threads",
            change: |builder| {
                builder.global(GlobalCounter::PeakError, 5_000);
            },
            // No less than what lives.
            peak: (LIVE_BYTES, Some(PEAK + 5_000)),
            ..WHOLE
        },
        Row {
            what: "many threads",
            change: |builder| {
                builder.global(GlobalCounter::PeakError, 1 << 30);
            },
            // No more than what was allocated.
            peak: (LIVE_BYTES, Some(ALLOCATED)),
            ..WHOLE
        },
        Row {
            what: "records less than the totals have",
            change: |builder| {
                builder.tally(TallyCounter::Allocations, 2).tally(TallyCounter::BytesAllocated, 70);
            },
            live: (LIVE_BYTES, Some(LIVE_BYTES + 70)),
            live_blocks: (LIVE_BLOCKS, Some(LIVE_BLOCKS + 2)),
            allocations: (ALLOCATIONS + 2, Some(ALLOCATIONS + 2)),
            allocated: (ALLOCATED + 70, Some(ALLOCATED + 70)),
            ..WHOLE
        },
        Row {
            what: "records that the totals do not have yet",
            change: |builder| {
                builder.tally(TallyCounter::Frees, 1).tally(TallyCounter::BytesFreed, 300);
            },
            live: (LIVE_BYTES - LARGEST, Some(LIVE_BYTES)),
            live_blocks: (LIVE_BLOCKS - 1, Some(LIVE_BLOCKS)),
            allocations: (ALLOCATIONS, Some(ALLOCATIONS + 1)),
            allocated: (ALLOCATED, Some(ALLOCATED + 300)),
            ..WHOLE
        },
        Row {
            what: "what concerns other reports",
            change: |builder| {
                builder
                    .tally(TallyCounter::HistoryLost, 4)
                    .tally(TallyCounter::StacksCut, 4)
                    .tally(TallyCounter::StacksGuessed, 4)
                    .tally(TallyCounter::ThreadsUnnamed, 4)
                    .tally(TallyCounter::FailedCalls, 4);
            },
            ..WHOLE
        },
    ]
}

#[test]
fn a_limit_holds_or_does_not_only_where_nothing_can_turn_that() {
    for (index, row) in rows().into_iter().enumerate() {
        let mut builder = whole();
        (row.change)(&mut builder);
        let made = Made::new(&format!("table-{index}"), &builder);
        let (strict, lenient) = (made.evidence(None, false), made.evidence(None, true));
        for (figure, (least, most)) in [
            (Figure::Live, row.live),
            (Figure::Leaked, row.live),
            (Figure::LiveBlocks, row.live_blocks),
            (Figure::Peak, row.peak),
            (Figure::Allocations, row.allocations),
            (Figure::Allocated, row.allocated),
        ] {
            let what = format!("{}: {figure:?}", row.what);
            let of = |limit| finding(&strict, figure, limit);
            let found = of(1).found;
            assert_eq!((of(1).least, of(1).most), (least, most), "{what}");
            assert!(least <= found && most.is_none_or(|most| most >= found), "{what}");
            // Of leaks, 0 is another question: whether there is a block at all.
            if least > 1 {
                assert_eq!(of(least - 1).verdict, Verdict::Exceeded, "{what}");
            }
            if let Some(most) = most {
                assert_eq!(of(most).verdict, Verdict::Holds, "{what}");
            }
            let inside = [(least < found).then_some(found - 1), (most != Some(found)).then_some(found)];
            for limit in inside.into_iter().flatten() {
                let open = of(limit);
                assert_eq!(open.verdict, Verdict::Uncertain, "{what}, limit {limit}");
                assert!(!open.doubts.is_empty(), "{what}: it says why");
            }
            // If losses are allowed the figure is as it is; errors are no losses.
            if strict.summary.peak.error_bytes == 0 {
                assert_eq!(finding(&lenient, figure, found).verdict, Verdict::Holds, "{what}");
                assert_eq!(finding(&lenient, figure, found - 1).verdict, Verdict::Exceeded, "{what}");
            }
        }
    }
}

#[test]
fn one_block_is_a_leak_and_none_is_none_if_nothing_is_missing() {
    let verdict = |builder: &Builder, name: &str| {
        let made = Made::new(name, builder);
        finding(&made.evidence(None, false), Figure::Leaked, 0).verdict
    };
    let empty = |counter: Option<TallyCounter>| {
        let mut builder = Builder::new();
        builder.global(GlobalCounter::PeakBytes, 0);
        counter.into_iter().for_each(|counter| {
            builder.tally(counter, 1);
        });
        builder
    };
    assert_eq!(verdict(&empty(None), "none"), Verdict::Holds);
    assert_eq!(verdict(&empty(Some(TallyCounter::LostBusy)), "lost"), Verdict::Uncertain);
    assert_eq!(verdict(&empty(Some(TallyCounter::FreesBusy)), "busy"), Verdict::Holds);
    // Blocks that were no sample may have been left.
    assert_eq!(verdict(empty(None).sampled(4096), "no-sample"), Verdict::Uncertain);
    assert_eq!(verdict(whole().sampled(4096), "samples"), Verdict::Exceeded);
    let mut nothing_in_it = empty(None);
    nothing_in_it.block(0x1000, 0);
    assert_eq!(verdict(&nothing_in_it, "zero"), Verdict::Exceeded);
    assert_eq!(verdict(nothing_in_it.tally(TallyCounter::FreesBusy, 1), "zero-busy"), Verdict::Uncertain);
}

#[test]
fn an_estimate_is_believed_within_twice_its_error() {
    let interval = 1 << 16;
    let made = Made::new("sampled", whole().sampled(interval));
    let evidence = made.evidence(None, false);
    for figure in [Figure::Live, Figure::LiveBlocks, Figure::Peak, Figure::Allocations, Figure::Allocated] {
        let found = finding(&evidence, figure, 0);
        let most = found.most.expect("estimates have bounds");
        assert!((1..found.found).contains(&found.least) && most > found.found, "{figure:?}: {found:?}");
        assert_eq!(finding(&evidence, figure, most).verdict, Verdict::Holds, "{figure:?}");
        assert_eq!(finding(&evidence, figure, most - 1).verdict, Verdict::Uncertain, "{figure:?}");
        assert_eq!(finding(&evidence, figure, found.found).verdict, Verdict::Uncertain, "{figure:?}");
        assert_eq!(finding(&evidence, figure, found.least).verdict, Verdict::Uncertain, "{figure:?}");
        assert_eq!(finding(&evidence, figure, found.least - 1).verdict, Verdict::Exceeded, "{figure:?}");
    }
    // Small blocks among large ones: the mean size says little of how many there are.
    let summary = &evidence.summary;
    let error = summary.live_bytes_error;
    let live = finding(&evidence, Figure::Live, 0);
    assert_eq!(live.least, live.found - 2 * error);
    assert!(live.most.is_some_and(|most| most > live.found + 2 * error + interval), "one sample more");
}

#[test]
fn blocks_without_a_stack_may_be_meant_by_a_name_or_excused() {
    let made = Made::new("stacks", &whole());
    let named = made.evidence(Some("module ~ jq"), false);
    let found = finding(&named, Figure::Live, LIVE_BYTES - 100);
    assert_eq!((found.found, found.least, found.most), (LIVE_BYTES - 100, LIVE_BYTES - 100, Some(LIVE_BYTES)));
    assert_eq!(found.verdict, Verdict::Uncertain);
    assert_eq!(finding(&named, Figure::Live, LIVE_BYTES - 101).verdict, Verdict::Exceeded);
    assert_eq!(finding(&named, Figure::LiveBlocks, LIVE_BLOCKS).verdict, Verdict::Holds);
    let other = made.evidence(Some("module !~ jq"), false);
    assert_eq!((finding(&other, Figure::Live, 0).found, finding(&other, Figure::Live, 0).least), (100, 0));
    // Nothing of names.
    let sized = made.evidence(Some("size > 500"), false);
    assert_eq!(finding(&sized, Figure::LiveBlocks, 5).verdict, Verdict::Holds);
    // What has no stack counts as leaked, though it might be one of those that are excused.
    let all = made.evidence(None, false);
    let excused = Leaked::of(&all, Some(&mut |_| Some("leak:jq".to_owned())));
    let verdict = |leaked: &Leaked, limit| check(&all, &limits(Figure::Leaked, limit), Some(leaked), None)[0].verdict;
    assert_eq!((excused.blocks, excused.bytes, verdict(&excused, 0)), (1, 100, Verdict::Uncertain));
    assert_eq!(verdict(&excused, 100), Verdict::Holds);
    let none = Leaked::of(&all, Some(&mut |_| None));
    assert_eq!(
        (verdict(&none, LIVE_BYTES - 101), verdict(&none, LIVE_BYTES - 100)),
        (Verdict::Exceeded, Verdict::Uncertain)
    );
    // Stacks that were cut may have lacked the name.
    let made = Made::new("cut", whole().tally(TallyCounter::StacksCut, 2));
    let named = made.evidence(Some("module ~ other"), false);
    let found = finding(&named, Figure::Live, 0);
    assert_eq!((found.found, found.most), (0, Some(100 + LARGEST + 900)));
}

#[test]
fn a_baseline_may_be_off_too() {
    let growth = |before: &Evidence, now: &Evidence, growth| {
        let limits = Limits { growth: Some(growth), ..Limits::default() };
        check(now, &limits, None, Some(before)).iter().map(|finding| finding.verdict).collect::<Vec<_>>()
    };
    let both = |verdict| vec![verdict; 2];
    let made = Made::new("before", &whole());
    let same = made.evidence(None, false);
    assert_eq!(growth(&same, &same, Growth::Percent(0.0)), both(Verdict::Holds));
    // A baseline that misses blocks: what looks like growth may be none.
    let missing = Made::new("missing", whole().tally(TallyCounter::LostNoRecord, 1));
    let missing = missing.evidence(None, false);
    let mut more = whole();
    more.block(0x9_0000, 4_000).global(GlobalCounter::PeakBytes, 13_000);
    let more = Made::new("more", &more);
    let more = more.evidence(None, false);
    assert_eq!(growth(&same, &more, Growth::Percent(5.0)), both(Verdict::Exceeded));
    assert_eq!(growth(&missing, &more, Growth::Percent(5.0)), both(Verdict::Uncertain));
    assert_eq!(growth(&missing, &same, Growth::Percent(0.0)), both(Verdict::Holds), "it was no less");
    assert_eq!(growth(&same, &missing, Growth::Bytes(1 << 40)), both(Verdict::Uncertain), "it may be any more");
}
