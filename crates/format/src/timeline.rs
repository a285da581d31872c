//! Figures of the process over time: an element for each interval, of which it keeps the highest.

use crate::element::published;
use crate::ids::Ticks;

published! {
    /// An element of `timeline`: what was seen in an interval. Intervals of one who looks do not overlap, but while they are being made longer.
    TimePoint by end_plus_1 {
        /// The last look in it, plus 1; the commit word.
        end_plus_1: Ticks,
        /// When it began: the look before its first.
        begin: Ticks,
        /// How often somebody looked in it.
        looks: u32,
        /// Who looked: one of [`by`].
        by: u16,
        /// What is known beside live bytes: bits of [`known`].
        known: u16,
        /// Live bytes at its last look.
        live_bytes: u64,
        /// The highest that is known of its live bytes, at a look or between two.
        highest_bytes: u64,
        /// Live blocks then.
        highest_blocks: u64,
        /// When that was.
        highest_time: Ticks,
        /// The lowest that was seen.
        lowest_bytes: u64,
        /// Allocations since the ledger began, at the last look.
        allocations: u64,
        /// Frees since then.
        frees: u64,
        /// Bytes asked for in all blocks since then.
        bytes_allocated: u64,
        /// Anonymous memory of the process that is present, less what the recorder uses of it: the most that was seen.
        resident_bytes: u64,
        /// What of it was swapped out: the most that was seen.
        swapped_bytes: u64,
        /// Page faults without reading from a disk since the process began, at the last look.
        minor_faults: u64,
        /// Page faults with it.
        major_faults: u64,
        /// 0.
        more: u64,
    }
}

/// Who looked.
pub mod by {
    /// The recorder itself, when a thread leased numbers: it notes nothing while nothing is allocated or freed.
    pub const RECORDER: u16 = 1;
    /// Who stands beside the process: `run`.
    pub const OUTSIDE: u16 = 2;
}

/// What an element knows beside live bytes. What it does not know is 0 in it.
pub mod known {
    /// Allocations, frees, bytes allocated.
    pub const TOTALS: u16 = 1;
    /// Blocks when live bytes were highest.
    pub const BLOCKS: u16 = 1 << 1;
    /// Memory that is present or swapped out.
    pub const RESIDENT: u16 = 1 << 2;
    /// Page faults.
    pub const FAULTS: u16 = 1 << 3;
}

/// Words of an element: each is 8 bytes on every target.
pub const WORDS: usize = 16;

impl TimePoint {
    /// Whether it knows this: a bit of [`known`].
    pub const fn knows(&self, what: u16) -> bool {
        self.known & what != 0
    }

    /// The last look.
    pub const fn end(&self) -> Ticks {
        Ticks(self.end_plus_1.0.saturating_sub(1))
    }

    /// With this as the last look.
    #[must_use]
    pub const fn with_end(self, end: Ticks) -> TimePoint {
        TimePoint { end_plus_1: Ticks(end.0.saturating_add(1)), ..self }
    }

    /// In which of the intervals of so many ticks, counted from 0, it ends.
    pub fn interval(&self, width: Ticks) -> u64 {
        self.end().0.checked_div(width.0).unwrap_or(0)
    }

    /// Takes over the highest of another one, if that was higher, or as high earlier.
    pub fn raise(&mut self, other: &TimePoint) {
        let is_earlier = other.highest_time < self.highest_time;
        if other.highest_bytes > self.highest_bytes || other.highest_bytes == self.highest_bytes && is_earlier {
            self.take_highest(other);
        }
    }

    fn take_highest(&mut self, other: &TimePoint) {
        self.highest_bytes = other.highest_bytes;
        self.highest_time = other.highest_time;
        self.highest_blocks = other.highest_blocks;
        self.known = self.known & !known::BLOCKS | other.known & known::BLOCKS;
    }

    /// Both as one, of which `later` comes behind this one.
    #[must_use]
    pub fn joined(&self, later: &TimePoint) -> TimePoint {
        let mut both = TimePoint { begin: self.begin, looks: self.looks.saturating_add(later.looks), ..*later };
        both.by = self.by.max(later.by);
        both.lowest_bytes = self.lowest_bytes.min(later.lowest_bytes);
        if self.highest_bytes >= later.highest_bytes {
            both.take_highest(self);
        }
        if !later.knows(known::TOTALS) {
            (both.allocations, both.frees, both.bytes_allocated) = (self.allocations, self.frees, self.bytes_allocated);
        }
        if !later.knows(known::FAULTS) {
            (both.minor_faults, both.major_faults) = (self.minor_faults, self.major_faults);
        }
        both.resident_bytes = self.resident_bytes.max(later.resident_bytes);
        both.swapped_bytes = self.swapped_bytes.max(later.swapped_bytes);
        both.known |= self.known & !known::BLOCKS;
        both
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::{ByteOrder, Codec, WordSize};

    fn point(begin: u64, end: u64, highest: u64) -> TimePoint {
        let point = TimePoint {
            begin: Ticks(begin),
            looks: 1,
            by: by::RECORDER,
            highest_bytes: highest,
            ..TimePoint::default()
        };
        TimePoint { highest_time: Ticks(end), lowest_bytes: highest / 2, live_bytes: highest / 2, ..point }
            .with_end(Ticks(end))
    }

    #[test]
    fn an_element_has_as_many_words_on_every_target() {
        for word in [WordSize::W32, WordSize::W64] {
            assert_eq!(TimePoint::bytes(word), WORDS * 8);
            assert_eq!(TimePoint::commit_at(word), 0);
            for order in [ByteOrder::Little, ByteOrder::Big] {
                let (codec, mut bytes) = (Codec { order, word }, [0; WORDS * 8]);
                let written = TimePoint { major_faults: u64::MAX, known: known::FAULTS, ..point(7, 9, 1 << 40) };
                assert!(written.write(codec, &mut bytes));
                assert_eq!(TimePoint::read(codec, &bytes), Some(written));
                assert!(!written.write(codec, &mut bytes[..WORDS * 8 - 1]), "there is no room for all of it");
            }
        }
    }

    #[test]
    fn two_are_joined_to_one_that_keeps_the_highest() {
        let (first, second) = (point(10, 20, 500), point(20, 30, 90));
        let both = first.joined(&second);
        assert_eq!((both.begin, both.end(), both.looks), (Ticks(10), Ticks(30), 2));
        assert_eq!(
            (both.highest_bytes, both.highest_time, both.lowest_bytes, both.live_bytes),
            (500, Ticks(20), 45, 45)
        );
        let both = point(10, 20, 90).joined(&point(20, 30, 500));
        assert_eq!(
            (both.highest_bytes, both.highest_time, both.lowest_bytes, both.live_bytes),
            (500, Ticks(30), 45, 250)
        );
    }

    #[test]
    fn what_one_knows_both_know() {
        let knows = TimePoint {
            known: 15,
            allocations: 7,
            resident_bytes: 9,
            minor_faults: 3,
            highest_blocks: 4,
            ..point(0, 1, 5)
        };
        let blind = point(1, 2, 5);
        for both in
            [knows.joined(&blind), point(0, 1, 4).joined(&TimePoint { begin: Ticks(1), ..knows.with_end(Ticks(2)) })]
        {
            assert_eq!((both.known, both.allocations, both.resident_bytes, both.minor_faults), (15, 7, 9, 3));
            assert_eq!(both.highest_blocks, 4);
        }
        let higher = knows.joined(&point(1, 2, 6));
        assert_eq!((higher.known, higher.highest_blocks), (15 & !known::BLOCKS, 0), "nobody knows how many these were");
    }

    #[test]
    fn intervals_are_counted_from_the_beginning() {
        assert_eq!(point(0, 0, 1).interval(Ticks(10)), 0);
        assert_eq!(point(0, 9, 1).interval(Ticks(10)), 0);
        assert_eq!(point(0, 10, 1).interval(Ticks(10)), 1);
        assert_eq!(point(0, 10, 1).interval(Ticks(0)), 0, "no division by nothing");
        assert_eq!(point(0, u64::MAX, 1).end(), Ticks(u64::MAX - 1));
    }
}
