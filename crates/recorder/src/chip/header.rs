//! A ledger that holds nothing yet.
//!
//! Written number by number: [`heapledger_format::Header`] takes 2.5 KiB of stack, and that is more
//! than many a chip's main stack has.

use super::ChipLedger;
use super::config::{Config, SectionPlace};
use heapledger_format::bytes::WordSize;
use heapledger_format::header::{MAGIC, State, at, counter_at, rows_at};
use heapledger_format::layout::DESCRIPTOR_BYTES;
use heapledger_format::section::{SectionRow, heap, row};
use heapledger_format::{SectionKind, VERSION};

const WORD: WordSize = WordSize::W32;

impl ChipLedger<'_> {
    /// Writes all that does not change later. The byte order mark comes last: a reader that finds 0
    /// there is told that the ledger is not ready.
    pub(super) fn set_up(&mut self, config: &Config) {
        let plan = self.plan;
        if let Some(bytes) = self.region.get_mut(..plan.bytes) {
            bytes.fill(0);
        }
        self.copy(0, &MAGIC);
        self.copy(at::ID, &config.id);
        let descriptors = plan.layout.descriptors();
        for (place, width, value) in [
            (at::VERSION, 1, u64::from(VERSION)),
            (at::WORD, 1, WORD.bytes() as u64),
            (at::MACHINE, 2, u64::from(config.machine)),
            (at::OPTIONS, 4, u64::from(plan.options.0)),
            (at::TICK_NS, 4, u64::from(config.tick_ns)),
            (at::HEADER_BYTES, 2, plan.header_bytes as u64),
            (at::DESCRIPTORS, 1, descriptors.len() as u64),
            (at::COUNTERS, 1, plan.counters as u64),
            (at::SECTIONS, 1, plan.sections as u64),
            (at::STATE, 1, State::Recording as u64),
            (at::DEPTH_LIMIT, 2, u64::from(config.depth)),
            (at::GLOBALS, 1, plan.globals as u64),
        ] {
            self.put(place, width, value);
        }
        for (index, descriptor) in descriptors.iter().enumerate() {
            let place = counter_at(WORD, plan.counters).wrapping_add(index.wrapping_mul(DESCRIPTOR_BYTES));
            self.put(place, 1, u64::from(descriptor.field));
            self.put(place.wrapping_add(1), 1, u64::from(descriptor.width_bits));
            self.put(place.wrapping_add(2), 2, u64::from(descriptor.at_bit));
        }
        self.describe_sections(descriptors.len());
        self.vacate_sites();
        self.describe_heaps(config);
        self.copy(plan.process.at, config.process);
        self.put(at::BYTE_ORDER, 2, 0x0102);
    }

    fn sections(&self) -> [(SectionKind, SectionPlace, bool); 8] {
        let plan = &self.plan;
        // Records, history and tasks are handed out one by one, and a reader looks no further.
        [
            (SectionKind::Records, plan.records, false),
            (SectionKind::History, plan.history, false),
            (SectionKind::Sites, plan.sites, true),
            (SectionKind::Index, plan.index, true),
            (SectionKind::Threads, plan.tasks, false),
            (SectionKind::Heaps, plan.heaps, true),
            (SectionKind::Strings, plan.strings, true),
            (SectionKind::Process, plan.process, true),
        ]
    }

    fn describe_sections(&mut self, descriptors: usize) {
        let first = rows_at(WORD, self.plan.counters, descriptors);
        let there = self.sections().into_iter().filter(|(_, place, _)| place.count != 0);
        for (index, (kind, place, all_used)) in there.enumerate() {
            let count = u64::from(place.count);
            let section = SectionRow {
                kind: kind as u16,
                element_bytes: place.element_bytes as u16,
                offset: place.at as u64,
                capacity: count,
                used: if all_used { count } else { 0 },
                backed: count,
            };
            if let Some(bytes) = self.region.get_mut(first.wrapping_add(index.wrapping_mul(row::bytes(WORD)))..) {
                section.write(self.plan.codec, bytes);
            }
        }
    }

    /// Tells readers how many elements of a section are in use.
    pub(super) fn set_used(&mut self, kind: SectionKind, used: u32) {
        let mut there = self.sections().into_iter().filter(|(_, place, _)| place.count != 0);
        if let Some(index) = there.position(|(other, ..)| other == kind) {
            let first = rows_at(WORD, self.plan.counters, self.plan.layout.descriptors().len());
            self.put(
                first.wrapping_add(index.wrapping_mul(row::bytes(WORD))).wrapping_add(row::used(WORD)),
                4,
                u64::from(used),
            );
        }
    }

    fn describe_heaps(&mut self, config: &Config) {
        let (heaps, strings) = (self.plan.heaps, self.plan.strings);
        let mut name_at = 0;
        for (index, described) in (0..heaps.count).zip(config.heaps) {
            let element = heaps.element(index);
            self.put(element.wrapping_add(heap::state(WORD)), 4, 1);
            self.put(element.wrapping_add(heap::name_at(WORD)), 4, name_at as u64);
            self.put(element.wrapping_add(heap::name_bytes(WORD)), 4, described.name.len() as u64);
            self.put(element.wrapping_add(heap::low(WORD)), 4, u64::from(described.low));
            self.put(element.wrapping_add(heap::high(WORD)), 4, u64::from(described.high));
            self.copy(strings.at.wrapping_add(name_at), described.name.as_bytes());
            name_at = name_at.wrapping_add(described.name.len());
        }
    }

    pub(super) fn copy(&mut self, place: usize, bytes: &[u8]) {
        if let Some(to) = self.region.get_mut(place..).and_then(|rest| rest.get_mut(..bytes.len())) {
            to.copy_from_slice(bytes);
        }
    }
}
