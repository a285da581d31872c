//! How the heap grew: figures over time, for charts, exports and summaries.

use heapledger_format::session::process as key;
use heapledger_format::timeline::{TimePoint, by, known};
use heapledger_format::{GlobalCounter, TallyCounter, Ticks};
use heapledger_source::{Ledger, SourceError, Tallies};

use crate::clock::Clock;
use crate::peak::{PeakBounds, PeakMoment};

/// Parts of the recorder's memory that are anonymous memory of the process.
const OWN_TABLES: [GlobalCounter; 5] = [
    GlobalCounter::SitesPrivateBytes,
    GlobalCounter::ShadowBytes,
    GlobalCounter::ThreadsPrivateBytes,
    GlobalCounter::GuardTablesBytes,
    GlobalCounter::GuardWaitingBytes,
];

/// What threads keep to themselves before they tell is less than the one or the other, whichever is more: `peak_error` in `FORMAT.md`.
const UNTOLD_MIN: u64 = 64 << 10;
const UNTOLD_ONE_IN: u64 = 100;

/// Who saw what a point says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum SeenBy {
    /// The recorder in the program itself, when something was allocated or freed: nothing is known of the memory of the process.
    Recorder,
    /// `run`, which stood beside it.
    #[default]
    Run,
    /// The totals of the ledger, which say how it ended or is now.
    Totals,
}

/// An interval of a run, and what was seen in it. Times are nanoseconds since the ledger began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimelinePoint {
    /// When it began: the end of the one before, but where nothing was known in between.
    pub begin_ns: u64,
    /// When it ended: the moment of what is said without "highest".
    pub end_ns: u64,
    /// Who looked.
    pub seen_by: SeenBy,
    /// How often.
    pub looks: u32,
    /// Bytes asked for in live blocks. An estimate in a sampled ledger, as all figures of blocks.
    pub live_bytes: u64,
    /// By how much that may be off: of many threads the recorder notes what they have told of. Nothing where it is counted.
    pub live_error_bytes: u64,
    /// Live blocks.
    pub live_blocks: Option<u64>,
    /// The highest that live bytes are known to have been in the interval.
    pub highest_bytes: u64,
    /// Live blocks then.
    pub highest_blocks: Option<u64>,
    /// When that was.
    pub highest_ns: u64,
    /// The lowest that was seen.
    pub lowest_bytes: u64,
    /// Allocations since the ledger began.
    pub allocations: Option<u64>,
    /// Frees since then.
    pub frees: Option<u64>,
    /// Bytes asked for in all blocks since then.
    pub bytes_allocated: Option<u64>,
    /// Anonymous memory of the process that is present (`RssAnon`), less what the recorder uses: the highest in the interval.
    pub resident_bytes: Option<u64>,
    /// What of it was swapped out: the highest in the interval.
    pub swapped_bytes: Option<u64>,
    /// Page faults without reading from a disk since the process began.
    pub minor_faults: Option<u64>,
    /// Page faults with it.
    pub major_faults: Option<u64>,
}

impl TimelinePoint {
    /// Memory that is the program's own, present or swapped out.
    pub fn own_memory_bytes(&self) -> Option<u64> {
        Some(self.resident_bytes?.saturating_add(self.swapped_bytes?))
    }
}

/// A stretch of time in which the same one looked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimelinePart {
    /// Who.
    pub seen_by: SeenBy,
    /// From when, in nanoseconds since the ledger began.
    pub begin_ns: u64,
    /// To when.
    pub end_ns: u64,
}

/// A column of a chart: the highest in so much of the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimelineColumn {
    /// Live bytes.
    pub live_bytes: u64,
    /// Memory of the program's own, where it is known.
    pub own_memory_bytes: Option<u64>,
}

/// Figures over time, in order and without an overlap. The highest of them is the peak that the ledger tells of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeapTimeline {
    /// The intervals. None, if nothing was noted over time.
    pub points: Vec<TimelinePoint>,
    /// When the ledger began, in nanoseconds since 1970.
    pub start_unix_ns: Option<u64>,
    /// Figures of blocks are estimates.
    pub is_sampled: bool,
    /// By how much the peak may be off.
    pub peak_error_bytes: u64,
    /// When the peak was, as [`crate::Peak`] says it.
    told_peak_ns: Option<u64>,
    /// Blocks then.
    told_peak_blocks: Option<u64>,
}

impl HeapTimeline {
    /// One of intervals in order and without an overlap.
    pub fn new(points: Vec<TimelinePoint>) -> HeapTimeline {
        HeapTimeline { points, ..HeapTimeline::default() }
    }

    /// That of a ledger.
    ///
    /// # Errors
    /// If it can no longer be read.
    pub fn of(ledger: &Ledger, clock: &Clock) -> Result<HeapTimeline, SourceError> {
        let mut all = ledger.timeline()?;
        let mut timeline = HeapTimeline {
            points: Vec::new(),
            start_unix_ns: clock.start_unix_ns(),
            is_sampled: ledger.sample_interval() != 0,
            ..HeapTimeline::default()
        };
        if all.is_empty() || clock.ns(Ticks(1)).is_none() {
            return Ok(timeline);
        }
        let tallies = ledger.tallies()?;
        let header = ledger.current_header()?;
        let bounds = PeakBounds::from(&all, &tallies, &header);
        let peak = bounds.peak(clock);
        timeline.peak_error_bytes = peak.error_bytes;
        if ledger.process().number(key::WALL_NS).is_some() {
            all.iter_mut().for_each(|point| cut(point, clock.end()));
        }
        let end = the_end(&bounds, &tallies, &all, clock);
        let is_same = |point: &TimePoint| {
            point.knows(known::TOTALS)
                && (point.allocations, point.frees, point.bytes_allocated)
                    == (end.allocations, end.frees, end.bytes_allocated)
        };
        // Since then nothing has happened. Older recorders noted what threads had told of, which may be less.
        for point in all.iter_mut().rev().take_while(|point| is_same(point)) {
            point.live_bytes = end.live_bytes;
            point.lowest_bytes = point.lowest_bytes.min(end.live_bytes);
            point.raise(&TimePoint { highest_time: point.end(), ..end });
        }
        let is_whole = all.last().is_some_and(is_same) || ledger.is_running();
        if clock.end() > end.begin || !is_whole {
            let mut end = end;
            // Of a running process the kernel tells what there is now.
            if let Some((present, swapped)) = ledger.memory_now() {
                let own: u64 = OWN_TABLES.iter().map(|counter| header.global(*counter)).fold(0, u64::saturating_add);
                end.known |= known::RESIDENT;
                (end.resident_bytes, end.swapped_bytes) = (present.saturating_sub(own), swapped);
            }
            all.push(end);
        }
        raise_to_peak(&mut all, &bounds.highest);
        if bounds.highest.time != Ticks(0) && all.iter().all(|point| point.highest_bytes <= peak.bytes) {
            timeline.told_peak_ns = clock.ns(bounds.highest.time);
            timeline.told_peak_blocks = Some(peak.blocks);
        }
        timeline.points = all.iter().map(|point| shown(point, clock)).collect();
        let untold = UNTOLD_MIN.max(peak.bytes / UNTOLD_ONE_IN);
        let told = timeline.points.iter_mut().filter(|point| point.allocations.is_none());
        told.for_each(|point| point.live_error_bytes = untold);
        Ok(timeline)
    }

    /// Whether anything was noted over time.
    pub fn is_known(&self) -> bool {
        !self.points.is_empty()
    }

    /// How long it is, in nanoseconds.
    pub fn span_ns(&self) -> u64 {
        self.points.last().map_or(0, |point| point.end_ns)
    }

    /// The interval in which live bytes were highest: if several were, the first of which it is known how many blocks lived then. (What was cut where
    /// somebody else began to look may seem as high as what followed.)
    pub fn peak(&self) -> Option<&TimelinePoint> {
        self.points.iter().rev().max_by_key(|point| (point.highest_bytes, point.highest_blocks.is_some()))
    }

    /// When the peak was, in nanoseconds since the ledger began: the moment that `stats` tells.
    pub fn peak_ns(&self) -> Option<u64> {
        self.told_peak_ns.or(self.peak().map(|peak| peak.highest_ns))
    }

    /// Live blocks then: as many as `stats` tells.
    pub fn peak_blocks(&self) -> Option<u64> {
        self.told_peak_blocks.or(self.peak()?.highest_blocks)
    }

    /// Whether somebody looked at the program's memory over time; else nothing is known of it, or what it is now.
    pub fn has_memory_over_time(&self) -> bool {
        self.points.iter().any(|point| point.seen_by == SeenBy::Run && point.own_memory_bytes().is_some())
    }

    /// The one in which the program's own memory was most, if that is known.
    pub fn most_memory(&self) -> Option<&TimelinePoint> {
        let known = self.points.iter().rev().filter(|point| point.own_memory_bytes().is_some());
        known.max_by_key(|point| point.own_memory_bytes())
    }

    /// Who looked when.
    pub fn parts(&self) -> Vec<TimelinePart> {
        let mut parts: Vec<TimelinePart> = Vec::new();
        for point in &self.points {
            match parts.last_mut() {
                Some(last) if last.seen_by == point.seen_by => last.end_ns = point.end_ns,
                _ => {
                    parts.push(TimelinePart { seen_by: point.seen_by, begin_ns: point.begin_ns, end_ns: point.end_ns })
                }
            }
        }
        parts
    }

    /// By how much live bytes may be off where that is most.
    pub fn live_error_bytes(&self) -> u64 {
        self.points.iter().map(|point| point.live_error_bytes).max().unwrap_or(0)
    }

    /// The longest interval in which something was allocated or freed: what came up and went between two looks in it is seen only if
    /// it was the peak.
    pub fn coarsest_ns(&self) -> u64 {
        let mut before = (Some(0), Some(0));
        let busy = self.points.iter().filter(|point| {
            let totals = (point.allocations, point.frees);
            let is_quiet = totals.0.is_some() && totals == before;
            before = totals;
            !is_quiet
        });
        busy.map(|point| point.end_ns.saturating_sub(point.begin_ns)).max().unwrap_or(0)
    }

    /// So many columns of the same length: of each the highest. Until the highest of an interval, and where nobody looked, it is as it was before;
    /// from then on as at the end of the interval.
    pub fn columns(&self, count: usize) -> Vec<TimelineColumn> {
        let mut columns = vec![None::<TimelineColumn>; count];
        let span = u128::from(self.span_ns().max(1));
        let last = count.saturating_sub(1);
        let column_of = |ns: u64| usize::try_from(u128::from(ns) * count as u128 / span).unwrap_or(last).min(last);
        let mut raise = |first: usize, last: usize, live_bytes: u64, own_memory_bytes: Option<u64>| {
            for place in columns.iter_mut().take(last + 1).skip(first) {
                let known = place.unwrap_or_default();
                *place = Some(TimelineColumn {
                    live_bytes: known.live_bytes.max(live_bytes),
                    own_memory_bytes: known.own_memory_bytes.max(own_memory_bytes),
                });
            }
        };
        // Up to which column it is known, how much lived then, and up to which somebody looked at memory.
        let (mut known, mut live_bytes, mut looked) = (0, 0, None);
        for point in &self.points {
            let (begin, end) = (column_of(point.begin_ns), column_of(point.end_ns));
            let highest = column_of(point.highest_ns).clamp(begin, end.max(begin));
            raise(known, highest, live_bytes, None);
            raise(highest, highest, point.highest_bytes, None);
            raise(highest, end, point.live_bytes, None);
            // A column that two intervals share is the first one's, unless the second one has no other.
            let is_shared = begin < end && looked == Some(begin);
            raise(begin + usize::from(is_shared), end, 0, point.own_memory_bytes());
            (known, live_bytes, looked) = (end, point.live_bytes, Some(end));
        }
        columns.into_iter().map(Option::unwrap_or_default).collect()
    }
}

/// How it ended, or is now.
fn the_end(bounds: &PeakBounds, tallies: &Tallies, all: &[TimePoint], clock: &Clock) -> TimePoint {
    let last = all.last().map_or(Ticks(0), TimePoint::end);
    let (end, PeakMoment { bytes, blocks, .. }) = (clock.end().max(last), bounds.end);
    TimePoint {
        begin: last,
        looks: 1,
        known: known::TOTALS | known::BLOCKS,
        live_bytes: bytes,
        highest_bytes: bytes,
        highest_blocks: blocks,
        highest_time: end,
        lowest_bytes: bytes,
        allocations: tallies.get(TallyCounter::Allocations),
        frees: tallies.get(TallyCounter::Frees),
        bytes_allocated: tallies.get(TallyCounter::BytesAllocated),
        ..TimePoint::default()
    }
    .with_end(end)
}

/// Whoever looks after the program's end has seen how it ended, and nothing later.
fn cut(point: &mut TimePoint, end: Ticks) {
    point.begin = point.begin.min(end);
    point.highest_time = point.highest_time.min(end);
    *point = point.with_end(point.end().min(end));
}

/// The highest is the peak. Who looks now and then may have missed it.
fn raise_to_peak(all: &mut [TimePoint], peak: &PeakMoment) {
    let PeakMoment { bytes, blocks, time } = *peak;
    if all.iter().any(|point| point.highest_bytes >= bytes) {
        return;
    }
    let peak = TimePoint {
        highest_bytes: bytes,
        highest_blocks: blocks,
        highest_time: time,
        known: known::BLOCKS,
        ..TimePoint::default()
    };
    let place = all.partition_point(|point| point.end() < time);
    let last = all.len().saturating_sub(1);
    if let Some(point) = all.get_mut(place.min(last)) {
        point.raise(&peak);
        point.highest_time = time.clamp(point.begin, point.end());
    }
}

fn shown(point: &TimePoint, clock: &Clock) -> TimelinePoint {
    let ns = |time: Ticks| clock.ns(time).unwrap_or(0);
    let if_known = |what: u16, value: u64| point.knows(what).then_some(value);
    TimelinePoint {
        begin_ns: ns(point.begin),
        end_ns: ns(point.end()),
        seen_by: match point.by {
            by::OUTSIDE => SeenBy::Run,
            0 => SeenBy::Totals,
            _ => SeenBy::Recorder,
        },
        looks: point.looks,
        live_bytes: point.live_bytes,
        live_error_bytes: 0,
        live_blocks: if_known(known::TOTALS, point.allocations.saturating_sub(point.frees)),
        highest_bytes: point.highest_bytes,
        highest_blocks: if_known(known::BLOCKS, point.highest_blocks),
        highest_ns: ns(point.highest_time),
        lowest_bytes: point.lowest_bytes,
        allocations: if_known(known::TOTALS, point.allocations),
        frees: if_known(known::TOTALS, point.frees),
        bytes_allocated: if_known(known::TOTALS, point.bytes_allocated),
        resident_bytes: if_known(known::RESIDENT, point.resident_bytes),
        swapped_bytes: if_known(known::RESIDENT, point.swapped_bytes),
        minor_faults: if_known(known::FAULTS, point.minor_faults),
        major_faults: if_known(known::FAULTS, point.major_faults),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(begin_ns: u64, end_ns: u64, live_bytes: u64, highest: (u64, u64)) -> TimelinePoint {
        let clock = Clock::for_tests();
        let (highest_bytes, highest_ns) = highest;
        let (begin, end) = (Ticks(begin_ns), Ticks(end_ns));
        let point =
            TimePoint { begin, live_bytes, highest_bytes, highest_time: Ticks(highest_ns), ..TimePoint::default() };
        shown(&TimePoint { looks: 1, by: by::OUTSIDE, ..point }.with_end(end), &clock)
    }

    fn timeline(points: Vec<TimelinePoint>) -> HeapTimeline {
        HeapTimeline { points, ..HeapTimeline::default() }
    }

    #[test]
    fn columns_have_the_highest_and_else_how_it_was_before() {
        let with_memory =
            TimelinePoint { resident_bytes: Some(50), swapped_bytes: Some(5), ..point(0, 10, 7, (90, 2)) };
        let timeline = timeline(vec![with_memory, point(10, 100, 20, (20, 100))]);
        let columns = timeline.columns(10);
        let live: Vec<u64> = columns.iter().map(|column| column.live_bytes).collect();
        assert_eq!(live, [90, 7, 7, 7, 7, 7, 7, 7, 7, 20]);
        assert_eq!(columns[1].own_memory_bytes, Some(55));
        assert_eq!(timeline.columns(0), []);
        assert_eq!(HeapTimeline::default().columns(2), [TimelineColumn::default(); 2]);
        let huge =
            HeapTimeline { points: vec![point(0, u64::MAX - 1, 1, (2, u64::MAX - 1))], ..HeapTimeline::default() };
        assert_eq!(huge.columns(3).len(), 3);
    }

    #[test]
    fn where_nobody_looked_it_is_as_before() {
        // The recorder noted nothing more, and `run` first looked late: nothing was freed meanwhile.
        let timeline = timeline(vec![point(0, 25, 7, (9, 12)), point(100, 100, 7, (7, 100))]);
        let live: Vec<u64> = timeline.columns(10).iter().map(|column| column.live_bytes).collect();
        assert_eq!(live, [0, 9, 7, 7, 7, 7, 7, 7, 7, 7]);
    }

    #[test]
    fn what_only_grows_and_is_freed_in_the_end_has_no_dip_before_its_peak() {
        let points = vec![point(0, 40, 10, (10, 20)), point(40, 60, 50, (50, 58)), point(60, 100, 0, (52, 75))];
        let live: Vec<u64> = timeline(points).columns(10).iter().map(|column| column.live_bytes).collect();
        assert_eq!(live, [0, 0, 10, 10, 10, 50, 50, 52, 0, 0], "and nothing lived before the first allocation");
    }

    #[test]
    fn the_first_of_several_highest_is_the_peak() {
        let timeline = timeline(vec![point(0, 1, 5, (5, 1)), point(1, 2, 9, (9, 2)), point(2, 3, 9, (9, 3))]);
        assert_eq!(timeline.peak().map(|peak| peak.highest_ns), Some(2));
        assert_eq!(timeline.most_memory(), None);
        let mut known = timeline.clone();
        known.points[2].highest_blocks = Some(4);
        assert_eq!(known.peak().map(|peak| peak.highest_ns), Some(3), "how many blocks that were is known");
        assert_eq!(HeapTimeline::default().peak(), None);
    }

    #[test]
    fn who_rests_is_not_coarse() {
        let with = |allocations, begin, end| TimelinePoint {
            allocations: Some(allocations),
            frees: Some(0),
            ..point(begin, end, 1, (1, end))
        };
        let points = vec![with(5, 0, 10), with(5, 10, 500), with(9, 500, 530), with(9, 530, 999)];
        assert_eq!(timeline(points).coarsest_ns(), 30);
        assert_eq!(timeline(vec![point(0, 40, 1, (1, 1))]).coarsest_ns(), 40, "nobody knows of any allocation");
    }

    #[test]
    fn parts_are_by_who_looked() {
        let by = |seen_by, begin, end| TimelinePoint { seen_by, ..point(begin, end, 1, (1, end)) };
        let timeline = timeline(vec![
            by(SeenBy::Recorder, 0, 4),
            by(SeenBy::Run, 5, 6),
            by(SeenBy::Run, 6, 9),
            by(SeenBy::Totals, 9, 10),
        ]);
        let parts: Vec<_> = timeline.parts().iter().map(|part| (part.seen_by, part.begin_ns, part.end_ns)).collect();
        assert_eq!(parts, [(SeenBy::Recorder, 0, 4), (SeenBy::Run, 5, 9), (SeenBy::Totals, 9, 10)]);
    }
}
