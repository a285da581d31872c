//! The ledger as the policy sees it.

use super::ChipLedger;
use super::config::SectionPlace;
use crate::backend::{Backend, Change, Ended, Freed, Inserted, Measure, Number, Slot};
use heapledger_format::header::{State, at};
use heapledger_format::layout::Field;
use heapledger_format::record::Options;
use heapledger_format::section::thread;
use heapledger_format::{Entry, FreedEntry, GlobalCounter, Kind, SectionKind, TallyCounter, ThreadRow, Ticks};

/// The highest number: plus 1 it is the highest commit word.
const NUMBER_MAX: u64 = u32::MAX as u64 - 1;

/// The bytes of one element.
fn element(region: &mut [u8], section: SectionPlace, index: u32) -> &mut [u8] {
    let start = section.element(index);
    region.get_mut(start..start.wrapping_add(section.element_bytes)).unwrap_or(&mut [])
}

impl ChipLedger<'_> {
    fn set_field(&mut self, slot: Slot, field: Field, value: u64) {
        let record = element(self.region, self.plan.records, slot.0);
        self.plan.layout.put(self.plan.codec, record, field, value);
    }

    fn load(&mut self, slot: Slot) -> Option<Entry> {
        let record = element(self.region, self.plan.records, slot.0);
        Entry::read(&self.plan.layout, self.plan.codec, record)
    }
}

impl Backend for ChipLedger<'_> {
    fn now(&mut self) -> Ticks {
        if self.plan.options.has(Options::TIME) { self.time() } else { Ticks(0) }
    }

    fn number(&mut self) -> Option<Number> {
        let number = self.global(GlobalCounter::NextNumber);
        if number > NUMBER_MAX {
            return None;
        }
        self.set_global(GlobalCounter::NextNumber, number.wrapping_add(1));
        Some(Number(number))
    }

    fn thread(&mut self) -> Option<ThreadRow> {
        self.task
    }

    /// Vacant slots hang on each other by their address words.
    fn take_slot(&mut self) -> Option<Slot> {
        if let Some(slot) = self.free.checked_sub(1).map(Slot) {
            self.free = self.address_in(slot) as u32;
            return Some(slot);
        }
        if self.slots_used == self.plan.records.count {
            self.set_state(State::Full);
            return None;
        }
        self.slots_used = self.slots_used.wrapping_add(1);
        self.set_used(SectionKind::Records, self.slots_used);
        Some(Slot(self.slots_used.wrapping_sub(1)))
    }

    fn release_slot(&mut self, slot: Slot) {
        self.set_field(slot, Field::Address, u64::from(self.free));
        self.free = slot.0.wrapping_add(1);
        if self.get(at::STATE, 1) == State::Full as u64 {
            self.set_state(State::Recording);
        }
    }

    fn publish(&mut self, slot: Slot, entry: &Entry) {
        let record = element(self.region, self.plan.records, slot.0);
        if entry.write(&self.plan.layout, self.plan.codec, record) {
            // There is no section for figures that do not fit.
            self.add_tally(TallyCounter::WideLost, 1);
        }
    }

    fn measure(&mut self, slot: Slot) -> Option<Measure> {
        Some(Measure { bytes: self.load(slot)?.size.unwrap_or(0), weight: 1 })
    }

    fn vacate(&mut self, slot: Slot) {
        self.set_field(slot, Field::Number, 0);
    }

    fn insert(&mut self, address: u64, slot: Slot) -> Inserted {
        self.index_insert(address, slot)
    }

    fn remove(&mut self, address: u64) -> Option<Slot> {
        self.index_remove(address)
    }

    fn history(&mut self, slot: Slot, freed: &Freed) {
        let ring = self.plan.history;
        if ring.count == 0 {
            return;
        }
        let Some(block) = self.load(slot) else { return };
        let Freed { number, later, ended: Ended { by, site }, time } = *freed;
        let (number, time) = (number.0, Some(time));
        let freed = FreedEntry { block, number, later, by, site, thread: self.thread(), time };
        let entry = element(self.region, ring, self.ring_next);
        freed.write(&self.plan.layout, self.plan.codec, entry);
        self.add_tally(TallyCounter::HistoryEntered, 1);
        self.ring_next = self.ring_next.wrapping_add(1);
        if self.ring_next > self.ring_used {
            self.ring_used = self.ring_next;
            self.set_used(SectionKind::History, self.ring_used);
        }
        if self.ring_next == ring.count {
            self.ring_next = 0;
            if let Some(full) = self.notices.history_full {
                full();
            }
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
    fn count_call(&mut self, _kind: Kind, _began: bool, _amount: u64) {}

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
