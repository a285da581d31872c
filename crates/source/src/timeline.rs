//! Figures of the process over time: read from a ledger, joined from two who looked, and kept to so many.

use heapledger_format::timeline::{TimePoint, by, known};
use heapledger_format::{SectionKind, Ticks};

use crate::SourceError;
use crate::ledger::Ledger;

/// Most intervals that a curve keeps, however long its run was.
pub const POINTS_MAX: usize = 2000;
/// The first width of intervals, in nanoseconds: that of the recorder.
const WIDTH_NS: u64 = 250_000;
/// Most rows that are read.
const ROWS_MAX: u64 = 1 << 16;
/// How often a section is read that changes.
const LOOKS: usize = 3;

/// A curve that grows, and becomes coarser as it does: intervals of one width, which doubles when there are too many.
#[derive(Clone, Debug)]
pub struct Curve {
    points: Vec<TimePoint>,
    width: Ticks,
    most: usize,
}

impl Curve {
    /// One without points, in ticks of so many nanoseconds, of [`POINTS_MAX`] intervals at most, of 250 µs at first.
    pub fn new(tick_ns: u32) -> Curve {
        let width = WIDTH_NS.checked_div(u64::from(tick_ns)).unwrap_or(1).max(1);
        Curve { points: Vec::new(), width: Ticks(width), most: POINTS_MAX }
    }

    /// Adds what was seen last.
    pub fn add(&mut self, seen: TimePoint) {
        match self.points.last_mut() {
            Some(last) if last.interval(self.width) == seen.interval(self.width) => *last = last.joined(&seen),
            _ => self.points.push(seen),
        }
        while self.points.len() > self.most.max(1) {
            self.width = Ticks(self.width.0.saturating_mul(2));
            let width = self.width;
            let mut joined: Vec<TimePoint> = Vec::with_capacity(self.points.len() / 2 + 1);
            for point in self.points.drain(..) {
                match joined.last_mut() {
                    Some(last) if last.interval(width) == point.interval(width) || width.0 == u64::MAX => {
                        *last = last.joined(&point);
                    }
                    _ => joined.push(point),
                }
            }
            self.points = joined;
        }
    }

    /// Ticks of an interval now.
    pub fn width(&self) -> Ticks {
        self.width
    }

    /// The intervals, in order.
    pub fn points(&self) -> &[TimePoint] {
        &self.points
    }
}

/// In order and without an overlap. One that lies within another is part of it; where a ledger says something impossible, it is
/// left out. Also how many were.
fn tiled(mut points: Vec<TimePoint>) -> (Vec<TimePoint>, u64) {
    let all = points.len();
    points.retain(|point| point.begin <= point.end() && point.looks != 0);
    let wrong = (all - points.len()) as u64;
    points.sort_by_key(|point| (point.begin, std::cmp::Reverse(point.end())));
    let mut tiled: Vec<TimePoint> = Vec::with_capacity(points.len());
    for mut point in points {
        point.highest_bytes = point.highest_bytes.max(point.live_bytes);
        point.lowest_bytes = point.lowest_bytes.min(point.live_bytes);
        point.highest_time = point.highest_time.clamp(point.begin, point.end());
        match tiled.last_mut() {
            Some(last) if point.end() <= last.end() => {
                // What was cut may begin later than this one.
                point.highest_time = point.highest_time.clamp(last.begin, last.end());
                last.raise(&point);
            }
            Some(last) if point.begin < last.end() => {
                point.begin = last.end();
                point.highest_time = point.highest_time.max(point.begin);
                tiled.push(point);
            }
            _ => tiled.push(point),
        }
    }
    (tiled, wrong)
}

/// What the recorder noted, where somebody stood beside it: from before and after that, and what it knows higher.
fn around(own: Vec<TimePoint>, outside: Vec<TimePoint>) -> Vec<TimePoint> {
    let Some((first, last)) = outside.first().map(|point| point.begin).zip(outside.last().map(TimePoint::end)) else {
        return own;
    };
    let mut middle = outside;
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for point in own {
        let place = middle.partition_point(|known| known.end() < point.highest_time);
        if let Some(known) = middle.get_mut(place).filter(|known| known.begin <= point.highest_time) {
            known.raise(&point);
        }
        if point.end() <= first {
            before.push(point);
        } else if point.begin < first
            && let Some(known) = middle.first_mut()
        {
            // What lived at its end is nothing that was seen before that: what is known of its beginning is part of the next.
            known.begin = known.begin.min(point.begin);
            if point.highest_time < first {
                known.raise(&point);
            }
        }
        if point.end() > last {
            after.push(behind(&point, last));
        }
    }
    before.append(&mut middle);
    before.append(&mut after);
    before
}

/// What the end of an interval knows of the part behind this moment: the highest may be in the other part, and so may the lowest.
fn behind(point: &TimePoint, moment: Ticks) -> TimePoint {
    let part = TimePoint { begin: point.begin.max(moment), ..*point };
    if point.begin >= moment {
        return part;
    }
    let lowest_bytes = part.live_bytes;
    if (part.begin..=part.end()).contains(&part.highest_time) {
        return TimePoint { lowest_bytes, ..part };
    }
    let known = part.known & !known::BLOCKS;
    TimePoint { highest_bytes: part.live_bytes, highest_time: part.end(), lowest_bytes, known, ..part }
}

/// More than was allocated by the end of an interval lived in none of it: it is of a later one. Who looks reads one figure after the other, and
/// clocks of two who look are not the same.
fn with_what_was_allocated(mut points: Vec<TimePoint>) -> Vec<TimePoint> {
    let mut early: Option<TimePoint> = None;
    let last = points.len().saturating_sub(1);
    for (index, point) in points.iter_mut().enumerate() {
        if let Some(early) = early.take().filter(|early| early.highest_bytes > point.highest_bytes) {
            let highest_time = early.highest_time.clamp(point.begin, point.end());
            point.raise(&TimePoint { highest_time, ..early });
        }
        if point.knows(known::TOTALS) && point.highest_bytes > point.bytes_allocated && index != last {
            early = Some(*point);
            (point.highest_bytes, point.highest_time) = (point.live_bytes, point.end());
            point.highest_blocks = point.allocations.saturating_sub(point.frees);
            point.known |= known::BLOCKS;
        }
    }
    points
}

impl Ledger {
    /// Whether figures over time were noted.
    pub fn has_timeline(&self) -> bool {
        self.header().section(SectionKind::Timeline).is_some()
    }

    /// Figures over time, in order, intervals without an overlap. Empty if none were noted.
    ///
    /// # Errors
    /// If the file can no longer be read.
    pub fn timeline(&self) -> Result<Vec<TimePoint>, SourceError> {
        let mut looks: Vec<Vec<Option<TimePoint>>> = Vec::new();
        let codec = self.header().codec;
        let bytes = TimePoint::bytes(codec.word);
        // Intervals are made longer and joined while their program runs: what counts is the same before and after.
        for _ in 0..if self.is_finished() { 1 } else { LOOKS } {
            let mut look = Vec::new();
            self.each_row(SectionKind::Timeline, bytes, ROWS_MAX, &mut |_, element| {
                look.push(TimePoint::read(codec, element));
                Ok(())
            })?;
            looks.push(look);
        }
        let commit =
            |look: &[Option<TimePoint>], row: usize| look.get(row).copied().flatten().map(|point| point.end_plus_1);
        let is_same = |row: usize| {
            looks.windows(2).all(|pair| matches!(pair, [one, other] if commit(one, row) == commit(other, row)))
        };
        let middle = looks.get(looks.len() / 2).map_or(&[][..], Vec::as_slice);
        let points = middle.iter().enumerate().filter(|(row, _)| is_same(*row)).filter_map(|(_, point)| *point);
        let (outside, own): (Vec<TimePoint>, Vec<TimePoint>) = points.partition(|point| point.by == by::OUTSIDE);
        let (own, own_wrong) = tiled(own);
        let (outside, outside_wrong) = tiled(outside);
        self.count_wrong(own_wrong.saturating_add(outside_wrong));
        Ok(with_what_was_allocated(around(own, outside)))
    }

    /// The same together with what somebody saw who stood beside its process, not more than [`POINTS_MAX`].
    pub(crate) fn timeline_with(&self, outside: &[TimePoint]) -> Result<Vec<TimePoint>, SourceError> {
        let all = around(self.timeline()?, outside.to_vec());
        let mut curve = Curve::new(self.header().tick_ns);
        all.into_iter().for_each(|point| curve.add(point));
        Ok(curve.points)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(by: u16, begin: u64, end: u64, highest: (u64, u64)) -> TimePoint {
        let point =
            TimePoint { by, begin: Ticks(begin), looks: 1, live_bytes: 10, lowest_bytes: 10, ..TimePoint::default() };
        TimePoint { highest_bytes: highest.0, highest_time: Ticks(highest.1), ..point }.with_end(Ticks(end))
    }

    fn short(points: &[TimePoint]) -> Vec<(u64, u64, u64)> {
        points.iter().map(|point| (point.begin.0, point.end().0, point.highest_bytes)).collect()
    }

    #[test]
    fn a_month_has_so_many_points_and_its_peak() {
        // A fake clock: a look each 10 ms at first, each second in the end, as `run` looks.
        let (mut curve, mut now, month) = (Curve::new(1000), 0u64, 31 * 86_400 * 1_000_000u64);
        let (spike, mut looks) = (month / 3, 0u64);
        while now < month {
            let next = now + curve.width().0.min(1_000_000);
            let is_spike = (now..next).contains(&spike);
            curve.add(point(by::OUTSIDE, now, next, if is_spike { (1 << 40, spike) } else { (10 + next % 7, next) }));
            (now, looks) = (next, looks + 1);
        }
        let points = curve.points();
        assert!(points.len() <= POINTS_MAX && points.len() > POINTS_MAX / 3, "{}", points.len());
        assert_eq!(points.iter().map(|point| u64::from(point.looks)).sum::<u64>(), looks);
        assert_eq!((points[0].begin.0, points[points.len() - 1].end().0), (0, now));
        assert!(points.windows(2).all(|pair| pair[0].end() == pair[1].begin));
        let highest: Vec<&TimePoint> = points.iter().filter(|point| point.highest_bytes == 1 << 40).collect();
        assert_eq!(highest.len(), 1);
        assert_eq!(highest[0].highest_time, Ticks(spike));
    }

    #[test]
    fn strange_ticks_are_no_endless_loop() {
        for tick_ns in [0, 1, u32::MAX] {
            let mut curve = Curve { most: 2, ..Curve::new(tick_ns) };
            for at in [0, 1, 5, u64::MAX / 2, u64::MAX - 2] {
                curve.add(point(by::OUTSIDE, at, at, (11, at)));
            }
            assert!((1..=2).contains(&curve.points().len()));
        }
    }

    #[test]
    fn what_overlaps_is_part_of_the_longer_one_or_cut() {
        let own = |begin, end, highest| point(by::RECORDER, begin, end, highest);
        // As it is while intervals are joined: the first two are in the third already.
        let (points, wrong) =
            tiled(vec![own(10, 20, (90, 15)), own(20, 30, (50, 30)), own(10, 30, (90, 15)), own(30, 40, (20, 31))]);
        assert_eq!((short(&points), wrong), (vec![(10, 30, 90), (30, 40, 20)], 0));
        // Impossible ones.
        let (points, wrong) = tiled(vec![
            own(9, 3, (1, 1)),
            TimePoint { looks: 0, ..own(0, 1, (2, 1)) },
            own(0, 10, (5, 99)),
            own(5, 20, (70, 6)),
        ]);
        assert_eq!((short(&points), wrong), (vec![(0, 10, 10), (10, 20, 70)], 2));
        assert!(points.iter().all(|point| point.begin <= point.highest_time && point.highest_time <= point.end()));
    }

    #[test]
    fn two_who_looked_give_one_curve() {
        let own = |begin, end, highest| point(by::RECORDER, begin, end, highest);
        let outside = |begin, end, highest| point(by::OUTSIDE, begin, end, highest);
        let curve = around(
            vec![
                own(0, 8, (40, 4)),
                own(8, 14, (60, 12)),
                own(14, 22, (99, 21)),
                own(22, 47, (77, 31)),
                own(47, 60, (33, 50)),
            ],
            vec![outside(10, 20, (15, 20)), outside(20, 30, (16, 30)), outside(30, 40, (17, 40))],
        );
        let expected = vec![(0, 8, 40), (8, 20, 60), (20, 30, 99), (30, 40, 77), (40, 47, 10), (47, 60, 33)];
        assert_eq!(short(&curve), expected);
        let only = vec![own(0, 8, (40, 4))];
        assert_eq!(around(only.clone(), Vec::new()), only);
        assert_eq!(around(Vec::new(), only.clone()), only);
    }

    #[test]
    fn what_lived_later_is_not_seen_in_an_interval_that_is_cut() {
        // 8 MiB lived from 7 to 30, 1 MiB from 40 on; the recorder noted nothing in between, and somebody looked from 9 to 38.
        let seen = |by, begin, end, live, allocations| TimePoint {
            live_bytes: live,
            lowest_bytes: live,
            allocations,
            bytes_allocated: [0, 8 << 20, 9 << 20][allocations as usize],
            known: known::TOTALS,
            ..point(by, begin, end, (live, end))
        };
        let outside = vec![seen(by::OUTSIDE, 9, 22, 8 << 20, 1), seen(by::OUTSIDE, 22, 38, 0, 1)];
        let own = TimePoint { highest_bytes: 8 << 20, highest_time: Ticks(7), ..seen(by::RECORDER, 6, 40, 1 << 20, 2) };
        let curve = around(vec![seen(by::RECORDER, 0, 6, 0, 0), own], outside);
        let lows: Vec<_> = curve.iter().map(|point| (point.begin.0, point.lowest_bytes, point.highest_bytes)).collect();
        assert_eq!(lows, [(0, 0, 0), (6, 8 << 20, 8 << 20), (22, 0, 0), (38, 1 << 20, 1 << 20)]);
    }

    #[test]
    fn nothing_lived_before_it_was_allocated() {
        let seen = |begin, end, highest, allocated| TimePoint {
            bytes_allocated: allocated,
            known: known::TOTALS,
            allocations: 5,
            ..point(by::OUTSIDE, begin, end, highest)
        };
        let moved = with_what_was_allocated(vec![
            seen(0, 10, (500, 9), 40),
            seen(10, 20, (450, 19), 600),
            seen(20, 30, (10, 30), 700),
        ]);
        let highest: Vec<_> = moved.iter().map(|point| (point.highest_bytes, point.highest_time.0)).collect();
        assert_eq!(highest, [(10, 10), (500, 10), (10, 30)]);
        assert_eq!((moved[0].highest_blocks, moved[0].knows(known::BLOCKS)), (5, true));
        let last = with_what_was_allocated(vec![seen(0, 10, (500, 9), 40)]);
        assert_eq!(last[0].highest_bytes, 500, "there is no other place for it");
    }
}
