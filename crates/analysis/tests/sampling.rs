//! Figures of sampled ledgers, of the recorder's memory, and of the trie of call sites.

use std::path::PathBuf;
use std::time::SystemTime;

use heapledger_analysis::{Clock, Events, Memory, Note, Private, Sampled, Selection, Sort, Summary};
use heapledger_format::bytes::{ByteOrder, WordSize};
use heapledger_format::sample::{STEP, SampleRule, next_gap, scramble};
use heapledger_format::{Entry, GlobalCounter, Kind, SectionKind, Site, TallyCounter, ThreadRow, Ticks};
use heapledger_source::{Ledger, finish};
use heapledger_testing::{Builder, freed_at, sample};

/// A ledger, live and finished.
struct Made(PathBuf, [Ledger; 2]);

impl Made {
    fn new(test: &str, builder: &Builder) -> Made {
        let path = std::env::temp_dir().join(format!("heapledger-sampling-{test}-{}", std::process::id()));
        builder.write(&path).expect("written");
        let finished = path.with_extension("hl");
        let live = Ledger::open(&path).expect("a ledger");
        finish(&live, &finished, &[], &mut |_, _| {}).expect("finished");
        let finished = Ledger::open(&finished).expect("a ledger");
        Made(path, [live, finished])
    }

    fn summaries(&self) -> [Summary; 2] {
        self.1.each_ref().map(|ledger| {
            let clock = Clock::new(ledger, SystemTime::UNIX_EPOCH).expect("a clock");
            Summary::of(ledger, clock, 10, &mut |_| {}).expect("readable")
        })
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
        let _ = std::fs::remove_file(self.0.with_extension("hl"));
    }
}

fn block(number: u64, size: u64) -> Entry {
    Entry {
        number,
        address: 0x1000 + number * 64,
        size: Some(size),
        actual: Some(size + 8),
        kind: if number.is_multiple_of(2) { Kind::MALLOC } else { Kind::NEW },
        site: Site::NONE,
        thread: Some(ThreadRow(number as u32 % 2)),
        heap: Some(0),
        time: Some(Ticks(number)),
        ..Entry::NONE
    }
}

/// By the ledger's seed, and as older writers did.
#[test]
fn every_sum_is_weighted() {
    for seed in [0x5EED, 0xFEED_5EED_BEEF_5EED, 0] {
        sums_are_weighted(seed);
    }
}

fn sums_are_weighted(seed: u64) {
    const INTERVAL: u64 = 4096;
    let rule = SampleRule { interval: INTERVAL, seed };
    let mut builder = Builder::new();
    builder.sampled_by(rule).heap("heap", 0, 1 << 30);
    for row in 0..2 {
        builder.thread(1, 100 + row, 0, "thread", [0, 0, 0]);
    }
    let site = builder.stack(&[(None, 0x10), (None, 0x20)]);
    let sizes = [16, 100, 1000, 5000, 100_000, 0];
    let mut blocks: Vec<Entry> = sizes.iter().enumerate().map(|(number, size)| block(number as u64, *size)).collect();
    blocks[1].site = site;
    blocks[2].site = site;
    for entry in &blocks {
        builder.entry(*entry);
    }
    // The weight is that of the block, whatever the number of its free is.
    let gone = [block(50, 64), block(51, 3)];
    builder.freed(freed_at(gone[0], 90)).freed(freed_at(gone[1], 91));
    builder
        .tally(TallyCounter::Frees, 1000)
        .tally(TallyCounter::Allocations, 1000)
        .tally(TallyCounter::UnknownFrees, 9);
    let weigh = |entry: &Entry| rule.weight(entry.size.unwrap_or(0), entry.number);
    let sum =
        |entries: &[Entry], of: &dyn Fn(&Entry) -> u64| entries.iter().map(|one| weigh(one) * of(one)).sum::<u64>();
    let (live, bytes) = (sum(&blocks, &|_| 1), sum(&blocks, &|entry| entry.size.unwrap_or(0)));
    assert!(live > 4096 + 256 + 40, "the weights are no ones: {live}");

    let made = Made::new("weighted", &builder);
    for summary in made.summaries() {
        assert_eq!(summary.sampled, Some(Sampled { interval_bytes: INTERVAL, samples: 6 }));
        assert_eq!((summary.live_blocks, summary.live_bytes), (live, bytes));
        assert_eq!(summary.actual_bytes, Some(bytes + 8 * live));
        assert_eq!((summary.allocations - summary.frees, summary.unaccounted), (live, 0));
        assert_eq!(summary.frees, 1000 + sum(&gone, &|_| 1));
        let kinds: Vec<(u64, u64)> = summary.kinds.iter().map(|kind| (kind.live_blocks, kind.live_bytes)).collect();
        let odd: Vec<Entry> = blocks.iter().filter(|entry| entry.kind == Kind::NEW).copied().collect();
        let new = (sum(&odd, &|_| 1), sum(&odd, &|entry| entry.size.unwrap_or(0)));
        assert_eq!(kinds, [(live - new.0, bytes - new.1), new, (0, 0)]);
        let threads = summary.threads.iter().map(|thread| (thread.live_blocks, thread.live_bytes));
        assert_eq!(threads.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1)), (live, bytes));
        assert_eq!((summary.heaps[0].live_blocks, summary.heaps[0].live_bytes), (live, bytes));
        let top = summary.sites.top[0];
        assert_eq!((top.site, top.samples), (site, 2));
        assert_eq!(
            (top.blocks, top.bytes),
            (sum(&blocks[1..3], &|_| 1), sum(&blocks[1..3], &|entry| entry.size.unwrap_or(0)))
        );
        let squares = sum(&blocks, &|entry| entry.size.unwrap_or(0).pow(2) * (weigh(entry) - 1));
        assert_eq!(summary.live_bytes_error, (squares as f64).sqrt().round() as u64);
        assert_eq!(summary.live_blocks_error, (sum(&blocks, &|entry| weigh(entry) - 1) as f64).sqrt().round() as u64);
        let losses: Vec<&Note> = summary.seen.notes.iter().collect();
        assert!(losses.is_empty(), "frees of blocks between samples are no loss: {losses:?}");
    }
    for ledger in &made.1 {
        let selection = Selection::of(ledger, Sort::Size, 2, &mut |_| {}).expect("readable");
        assert_eq!((selection.total, selection.total_blocks, selection.total_bytes), (6, live, bytes));
        assert_eq!((selection.left_out(), selection.sampled.map(|sampled| sampled.samples)), (4, Some(6)));
        let events = Events::first(ledger, 0, &mut |_| {}).expect("readable");
        assert_eq!((events.frees_missing, events.total), (1000, 6 + 2 * 2));
        assert_eq!(events.sampled, Some(Sampled { interval_bytes: INTERVAL, samples: 8 }));
    }
}

#[test]
fn estimates_of_a_made_up_program_are_near_the_truth() {
    const INTERVAL: u64 = 64 << 10;
    let (mut state, mut number) = (3u64, 0);
    let mut gap = || {
        state = state.wrapping_add(STEP);
        next_gap(scramble(state), INTERVAL)
    };
    let mut builder = Builder::new();
    builder.sampled(INTERVAL);
    let (mut left, mut truth) = (gap(), 0);
    for index in 0..400_000u64 {
        let size = 1 + scramble(index) % 600;
        truth += size;
        if left > size {
            left -= size;
        } else {
            left = gap();
            builder.entry(block(number, size));
            number += 1;
        }
    }
    let made = Made::new("program", &builder);
    let [live, finished] = made.summaries();
    assert_eq!(live.live_bytes, finished.live_bytes);
    let off = live.live_bytes.abs_diff(truth) as f64 / live.live_bytes_error as f64;
    assert!(off < 4.0, "{} and not {truth}, with an error of {}", live.live_bytes, live.live_bytes_error);
    // About 1,800 samples: 1 / √1800 is 2.4 %.
    let percent = live.live_bytes_error as f64 * 100.0 / live.live_bytes as f64;
    assert!((2.0..3.0).contains(&percent), "{percent} %");
    assert!((1500..2200).contains(&number), "{number} samples");
}

#[test]
fn a_full_ledger_has_no_error_and_no_samples() {
    let made = Made::new("full", &sample(ByteOrder::Little, WordSize::W64));
    for summary in made.summaries() {
        assert_eq!((summary.sampled, summary.live_blocks_error, summary.live_bytes_error), (None, 0, 0));
        assert!(summary.sites.top.iter().all(|totals| totals.samples == totals.blocks));
    }
    assert_eq!(Selection::of(&made.1[0], Sort::Address, 0, &mut |_| {}).expect("readable").sampled, None);
    assert_eq!(Events::first(&made.1[0], 0, &mut |_| {}).expect("readable").sampled, None);
}

#[test]
fn stacks_are_counted_and_measured() {
    let mut builder = Builder::new();
    let shallow = builder.stack(&[(None, 0x10)]);
    builder.stack(&[(None, 0x50), (None, 0x40), (None, 0x30), (None, 0x20)]);
    let inner = builder.stack(&[(None, 0x30), (None, 0x20)]);
    // Made in vain, a circle of two, and a node that lies before its caller.
    let circle_after = builder.site_node(Site::NONE, 0).0 + 2;
    let circle = builder.site_node(Site(circle_after), 3);
    builder.site_node(circle, 4);
    let early = builder.site_node(Site(circle_after + 2), 5);
    let late = builder.site_node(shallow, 6);
    assert_eq!(late.0, early.0 + 1);
    // A live block in the middle of another stack makes a stack of its own.
    let mut entry = block(0, 100);
    entry.site = inner;
    builder.entry(entry);
    builder.global(GlobalCounter::SitesPrivateBytes, 400).global(GlobalCounter::PrivateBytes, 1000);
    builder.global(GlobalCounter::ShadowBytes, 330).global(GlobalCounter::ThreadsPrivateBytes, 70);
    builder.global(GlobalCounter::PeakBlocks, 11);
    builder.global(GlobalCounter::GuardTablesBytes, 20).global(GlobalCounter::GuardWaitingBytes, 30);
    builder.global(GlobalCounter::GuardWaitingBlocks, 3);
    builder.global(GlobalCounter::GuardClosedBlocks, 4).global(GlobalCounter::GuardClosedBytes, 5);
    builder.tally(TallyCounter::FramesVerified, 5).tally(TallyCounter::StacksDiffering, 2);
    let made = Made::new("stacks", &builder);
    for (summary, ledger) in made.summaries().iter().zip(&made.1) {
        let sites = &summary.sites;
        // The ends of the trie are that of four frames and `early`; the circle has no end.
        assert_eq!((sites.distinct, sites.live, sites.nodes), (3, 1, 9));
        assert_eq!(sites.mean_frames, Some((4.0 + 3.0 + 2.0) / 3.0));
        let (nodes, codes) =
            (ledger.count(SectionKind::Sites).expect("nodes"), ledger.count(SectionKind::Pcs).expect("pcs"));
        assert_eq!((sites.bytes, sites.codes), ((nodes + codes) * 8, codes - 1));
        assert_eq!(sites.storage_bytes, Some(sites.bytes));
        assert_eq!(sites.bytes_per_stack_ledger(), Some(sites.bytes as f64 / 3.0));
        assert_eq!(sites.bytes_per_stack_memory(), Some((sites.bytes + 400) as f64 / 3.0));
        assert_eq!(sites.bytes_per_stack_file().is_some(), ledger.is_finished());
        let memory = summary.memory;
        let private = Private {
            shadow_bytes: 330,
            sites_bytes: 400,
            threads_bytes: 70,
            guard_tables_bytes: 20,
            quarantine_bytes: 30,
            other_bytes: 150,
        };
        assert_eq!((memory.quarantine_blocks, memory.closed), (3, (4, 5)));
        assert_eq!((memory.private, memory.blocks, memory.thread_states), (Some(private), 11, Some(1)));
        let sections = memory.sections.expect("known");
        // One record and the unused first element that the test's writer begins with.
        assert_eq!((sections.records_bytes, sections.sites_bytes), (2 * 32, sites.bytes));
        let all = sections.records_bytes + sections.history_bytes + sections.sites_bytes + sections.other_bytes;
        assert_eq!(all, summary.storage.ledger_bytes);
        assert_eq!(memory.bytes_per_block(), Some(64.0 / 11.0 + 330.0 / 11.0));
        assert_eq!(memory.bytes_per_thread(), Some(70.0));
        assert_eq!((summary.unwinding.frames_verified, summary.unwinding.differing), (5, 2));
        assert!(summary.seen.notes.contains(&Note::Loss(TallyCounter::StacksDiffering, 2)));
    }
}

#[test]
fn ledgers_of_older_writers_leave_off_what_they_do_not_tell() {
    let mut builder = sample(ByteOrder::Little, WordSize::W64);
    builder.global(GlobalCounter::ShadowBytes, 330).tally(TallyCounter::FramesWalked, 7).counters(9, 22);
    let made = Made::new("older", &builder);
    let [live, finished] = made.summaries();
    for summary in [&live, &finished] {
        assert_eq!((summary.memory.private, summary.sites.private_bytes), (None, None));
        assert_eq!(summary.sites.bytes_per_stack_memory(), None);
        assert_eq!(summary.memory.bytes_per_block(), None);
    }
    let mut plain = live.memory;
    plain.thread_states = finished.memory.thread_states;
    assert_eq!(plain, Memory { private: None, ..finished.memory });
}
