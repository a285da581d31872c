//! What the recorder keeps for a thread, in private memory of its own.

use core::cell::{Cell, UnsafeCell};
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, compiler_fence};
use heapledger_format::bytes::WordSize;
use heapledger_format::counter::{TALLY_KINDS_AT, TALLY_WORDS};
use heapledger_format::kind::KIND_LIMIT;
use heapledger_format::record::HISTORY_WORDS;
use heapledger_format::section::{THREAD_NAME_BYTES, thread};
use heapledger_format::{Kind, LabelId, TallyCounter, ThreadRow, ThreadRowPlus1, Ticks};
use heapledger_linux::stack::StackRange;
use heapledger_linux::{syscall, tls};
use heapledger_recorder::backend::{CallEffect, Slot};
use heapledger_unwind::{Fresh, LastStack, Memo, RuleCache, Taken};

use crate::accounts::AccountBooks;
use crate::folding::AccountWords;
use crate::frees::Callers;
use crate::lease::Step;
use crate::places::{Claimed, OwnedPlace, Places, Reserved};
use crate::python::Chain;
use crate::shared::Shared;
use crate::slots::{BATCH, LOCAL_MAX};
use crate::sums::{self, CutWords};

mod forked;
mod room;

pub(crate) use room::StateRoom;

/// Sets of a thread's rule cache: 128 KiB, of which only what is used is ever touched.
pub const CACHE_SETS: usize = 4096;

/// Sets of a thread's memory of whole stacks, and words of all stacks in it: 712 KiB, of which only what is used is ever touched.
pub const MEMO_SETS: usize = 1024;
/// See [`MEMO_SETS`].
pub const MEMO_WORDS: usize = 48 << 10;

/// Heaps whose ranges are followed.
pub const HEAPS_MAX: usize = 4;

/// The words of a thread's row in the ledger. The first begins with its state.
pub(crate) type Row = [AtomicU64; thread::bytes(WordSize::W64) / 8];
/// The words of a state's own share of the counters.
pub(crate) type Tally = [AtomicU64; TALLY_WORDS];

/// From now on a row says so of its thread, unless it says something else than what is `expected`.
pub(crate) fn change_row(row: &Row, expected: Option<u32>, state: u32) {
    const LOWER_HALF: u64 = u32::MAX as u64;
    let change = |word: u64| {
        let is_expected = expected.is_none_or(|expected| word as u32 == expected);
        is_expected.then_some(word & !LOWER_HALF | u64::from(state))
    };
    let [word, ..] = row;
    let _ = word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, change);
}

/// An address range. All zeros: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeapRange {
    /// The complement of the lowest address, so that 0 means none.
    pub below_low: usize,
    /// The end of the highest block.
    pub high: usize,
}

/// A thread's state. One that was just made belongs to nobody: all zeros, but for where the arrays behind it lie.
///
/// It belongs to one kernel thread at a time: the one whose id is [`ThreadState::tid`]. Whatever runs on that thread may look
/// at it and set its words, a signal handler in the middle of an update, too. The [books](ThreadBooks) behind them are for the
/// hook alone that is inside; [`ThreadState::guard`] tells a handler so. See [`Entered`].
#[repr(C)]
pub struct ThreadState {
    /// Address of the sign on the stack of the hook that is inside; 0 if none.
    pub guard: AtomicUsize,
    /// Stack address of the hook whose real function may call another replaced one; 0 if none.
    pub calling: AtomicUsize,
    /// What that call is about: a size, a block, or both.
    pub calling_about: [AtomicUsize; 2],
    /// Stack address of the last such hook inside of which a call has failed; 0 if none.
    pub failed_inside: AtomicUsize,
    /// Not 0 while the allocator is asked for the size of a block: what it allocates then is its own.
    pub asking: AtomicUsize,
    /// The stack that the thread was last seen on (not an alternate signal stack).
    pub native: Cell<StackRange>,
    /// The stack that the thread began on.
    pub own: Cell<StackRange>,
    /// The alternate signal stack, while the thread is on it.
    pub alternate: Cell<StackRange>,
    /// Whether the present call came in on the alternate stack.
    pub on_alternate: Cell<bool>,
    /// Changes of memory that this thread has taken note of.
    pub memory_changes: Cell<u32>,
    /// Kernel id of the thread that owns this state.
    pub tid: Cell<u32>,
    /// Its row in the ledger plus 1; 0: it has none.
    pub row_plus_1: Cell<ThreadRowPlus1>,
    /// The label in force, 0 for none. A handler leaves it as it was.
    pub label: AtomicU32,
    /// Up to when its lease of numbers lasts. Others may end it.
    pub step: Step,
    /// The tally element of this state.
    tally: Cell<*const Tally>,
    /// Takes the counts of a thread without a row.
    no_row: Row,
    /// Takes what is on an account that found no room.
    no_account: AccountWords,
    books: UnsafeCell<ThreadBooks>,
}

/// A new state, which belongs to nobody and is forgotten again if it is put nowhere.
pub(crate) struct NewState {
    state: NonNull<ThreadState>,
    bytes: usize,
}

impl NewState {
    /// Makes one. `None` if there is no memory.
    pub(crate) fn create(room: StateRoom) -> Option<NewState> {
        let bytes = room.bytes();
        let state = NonNull::new(syscall::map_anonymous(bytes).ok()?.cast::<ThreadState>())?;
        // SAFETY: fresh memory of a state with this room, all zeros, of which nobody else knows.
        unsafe { ThreadBooks::set_up(UnsafeCell::raw_get(&raw const (*state.as_ptr()).books), room) };
        Some(NewState { state, bytes })
    }

    /// Puts it into a place, with what it counts in.
    pub(crate) fn put<'p>(self, reserved: Reserved<'p>, tally: &'static Tally) -> Claimed<'p> {
        let state = ThreadState::at(self.state.as_ptr() as usize);
        core::mem::forget(self);
        state.tally.set(tally);
        reserved.fill(state.address())
    }
}

impl Drop for NewState {
    fn drop(&mut self) {
        // SAFETY: nobody else has seen it; 0 bytes of what is not to be given back.
        unsafe { syscall::unmap(self.state.as_ptr().cast(), self.bytes) };
    }
}

/// What only the hook touches that is inside the recorder, or who has taken over the state of a thread that is gone.
#[repr(C)]
pub struct ThreadBooks {
    /// Number of this state plus 1.
    pub number_plus_1: u32,
    /// Its row in the ledger.
    pub row: ThreadRow,
    /// Code unloadings at the time the rule cache was last flushed.
    pub generation: u32,
    /// The first number that was taken from the lease, or will be.
    pub first_number: u64,
    /// Next sequence number of the lease.
    pub next_number: u64,
    /// End of the lease.
    pub end_number: u64,
    /// Rules made that have been counted.
    pub rules_counted: u64,
    /// Leases so far.
    pub leases: u32,
    /// Requested bytes not yet folded into the ledger's live bytes.
    pub pending_bytes: i64,
    /// How many there may be, either way.
    pub allowance: i64,
    /// Blocks not yet folded in.
    pub pending_blocks: i64,
    /// Updates since the last folding.
    pub pending_updates: u32,
    /// Live bytes of the process when this thread last folded its own in.
    pub folded_bytes: i64,
    /// Live blocks then.
    pub folded_blocks: i64,
    /// Pending bytes above which the peak is exceeded, as far as this thread can know.
    pub headroom: i64,
    /// Where in its numbers it notes that the peak lies; `None`: nowhere.
    pub(crate) cut: Option<&'static CutWords>,
    /// The commit word, thread included, that a block would have had that began with the last number of the lease before.
    pub(crate) before_lease: u64,
    /// A free that is not in the history, as that would have it.
    pub(crate) at_hand: [u64; HISTORY_WORDS],
    /// It is not added up yet.
    pub(crate) is_at_hand: bool,
    /// Something follows from what was entered into the history last, or is at hand.
    pub(crate) is_due: bool,
    /// What the next gap between samples is drawn from; 0: none has been drawn.
    pub random: u64,
    /// Where one block in so many is guarded, which.
    pub turns: crate::rarely::Turns,
    /// When the numbers were leased, in ticks; 0 if times are not recorded.
    pub ticks: Ticks,
    /// Vacant slots in `slots`.
    pub slot_count: u32,
    /// Next entry of the history that is leased.
    pub next_entry: u64,
    /// End of that lease.
    pub end_entry: u64,
    /// How many entries it has; 0: none are leased.
    pub entries: u64,
    /// Entries of the history that were leased so far, all of them filled but for those up to `end_entry`.
    pub entries_filled: u64,
    /// The thread's row.
    row_words: Option<&'static Row>,
    /// Where the thread's own counts go: its row, or `no_row`.
    counts: *const Row,
    /// The thread's name as last seen.
    pub name: [u8; THREAD_NAME_BYTES],
    /// Vacant slots, last given back first.
    pub slots: [Slot; LOCAL_MAX],
    /// Call sites of calls that end blocks, by their callers' addresses.
    pub(crate) callers: Callers,
    /// Rules by code address.
    pub cache: RuleCache<CACHE_SETS>,
    /// The address ranges of the heaps, as far as this thread has seen them.
    pub ranges: [HeapRange; HEAPS_MAX],
    /// Accounts of its own, and what it has freed of others'.
    pub(crate) accounts: AccountBooks,
    /// Frames of Python, where their lines are wanted.
    pub(crate) python: Option<&'static mut Chain>,
    /// Stacks that were taken lately.
    pub memo: Memo<MEMO_SETS, MEMO_WORDS>,
    /// The last stacks: of a call that gave a block, and of one that took one. A program goes to and fro between the
    /// two, and each resembles the last of its kind. Taking comes first.
    pub last: [LastStack<'static>; 2],
    /// Frames of the present stack that were found by stepping.
    pub fresh: &'static mut [Fresh],
    /// The present stack: here and not on the program's stack, on which there may be little room.
    pub taken: Taken,
    /// Room for program counters.
    pub pcs: &'static mut [u64],
}

const _: () = assert!(size_of::<heapledger_unwind::Word>() == 16 && thread::bytes(WordSize::W64).is_multiple_of(8));
const _: () = assert!(thread::name(WordSize::W64).is_multiple_of(8) && thread::state(WordSize::W64) == 0);

/// The one access to a thread's books: of the hook that has set the guard, or of who has taken over the state. A pointer, from
/// which references are made for as long as they are used, because a hook may be left by a jump, and entered anew.
pub struct Entered<'hook> {
    state: NonNull<ThreadState>,
    only: PhantomData<&'hook mut ThreadBooks>,
}

/// The last stack of a call that gave a block, or of one that took one.
#[inline(always)]
pub fn last_of<'a>(
    [taking, giving]: &'a mut [LastStack<'static>; 2],
    effect: CallEffect,
) -> &'a mut LastStack<'static> {
    match effect {
        CallEffect::Gives => giving,
        CallEffect::Takes => taking,
    }
}

impl ThreadState {
    /// The state of the calling thread, as its TLS word says: another kernel thread may share that.
    #[inline(always)]
    pub fn of_this_thread() -> Option<&'static ThreadState> {
        let word = tls::get() as *const ThreadState;
        // SAFETY: the word is 0 or the address of a state, and states are never unmapped.
        unsafe { word.as_ref() }
    }

    /// The state that lies in a place.
    fn at(address: usize) -> &'static ThreadState {
        // SAFETY: `NewState::put` alone fills places, with states that were set up, and which are never unmapped.
        unsafe { &*(address as *const ThreadState) }
    }

    /// The state that a kernel thread owns.
    pub(crate) fn of_tid<P: AsRef<[OwnedPlace]>>(places: &Places<P>, tid: u32) -> Option<&'static ThreadState> {
        places.state_of(tid).map(ThreadState::at)
    }

    /// All states that there are, of threads that are gone, too.
    pub(crate) fn each<P: AsRef<[OwnedPlace]>>(places: &Places<P>) -> impl Iterator<Item = &'static ThreadState> {
        places.states().map(ThreadState::at)
    }

    /// As [`StackRange::holds`], of the stack that the thread was last seen on.
    pub(crate) fn native_holds(&self, stack_pointer: usize) -> bool {
        let mut native = self.native.get();
        let holds = native.holds(stack_pointer);
        self.native.set(native);
        holds
    }

    /// The label in force.
    #[inline(always)]
    pub(crate) fn label(&self) -> LabelId {
        LabelId(self.label.load(Ordering::Relaxed))
    }

    /// Where it lies.
    pub fn address(&'static self) -> usize {
        &raw const *self as usize
    }

    /// Adds to a counter of this state's tally. Only its thread does, so no locked instruction is needed.
    #[inline(always)]
    pub fn count(&self, counter: TallyCounter, amount: u64) {
        self.add(counter as usize, amount);
    }

    /// Counts so many calls that gave or took a block.
    #[inline(always)]
    pub fn count_call(&self, kind: Kind, effect: CallEffect, amount: u64) {
        let half = if effect == CallEffect::Gives { 0 } else { KIND_LIMIT };
        self.add(TALLY_KINDS_AT.wrapping_add(half).wrapping_add(usize::from(kind.0) % KIND_LIMIT), amount);
    }

    #[inline(always)]
    fn add(&self, word: usize, amount: u64) {
        // SAFETY: set by `NewState::put`, before anybody could find the state.
        if let Some(word) = unsafe { &*self.tally.get() }.get(word) {
            word.store(word.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
        }
    }
}

impl ThreadBooks {
    /// The batch that was given back first leaves; the warm ones stay.
    #[cold]
    #[inline(never)]
    pub(crate) fn give_batch(&mut self, shared: &Shared) {
        // A handler may jump out of this for good, after any instruction: then all of them are lost, and none is in two places.
        let kept = self.slot_count.wrapping_sub(BATCH as u32);
        self.slot_count = 0;
        compiler_fence(Ordering::Release);
        if let Some(batch) = self.slots.get(..BATCH) {
            shared.pool.push(shared, batch);
        }
        self.slots.copy_within(BATCH.., 0);
        compiler_fence(Ordering::Release);
        self.slot_count = kept;
    }

    #[inline(always)]
    pub(crate) fn pop_slot(&mut self) -> Option<Slot> {
        let count = self.slot_count.checked_sub(1)?;
        self.slot_count = count;
        compiler_fence(Ordering::Release); // as in `give_batch`
        self.slots.get(count as usize).copied()
    }

    /// Notes where a peak lies of which it has just heard: before as many of its last numbers as `events`, which were no part of it.
    #[inline(always)]
    pub(crate) fn note_known_peak(&self, peak_bytes: u64, events: u64) {
        if self.cut.is_some_and(|cut| !sums::has_cut(cut, peak_bytes)) {
            self.note_cut(self.next_number.wrapping_sub(events), peak_bytes);
        }
    }

    /// Notes that its numbers below this one lie before a peak of so many bytes.
    #[inline(always)]
    pub(crate) fn note_cut(&self, number: u64, peak_bytes: u64) {
        if let Some(cut) = self.cut {
            sums::note_cut(cut, number, peak_bytes);
        }
    }

    /// Forgets what was learnt about code.
    pub fn forget_code(&mut self) {
        self.cache.flush();
        self.last.iter_mut().for_each(LastStack::forget);
    }

    /// Forgets all stacks that were taken.
    #[cold]
    pub fn forget_stacks(&mut self) {
        self.forget_code();
        self.memo.forget();
        self.callers.forget();
    }
}

impl Entered<'_> {
    /// Gives the thread its row in the ledger, which was leased for it; `None`: there is none (any more).
    pub(crate) fn set_row(&mut self, row: Option<&'static Row>) {
        self.row_words = row;
        self.thread().row_plus_1.set(ThreadRowPlus1::NONE);
        self.counts = row.unwrap_or(&self.thread().no_row);
    }

    /// What stands for an account that found no room.
    pub(crate) fn no_account(&self) -> &'static AccountWords {
        &self.thread().no_account
    }

    /// Its row, if it has one.
    pub(crate) fn row_words(&self) -> Option<&'static Row> {
        self.row_words
    }

    /// Writes the thread's name into its row, if it is new.
    pub(crate) fn set_name(&mut self, name: [u8; THREAD_NAME_BYTES]) {
        if name != self.name
            && let Some(row) = self.row_words
        {
            self.name = name;
            let (parts, _) = name.as_chunks();
            for (word, part) in row.iter().skip(thread::name(WordSize::W64) / 8).zip(parts) {
                word.store(u64::from_ne_bytes(*part), Ordering::Relaxed);
            }
        }
    }

    /// Adds to a counter of the thread's row.
    #[inline(always)]
    pub(crate) fn add_to_row(&self, field: fn(WordSize) -> usize, amount: u64) {
        // SAFETY: set by `set_row` before anybody counted: a row that only this thread writes, or what stands for one.
        if let Some(word) = unsafe { &*self.counts }.get(field(WordSize::W64) / 8) {
            word.store(word.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
        }
    }
}

impl Deref for Entered<'_> {
    type Target = ThreadBooks;

    #[inline(always)]
    fn deref(&self) -> &ThreadBooks {
        // SAFETY: nobody else has the books, see `Entered::new`.
        unsafe { &*self.state.as_ref().books.get() }
    }
}

impl DerefMut for Entered<'_> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut ThreadBooks {
        // SAFETY: nobody else has the books, see `Entered::new`, and of this access only one is used at a time.
        unsafe { &mut *self.state.as_ref().books.get() }
    }
}

impl<'hook> Entered<'hook> {
    /// Access to the books of a state.
    ///
    /// # Safety
    /// Nobody else may have access: the caller has set the guard.
    #[inline(always)]
    pub(crate) unsafe fn new(state: &'static ThreadState) -> Self {
        Entered { state: NonNull::from(state), only: PhantomData }
    }

    /// Access for who has claimed the state's place.
    pub(crate) fn of(claimed: &'hook mut Claimed) -> Self {
        Entered { state: NonNull::from(ThreadState::at(claimed.state())), only: PhantomData }
    }

    /// The same access, for somebody who is called.
    #[inline(always)]
    pub fn again(&mut self) -> Entered<'_> {
        Entered { state: self.state, only: PhantomData }
    }

    /// A second access.
    ///
    /// # Safety
    /// As long as it is used, the first must not be.
    #[inline(always)]
    pub(crate) unsafe fn duplicate(&mut self) -> Entered<'hook> {
        Entered { state: self.state, only: PhantomData }
    }

    /// The state whose books these are.
    #[inline(always)]
    pub fn thread(&self) -> &'static ThreadState {
        // SAFETY: states are never unmapped.
        unsafe { self.state.as_ref() }
    }

    /// As [`ThreadState::count`].
    #[inline(always)]
    pub fn count(&self, counter: TallyCounter, amount: u64) {
        self.thread().count(counter, amount);
    }
}
