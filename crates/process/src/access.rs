//! A thread's access to the recorder: who it is, and whether it may enter.
//!
//! # State, guard, stacks
//!
//! - A word in initial-exec TLS leads to the thread's state. The state is memory of its own, mapped once and never
//!   unmapped. It holds words that whatever runs on the thread may look at, and books that only the hook touches that
//!   is inside (`ThreadBooks`): leases (numbers, slots, a page of the history), the rule cache and the last stack.
//!   Fresh zeros are a valid state. `Entered` is the access to the books: who has set the guard has it, or who has
//!   claimed the state of a thread that is gone.
//! - The **guard** is the address of a sign on the stack of the hook that is inside. It is not a flag, because a
//!   `longjmp` or an exception may leave a hook for good. A guard whose sign is gone, or a complete stack without a
//!   frame of an entry point (`entry.rs`, `capture::own_code_is_on_stack`), means that it was left. Stacks grow down:
//!   a guard that lies above the present hook on the same stack encloses it, so this is a signal handler in the middle
//!   of an update, and it is refused and counted (`lost_busy`, `frees_busy`). A guard at or below was abandoned and means nothing.
//! - A stack pointer outside of the state's known stack is looked into (`on_another_stack`): another kernel thread
//!   that shares our TLS word after a raw `clone` gets a state by its thread id; on an alternate signal stack the
//!   guard of the interrupted hook holds, unless it was left on that same stack; a coroutine's stack becomes the
//!   thread's.
//! - What is known of a stack is found out page by page, by asking the kernel whether a page can be read (`stack.rs`,
//!   `syscall::readable`), so that wrong unwind tables, or an `rbp` that is none, cannot fault. What was readable
//!   once may be gone: so a thread's own stack is known up to its end (the thread control block, or where the kernel
//!   put the first thread's), nothing beyond is believed. Ranges of other stacks are forgotten when the program calls
//!   `munmap`, `mmap`, `mprotect`, `mremap` or frees a large block, and no stack on them is remembered: nobody tells
//!   where such a stack ends, nor when it goes.
//! - What threads do to shared tables without a lock is kept in small files (`cells.rs`, `chunks.rs`, `lease.rs`,
//!   `places.rs`, `slots.rs`, `publication.rs`), which `cargo xtask test loom` tries under every schedule within a bound.
//! - Rare work that takes kilobytes (a thread's first call, unwind tables, entering modules, whatever happens on an
//!   alternate stack or near the end of a coroutine's) runs on one of a few stacks that the process has for it
//!   (`linux/src/x86_64_linux/apart.rs`), because the program's may be an alternate one of 8 KiB. Signals are blocked
//!   meanwhile: a handler that ran there would have too little room, and a collector that scans the stack from its
//!   handler would scan ours. That costs two system calls, so a stack that has merely changed is walked where the
//!   thread stands, if that is its own or can be read for 4 KiB below. The sign of the guard stays on the caller's
//!   stack.
//! - No signal is blocked on the common path. Rare work (growing a section, entering a module, the first call of a
//!   thread) blocks signals, so that no handler runs in between, jumps away or forks.
//! - Thread rows in the ledger stay. States of dead threads are taken over, see below.

use crate::capture;
use crate::hooks::NewBlock;
use crate::shared::{Phase, Shared};
use crate::state::{Entered, ThreadState};
use core::mem::ManuallyDrop;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, compiler_fence};
use heapledger_format::{TallyCounter, sample};
use heapledger_linux::stack::StackRange;
use heapledger_linux::{apart, syscall, tls};
use heapledger_recorder::backend::{Backend, CallEffect};
use heapledger_unwind::Registers;

/// A mark on the stack of a hook that is inside the recorder. If control leaves the hook by a jump, other
/// frames overwrite it sooner or later, and it no longer vouches for the guard that points to it.
pub struct Sign(AtomicU64);

/// [`ThreadState::guard`] where nobody is inside who will go on, and no stack can be trusted that was remembered.
const ABANDONED: usize = 1;

const SIGN: u64 = 0x4845_4150_4C45_4447;

impl Sign {
    /// A mark that says nothing yet.
    pub const fn new() -> Sign {
        Sign(AtomicU64::new(0))
    }
}

impl Default for Sign {
    fn default() -> Self {
        Self::new()
    }
}

/// Work that is not rare takes less than half of this; where there is less, it is done on a stack of our own.
const ROOM_BYTES: usize = 4096;

/// The calling thread's state, as long as the hook runs.
pub struct Access<'hook> {
    pub(crate) shared: &'static Shared,
    pub(crate) state: Entered<'hook>,
    pub(crate) sign: &'hook Sign,
    /// Of the block that is being entered or taken out.
    pub(crate) about: AboutBlock,
    /// Known when compiling to be [usual](crate::hooks::is_usual): then nothing looks whether it is.
    pub(crate) is_usual: bool,
    /// Address of the block that is being entered or taken out, and its cell in the index, if it has been looked for.
    pub(crate) cell: Option<(u64, &'static AtomicU32)>,
}

/// What is known of a block beside what is entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AboutBlock {
    /// Nothing.
    Nothing,
    /// Of one that is being entered: its allocator's blocks are at least 32 bytes apart, so that it has its cell in the index to itself.
    Apart,
    /// Of one that is being taken out: its record has an alignment, see [`crate::layouts`].
    Aligned,
    /// It is of an allocator inside of the program, see [`crate::inner`].
    Inner,
}

/// Why a hook may not enter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Nothing is recorded in this process.
    Off,
    /// The thread is inside the recorder already: a signal handler.
    Busy,
    /// There is no state to be had for this thread.
    NoState,
}

/// Where the caller stands: at the word in which the return address of its call lay. That is the lowest word of the stack that
/// unwinding may read, so it belongs to the range that can be read, also where the stack pointer itself is the first address
/// of a page: stacks would never be known again there.
#[inline(always)]
fn standing(registers: &Registers) -> usize {
    (registers.sp as usize).wrapping_sub(8)
}

impl<'hook> Access<'hook> {
    /// Enters with the state of a thread that is known to have one, in a process that records. `None`: [`Access::enter`] finds
    /// out why not.
    #[inline(always)]
    pub(crate) fn enter_at_once(
        shared: &'static Shared,
        state: &'static ThreadState,
        registers: &Registers,
        sign: &'hook Sign,
        is_usual: bool,
    ) -> Option<Self> {
        let stack_pointer = standing(registers);
        if (!state.stands_on_own(stack_pointer) || state.guard.load(Ordering::Relaxed) != 0)
            && !state.has_room_elsewhere(shared, stack_pointer)
        {
            return None;
        }
        state.on_alternate.set(false);
        let mut access = Access::inside(shared, state, sign);
        access.is_usual = is_usual;
        Some(access)
    }

    /// Sets the guard. The caller has found that nobody is inside, or nobody who will go on.
    #[inline(always)]
    fn inside(shared: &'static Shared, state: &'static ThreadState, sign: &'hook Sign) -> Self {
        sign.0.store(SIGN, Ordering::Relaxed);
        state.guard.store(&raw const sign.0 as usize, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst); // a handler of this thread must see the guard before any update
        // SAFETY: the guard is ours from here on, until the access is dropped or left for good.
        let state = unsafe { Entered::new(state) };
        Access { shared, state, sign, about: AboutBlock::Nothing, is_usual: false, cell: None }
    }

    /// What [`Backend::aside`] does.
    #[inline(always)]
    pub(crate) fn with_copy<R>(&mut self, work: impl FnOnce(&mut Self) -> R) -> R {
        #[cold]
        #[inline(never)]
        fn with<'hook, R>(
            shared: &'static Shared,
            state: Entered<'hook>,
            sign: &'hook Sign,
            about: AboutBlock,
            work: impl FnOnce(&mut Access<'hook>) -> R,
        ) -> R {
            // The original gives the access back.
            let mut copy = ManuallyDrop::new(Access { shared, state, sign, about, is_usual: false, cell: None });
            work(&mut copy)
        }
        // SAFETY: the original is not used before `with` has returned.
        with(self.shared, unsafe { self.state.duplicate() }, self.sign, self.about, work)
    }

    /// Enters, if this process records and the thread is not inside already. `sign` lies on the hook's stack.
    #[cold]
    #[inline(never)]
    pub fn enter(shared: &'static Shared, registers: &Registers, sign: &'hook Sign) -> Result<Self, Refused> {
        let stack_pointer = standing(registers);
        if shared.phase.load(Ordering::Acquire) != Phase::On as u8 {
            return Err(Refused::Off);
        }
        if !shared.switch.follows() {
            crate::start::note_forked_child(shared);
            return Err(Refused::Off);
        }
        let mut state = match ThreadState::of_this_thread() {
            Some(state) => state,
            None => Self::first_time(shared, stack_pointer)?,
        };
        // On another stack it may be another thread that shares our TLS word.
        if !state.native.get().contains(stack_pointer) || !state.is_believed(shared) {
            state = Self::on_another_stack(shared, state, registers)?;
        } else if state.guard.load(Ordering::Relaxed) != 0
            // An alternate stack may lie inside the range of this one: a local array of `main`.
            && (is_inside(shared, state, registers) || syscall::on_alternate_stack(stack_pointer))
        {
            // What an allocator allocates for its own answer to our question is not the program's.
            return Err(state.refusal());
        } else {
            state.on_alternate.set(false);
        }
        let was_left = state.guard.load(Ordering::Relaxed) != 0;
        let mut access = Access::inside(shared, state, sign);
        if was_left {
            // A hook was left by a jump, perhaps in the middle of remembering a stack, or from the allocator's answer.
            state.asking.store(0, Ordering::Relaxed);
            access.state.forget_stacks();
            // Or in the middle of leasing numbers.
            access.state.thread().step.end();
        }
        Ok(access)
    }

    #[cold]
    fn first_time(shared: &'static Shared, stack_pointer: usize) -> Result<&'static ThreadState, Refused> {
        // No handler may come in between and register the same thread again.
        let _signals = syscall::SignalsBlocked::new();
        let (pid, tid) = (syscall::getpid(), syscall::gettid());
        // A child that shares our memory (`vfork`) has its parent's word, who would go on with its state when it is gone, and so would others.
        let is_ours = pid == 0 || shared.switch.owner() == pid;
        if !is_ours && let Some(state) = shared.threads.by_tid(tid) {
            return Ok(state);
        }
        let state = shared.threads.register(shared, tid, stack_pointer).ok_or(Refused::NoState)?;
        if is_ours {
            tls::set(state.address());
        }
        Ok(state)
    }

    /// The stack pointer is not on the stack where this thread was last seen: an alternate signal
    /// stack, a coroutine, or another kernel thread that a raw `clone` gave our TLS word.
    #[cold]
    fn on_another_stack(
        shared: &'static Shared,
        state: &'static ThreadState,
        registers: &Registers,
    ) -> Result<&'static ThreadState, Refused> {
        let stack_pointer = standing(registers);
        let tid = syscall::gettid();
        if tid != state.tid.get() {
            let other = match shared.threads.by_tid(tid) {
                Some(other) => other,
                None => {
                    let _signals = syscall::SignalsBlocked::new();
                    shared.threads.register(shared, tid, stack_pointer).ok_or(Refused::NoState)?
                }
            };
            other.on_alternate.set(false);
            other.note_changes(shared);
            if !other.native_holds(stack_pointer) {
                other.stand_on(shared, tid, stack_pointer);
                // Who was inside there is gone, and its stacks are not ours.
                other.guard.store(ABANDONED, Ordering::Relaxed);
            } else if other.guard.load(Ordering::Relaxed) != 0 && is_inside(shared, other, registers) {
                return Err(Refused::Busy);
            }
            return Ok(other);
        }
        state.note_changes(shared);
        let guard = state.guard.load(Ordering::Relaxed);
        if state.native_holds(stack_pointer) {
            // The same one, further down or with its range forgotten.
            // An alternate stack may lie inside the range of this one: a local array of `main`.
            if guard != 0 && (is_inside(shared, state, registers) || syscall::on_alternate_stack(stack_pointer)) {
                return Err(state.refusal());
            }
            state.on_alternate.set(false);
        } else if syscall::on_alternate_stack(stack_pointer) {
            // The hook that holds the guard is the interrupted one, unless it is an outer one on this stack
            // that was left by a jump.
            let stale = state.alternate.get().contains(guard) && stack_pointer >= guard;
            if guard != 0 && !stale {
                return Err(Refused::Busy);
            }
            state.on_alternate.set(true);
            state.alternate.set(StackRange::around(stack_pointer));
        } else {
            // Another stack of this thread, to which control went for good or for now. A hook does not
            // switch stacks, so one that was running when control left was abandoned.
            state.on_alternate.set(false);
            state.stand_on(shared, tid, stack_pointer);
        }
        Ok(state)
    }
}

/// Whether the hook that holds the guard encloses this call. Stacks grow down: an enclosing hook lies
/// above; one at or below was left by `longjmp` or an exception. So was one whose sign is gone, or of
/// which the stack from here outwards knows nothing.
#[cold]
fn is_inside(shared: &Shared, state: &ThreadState, registers: &Registers) -> bool {
    let guard = state.guard.load(Ordering::Relaxed);
    (registers.sp as usize) < guard
        && state.native.get().word(guard as u64) == Some(SIGN)
        && apart::result_of(true, || capture::own_code_is_on_stack(shared, state.native.get(), registers))
}

impl Drop for Access<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        compiler_fence(Ordering::SeqCst);
        // Whoever takes the state over when this thread is gone sees all that was done before.
        self.state.thread().guard.store(0, Ordering::Release);
        self.sign.0.store(0, Ordering::Relaxed);
    }
}

/// Counts something for a thread that could not enter.
#[cold]
pub fn count_refused(shared: &'static Shared, refused: Refused, effect: CallEffect) {
    let counter = match (refused, effect) {
        (Refused::Off, _) => return,
        (Refused::Busy, CallEffect::Gives) => TallyCounter::LostBusy,
        (Refused::Busy, CallEffect::Takes) => TallyCounter::FreesBusy,
        (Refused::NoState, CallEffect::Gives) => TallyCounter::LostNoThread,
        (Refused::NoState, CallEffect::Takes) => TallyCounter::UnknownFrees,
    };
    count_apart(shared, counter);
}

/// Counts in the header's own share of a counter, by a locked instruction: for what is rare, from any thread.
#[cold]
pub fn count_apart(shared: &Shared, counter: TallyCounter) {
    if let Some(counter) = shared.ledger().apart(counter) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

impl Access<'_> {
    /// Whether a block of so many bytes is to be entered; if the ledger samples, one in so many bytes is.
    #[inline(always)]
    pub(crate) fn takes(&mut self, bytes: usize) -> bool {
        self.is_usual || self.shared.settings().sample == 0 || self.aside(|access| access.takes_sample(bytes as u64))
    }

    #[cold]
    #[inline(never)]
    fn takes_sample(&mut self, bytes: u64) -> bool {
        let step = bytes.max(1);
        let gap = tls::gap() as u64;
        // A thread that has not drawn yet begins with a gap of its own. So does a call that runs inside of another one, which
        // has put its gap aside, or after one that never came back: the distribution has no memory.
        let gap = if gap == 0 || self.state.random == 0 { self.draw() } else { gap };
        if gap > step {
            tls::set_gap(gap.wrapping_sub(step) as usize);
            return false;
        }
        let gap = self.draw();
        tls::set_gap(gap as usize);
        true
    }

    fn draw(&mut self) -> u64 {
        let state = &mut *self.state;
        if state.random == 0 {
            state.random = syscall::random_again() | 1;
        }
        state.random = state.random.wrapping_add(sample::STEP);
        sample::next_gap(sample::scramble(state.random), self.shared.settings().sample)
    }
}

impl ThreadState {
    /// Why a call is not entered that comes from inside of a hook. What an allocator allocates for its own answer to a question of
    /// ours is counted for who asks.
    #[cold]
    fn refusal(&self) -> Refused {
        let asked = self.asking.load(Ordering::Relaxed);
        if asked == 0 {
            return Refused::Busy;
        }
        self.asking.store(asked.saturating_add(1), Ordering::Relaxed);
        Refused::Off
    }

    /// The thread is on a stack on which it was not before.
    #[cold]
    pub(crate) fn stand_on(&self, shared: &Shared, tid: u32, stack_pointer: usize) {
        let mut own = self.own.get();
        if !own.is_own() {
            // glibc keeps a thread's control block at the end of its stack; the first thread's lies elsewhere.
            let is_first = tid == syscall::getpid();
            let first_end = shared.first_stack_end.load(Ordering::Relaxed);
            let end = if is_first { first_end } else { tls::thread_pointer() };
            own = StackRange::of_thread(stack_pointer, end);
        }
        let is_own = own.is_own() && own.holds(stack_pointer);
        self.own.set(own);
        self.native.set(if is_own { own } else { StackRange::around(stack_pointer) });
    }

    /// Whether a stack pointer is on the thread's own stack, as far as that is known: then it is this thread that came in,
    /// and there is room. Other stacks may be small.
    #[inline(always)]
    pub(crate) fn stands_on_own(&self, stack_pointer: usize) -> bool {
        let native = self.native.get();
        native.is_own() && native.contains(stack_pointer)
    }

    /// Whether the thread may enter on a stack that is not its own, as on that, because there is room: so many bytes below the
    /// stack pointer can be read, which a guard page cannot. The kernel is asked once for each page.
    #[cold]
    #[inline(never)]
    pub(crate) fn has_room_elsewhere(&self, shared: &Shared, stack_pointer: usize) -> bool {
        let native = self.native.get();
        self.guard.load(Ordering::Relaxed) == 0
            && native.contains(stack_pointer)
            && !native.is_own()
            && self.is_believed(shared)
            && self.native_holds(stack_pointer.wrapping_sub(ROOM_BYTES))
    }

    /// Whether what is known of the present stack still holds. It does not where nobody tells of memory that goes away. Where blocks are sampled, most frees are not seen, and a stack
    /// may go with any; a sample is rare, and asking the kernel again is cheap.
    #[inline(always)]
    fn is_believed(&self, shared: &Shared) -> bool {
        self.native.get().is_own()
            || shared.settings().tells_of_memory
                && !shared.sampling.is_on()
                && self.memory_changes.get() == shared.memory_changes.load(Ordering::Relaxed)
                && !self.native.get().is_cut()
    }

    /// Forgets what was known of a stack that is not the thread's own, if memory was given back since.
    fn note_changes(&self, shared: &Shared) {
        if self.is_believed(shared) || self.guard.load(Ordering::Relaxed) != 0 {
            return;
        }
        self.memory_changes.set(shared.memory_changes.load(Ordering::Relaxed));
        // The caller looks where it stands.
        self.native.set(StackRange::default());
    }
}

/// Follows the address range of a block's heap. Every new lease of numbers tells the ledger.
#[inline(always)]
pub(crate) fn note_range(access: &mut Access, block: &NewBlock, actual: usize) {
    let (low, high) = (block.address, block.address.wrapping_add(actual));
    if let Some(range) = access.state.ranges.get_mut(usize::from(block.heap)) {
        range.below_low = range.below_low.max(!low);
        range.high = range.high.max(high);
    }
}
