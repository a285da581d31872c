//! The row of the side table that a block has, and what can be read from it while others change it.

#![forbid(unsafe_code)]

use super::found::Found;
use crate::alone::exchange;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// Where a block is in its life, as its state's lowest bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(super) enum Kind {
    /// There was no block here yet.
    Vacant = 0,
    /// A block that is being made: its row is being written.
    Filling = 1,
    /// The program has it.
    Live = 2,
    /// It is being freed: whoever made it so is alone with it.
    Freeing = 3,
    /// It waits, with its fill or its pages closed.
    Freed = 4,
    /// It waits no more and may be handed out again.
    Released = 5,
}

const KIND: u64 = 7;
/// Bits of a state beside its kind.
pub(super) mod flag {
    /// Somebody looks at the block: who frees it leaves to that one to close its pages.
    pub(in crate::arena) const PINNED: u64 = 8;
    /// A page of its run was opened, after a fault.
    pub(in crate::arena) const OPENED: u64 = 16;
    /// All that lies in its run is zeros.
    pub(in crate::arena) const CLEAN: u64 = 32;
}
/// Above the flags stands how many lives the row has had.
const LIFE_SHIFT: u32 = 8;
const LIFE: u64 = 1 << LIFE_SHIFT;

/// A state as it was at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State(u64);

impl State {
    pub(super) fn kind(self) -> Kind {
        match self.0 & KIND {
            1 => Kind::Filling,
            2 => Kind::Live,
            3 => Kind::Freeing,
            4 => Kind::Freed,
            5 => Kind::Released,
            _ => Kind::Vacant,
        }
    }

    #[inline(always)]
    fn is_live(self) -> bool {
        self.0 & KIND == Kind::Live as u64
    }

    pub(super) fn has(self, flag: u64) -> bool {
        self.0 & flag != 0
    }

    pub(super) fn life(self) -> u64 {
        self.0.wrapping_shr(LIFE_SHIFT)
    }

    pub(super) fn with(self, kind: Kind) -> Self {
        Self(self.0 & !KIND | kind as u64)
    }

    pub(super) fn without(self, flags: u64) -> Self {
        Self(self.0 & !flags)
    }

    pub(super) fn and(self, flag: u64) -> Self {
        Self(self.0 | flag)
    }

    /// The next life's, without flags but those of its run.
    fn born(self) -> Self {
        let life = self.0.wrapping_add(LIFE) & !LIFE.wrapping_sub(1);
        Self(life | self.0 & (flag::CLEAN | flag::OPENED) | Kind::Filling as u64)
    }
}

/// One block's row of the side table. All zeros are one that never had a block.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Slot {
    state: AtomicU64,
    /// Where its run begins, in sixteens of bytes from the range's first, and above that its class: written once.
    home: AtomicU64,
    /// Its bytes, and above them its alignment.
    size: AtomicU64,
    /// Bytes from the run's beginning to the block.
    lead: AtomicU32,
    /// What stands below it in the stack of free ones; of small runs of the level `full` which one of all they are.
    link: AtomicU32,
    allocated: [AtomicU64; 2],
    freed: [AtomicU64; 2],
}

/// Above a size stands what it is aligned to, as a power of two.
const SIZE_BITS: u32 = 48;

fn word_of_size(size: u64, alignment: u64) -> u64 {
    u64::from(alignment.trailing_zeros()).wrapping_shl(SIZE_BITS) | size
}

fn size_of_word(word: u64) -> (u64, u32) {
    (word & 1u64.wrapping_shl(SIZE_BITS).wrapping_sub(1), word.wrapping_shr(SIZE_BITS) as u32)
}

const HOME_BITS: u32 = 48;
const HOME: u64 = (1 << HOME_BITS) - 1;
/// What places are multiples of.
const PLACE_BYTES: u64 = 16;

/// Where a row's block lies, and what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PlaceOfBlock {
    pub(super) state: State,
    /// Bytes from the range's first to the run's, and the run's class.
    pub(super) home: u64,
    pub(super) class: usize,
    pub(super) lead: u64,
    pub(super) size: u64,
    /// What it was asked for with, as a power of two.
    pub(super) alignment_log2: u32,
}

impl PlaceOfBlock {
    /// Where its block begins, in a range that begins here.
    pub(super) fn start(&self, first: u64) -> u64 {
        first.wrapping_add(self.home).wrapping_add(self.lead)
    }
}

/// What a row says of its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) place: PlaceOfBlock,
    pub(super) allocated: [u64; 2],
    pub(super) freed: [u64; 2],
}

fn load(words: &[AtomicU64; 2]) -> [u64; 2] {
    let [one, other] = words;
    [one.load(Ordering::Relaxed), other.load(Ordering::Relaxed)]
}

fn store(words: &[AtomicU64; 2], values: [u64; 2]) {
    for (word, value) in words.iter().zip(values) {
        word.store(value, Ordering::Relaxed);
    }
}

impl Slot {
    /// Says where its run lies. The row is nobody else's yet.
    pub(super) fn settle(&self, home: u64, class: usize, flags: u64) {
        let place = home.checked_div(PLACE_BYTES).unwrap_or(0);
        self.home.store(place & HOME | (class as u64).wrapping_shl(HOME_BITS), Ordering::Relaxed);
        self.state.store(flags, Ordering::Relaxed);
    }

    pub(super) fn state(&self) -> State {
        State(self.state.load(Ordering::Acquire))
    }

    /// Whether the state still is that one, after what was read before this call.
    pub(super) fn is_still(&self, state: State) -> bool {
        fence(Ordering::Acquire);
        let now = State(self.state.load(Ordering::Relaxed));
        now.kind() == state.kind() && now.life() == state.life()
    }

    /// Changes the state if it is that one.
    pub(super) fn change(&self, from: State, to: State) -> Result<(), State> {
        match exchange(&self.state, from.0, to.0, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Ok(()),
            Err(now) => Err(State(now)),
        }
    }

    /// Changes the kind, of whoever is alone with the block, and takes flags away; others may set and take away flags
    /// meanwhile. The state before.
    pub(super) fn turn(&self, kind: Kind, without: u64) -> State {
        let mut state = self.state();
        loop {
            match self.change(state, state.with(kind).without(without)) {
                Ok(()) => return state,
                Err(now) => state = now,
            }
        }
    }

    /// Begins another life, of whoever has taken it from a stack. The state before.
    pub(super) fn begin(&self) -> State {
        let mut state = self.state();
        loop {
            match self.change(state, state.born()) {
                Ok(()) => return state,
                Err(now) => state = now,
            }
        }
    }

    /// As [`turn`](Self::turn), where nobody sets flags meanwhile: a store in place of an exchange.
    pub(super) fn put(&self, kind: Kind, without: u64) {
        let state = State(self.state.load(Ordering::Relaxed)).with(kind).without(without);
        self.state.store(state.0, Ordering::Release);
    }

    /// As [`begin`](Self::begin), where nobody sets flags meanwhile.
    pub(super) fn put_begun(&self) -> State {
        let state = State(self.state.load(Ordering::Relaxed));
        self.state.store(state.born().0, Ordering::Relaxed);
        // Who sees what is written after this sees that it begins.
        fence(Ordering::Release);
        state
    }

    pub(super) fn set(&self, flag: u64) {
        self.state.fetch_or(flag, Ordering::AcqRel);
    }

    pub(super) fn clear(&self, flag: u64) {
        self.state.fetch_and(!flag, Ordering::AcqRel);
    }

    /// Where its run begins and of which class it is.
    pub(super) fn home(&self) -> (u64, usize) {
        let home = self.home.load(Ordering::Relaxed);
        ((home & HOME).wrapping_mul(PLACE_BYTES), home.wrapping_shr(HOME_BITS) as usize)
    }

    /// Says what block it has, while it is being made.
    pub(super) fn describe(&self, lead: u64, (size, alignment): (u64, u64), allocated: [u64; 2]) {
        self.lead.store(lead as u32, Ordering::Relaxed);
        self.size.store(word_of_size(size, alignment), Ordering::Relaxed);
        store(&self.allocated, allocated);
        store(&self.freed, [0; 2]);
    }

    /// Says what is kept of it, whenever that is known.
    pub(super) fn annotate(&self, allocated: [u64; 2], freed: [u64; 2]) {
        store(&self.allocated, allocated);
        store(&self.freed, freed);
    }

    /// Says what is kept of its end, while it is being freed; zeros: those of [`annotate`](Self::annotate) stay.
    pub(super) fn describe_end(&self, freed: [u64; 2]) {
        if freed != [0; 2] {
            store(&self.freed, freed);
        }
    }

    /// Where its block lies. `None` if there is none. It may be of several moments, of which the first is the state's:
    /// [`is_still`](Self::is_still) says whether that was the last one as well.
    #[inline(always)]
    pub(super) fn place_begun(&self) -> Option<PlaceOfBlock> {
        let place = self.read_place();
        (!matches!(place.state.kind(), Kind::Vacant | Kind::Filling)).then_some(place)
    }

    /// The same, `None` as well if the program does not have it.
    #[inline(always)]
    pub(super) fn live(&self) -> Option<PlaceOfBlock> {
        let place = self.read_place();
        place.state.is_live().then_some(place)
    }

    #[inline(always)]
    fn read_place(&self) -> PlaceOfBlock {
        let state = self.state();
        let (home, class) = self.home();
        let lead = u64::from(self.lead.load(Ordering::Relaxed));
        let (size, alignment_log2) = size_of_word(self.size.load(Ordering::Relaxed));
        PlaceOfBlock { state, home, class, lead, size, alignment_log2 }
    }

    /// Where its block lies, all of one moment. `None` if there is none, or the row does not hold still.
    #[inline(always)]
    pub(super) fn place(&self) -> Option<PlaceOfBlock> {
        self.place_begun().filter(|place| self.is_still(place.state))
    }

    /// What the row says of a block whose place is that one, beside it.
    pub(super) fn row_of(&self, place: PlaceOfBlock) -> Row {
        let has_ended = matches!(place.state.kind(), Kind::Freed | Kind::Released);
        let freed = if has_ended { load(&self.freed) } else { [0; 2] };
        Row { place, allocated: load(&self.allocated), freed }
    }

    /// What the row says, all of one moment. `None` if there is no block, or it does not hold still.
    pub(super) fn row(&self) -> Option<Row> {
        for _ in 0..8 {
            let row = self.row_of(self.place_begun()?);
            if self.is_still(row.place.state) {
                return Some(row);
            }
        }
        None
    }

    /// A row of another process, as it was copied.
    pub(crate) fn copied(bytes: &[u8; 64]) -> Self {
        let mut words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
        let mut next = || words.next().unwrap_or(0);
        let (state, home, size, lead_and_link) = (next(), next(), next(), next());
        let mut pair = || [AtomicU64::new(next()), AtomicU64::new(next())];
        Self {
            state: AtomicU64::new(state),
            home: AtomicU64::new(home),
            size: AtomicU64::new(size),
            lead: AtomicU32::new(lead_and_link as u32),
            link: AtomicU32::new(lead_and_link.wrapping_shr(32) as u32),
            allocated: pair(),
            freed: pair(),
        }
    }

    /// The row as it lies in memory.
    #[doc(hidden)]
    pub fn bytes(&self) -> [u8; 64] {
        let Self { state, home, size, lead, link, allocated: [a, b], freed: [c, d] } = self;
        let half = |word: &AtomicU32| u64::from(word.load(Ordering::Relaxed));
        let pair = half(lead) | half(link).wrapping_shl(32);
        let word = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let words = [word(state), word(home), word(size), pair, word(a), word(b), word(c), word(d)];
        let mut bytes = [0; 64];
        for (place, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *place = word.to_le_bytes();
        }
        bytes
    }

    /// Its block, in a range that begins here, seen from its first byte.
    pub(crate) fn found(&self, first: u64, number: u32) -> Option<Found> {
        let block = Found::new(&self.row()?, first, number, 0);
        Some(Found { offset: 0, ..block })
    }

    pub(super) fn link(&self) -> u32 {
        self.link.load(Ordering::Relaxed)
    }

    pub(super) fn set_link(&self, link: u32) {
        self.link.store(link, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_takes_a_line_of_the_cache() {
        assert_eq!((size_of::<Slot>(), align_of::<Slot>()), (64, 64));
    }

    #[test]
    fn flags_last_as_long_as_they_are_meant_to() {
        let slot = Slot::default();
        slot.settle(4096, 7, flag::CLEAN);
        assert!(slot.row().is_none(), "no block yet");
        assert!(slot.begin().has(flag::CLEAN));
        assert!(slot.row().is_none(), "not yet a block");
        slot.describe(32, (100, 64), [1, 2]);
        slot.turn(Kind::Live, flag::CLEAN);
        slot.set(flag::OPENED);
        let row = slot.row().expect("live");
        let PlaceOfBlock { state, home, class, lead, size, alignment_log2 } = row.place;
        assert_eq!(alignment_log2, 6);
        assert_eq!((home, class, lead, size, row.allocated), (4096, 7, 32, 100, [1, 2]));
        assert_eq!((state.kind(), state.life()), (Kind::Live, 1));
        assert!(state.has(flag::OPENED) && !state.has(flag::CLEAN));
        assert!(slot.change(state.with(Kind::Freed), state).is_err(), "another state");
        slot.turn(Kind::Released, 0);
        assert!(!slot.begin().has(flag::CLEAN));
        assert_eq!(slot.state().life(), 2);
        assert!(slot.state().has(flag::OPENED), "its pages are as they were");
    }
}
