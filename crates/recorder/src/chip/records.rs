//! Records of live blocks, and the history of those that were.

use super::memory::{Memory, Table, clear, figure, fill, ones, set};
use super::plan::FieldPlace;
use super::shape::{Fixed, Shape};
use super::tasks::Row;
use super::word::Word;
use super::{ChipLedger, NewBlock};
use crate::backend::Slot;
use core::sync::atomic::{Ordering, compiler_fence};
use heapledger_format::header::State;
use heapledger_format::{GlobalCounter, Kind, Site, TallyCounter};

/// Bytes that a guard has in front of a block, and around it at most.
const DRESSED_BEFORE: u64 = 8;
const DRESSED_BYTES: u64 = 8 + 4 + 7;

/// In the note of where the ring goes on: it has gone round, and nobody was told yet.
const TURNED: u32 = 1 << 31;

/// The end of a block: its number and time, by which function, from where.
#[derive(Clone, Copy)]
pub(super) struct End<W> {
    pub(super) number: W,
    pub(super) time: W,
    pub(super) by: Kind,
    pub(super) site: Site,
    pub(super) row: Row,
}

impl<S: Shape, R: Memory<S::Word>> ChipLedger<S, R> {
    /// A slot that there is.
    #[inline(always)]
    pub(super) fn slot(number: u32) -> Option<Slot> {
        if number < S::room().records { Some(Slot(number)) } else { None }
    }

    #[inline(always)]
    pub(super) fn records() -> Table {
        Table { at: S::RECORDS_AT, words: S::RECORD_WORDS, count: S::room().records }
    }

    #[inline(always)]
    fn record_mut(&mut self, slot: Slot) -> &mut [S::Word] {
        self.region.element_mut(Self::records(), slot.0)
    }

    #[inline(always)]
    pub(super) fn address_in(&self, slot: Slot) -> S::Word {
        figure::<S>(self.region.element(Self::records(), slot.0), S::ADDRESS)
    }

    /// Vacant slots hang on each other by their addresses.
    #[inline(always)]
    pub(super) fn take_slot(&mut self) -> Option<Slot> {
        let free = self.word(S::NOTES.free).widen() as u32;
        if let Some(slot) = free.checked_sub(1).and_then(Self::slot) {
            let next = self.address_in(slot);
            self.set_word(S::NOTES.free, next);
            return Some(slot);
        }
        let used = self.word(S::RECORDS_USED).widen() as u32;
        let slot = Self::slot(used)?;
        self.set_word(S::RECORDS_USED, S::Word::cut(u64::from(used.wrapping_add(1))));
        // (0: nobody wants to know.)
        self.is_scarce = S::MAY_WARN && used.wrapping_add(1) == S::room().warn_records;
        Some(slot)
    }

    /// The record in a slot is none any more: the slot stays with the caller.
    #[inline(always)]
    pub(super) fn void_slot(&mut self, slot: Slot) {
        clear::<S>(self.record_mut(slot), S::NUMBER);
        compiler_fence(Ordering::SeqCst);
    }

    /// Makes a slot vacant.
    #[inline(always)]
    pub(super) fn release_slot(&mut self, slot: Slot) {
        let next = self.word(S::NOTES.free);
        let record = self.record_mut(slot);
        clear::<S>(record, S::NUMBER);
        compiler_fence(Ordering::SeqCst);
        clear::<S>(record, S::ADDRESS);
        fill::<S>(record, S::ADDRESS, next);
        self.set_word(S::NOTES.free, S::Word::cut(u64::from(slot.0.wrapping_add(1))));
        if self.is_full() {
            self.set_state(State::Recording);
        }
    }

    /// Whether numbers have not run out.
    #[inline(always)]
    pub(super) fn has_number(&self) -> bool {
        self.global(GlobalCounter::NextNumber) <= S::Word::cut(S::NUMBER_MAX)
    }

    /// The next number; `None` when they have run out.
    #[inline(always)]
    pub(super) fn number(&mut self) -> Option<S::Word> {
        if !self.has_number() {
            return None;
        }
        let number = self.global(GlobalCounter::NextNumber);
        self.set_global(GlobalCounter::NextNumber, number.plus(S::Word::cut(1)));
        Some(number)
    }

    /// The number of an end: frees are followed when numbers have run out.
    #[inline(always)]
    pub(super) fn number_of_end(&mut self) -> S::Word {
        self.number().unwrap_or(S::Word::cut(S::NUMBER_MAX))
    }

    /// Writes a record: the commit word comes first as 0, and last as what it is. Returns the bytes that it says the block has.
    #[inline(always)]
    pub(super) fn write_record(
        &mut self,
        slot: Slot,
        block: &NewBlock<S::Word>,
        (number, time): (S::Word, S::Word),
        (site, row): (Site, Row),
    ) -> S::Word {
        let heap = if S::HAS_HEAPS { Self::heap_of(block) } else { 0 };
        let excess = match block.actual {
            Some(actual) if actual > block.size => actual.minus(block.size),
            _ => S::Word::ZERO,
        };
        let record = self.record_mut(slot);
        // (A word of its own is 0 already: the slot is vacant.)
        let is_word = usize::from(S::NUMBER.width_bits) == S::WORD_BYTES.wrapping_mul(8);
        if !is_word {
            set::<S>(record, S::NUMBER, S::Word::ZERO);
        }
        set::<S>(record, S::ADDRESS, block.address);
        set::<S>(record, S::SIZE, block.size);
        set::<S>(record, S::TIME, time);
        set::<S>(record, S::EXCESS, excess);
        set::<S>(record, S::SITE, S::Word::cut(u64::from(site.0)));
        set::<S>(record, S::KIND, S::Word::cut(u64::from(block.kind.number())));
        set::<S>(record, S::THREAD, row.figure());
        set::<S>(record, S::HEAP, S::Word::cut(u64::from(heap)));
        // A reset may come between any two stores: what has a number is whole.
        compiler_fence(Ordering::SeqCst);
        let commit = number.plus(S::Word::cut(1));
        if is_word {
            set::<S>(record, S::NUMBER, commit)
        } else {
            fill::<S>(record, S::NUMBER, commit)
        }
        let most = ones::<S>(S::SIZE.width_bits);
        let is_escaped = S::EXCESS.width_bits != 0 && excess >= ones::<S>(S::EXCESS.width_bits);
        if is_escaped || block.size >= most {
            // There is no section for figures that do not fit.
            self.count(TallyCounter::WideLost);
        }
        if block.size > most { most } else { block.size }
    }

    /// The heap of a block: as its caller says, else by its address; the first, if it is in none.
    #[inline(always)]
    fn heap_of(block: &NewBlock<S::Word>) -> u8 {
        block.heap.unwrap_or_else(|| {
            let address = block.address.widen();
            let is_there = |(low, high)| address >= low && address < high;
            let within = (0..S::room().heaps).find(|nth| is_there(S::heap_range(*nth)));
            within.unwrap_or(0) as u8
        })
    }

    /// Whether there is a record in a slot, and the bytes of its block.
    #[inline(always)]
    pub(super) fn bytes_in(&mut self, slot: Slot) -> Option<S::Word> {
        let record = self.record_mut(slot);
        (figure::<S>(record, S::NUMBER) != S::Word::ZERO).then(|| figure::<S>(record, S::SIZE))
    }

    /// Enters an end into the history. The record is still in its slot.
    #[inline(always)]
    pub(super) fn write_history(&mut self, slot: Slot, end: &End<S::Word>) {
        if !S::HAS_HISTORY {
            return;
        }
        let noted = self.word(S::NOTES.ring_next).widen() as u32;
        let entries = S::room().history;
        let place = if noted & !TURNED < entries { noted & !TURNED } else { 0 };
        let ring = Table { at: S::room().history_at as usize, words: S::HISTORY_WORDS, count: entries };
        // The ring lies behind the records.
        let (record, entry) = self.region.elements((Self::records(), slot.0), (ring, place));
        set::<S>(entry, S::FREED_NUMBER, S::Word::ZERO);
        compiler_fence(Ordering::SeqCst);
        for (to, from) in entry.iter_mut().zip(record) {
            *to = *from;
        }
        set::<S>(entry, S::FREED_TIME, end.time);
        set::<S>(entry, S::FREED_SITE, S::Word::cut(u64::from(end.site.0)));
        set::<S>(entry, S::FREED_BY, S::Word::cut(u64::from(end.by.number())));
        set::<S>(entry, S::FREED_THREAD, end.row.figure());
        compiler_fence(Ordering::SeqCst);
        fill::<S>(entry, S::FREED_NUMBER, end.number.plus(S::Word::cut(1)));
        self.count(TallyCounter::HistoryEntered);
        let next = place.wrapping_add(1);
        if S::Word::cut(u64::from(next)) > self.word(S::HISTORY_USED) {
            self.set_word(S::HISTORY_USED, S::Word::cut(u64::from(next)));
        }
        let next = if next == entries { TURNED } else { next | noted & TURNED };
        self.set_word(S::NOTES.ring_next, S::Word::cut(u64::from(next)));
    }

    /// The entry of the block that lay at an address or around it and was freed last; the words that it was dressed with are its own.
    #[cold]
    #[inline(never)]
    pub(super) fn freed_around(&self, address: S::Word) -> Option<(Table, u32)> {
        if !S::HAS_HISTORY {
            return None;
        }
        let used = self.word(S::HISTORY_USED).widen() as u32;
        let ring = Table { at: S::room().history_at as usize, words: S::HISTORY_WORDS, count: S::room().history };
        let (mut latest, mut found) = (S::Word::ZERO, None);
        for nth in 0..used.min(ring.count) {
            let entry = self.region.element(ring, nth);
            let number = figure::<S>(entry, S::FREED_NUMBER);
            let start = figure::<S>(entry, S::ADDRESS).minus(S::Word::cut(DRESSED_BEFORE));
            let bytes = figure::<S>(entry, S::SIZE).plus(S::Word::cut(DRESSED_BYTES));
            if number > latest && address.minus(start) < bytes {
                (latest, found) = (number, Some((ring, nth)));
            }
        }
        found
    }

    /// A figure of a record or a history entry.
    pub(super) fn figure_in(&self, (table, nth): (Table, u32), place: FieldPlace) -> S::Word {
        figure::<S>(self.region.element(table, nth), place)
    }

    /// Whether the ring has come to its end since this was last asked: from now on the oldest entries go.
    #[inline(always)]
    pub(super) fn turn_history(&mut self) -> bool {
        if !S::HAS_HISTORY {
            return false;
        }
        let noted = self.word(S::NOTES.ring_next);
        let turned = S::Word::cut(u64::from(TURNED));
        let has_turned = noted >= turned;
        if has_turned {
            self.set_word(S::NOTES.ring_next, noted.minus(turned));
        }
        has_turned
    }
}
