//! What a ledger says of the figures that have limits, and how far it can be believed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use heapledger_format::{Entry, FreedEntry, TallyCounter};
use heapledger_source::{Damage, Ledger, SourceError};

use super::range::{Doubt, Off, Range};
use super::{Figure, Leaked, MatchingBlocks};
use crate::fold::{Act, Element, Fold, fold};
use crate::{Estimate, Note, Sampled, SiteTotals, Summary, is_wrong};

/// Standard errors that an estimate is believed to be off at most.
const ERRORS: f64 = 2.0;
/// Most blocks whose sizes are kept to know the largest; where more are in doubt, all are.
const LARGEST_MAX: u64 = 1 << 16;

/// The figures of one ledger.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// The totals, of all blocks and with all call sites.
    pub summary: Summary,
    /// The live blocks that are meant, if not all are.
    pub held: Option<MatchingBlocks>,
    /// Errors that were found, calls that gave no block apart.
    errors: u64,
    /// What was not seen and counts: none of it, if losses are allowed.
    unseen: Vec<Note>,
    allow_losses: bool,
    /// Bytes of the so many largest blocks that live.
    largest: Largest,
    /// Of samples: the variance of a number of blocks, for each of them.
    variance: f64,
}

impl Evidence {
    /// `held` are the live blocks that are meant, if not all are. `summary` has all call sites.
    ///
    /// # Errors
    /// If the ledger can no longer be read.
    pub fn of(
        ledger: &Ledger,
        summary: Summary,
        held: Option<MatchingBlocks>,
        allow_losses: bool,
    ) -> Result<Evidence, SourceError> {
        let unseen = if allow_losses { Vec::new() } else { unseen(&summary) };
        let named = held.as_ref().is_some_and(|held| held.by_name);
        let doubtful = |note| if named { doubtful_names(note) } else { 0 }.max(doubtful_blocks(note));
        let doubtful = unseen.iter().map(doubtful).max().unwrap_or(0);
        let largest = Largest::of(ledger, doubtful)?;
        let variance = if summary.sampled.is_some() { variance(ledger)? } else { None };
        let variance = variance.unwrap_or_else(|| typical_weight(&summary));
        let errors = ledger.errors()?.iter().filter(|found| is_wrong(&found.entry)).count() as u64;
        Ok(Evidence { summary, held, errors, unseen, allow_losses, largest, variance })
    }

    /// So many errors are excused.
    pub fn excuse_errors(&mut self, number: u64) {
        self.errors = self.errors.saturating_sub(number);
    }

    /// Takes over what of `ledger` has been found damaged by now.
    pub fn renew_damage(&mut self, ledger: &Ledger) {
        self.summary.seen.renew_damage(ledger);
        if !self.allow_losses {
            self.unseen = unseen(&self.summary);
        }
    }

    /// Live blocks that are meant, and their bytes.
    pub fn live(&self) -> (u64, u64) {
        match &self.held {
            Some(held) => (held.blocks, held.bytes),
            None => (self.summary.live_blocks, self.summary.live_bytes),
        }
    }

    /// The call sites that hold them, most bytes first.
    pub fn sites(&self) -> &[SiteTotals] {
        self.held.as_ref().map_or(&self.summary.sites.top, |held| &held.sites)
    }

    pub(super) fn range(&self, figure: Figure) -> Range {
        let summary = &self.summary;
        let (blocks, bytes) = self.live();
        let mut range = Range::of(match figure {
            Figure::Live | Figure::LiveGrowth | Figure::Leaked => bytes,
            Figure::LiveBlocks => blocks,
            Figure::Peak | Figure::PeakGrowth => summary.peak.bytes,
            Figure::Allocations => summary.allocations,
            Figure::Allocated => summary.bytes_allocated,
            Figure::Errors => self.errors,
        });
        self.doubt(&mut range, figure);
        match figure {
            Figure::Peak | Figure::PeakGrowth => {
                let error = summary.peak.error_bytes;
                range.add(&Doubt::PeakError, [Off::By(error), Off::By(error)]);
                if summary.sampled.is_none() {
                    // What lives now was live at the peak or is it; and nobody holds what was not allocated.
                    let mut live = Range::of(summary.live_bytes);
                    self.doubt(&mut live, Figure::Live);
                    range.within(live.least(), self.range(Figure::Allocated).most());
                }
            }
            Figure::Live | Figure::LiveGrowth | Figure::LiveBlocks => self.doubt_names(&mut range, figure),
            Figure::Leaked | Figure::Allocations | Figure::Allocated | Figure::Errors => {}
        }
        range
    }

    /// That of the blocks which were not freed, as [`Figure::Live`] or [`Figure::LiveBlocks`]. `others`: blocks that may be excused, for nobody
    /// knows their stacks.
    pub(super) fn range_of_leaked(&self, leaked: &Leaked, figure: Figure) -> Range {
        let mut range = Range::of(if figure.is_bytes() { leaked.bytes } else { leaked.blocks });
        self.doubt(&mut range, figure);
        self.doubt_names(&mut range, figure);
        let (blocks, bytes) = leaked.without_stack;
        range.below.add(&Doubt::WithoutStack { blocks }, Off::By(if figure.is_bytes() { bytes } else { blocks }));
        range
    }

    /// What chance and losses do to a figure.
    fn doubt(&self, range: &mut Range, figure: Figure) {
        if figure == Figure::Errors {
            use TallyCounter::{ErrorsLost, ErrorsUnrecorded, GuardedUnseen};
            // Those that were found, as they are; of blocks that were not seen nothing is found, and that is no doubt.
            for note in &self.unseen {
                let more = match note {
                    Note::Loss(ErrorsLost | ErrorsUnrecorded | GuardedUnseen, number) => Off::By(*number),
                    Note::Damage(_) => Off::Unknown,
                    _ => Off::Not,
                };
                range.add(&Doubt::Unseen(note.clone()), [Off::Not, more]);
            }
            return;
        }
        if let Some(Sampled { interval_bytes, .. }) = self.summary.sampled {
            let (error, weight) = self.errors(figure, interval_bytes as f64);
            // Blocks of which none was sampled may be there, too: so the upper bound is that of one sample more.
            let above = ERRORS * error.hypot(weight);
            range.add(&Doubt::Sampled, [Off::Error(ERRORS * error), Off::By(weight.ceil() as u64)]);
            range.above.add(&Doubt::Sampled, Off::Error(above));
            range.within(u64::from(range.found > 0), None);
        }
        for note in &self.unseen {
            range.add(&Doubt::Unseen(note.clone()), self.offs(note, figure));
        }
    }

    /// The standard error of an estimate, and what one sample stands for.
    fn errors(&self, figure: Figure, interval: f64) -> (f64, f64) {
        let summary = &self.summary;
        let (blocks_error, bytes_error) = match &self.held {
            Some(held) => (held.blocks_error, held.bytes_error),
            None => (summary.live_blocks_error, summary.live_bytes_error),
        };
        // Bytes whose blocks are not at hand: the variance of one byte is at most the interval.
        let of_all = |bytes: u64| (bytes as f64 * interval).sqrt();
        match figure {
            Figure::Live | Figure::Leaked | Figure::LiveGrowth => (bytes_error as f64, interval),
            Figure::LiveBlocks => (blocks_error as f64, typical_weight(summary)),
            Figure::Peak | Figure::PeakGrowth => (of_all(summary.peak.bytes), interval),
            Figure::Allocated => (of_all(summary.bytes_allocated), interval),
            Figure::Errors => (0.0, 0.0),
            Figure::Allocations => {
                ((summary.allocations as f64 * self.variance).sqrt(), self.variance.max(typical_weight(summary)))
            }
        }
    }

    /// How much less a figure may be because of a note, and how much more.
    fn offs(&self, note: &Note, figure: Figure) -> [Off; 2] {
        use Off::{By, Not, Unknown};
        let sampled = self.summary.sampled.is_some();
        let live = matches!(figure, Figure::Live | Figure::LiveBlocks | Figure::Leaked | Figure::LiveGrowth);
        let total = matches!(figure, Figure::Allocations | Figure::Allocated);
        // So many blocks more or less, none of them known; or so many of those that are.
        let unknown = |blocks: u64| if sampled || figure.is_bytes() { Unknown } else { By(blocks) };
        let known = |blocks: u64| match () {
            () if sampled => Unknown,
            () if figure.is_bytes() => self.largest.bytes(blocks).map_or(Unknown, By),
            () => By(blocks),
        };
        // Bytes of them are known from the totals, if there are any.
        let exactly = |blocks: u64, bytes: u64| match () {
            () if !figure.is_bytes() => By(blocks),
            () if bytes != 0 => By(bytes),
            () => Unknown,
        };
        match note {
            Note::Loss(counter, number) => match counter {
                TallyCounter::LostNoRecord
                | TallyCounter::LostNoIndex
                | TallyCounter::LostBusy
                | TallyCounter::LostNoThread => [Not, unknown(*number)],
                // The free of a block that was not entered is no more than that.
                TallyCounter::UnknownFrees if *number > self.lost() => [Not, Unknown],
                TallyCounter::FreesBusy if live => [known(*number), Not],
                TallyCounter::FreesBusy if !total => [Unknown, Not],
                // Frees that were not seen, one way or other: these blocks are known to be gone, of others it is not known.
                TallyCounter::Displaced if !total && *number > self.loss(TallyCounter::FreesBusy) => [Unknown, Not],
                TallyCounter::DeepBound | TallyCounter::FilesUnseen => [if total { Not } else { Unknown }, Unknown],
                TallyCounter::WideLost if figure.is_bytes() && (!live || self.summary.sizes_unknown != 0) => {
                    [Not, Unknown]
                }
                _ => [Not; 2],
            },
            Note::Damage(Damage { header: true, .. }) => [Unknown; 2],
            Note::Damage(_) => [Not, Unknown],
            Note::Full if self.lost() == 0 => [Not, Unknown],
            Note::OtherMalloc(_) => [if total { Not } else { Unknown }, Unknown],
            Note::Stopped => [if live { Unknown } else { Not }, Unknown],
            Note::Busy => [if live { known(1) } else { Not }, unknown(1)],
            Note::InFlight(number) if live => [Not, unknown(*number)],
            Note::Unaccounted { blocks, .. } => {
                let by_totals = self.summary.bytes_allocated.saturating_sub(self.summary.bytes_freed);
                let number = blocks.unsigned_abs();
                match (*blocks > 0, live) {
                    (true, true) => [Not, exactly(number, by_totals.saturating_sub(self.summary.live_bytes))],
                    (false, true) => [known(number), Not],
                    (false, false) if total => {
                        [Not, exactly(number, self.summary.live_bytes.saturating_sub(by_totals))]
                    }
                    _ => [Not; 2],
                }
            }
            _ => [Not; 2],
        }
    }

    /// Where conditions go by names: blocks whose stack is not known, or not all of it.
    fn doubt_names(&self, range: &mut Range, figure: Figure) {
        let Some(held) = self.held.as_ref().filter(|held| held.by_name) else { return };
        let summary = &self.summary;
        let of = |bytes: u64, blocks: u64| if figure.is_bytes() { bytes } else { blocks };
        let all = of(summary.live_bytes, summary.live_blocks);
        let rest = all.saturating_sub(range.found);
        let (blocks, bytes) = without_stack(summary.live_blocks, summary.live_bytes, &summary.sites.top);
        let (own_blocks, own_bytes) = without_stack(held.blocks, held.bytes, &held.sites);
        let own = of(own_bytes, own_blocks);
        let doubt = Doubt::WithoutStack { blocks };
        range.add(&doubt, [Off::By(own), Off::By(of(bytes, blocks).saturating_sub(own))]);
        let sampled = summary.sampled.is_some();
        for note in &self.unseen {
            let number = doubtful_names(note);
            if number == 0 {
                continue;
            }
            let bytes = || self.largest.bytes(number).unwrap_or(u64::MAX);
            let most = if sampled { u64::MAX } else { of(bytes(), number) };
            range.add(&Doubt::Unseen(note.clone()), [Off::By(most.min(range.found)), Off::By(most.min(rest))]);
        }
    }

    fn loss(&self, wanted: TallyCounter) -> u64 {
        let number = |note: &Note| match note {
            Note::Loss(counter, number) if *counter == wanted => *number,
            _ => 0,
        };
        self.unseen.iter().map(number).sum()
    }

    /// Blocks that were not entered.
    fn lost(&self) -> u64 {
        let counters =
            [TallyCounter::LostNoRecord, TallyCounter::LostNoIndex, TallyCounter::LostBusy, TallyCounter::LostNoThread];
        counters.into_iter().map(|counter| self.loss(counter)).sum()
    }
}

fn unseen(summary: &Summary) -> Vec<Note> {
    let running = summary.identity.running;
    // In a running program calls are under way all the time: its figures are those of a moment.
    let counts = |note: &&Note| !(running && matches!(note, Note::Unaccounted { .. } | Note::InFlight(_)));
    summary.seen.notes.iter().filter(counts).cloned().collect()
}

/// Blocks and bytes that no call site holds.
pub(super) fn without_stack(blocks: u64, bytes: u64, sites: &[SiteTotals]) -> (u64, u64) {
    sites.iter().fold((blocks, bytes), |(blocks, bytes), site| {
        (blocks.saturating_sub(site.blocks), bytes.saturating_sub(site.bytes))
    })
}

/// Of how many blocks that live a note says that their names could be others.
fn doubtful_names(note: &Note) -> u64 {
    match note {
        Note::Loss(TallyCounter::StacksCut | TallyCounter::StacksBroken | TallyCounter::StacksGuessed, number) => {
            *number
        }
        Note::ScannedStacks(number) => *number,
        _ => 0,
    }
}

/// Of how many blocks that live a note says something else which could be another way.
fn doubtful_blocks(note: &Note) -> u64 {
    match note {
        Note::Loss(TallyCounter::FreesBusy, number) => *number,
        Note::Busy => 1,
        Note::Unaccounted { blocks, .. } if *blocks < 0 => blocks.unsigned_abs(),
        _ => 0,
    }
}

/// For how many blocks one sample stands, where none is at hand: one of the mean size.
fn typical_weight(summary: &Summary) -> f64 {
    let interval = summary.sampled.map_or(0, |Sampled { interval_bytes, .. }| interval_bytes);
    let mean = (summary.bytes_allocated as f64 / summary.allocations.max(1) as f64).max(1.0);
    (interval as f64 / mean).max(1.0)
}

/// The variance of a number of blocks for each of them, by those that live or are in the history; `None` without any.
fn variance(ledger: &Ledger) -> Result<Option<f64>, SourceError> {
    struct All(Estimate);
    impl<T: Element> Fold<T> for All {
        fn add(&mut self, element: &T, _: Act, weight: u64) {
            self.0.add(element.block(), weight);
        }

        fn join(&mut self, other: Self) {
            self.0.join(&other.0);
        }
    }
    let fresh = || All(Estimate::default());
    let mut sum = fold::<Entry, _>(ledger, None, usize::MAX, &fresh, &mut |_| {})?.sum.0;
    sum.join(&fold::<FreedEntry, _>(ledger, None, usize::MAX, &fresh, &mut |_| {})?.sum.0);
    let error = sum.blocks_error() as f64;
    Ok((sum.blocks != 0).then(|| error * error / sum.blocks as f64))
}

/// How many bytes the largest live blocks have: `sums[n]` those of the `n + 1` largest.
#[derive(Clone, Debug, Default)]
struct Largest {
    sums: Vec<u64>,
    /// Whether these are all.
    all: bool,
}

impl Largest {
    fn of(ledger: &Ledger, number: u64) -> Result<Largest, SourceError> {
        if number == 0 {
            return Ok(Largest::default());
        }
        let room = number.min(LARGEST_MAX) as usize;
        struct Kept {
            room: usize,
            heap: BinaryHeap<Reverse<u64>>,
        }
        impl Kept {
            fn keep(&mut self, size: u64) {
                self.heap.push(Reverse(size));
                if self.heap.len() > self.room {
                    self.heap.pop();
                }
            }
        }
        impl Fold<Entry> for Kept {
            fn add(&mut self, entry: &Entry, _: Act, _: u64) {
                self.keep(entry.size.unwrap_or(u64::MAX));
            }

            fn join(&mut self, other: Self) {
                other.heap.into_iter().for_each(|Reverse(size)| self.keep(size));
            }
        }
        let fresh = || Kept { room, heap: BinaryHeap::new() };
        let heap = fold::<Entry, _>(ledger, None, usize::MAX, &fresh, &mut |_| {})?.sum.heap;
        let all = heap.len() < room;
        let mut sum = 0u64;
        let add = |Reverse(size): Reverse<u64>| {
            sum = sum.saturating_add(size);
            sum
        };
        Ok(Largest { sums: heap.into_sorted_vec().into_iter().map(add).collect(), all })
    }

    /// The bytes of the `number` largest; `None` if so many are not known.
    fn bytes(&self, number: u64) -> Option<u64> {
        let index = usize::try_from(number).ok()?.checked_sub(1);
        let Some(index) = index else { return Some(0) };
        match self.sums.get(index) {
            Some(sum) => Some(*sum),
            None if self.all => Some(self.sums.last().copied().unwrap_or(0)),
            None => None,
        }
    }
}
