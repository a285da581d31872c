//! The ledger as the policy sees it.

use super::ChipLedger;
use super::memory::{clear, figure, fill, set};
use super::shape::{Fixed, Shape};
use super::word::Word;
use crate::backend::{Backend, CallEffect, Change, Ended, Freed, Inserted, Measure, Number, Slot};
use core::borrow::BorrowMut;
use heapledger_format::header::{State, at};
use heapledger_format::layout::mask;
use heapledger_format::section::thread;
use heapledger_format::{Entry, GlobalCounter, Kind, TallyCounter, ThreadRow, Ticks};

impl<S: Shape, R: BorrowMut<[S::Word]>> ChipLedger<S, R> {
    fn record_mut(&mut self, slot: Slot) -> &mut [S::Word] {
        self.words_mut(self.places.records.element(slot.0, S::RECORD_WORDS), S::RECORD_WORDS)
    }

    pub(super) fn address_in(&self, slot: Slot) -> u64 {
        let at = self.places.records.element(slot.0, S::RECORD_WORDS);
        figure::<S>(self.words(at, S::RECORD_WORDS), S::ADDRESS)
    }
}

impl<S: Shape, R: BorrowMut<[S::Word]>> Backend for ChipLedger<S, R> {
    fn now(&mut self) -> Ticks {
        self.time()
    }

    fn number(&mut self) -> Option<Number> {
        let number = self.global(GlobalCounter::NextNumber);
        if number > S::NUMBER_MAX {
            return None;
        }
        self.set_global(GlobalCounter::NextNumber, number.wrapping_add(1));
        Some(Number(number))
    }

    fn thread(&mut self) -> Option<ThreadRow> {
        self.task
    }

    /// Vacant slots hang on each other by their addresses.
    fn take_slot(&mut self) -> Option<Slot> {
        if let Some(slot) = self.free.checked_sub(1).map(Slot) {
            self.free = self.address_in(slot) as u32;
            return Some(slot);
        }
        if self.slots_used == self.places.records.count {
            self.set_state(State::Full);
            return None;
        }
        self.slots_used = self.slots_used.wrapping_add(1);
        self.put(S::RECORDS_USED_AT, S::WORD_BYTES, u64::from(self.slots_used));
        Some(Slot(self.slots_used.wrapping_sub(1)))
    }

    fn release_slot(&mut self, slot: Slot) {
        let next = self.free;
        let record = self.record_mut(slot);
        clear::<S>(record, S::ADDRESS);
        fill::<S>(record, S::ADDRESS, u64::from(next));
        self.free = slot.0.wrapping_add(1);
        if self.get(at::STATE, 1).widen() == State::Full as u64 {
            self.set_state(State::Recording);
        }
    }

    /// The commit word comes first as 0, and last as what it is.
    fn publish(&mut self, slot: Slot, entry: &Entry, _: u64) {
        let size = entry.size.unwrap_or(u64::MAX);
        let excess = entry.actual.map(|actual| actual.saturating_sub(size));
        let record = self.record_mut(slot);
        set::<S>(record, S::NUMBER, 0);
        set::<S>(record, S::ADDRESS, entry.address);
        set::<S>(record, S::SIZE, size);
        set::<S>(record, S::TIME, entry.time.map_or(0, |time| time.0));
        set::<S>(record, S::EXCESS, excess.unwrap_or(0));
        set::<S>(record, S::SITE, u64::from(entry.site.0));
        set::<S>(record, S::KIND, u64::from(entry.kind.number()));
        set::<S>(record, S::THREAD, entry.thread.map_or(u64::MAX, |row| u64::from(row.0)));
        set::<S>(record, S::HEAP, u64::from(entry.heap.unwrap_or(0)));
        fill::<S>(record, S::NUMBER, entry.number.wrapping_add(1));
        let is_escaped = S::EXCESS.width_bits != 0 && excess.is_some_and(|excess| excess >= mask(S::EXCESS.width_bits));
        if is_escaped || size >= mask(S::SIZE.width_bits) {
            // There is no section for figures that do not fit.
            self.add_tally(TallyCounter::WideLost, 1);
        }
    }

    fn measure(&mut self, slot: Slot) -> Option<Measure> {
        let record = self.record_mut(slot);
        let size = figure::<S>(record, S::SIZE);
        let is_known = size != mask(S::SIZE.width_bits);
        (figure::<S>(record, S::NUMBER) != 0).then_some(Measure { bytes: if is_known { size } else { 0 }, weight: 1 })
    }

    fn vacate(&mut self, slot: Slot) {
        clear::<S>(self.record_mut(slot), S::NUMBER);
    }

    fn insert(&mut self, address: u64, slot: Slot) -> Inserted {
        if address > mask(S::ADDRESS.width_bits) {
            return Inserted::Full;
        }
        self.index_insert(address, slot)
    }

    fn remove(&mut self, address: u64) -> Option<Slot> {
        self.index_remove(address)
    }

    fn history(&mut self, slot: Slot, freed: &Freed) {
        let ring = self.places.history;
        if !S::HAS_HISTORY || ring.count == 0 {
            return;
        }
        let Freed { number, ended: Ended { by, site }, time, .. } = *freed;
        let task = self.task;
        let record_at = self.places.records.element(slot.0, S::RECORD_WORDS);
        let within = (self.ring_next as usize).wrapping_mul(S::HISTORY_WORDS);
        // The ring lies behind the records.
        let Some((before, behind)) = self.region.borrow_mut().split_at_mut_checked(ring.at) else { return };
        let record = before.get(record_at..record_at.wrapping_add(S::RECORD_WORDS)).unwrap_or(&[]);
        let entry = behind.get_mut(within..within.wrapping_add(S::HISTORY_WORDS)).unwrap_or(&mut []);
        set::<S>(entry, S::FREED_NUMBER, 0);
        for (to, from) in entry.iter_mut().zip(record) {
            *to = *from;
        }
        set::<S>(entry, S::FREED_TIME, time.0);
        set::<S>(entry, S::FREED_SITE, u64::from(site.0));
        set::<S>(entry, S::FREED_BY, u64::from(by.number()));
        set::<S>(entry, S::FREED_THREAD, task.map_or(u64::MAX, |row| u64::from(row.0)));
        fill::<S>(entry, S::FREED_NUMBER, number.0.wrapping_add(1));
        self.add_tally(TallyCounter::HistoryEntered, 1);
        self.ring_next = self.ring_next.wrapping_add(1);
        if self.ring_next > self.ring_used {
            self.ring_used = self.ring_next;
            self.put(S::HISTORY_USED_AT, S::WORD_BYTES, u64::from(self.ring_used));
        }
        if self.ring_next == ring.count {
            self.ring_next = 0;
            S::history_full();
        }
    }

    fn count(&mut self, counter: TallyCounter, amount: u64) {
        match counter {
            TallyCounter::Allocations => self.add_to_task(thread::allocations, amount),
            TallyCounter::BytesAllocated => self.add_to_task(thread::bytes_allocated, amount),
            TallyCounter::Frees => self.add_to_task(thread::frees, amount),
            _ => {}
        }
        self.add_tally(counter, amount);
    }

    /// Calls per function would take 512 bytes: they are left out.
    fn count_call(&mut self, _kind: Kind, _effect: CallEffect, _amount: u64) {}

    fn live(&mut self, Change { bytes, blocks }: Change, time: Ticks) {
        let live = self.global(GlobalCounter::LiveBytes).saturating_add_signed(bytes);
        self.set_global(GlobalCounter::LiveBytes, live);
        self.live_blocks = self.live_blocks.saturating_add_signed(blocks as i32);
        if live > self.global(GlobalCounter::PeakBytes) {
            self.set_global(GlobalCounter::PeakBytes, live);
            self.set_global(GlobalCounter::PeakTime, time.0);
            self.set_global(GlobalCounter::PeakBlocks, u64::from(self.live_blocks));
        }
    }
}
