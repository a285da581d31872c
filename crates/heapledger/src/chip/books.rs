//! What is entered into a board's ledger, by whoever does it.
//!
//! # Safety
//! A room with `unsafe`: it lends the region to one at a time.

use super::lent::{BoardRegion, Lent};
use super::{
    Address, AloneOn, Caller, ChipAccount, ChipBoot, ChipSums, ChipWindow, Entered, Frame, FrameList, FrameRoom,
    InRealloc, Kind, LiveBlock, NewBlock, On, Placed, Running, Word,
};
use core::marker::PhantomData;
use heapledger_format::GlobalCounter;
use heapledger_recorder::chip::{BlockKnown, NewError, busy_mark, missed_frees_word, missed_word};
use heapledger_recorder::policy::Reallocated;

/// What is not entered if somebody has the ledger.
#[derive(Clone, Copy)]
enum Missed {
    Nothing,
    Block,
    Free,
}

impl Missed {
    /// The word of a board's region that counts them; 0: none does.
    #[inline(always)]
    fn word<B: Placed>(self) -> usize {
        match self {
            Missed::Nothing => 0,
            Missed::Block => const { missed_word::<On<B>>() },
            Missed::Free => missed_frees_word::<On<B>>(),
        }
    }
}

/// What a `realloc` came to.
pub(super) struct Moved {
    pub(super) detached: Option<InRealloc<Address>>,
    /// The block that there was; 0 if there was none.
    pub(super) old: Address,
    /// The new block; 0 if there is none.
    pub(super) new: Address,
}

pub(super) fn new_block(kind: Kind, address: Address, size: Address) -> NewBlock<Address> {
    NewBlock { kind, address, size, actual: None, heap: None }
}

/// The books of a board's ledger. There is nothing in it: each call goes to the board's static, under [`Board::alone`].
///
/// Calls from within another one (from an interrupt that should not have come, say) are not entered, and counted.
pub struct Books<B>(PhantomData<fn() -> B>);

impl<B> Clone for Books<B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B> Copy for Books<B> {}

impl<B: Placed> Books<B> {
    /// Those of this board.
    #[inline(always)]
    pub const fn of() -> Self {
        Books(PhantomData)
    }

    /// Lends the ledger; `None` if somebody has it.
    #[inline(always)]
    fn lend<T>(self, work: impl FnOnce(&mut Lent<B>) -> T) -> Option<T> {
        self.lend_to(Missed::Nothing, work)
    }

    /// The same. If somebody has it, this is not entered, and counted.
    #[inline(always)]
    fn lend_to<T>(self, missed: Missed, work: impl FnOnce(&mut Lent<B>) -> T) -> Option<T> {
        B::alone(|| {
            let mark = const { busy_mark::<On<B>>() };
            // SAFETY: a word of the region. If somebody is in the middle of an update this looks at it all the same, as a debugger does.
            let is_idle = unsafe { B::region().wrapping_add(mark.at).read_volatile() }.widen() == mark.idle;
            let has_begun = !B::SURVIVES || B::boot().0.get() == ChipBoot::BEGUN;
            if !(is_idle && has_begun || self.is_mine(missed.word::<B>())) {
                return None;
            }
            // Nobody else runs, and nobody who waits for this has the region: that was just looked at, and what is called below calls
            // nothing that allocates.
            let mut ledger = Lent::<B>::lent(BoardRegion::new())?;
            Some(work(&mut ledger))
        })
    }

    /// Nobody is in the middle of an update, but there is no ledger yet: now there is. If somebody is, the word `missed` counts it.
    #[cold]
    #[inline(never)]
    fn is_mine(self, missed: usize) -> bool {
        let boot = B::boot();
        if B::SURVIVES {
            match boot.0.get() {
                ChipBoot::BEGUN => {}
                ChipBoot::BEFORE => return self.begin_anew(0),
                looked_at => {
                    let is_block = missed == const { missed_word::<On<B>>() };
                    boot.0.set(looked_at.saturating_add(is_block.into()));
                    return false;
                }
            }
        }
        let mark = const { busy_mark::<On<B>>() };
        // SAFETY: as in `lend`.
        let is_busy = unsafe { B::region().wrapping_add(mark.at).read_volatile() }.widen() == mark.busy;
        if is_busy {
            if missed != 0 {
                self.missed(missed, 1);
            }
            return false;
        }
        self.begin_anew(0)
    }

    /// So many blocks began, or ended, while somebody had the ledger: the word counts them.
    fn missed(self, word: usize, blocks: Address) {
        let missed = B::region().wrapping_add(word);
        // SAFETY: a word of the region, which nobody but this changes.
        unsafe { missed.write_volatile(missed.read_volatile().wrapping_add(blocks)) };
    }

    /// A ledger that holds nothing, but for so many blocks that began before it.
    fn begin_anew(self, missed: Address) -> bool {
        let is_there = Lent::<B>::new(BoardRegion::new()).is_ok();
        if B::SURVIVES {
            B::boot().0.set(ChipBoot::BEGUN);
        }
        if missed != 0 {
            self.missed(const { missed_word::<On<B>>() }, missed);
        }
        is_there
    }

    /// The ledger of the time before the last reset, if there is a whole one: shows it, before the first block of this time is entered and overwrites
    /// it. For boards whose region [survives](super::Board::SURVIVES). To be called once the firmware has started, and first of all; later there is nothing. An update
    /// may have been under way when the reset came; readers know that from the busy mark.
    ///
    /// `look` carries it off, runs alone ([`Board::alone`](super::Board::alone)), and does not allocate. (What does, all the same, is not entered, and counted in the ledger that then begins.)
    ///
    /// A ledger of another build, with another layout or another [`id`](super::Config::id), is none, and neither is garbage.
    pub fn survivor<T>(self, look: impl FnOnce(&[Address]) -> T) -> Option<T> {
        const { assert!(B::SURVIVES, "the board does not say that its ledger survives") };
        B::alone(|| {
            let boot = B::boot();
            if boot.0.get() != ChipBoot::BEFORE {
                return None;
            }
            let ledger = Lent::<B>::lent(BoardRegion::new())?;
            if !ledger.is_whole() {
                return None;
            }
            boot.0.set(ChipBoot::LOOKED_AT);
            let seen = look(ledger.region());
            let missed = boot.0.get().wrapping_sub(ChipBoot::LOOKED_AT);
            boot.0.set(ChipBoot::BEFORE);
            if missed != 0 {
                self.begin_anew(Address::from(missed));
            }
            Some(seen)
        })
    }

    /// Who runs.
    #[inline(always)]
    fn running() -> Running<Address> {
        if B::CONFIG.tasks == 0 {
            return Running::Unknown;
        }
        if B::is_in_interrupt() {
            return Running::Interrupt;
        }
        B::task().map_or(Running::Unknown, Running::Task)
    }

    /// Runs something with the ledger and who calls.
    #[inline(always)]
    fn note<T>(self, missed: Missed, from: Frame, work: impl FnOnce(&mut Lent<B>, &Caller<Address>) -> T) -> Option<T> {
        // The stack of a free is only kept in the history.
        if matches!(missed, Missed::Free) && B::CONFIG.history == 0 || B::CONFIG.sites == 0 {
            let caller = || Caller { running: Self::running(), ..Caller::default() };
            return self.lend_to(missed, |ledger| work(ledger, &caller()));
        }
        let mut room = B::Frames::EMPTY;
        let places = room.places();
        let most = B::depth().min(places.len());
        let mut list = FrameList::new(places.get_mut(..most).unwrap_or(&mut []));
        B::stack(from, &mut list);
        let (skip, cut) = (usize::from(B::CONFIG.skip_frames), usize::from(B::CONFIG.cut_frames));
        let (frames, is_guessed) = (list.between(skip, cut), list.is_guessed());
        self.lend_to(missed, |ledger| work(ledger, &Caller { frames, running: Self::running(), is_guessed }))
    }

    /// Enters a block, called from the frame `from`. Returns whether it is in the ledger now. At address 0 there is none: the call has failed,
    /// which is counted.
    #[inline(always)]
    pub fn allocated(self, block: &NewBlock<Address>, from: Frame) -> bool {
        let entered = self.note(Missed::Block, from, |ledger, caller| {
            let is_entered = ledger.allocated(block, caller);
            if block.address == 0 {
                Self::failed(ledger);
            } else {
                Self::begun(block, caller, ledger.figure(GlobalCounter::LastTime), ledger);
            }
            is_entered
        });
        entered.unwrap_or(false)
    }

    #[inline(always)]
    pub(super) fn begins(self, kind: Kind, address: Address, size: Address, from: Frame) {
        self.allocated(&new_block(kind, address, size), from);
    }

    /// Takes a block out; to be called before it is really freed. Returns whether it was known.
    #[inline(always)]
    pub fn freed(self, address: Address, by: Kind, from: Frame) -> bool {
        let known = self.note(Missed::Free, from, |ledger, caller| {
            let is_known = ledger.freed(address, by, caller);
            Self::over((address, by), caller, ledger.figure(GlobalCounter::LastTime), ledger);
            is_known
        });
        known.unwrap_or(false)
    }

    /// Enters an error, found in the frame `from`. Returns whether there was room for it, or it was there already.
    #[inline(never)]
    pub fn enter_error(self, error: &NewError<Address>, from: Frame) -> bool {
        let mut room = B::Frames::EMPTY;
        let mut list = FrameList::new(if B::CONFIG.sites == 0 { &mut [] } else { room.places() });
        if B::CONFIG.sites != 0 && from.address() != 0 {
            B::stack(from, &mut list);
        }
        let (skip, cut) = (usize::from(B::CONFIG.skip_frames), usize::from(B::CONFIG.cut_frames));
        let (frames, is_guessed) = (list.between(skip, cut), list.is_guessed());
        let caller = || Caller { frames, running: Self::running(), is_guessed };
        self.lend(|ledger| ledger.error(error, &caller())).unwrap_or(false)
    }

    /// Whether a block that begins there is in the ledger.
    pub fn is_live(self, address: usize) -> bool {
        self.lend(|ledger| ledger.known(address as Address)) == Some(BlockKnown::Live)
    }

    /// The live block that has a byte there.
    pub(super) fn live_around(self, address: Address) -> Option<(Address, Address)> {
        self.lend(|ledger| ledger.live_around(address)).flatten()
    }

    /// A block is guarded less than was asked for, which is counted.
    pub fn count_guarded_less(self) {
        self.lend(|ledger| ledger.count_guarded_less());
    }

    /// Before a `realloc`: nobody who gets the address next can be confused with the block.
    pub fn realloc_begins(self, address: Address) -> Option<InRealloc<Address>> {
        self.lend(|ledger| ledger.realloc_begins(address)).flatten()
    }

    /// After it. Returns whether there is a new block in the ledger now.
    #[inline(always)]
    pub fn realloc_ends(
        self,
        detached: Option<InRealloc<Address>>,
        by: Kind,
        outcome: Reallocated<NewBlock<Address>>,
        from: Frame,
    ) -> bool {
        let old = detached.as_ref().map_or(0, InRealloc::address);
        self.realloc_ended(detached, old, by, outcome, from)
    }

    /// The same, where the block that there was is known, whether or not it is in the ledger.
    #[inline(always)]
    pub(super) fn realloc_ended(
        self,
        detached: Option<InRealloc<Address>>,
        old: Address,
        by: Kind,
        outcome: Reallocated<NewBlock<Address>>,
        from: Frame,
    ) -> bool {
        let entered = self.note(Missed::Block, from, |ledger, caller| {
            let is_entered = ledger.realloc_ends(detached, by, outcome, caller);
            // The ledger has both at the time at which it began.
            let time = detached.as_ref().map_or_else(|| ledger.figure(GlobalCounter::LastTime), InRealloc::time);
            if old != 0 && !matches!(outcome, Reallocated::Failed) {
                Self::over((old, by), caller, time, ledger);
            }
            match outcome {
                Reallocated::Gave(block) => Self::begun(&block, caller, time, ledger),
                Reallocated::Freed => {}
                Reallocated::Failed => Self::failed(ledger),
            }
            is_entered
        });
        entered.unwrap_or(false)
    }

    /// Tells the board of a block.
    #[inline(always)]
    fn begun(block: &NewBlock<Address>, caller: &Caller<'_, Address>, time: Address, ledger: &Lent<B>) {
        let (kind, address, size, alone) = (block.kind, block.address, block.size, AloneOn::new());
        let live_bytes = ledger.figure(GlobalCounter::LiveBytes);
        B::entered(&Entered::Block { kind, address, size, caller, time, live_bytes, alone });
    }

    /// Tells the board of the end of one.
    #[inline(always)]
    fn over((address, by): (Address, Kind), caller: &Caller<'_, Address>, time: Address, ledger: &Lent<B>) {
        let (live_bytes, alone) = (ledger.figure(GlobalCounter::LiveBytes), AloneOn::new());
        B::entered(&Entered::End { by, address, caller, time, live_bytes, alone });
    }

    /// Tells the board of a call that gave none.
    #[inline(always)]
    fn failed(ledger: &Lent<B>) {
        B::entered(&Entered::Failed { time: ledger.figure(GlobalCounter::LastTime), alone: AloneOn::new() });
    }

    /// The oldest live block whose number is larger than `after`, of all blocks if there is none: see [`LiveBlock`]. Return addresses go to
    /// `frames`, innermost first, as many as there is room for. `None` if there is no other one, or if somebody has the ledger.
    pub fn live_after(self, after: Option<Address>, frames: &mut [Address]) -> Option<LiveBlock<Address>> {
        self.lend(|ledger| ledger.live_after(after, frames)).flatten()
    }

    /// The time of the last event, in ticks of the ledger; 0 where time is not recorded.
    pub fn time(self) -> Address {
        self.lend(|ledger| ledger.figure(GlobalCounter::LastTime)).unwrap_or(0)
    }

    /// An allocation function returned no block.
    pub fn call_failed(self) {
        self.lend(|ledger| {
            ledger.call_failed();
            Self::failed(ledger);
        });
    }

    /// Gives a task its row, with a name; a task that was never introduced gets a nameless one on its first call. False if the
    /// table is full.
    pub fn task_begins(self, handle: Address, id: u32, name: impl AsRef<[u8]>) -> bool {
        self.lend(|ledger| ledger.task_begins(handle, id, name)).unwrap_or(false)
    }

    /// A task is gone: its handle may be given to another.
    pub fn task_ends(self, handle: Address) {
        self.lend(|ledger| ledger.task_ends(handle));
    }

    /// Reads the clock: to be called now and then, where nobody may have allocated for as long as it goes once round.
    pub fn note_time(self) {
        self.lend(|ledger| ledger.note_time());
    }

    /// Recording has ended for good: a reader is told so. Nothing keeps it from going on.
    pub fn stop(self) {
        self.lend(|ledger| ledger.stop());
    }

    /// Bytes asked for in all blocks that live.
    pub fn live_bytes(self) -> Address {
        self.lend(|ledger| ledger.figure(GlobalCounter::LiveBytes)).unwrap_or(0)
    }

    /// The most bytes asked for that lived at a time, since the ledger began; for another beginning there is [`PeakWatch`](super::PeakWatch).
    pub fn peak_bytes(self) -> Address {
        self.lend(|ledger| ledger.figure(GlobalCounter::PeakBytes)).unwrap_or(0)
    }

    /// What was counted so far. Zeros, if somebody has the ledger.
    pub fn sums(self) -> ChipSums<Address> {
        self.lend(|ledger| ledger.sums()).unwrap_or_default()
    }

    /// A window in time that opens now: what is allocated and freed from now on. `None`, if somebody has the ledger. [`ChipWindow::sums`] of [`Books::sums`] is what it has;
    /// [`Books::live_after`] of [`ChipWindow::after`] is the first block that began in it and lives.
    pub fn window(self) -> Option<ChipWindow<Address>> {
        self.lend(|ledger| ledger.window())
    }

    /// What a task has done, and what it holds; with all ones for its handle, what interrupts have. It takes one look at each record. `None`, if there is no row of
    /// it, or somebody has the ledger.
    pub fn account(self, handle: Address) -> Option<ChipAccount<Address>> {
        self.lend(|ledger| ledger.account(handle)).flatten()
    }

    /// Copies the ledger, word by word, to carry it off; as many words as there is room for. Returns how many it has: 0, if somebody is
    /// in the middle of an update.
    pub fn copy(self, to: &mut [Address]) -> usize {
        let copied = self.lend(|ledger| {
            let words = ledger.region();
            for (to, word) in to.iter_mut().zip(words) {
                *to = *word;
            }
            words.len()
        });
        copied.unwrap_or(0)
    }
}
