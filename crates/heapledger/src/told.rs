//! Functions of the program that are told of its calls.

use crate::stats::counts_all;
use crate::{Error, Event, event};
use core::mem::transmute;
use heapledger_watch::hooks::{self, NewHook, Told, When};
use heapledger_watch::{state, thread_id};

type Function = fn(&Event);

/// Calls a hook.
pub(crate) fn call(told: &Told, data: [usize; 2]) -> bool {
    let function = core::ptr::with_exposed_provenance::<()>(data[0]);
    // SAFETY: what [`register`] has put there.
    let function = unsafe { transmute::<*const (), Function>(function) };
    returns(function, &Event::new(told))
}

/// False if it panics: nothing may unwind out of an allocator.
#[cfg(feature = "std")]
fn returns(function: Function, event: &Event) -> bool {
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
fn returns(function: Function, event: &Event) -> bool {
    function(event);
    true
}

/// A function is called as long as this is there. See [`on_alloc`] and [`on_free`].
#[derive(Debug)]
#[must_use = "the function is called no longer when it is dropped"]
pub struct Hook {
    hook: usize,
}

fn register(when: When, limit: usize, function: Function) -> Result<Hook, Error> {
    match state::base() {
        state::UNSTARTED => return Err(Error::NoAllocator),
        _ if thread_id() == 0 => return Err(Error::Unsupported),
        _ => {}
    }
    event::prepare();
    let limit = isize::try_from(limit).unwrap_or(isize::MAX);
    let data = [(function as *const ()).expose_provenance(), 0];
    let hook = hooks::register(&NewHook { when, limit, again_at: limit, data }).ok_or(Error::TooMany)?;
    Ok(Hook { hook })
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
    counts_all()?;
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
    /// How often it was called.
    pub fn calls(&self) -> u64 {
        hooks::calls(self.hook).unwrap_or(0)
    }

    /// Whether it has panicked, and is not called any more.
    pub fn has_panicked(&self) -> bool {
        hooks::has_failed(self.hook)
    }

    /// It is called no longer. Returns how many calls of it have not come back yet: ask again until there are none, if its code is to go.
    /// One that was left by `longjmp` never comes back.
    pub fn running(&self) -> u64 {
        hooks::silence(self.hook).unwrap_or(0)
    }
}

impl Drop for Hook {
    fn drop(&mut self) {
        hooks::unregister(self.hook);
    }
}
