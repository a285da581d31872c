//! A ledger that holds nothing yet.
//!
//! Written number by number: [`heapledger_format::Header`] takes 2.5 KiB of stack, and that is more
//! than many a chip's main stack has.

use super::ChipLedger;
use super::config::{Config, Plan, heap_bytes};
use super::shape::{Fixed, Shape};
use super::word::Word;
use core::borrow::BorrowMut;
use heapledger_format::VERSION;
use heapledger_format::header::{MAGIC, State, at};
use heapledger_format::layout::DESCRIPTOR_BYTES;
use heapledger_format::section::{heap, row};

impl<S: Shape, R: BorrowMut<[S::Word]>> ChipLedger<S, R> {
    /// Writes all that does not change later. The byte order mark comes last: a reader that finds 0
    /// there is told that the ledger is not ready.
    pub(super) fn set_up(&mut self, config: &Config, plan: &Plan) {
        if let Some(words) = self.region.borrow_mut().get_mut(..plan.bytes.div_ceil(S::WORD_BYTES)) {
            words.fill(S::Word::default());
        }
        self.copy(0, &MAGIC);
        self.copy(at::ID, &config.id);
        for (place, width, value) in [
            (at::VERSION, 1, u32::from(VERSION)),
            (at::WORD, 1, S::WORD_BYTES as u32),
            (at::MACHINE, 2, u32::from(config.machine)),
            (at::OPTIONS, 4, S::OPTIONS.0),
            (at::TICK_NS, 4, config.tick_ns),
            (at::HEADER_BYTES, 2, plan.header_bytes as u32),
            (at::DESCRIPTORS, 1, S::DESCRIPTORS as u32),
            (at::COUNTERS, 1, S::COUNTERS as u32),
            (at::SECTIONS, 1, plan.sections as u32),
            (at::STATE, 1, State::Recording as u32),
            (at::DEPTH_LIMIT, 2, u32::from(config.depth)),
            (at::GLOBALS, 1, S::GLOBALS as u32),
        ] {
            self.put(place, width, u64::from(value));
        }
        let mut place = S::DESCRIPTORS_AT;
        for descriptor in S::FIELDS.descriptors() {
            self.put(place, 1, u64::from(descriptor.field));
            self.put(place.wrapping_add(1), 1, u64::from(descriptor.width_bits));
            self.put(place.wrapping_add(2), 2, u64::from(descriptor.at_bit));
            place = place.wrapping_add(DESCRIPTOR_BYTES);
        }
        self.describe_sections(plan);
        self.vacate_sites();
        self.describe_heaps(config, plan);
        self.copy(plan.process.at.wrapping_mul(S::WORD_BYTES), config.process);
        self.put(at::BYTE_ORDER, 2, 0x0102);
    }

    fn describe_sections(&mut self, plan: &Plan) {
        let mut place = S::ROWS_AT;
        let word = S::Word::SIZE;
        let there = plan.sections::<S>().into_iter().filter(|(_, place, ..)| place.count != 0);
        for (kind, section, element_bytes, all_used) in there {
            let count = u64::from(section.count);
            self.put(place.wrapping_add(row::KIND), 2, u64::from(u16::from(kind)));
            self.put(place.wrapping_add(row::ELEMENT_BYTES), 2, element_bytes as u64);
            for (at, value) in [
                (row::offset(word), section.at.wrapping_mul(S::WORD_BYTES) as u64),
                (row::capacity(word), count),
                (row::used(word), if all_used { count } else { 0 }),
                (row::backed(word), count),
            ] {
                self.put(place.wrapping_add(at), S::WORD_BYTES, value);
            }
            place = place.wrapping_add(S::ROW_BYTES);
        }
    }

    fn describe_heaps(&mut self, config: &Config, plan: &Plan) {
        let word = S::Word::SIZE;
        let mut name_at = 0usize;
        let mut element = plan.heaps.at.wrapping_mul(S::WORD_BYTES);
        for (_, described) in (0..plan.heaps.count).zip(config.heaps) {
            for (at, width, value) in [
                (heap::state(word), 4, 1),
                (heap::name_at(word), 4, name_at as u64),
                (heap::name_bytes(word), 4, described.name.len() as u64),
                (heap::low(word), S::WORD_BYTES, described.low),
                (heap::high(word), S::WORD_BYTES, described.high),
            ] {
                self.put(element.wrapping_add(at), width, value);
            }
            let name = described.name.as_bytes();
            self.copy(plan.strings.at.wrapping_mul(S::WORD_BYTES).wrapping_add(name_at), name);
            name_at = name_at.wrapping_add(name.len());
            element = element.wrapping_add(heap_bytes::<S>());
        }
    }

    pub(super) fn copy(&mut self, place: usize, bytes: &[u8]) {
        for (place, byte) in (place..).zip(bytes) {
            self.put(place, 1, u64::from(*byte));
        }
    }
}
