//! A program's memory in stretches that were read at once.

use std::cell::{Cell, RefCell};

use heapledger_guard::Memory;
use heapledger_source::ProgramMemory;

/// Bytes that are read at once, from the first that is wanted on.
const STRETCH_BYTES: usize = 64 << 10;
/// Where memory of no interest lies between what is, less is read.
const SHORT_BYTES: usize = 4 << 10;
/// Stretches that are kept: tables are gone through beside the blocks that they tell of.
const STRETCHES: usize = 16;

#[derive(Default)]
struct Stretch {
    first: u64,
    bytes: Vec<u8>,
    used: u64,
}

impl Stretch {
    fn from(&self, address: u64) -> Option<&[u8]> {
        let at = usize::try_from(address.checked_sub(self.first)?).ok()?;
        self.bytes.get(at..).filter(|bytes| !bytes.is_empty())
    }
}

/// Memory that is read as it is needed, and kept until it is [forgotten](Cached::forget).
pub(super) struct Cached<'m> {
    memory: &'m ProgramMemory,
    stretches: RefCell<[Stretch; STRETCHES]>,
    turn: Cell<u64>,
    stretch_bytes: usize,
    missed: Cell<bool>,
}

impl<'m> Cached<'m> {
    pub(super) fn new(memory: &'m ProgramMemory) -> Cached<'m> {
        Cached {
            memory,
            stretches: RefCell::default(),
            turn: Cell::new(0),
            stretch_bytes: STRETCH_BYTES,
            missed: Cell::new(false),
        }
    }

    /// For who looks here and there.
    pub(super) fn short(memory: &'m ProgramMemory) -> Cached<'m> {
        Cached { stretch_bytes: SHORT_BYTES, ..Cached::new(memory) }
    }

    /// What is read from now on is as it is then.
    pub(super) fn forget(&self) {
        self.stretches.borrow_mut().iter_mut().for_each(|stretch| stretch.bytes.clear());
    }

    /// Whether anything was wanted since the last time that could not be read.
    pub(super) fn has_missed(&self) -> bool {
        self.missed.take()
    }

    /// Gives the bytes from an address on to `with`, as many as are there in one stretch, at least one.
    fn stretch<T>(&self, address: u64, with: impl FnOnce(&[u8]) -> T) -> Option<T> {
        let turn = self.turn.get() + 1;
        self.turn.set(turn);
        let stretches = &mut *self.stretches.borrow_mut();
        if let Some(stretch) = stretches.iter_mut().find(|stretch| stretch.from(address).is_some()) {
            stretch.used = turn;
            return stretch.from(address).map(with);
        }
        let oldest = stretches.iter_mut().min_by_key(|stretch| stretch.used)?;
        oldest.bytes.resize(self.stretch_bytes, 0);
        let count = self.memory.read(address, &mut oldest.bytes);
        oldest.bytes.truncate(count);
        (oldest.first, oldest.used) = (address, turn);
        if count == 0 {
            self.missed.set(true);
            return None;
        }
        Some(with(&oldest.bytes))
    }
}

impl Memory for Cached<'_> {
    fn read<const BYTES: usize>(&self, address: u64) -> Option<[u8; BYTES]> {
        let mut bytes = [0; BYTES];
        let mut done = 0;
        while let Some(rest) = bytes.get_mut(done..).filter(|rest| !rest.is_empty()) {
            done += self.stretch(address.checked_add(done as u64)?, |there| {
                let count = rest.len().min(there.len());
                rest.iter_mut().zip(there).for_each(|(place, byte)| *place = *byte);
                count
            })?;
        }
        Some(bytes)
    }

    fn write<const BYTES: usize>(&self, _: u64, _: [u8; BYTES]) -> Option<()> {
        None
    }

    fn first_other(&self, address: u64, bytes: u64, byte: u8) -> Option<u64> {
        let end = address.checked_add(bytes)?;
        let mut at = address;
        while at < end {
            let found = self.stretch(at, |there| {
                let there = &there[..there.len().min(usize::try_from(end - at).unwrap_or(usize::MAX))];
                there.iter().position(|found| *found != byte).ok_or(there.len() as u64)
            })?;
            match found {
                Ok(place) => return at.checked_add(place as u64),
                Err(count) => at += count,
            }
        }
        None
    }
}
