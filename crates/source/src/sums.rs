//! What was freed over the whole run, by call site, and where in each thread's numbers the peak lies.
//!
//! The recorder adds frees up when it has filled a part of its history. What it has not added yet is in the history, marked so. Both
//! together are all that was freed, in the ledger of a program that was killed, too.

use std::collections::HashMap;

use heapledger_format::layout::Field;
use heapledger_format::sums::{PEAK_AT_WORD, PeakCut, Sum, Tagged};
use heapledger_format::{Entry, GlobalCounter, SectionKind, Site, ThreadRow};

use crate::SourceError;
use crate::ledger::Ledger;
use crate::records::{Elements, Walk};

/// Most rows that are read.
const ROWS_MAX: u64 = u32::MAX as u64;

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
    }
}

impl PeakPlace {
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

    /// Where the peak lies; `None` if the recorder did not note that.
    ///
    /// # Errors
    /// If the file can no longer be read.
    pub fn peak_place(&self) -> Result<Option<PeakPlace>, SourceError> {
        if !self.has_sums() || self.header().section(SectionKind::PeakCuts).is_none() {
            return Ok(None);
        }
        let (codec, mut cuts) = (self.header().codec, Vec::new());
        self.each_row(SectionKind::PeakCuts, PeakCut::bytes(codec.word), ROWS_MAX, &mut |_, element| {
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
                });
            }
            Ok(())
        })?;
        let is_sampled = self.sample_interval() != 0;
        let mut walk = Walk::new(Elements::history(self));
        while walk.step(&mut |decoder, element, _| {
            let is_summed = decoder.flag(element, Field::FreedSummed);
            let Some(freed) = decoder.freed(element).filter(|_| !is_summed) else { return };
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
            });
        })? {}
        sums.in_flight = walk.in_flight;
        Ok(Some(sums))
    }
}
