//! A trace in memory of the caller's, which all threads of a process write: who may touch it, and what it is told.
//!
//! Nothing of a ledger is needed for it, nor a recorder at work. Each call takes the lock for as long as it changes a record, and
//! signals are blocked meanwhile; stacks are taken outside of it. A forked child has a copy, in which it goes on; if another thread was
//! in the middle of a change, that is mended first.
//!
//! A room with `unsafe`: lends a trace to whoever holds its lock.

use crate::backtrace::{StackMethod, take};
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use heapledger_linux::clock::Clock;
use heapledger_linux::fork_token::ForkToken;
use heapledger_linux::syscall;
use heapledger_recorder::trace::{FRAMES_MAX, TraceBuffer, TraceCaller, TraceMode, TraceShape, TraceState};
use heapledger_unwind::Registers;

/// What a trace is to be.
#[derive(Clone, Copy, Debug)]
pub struct NewTrace {
    /// What a record has room for.
    pub shape: TraceShape,
    /// So many innermost frames are left out of each stack.
    pub without_innermost: usize,
    /// Only blocks of the calling thread become records.
    pub of_own_thread: bool,
}

/// Why there is no trace, or nothing is known of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoTrace {
    /// There is one already.
    Taken,
    /// The buffer has no room for a record, or a record is to have more frames than there can be.
    NoRoom,
    /// There is no memory for the lock.
    NoMemory,
    /// Others have held it for two seconds.
    Busy,
    /// There is none.
    None,
}

/// A place for a trace.
pub struct SharedTrace {
    lock: ForkToken,
    taken: AtomicBool,
    /// What the trace says of itself ([`TraceState`]): calls look at it before they take the lock.
    state: AtomicU8,
    /// The only thread whose blocks become records; 0: of all.
    only: AtomicU32,
    without_innermost: AtomicU32,
    frames: AtomicU32,
    keeps_frees: AtomicBool,
    /// Calls that did not get the lock, and have not been told yet.
    missed: AtomicU64,
    clock: Clock,
    trace: UnsafeCell<Option<TraceBuffer<'static>>>,
}

// SAFETY: what lies in the cell is touched by whoever holds the lock, and by nobody else.
unsafe impl Sync for SharedTrace {}

impl SharedTrace {
    /// Without a trace.
    pub const fn new() -> SharedTrace {
        SharedTrace {
            lock: ForkToken::new(),
            taken: AtomicBool::new(false),
            state: AtomicU8::new(TraceState::Stopped as u8),
            only: AtomicU32::new(0),
            without_innermost: AtomicU32::new(0),
            frames: AtomicU32::new(0),
            keeps_frees: AtomicBool::new(false),
            missed: AtomicU64::new(0),
            clock: Clock::new(),
            trace: UnsafeCell::new(None),
        }
    }

    /// Calls `f` with the trace, or where it is to be.
    fn locked<T>(&self, f: impl FnOnce(&mut Option<TraceBuffer<'static>>) -> T) -> Option<T> {
        let held = self.lock.take()?;
        // SAFETY: the lock is held by this thread, which does not come here again before it gives it back: no signal handler runs, and
        // nothing that is called here allocates.
        let trace = unsafe { &mut *self.trace.get() };
        if let Some(trace) = trace.as_mut().filter(|_| held.is_first_of_child) {
            trace.rebuild();
        }
        let result = f(trace);
        let state = trace.as_ref().map_or(TraceState::Stopped, |trace| trace.state());
        self.state.store(state as u8, Ordering::Relaxed);
        Some(result)
    }

    /// Does something with the trace.
    ///
    /// # Errors
    /// If there is none, or others hold it for too long.
    pub fn with<T>(&self, f: impl FnOnce(&mut TraceBuffer<'static>) -> T) -> Result<T, NoTrace> {
        let told = |trace: &mut Option<TraceBuffer<'static>>| {
            let trace = trace.as_mut()?;
            trace.note_missed(self.missed.swap(0, Ordering::Relaxed));
            Some(f(trace))
        };
        self.locked(told).ok_or(NoTrace::Busy)?.ok_or(NoTrace::None)
    }

    /// Begins a trace, which runs.
    ///
    /// # Errors
    /// The buffer comes back with the reason.
    pub fn start(&self, words: &'static mut [usize], new: &NewTrace) -> Result<(), (NoTrace, &'static mut [usize])> {
        if self.taken.swap(true, Ordering::AcqRel) {
            return Err((NoTrace::Taken, words));
        }
        let result = self.start_taken(words, new);
        if result.is_err() {
            self.taken.store(false, Ordering::Release);
        }
        result
    }

    fn start_taken(&self, words: &'static mut [usize], new: &NewTrace) -> Result<(), (NoTrace, &'static mut [usize])> {
        if new.shape.records(words.len()).unwrap_or(0) == 0 {
            return Err((NoTrace::NoRoom, words));
        }
        if self.lock.start().is_err() {
            return Err((NoTrace::NoMemory, words));
        }
        self.clock.start();
        let only = if new.of_own_thread { syscall::gettid() } else { 0 };
        self.only.store(only, Ordering::Relaxed);
        self.without_innermost.store(new.without_innermost as u32, Ordering::Relaxed);
        self.frames.store(new.shape.frames as u32, Ordering::Relaxed);
        self.keeps_frees.store(new.shape.mode == TraceMode::All, Ordering::Relaxed);
        self.missed.store(0, Ordering::Relaxed);
        let mut given = Some(words);
        let begin = |trace: &mut Option<TraceBuffer<'static>>| {
            *trace = given.take().and_then(|words| TraceBuffer::new(words, new.shape, (only != 0).then_some(only)));
            if let Some(trace) = trace {
                trace.start();
            }
        };
        match (self.locked(begin), given) {
            (None, Some(words)) => Err((NoTrace::Busy, words)),
            _ => Ok(()),
        }
    }

    /// Ends the trace, and gives its buffer back.
    ///
    /// # Errors
    /// If there is none, or others hold it for too long: then it goes on.
    pub fn end(&self) -> Result<&'static mut [usize], NoTrace> {
        let trace = self.locked(Option::take).ok_or(NoTrace::Busy)?.ok_or(NoTrace::None)?;
        self.taken.store(false, Ordering::Release);
        Ok(trace.into_words())
    }

    /// Whether the trace is at least in this state.
    fn is_for(&self, least: TraceState) -> bool {
        self.state.load(Ordering::Relaxed) >= least as u8
    }

    /// Calls `f` with the trace, and this moment.
    fn tell(&self, thread: u32, frames: &[usize], f: impl FnOnce(&mut TraceBuffer<'static>, &TraceCaller)) {
        let told = |trace: &mut TraceBuffer<'static>| {
            // Within the lock, so that times are in the order of numbers.
            f(trace, &TraceCaller { thread, time: self.clock.now_ns(), frames });
        };
        if self.with(told) == Err(NoTrace::Busy) {
            self.missed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether a block of this thread becomes a record.
    fn records(&self, thread: u32) -> bool {
        let only = self.only.load(Ordering::Relaxed);
        self.is_for(TraceState::Running) && (only == 0 || only == thread)
    }

    /// The stack that leads to `registers`, as much of it as a record has room for. Returns its length.
    fn stack(&self, registers: &Registers, into: &mut [usize; FRAMES_MAX]) -> usize {
        let frames = (self.frames.load(Ordering::Relaxed) as usize).min(FRAMES_MAX);
        let before = self.without_innermost.load(Ordering::Relaxed) as usize;
        let room = into.get_mut(..frames).filter(|room| !room.is_empty());
        room.map_or(0, |room| take(registers, StackMethod::Auto, (before, 0), room).frames)
    }

    /// A block was given.
    pub fn allocated(&self, registers: &Registers, address: usize, size: usize) {
        if !self.is_for(TraceState::Running) {
            return;
        }
        let thread = syscall::gettid();
        if !self.records(thread) {
            return;
        }
        let mut frames = [0; FRAMES_MAX];
        let count = self.stack(registers, &mut frames);
        let frames = frames.get(..count).unwrap_or(&[]);
        self.tell(thread, frames, |trace, caller| trace.allocated(address, size, caller));
    }

    /// A block is about to be freed.
    pub fn freed(&self, registers: &Registers, address: usize) {
        if !self.is_for(TraceState::Paused) {
            return;
        }
        let mut frames = [0; FRAMES_MAX];
        let wants_stack =
            self.keeps_frees.load(Ordering::Relaxed) && self.with(|trace| trace.knows(address)) != Ok(false);
        let count = if wants_stack { self.stack(registers, &mut frames) } else { 0 };
        let frames = frames.get(..count).unwrap_or(&[]);
        self.tell(syscall::gettid(), frames, |trace, caller| _ = trace.freed(address, caller));
    }

    /// A block is about to be resized. What comes of it is told by [`SharedTrace::resized`].
    pub fn resizes(&self, address: usize) {
        if self.is_for(TraceState::Paused) {
            self.tell(syscall::gettid(), &[], |trace, caller| trace.resizes(address, caller.thread));
        }
    }

    /// What came of it: a new block, with its size, or none.
    pub fn resized(&self, registers: &Registers, old: usize, new: Option<(usize, usize)>) {
        if !self.taken.load(Ordering::Relaxed) {
            return;
        }
        let thread = syscall::gettid();
        let mut frames = [0; FRAMES_MAX];
        let count = if new.is_some() && self.records(thread) { self.stack(registers, &mut frames) } else { 0 };
        let frames = frames.get(..count).unwrap_or(&[]);
        self.tell(thread, frames, |trace, caller| trace.resized(old, new, caller));
    }
}

impl Default for SharedTrace {
    fn default() -> Self {
        Self::new()
    }
}
