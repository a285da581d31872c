//! The highest that live bytes were, and by how much that may be off: one answer for every report.
//!
//! The header has the highest that threads have told of together; each keeps so much to itself before it tells. So there may have been more
//! or less, by an error that the header has, too. What threads have counted is exact: what lives, or lived when somebody looked, was never
//! more than the peak, and nobody held what was never allocated. Where that is higher than what was told, it is the peak that is known.

use std::cmp::Reverse;

use heapledger_format::record::Options;
use heapledger_format::timeline::{TimePoint, known};
use heapledger_format::{GlobalCounter, Header, TallyCounter, Ticks};
use heapledger_source::{Ledger, SourceError, Tallies};

use crate::clock::Clock;

/// The highest that live bytes were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peak {
    /// Bytes asked for.
    pub bytes: u64,
    /// Blocks at that time.
    pub blocks: u64,
    /// When, in nanoseconds since the ledger began.
    pub time_ns: Option<u64>,
    /// By how much `bytes` may be off.
    pub error_bytes: u64,
}

impl Peak {
    /// That of a ledger.
    ///
    /// # Errors
    /// If it can no longer be read.
    pub fn of(ledger: &Ledger, clock: &Clock) -> Result<Peak, SourceError> {
        Ok(PeakBounds::of(ledger)?.peak(clock))
    }

    /// When that was of which sums by call site tell, in nanoseconds since the ledger began: the peak that threads have told of, or since when
    /// it has been as in the end.
    ///
    /// # Errors
    /// If the ledger can no longer be read.
    pub fn summed_ns(ledger: &Ledger, clock: &Clock) -> Result<Option<u64>, SourceError> {
        let bounds = PeakBounds::of(ledger)?;
        let time = if bounds.is_end { bounds.highest.time } else { bounds.told };
        Ok(clock.ns(time).filter(|_| time != Ticks(0)))
    }

    /// Whether its figures are known exactly. They are not once several threads have allocated: each keeps up to so many
    /// bytes and blocks back before it adds them to the process's.
    pub fn is_exact(&self) -> bool {
        self.error_bytes == 0
    }
}

/// A moment of which it is known how much lived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PeakMoment {
    pub(crate) bytes: u64,
    pub(crate) blocks: u64,
    pub(crate) time: Ticks,
}

/// The peak in ticks, and between what it lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PeakBounds {
    /// The highest that is known.
    pub(crate) highest: PeakMoment,
    /// What lives now, or at the end.
    pub(crate) end: PeakMoment,
    /// As much lives now, or at the end, as is known of the peak, and what lived when threads told of that is known less well.
    pub(crate) is_end: bool,
    /// When that was of which the header tells.
    told: Ticks,
    /// By how much what threads have told may be off, and less than was ever allocated.
    told_error: u64,
    least: u64,
    most: u64,
    has_time: bool,
}

impl PeakBounds {
    pub(crate) fn of(ledger: &Ledger) -> Result<PeakBounds, SourceError> {
        // What a program that runs has told is read after what its threads have counted: what lived then is not more.
        let (points, tallies) = (ledger.timeline()?, ledger.tallies()?);
        Ok(PeakBounds::from(&points, &tallies, &ledger.current_header()?))
    }

    /// From what was noted over time, and from what threads had counted after that.
    pub(crate) fn from(points: &[TimePoint], tallies: &Tallies, header: &Header) -> PeakBounds {
        let global = |counter| header.global(counter);
        let told = PeakMoment {
            bytes: global(GlobalCounter::PeakBytes),
            blocks: global(GlobalCounter::PeakBlocks),
            time: Ticks(global(GlobalCounter::PeakTime)),
        };
        let error = global(GlobalCounter::PeakError);
        let allocated = tallies.get(TallyCounter::BytesAllocated);
        let most = told.bytes.saturating_add(error);
        let end = PeakMoment {
            bytes: allocated.saturating_sub(tallies.get(TallyCounter::BytesFreed)).min(most),
            blocks: tallies.get(TallyCounter::Allocations).saturating_sub(tallies.get(TallyCounter::Frees)),
            time: Ticks(global(GlobalCounter::LastTime)),
        };
        // Without totals there is only what was told.
        let counted = points.iter().filter(|point| point.knows(known::TOTALS));
        let high = counted.clone().filter(|seen| seen.highest_bytes > told.bytes && seen.highest_bytes <= most);
        // What was cut where somebody else began to look seems as high as what followed, and does not know of how many blocks.
        let order = |seen: &&TimePoint| (Reverse(seen.highest_bytes), !seen.knows(known::BLOCKS), seen.highest_time);
        let high = high.min_by_key(order);
        let seen = high.map(seen_highest).unwrap_or_default();
        let highest = if told.bytes >= seen.bytes.max(end.bytes) {
            PeakMoment { blocks: blocks_of(&told, error, &end, counted.clone()), ..told }
        } else if end.bytes >= seen.bytes {
            // Whoever looked came later than what he saw.
            let is_seen = end.bytes == seen.bytes && high.is_some_and(|seen| seen.knows(known::BLOCKS));
            PeakMoment { time: if is_seen { seen.time.min(end.time) } else { end.time }, ..end }
        } else {
            seen
        };
        let lived = counted.map(|point| point.live_bytes).max().unwrap_or(0).min(most);
        PeakBounds {
            highest,
            end,
            is_end: error != 0 && end.bytes >= told.bytes.max(seen.bytes) && end.bytes != 0,
            told: told.time,
            told_error: error.min(allocated),
            least: told.bytes.saturating_sub(error).max(end.bytes).max(seen.bytes).max(lived),
            most: most.min(allocated).max(highest.bytes),
            has_time: header.options.has(Options::TIME),
        }
    }

    /// Where records say that more lives than threads have counted, it is that.
    #[must_use]
    pub(crate) fn with_live(self, live: PeakMoment) -> PeakBounds {
        let highest = if live.bytes > self.highest.bytes { live } else { self.highest };
        PeakBounds { highest, least: self.least.max(live.bytes), most: self.most.max(live.bytes), ..self }
    }

    /// By how much figures of the peak may be off: one for the whole and for its sums by call site, which are cut where threads have told.
    pub(crate) fn error(&self) -> u64 {
        if self.is_end { self.error_of(self.end.bytes) } else { self.told_error.max(self.error_of(self.highest.bytes)) }
    }

    /// By how much it is off at most, if it is said to be so much.
    fn error_of(&self, bytes: u64) -> u64 {
        self.most.saturating_sub(bytes).max(bytes.saturating_sub(self.least))
    }

    pub(crate) fn peak(&self, clock: &Clock) -> Peak {
        let PeakMoment { bytes, blocks, time } = self.highest;
        let time_ns = clock.ns(time).filter(|_| self.has_time && bytes != 0);
        Peak { bytes, blocks, time_ns, error_bytes: self.error() }
    }
}

/// Blocks of several threads that told of so many bytes: they may lag more than these, so those count that were there when as much lived.
fn blocks_of<'p>(
    told: &PeakMoment,
    error: u64,
    end: &PeakMoment,
    mut counted: impl Iterator<Item = &'p TimePoint>,
) -> u64 {
    if told.bytes == 0 {
        // Blocks of no bytes raise no peak.
        told.blocks.max(end.blocks)
    } else if error == 0 {
        told.blocks
    } else if end.bytes == told.bytes {
        end.blocks
    } else {
        let same = counted.find(|point| point.live_bytes == told.bytes);
        same.map_or(told.blocks, |point| point.allocations.saturating_sub(point.frees))
    }
}

fn seen_highest(point: &TimePoint) -> PeakMoment {
    let blocks = match point.knows(known::BLOCKS) {
        true => point.highest_blocks,
        false => point.allocations.saturating_sub(point.frees),
    };
    PeakMoment { bytes: point.highest_bytes, blocks, time: point.highest_time }
}
