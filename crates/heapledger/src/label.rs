//! What a thread is doing: labels that its blocks get.
//!
//! A room with `unsafe`: a future inside of another one is pinned as that one is.

use core::future::Future;
use core::marker::PhantomData;
use core::pin::Pin;
use core::task::{Context, Poll};
use heapledger_format::LabelId;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub(crate) mod here {
    use super::LabelId;
    use heapledger_process::ways;

    pub(super) fn make(key: &str, value: &str) -> Option<LabelId> {
        make_within(in_force(), key, value)
    }

    pub(crate) fn make_within(around: LabelId, key: &str, value: &str) -> Option<LabelId> {
        ways::recorder()?.label(around, key.as_bytes(), value.as_bytes()).ok()
    }

    pub(crate) fn in_force() -> LabelId {
        ways::recorder().map_or(LabelId::NONE, |way| way.in_force())
    }

    pub(crate) fn put_in_force(label: LabelId) -> Option<LabelId> {
        ways::recorder()?.put_in_force(label).ok()
    }
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
#[cfg_attr(not(feature = "tracing"), allow(dead_code, reason = "for spans"))]
pub(crate) mod here {
    use super::LabelId;

    pub(super) fn make(_: &str, _: &str) -> Option<LabelId> {
        None
    }
    pub(crate) fn make_within(_: LabelId, _: &str, _: &str) -> Option<LabelId> {
        None
    }
    pub(crate) fn in_force() -> LabelId {
        LabelId::NONE
    }
    pub(crate) fn put_in_force(_: LabelId) -> Option<LabelId> {
        None
    }
}

/// A label in force, until this is dropped: by the thread that has made it, and of several the last one first. See [`label`].
#[derive(Debug)]
#[must_use = "the label is in force until this is dropped"]
pub struct LabelGuard {
    /// The label that was in force before; `None`: this one never was.
    before: Option<LabelId>,
    /// It concerns one thread.
    of_thread: PhantomData<*const ()>,
}

/// Says what the calling thread is doing: blocks that it allocates have this label, until the guard is dropped. `heapledger
/// dump --group-by label.KEY` then sums blocks up by it.
///
/// Labels stand within each other: a block has that of the innermost guard, and those around it; of one key the innermost counts.
/// The same pairs are stored once; a ledger has room for about 100,000 different ones, and what finds none is counted:
/// blocks have the label around it then. Keys and values above 4,095 bytes are cut. An empty key is no label. Each pair
/// takes its place for good: what differs at each call (the number of a request) is no label.
///
/// For futures, which go from thread to thread, see [`LabelFuture`]: do not hold a guard across an `.await`.
///
/// ```
/// # use heapledger::Heapledger;
/// # use std::alloc::System;
/// # #[global_allocator]
/// # static HEAP: Heapledger<System> = Heapledger::system();
/// # fn main() {
/// let route = heapledger::label("route", "/users");
/// let answer = vec![0u8; 1000]; // has the label route=/users
/// {
///     let step = heapledger::label("step", "parse");
///     let tree = vec![0u8; 2000]; // step=parse route=/users
/// #   assert_eq!(step.is_in_force(), cfg!(all(target_os = "linux", target_arch = "x86_64")));
/// #   drop(tree);
/// }
/// drop(route);
/// # drop(answer);
/// # heapledger::discard();
/// # }
/// ```
pub fn label(key: &str, value: &str) -> LabelGuard {
    LabelGuard::of(here::make(key, value))
}

impl LabelGuard {
    fn of(label: Option<LabelId>) -> LabelGuard {
        LabelGuard { before: label.and_then(here::put_in_force), of_thread: PhantomData }
    }

    /// Whether blocks get the label: not if nothing is recorded in this process, or there is no room for it.
    pub fn is_in_force(&self) -> bool {
        self.before.is_some()
    }
}

impl Drop for LabelGuard {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            let _ = here::put_in_force(before);
        }
    }
}

/// A future whose blocks have a label, whichever threads it runs on. See [`LabelFuture`].
#[derive(Debug)]
#[must_use = "a future does nothing unless it is polled"]
pub struct Labelled<F> {
    label: Option<LabelId>,
    future: F,
}

impl<F: Future> Future for Labelled<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let _label = LabelGuard::of(self.label);
        // SAFETY: the future is part of what is pinned, and nothing moves it out: there is no other way to it, and no `Drop`.
        let future = unsafe { self.map_unchecked_mut(|labelled| &mut labelled.future) };
        future.poll(context)
    }
}

/// Futures with labels.
///
/// The label is in force while the future runs, and not while it waits. It stands within that which is in force where
/// [`labelled`](LabelFuture::labelled) is called.
///
/// ```
/// use heapledger::LabelFuture;
///
/// async fn answers() -> Vec<u8> {
///     vec![0u8; 1000] // has the label route=/users
/// }
///
/// let answer = answers().labelled("route", "/users");
/// # drop(answer);
/// ```
pub trait LabelFuture: Future + Sized {
    /// The same future, whose blocks have this label.
    fn labelled(self, key: &str, value: &str) -> Labelled<Self> {
        Labelled { label: here::make(key, value), future: self }
    }
}

impl<F: Future> LabelFuture for F {}
