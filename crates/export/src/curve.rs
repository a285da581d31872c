//! How much was held over the run, as points: what the ledger has noted over time, and the moments of which its sums tell exactly.

use heapledger_analysis::HeapTimeline;
use heapledger_analysis::tree::Side;

use crate::profile::{Profile, TimePoint};

impl Profile {
    /// The points, in order of time: the begin, the peak if it is known, and the end, and between them what was noted.
    pub(crate) fn curve(&self, noted: &HeapTimeline) -> Vec<TimePoint> {
        let Some(span) = self.about.span_ns else { return Vec::new() };
        let total = self.total(Side::New);
        let at = |ns, live_bytes| TimePoint { ns, live_bytes, own_memory_bytes: None };
        let peak_ns = self.about.peak_ns.filter(|ns| self.about.known.peak && *ns <= span);
        let peak = peak_ns.map(|ns| at(ns, total.peak_bytes));
        let mut points = vec![at(0, 0)];
        for interval in &noted.points {
            let highest = at(interval.highest_ns, interval.highest_bytes);
            let own_memory_bytes = interval.own_memory_bytes();
            let end = TimePoint { own_memory_bytes, ..at(interval.end_ns, interval.live_bytes) };
            // The peak is told by sums; where it was within an interval is known better there.
            let is_higher = highest.live_bytes > end.live_bytes
                && (interval.begin_ns..interval.end_ns).contains(&highest.ns)
                && peak.is_none_or(|peak| highest.live_bytes < peak.live_bytes);
            points.extend(is_higher.then_some(highest));
            points.push(end);
        }
        points.retain(|point| point.ns < span && Some(point.ns) != peak_ns);
        points.extend(peak.into_iter().chain([at(span, total.live_bytes)]));
        points.sort_by_key(|point| point.ns);
        points.dedup_by(|later, earlier| {
            let is_same = later.ns == earlier.ns && peak_ns != Some(later.ns);
            if is_same {
                earlier.live_bytes = later.live_bytes;
                earlier.own_memory_bytes = earlier.own_memory_bytes.max(later.own_memory_bytes);
            }
            is_same
        });
        points
    }

    /// So many points at most, but for the first, the peak and the last, which stay: of each part of the time the highest.
    pub(crate) fn thinned(&self, most: usize) -> Vec<TimePoint> {
        let all = &self.points;
        if all.len() <= most {
            return all.clone();
        }
        let span = u128::from(all.last().map_or(0, |last| last.ns)) + 1;
        // What stays is beside its part, and the peak may cut one in two.
        let parts = most.saturating_sub(4).max(1);
        let part = |point: &TimePoint| u128::from(point.ns) * parts as u128 / span;
        let stays = |index: usize| index == 0 || index + 1 == all.len() || Some(all[index].ns) == self.about.peak_ns;
        let mut kept: Vec<usize> = Vec::new();
        for index in 0..all.len() {
            match kept.last().copied() {
                Some(last) if !stays(index) && !stays(last) && part(&all[last]) == part(&all[index]) => {
                    if all[index].live_bytes > all[last].live_bytes {
                        kept.pop();
                        kept.push(index);
                    }
                }
                _ => kept.push(index),
            }
        }
        kept.into_iter().map(|index| all[index]).collect()
    }
}

/// What is to be said of a curve.
pub(crate) fn remarks(profile: &Profile) -> Vec<String> {
    let about = &profile.about;
    let is_some = about.filter.is_some() && !about.is_comparison();
    is_some
        .then(|| {
            "over time it is known how much all blocks were: of some of them the file has the end alone".to_owned()
        })
        .into_iter()
        .collect()
}

#[cfg(test)]
mod tests {
    use heapledger_analysis::TimelinePoint;
    use heapledger_analysis::tree::Amounts;

    use super::*;
    use crate::about::{KnownFigures, ProfileAbout};
    use crate::profile::TextId;

    const SPAN: u64 = 1_000_000_000;

    fn noted(begin_ns: u64, end_ns: u64, live_bytes: u64, highest: (u64, u64)) -> TimelinePoint {
        TimelinePoint {
            begin_ns,
            end_ns,
            looks: 1,
            live_bytes,
            highest_bytes: highest.1,
            highest_ns: highest.0,
            resident_bytes: Some(live_bytes * 2),
            swapped_bytes: Some(1),
            ..TimelinePoint::default()
        }
    }

    fn profile(peak_ns: u64) -> Profile {
        let known = KnownFigures { peak: true, ..KnownFigures::default() };
        let about = ProfileAbout { span_ns: Some(SPAN), peak_ns: Some(peak_ns), known, ..ProfileAbout::default() };
        let mut profile = Profile::new(about);
        let own = Amounts { live_bytes: 7, peak_bytes: 900, ..Amounts::default() };
        profile.add(0, TextId::default(), Side::New, own);
        profile
    }

    #[test]
    fn a_curve_has_what_was_noted_and_exactly_one_peak() {
        let points = vec![
            noted(0, 100, 40, (60, 70)),
            // The same as what sums tell, at another moment of the interval.
            noted(100, 200, 50, (150, 900)),
            noted(200, 300, 60, (300, 60)),
            noted(300, SPAN, 8, (SPAN, 8)),
        ];
        let noted = HeapTimeline::new(points);
        let curve = profile(160).curve(&noted);
        let shown: Vec<_> = curve.iter().map(|point| (point.ns, point.live_bytes)).collect();
        assert_eq!(shown, [(0, 0), (60, 70), (100, 40), (160, 900), (200, 50), (300, 60), (SPAN, 7)]);
        assert_eq!(curve[2].own_memory_bytes, Some(81));
    }

    #[test]
    fn where_nothing_was_noted_there_are_begin_peak_and_end() {
        let curve = profile(160).curve(&HeapTimeline::default());
        let shown: Vec<_> = curve.iter().map(|point| (point.ns, point.live_bytes)).collect();
        assert_eq!(shown, [(0, 0), (160, 900), (SPAN, 7)]);
        let at_the_end = profile(SPAN).curve(&HeapTimeline::default());
        let shown: Vec<_> = at_the_end.iter().map(|point| (point.ns, point.live_bytes)).collect();
        assert_eq!(shown, [(0, 0), (SPAN, 900), (SPAN, 7)]);
    }

    #[test]
    fn of_many_points_the_highest_of_each_part_are_kept() {
        let step = SPAN / 4000;
        let points = (0..4000).map(|at| {
            let bytes = 10 + at * 7919 % 500;
            noted(at * step, (at + 1) * step, bytes, ((at + 1) * step, bytes))
        });
        let timeline = HeapTimeline::new(points.collect());
        let mut profile = profile(2001 * step + 3);
        profile.points = profile.curve(&timeline);
        let kept = profile.thinned(100);
        assert!((90..=100).contains(&kept.len()), "{}", kept.len());
        assert!(kept.is_sorted_by_key(|point| point.ns));
        assert_eq!((kept[0].ns, kept[kept.len() - 1].ns), (0, SPAN));
        assert!(kept.iter().any(|point| point.live_bytes == 900));
        let highest = |points: &[TimePoint]| {
            let early = points.iter().filter(|point| point.ns < SPAN / 2).map(|point| point.live_bytes);
            early.max()
        };
        assert_eq!(highest(&kept), highest(&profile.points));
    }
}
