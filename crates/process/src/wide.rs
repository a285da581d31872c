//! Blocks whose sizes do not fit into a record: they are kept beside it, by number.

use crate::access::Access;
use crate::ledger::CODEC;
use core::sync::atomic::{AtomicU64, Ordering};
use heapledger_format::record::Options;
use heapledger_format::section::wide;
use heapledger_format::{Entry, SectionKind, TallyCounter};
use heapledger_recorder::backend::{Measure, Slot};

impl Access<'_> {
    /// The record in a slot that this thread owns.
    #[cold]
    fn load(&self, slot: Slot) -> Option<Entry> {
        let words = core::array::from_fn(|index| self.shared.record_word(slot, index).load(Ordering::Acquire));
        let mut entry = Entry::unpack(&words)?;
        if entry.size.is_none() || entry.actual.is_none() {
            self.wide_get(&mut entry);
        }
        if !self.shared.settings().options.has(Options::ACTUAL_SIZE) {
            entry.actual = None;
        }
        Some(entry)
    }

    #[inline(always)]
    pub(crate) fn is_wide(&self, slot: Slot) -> bool {
        let words = core::array::from_fn(|index| self.shared.record_word(slot, index).load(Ordering::Relaxed));
        Entry::packed_actual(&words).is_none()
    }

    /// A huge block, whose size may have found no place: then it stands for itself.
    #[cold]
    pub(crate) fn measure_wide(&self, slot: Slot) -> Option<Measure> {
        self.shared.memory_changes.fetch_add(1, Ordering::Relaxed);
        let entry = self.load(slot)?;
        Some(Measure { bytes: entry.size.unwrap_or(0), weight: entry.weight(self.shared.settings().sample) })
    }

    /// The one figure of a huge block that the history has room for.
    #[cold]
    pub(crate) fn wide_figure(&self, slot: Slot) -> u64 {
        self.load(slot).map_or(0, |entry| entry.history_figure())
    }

    fn wide_places(&self, number: u64) -> impl Iterator<Item = *mut u8> + use<> {
        const PROBES: u64 = 32;
        let section = self.shared.ledger().section(SectionKind::Wide);
        let used = section.used();
        (0..PROBES.min(used)).map(move |probe| section.at((number.wrapping_mul(0x9E37_79B9) + probe) % used))
    }

    /// Finds the element of a number, or a vacant one for number 0.
    fn wide_find(&self, number: u64, commit: u64) -> Option<*mut u8> {
        self.wide_places(number).find(|place| {
            // SAFETY: an aligned element of a backed section.
            unsafe { &*place.cast::<AtomicU64>() }.load(Ordering::Acquire) == commit
        })
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn wide_put(&mut self, entry: &Entry) {
        let ledger = self.shared.ledger();
        if ledger.section(SectionKind::Wide).used() == 0 {
            ledger.lease(SectionKind::Wide, ledger.section(SectionKind::Wide).capacity());
        }
        const CLAIMED: u64 = u64::MAX;
        for place in self.wide_places(entry.number) {
            // SAFETY: an aligned element of 4 words of a backed section.
            let word = |at: usize| unsafe { &*place.add(at).cast::<AtomicU64>() };
            let commit = word(wide::NUMBER);
            if commit.compare_exchange(0, CLAIMED, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                word(wide::SIZE).store(entry.size.unwrap_or(0), Ordering::Relaxed);
                word(wide::ACTUAL).store(entry.actual.unwrap_or(0), Ordering::Relaxed);
                commit.store(entry.number + 1, Ordering::Release);
                return;
            }
        }
        self.state.count(TallyCounter::WideLost, 1);
    }

    #[cold]
    fn wide_get(&self, entry: &mut Entry) {
        if let Some(place) = self.wide_find(entry.number, entry.number + 1) {
            let mut element = [0u8; wide::BYTES];
            // SAFETY: a backed element that only the owner of this record changes.
            unsafe { core::ptr::copy_nonoverlapping(place, element.as_mut_ptr(), wide::BYTES) };
            entry.size = Some(CODEC.u64(&element, wide::SIZE));
            entry.actual = Some(CODEC.u64(&element, wide::ACTUAL)).filter(|actual| *actual != 0);
        }
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn wide_clear(&self, number: u64) {
        if let Some(place) = self.wide_find(number, number + 1) {
            // SAFETY: as in `wide_get`.
            unsafe { &*place.cast::<AtomicU64>() }.store(0, Ordering::Release);
        }
    }
}
