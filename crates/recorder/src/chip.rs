//! The backend for a chip: a ledger in one region of memory, under the caller's critical section.
//!
//! *You supply* memory, a [`Config`], a clock, and on every call the call stack and the task; *this
//! module* keeps a ledger in that memory which the ordinary reader reads out of a memory dump. There
//! is no lock in here and no atomic: call it with interrupts off, or under the lock of the heap. It
//! allocates nothing and never waits.
//!
//! ```text
//! region:  header | records | history ring | call sites | index | tasks | heaps | strings | process
//!          header.rs  backend.rs             sites.rs     index.rs tasks.rs  (sizes: config.rs)
//! ```
//!
//! Every section but records and index is there only if the [`Config`] asks for it; a minimal ledger's
//! header, descriptors and section table take 256 bytes.
//!
//! While an update is under way the header's busy mark is set, as in eCos: a reader of a halted target
//! sees that what it reads may be half done.
//!
//! ```
//! use heapledger_recorder::chip::{Caller, ChipLedger, Config, NewBlock, Notices};
//! use heapledger_format::Kind;
//!
//! const CONFIG: Config = Config { history: 16, ..Config::minimal(100, 200) };
//! let mut region = [0u8; CONFIG.bytes()];
//! let mut ledger = ChipLedger::new(&mut region, &CONFIG, || 0, Notices::default())?;
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
mod sites;
mod tasks;

#[cfg(test)]
mod tests;

pub use config::{ChipError, Config, HeapDescription};

use crate::backend::{Begun, Ended};
use crate::policy::{self, Detached, Reallocated};
use config::Plan;
use core::sync::atomic::{Ordering, compiler_fence};
use heapledger_format::header::{State, at, counter_at};
use heapledger_format::record::Options;
use heapledger_format::{GlobalCounter, Kind, Site, TallyCounter, ThreadRow, Ticks, WordSize};

/// What the ledger tells its surroundings. A debugger can as well set a breakpoint on these functions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Notices {
    /// An update is complete and the busy mark is cleared.
    pub update_done: Option<fn()>,
    /// The history ring is full: from the next free on, entries are overwritten, oldest first. Called
    /// once each time round, so that a debugger can carry the entries off.
    pub history_full: Option<fn()>,
}

/// A block that an allocation function just returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewBlock {
    /// The function.
    pub kind: Kind,
    /// What it returned.
    pub address: u32,
    /// Bytes asked for.
    pub size: u32,
    /// Bytes it really has, if known.
    pub actual: Option<u32>,
    /// The heap it came from: a row of [`Config::heaps`].
    pub heap: u8,
}

/// Who calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caller<'f> {
    /// Return addresses, innermost frame first.
    pub frames: &'f [u32],
    /// Handle of the running task; `None` in an interrupt handler, or where there are no tasks.
    pub task: Option<u32>,
}

/// A ledger in a region of memory.
pub struct ChipLedger<'a> {
    region: &'a mut [u8],
    plan: Plan,
    clock: fn() -> u32,
    notices: Notices,
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
}

impl<'a> ChipLedger<'a> {
    /// A new ledger in `region`, whose contents are overwritten. `clock` counts up and goes round at
    /// its end; asked at least once each time round, it never runs backwards in the ledger.
    ///
    /// # Errors
    /// If the region is smaller than [`Config::bytes`], or the configuration asks for what the layout
    /// cannot hold.
    pub fn new(
        region: &'a mut [u8],
        config: &Config,
        clock: fn() -> u32,
        notices: Notices,
    ) -> Result<ChipLedger<'a>, ChipError> {
        config.check()?;
        let plan = Plan::new(config);
        if region.len() < plan.bytes {
            return Err(ChipError::TooSmall { needed: plan.bytes, given: region.len() });
        }
        let mut ledger = ChipLedger {
            region,
            plan,
            clock,
            notices,
            free: 0,
            slots_used: 0,
            ring_next: 0,
            ring_used: 0,
            tasks_used: 0,
            task: None,
            live_blocks: 0,
            started: clock(),
            ticks: (0, 0),
        };
        ledger.set_up(config);
        Ok(ledger)
    }

    /// The ledger's bytes, for a reader.
    pub fn bytes(&self) -> &[u8] {
        self.region.get(..self.plan.bytes).unwrap_or(&[])
    }

    /// Enters a block. Returns whether it is in the ledger now; if not, the reason was counted.
    pub fn allocated(&mut self, block: &NewBlock, caller: &Caller) -> bool {
        self.update(caller, |ledger| {
            let begun = ledger.describe_begin(block, caller);
            policy::begin(ledger, &begun)
        })
    }

    /// Takes a block out of the ledger; to be called before the real free, unless the critical section
    /// encloses both. Returns whether the ledger knew it.
    pub fn freed(&mut self, address: u32, by: Kind, caller: &Caller) -> bool {
        self.update(caller, |ledger| {
            let ended = ledger.describe_end(by, caller);
            policy::end(ledger, u64::from(address), &ended)
        })
    }

    /// Before the real `realloc`, if it runs outside of the critical section: nobody who gets the
    /// address next can be confused with the block. Hand the value to [`ChipLedger::realloc_ends`].
    pub fn realloc_begins(&mut self, address: u32) -> Option<Detached> {
        self.update(&Caller::default(), |ledger| policy::detach(ledger, u64::from(address)))
    }

    /// After the real `realloc`, a call of the function `by`. Returns whether there is a new block in the ledger now.
    pub fn realloc_ends(
        &mut self,
        detached: Option<Detached>,
        by: Kind,
        outcome: Reallocated<NewBlock>,
        caller: &Caller,
    ) -> bool {
        self.update(caller, |ledger| ledger.settle(detached, by, outcome, caller))
    }

    /// A `realloc` of the block at `old` (0: none, it only allocates), told after the fact: only where
    /// the critical section encloses the real call. Otherwise as [`ChipLedger::realloc_ends`].
    pub fn reallocated(&mut self, by: Kind, old: u32, outcome: Reallocated<NewBlock>, caller: &Caller) -> bool {
        self.update(caller, |ledger| match (old, outcome) {
            (0, Reallocated::Gave(new)) => {
                let begun = ledger.describe_begin(&new, caller);
                policy::begin(ledger, &begun)
            }
            (0, _) => {
                ledger.add_tally(TallyCounter::FailedCalls, 1);
                false
            }
            _ => {
                let detached = policy::detach(ledger, u64::from(old));
                ledger.settle(detached, by, outcome, caller)
            }
        })
    }

    /// An allocation function returned no block.
    pub fn call_failed(&mut self) {
        self.update(&Caller::default(), |ledger| ledger.add_tally(TallyCounter::FailedCalls, 1));
    }

    /// Recording has ended for good: a reader is told so. Nothing keeps the ledger from going on.
    pub fn stop(&mut self) {
        self.set_state(State::Stopped);
    }

    fn settle(
        &mut self,
        detached: Option<Detached>,
        by: Kind,
        outcome: Reallocated<NewBlock>,
        caller: &Caller,
    ) -> bool {
        let outcome = outcome.and_then(|new| Some(self.describe_begin(&new, caller)));
        policy::settle(self, detached, by, &outcome, |ledger| ledger.describe_end(by, caller).site)
    }

    fn describe_begin(&mut self, block: &NewBlock, caller: &Caller) -> Begun {
        let known = |option, value: u32| self.plan.options.has(option).then_some(u64::from(value));
        Begun {
            kind: block.kind,
            address: u64::from(block.address),
            size: u64::from(block.size),
            actual: block.actual.and_then(|actual| known(Options::ACTUAL_SIZE, actual)),
            site: self.site(caller.frames),
            heap: block.heap,
        }
    }

    fn describe_end(&mut self, by: Kind, caller: &Caller) -> Ended {
        // The stack of a free is only kept in the history.
        let wanted = self.plan.options.has(Options::HISTORY);
        Ended { by, site: if wanted { self.site(caller.frames) } else { Site::NONE } }
    }

    /// Runs one update under the busy mark.
    fn update<T>(&mut self, caller: &Caller, change: impl FnOnce(&mut Self) -> T) -> T {
        self.put(at::BUSY, 2, 1);
        // A debugger may halt the target anywhere: the compiler must not move the change out.
        compiler_fence(Ordering::SeqCst);
        self.task = caller.task.and_then(|handle| self.task_row(handle));
        let result = change(self);
        let now = self.time();
        self.set_global(GlobalCounter::LastTime, now.0);
        compiler_fence(Ordering::SeqCst);
        self.put(at::BUSY, 2, 0);
        if let Some(done) = self.notices.update_done {
            done();
        }
        result
    }

    /// Ticks since the ledger began: the clock's 32 bits, and how often they went round.
    fn time(&mut self) -> Ticks {
        let (last, rounds) = self.ticks;
        let ticks = (self.clock)().wrapping_sub(self.started);
        self.ticks = (ticks, if ticks < last { rounds.wrapping_add(1) } else { rounds });
        Ticks(u64::from(self.ticks.1) << 32 | u64::from(ticks))
    }

    fn get(&self, place: usize, width: usize) -> u64 {
        self.plan.codec.number(self.region, place, width)
    }

    fn put(&mut self, place: usize, width: usize, value: u64) {
        self.plan.codec.put(self.region, place, width, value);
    }

    fn set_state(&mut self, state: State) {
        self.put(at::STATE, 1, state as u64);
    }

    fn global(&self, counter: GlobalCounter) -> u64 {
        self.get(counter_at(WordSize::W32, counter as usize), 4)
    }

    /// Sets a counter; what does not fit into a word saturates.
    fn set_global(&mut self, counter: GlobalCounter, value: u64) {
        self.put(counter_at(WordSize::W32, counter as usize), 4, value.min(u64::from(u32::MAX)));
    }

    /// Adds to a counter that is summed. It goes round at the end of a word.
    fn add_tally(&mut self, counter: TallyCounter, amount: u64) {
        let index = self.plan.globals.wrapping_add(counter as usize);
        if index < self.plan.counters {
            let place = counter_at(WordSize::W32, index);
            self.put(place, 4, self.get(place, 4).wrapping_add(amount));
        }
    }
}
