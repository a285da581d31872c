//! The backend for a chip: a ledger in one region of memory, under the caller's critical section.
//!
//! *You supply* memory, a [`Shape`] (what is recorded, a clock), a [`Config`] (how much there is room for), and on every call the call
//! stack and the task; *this module* keeps a ledger in that memory which the ordinary reader reads out of a memory dump. There
//! is no lock in here and no atomic: call it with interrupts off, or under the lock of the heap. It
//! allocates nothing and never waits. A ledger is a value: there can be many, each with a region of its own, with 32-bit words or
//! with 64-bit ones.
//!
//! ```text
//! region:  header | records | history ring | call sites | code addresses | index | tasks | heaps | strings | process
//!          header.rs  backend.rs             sites.rs                    index.rs tasks.rs   (sizes: config.rs)
//! ```
//!
//! Where the fields of a record lie follows from the shape, and the compiler knows it (`shape.rs`); the descriptors in the header are
//! for readers. Every section but records and index is there only if the shape asks for it; a minimal ledger's header, descriptors
//! and section table take 256 bytes. Code addresses have a section of their own where words have 64 bits.
//!
//! While an update is under way the header's busy mark is set, as in eCos: a reader of a halted target
//! sees that what it reads may be half done.
//!
//! ```
//! use heapledger_recorder::chip::{Caller, ChipLedger, Config, NewBlock, Shape};
//! use heapledger_format::{Kind, record::Options};
//!
//! struct Board;
//! impl Shape for Board {
//!     type Word = u32;
//!     const OPTIONS: Options = Options(Options::STACK | Options::HISTORY);
//! }
//!
//! const CONFIG: Config = Config { history: 16, ..Config::minimal(100, 200) };
//! let region = [0; CONFIG.words::<Board>()];
//! let mut ledger = ChipLedger::<Board, _>::new(region, &CONFIG)?;
//! let caller = Caller { frames: &[0x0800_1234, 0x0800_0042], task: None };
//! let block = NewBlock { kind: Kind::MALLOC, address: 0x2000_0100, size: 24, actual: None, heap: 0 };
//! assert!(ledger.allocated(&block, &caller));
//! assert!(ledger.freed(0x2000_0100, Kind::FREE, &caller));
//! # Ok::<(), heapledger_recorder::chip::ChipError>(())
//! ```

mod backend;
mod config;
mod header;
mod index;
mod memory;
mod shape;
mod sites;
mod tasks;
mod word;

#[cfg(test)]
mod tests;

pub use config::{ChipError, Config, HeapDescription};
pub use shape::Shape;
pub use word::Word;

use crate::backend::{Begun, Ended};
use crate::policy::{self, Detached, Reallocated};
use config::{Places, Plan};
use core::borrow::BorrowMut;
use core::marker::PhantomData;
use core::sync::atomic::{Ordering, compiler_fence};
use heapledger_format::header::{State, at, counter_at};
use heapledger_format::{GlobalCounter, Kind, Site, TallyCounter, ThreadRow, Ticks};
use shape::Fixed;

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
    /// The heap it came from: a row of [`Config::heaps`].
    pub heap: u8,
}

/// Who calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller<'f, W = u32> {
    /// Return addresses, innermost frame first.
    pub frames: &'f [W],
    /// Handle of the running task; `None` in an interrupt handler, or where there are no tasks.
    pub task: Option<W>,
}

impl<W> Default for Caller<'_, W> {
    fn default() -> Self {
        Caller { frames: &[], task: None }
    }
}

/// A ledger in a region of memory: in words that it owns (an array, a `Vec`) or borrows (`&mut [u32]`).
pub struct ChipLedger<S: Shape, R: BorrowMut<[S::Word]>> {
    region: R,
    places: Places,
    depth: u16,
    /// The vacant slot to be taken next, plus 1; the others hang on it.
    free: u32,
    /// Slots that were ever taken.
    slots_used: u32,
    /// Where the next history entry goes.
    ring_next: u32,
    /// History entries that were ever written.
    ring_used: u32,
    /// Rows of tasks in use.
    tasks_used: u32,
    /// The row of the task that is calling.
    task: Option<ThreadRow>,
    live_blocks: u32,
    /// The clock's reading when the ledger began.
    started: u32,
    /// Ticks since then at the last reading, and how often they went round.
    ticks: (u32, u32),
    shape: PhantomData<S>,
}

impl<S: Shape, R: BorrowMut<[S::Word]>> ChipLedger<S, R> {
    /// A new ledger in `region`, whose contents are overwritten.
    ///
    /// # Errors
    /// If the region has less than [`Config::words`], or the configuration asks for what the layout cannot hold.
    pub fn new(region: R, config: &Config) -> Result<Self, ChipError> {
        config.check::<S>()?;
        let plan = Plan::new::<S>(config);
        let given = region.borrow().len();
        if given < plan.bytes.div_ceil(S::WORD_BYTES) {
            let given = given.saturating_mul(S::WORD_BYTES);
            return Err(ChipError::TooSmall { needed: plan.bytes, given });
        }
        let started = if S::HAS_TIME { S::ticks() } else { 0 };
        let mut ledger = ChipLedger {
            region,
            shape: PhantomData,
            places: plan.places,
            depth: config.depth,
            free: 0,
            slots_used: 0,
            ring_next: 0,
            ring_used: 0,
            tasks_used: 0,
            task: None,
            live_blocks: 0,
            started,
            ticks: (0, 0),
        };
        ledger.set_up(config, &plan);
        Ok(ledger)
    }

    /// The region: its bytes, as they lie in memory, are the ledger.
    pub fn region(&self) -> &[S::Word] {
        self.region.borrow()
    }

    /// Those bytes: written to a file they are a ledger that can be read.
    pub fn bytes(&self) -> impl Iterator<Item = u8> + '_ {
        self.region().iter().flat_map(|word| {
            let bytes = word.widen().to_ne_bytes();
            let first = if cfg!(target_endian = "big") { bytes.len().wrapping_sub(S::WORD_BYTES) } else { 0 };
            bytes.into_iter().skip(first).take(S::WORD_BYTES)
        })
    }

    /// Enters a block. Returns whether it is in the ledger now; if not, the reason was counted.
    pub fn allocated(&mut self, block: &NewBlock<S::Word>, caller: &Caller<S::Word>) -> bool {
        self.update(caller, |ledger| {
            let begun = ledger.describe_begin(block, caller);
            policy::begin(ledger, &begun)
        })
    }

    /// Takes a block out of the ledger; to be called before the real free, unless the critical section
    /// encloses both. Returns whether the ledger knew it.
    pub fn freed(&mut self, address: S::Word, by: Kind, caller: &Caller<S::Word>) -> bool {
        self.update(caller, |ledger| {
            let ended = ledger.describe_end(by, caller);
            policy::end(ledger, address.widen(), &ended)
        })
    }

    /// Before the real `realloc`, if it runs outside of the critical section: nobody who gets the
    /// address next can be confused with the block. Hand the value to [`ChipLedger::realloc_ends`].
    pub fn realloc_begins(&mut self, address: S::Word) -> Option<Detached> {
        self.update(&Caller::default(), |ledger| policy::detach(ledger, address.widen()))
    }

    /// After the real `realloc`, a call of the function `by`. Returns whether there is a new block in the ledger now.
    pub fn realloc_ends(
        &mut self,
        detached: Option<Detached>,
        by: Kind,
        outcome: Reallocated<NewBlock<S::Word>>,
        caller: &Caller<S::Word>,
    ) -> bool {
        self.update(caller, |ledger| ledger.settle(detached, by, outcome, caller))
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
        self.update(caller, |ledger| match (old.widen(), outcome) {
            (0, Reallocated::Gave(new)) => {
                let begun = ledger.describe_begin(&new, caller);
                policy::begin(ledger, &begun)
            }
            (0, _) => {
                ledger.add_tally(TallyCounter::FailedCalls, 1);
                false
            }
            (old, _) => {
                let detached = policy::detach(ledger, old);
                ledger.settle(detached, by, outcome, caller)
            }
        })
    }

    /// An allocation function returned no block.
    pub fn call_failed(&mut self) {
        self.update(&Caller::default(), |ledger| ledger.add_tally(TallyCounter::FailedCalls, 1));
    }

    /// So many blocks began while nobody could enter them.
    pub fn calls_missed(&mut self, blocks: u32) {
        self.update(&Caller::default(), |ledger| ledger.add_tally(TallyCounter::LostBusy, u64::from(blocks)));
    }

    /// Recording has ended for good: a reader is told so. Nothing keeps the ledger from going on.
    pub fn stop(&mut self) {
        self.set_state(State::Stopped);
    }

    fn settle(
        &mut self,
        detached: Option<Detached>,
        by: Kind,
        outcome: Reallocated<NewBlock<S::Word>>,
        caller: &Caller<S::Word>,
    ) -> bool {
        let outcome = outcome.and_then(|new| Some(self.describe_begin(&new, caller)));
        policy::settle(self, detached, by, &outcome, |ledger| ledger.describe_end(by, caller).site)
    }

    fn describe_begin(&mut self, block: &NewBlock<S::Word>, caller: &Caller<S::Word>) -> Begun {
        Begun {
            kind: block.kind,
            address: block.address.widen(),
            size: block.size.widen(),
            actual: if S::EXCESS.width_bits == 0 { None } else { block.actual.map(Word::widen) },
            site: self.site(caller.frames),
            heap: block.heap,
            alignment: 0,
        }
    }

    fn describe_end(&mut self, by: Kind, caller: &Caller<S::Word>) -> Ended {
        // The stack of a free is only kept in the history.
        Ended { by, site: if S::HAS_HISTORY { self.site(caller.frames) } else { Site::NONE } }
    }

    /// Runs one update under the busy mark.
    fn update<T>(&mut self, caller: &Caller<S::Word>, change: impl FnOnce(&mut Self) -> T) -> T {
        self.put(at::BUSY, 2, 1);
        // A debugger may halt the target anywhere: the compiler must not move the change out.
        compiler_fence(Ordering::SeqCst);
        if S::HAS_TASKS {
            self.task = caller.task.and_then(|handle| self.task_row(handle));
        }
        let result = change(self);
        if S::HAS_TIME {
            let now = self.time();
            self.set_global(GlobalCounter::LastTime, now.0);
        }
        compiler_fence(Ordering::SeqCst);
        self.put(at::BUSY, 2, 0);
        S::update_done();
        result
    }

    /// Ticks since the ledger began: the clock's 32 bits, and how often they went round. 0 where time is not recorded.
    #[inline(always)]
    fn time(&mut self) -> Ticks {
        if !S::HAS_TIME {
            return Ticks(0);
        }
        let (last, rounds) = self.ticks;
        let ticks = S::ticks().wrapping_sub(self.started);
        self.ticks = (ticks, if ticks < last { rounds.wrapping_add(1) } else { rounds });
        Ticks(u64::from(self.ticks.1) << 32 | u64::from(ticks))
    }

    fn set_state(&mut self, state: State) {
        self.put(at::STATE, 1, state as u64);
    }

    #[inline(always)]
    fn global(&self, counter: GlobalCounter) -> u64 {
        self.get(counter_at(S::Word::SIZE, counter as usize), S::WORD_BYTES).widen()
    }

    /// Sets a counter; what does not fit into a word saturates.
    #[inline(always)]
    fn set_global(&mut self, counter: GlobalCounter, value: u64) {
        let most = S::Word::default().not().widen();
        self.put(counter_at(S::Word::SIZE, counter as usize), S::WORD_BYTES, value.min(most));
    }

    /// Adds to a counter that is summed. It goes round at the end of a word.
    #[inline(always)]
    fn add_tally(&mut self, counter: TallyCounter, amount: u64) {
        let index = S::GLOBALS.wrapping_add(counter as usize);
        if index < S::COUNTERS {
            self.add(counter_at(S::Word::SIZE, index), amount);
        }
    }

    /// Adds to the word at a place counted in bytes.
    #[inline(always)]
    fn add(&mut self, place: usize, amount: u64) {
        let sum = self.get(place, S::WORD_BYTES).plus(S::Word::cut(amount));
        self.put(place, S::WORD_BYTES, sum.widen());
    }
}
