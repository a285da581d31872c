//! What was freed over the whole run, by call site, and where in each thread's numbers the peak lies.
//!
//! The recorder adds frees up when it has filled a part of its history. What it has not added yet is in the history, marked so. Both
//! together are all that was freed, in the ledger of a program that was killed, too.

use std::collections::HashMap;
use std::ops::AddAssign;

use heapledger_format::layout::Field;
use heapledger_format::sums::{LIFETIME_WORDS, LIVED_EVENTS, LIVED_NS, Lifetimes, PEAK_AT_WORD, PeakCut, Sum, Tagged};
use heapledger_format::{Entry, FreedEntry, GlobalCounter, SectionKind, Site, ThreadRow};

use crate::SourceError;
use crate::ledger::Ledger;
use crate::records::{Elements, Walk};

/// Most sums that are read: four times what a recorder has.
const ROWS_MAX: u64 = 1 << 22;
/// Most cuts: a row for each thread.
const CUTS_MAX: u64 = 1 << 16;

/// What was freed of a call site over the whole run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FreedSum {
    /// Blocks. In a sampled ledger: for how many they stand, as with all that follows.
    pub blocks: u64,
    /// Bytes asked for in these.
    pub bytes: u64,
    /// Of the blocks, those that were freed by the very next event of the thread that had allocated them. 0 in a sampled ledger.
    pub temporary_blocks: u64,
    /// Bytes asked for in these.
    pub temporary_bytes: u64,
    /// Of the blocks, those that had lived at the peak.
    pub peak_blocks: u64,
    /// Bytes asked for in these.
    pub peak_bytes: u64,
    /// For how long the blocks have lived; nothing, unless [`Ledger::has_lifetimes`].
    pub lived: LivedSum,
}

/// For how long blocks have lived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LivedSum {
    /// Events, of all of them together: by how much the number of each end was higher than that of its allocation.
    pub events: u64,
    /// Blocks by class: of fewer events than the first of [`LIVED_EVENTS`], and from each of these on.
    pub by_events: [u64; LIVED_EVENTS.len() + 1],
    /// Blocks by class: of less time than the first of [`LIVED_NS`], and from each of these on. Where times are not recorded all are in
    /// the first.
    pub by_time: [u64; LIVED_NS.len() + 1],
}

/// Where the peak lies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeakPlace {
    /// Bytes that lived then.
    pub bytes: u64,
    /// By how much that may be off, and what is said of single blocks with it.
    pub error: u64,
    /// By rows of threads.
    cuts: Vec<Option<PeakCut>>,
    /// There is one thread, whether blocks say so or not.
    is_single: bool,
}

/// All that was freed, by call site.
#[derive(Clone, Debug, Default)]
pub struct FreedSums {
    /// By call site, in no order.
    pub sites: HashMap<Site, FreedSum>,
    /// Elements of the history that were being written.
    pub in_flight: u64,
}

impl FreedSum {
    fn add(&mut self, other: FreedSum) {
        self.blocks = self.blocks.saturating_add(other.blocks);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.temporary_blocks = self.temporary_blocks.saturating_add(other.temporary_blocks);
        self.temporary_bytes = self.temporary_bytes.saturating_add(other.temporary_bytes);
        self.peak_blocks = self.peak_blocks.saturating_add(other.peak_blocks);
        self.peak_bytes = self.peak_bytes.saturating_add(other.peak_bytes);
        self.lived += other.lived;
    }
}

impl AddAssign for LivedSum {
    fn add_assign(&mut self, other: LivedSum) {
        let add = |own: &mut u64, other: u64| *own = own.saturating_add(other);
        add(&mut self.events, other.events);
        self.by_events.iter_mut().zip(other.by_events).for_each(|(own, other)| add(own, other));
        self.by_time.iter_mut().zip(other.by_time).for_each(|(own, other)| add(own, other));
    }
}

impl LivedSum {
    /// Of so many blocks, as a row of `lifetimes` tells; what is of no class of its is of the first here.
    fn of_row(blocks: u64, events: u64, row: &Lifetimes) -> LivedSum {
        fn with_first<const CLASSES: usize>(blocks: u64, classes: &[u64]) -> [u64; CLASSES] {
            let others = classes.iter().copied().fold(0, u64::saturating_add);
            // While the program goes on, a row may tell of one that the other does not.
            let first = std::iter::once(blocks.saturating_sub(others));
            let mut all = first.chain(classes.iter().copied());
            std::array::from_fn(|_| all.next().unwrap_or(0))
        }
        let (by_events, by_time) = (with_first(blocks, &row.by_events), with_first(blocks, &row.by_time));
        LivedSum { events, by_events, by_time }
    }

    /// Of one block, by number and by nanoseconds.
    fn of_block(events: u64, ns: u64) -> LivedSum {
        let mut lived = LivedSum { events, ..LivedSum::default() };
        lived.by_events[Lifetimes::class(&LIVED_EVENTS, events)] = 1;
        lived.by_time[Lifetimes::class(&LIVED_NS, ns)] = 1;
        lived
    }
}

impl PeakPlace {
    /// How many events lie before the peak: the highest number that a thread has noted. `None`: nobody has done anything since.
    pub fn number(&self) -> Option<u64> {
        let noted = |cut: &PeakCut| cut.peak_bytes_plus_1.0.checked_sub(1) == Some(self.bytes);
        self.cuts.iter().flatten().filter(|cut| noted(cut)).map(|cut| cut.number.0).max()
    }

    /// Whether what a thread did with this number lies before the peak.
    pub fn is_before(&self, thread: Option<ThreadRow>, number: u64) -> bool {
        let row = if self.is_single { Some(0) } else { thread.map(|row| row.0 as usize) };
        let cut = row.and_then(|row| self.cuts.get(row)?.as_ref());
        PeakCut::is_before(cut, self.bytes, number)
    }
}

impl Ledger {
    /// Whether the recorder has summed what was freed by call site.
    pub fn has_sums(&self) -> bool {
        self.header().section(SectionKind::Sums).is_some()
    }

    /// Whether it has summed, too, for how long that has lived. In a sampled ledger it has not: what is a sample lives on.
    pub fn has_lifetimes(&self) -> bool {
        self.has_sums() && self.sample_interval() == 0 && self.header().section(SectionKind::Lifetimes).is_some()
    }

    /// Where the peak lies; `None` if the recorder did not note that.
    ///
    /// # Errors
    /// If the file can no longer be read.
    pub fn peak_place(&self) -> Result<Option<PeakPlace>, SourceError> {
        if !self.has_sums() || self.header().section(SectionKind::PeakCuts).is_none() {
            return Ok(None);
        }
        let (codec, mut cuts) = (self.header().codec, Vec::new());
        self.each_row(SectionKind::PeakCuts, PeakCut::bytes(codec.word), CUTS_MAX, &mut |_, element| {
            cuts.push(PeakCut::read(codec, element));
            Ok(())
        })?;
        let header = self.current_header()?;
        let [bytes, error] = [GlobalCounter::PeakBytes, GlobalCounter::PeakError].map(|counter| header.global(counter));
        let is_single = cuts.iter().flatten().count() == 1;
        // Where threads are not recorded nobody knows whose cut is meant.
        let is_known = is_single || header.layout.has(Field::Thread);
        Ok(is_known.then_some(PeakPlace { bytes, error, cuts, is_single }))
    }

    /// What was freed over the whole run, by call site; `None` if the recorder did not sum that. `weight`: for how many blocks one stands.
    ///
    /// # Errors
    /// If the file can no longer be read.
    pub fn freed_sums(&self, weight: &dyn Fn(&Entry) -> u64) -> Result<Option<FreedSums>, SourceError> {
        if !self.has_sums() {
            return Ok(None);
        }
        let place = self.peak_place()?;
        let peak_bytes = place.as_ref().map(|place| place.bytes);
        let mut sums = FreedSums::default();
        let codec = self.header().codec;
        let has_lifetimes = self.has_lifetimes();
        let mut lifetimes = Vec::new();
        if has_lifetimes {
            let bytes = LIFETIME_WORDS * codec.word.bytes();
            self.each_row(SectionKind::Lifetimes, bytes, ROWS_MAX, &mut |_, element| {
                lifetimes.push(Lifetimes::read(codec, element));
                Ok(())
            })?;
        }
        // There is one for each row; a sum is too large to be moved again and again as the table grows.
        sums.sites.reserve(lifetimes.len());
        let mut generation = 0;
        self.each_row(SectionKind::Sums, Sum::bytes(codec.word), ROWS_MAX, &mut |row, element| {
            if row == 0 {
                let present = Tagged(codec.word(element, PEAK_AT_WORD * codec.word.bytes()));
                // What is summed holds for this value of the peak.
                if peak_bytes.is_some_and(|bytes| present.amount() == Tagged::new(0, bytes).amount()) {
                    generation = present.generation();
                }
            } else if let Some(sum) = Sum::read(codec, element) {
                let at_peak = |word| if generation == 0 { 0 } else { Tagged(word).of(generation) };
                sums.sites.entry(Site(sum.site_plus_1 - 1)).or_default().add(FreedSum {
                    blocks: sum.blocks.0,
                    bytes: sum.bytes.0,
                    temporary_blocks: sum.temporary_blocks.0,
                    temporary_bytes: sum.temporary_bytes.0,
                    peak_blocks: at_peak(sum.peak_blocks.0),
                    peak_bytes: at_peak(sum.peak_bytes.0),
                    lived: match lifetimes.get(row as usize) {
                        Some(row) => LivedSum::of_row(sum.blocks.0, sum.lived_events.0, row),
                        None => LivedSum::default(),
                    },
                });
            }
            Ok(())
        })?;
        let is_sampled = self.sample_interval() != 0;
        let tick_ns = u64::from(self.header().tick_ns);
        let lived_ns = |freed: &FreedEntry| {
            let ticks = freed.time.zip(freed.block.time).map_or(0, |(end, begin)| end.0.saturating_sub(begin.0));
            ticks.saturating_mul(tick_ns)
        };
        let mut walk = Walk::new(Elements::history(self));
        while walk.step(&mut |decoder, element, _| {
            // Most are.
            if decoder.flag(element, Field::FreedSummed) {
                return;
            }
            let Some(freed) = decoder.freed(element) else { return };
            let blocks = weight(&freed.block);
            let bytes = freed.block.size.unwrap_or(0).saturating_mul(blocks);
            let is_temporary = decoder.flag(element, Field::FreedNext) && !is_sampled;
            let lived = place.as_ref().is_some_and(|peak| {
                peak.is_before(freed.block.thread, freed.block.number) && !peak.is_before(freed.thread, freed.number)
            });
            sums.sites.entry(freed.block.site).or_default().add(FreedSum {
                blocks,
                bytes,
                temporary_blocks: if is_temporary { blocks } else { 0 },
                temporary_bytes: if is_temporary { bytes } else { 0 },
                peak_blocks: if lived { blocks } else { 0 },
                peak_bytes: if lived { bytes } else { 0 },
                lived: match has_lifetimes {
                    true => LivedSum::of_block(freed.number.saturating_sub(freed.block.number), lived_ns(&freed)),
                    false => LivedSum::default(),
                },
            });
        })? {}
        sums.in_flight = walk.in_flight;
        Ok(Some(sums))
    }
}
