//! Functions of the program that are told of its calls.
//!
//! They are called outside of the recorder, on the program's stack: after a block was given and entered, and before one is given
//! back. What they allocate is passed on and recorded, and told to nobody: which threads are inside of one is noted in a table.

use crate::state::{self, Want};
use crate::{Error, counting, live, thread_word};
use core::mem::transmute;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

/// What was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventCall {
    /// `GlobalAlloc::alloc`.
    Alloc,
    /// `GlobalAlloc::alloc_zeroed`.
    AllocZeroed,
    /// `GlobalAlloc::dealloc`.
    Dealloc,
    /// `GlobalAlloc::realloc`.
    Realloc,
}

/// What a hook is told. See [`on_alloc`] and [`on_free`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// What was called.
    pub call: EventCall,
    /// Where the block is.
    pub address: usize,
    /// Its bytes.
    pub size: usize,
    /// Its alignment.
    pub align: usize,
}

/// When a hook is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum When {
    Gave = 1,
    TakesBack = 2,
    /// As `Gave`, if live bytes have passed a limit.
    LiveAbove = 3,
}

type Function = fn(&Event);

/// Hooks at the same time.
const HOOKS: usize = 32;

struct HookPlace {
    taken: AtomicBool,
    /// Null: nothing is to be called.
    function: AtomicPtr<()>,
    /// A [`When`].
    when: AtomicUsize,
    /// Of [`When::LiveAbove`], and whether live bytes are above it.
    limit: AtomicUsize,
    is_above: AtomicBool,
    calls: AtomicUsize,
    /// How many threads are inside of it.
    running: AtomicUsize,
    panicked: AtomicBool,
}

static SLOTS: [HookPlace; HOOKS] = [const { HookPlace::new() }; HOOKS];

/// Threads that can be inside of hooks at the same time.
const THREADS: usize = 64;

/// A thread that is inside of a hook.
struct Inside {
    /// 0: vacant.
    thread: AtomicUsize,
    /// About where its stack was when the hook was called.
    stack: AtomicUsize,
    /// The block that it is told of.
    block: AtomicUsize,
}

static INSIDE: [Inside; THREADS] =
    [const { Inside { thread: AtomicUsize::new(0), stack: AtomicUsize::new(0), block: AtomicUsize::new(0) } }; THREADS];

static NESTED: AtomicUsize = AtomicUsize::new(0);
static LEFT: AtomicUsize = AtomicUsize::new(0);
static UNTOLD: AtomicUsize = AtomicUsize::new(0);
static REFUSED: AtomicUsize = AtomicUsize::new(0);

/// What hooks were not told, and what was odd about them, since the program began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HookFigures {
    /// Calls that hooks made themselves: nobody is told of these.
    pub nested: u64,
    /// Hooks that did not come back, by `longjmp` say, as was found out when their thread called again.
    pub left: u64,
    /// Calls of which nobody was told because 64 threads were inside of hooks already.
    pub untold: u64,
    /// Hooks that gave back, or resized, the block that they were just told of: that was not done.
    pub refused: u64,
}

/// See [`HookFigures`].
pub fn hook_figures() -> HookFigures {
    let get = |figure: &AtomicUsize| figure.load(Ordering::Relaxed) as u64;
    HookFigures { nested: get(&NESTED), left: get(&LEFT), untold: get(&UNTOLD), refused: get(&REFUSED) }
}

impl HookPlace {
    const fn new() -> HookPlace {
        HookPlace {
            taken: AtomicBool::new(false),
            function: AtomicPtr::new(ptr::null_mut()),
            when: AtomicUsize::new(0),
            limit: AtomicUsize::new(0),
            is_above: AtomicBool::new(false),
            calls: AtomicUsize::new(0),
            running: AtomicUsize::new(0),
            panicked: AtomicBool::new(false),
        }
    }

    fn function(&self, when: When) -> Option<Function> {
        let function = self.function.load(Ordering::SeqCst);
        let own = self.when.load(Ordering::Relaxed);
        let is_for = own == when as usize || when == When::Gave && own == When::LiveAbove as usize;
        if function.is_null() || !is_for {
            return None;
        }
        // SAFETY: it is null, or such a function.
        Some(unsafe { transmute::<*mut (), Function>(function) })
    }

    fn is_above(&self) -> bool {
        live::bytes() > self.limit.load(Ordering::Relaxed) as u64
    }

    /// Whether it is not to be told of this call: live bytes have not passed its limit now.
    fn is_quiet(&self) -> bool {
        let is_threshold = self.when.load(Ordering::Relaxed) == When::LiveAbove as usize;
        is_threshold && (!self.is_above() || self.is_above.swap(true, Ordering::Relaxed))
    }

    fn tell(&self, when: When, event: &Event) {
        if self.function(when).is_none() || self.is_quiet() {
            return;
        }
        self.running.fetch_add(1, Ordering::SeqCst);
        // Who has unregistered it since waits, or does not know that we are here.
        if let Some(function) = self.function(when) {
            self.calls.fetch_add(1, Ordering::Relaxed);
            if !call(function, event) {
                self.panicked.store(true, Ordering::Relaxed);
                self.function.store(ptr::null_mut(), Ordering::SeqCst);
            }
        }
        self.running.fetch_sub(1, Ordering::SeqCst);
    }
}

/// False if it panics: nothing may unwind out of an allocator.
#[cfg(feature = "std")]
fn call(function: Function, event: &Event) -> bool {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    match catch_unwind(AssertUnwindSafe(|| function(event))) {
        Ok(()) => true,
        Err(payload) => {
            // What it carries may panic when it is dropped, and what that carries, too.
            if let Err(other) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
                core::mem::forget(other);
            }
            false
        }
    }
}

#[cfg(not(feature = "std"))]
fn call(function: Function, event: &Event) -> bool {
    function(event);
    true
}

/// Where the calling thread is noted, if it is inside of a hook.
fn own() -> Option<&'static Inside> {
    let thread = thread_word::id();
    INSIDE.iter().find(|inside| inside.thread.load(Ordering::Relaxed) == thread)
}

/// A place for the calling thread, which is about to be inside of a hook; `None`: it is inside already, or there is none.
fn enter(stack: usize) -> Option<&'static Inside> {
    if let Some(own) = own() {
        // Stacks grow down: what lies above this call encloses it.
        if stack < own.stack.load(Ordering::Relaxed) {
            NESTED.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        LEFT.fetch_add(1, Ordering::Relaxed);
        own.stack.store(stack, Ordering::Relaxed);
        return Some(own);
    }
    let claim =
        |inside: &&Inside| inside.thread.compare_exchange(0, usize::MAX, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    let Some(own) = INSIDE.iter().find(claim) else {
        UNTOLD.fetch_add(1, Ordering::Relaxed);
        return None;
    };
    own.stack.store(stack, Ordering::Relaxed);
    own.thread.store(thread_word::id(), Ordering::Release);
    Some(own)
}

/// Tells of a call.
#[cold]
#[inline(never)]
pub(crate) fn tell(when: When, event: &Event) {
    if !SLOTS.iter().any(|slot| slot.function(when).is_some()) {
        return;
    }
    let Some(inside) = enter((&raw const *event).addr()) else { return };
    inside.block.store(event.address, Ordering::Relaxed);
    for slot in &SLOTS {
        slot.tell(when, event);
    }
    inside.block.store(0, Ordering::Relaxed);
    inside.thread.store(0, Ordering::Release);
}

/// Live bytes have become fewer.
#[cold]
#[inline(never)]
pub(crate) fn fell() {
    for slot in SLOTS.iter().filter(|slot| slot.is_above.load(Ordering::Relaxed) && !slot.is_above()) {
        slot.is_above.store(false, Ordering::Relaxed);
    }
}

/// Whether a hook gives a block back, or resizes it, that it is just told of: that is not done, and counted.
#[cold]
#[inline(never)]
pub(crate) fn refuses(block: usize) -> bool {
    let is_told = own().is_some_and(|inside| block != 0 && inside.block.load(Ordering::Relaxed) == block);
    if is_told {
        REFUSED.fetch_add(1, Ordering::Relaxed);
    }
    is_told
}

/// A function is called as long as this is there. See [`on_alloc`] and [`on_free`].
#[derive(Debug)]
#[must_use = "the function is called no longer when it is dropped"]
pub struct Hook {
    slot: usize,
}

fn register(when: When, limit: usize, function: Function) -> Result<Hook, Error> {
    match state::base() {
        state::UNSTARTED => return Err(Error::NoAllocator),
        _ if thread_word::id() == 0 => return Err(Error::Unsupported),
        _ => {}
    }
    let claim = |slot: &HookPlace| !slot.taken.swap(true, Ordering::AcqRel);
    let index = SLOTS.iter().position(claim).ok_or(Error::TooMany)?;
    let slot = SLOTS.get(index).ok_or(Error::TooMany)?;
    if !state::join(Want::Asked) {
        slot.taken.store(false, Ordering::Release);
        return Err(Error::TooMany);
    }
    slot.calls.store(0, Ordering::Relaxed);
    slot.limit.store(limit, Ordering::Relaxed);
    slot.is_above.store(when == When::LiveAbove && slot.is_above(), Ordering::Relaxed);
    slot.panicked.store(false, Ordering::Relaxed);
    slot.when.store(when as usize, Ordering::Relaxed);
    slot.function.store(function as *mut (), Ordering::SeqCst);
    Ok(Hook { slot: index })
}

/// From now on a function is called for each block that a [`Heapledger`](crate::Heapledger) gives, by the thread that asked for it, when
/// the block is in the ledger. It is told whatever is recorded, of each block although only samples are, and under `heapledger run`.
///
/// The function may do what it likes. What it allocates is recorded, but nobody is told of that. A block that it gives back although
/// it was just told of it is not given back. If it panics, that is caught and it is not called again; without the feature `std` the
/// program ends. Of a `realloc` it is told when there is a new block, or the old one is as it was because there is none: [`on_free`] was
/// told before that the old one goes.
///
/// If it is code of a library that can be unloaded, [`Hook::running`] is asked before, until it says 0.
///
/// ```
/// # use heapledger::Heapledger;
/// # use std::alloc::System;
/// # #[global_allocator]
/// # static HEAP: Heapledger<System> = Heapledger::system();
/// use std::sync::atomic::{AtomicUsize, Ordering};
///
/// static LARGEST: AtomicUsize = AtomicUsize::new(0);
///
/// # fn main() -> Result<(), heapledger::Error> {
/// let hook = heapledger::on_alloc(|event| _ = LARGEST.fetch_max(event.size, Ordering::Relaxed))?;
/// drop(vec![0u8; 123_456]);
/// assert!(hook.calls() >= 1 && LARGEST.load(Ordering::Relaxed) >= 123_456);
/// # drop(hook);
/// # heapledger::discard();
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Error::NoAllocator`] if no `Heapledger` is the program's allocator, [`Error::TooMany`] if 32 hooks are there already,
/// [`Error::Unsupported`] where threads cannot be told apart.
pub fn on_alloc(function: fn(&Event)) -> Result<Hook, Error> {
    register(When::Gave, 0, function)
}

/// From now on a function is called for each block that is about to be given back, or resized: it is still there. See [`on_alloc`].
///
/// ```
/// # use heapledger::Heapledger;
/// # use std::alloc::System;
/// # #[global_allocator]
/// # static HEAP: Heapledger<System> = Heapledger::system();
/// # fn main() -> Result<(), heapledger::Error> {
/// let kept = vec![0u8; 1000];
/// let hook = heapledger::on_free(|event| assert!(event.size > 0))?;
/// drop(kept);
/// assert!(hook.calls() >= 1 && !hook.has_panicked());
/// # drop(hook);
/// # heapledger::discard();
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// As of [`on_alloc`].
pub fn on_free(function: fn(&Event)) -> Result<Hook, Error> {
    register(When::TakesBack, 0, function)
}

/// From now on a function is called when the program's live bytes have risen above a limit, by the thread whose block it was: once, and
/// again only when they have been at the limit or below. See [`on_alloc`].
///
/// ```
/// use heapledger::{Heapledger, Options};
/// use std::alloc::System;
///
/// #[global_allocator]
/// static HEAP: Heapledger<System> = Heapledger::with(System, Options::new().counting());
///
/// fn main() -> Result<(), heapledger::Error> {
///     let hook = heapledger::on_live_above(1_000_000, |event| assert!(event.size > 0))?;
///     let large = vec![0u8; 2_000_000];
///     drop(vec![0u8; 2_000_000]);
///     assert_eq!(hook.calls(), 1);
///     drop(large);
///     drop(vec![0u8; 2_000_000]);
///     assert_eq!(hook.calls(), 2);
///     Ok(())
/// }
/// ```
///
/// # Errors
/// As of [`on_alloc`], and [`Error::NotCounted`] if calls are not counted from the first on: live bytes are known then.
pub fn on_live_above(bytes: usize, function: fn(&Event)) -> Result<Hook, Error> {
    counting::counts_all()?;
    register(When::LiveAbove, bytes, function)
}

impl Hook {
    fn get(&self) -> Option<&'static HookPlace> {
        SLOTS.get(self.slot)
    }

    /// How often it was called.
    pub fn calls(&self) -> u64 {
        self.get().map_or(0, |slot| slot.calls.load(Ordering::Relaxed)) as u64
    }

    /// Whether it has panicked, and is not called any more.
    pub fn has_panicked(&self) -> bool {
        self.get().is_some_and(|slot| slot.panicked.load(Ordering::Relaxed))
    }

    /// It is called no longer. Returns how many calls of it have not come back yet: ask again until there are none, if its code is to go.
    /// One that was left by `longjmp` never comes back.
    pub fn running(&self) -> u64 {
        self.get().map_or(0, |slot| {
            slot.function.store(ptr::null_mut(), Ordering::SeqCst);
            slot.running.load(Ordering::SeqCst) as u64
        })
    }
}

impl Drop for Hook {
    fn drop(&mut self) {
        if let Some(slot) = self.get() {
            slot.function.store(ptr::null_mut(), Ordering::SeqCst);
            state::leave(Want::Asked);
            slot.taken.store(false, Ordering::Release);
        }
    }
}
