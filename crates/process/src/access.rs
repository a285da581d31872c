//! A thread's access to the recorder: who it is, and whether it may enter.

use crate::capture;
use crate::shared::{Phase, Shared};
use crate::state::ThreadState;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, compiler_fence};
use heapledger_format::{GlobalCounter, TallyCounter, sample};
use heapledger_linux::stack::StackRange;
use heapledger_linux::{apart, syscall, tls};
use heapledger_recorder::backend::Backend;
use heapledger_unwind::Registers;

/// A mark on the stack of a hook that is inside the recorder. If control leaves the hook by a jump, other
/// frames overwrite it sooner or later, and it no longer vouches for the guard that points to it.
pub struct Sign(AtomicU64);

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
    pub(crate) state: &'static mut ThreadState,
    pub(crate) sign: &'hook Sign,
    /// See [`NewBlock::is_apart`](crate::hooks::NewBlock::is_apart), of the block that is being entered.
    pub(crate) is_apart: bool,
    /// Address of the block that is being entered or taken out, and its cell in the index, if it has been looked for.
    pub(crate) cell: Option<(u64, &'static AtomicU32)>,
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

impl<'hook> Access<'hook> {
    /// Enters with the state of a thread that is known to have one, in a process that records. `None`: [`Access::enter`] finds
    /// out why not.
    #[inline(always)]
    pub(crate) fn enter_at_once(
        shared: &'static Shared,
        state: &'static mut ThreadState,
        registers: &Registers,
        sign: &'hook Sign,
    ) -> Option<Self> {
        let stack_pointer = registers.sp as usize;
        if (!state.stands_on_own(stack_pointer) || state.guard.load(Ordering::Relaxed) != 0)
            && !state.has_room_elsewhere(shared, stack_pointer)
        {
            return None;
        }
        state.on_alternate = false;
        Some(Access::inside(shared, state, sign))
    }

    #[inline(always)]
    fn inside(shared: &'static Shared, state: &'static mut ThreadState, sign: &'hook Sign) -> Self {
        state.asking.store(0, Ordering::Relaxed);
        sign.0.store(SIGN, Ordering::Relaxed);
        state.guard.store(&raw const sign.0 as usize, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst); // a handler of this thread must see the guard before any update
        Access { shared, state, sign, is_apart: false, cell: None }
    }

    /// Enters, if this process records and the thread is not inside already. `sign` lies on the hook's stack.
    #[cold]
    #[inline(never)]
    pub fn enter(shared: &'static Shared, registers: &Registers, sign: &'hook Sign) -> Result<Self, Refused> {
        let stack_pointer = registers.sp as usize;
        if shared.phase.load(Ordering::Acquire) != Phase::On as u8 {
            return Err(Refused::Off);
        }
        if !shared.mark.holds() {
            crate::start::note_forked_child(shared);
            return Err(Refused::Off);
        }
        let word = tls::get();
        let mut state = word as *mut ThreadState;
        if word == 0 {
            state = Self::first_time(shared, stack_pointer)?;
        }
        // SAFETY: the TLS word is only ever set to a state of this thread, and states are never
        // unmapped. Whether it really is this thread that came in is checked next.
        let mut state = unsafe { &mut *state };
        // Only looked at: on another stack it may be another thread that shares our TLS word.
        if !state.native.contains(stack_pointer) || !state.is_believed(shared) {
            state = Self::on_another_stack(shared, state, registers)?;
        } else if state.guard.load(Ordering::Relaxed) != 0
            // An alternate stack may lie inside the range of this one: a local array of `main`.
            && (is_inside(shared, state, registers) || syscall::on_alternate_stack(stack_pointer))
        {
            // What an allocator allocates for its own answer to our question is not the program's.
            let own = state.asking.load(Ordering::Relaxed) != 0;
            return Err(if own { Refused::Off } else { Refused::Busy });
        } else {
            state.on_alternate = false;
        }
        if state.guard.load(Ordering::Relaxed) != 0 {
            // A hook was left by a jump, perhaps in the middle of remembering a stack.
            state.forget_stacks();
        }
        Ok(Access::inside(shared, state, sign))
    }

    #[cold]
    fn first_time(shared: &'static Shared, stack_pointer: usize) -> Result<*mut ThreadState, Refused> {
        // No handler may come in between and register the same thread again.
        let _signals = syscall::SignalsBlocked::new();
        let state = shared.threads.register(shared, syscall::gettid(), stack_pointer).ok_or(Refused::NoState)?;
        tls::set(state as usize);
        Ok(state)
    }

    /// The stack pointer is not on the stack where this thread was last seen: an alternate signal
    /// stack, a coroutine, or another kernel thread that a raw `clone` gave our TLS word.
    #[cold]
    fn on_another_stack(
        shared: &'static Shared,
        state: &'static mut ThreadState,
        registers: &Registers,
    ) -> Result<&'static mut ThreadState, Refused> {
        let stack_pointer = registers.sp as usize;
        let tid = syscall::gettid();
        if tid != state.tid {
            let other = match shared.threads.by_tid(tid) {
                Some(other) => other,
                None => {
                    let _signals = syscall::SignalsBlocked::new();
                    shared.threads.register(shared, tid, stack_pointer).ok_or(Refused::NoState)?
                }
            };
            // SAFETY: the state that this kernel thread owns; states are never unmapped.
            let other = unsafe { &mut *other };
            other.on_alternate = false;
            other.note_changes(shared);
            if !other.native.holds(stack_pointer) {
                other.stand_on(shared, tid, stack_pointer);
                other.forget_stacks();
                other.guard.store(0, Ordering::Relaxed);
            }
            if other.guard.load(Ordering::Relaxed) != 0 && is_inside(shared, other, registers) {
                return Err(Refused::Busy);
            }
            return Ok(other);
        }
        state.on_alternate = false;
        state.note_changes(shared);
        let guard = state.guard.load(Ordering::Relaxed);
        if state.native.holds(stack_pointer) {
            // The same one, further down or with its range forgotten.
            // An alternate stack may lie inside the range of this one: a local array of `main`.
            if guard != 0 && (is_inside(shared, state, registers) || syscall::on_alternate_stack(stack_pointer)) {
                let own = state.asking.load(Ordering::Relaxed) != 0;
                return Err(if own { Refused::Off } else { Refused::Busy });
            }
        } else if syscall::on_alternate_stack(stack_pointer) {
            // The hook that holds the guard is the interrupted one, unless it is an outer one on this stack
            // that was left by a jump.
            let stale = state.alternate.contains(guard) && stack_pointer >= guard;
            if guard != 0 && !stale {
                return Err(Refused::Busy);
            }
            state.on_alternate = true;
            state.alternate = StackRange::around(stack_pointer);
        } else {
            // Another stack of this thread, to which control went for good or for now. A hook does not
            // switch stacks, so one that was running when control left was abandoned.
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
    state.native.contains(guard)
        && (registers.sp as usize) < guard
        // SAFETY: an aligned word in the range of this stack that is known to be readable.
        && unsafe { (guard as *const u64).read_volatile() } == SIGN
        && apart::result_of(true, || capture::own_code_is_on_stack(shared, state.native, registers))
}

impl Drop for Access<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        compiler_fence(Ordering::SeqCst);
        self.state.guard.store(0, Ordering::Relaxed);
        self.sign.0.store(0, Ordering::Relaxed);
    }
}

/// Counts something for a thread that could not enter.
#[cold]
pub fn count_refused(shared: &'static Shared, refused: Refused, began: bool) {
    let counter = match (refused, began) {
        (Refused::Off, _) => return,
        (Refused::Busy, true) => TallyCounter::LostBusy,
        (Refused::Busy, false) => TallyCounter::FreesBusy,
        (Refused::NoState, true) => TallyCounter::LostNoThread,
        (Refused::NoState, false) => TallyCounter::UnknownFrees,
    };
    count_apart(shared, counter);
}

/// Counts in the header's own share of a counter, by a locked instruction: for what is rare, from any thread.
#[cold]
pub fn count_apart(shared: &Shared, counter: TallyCounter) {
    let at = heapledger_format::header::counter_at(
        heapledger_format::WordSize::W64,
        GlobalCounter::COUNT + counter as usize,
    );
    if let Some(mapping) = shared.ledger().mapping() {
        // SAFETY: an aligned word of the backed header page.
        unsafe { &*mapping.base().add(at).cast::<AtomicU64>() }.fetch_add(1, Ordering::Relaxed);
    }
}

impl Access<'_> {
    /// Whether a block of so many bytes is to be entered; if the ledger samples, one in so many bytes is.
    #[inline(always)]
    pub(crate) fn takes(&mut self, bytes: usize) -> bool {
        self.shared.settings().sample == 0 || self.aside(|access| access.takes_sample(bytes as u64))
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
            tls::set_gap((gap - step) as usize);
            return false;
        }
        let gap = self.draw();
        tls::set_gap(gap as usize);
        true
    }

    fn draw(&mut self) -> u64 {
        let state = &mut *self.state;
        if state.random == 0 {
            state.random = syscall::random() | 1;
        }
        state.random = state.random.wrapping_add(sample::STEP);
        sample::next_gap(sample::scramble(state.random), self.shared.settings().sample)
    }
}

impl ThreadState {
    /// The thread is on a stack on which it was not before.
    #[cold]
    pub(crate) fn stand_on(&mut self, shared: &Shared, tid: u32, stack_pointer: usize) {
        if !self.own.is_own() {
            // glibc keeps a thread's control block at the end of its stack; the first thread's lies elsewhere.
            let is_first = tid == syscall::getpid();
            let first_end = shared.first_stack_end.load(Ordering::Relaxed);
            let end = if is_first { first_end } else { tls::thread_pointer() };
            self.own = StackRange::of_thread(stack_pointer, end);
        }
        self.native = if self.own.is_own() && self.own.holds(stack_pointer) {
            self.own
        } else {
            StackRange::around(stack_pointer)
        };
    }

    /// Whether a stack pointer is on the thread's own stack, as far as that is known: then it is this thread that came in,
    /// and there is room. Other stacks may be small.
    #[inline(always)]
    pub(crate) fn stands_on_own(&self, stack_pointer: usize) -> bool {
        self.native.is_own() && self.native.contains(stack_pointer)
    }

    /// Whether the thread may enter on a stack that is not its own, as on that, because there is room: so many bytes below the
    /// stack pointer can be read, which a guard page cannot. The kernel is asked once for each page.
    #[cold]
    #[inline(never)]
    pub(super) fn has_room_elsewhere(&mut self, shared: &Shared, stack_pointer: usize) -> bool {
        self.guard.load(Ordering::Relaxed) == 0
            && self.native.contains(stack_pointer)
            && !self.native.is_own()
            && self.is_believed(shared)
            && self.native.holds(stack_pointer.wrapping_sub(ROOM_BYTES))
    }

    /// Whether what is known of the present stack still holds. Where blocks are sampled, most frees are not seen, and a stack
    /// may go with any; a sample is rare, and asking the kernel again is cheap.
    #[inline(always)]
    fn is_believed(&self, shared: &Shared) -> bool {
        self.native.is_own()
            || !shared.sampling.is_on() && self.memory_changes == shared.memory_changes.load(Ordering::Relaxed)
    }

    /// Forgets what was known of a stack that is not the thread's own, if memory was given back since.
    fn note_changes(&mut self, shared: &Shared) {
        if self.is_believed(shared) || self.guard.load(Ordering::Relaxed) != 0 {
            return;
        }
        self.memory_changes = shared.memory_changes.load(Ordering::Relaxed);
        // The caller looks where it stands.
        self.native = StackRange::default();
    }

    /// Forgets all stacks that were taken.
    #[cold]
    fn forget_stacks(&mut self) {
        self.forget_code();
        self.memo.forget();
    }
}
