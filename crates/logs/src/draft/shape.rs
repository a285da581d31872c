//! What is known of each block, and where it lies in an element.

use heapledger_format::bytes::WordSize;
use heapledger_format::{Field, RecordLayout};

/// What is known of each block beside its number, its size and its stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DraftShape {
    /// Addresses.
    pub addresses: bool,
    /// Threads or tasks.
    pub threads: bool,
    /// Heaps.
    pub heaps: bool,
    /// Frees.
    pub history: bool,
    /// Processor cores.
    pub cores: Cores,
    /// Times: nanoseconds of a tick.
    pub tick_ns: Option<u32>,
}

/// What is known of the core that something was done on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cores {
    /// Nothing.
    #[default]
    Unknown,
    /// That of the allocation, and what its counter said.
    OfAllocations,
    /// That of the allocation and that of the free; their counters are not known.
    OfBoth,
}

const RECORD_BITS: u16 = 256;
const CYCLES_BITS: u16 = 64;

impl DraftShape {
    /// Bits of a record.
    fn record_bits(&self) -> u16 {
        RECORD_BITS + if self.cores == Cores::Unknown { 0 } else { CYCLES_BITS }
    }

    pub(super) fn record_bytes(&self) -> usize {
        usize::from(self.record_bits()) / 8
    }

    pub(super) fn history_bytes(&self) -> usize {
        self.record_bytes() * 2
    }

    /// The places of a usual 64-bit ledger; what is not known has none.
    pub(super) fn layout(&self) -> RecordLayout {
        let (cycles, end) = (RECORD_BITS, self.record_bits());
        let times = self.tick_ns.is_some();
        let places = [
            (true, Field::Number, 48, 0),
            (self.threads, Field::Thread, 16, 48),
            (self.addresses, Field::Address, 48, 64),
            (true, Field::Kind, 6, 112),
            (self.heaps, Field::Heap, 8, 120),
            (true, Field::Size, 32, 128),
            (true, Field::Site, 32, 160),
            (times, Field::Time, 44, 192),
            (self.cores == Cores::OfAllocations, Field::Cycles, 32, cycles),
            (self.cores != Cores::Unknown, Field::Core, 8, cycles + 32),
            (self.history, Field::FreedNumber, 48, end),
            (self.history && self.threads, Field::FreedThread, 16, end + 48),
            (self.history, Field::FreedSite, 32, end + 64),
            (self.history, Field::FreedBy, 6, end + 96),
            (self.history, Field::FreedLater, 26, end + 102),
            (self.history && times, Field::FreedTime, 44, end + 128),
            (self.history, Field::FreedWide, 64, end + 192),
            (self.history && self.cores == Cores::OfBoth, Field::FreedCore, 8, end + 288),
        ];
        let recorded = places.iter().filter(|(recorded, ..)| *recorded);
        recorded.fold(RecordLayout::empty(WordSize::W64), |layout, (_, field, width, at)| {
            layout.with(*field as u8, *width, *at).unwrap_or(layout)
        })
    }
}
