//! Memory of a test's with pages that can be closed: whoever touches a closed one, or what lies elsewhere, ends the test.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};

use heapledger_guard::groups::Group;
use heapledger_guard::{Damage, Finding, Full, Memory, Region, Slot, System, Tables};

pub(crate) const PAGE: u64 = 4096;

/// A range of addresses.
pub(crate) struct Land {
    pub(crate) first: u64,
    bytes: Vec<AtomicU8>,
    closed: Vec<AtomicBool>,
    /// Whether pages cannot be closed, opened, discarded.
    pub(crate) no_close: AtomicBool,
    pub(crate) no_open: AtomicBool,
    pub(crate) no_discard: AtomicBool,
    pub(crate) calls: AtomicUsize,
}

impl Land {
    pub(crate) fn new(first: u64, bytes: u64, closed: bool) -> Self {
        Self {
            first,
            bytes: (0..bytes).map(|_| AtomicU8::new(0)).collect(),
            closed: (0..bytes / PAGE).map(|_| AtomicBool::new(closed)).collect(),
            no_close: AtomicBool::new(false),
            no_open: AtomicBool::new(false),
            no_discard: AtomicBool::new(false),
            calls: AtomicUsize::new(0),
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    pub(crate) fn end(&self) -> u64 {
        self.first + self.bytes()
    }

    pub(crate) fn is_closed(&self, address: u64) -> bool {
        self.closed[((address - self.first) / PAGE) as usize].load(Ordering::Relaxed)
    }

    fn place(&self, address: u64, bytes: usize) -> usize {
        let place = address.checked_sub(self.first).expect("in front of the range") as usize;
        assert!(place + bytes <= self.bytes.len(), "behind the range");
        for at in [address, address + bytes as u64 - 1] {
            assert!(!self.is_closed(at), "{at:#x} is closed");
        }
        place
    }

    pub(crate) fn get(&self, address: u64) -> u8 {
        self.bytes[self.place(address, 1)].load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self, address: u64, byte: u8) {
        self.bytes[self.place(address, 1)].store(byte, Ordering::Relaxed);
    }

    /// Whether all of a block holds one byte.
    pub(crate) fn holds(&self, address: u64, bytes: u64, byte: u8) -> bool {
        (address..address + bytes).all(|at| self.get(at) == byte)
    }

    pub(crate) fn write_all(&self, address: u64, bytes: u64, byte: u8) {
        (address..address + bytes).for_each(|at| self.set(at, byte));
    }

    fn turn(&self, first: u64, bytes: u64, closed: bool) {
        assert!(first.is_multiple_of(PAGE) && bytes.is_multiple_of(PAGE) && bytes > 0, "{first:#x} {bytes:#x}");
        assert!(first >= self.first && first + bytes <= self.end(), "{first:#x} {bytes:#x} is elsewhere");
        let from = ((first - self.first) / PAGE) as usize;
        for page in &self.closed[from..][..(bytes / PAGE) as usize] {
            page.store(closed, Ordering::Relaxed);
        }
    }
}

impl Memory for Land {
    fn read<const BYTES: usize>(&self, address: u64) -> Option<[u8; BYTES]> {
        let place = self.place(address, BYTES);
        Some(core::array::from_fn(|byte| self.bytes[place + byte].load(Ordering::Relaxed)))
    }

    fn write<const BYTES: usize>(&self, address: u64, bytes: [u8; BYTES]) -> Option<()> {
        let place = self.place(address, BYTES);
        for (at, byte) in self.bytes[place..].iter().zip(bytes) {
            at.store(byte, Ordering::Relaxed);
        }
        Some(())
    }
}

impl System for Land {
    fn close(&self, first: u64, bytes: u64) -> bool {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if self.no_close.load(Ordering::Relaxed) {
            return false;
        }
        let from = (first - self.first) as usize;
        self.turn(first, bytes, true);
        self.bytes[from..][..bytes as usize].iter().for_each(|byte| byte.store(0, Ordering::Relaxed));
        true
    }

    fn open(&self, first: u64, bytes: u64) -> bool {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if self.no_open.load(Ordering::Relaxed) {
            return false;
        }
        self.turn(first, bytes, false);
        true
    }

    fn discard(&self, first: u64, bytes: u64) -> bool {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if self.no_discard.load(Ordering::Relaxed) {
            return false;
        }
        let place = self.place(first, bytes as usize);
        self.bytes[place..][..bytes as usize].iter().for_each(|byte| byte.store(0, Ordering::Relaxed));
        true
    }
}

/// Tables with so many rows, words for units, and places in the queue.
pub(crate) fn tables(slots: usize, units: u64, queue: usize) -> Tables {
    fn words(count: usize) -> &'static [AtomicU64] {
        (0..count).map(|_| AtomicU64::new(0)).collect::<Vec<_>>().leak()
    }
    Tables {
        slots: (0..slots).map(|_| Slot::default()).collect::<Vec<_>>().leak(),
        units: words(units as usize),
        queue: words(queue),
        groups: (0..units * u64::from(Full::GROUPS_PER_UNIT)).map(|_| Group::default()).collect::<Vec<_>>().leak(),
    }
}

/// What was told of damage: the block's beginning, the part, the offset, and the bytes.
pub(crate) type Told = (u64, Region, i64, u64);

pub(crate) fn told(list: &mut Vec<Told>) -> impl FnMut(&Finding) + '_ {
    |finding| {
        let Damage { region, offset, bytes, .. } = finding.damage;
        list.push((finding.block.start, region, offset, bytes));
    }
}

/// For what must find nothing.
pub(crate) fn silent(finding: &Finding) {
    panic!("a damage that nobody did: {finding:?}");
}

/// Random numbers that are the same in every run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}
