//! The word of a thread that counts: which cell it has. Zero in a new thread, and without a destructor: it is there as long as the
//! thread allocates.

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod here {
    use heapledger_linux::{syscall, tls};

    pub(crate) use tls::{count as get, set_count as set};

    /// Numbers of the calling thread and its process.
    pub(crate) fn thread_and_process() -> Option<(u32, u32)> {
        Some((syscall::gettid(), syscall::getpid()))
    }

    pub(crate) fn has_ended(process: u32, thread: u32) -> bool {
        !syscall::thread_exists(process, thread)
    }

    /// Tells the calling thread from all that there are now. 0: they cannot be told apart.
    pub fn id() -> usize {
        tls::thread_pointer()
    }
}

/// Where threads have words without an allocation.
#[cfg(all(
    not(all(target_os = "linux", target_arch = "x86_64")),
    feature = "std",
    any(target_os = "linux", target_os = "macos", target_os = "freebsd", all(windows, target_env = "msvc"))
))]
mod here {
    use core::cell::Cell;
    use std::thread_local;

    thread_local! {
        static WORD: Cell<usize> = const { Cell::new(0) };
    }

    /// The address of its word.
    pub fn id() -> usize {
        WORD.try_with(|word| (&raw const *word).addr()).unwrap_or(0)
    }

    pub(crate) fn get() -> usize {
        WORD.try_with(Cell::get).unwrap_or(usize::MAX)
    }

    pub(crate) fn set(value: usize) {
        let _ = WORD.try_with(|word| word.set(value));
    }

    /// Nobody asks whether a thread has ended.
    pub(crate) fn thread_and_process() -> Option<(u32, u32)> {
        Some((1, 1))
    }

    pub(crate) fn has_ended(_: u32, _: u32) -> bool {
        false
    }
}

/// Without threads that can be told apart: all share one cell.
#[cfg(not(any(
    all(target_os = "linux", target_arch = "x86_64"),
    all(
        feature = "std",
        any(target_os = "linux", target_os = "macos", target_os = "freebsd", all(windows, target_env = "msvc"))
    )
)))]
mod here {
    pub(crate) fn get() -> usize {
        usize::MAX
    }
    pub(crate) fn set(_: usize) {}
    /// The number of the thread: here there is none.
    pub fn id() -> usize {
        0
    }
    pub(crate) fn thread_and_process() -> Option<(u32, u32)> {
        None
    }
    pub(crate) fn has_ended(_: u32, _: u32) -> bool {
        false
    }
}

pub use here::id;
pub(crate) use here::{get, has_ended, set, thread_and_process};
