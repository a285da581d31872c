//! Trace windows: what was allocated between two moments.
#![forbid(unsafe_code)]

use crate::Error;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod here {
    use super::{WindowFigures, WindowOptions};
    use crate::Error;
    use heapledger_format::mark::{MarkKind, WindowMode};
    use heapledger_process::marks::NotTold;
    use heapledger_process::ways::{self, Way};
    use heapledger_process::windows::NewWindow;

    fn error(why: NotTold) -> Error {
        match why {
            NotTold::Off => Error::Off,
            NotTold::NoRoom => Error::NoRoom,
            NotTold::Busy => Error::Busy,
            // The last ones are said of heaps only.
            NotTold::Unknown | NotTold::NotSo | NotTold::Invalid | NotTold::Overlaps => Error::NotSo,
        }
    }

    fn way() -> Result<&'static Way, Error> {
        ways::recorder().ok_or(Error::Off)
    }

    pub(super) fn start(name: &str, options: WindowOptions) -> Result<u32, Error> {
        let mode = if options.shows_freed { WindowMode::All } else { WindowMode::Leaks };
        let new = NewWindow {
            name: name.as_bytes(),
            mode,
            of_own_thread: options.of_this_thread,
            whole_frees: options.whole_frees,
        };
        way()?.open_window(&new).map_err(error)
    }

    fn change(row: u32, kind: MarkKind) -> Result<(), Error> {
        way()?.change_window(row, kind).map_err(error)
    }

    pub(super) fn pause(row: u32) -> Result<(), Error> {
        change(row, MarkKind::WindowPauses)
    }

    pub(super) fn resume(row: u32) -> Result<(), Error> {
        change(row, MarkKind::WindowResumes)
    }

    pub(super) fn stop(row: u32) -> Result<(), Error> {
        change(row, MarkKind::WindowStops)
    }

    pub(super) fn figures(row: u32) -> Result<WindowFigures, Error> {
        let figures = way()?.window_figures(row).map_err(error)?;
        Ok(WindowFigures {
            allocations: figures.allocations,
            frees: figures.frees,
            bytes_allocated: figures.bytes_allocated,
            bytes_freed: figures.bytes_freed,
            live_blocks: figures.live_blocks,
            live_bytes: figures.live_bytes,
            peak_bytes: figures.peak_bytes,
            peak_error: figures.peak_error,
        })
    }
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
mod here {
    use super::{WindowFigures, WindowOptions};
    use crate::Error;

    pub(super) fn start(_: &str, _: WindowOptions) -> Result<u32, Error> {
        Err(Error::Unsupported)
    }
    pub(super) fn pause(_: u32) -> Result<(), Error> {
        Err(Error::Unsupported)
    }
    pub(super) fn resume(_: u32) -> Result<(), Error> {
        Err(Error::Unsupported)
    }
    pub(super) fn stop(_: u32) -> Result<(), Error> {
        Err(Error::Unsupported)
    }
    pub(super) fn figures(_: u32) -> Result<WindowFigures, Error> {
        Err(Error::Unsupported)
    }
}

/// What a window is of.
///
/// ```
/// use heapledger::WindowOptions;
///
/// let options = WindowOptions::new().of_this_thread().shows_freed();
/// # let _ = options;
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowOptions {
    shows_freed: bool,
    of_this_thread: bool,
    whole_frees: bool,
}

impl WindowOptions {
    /// What lives, of all threads.
    pub const fn new() -> WindowOptions {
        WindowOptions { shows_freed: false, of_this_thread: false, whole_frees: false }
    }

    /// What was freed, too, is asked for: a hint for readers, since the ledger's history has it anyway, as far as it reaches.
    #[must_use]
    pub const fn shows_freed(self) -> WindowOptions {
        WindowOptions { shows_freed: true, ..self }
    }

    /// Only what the calling thread allocates. The window is paused, resumed and stopped by that thread, and costs others nothing.
    #[must_use]
    pub const fn of_this_thread(self) -> WindowOptions {
        WindowOptions { of_this_thread: true, ..self }
    }

    /// Stacks of frees are whole until it is stopped, those of all threads, whatever [`free_depth`](crate::Options::free_depth) says.
    #[must_use]
    pub const fn whole_frees(self) -> WindowOptions {
        WindowOptions { whole_frees: true, ..self }
    }
}

/// What a [`Window`] has seen. If blocks are sampled, these are estimates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WindowFigures {
    /// Blocks allocated in it.
    pub allocations: u64,
    /// Frees since it was started, of its blocks or others; of a window of one thread, by that thread.
    pub frees: u64,
    /// Bytes asked for in its blocks.
    pub bytes_allocated: u64,
    /// Bytes of its blocks that were freed, by whichever thread.
    pub bytes_freed: u64,
    /// Its blocks that live.
    pub live_blocks: u64,
    /// Bytes in these.
    pub live_bytes: u64,
    /// Most bytes that were found to live, whenever somebody asked.
    pub peak_bytes: u64,
    /// By how much there may have been more in between.
    pub peak_error: u64,
}

/// What is allocated from its start to its stop, and what becomes of it.
///
/// `heapledger dump --window NAME` shows the blocks of a window that live, and `history --window NAME` what was freed. Several may
/// be open at once; a ledger has room for 256 in a run, and each can be resumed 31 times. A window costs nothing while it is
/// open: its figures are counted when they are asked for, by a walk through the ledger.
///
/// It stops when it is dropped.
///
/// ```
/// use heapledger::{Error, Window};
///
/// # use heapledger::Heapledger;
/// # use std::alloc::System;
/// # #[global_allocator]
/// # static HEAP: Heapledger<System> = Heapledger::system();
/// fn main() -> Result<(), Error> {
///     # if cfg!(not(all(target_os = "linux", target_arch = "x86_64"))) { return Ok(()) }
///     let window = Window::start("load")?;
///     let kept = vec![0u8; 1000];
///     drop(vec![0u8; 2000]);
///     let figures = window.stop()?;
///     assert_eq!((figures.allocations, figures.bytes_allocated), (2, 3000));
///     assert_eq!((figures.live_blocks, figures.live_bytes), (1, 1000));
///     # drop(kept);
///     # heapledger::discard();
///     Ok(())
/// }
/// ```
#[derive(Debug)]
#[must_use = "the window stops when it is dropped"]
pub struct Window {
    /// Its row in the ledger, plus 1.
    row: u32,
}

impl Window {
    /// Starts a window of all threads.
    ///
    /// # Errors
    /// [`Error::Off`] if nothing is recorded, [`Error::NoRoom`] if there is no room for it, which the ledger counts.
    pub fn start(name: &str) -> Result<Window, Error> {
        Window::start_with(name, WindowOptions::new())
    }

    /// Starts a window with options.
    ///
    /// # Errors
    /// As of [`start`](Window::start); of one thread also [`Error::Busy`], in a signal handler in the middle of an allocation.
    pub fn start_with(name: &str, options: WindowOptions) -> Result<Window, Error> {
        here::start(name, options).map(|row| Window { row })
    }

    /// Passes over what is allocated from now on. What is freed still counts.
    ///
    /// # Errors
    /// [`Error::NotSo`] if it is paused already, or of another thread.
    pub fn pause(&self) -> Result<(), Error> {
        here::pause(self.row)
    }

    /// Goes on.
    ///
    /// # Errors
    /// [`Error::NotSo`] if it is not paused, or of another thread; [`Error::NoRoom`] if it was resumed too often.
    pub fn resume(&self) -> Result<(), Error> {
        here::resume(self.row)
    }

    /// What it has seen so far.
    ///
    /// # Errors
    /// If nothing is recorded any more.
    pub fn figures(&self) -> Result<WindowFigures, Error> {
        here::figures(self.row)
    }

    /// Stops it: what it has seen.
    ///
    /// # Errors
    /// [`Error::NotSo`] if it is of another thread; it stays open then.
    pub fn stop(self) -> Result<WindowFigures, Error> {
        here::stop(self.row)?;
        here::figures(self.row)
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // One that was stopped is over.
        let _ = here::stop(self.row);
    }
}
