//! Traces: exact books of a while, in a buffer of the program's own.
#![forbid(unsafe_code)]

use crate::Error;
use core::fmt;
use core::iter::FusedIterator;
use heapledger_recorder::trace::{TraceMode, TraceShape, TraceState};

pub use heapledger_recorder::trace::{TraceFigures, TraceFree, TraceRecord};

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod here {
    use super::{NotTraced, TraceOptions};
    use crate::Error;
    use heapledger_process::traces::{NewTrace, NoTrace};
    use heapledger_recorder::trace::TraceBuffer;
    use heapledger_watch::{state, traces};

    fn error(why: NoTrace) -> Error {
        match why {
            NoTrace::Taken => Error::TooMany,
            NoTrace::NoRoom => Error::TooSmall,
            NoTrace::NoMemory => Error::NoMemory,
            NoTrace::Busy => Error::Busy,
            NoTrace::None => Error::NotSo,
        }
    }

    /// Returns its number.
    pub(super) fn start(buffer: &'static mut [usize], options: TraceOptions) -> Result<usize, NotTraced> {
        if state::base() == state::UNSTARTED {
            return Err(NotTraced { error: Error::NoAllocator, buffer });
        }
        let new = NewTrace {
            shape: options.shape(),
            without_innermost: options.without_innermost,
            of_own_thread: options.of_this_thread,
        };
        traces::start(buffer, &new).map_err(|(why, buffer)| NotTraced { error: error(why), buffer })
    }

    pub(super) fn end(place: usize) -> Result<&'static mut [usize], Error> {
        traces::end(place).map_err(error)
    }

    pub(super) fn with<T>(place: usize, f: impl FnOnce(&mut TraceBuffer<'static>) -> T) -> Result<T, Error> {
        traces::with(place, f).map_err(error)
    }
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
mod here {
    use super::{NotTraced, TraceOptions};
    use crate::Error;
    use heapledger_recorder::trace::TraceBuffer;

    pub(super) fn start(buffer: &'static mut [usize], _: TraceOptions) -> Result<usize, NotTraced> {
        Err(NotTraced { error: Error::Unsupported, buffer })
    }
    pub(super) fn end(_: usize) -> Result<&'static mut [usize], Error> {
        Err(Error::Unsupported)
    }
    pub(super) fn with<T>(_: usize, _: impl FnOnce(&mut TraceBuffer<'static>) -> T) -> Result<T, Error> {
        Err(Error::Unsupported)
    }
}

/// What a [`Trace`] keeps.
///
/// ```
/// use heapledger::TraceOptions;
///
/// const OPTIONS: TraceOptions = TraceOptions::new().keeps_freed().depth(16);
/// const WORDS: usize = OPTIONS.words(1000);
/// assert!(WORDS > 1000 * 2 * 16);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceOptions {
    mode: TraceMode,
    depth: usize,
    without_innermost: usize,
    of_this_thread: bool,
}

impl Default for TraceOptions {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg_attr(not(all(target_os = "linux", target_arch = "x86_64")), allow(dead_code, reason = "nothing is traced there"))]
impl TraceOptions {
    /// Blocks that live, of all threads, with eight frames of their stacks.
    pub const fn new() -> TraceOptions {
        TraceOptions { mode: TraceMode::Leaks, depth: 8, without_innermost: 0, of_this_thread: false }
    }

    /// Records of blocks that are freed stay, with thread, time and stack of the free, as long as there is room.
    #[must_use]
    pub const fn keeps_freed(self) -> TraceOptions {
        TraceOptions { mode: TraceMode::All, ..self }
    }

    /// How many frames of a stack a record has room for, the innermost ones: at most 32. With 0 no stacks are taken.
    #[must_use]
    pub const fn depth(self, frames: usize) -> TraceOptions {
        TraceOptions { depth: frames, ..self }
    }

    /// Leaves out so many of the innermost frames: the standard library's, of which there are two to ten before the program's own.
    #[must_use]
    pub const fn without_innermost(self, frames: usize) -> TraceOptions {
        TraceOptions { without_innermost: frames, ..self }
    }

    /// Only what the calling thread allocates, whoever frees or resizes it.
    #[must_use]
    pub const fn of_this_thread(self) -> TraceOptions {
        TraceOptions { of_this_thread: true, ..self }
    }

    /// How many words a buffer for so many records has.
    pub const fn words(self, records: usize) -> usize {
        self.shape().words(records)
    }

    const fn shape(self) -> TraceShape {
        TraceShape { mode: self.mode, frames: self.depth }
    }
}

/// Why there is no [`Trace`], and its buffer.
#[derive(Debug)]
pub struct NotTraced {
    /// The reason.
    pub error: Error,
    /// What was to be the buffer.
    pub buffer: &'static mut [usize],
}

impl fmt::Display for NotTraced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl core::error::Error for NotTraced {}

impl From<NotTraced> for Error {
    fn from(not_traced: NotTraced) -> Error {
        not_traced.error
    }
}

/// Exact books of what is allocated from some moment on, in a buffer of the program's own.
///
/// There is a record of each block, and no other place for it than the buffer: nothing is allocated, and the program that has one needs no
/// ledger. It works in each strength, with [`Options::off`](crate::Options::off), and under `heapledger run`. Whatever threads do, its
/// figures are exact; calls that could not be noted are counted ([`TraceFigures::missed_calls`]), which needs a thread that keeps others
/// waiting for two seconds. If there is no room for one more record, the one whose block was freed first goes, and if none was freed, the
/// oldest one; that is counted, too.
///
/// While there is one, each call of the program takes a stack and a lock. (A [`Window`](crate::Window) of the ledger costs nothing, and has no
/// capacity.) There may be eight at the same time, so that each test has its own. In a forked child a trace goes on with the records that it
/// has, on its own (one of a thread without new ones, since that thread is not there).
///
/// Threads are numbers of the kernel, times are nanoseconds since [`Trace::start`].
///
/// ```
/// use heapledger::{Error, Heapledger, Options, Trace, TraceOptions};
/// use std::alloc::System;
///
/// #[global_allocator]
/// static HEAP: Heapledger<System> = Heapledger::with(System, Options::new().off());
///
/// const OPTIONS: TraceOptions = TraceOptions::new().of_this_thread();
///
/// fn main() -> Result<(), Error> {
///     # if cfg!(not(all(target_os = "linux", target_arch = "x86_64"))) { return Ok(()) }
///     let buffer = Box::leak(vec![0; OPTIONS.words(100)].into_boxed_slice());
///     let trace = Trace::start(buffer, OPTIONS)?;
///     let kept = Box::new([0u8; 1000]);
///     drop(Box::new([0u8; 2000]));
///
///     let figures = trace.figures()?;
///     assert_eq!((figures.allocations, figures.frees, figures.most_records), (2, 1, 2));
///     assert_eq!((figures.live_bytes, figures.peak_bytes), (1000, 3000));
///     let record = trace.get(0).expect("what is kept");
///     assert_eq!((record.address, record.size), ((&raw const *kept).addr(), 1000));
///     assert!(!record.stack().is_empty());
///
///     let buffer = trace.stop()?;
///     assert_eq!(buffer.len(), OPTIONS.words(100));
///     Ok(())
/// }
/// ```
#[derive(Debug)]
#[must_use = "it stops when it is dropped"]
pub struct Trace {
    place: usize,
}

impl Trace {
    /// Begins, in a buffer that the trace has until it is [stopped](Trace::stop). [`TraceOptions::words`] says how large it is to be.
    ///
    /// # Errors
    /// [`Error::NoAllocator`] if no [`Heapledger`](crate::Heapledger) is the program's allocator, [`Error::TooMany`] if there are eight already,
    /// [`Error::TooSmall`] if there is no room for a record or more than 32 frames are asked for, [`Error::NoMemory`] for the lock,
    /// [`Error::Unsupported`] where it is not x86-64 Linux. The buffer comes back with it.
    pub fn start(buffer: &'static mut [usize], options: TraceOptions) -> Result<Trace, NotTraced> {
        here::start(buffer, options).map(|place| Trace { place })
    }

    fn change(&self, to: TraceState, may: impl FnOnce(TraceState) -> bool) -> Result<(), Error> {
        here::with(self.place, |trace| {
            let may = may(trace.state());
            if may {
                trace.set_state(to);
            }
            may.then_some(()).ok_or(Error::NotSo)
        })?
    }

    /// Begins anew in the same buffer: without records, all figures 0.
    ///
    /// # Errors
    /// [`Error::Busy`] if others keep the calling thread waiting for two seconds.
    pub fn restart(&self) -> Result<(), Error> {
        here::with(self.place, |trace| trace.start())
    }

    /// No block becomes a record from now on. Frees and resizes of those that are one are noted as ever: a record follows its block.
    ///
    /// # Errors
    /// [`Error::NotSo`] if it does not run, [`Error::Busy`] as above.
    pub fn pause(&self) -> Result<(), Error> {
        self.change(TraceState::Paused, |state| state == TraceState::Running)
    }

    /// It runs again.
    ///
    /// # Errors
    /// [`Error::NotSo`] if it runs, [`Error::Busy`] as above.
    pub fn resume(&self) -> Result<(), Error> {
        self.change(TraceState::Running, |state| state != TraceState::Running)
    }

    /// Nothing changes any more: neither records nor figures. What is freed meanwhile is a live record for good, or until its address comes up
    /// again after [`Trace::resume`].
    ///
    /// # Errors
    /// [`Error::NotSo`] if it is frozen already, [`Error::Busy`] as above.
    pub fn freeze(&self) -> Result<(), Error> {
        self.change(TraceState::Stopped, |state| state != TraceState::Stopped)
    }

    /// What it has seen.
    ///
    /// # Errors
    /// [`Error::Busy`] as above.
    pub fn figures(&self) -> Result<TraceFigures, Error> {
        here::with(self.place, |trace| trace.figures())
    }

    /// A record by its index; 0 is the oldest one. `None` if there are fewer, or others keep the calling thread waiting for two seconds.
    pub fn get(&self, index: usize) -> Option<TraceRecord> {
        here::with(self.place, |trace| trace.get(index)).ok().flatten()
    }

    /// All records, the oldest first. Each is there once, whatever the program does meanwhile.
    ///
    /// ```
    /// # use heapledger::{Error, Heapledger, Options, Trace, TraceOptions};
    /// # use std::alloc::System;
    /// # #[global_allocator]
    /// # static HEAP: Heapledger<System> = Heapledger::with(System, Options::new().off());
    /// # fn main() -> Result<(), Error> {
    /// # if cfg!(not(all(target_os = "linux", target_arch = "x86_64"))) { return Ok(()) }
    /// const OPTIONS: TraceOptions = TraceOptions::new().keeps_freed().of_this_thread();
    /// let trace = Trace::start(Box::leak(vec![0; OPTIONS.words(100)].into_boxed_slice()), OPTIONS)?;
    /// let kept = Box::new(1u64);
    /// drop(Box::new([0u8; 300]));
    /// trace.freeze()?;
    /// let freed: Vec<bool> = trace.records().map(|record| record.freed.is_some()).collect();
    /// assert_eq!(freed, [false, true]);
    /// # drop(kept);
    /// # Ok(())
    /// # }
    /// ```
    pub fn records(&self) -> TraceRecords<'_> {
        TraceRecords { trace: self, last: None, has_ended: false }
    }

    /// Ends it, and gives its buffer back. (A trace that is only dropped ends, too; its buffer is lost.)
    ///
    /// # Errors
    /// [`Error::Busy`] as above. Then the buffer is lost.
    pub fn stop(self) -> Result<&'static mut [usize], Error> {
        let buffer = here::end(self.place);
        core::mem::forget(self);
        buffer
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        let _ = here::end(self.place);
    }
}

/// The records of a trace. See [`Trace::records`].
#[derive(Debug)]
pub struct TraceRecords<'t> {
    trace: &'t Trace,
    last: Option<TraceRecord>,
    has_ended: bool,
}

impl Iterator for TraceRecords<'_> {
    type Item = TraceRecord;

    fn next(&mut self) -> Option<TraceRecord> {
        if self.has_ended {
            return None;
        }
        let next = here::with(self.trace.place, |trace| trace.after(self.last.as_ref())).ok().flatten();
        self.has_ended = next.is_none();
        self.last = next;
        next
    }
}

impl FusedIterator for TraceRecords<'_> {}
