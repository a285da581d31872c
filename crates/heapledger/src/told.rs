//! Functions of the program that are told of its calls.
//!
//! They are called outside of the recorder, on the program's stack: after a block was given and entered, and before one is given
//! back. What they allocate is passed on and recorded, and told to nobody: which threads are inside of one is noted in a table.

use crate::event::{self, Event, EventCall, Stage};
use crate::state::{self, Want};
use crate::watched::Block;
use crate::{Error, counting, inside, live, thread_word};
use core::mem::transmute;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

/// When a hook is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum When {
    Gave = 1,
    TakesBack = 2,
    /// As `Gave`, if live bytes have passed a limit.
    LiveAbove = 3,
    /// When a call has come back that asked for more than a limit, with a block or without.
    RequestAbove = 4,
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
    /// Of [`When::LiveAbove`], and whether live bytes are above it; of [`When::RequestAbove`].
    limit: AtomicUsize,
    is_above: AtomicBool,
    calls: AtomicUsize,
    /// How many threads are inside of it.
    running: AtomicUsize,
    panicked: AtomicBool,
}

static SLOTS: [HookPlace; HOOKS] = [const { HookPlace::new() }; HOOKS];

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

    /// What is to be called at this stage of a call of such a size.
    fn function(&self, stage: Stage, size: usize) -> Option<Function> {
        let function = self.function.load(Ordering::SeqCst);
        let own = self.when.load(Ordering::Relaxed);
        let is_for = match stage {
            _ if own == When::RequestAbove as usize => {
                matches!(stage, Stage::Gave | Stage::Refused) && size > self.limit.load(Ordering::Relaxed)
            }
            Stage::Gave | Stage::Stays => own == When::Gave as usize || own == When::LiveAbove as usize,
            Stage::TakesBack => own == When::TakesBack as usize,
            Stage::Refused => false,
        };
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

    fn tell(&self, stage: Stage, event: &Event) {
        if self.function(stage, event.size).is_none() || self.is_quiet() {
            return;
        }
        self.running.fetch_add(1, Ordering::SeqCst);
        // Who has unregistered it since waits, or does not know that we are here.
        if let Some(function) = self.function(stage, event.size) {
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

/// Tells of a call.
#[cold]
#[inline(never)]
pub(crate) fn tell(stage: Stage, call: EventCall, block: &Block) {
    if !SLOTS.iter().any(|slot| slot.function(stage, block.size).is_some()) {
        return;
    }
    let Some(inside) = inside::enter((&raw const *block).addr()) else { return };
    inside.note_block(block.address);
    let event = Event::new(stage, call, block);
    for slot in &SLOTS {
        slot.tell(stage, &event);
    }
    inside.leave();
}

/// Live bytes have become fewer.
#[cold]
#[inline(never)]
pub(crate) fn fell() {
    for slot in SLOTS.iter().filter(|slot| slot.is_above.load(Ordering::Relaxed) && !slot.is_above()) {
        slot.is_above.store(false, Ordering::Relaxed);
    }
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
    event::prepare();
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
/// told before that the old one goes. [`Event::granted`] tells both apart. Of requests that fail [`on_request_above`] tells.
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

/// From now on a function is called for each request of more than so many bytes, whether it is granted or not: by the thread that
/// asked, when the allocator has answered. [`Event::granted`] says what came of it; without a block, [`Event::address`] is 0 and
/// [`Event::size`] what was asked for. A `realloc` asks for its new size. With 0 bytes it is told of every request, and so of all
/// that fail. See [`on_alloc`].
///
/// ```
/// # use heapledger::Heapledger;
/// # use std::alloc::System;
/// # #[global_allocator]
/// # static HEAP: Heapledger<System> = Heapledger::system();
/// use std::sync::atomic::{AtomicUsize, Ordering};
///
/// static REFUSED: AtomicUsize = AtomicUsize::new(0);
///
/// # fn main() -> Result<(), heapledger::Error> {
/// let hook = heapledger::on_request_above(1_000_000, |event| {
///     if !event.granted {
///         REFUSED.fetch_max(event.size, Ordering::Relaxed);
///     }
/// })?;
/// drop(vec![0u8; 2_000_000]);
/// assert!(Vec::<u8>::new().try_reserve_exact(usize::MAX / 4).is_err());
/// assert_eq!((hook.calls(), REFUSED.load(Ordering::Relaxed)), (2, usize::MAX / 4));
/// # drop(hook);
/// # heapledger::discard();
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// As of [`on_alloc`].
pub fn on_request_above(bytes: usize, function: fn(&Event)) -> Result<Hook, Error> {
    register(When::RequestAbove, bytes, function)
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
