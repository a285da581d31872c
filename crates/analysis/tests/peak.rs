//! The peak of programs with several threads, which tell now and then what they hold: every report says the same of it.

use std::time::{Instant, SystemTime};

use heapledger_analysis::diff::Diff;
use heapledger_analysis::tree::{SiteSums, Threads};
use heapledger_analysis::watch::Reader;
use heapledger_analysis::{Clock, HeapTimeline, Peak, SeenBy, Summary};
use heapledger_format::bytes::{ByteOrder, Codec, WordSize};
use heapledger_format::session::process as key;
use heapledger_format::sums::{PeakCut, Sum};
use heapledger_format::timeline::{TimePoint, WORDS, by, known};
use heapledger_format::{GlobalCounter, SectionKind, TallyCounter, Ticks, Word};
use heapledger_source::Ledger;
use heapledger_testing::{Builder, Scratch};

const CODEC: Codec = Codec { order: ByteOrder::Little, word: WordSize::W64 };

/// What threads told of as the peak, in bytes and blocks, and by how much that may be off.
const TOLD: [u64; 3] = [798, 2, 32_524];
/// The program's end, in ticks.
const END: u64 = 90;

/// A look that saw so much, after so many allocations and frees and bytes.
fn look(begin: u64, end: u64, live: u64, [allocations, frees, bytes_allocated]: [u64; 3]) -> TimePoint {
    TimePoint {
        begin: Ticks(begin),
        looks: 1,
        by: by::OUTSIDE,
        known: known::TOTALS | known::BLOCKS,
        live_bytes: live,
        highest_bytes: live,
        highest_blocks: allocations - frees,
        highest_time: Ticks(end),
        lowest_bytes: live,
        allocations,
        frees,
        bytes_allocated,
        ..TimePoint::default()
    }
    .with_end(Ticks(end))
}

/// A ledger in a file, with live blocks of these sizes, of which the first `told` were told of at the peak.
fn made(test: &str, sizes: &[u64], freed_bytes: u64, points: &[TimePoint]) -> (Scratch, Ledger) {
    let mut builder = Builder::new();
    for (number, size) in (1u64..).zip(sizes) {
        builder.block(0x1000 * number, *size);
    }
    let [peak, peak_blocks, error] = TOLD;
    builder.global(GlobalCounter::PeakBytes, peak).global(GlobalCounter::PeakBlocks, peak_blocks);
    builder.global(GlobalCounter::PeakError, error).global(GlobalCounter::PeakTime, 10);
    builder.global(GlobalCounter::LastTime, 30).process(key::WALL_NS, &(END * 1000).to_string());
    let frees = u64::from(freed_bytes != 0);
    // Beside those of live blocks.
    builder.tally(TallyCounter::Allocations, frees).tally(TallyCounter::Frees, frees);
    builder.tally(TallyCounter::BytesAllocated, freed_bytes).tally(TallyCounter::BytesFreed, freed_bytes);
    let mut elements = vec![0; points.len() * WORDS * 8];
    for (element, point) in elements.chunks_exact_mut(WORDS * 8).zip(points) {
        assert!(point.write(CODEC, element));
    }
    builder.section(SectionKind::Timeline as u16, WORDS * 8, elements);
    let mut cut = vec![0; PeakCut::bytes(CODEC.word)];
    assert!(PeakCut { number: Word(2), peak_bytes_plus_1: Word(peak + 1) }.write(CODEC, &mut cut));
    builder.section(SectionKind::PeakCuts as u16, cut.len(), cut);
    let row = Sum::bytes(CODEC.word);
    builder.section(SectionKind::Sums as u16, row, vec![0; row]);
    let scratch = Scratch::new(&format!("peak-{test}"));
    builder.write(&scratch.join("ledger")).expect("written");
    let ledger = Ledger::open(scratch.join("ledger")).expect("a ledger");
    (scratch, ledger)
}

/// The peak as it is told over time, for `stats`, and at the call sites.
fn peaks(ledger: &Ledger) -> (HeapTimeline, Peak, SiteSums) {
    let clock = Clock::new(ledger, SystemTime::now()).expect("readable");
    let timeline = HeapTimeline::of(ledger, &clock).expect("readable");
    let summary = Summary::of(ledger, clock, 0, &mut |_| ()).expect("readable");
    let sums = SiteSums::of(ledger, Threads::Together, None, &mut |_| ()).expect("readable");
    assert_eq!(Peak::of(ledger, &clock).expect("readable"), summary.peak);
    let watched = Reader::new(ledger, Instant::now()).totals(SystemTime::now()).expect("readable");
    assert_eq!(watched.peak_bytes, summary.peak.bytes);
    let highest = timeline.peak().expect("known");
    assert_eq!((highest.highest_bytes, timeline.peak_blocks()), (summary.peak.bytes, Some(summary.peak.blocks)));
    assert_eq!((timeline.peak_ns(), timeline.peak_error_bytes), (summary.peak.time_ns, summary.peak.error_bytes));
    (timeline, summary.peak, sums)
}

#[test]
fn what_lives_in_the_end_is_the_peak_where_it_is_more_than_was_told() {
    // The last looks are as an older `run` cut them, and after the program's end.
    let totals = [3, 0, 10_298];
    let points = [look(0, 20, 298, [1, 0, 298]), look(20, 40, 798, totals), look(40, 180, 798, totals)];
    let (_scratch, ledger) = made("end", &[298, 500, 9_500], 0, &points);
    let (timeline, peak, sums) = peaks(&ledger);
    let exact = Peak { bytes: 10_298, blocks: 3, time_ns: Some(30_000), error_bytes: 0 };
    assert_eq!(peak, exact, "nobody held what was never allocated");
    let live: Vec<_> = timeline.points.iter().map(|point| (point.live_bytes, point.live_blocks)).collect();
    assert_eq!(live, [(298, Some(1)), (10_298, Some(3)), (10_298, Some(3))]);
    assert_eq!(timeline.span_ns(), END * 1000, "nothing is seen after the end");
    assert!(timeline.points.iter().all(|point| point.seen_by == SeenBy::Run), "how it ended was seen");
    assert_eq!((sums.peak_error, sums.peak_is_end), (Some(0), true));
    assert_eq!((sums.total.peak_bytes, sums.total.peak_blocks), (10_298, 3));
    assert_eq!(sums.peak_highest, Some(10_298));
    let clock = Clock::new(&ledger, SystemTime::now()).expect("readable");
    assert_eq!(Peak::summed_ns(&ledger, &clock).expect("readable"), Some(30_000));
    let diff = Diff::since_peak(&ledger, &mut |_| ()).expect("readable").expect("known");
    assert!(diff.changes.iter().all(|change| change.before == change.after), "{:?}", diff.changes);
}

#[test]
fn what_somebody_saw_is_the_peak_where_it_is_more_than_was_told() {
    let points = [look(0, 20, 1_298, [3, 0, 1_298]), look(20, 90, 798, [3, 1, 1_298])];
    let (_scratch, ledger) = made("seen", &[298, 500], 60_000, &points);
    let (_, peak, sums) = peaks(&ledger);
    let [.., error] = TOLD;
    // Of single blocks there is what threads have told of, which may be off from the peak by as much as they kept to themselves; and every
    // report has that one error.
    assert_eq!(peak, Peak { bytes: 1_298, blocks: 3, time_ns: Some(20_000), error_bytes: error });
    assert_eq!((sums.total.peak_bytes, sums.peak_error, sums.peak_is_end), (798, Some(error), false));
    assert_eq!(sums.peak_highest, Some(1_298), "whoever shows the sum knows that stats says something else");
    let clock = Clock::new(&ledger, SystemTime::now()).expect("readable");
    assert_eq!(Peak::summed_ns(&ledger, &clock).expect("readable"), Some(10_000));
}

#[test]
fn blocks_of_the_peak_are_those_that_were_counted_when_as_much_lived() {
    // They told of 2 blocks, and of all bytes.
    let (_scratch, ledger) = made("blocks", &[200, 98, 500], 0, &[look(0, 90, 798, [3, 0, 798])]);
    let (_, peak, sums) = peaks(&ledger);
    assert_eq!((peak.bytes, peak.blocks, peak.error_bytes, sums.peak_is_end), (798, 3, 0, true));
    assert_eq!((sums.total.peak_bytes, sums.total.peak_blocks, sums.peak_error), (798, 3, Some(0)));
    let (_scratch, ledger) = made("blocks-seen", &[298], 60_000, &[look(0, 50, 798, [5, 1, 1_298])]);
    let (_, peak, _) = peaks(&ledger);
    assert_eq!((peak.bytes, peak.blocks), (798, 4));
}

#[test]
fn what_was_cut_does_not_say_of_how_many_blocks() {
    let cut = TimePoint { known: known::TOTALS, highest_bytes: 10_298, ..look(0, 20, 298, [1, 0, 298]) };
    let (_scratch, ledger) = made("cut", &[298, 500, 9_500], 0, &[cut, look(20, 90, 10_298, [3, 0, 10_298])]);
    let (_, peak, _) = peaks(&ledger);
    assert_eq!((peak.bytes, peak.blocks, peak.time_ns), (10_298, 3, Some(30_000)));
    let gone = [cut, look(20, 40, 10_298, [3, 0, 10_298]), look(40, 90, 298, [3, 2, 10_298])];
    let (_scratch, ledger) = made("cut-gone", &[298], 20_000, &gone);
    let (_, peak, _) = peaks(&ledger);
    assert_eq!((peak.bytes, peak.blocks, peak.time_ns), (10_298, 3, Some(40_000)));
}

#[test]
fn nobody_is_believed_who_saw_more_than_there_can_have_been() {
    let points = [look(0, 20, 1 << 40, [3, 0, 1 << 40]), look(20, 90, 798, [3, 1, 1_298])];
    let (_scratch, ledger) = made("forged", &[298, 500], 60_000, &points);
    let clock = Clock::new(&ledger, SystemTime::now()).expect("readable");
    let [told, blocks, error] = TOLD;
    let peak = Peak::of(&ledger, &clock).expect("readable");
    assert_eq!((peak.bytes, peak.blocks, peak.error_bytes), (told, blocks, error));
}

#[test]
fn what_threads_had_told_of_is_off_by_what_they_may_keep_to_themselves() {
    let totals = [3, 1, 60_798];
    let told = TimePoint { known: 0, allocations: 0, frees: 0, bytes_allocated: 0, ..look(0, 20, 298, totals) };
    let (_scratch, ledger) = made("many", &[298, 500], 60_000, &[told, look(20, 90, 798, totals)]);
    let (timeline, ..) = peaks(&ledger);
    let errors: Vec<u64> = timeline.points.iter().map(|point| point.live_error_bytes).collect();
    assert_eq!((errors, timeline.live_error_bytes()), (vec![65_536, 0], 65_536));
}
