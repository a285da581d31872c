//! Figures over time, noted now and then by whoever leases numbers: what the ledger has of them where nobody stands beside the process.
//!
//! It is done whenever the recorder measures its own memory, which takes a thousandth of the time at most, or a fiftieth while the ledger grows.
//! Elements are intervals of one width. When there is no room for another, the width doubles, and neighbours are joined in their places:
//! so there is room for a run of any length. A thread that finds another one at it goes on. While intervals are joined, readers may
//! see one and what it was made of; they know by the times. Who is killed then has at most one of them less.
#![forbid(unsafe_code)]

use crate::ledger::{CODEC, Ledger, PAGE_BYTES};
use crate::marks::words_of;
use crate::publication;
use crate::shared::{Shared, TICK_NS};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use heapledger_format::timeline::{TimePoint, WORDS, by, known};
use heapledger_format::{GlobalCounter, SectionKind, TallyCounter, Ticks};

const TICKS_OF_A_MS: u64 = 1_000_000 / TICK_NS as u64;
/// The first width of intervals: a program of a few milliseconds has a curve, too.
const WIDTH: u64 = TICKS_OF_A_MS / 4;
/// With more states of threads, live bytes are taken from the header and totals are left out: to sum them takes too long here.
const STATES_MAX: u64 = 64;
/// Where there is room for fewer, the ledger is so small that it needs it for other things.
const ROOM_MIN: u64 = (PAGE_BYTES / POINT_BYTES) as u64;
/// Bytes of an element.
pub(crate) const POINT_BYTES: usize = WORDS * 8;

/// What is known between two looks.
pub struct TimelineNotes {
    /// A thread is at it; another one goes on.
    is_busy: AtomicBool,
    /// Ticks of an interval; 0: [`WIDTH`].
    width: AtomicU64,
    /// Intervals that there are.
    count: AtomicU64,
    /// The last look, and the peak then.
    last: AtomicU64,
    peak: AtomicU64,
}

impl TimelineNotes {
    /// Nothing was noted.
    pub(crate) const fn new() -> TimelineNotes {
        TimelineNotes {
            is_busy: AtomicBool::new(false),
            width: AtomicU64::new(0),
            count: AtomicU64::new(0),
            last: AtomicU64::new(0),
            peak: AtomicU64::new(0),
        }
    }
}

impl Shared {
    /// Notes how much lives. Whoever measures memory does, now and then and on a stack of its own.
    pub(crate) fn note_figures(&self, now: Ticks) {
        let own = &self.timeline;
        let room = self.ledger().section(SectionKind::Timeline).capacity();
        if room < ROOM_MIN || own.is_busy.swap(true, Ordering::Acquire) {
            return;
        }
        own.add(self.ledger(), &self.look(now));
        own.is_busy.store(false, Ordering::Release);
    }

    /// What there is to see now.
    fn look(&self, now: Ticks) -> TimePoint {
        let (ledger, own) = (self.ledger(), &self.timeline);
        let global = |counter| ledger.global(counter).load(Ordering::Relaxed);
        let has_totals = ledger.section(SectionKind::Tallies).used() <= STATES_MAX;
        // A peak that is read before totals is one of what these count; one that another thread reaches meanwhile belongs to the next look.
        let peak = global(GlobalCounter::PeakBytes);
        let (peak_time, peak_blocks) = (global(GlobalCounter::PeakTime), global(GlobalCounter::PeakBlocks));
        let [allocations, frees, bytes_allocated, bytes_freed] = match has_totals {
            true => {
                use TallyCounter::{Allocations, BytesAllocated, BytesFreed, Frees};
                [Allocations, Frees, BytesAllocated, BytesFreed].map(|counter| ledger.total(counter))
            }
            false => [0; 4],
        };
        let live = if has_totals {
            bytes_allocated.saturating_sub(bytes_freed)
        } else {
            // Threads' own shares may come to more than what was folded in.
            let live = global(GlobalCounter::LiveBytes);
            if (live as i64) < 0 { 0 } else { live }
        };
        // The same after that: what lives is not more, but for what threads have not told yet, of which the header says how much it is
        // at most. What was allocated is summed before what was freed, so that at some moment no less lived than what is noted.
        let highest = global(GlobalCounter::PeakBytes);
        let untold = if has_totals { global(GlobalCounter::PeakError) } else { 0 };
        // Two who measured may come here in another order.
        let now = now.max(Ticks(own.last.load(Ordering::Relaxed)));
        let last = Ticks(own.last.swap(now.0, Ordering::Relaxed));
        let is_raised = own.peak.swap(peak, Ordering::Relaxed) < peak;
        let live = live.min(highest.saturating_add(untold));
        let mut point = TimePoint {
            begin: last,
            looks: 1,
            by: by::RECORDER,
            known: if has_totals { known::TOTALS | known::BLOCKS } else { 0 },
            live_bytes: live,
            highest_bytes: live,
            highest_blocks: allocations.saturating_sub(frees),
            highest_time: now,
            lowest_bytes: live,
            allocations,
            frees,
            bytes_allocated,
            ..TimePoint::default()
        }
        .with_end(now);
        if is_raised {
            let time = peak_time.max(last.0).min(now.0);
            point.raise(&TimePoint {
                highest_bytes: peak,
                highest_blocks: peak_blocks,
                highest_time: Ticks(time),
                known: known::BLOCKS,
                ..TimePoint::default()
            });
        }
        point
    }
}

/// Where intervals lie. Of who is at them.
trait PointPlaces {
    /// The interval in this place.
    fn load(&self, index: u64) -> TimePoint;
    /// Writes it, so that nobody takes a half of it for the whole.
    fn store(&self, index: u64, point: &TimePoint);
    /// The place is vacant.
    fn vacate(&self, index: u64);
    /// Whether there is a place behind so many.
    fn has_place(&self, count: u64) -> bool;
}

impl PointPlaces for Ledger {
    fn load(&self, index: u64) -> TimePoint {
        let mut bytes = [0; POINT_BYTES];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words(self, index)) {
            place.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        }
        TimePoint::read(CODEC, &bytes).unwrap_or_default()
    }

    fn store(&self, index: u64, point: &TimePoint) {
        let mut bytes = [0; POINT_BYTES];
        point.write(CODEC, &mut bytes);
        self.vacate(index);
        publication::publish(words(self, index), 0, &words_of(&bytes));
    }

    fn vacate(&self, index: u64) {
        let [commit, ..] = words(self, index);
        publication::retract(commit);
    }

    fn has_place(&self, count: u64) -> bool {
        // What was joined has left some; a lease of more may be refused.
        count < self.section(SectionKind::Timeline).used()
            || self.lease(SectionKind::Timeline, 1).is_some_and(|place| place == count)
    }
}

fn words(ledger: &Ledger, index: u64) -> &[AtomicU64; WORDS] {
    ledger.section(SectionKind::Timeline).element(index)
}

impl TimelineNotes {
    fn width(&self) -> u64 {
        match self.width.load(Ordering::Relaxed) {
            0 => WIDTH,
            width => width,
        }
    }

    /// Adds what was seen to the last interval, or as a new one.
    fn add(&self, places: &impl PointPlaces, seen: &TimePoint) {
        // Each round halves what there is, about.
        for _ in 0..u64::BITS {
            let (count, width) = (self.count.load(Ordering::Relaxed), Ticks(self.width()));
            if let Some(last) = count.checked_sub(1) {
                let known = places.load(last);
                if known.interval(width) == seen.interval(width) {
                    return places.store(last, &known.joined(seen));
                }
            }
            if places.has_place(count) {
                places.store(count, seen);
                return self.count.store(count.wrapping_add(1), Ordering::Relaxed);
            }
            if count < 2 {
                return;
            }
            self.width.store(width.0.saturating_mul(2), Ordering::Relaxed);
            self.join(places, count);
        }
    }

    /// Joins neighbours that are in one interval by now.
    fn join(&self, places: &impl PointPlaces, count: u64) {
        let (width, mut kept, mut last) = (Ticks(self.width()), 0u64, places.load(0));
        for index in 1..count {
            let next = places.load(index);
            if next.interval(width) == last.interval(width) {
                last = last.joined(&next);
            } else {
                places.store(kept, &last);
                kept = kept.wrapping_add(1);
                last = next;
            }
        }
        places.store(kept, &last);
        kept = kept.wrapping_add(1);
        (kept..count).for_each(|index| places.vacate(index));
        self.count.store(kept, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    /// Between two looks of these tests.
    const LOOK_MAX: u64 = 1000 * TICKS_OF_A_MS;
    use core::cell::RefCell;
    use heapledger_format::bytes::WordSize;
    use std::vec::Vec;

    /// So many places, of which as many were used as ever were.
    struct Few(RefCell<Vec<TimePoint>>, usize);

    impl PointPlaces for Few {
        fn load(&self, index: u64) -> TimePoint {
            let point = self.0.borrow()[index as usize];
            assert_ne!(point.end_plus_1, Ticks(0), "a vacant one");
            point
        }
        fn store(&self, index: u64, point: &TimePoint) {
            self.0.borrow_mut()[index as usize] = *point;
        }
        fn vacate(&self, index: u64) {
            self.0.borrow_mut()[index as usize] = TimePoint::default();
        }
        fn has_place(&self, count: u64) -> bool {
            let mut all = self.0.borrow_mut();
            if count as usize == all.len() && all.len() < self.1 {
                all.push(TimePoint::default());
            }
            (count as usize) < all.len()
        }
    }

    fn seen(begin: u64, now: u64, live: u64) -> TimePoint {
        let point =
            TimePoint { begin: Ticks(begin), looks: 1, by: by::RECORDER, live_bytes: live, ..TimePoint::default() };
        TimePoint { highest_bytes: live, lowest_bytes: live, highest_time: Ticks(now), ..point }.with_end(Ticks(now))
    }

    /// A look each second for so many; which second was the highest, and how that was found.
    fn run(places: usize, seconds: u64, spike: u64) -> (Vec<TimePoint>, u64) {
        let (own, few) = (TimelineNotes::new(), Few(RefCell::default(), places));
        for second in 1..=seconds {
            let at = second * LOOK_MAX;
            let live = if second == spike { 1 << 40 } else { second % 1000 };
            own.add(&few, &seen(at - LOOK_MAX, at, live));
        }
        let count = own.count.load(Ordering::Relaxed) as usize;
        let mut all = few.0.into_inner();
        assert!(all.len() <= places && all[count..].iter().all(|vacant| *vacant == TimePoint::default()));
        all.truncate(count);
        (all, own.width())
    }

    #[test]
    fn a_run_of_any_length_has_room_and_keeps_the_highest() {
        for (places, seconds) in [(2, 9), (3, 1000), (32, 100_000), (1024, 31 * 86_400)] {
            for spike in [1, seconds / 3 + 1, seconds] {
                let (points, width) = run(places, seconds, spike);
                assert!(points.len() <= places && points.len() * 3 >= places, "{} of {places}", points.len());
                let highest = points.iter().max_by_key(|point| point.highest_bytes).expect("one");
                assert_eq!((highest.highest_bytes, highest.highest_time), (1 << 40, Ticks(spike * LOOK_MAX)));
                assert_eq!(points.iter().map(|point| u64::from(point.looks)).sum::<u64>(), seconds);
                assert_eq!((points[0].begin, points[points.len() - 1].end()), (Ticks(0), Ticks(seconds * LOOK_MAX)));
                for pair in points.windows(2) {
                    assert_eq!(pair[0].end(), pair[1].begin, "no gap and no overlap");
                    assert!(pair[0].end().0 - pair[0].begin.0 <= width + LOOK_MAX, "{pair:?}");
                }
            }
        }
    }

    #[test]
    fn who_rests_takes_no_room() {
        let (own, few) = (TimelineNotes::new(), Few(RefCell::default(), 16));
        for (begin, now) in [(0, 1), (1, 2), (2, 5_000_000_000), (5_000_000_000, 5_000_000_001)] {
            own.add(&few, &seen(begin, now, 7));
        }
        let ends: Vec<u64> = few.0.borrow().iter().map(|point| point.end().0).collect();
        assert_eq!((ends, own.width()), (std::vec![2, 5_000_000_001], WIDTH));
    }

    #[test]
    fn an_interval_has_so_many_words_the_first_of_which_is_the_commit_word() {
        assert_eq!(TimePoint::bytes(WordSize::W64), POINT_BYTES);
        assert_eq!(TimePoint::commit_at(WordSize::W64), 0);
        assert!(crate::ledger::is_written(SectionKind::Timeline));
    }
}
