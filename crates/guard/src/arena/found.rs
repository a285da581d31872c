//! What is asked of an arena, and what it says.

#![forbid(unsafe_code)]

use core::sync::atomic::AtomicU64;

use super::slot::{Kind, Row, Slot, flag};
use crate::check::Damage;
use crate::groups::Group;
use crate::memory::Memory;

/// Memory, and what an operating system does with pages of it.
pub trait System: Memory {
    /// Makes every access to these pages fault, and lets go of what is in them. `false` if it cannot be done.
    fn close(&self, first: u64, bytes: u64) -> bool;

    /// Makes pages that were closed readable and writable: zeros. Does nothing to those that are open. `false` if it cannot be
    /// done.
    fn open(&self, first: u64, bytes: u64) -> bool;

    /// Lets go of what is in these pages. Whether all of them are zeros now.
    fn discard(&self, first: u64, bytes: u64) -> bool;
}

/// What the caller lends an arena for good: private memory of all zeros that nobody else uses. Parts that were never needed are
/// never touched.
#[derive(Clone, Copy, Debug)]
pub struct Tables {
    /// A row for each block that is live or waits.
    pub slots: &'static [Slot],
    /// A word for each unit of the range.
    pub units: &'static [AtomicU64],
    /// A power of two of words, twice as many as blocks may wait.
    pub queue: &'static [AtomicU64],
    /// [`Full::GROUPS_PER_UNIT`](crate::Full::GROUPS_PER_UNIT) for each of its units; none of them for [`Closed`](crate::Closed).
    pub groups: &'static [Group],
}

/// What a block holds when the program gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// Whatever is there.
    Nothing,
    /// Zeros.
    Zero,
    /// This byte, as far as the limits of the arena say.
    Byte(u8),
}

/// A block to be made.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Bytes, also none.
    pub size: u64,
    /// Of its first byte; a power of two.
    pub alignment: u64,
    /// What it holds.
    pub fill: Fill,
    /// What the caller wants to know of it later.
    pub words: [u64; 2],
}

/// Why there is no block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Larger than the range, or not to be aligned so.
    TooLarge,
    /// Range or rows are used up.
    NoRoom,
    /// So many are live as the limits allow.
    Budget,
    /// The system would not close or open pages.
    System,
}

/// Where a block is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// The program has it.
    Live,
    /// It is being freed at this moment.
    Freeing,
    /// It was freed, and waits.
    Freed,
    /// It was freed, has waited, and its memory may be handed out again.
    Released,
}

/// A block as the side table knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its first byte.
    pub start: u64,
    /// What was asked for.
    pub size: u64,
    /// Where it is in its life.
    pub life: Life,
    /// The words of its [`Request`].
    pub allocated: [u64; 2],
    /// The words it was freed with, zeros before.
    pub freed: [u64; 2],
    /// Bytes from its first to the address that was asked about: negative in front of it.
    pub offset: i64,
    /// Whether one of its pages, or of those beside it, was opened after a fault.
    pub opened: bool,
    /// Which block of its row this is: with another number it is another block.
    pub life_number: u64,
    pub(super) slot: u32,
}

/// Where an address lies, by the block next to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// So many bytes in front of its first.
    Before(u64),
    /// So many bytes behind its first.
    Inside(u64),
    /// So many bytes behind its last but one: 0 is the first that is not its own.
    Behind(u64),
}

impl Life {
    pub(super) fn of(kind: Kind) -> Self {
        match kind {
            Kind::Live => Life::Live,
            Kind::Freed => Life::Freed,
            Kind::Released => Life::Released,
            _ => Life::Freeing,
        }
    }
}

impl Found {
    pub(super) fn new(row: &Row, first: u64, slot: u32, address: u64) -> Self {
        let place = &row.place;
        let start = place.start(first);
        Self {
            start,
            size: place.size,
            life: Life::of(place.state.kind()),
            allocated: row.allocated,
            freed: row.freed,
            offset: address.wrapping_sub(start) as i64,
            opened: place.state.has(flag::OPENED),
            life_number: place.state.life(),
            slot,
        }
    }

    /// The first byte that is not its own any more.
    pub fn end(&self) -> u64 {
        self.start.wrapping_add(self.size)
    }

    /// Where the address lies that was asked about.
    pub fn position(&self) -> Position {
        match u64::try_from(self.offset) {
            Err(_) => Position::Before(self.offset.unsigned_abs()),
            Ok(offset) => match offset.checked_sub(self.size) {
                None => Position::Inside(offset),
                Some(behind) => Position::Behind(behind),
            },
        }
    }

    /// Bytes from the address to the block or its end, whichever is nearer; 0 inside.
    pub(super) fn distance(&self) -> u64 {
        match self.position() {
            Position::Before(bytes) => bytes,
            Position::Inside(_) => 0,
            Position::Behind(bytes) => bytes.wrapping_add(1),
        }
    }
}

/// Why a block was not freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotFreed {
    /// There never was a block where this address lies.
    NotOurs,
    /// It lies in a block or beside it, and is not its first byte.
    Interior(Found),
    /// It was freed before, or is being freed.
    Again(Found),
}

/// A block that is not as it was left.
#[derive(Clone, Copy, Debug)]
pub struct Finding {
    /// The block.
    pub block: Found,
    /// What of it: [`HeadCanary`](crate::Region::HeadCanary) is in front of it, [`TailCanary`](crate::Region::TailCanary) behind it.
    pub damage: Damage,
}

/// How far a sweep has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    pub(super) slot: u32,
}

impl Cursor {
    /// Where one has come that is kept as a number.
    pub fn at(place: u32) -> Self {
        Self { slot: place }
    }

    /// That number; 0 at the beginning.
    pub fn place(&self) -> u32 {
        self.slot
    }
}
