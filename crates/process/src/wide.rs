//! Blocks whose sizes do not fit into a record: they are kept beside it, by number.

#![forbid(unsafe_code)]

use crate::access::{AboutBlock, Access};
use crate::shared::Shared;
use core::sync::atomic::{AtomicU64, Ordering};
use heapledger_format::record::Options;
use heapledger_format::section::wide;
use heapledger_format::{Entry, SectionKind, TallyCounter};
use heapledger_recorder::backend::{Measure, Slot};

/// An element in words, and which of them is what.
const WORDS: usize = wide::BYTES / 8;
const NUMBER: usize = wide::NUMBER / 8;
const SIZE: usize = wide::SIZE / 8;
const ACTUAL: usize = wide::ACTUAL / 8;

fn places(shared: &Shared, number: u64) -> impl Iterator<Item = &[AtomicU64; WORDS]> {
    const PROBES: u64 = 32;
    let section = shared.ledger().section(SectionKind::Wide);
    let used = section.used();
    let first = number.wrapping_mul(0x9E37_79B9);
    let place = move |probe| first.wrapping_add(probe).checked_rem(used);
    (0..PROBES.min(used)).filter_map(place).map(move |index| section.element(index))
}

/// The element of a number, which only the owner of its record changes.
fn find(shared: &Shared, number: u64) -> Option<&[AtomicU64; WORDS]> {
    places(shared, number).find(|place| place[NUMBER].load(Ordering::Acquire) == number.wrapping_add(1))
}

impl Shared {
    /// Adds what has found no place in a record.
    pub(crate) fn complete(&self, entry: &mut Entry) {
        if (entry.size.is_none() || entry.actual.is_none())
            && let Some(place) = find(self, entry.number)
        {
            entry.size = Some(place[SIZE].load(Ordering::Relaxed));
            entry.actual = Some(place[ACTUAL].load(Ordering::Relaxed)).filter(|actual| *actual != 0);
        }
        if !self.settings().options.has(Options::ACTUAL_SIZE) {
            entry.actual = None;
        }
    }
}

impl Access<'_> {
    /// The record in a slot that this thread owns.
    #[cold]
    pub(crate) fn load(&self, slot: Slot) -> Option<Entry> {
        let words = self.shared.words_of(slot, Ordering::Acquire);
        let mut entry = Entry::unpack(&words)?;
        self.shared.complete(&mut entry);
        Some(entry)
    }

    #[inline(always)]
    pub(crate) fn is_wide(&self, slot: Slot) -> bool {
        let words = self.shared.words_of(slot, Ordering::Relaxed);
        match self.about {
            AboutBlock::Aligned => Entry::packed_size(words[2]).is_none(),
            AboutBlock::Nothing | AboutBlock::Apart | AboutBlock::Inner => Entry::packed_actual(&words).is_none(),
        }
    }

    /// A huge block, whose size may have found no place: then it stands for itself.
    #[cold]
    pub(crate) fn measure_wide(&self, slot: Slot) -> Option<Measure> {
        self.shared.memory_changes.fetch_add(1, Ordering::Relaxed);
        let entry = self.load(slot)?;
        Some(Measure { bytes: entry.size.unwrap_or(0), weight: entry.weight(self.shared.settings().sample_rule()) })
    }

    /// The one figure of a huge block that the history has room for.
    #[cold]
    pub(crate) fn wide_figure(&self, slot: Slot) -> u64 {
        self.load(slot).map_or(0, |entry| entry.history_figure())
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn wide_put(&mut self, entry: &Entry) {
        let ledger = self.shared.ledger();
        if ledger.section(SectionKind::Wide).used() == 0 {
            ledger.lease(SectionKind::Wide, ledger.section(SectionKind::Wide).capacity());
        }
        const CLAIMED: u64 = u64::MAX;
        for place in places(self.shared, entry.number) {
            let commit = &place[NUMBER];
            if commit.compare_exchange(0, CLAIMED, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                place[SIZE].store(entry.size.unwrap_or(0), Ordering::Relaxed);
                place[ACTUAL].store(entry.actual.unwrap_or(0), Ordering::Relaxed);
                commit.store(entry.number.wrapping_add(1), Ordering::Release);
                return;
            }
        }
        self.state.count(TallyCounter::WideLost, 1);
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn wide_clear(&self, number: u64) {
        if let Some(place) = find(self.shared, number) {
            place[NUMBER].store(0, Ordering::Release);
        }
    }
}
