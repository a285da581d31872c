//! A ledger in one region of memory, under the caller's critical section: for chips.
//!
//! *You supply* memory, a [`Shape`] (what is recorded, for how much there is room, a clock), and on every call the call
//! stack and the task; *this module* keeps a ledger in that memory which the ordinary reader reads out of a memory dump. There
//! is no lock in here and no atomic: call it with interrupts off, or under the lock of the heap. It
//! allocates nothing and never waits. There can be many ledgers, each with a region of its own, with 32-bit words or
//! with 64-bit ones.
//!
//! ```text
//! region:  header | records | history ring | call sites | code addresses | index | tasks | heaps | strings | process | notes
//!          header.rs  records.rs             sites.rs                    index.rs tasks.rs                       (places: plan.rs)
//! ```
//!
//! Where all of it lies follows from the shape, and the compiler knows it: a store into a record is a store. The descriptors in the header are
//! for readers. Every section but records and index is there only if the shape asks for it; a minimal ledger's header, descriptors
//! and section table take 256 bytes. Code addresses have a section of their own where words have 64 bits. Nothing is kept outside of
//! the region: whoever has its memory has the ledger.
//!
//! What an allocation, a free and a `realloc` mean is what [`crate::policy`] says, written down a second time: that one reckons in 64 bits, for
//! many threads, and took five times the code and ten times the instructions here. The same model holds for both (`tests/model` of
//! `heapledger-process`).
//!
//! While an update is under way the header's busy mark is set, as in eCos: a reader of a halted target
//! sees that what it reads may be half done.
//!
//! ```
//! use heapledger_recorder::chip::{Caller, ChipLedger, Config, NewBlock, Running, Shape};
//! use heapledger_format::Kind;
//!
//! struct Board;
//! impl Shape for Board {
//!     type Word = u32;
//!     const CONFIG: Config<'static> = Config { history: 16, ..Config::minimal(100, 200) };
//! }
//!
//! let region = [0; Board::CONFIG.words::<u32>()];
//! let mut ledger = ChipLedger::<Board, _>::new(region)?;
//! let caller = Caller { frames: &[0x0800_1234, 0x0800_0042], ..Caller::default() };
//! let block = NewBlock { kind: Kind::MALLOC, address: 0x2000_0100, size: 24, actual: None, heap: None };
//! assert!(ledger.allocated(&block, &caller));
//! assert!(ledger.freed(0x2000_0100, Kind::FREE, &caller));
//! # Ok::<(), heapledger_recorder::chip::ChipError>(())
//! ```

mod config;
mod errors;
mod header;
mod index;
mod live;
mod memory;
mod plan;
mod realloc;
mod records;
mod room;
mod shape;
mod sites;
mod tasks;
mod windows;
mod word;

#[cfg(test)]
mod tests;

pub use config::{ChipError, Clock, Config, HeapDescription, RegionBytes};
pub use errors::{BlockKnown, NewError};
pub use header::{BusyMark, busy_mark, first_word, header_unit_count, header_units, missed_frees_word, missed_word};
pub use live::LiveBlock;
pub use memory::{Cells, Memory, Table};
pub use room::Room;
pub use shape::Shape;
pub use windows::{ChipAccount, ChipSums, ChipWindow};
pub use word::Word;

use crate::backend::Slot;
use crate::policy::Reallocated;
use core::marker::PhantomData;
use core::sync::atomic::{Ordering, compiler_fence};
use heapledger_format::header::State;
use heapledger_format::{GlobalCounter, Kind, Site, TallyCounter};
use memory::ones;

use records::End;
use shape::Fixed;
use tasks::Row;

/// A block that an allocation function just returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewBlock<W = u32> {
    /// The function.
    pub kind: Kind,
    /// What it returned.
    pub address: W,
    /// Bytes asked for.
    pub size: W,
    /// Bytes it really has, if known.
    pub actual: Option<W>,
    /// The heap it came from: a row of [`Config::heaps`]. `None`: the one with that address.
    pub heap: Option<u8>,
}

/// Who runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Running<W = u32> {
    /// Nobody says.
    #[default]
    Unknown,
    /// The task with this handle.
    Task(W),
    /// An interrupt's handler, of whichever task it was.
    Interrupt,
}

/// Who calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller<'f, W = u32> {
    /// Return addresses, innermost frame first. (An address of 0 is nobody's.)
    pub frames: &'f [W],
    /// Who runs.
    pub running: Running<W>,
    /// Some of the frames are guesses.
    pub is_guessed: bool,
}

impl<W> Default for Caller<'_, W> {
    fn default() -> Self {
        Caller { frames: &[], running: Running::Unknown, is_guessed: false }
    }
}

/// A block taken out of the index while `realloc` decides over it. Readers still see its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InRealloc<W = u32> {
    slot: u32,
    address: W,
    number: W,
    time: W,
}

impl<W: Copy> InRealloc<W> {
    /// Where the block lies.
    pub fn address(&self) -> W {
        self.address
    }

    /// When the `realloc` began.
    pub fn time(&self) -> W {
        self.time
    }
}

/// A ledger in a region of memory: in words that it owns (an array, a `Vec`) or borrows (`&mut [u32]`). It is those words and
/// nothing else.
pub struct ChipLedger<S: Shape, R: Memory<S::Word>> {
    region: R,
    /// So many records are in use, for the first time, that it is to be said.
    is_scarce: bool,
    shape: PhantomData<S>,
}

impl<S: Shape, R: Memory<S::Word>> ChipLedger<S, R> {
    /// A new ledger in `region`, whose contents are overwritten.
    ///
    /// # Errors
    /// If the region has less than [`Config::words`].
    pub fn new(region: R) -> Result<Self, ChipError> {
        let mut ledger = Self::checked(region)?;
        ledger.set_up();
        Ok(ledger)
    }

    /// The ledger that is in `region`, or a new one if there is none of this shape, or it is in the middle of an update.
    ///
    /// # Errors
    /// If the region has less than [`Config::words`].
    #[inline(always)]
    pub fn open(region: R) -> Result<Self, ChipError> {
        let mut ledger = Self::checked(region)?;
        if !ledger.is_idle() {
            ledger.set_up();
        }
        Ok(ledger)
    }

    #[inline(always)]
    fn checked(region: R) -> Result<Self, ChipError> {
        let given = region.words().len();
        let needed = S::room().words as usize;
        if given < needed {
            let bytes = |words: usize| words.saturating_mul(S::WORD_BYTES);
            return Err(ChipError::TooSmall { needed: bytes(needed), given: bytes(given) });
        }
        Ok(ChipLedger { region, is_scarce: false, shape: PhantomData })
    }

    /// The region: its bytes, as they lie in memory, are the ledger.
    pub fn region(&self) -> &[S::Word] {
        self.region.words()
    }

    /// Those bytes: written to a file they are a ledger that can be read.
    pub fn bytes(&self) -> impl Iterator<Item = u8> + '_ {
        self.region().iter().flat_map(|word| {
            let bytes = word.widen().to_ne_bytes();
            let first = if cfg!(target_endian = "big") { bytes.len().wrapping_sub(S::WORD_BYTES) } else { 0 };
            bytes.into_iter().skip(first).take(S::WORD_BYTES)
        })
    }

    /// The ledger that is in `region`, where the caller has looked at its [`busy_mark`]. `None` if the region is too small.
    #[inline(always)]
    pub fn lent(region: R) -> Option<Self> {
        Self::checked(region).ok()
    }

    /// A figure of the whole ledger.
    pub fn figure(&self, counter: GlobalCounter) -> S::Word {
        self.global(counter)
    }

    /// Enters a block. Returns whether it is in the ledger now; if not, the reason was counted. At address 0 there is none: the call has
    /// failed, which is counted, too.
    #[inline(always)]
    pub fn allocated(&mut self, block: &NewBlock<S::Word>, caller: &Caller<S::Word>) -> bool {
        let is_entered = self.update_history(|ledger| {
            if block.address == S::Word::ZERO {
                ledger.count(TallyCounter::FailedCalls);
                return false;
            }
            let row = ledger.row_of(caller.running);
            let site = ledger.site_of(caller);
            ledger.begin(block, (site, row))
        });
        if !is_entered && block.address != S::Word::ZERO {
            S::records_full();
        }
        is_entered
    }

    /// Takes a block out of the ledger; to be called before the real free, unless the critical section
    /// encloses both. Returns whether the ledger knew it.
    #[inline(always)]
    pub fn freed(&mut self, address: S::Word, by: Kind, caller: &Caller<S::Word>) -> bool {
        self.update_history(|ledger| {
            let Some(slot) = ledger.index_remove(address) else {
                ledger.count(TallyCounter::UnknownFrees);
                return false;
            };
            let (number, time) = (ledger.number_of_end(), ledger.time());
            let row = ledger.row_of(caller.running);
            let site = ledger.site_of_end(caller);
            ledger.close(slot, &End { number, time, by, site, row });
            true
        })
    }

    /// Before the real `realloc`, if it runs outside of the critical section: nobody who gets the
    /// address next can be confused with the block. Hand the value to [`ChipLedger::realloc_ends`].
    pub fn realloc_begins(&mut self, address: S::Word) -> Option<InRealloc<S::Word>> {
        self.update(|ledger| ledger.detach(address))
    }

    /// After the real `realloc`, a call of the function `by`. Returns whether there is a new block in the ledger now.
    pub fn realloc_ends(
        &mut self,
        detached: Option<InRealloc<S::Word>>,
        by: Kind,
        outcome: Reallocated<NewBlock<S::Word>>,
        caller: &Caller<S::Word>,
    ) -> bool {
        let is_entered = self.update_history(|ledger| ledger.settle(detached, by, outcome, caller));
        if !is_entered && matches!(outcome, Reallocated::Gave(_)) {
            S::records_full();
        }
        is_entered
    }

    /// A `realloc` of the block at `old` (0: none, it only allocates), told after the fact: only where
    /// the critical section encloses the real call. Otherwise as [`ChipLedger::realloc_ends`].
    pub fn reallocated(
        &mut self,
        by: Kind,
        old: S::Word,
        outcome: Reallocated<NewBlock<S::Word>>,
        caller: &Caller<S::Word>,
    ) -> bool {
        match (old == S::Word::ZERO, outcome) {
            (true, Reallocated::Gave(new)) => self.allocated(&new, caller),
            (true, _) => {
                self.call_failed();
                false
            }
            (false, _) => {
                let detached = self.realloc_begins(old);
                self.realloc_ends(detached, by, outcome, caller)
            }
        }
    }

    /// An allocation function returned no block.
    pub fn call_failed(&mut self) {
        self.update(|ledger| ledger.count(TallyCounter::FailedCalls));
    }

    /// Reads the clock, where nobody may have allocated for as long as it goes once round.
    pub fn note_time(&mut self) {
        self.update(|ledger| {
            ledger.time();
        });
    }

    /// Recording has ended for good: a reader is told so. Nothing keeps the ledger from going on.
    pub fn stop(&mut self) {
        self.set_state(State::Stopped);
    }

    /// Runs one update under the busy mark.
    #[inline(always)]
    fn update<T>(&mut self, change: impl FnOnce(&mut Self) -> T) -> T {
        self.set_busy(true);
        // A debugger may halt the target anywhere: the compiler must not move the change out.
        compiler_fence(Ordering::SeqCst);
        let result = change(self);
        compiler_fence(Ordering::SeqCst);
        self.set_busy(false);
        S::update_done();
        result
    }

    /// The same for an update that may fill the history. A debugger that is told of that finds the update complete.
    #[inline(always)]
    fn update_history<T>(&mut self, change: impl FnOnce(&mut Self) -> T) -> T {
        let (result, is_full) = self.update(|ledger| {
            let result = change(ledger);
            (result, ledger.turn_history())
        });
        if is_full {
            S::history_full();
        }
        if core::mem::take(&mut self.is_scarce) {
            S::records_scarce();
        }
        result
    }

    #[inline(always)]
    fn site_of(&mut self, caller: &Caller<S::Word>) -> Site {
        if caller.is_guessed && S::HAS_STACKS {
            self.count(TallyCounter::StacksGuessed);
        }
        self.site(caller.frames)
    }

    /// The stack of a free is only kept in the history.
    #[inline(always)]
    fn site_of_end(&mut self, caller: &Caller<S::Word>) -> Site {
        if S::HAS_HISTORY { self.site_of(caller) } else { Site::NONE }
    }

    /// Ticks since the ledger began: what the clock has gone on since it was last asked is added. 0 where time is not recorded.
    #[inline(always)]
    fn time(&mut self) -> S::Word {
        if !S::HAS_TIME {
            return S::Word::ZERO;
        }
        let now = S::ticks() & S::room().clock_mask;
        let gone = now.wrapping_sub(self.word(S::NOTES.clock).widen() as u32) & S::room().clock_mask;
        self.set_word(S::NOTES.clock, S::Word::cut(u64::from(now)));
        let last = self.global(GlobalCounter::LastTime);
        let sum = last.plus(S::Word::cut(u64::from(gone)));
        // It stays at the end of a word.
        let time = if sum < last { S::Word::ZERO.not() } else { sum };
        self.set_global(GlobalCounter::LastTime, time);
        time
    }

    /// Enters a block, if there is room.
    #[inline(always)]
    fn begin(&mut self, block: &NewBlock<S::Word>, (site, row): (Site, Row)) -> bool {
        if block.address > ones::<S>(S::ADDRESS.width_bits) {
            return self.not_entered(TallyCounter::LostNoIndex, block.size);
        }
        // A number is taken only where there is a slot for it, and the other way round.
        let slot = if self.has_number() { self.take_slot() } else { None };
        let Some((slot, number)) = slot.and_then(|slot| Some((slot, self.number()?))) else {
            self.set_state(State::Full);
            return self.not_entered(TallyCounter::LostNoRecord, block.size);
        };
        let time = self.time();
        self.enter(slot, block, (number, time), (site, row));
        true
    }

    /// The same, where that is rare.
    #[cold]
    #[inline(never)]
    fn begin_apart(&mut self, block: &NewBlock<S::Word>, by: (Site, Row)) -> bool {
        self.begin(block, by)
    }

    /// A block finds no room: it is counted, and its bytes.
    #[inline(always)]
    fn not_entered(&mut self, why: TallyCounter, bytes: S::Word) -> bool {
        self.count(why);
        self.add(header::further_word::<S>(0), bytes);
        false
    }

    /// Fills a slot, lets the address lead there, and counts.
    #[inline(always)]
    fn enter(
        &mut self,
        slot: Slot,
        block: &NewBlock<S::Word>,
        (number, time): (S::Word, S::Word),
        (site, row): (Site, Row),
    ) {
        let bytes = self.write_record(slot, block, (number, time), (site, row));
        if let Some(old) = self.index_insert(block.address, slot) {
            self.displaced(old, number, time);
        }
        self.count(TallyCounter::Allocations);
        self.add_tally(TallyCounter::BytesAllocated, bytes);
        self.add_to_row(row, bytes);
        let live = self.global(GlobalCounter::LiveBytes).plus(bytes);
        self.set_global(GlobalCounter::LiveBytes, live);
        if live > self.global(GlobalCounter::PeakBytes) {
            let blocks = self.tally(TallyCounter::Allocations).minus(self.tally(TallyCounter::Frees));
            self.set_global(GlobalCounter::PeakBytes, live);
            self.set_global(GlobalCounter::PeakBlocks, blocks);
            if S::HAS_TIME {
                self.set_global(GlobalCounter::PeakTime, time);
            }
        }
    }

    /// The address belonged to another block, whose free nobody saw.
    #[cold]
    #[inline(never)]
    fn displaced(&mut self, old: Slot, number: S::Word, time: S::Word) {
        self.count(TallyCounter::Displaced);
        self.close(old, &End { number, time, by: Kind::UNSEEN, site: Site::NONE, row: Row::NONE });
    }

    /// Books the end of a block, and makes its slot vacant.
    #[inline(never)]
    fn close(&mut self, slot: Slot, end: &End<S::Word>) {
        self.retire(slot, end);
        self.release_slot(slot);
    }

    /// Books the end of the record in a slot, which stays with the caller.
    #[inline(always)]
    fn retire(&mut self, slot: Slot, end: &End<S::Word>) {
        let Some(bytes) = self.bytes_in(slot) else { return };
        self.write_history(slot, end);
        self.count(TallyCounter::Frees);
        self.add_tally(TallyCounter::BytesFreed, bytes);
        self.add_free_to_row(end.row);
        let live = self.global(GlobalCounter::LiveBytes);
        self.set_global(GlobalCounter::LiveBytes, if live > bytes { live.minus(bytes) } else { S::Word::ZERO });
    }
}
