//! Watchpoints of the processor.
#![forbid(unsafe_code)]

use crate::Error;

/// A watchpoint that is set. It ends when this is dropped.
#[derive(Debug)]
pub struct Watch {
    number: u32,
}

/// Sets a watchpoint of the processor, without a debugger: from now on SIGTRAP follows each write to what is at this place (1, 2, 4 or 8 bytes), in
/// the thread that has written and right behind the instruction. In a program that this crate records, and that has no handler of its own, the write is an error
/// of the ledger (`watched-write`) with the writer's stack, and the program goes on. Else it dies there, and its core dump
/// shows who it was; a debugger stops. Writes of the kernel (`read`) are not seen.
///
/// # Errors
/// [`Error::TooMany`] if four are set, or the program has more than 256 threads; [`Error::TooSmall`] if it is not of such a size;
/// [`Error::Refused`] if the system is older than Linux 5.13, has no such registers or does not allow it; [`Error::Unsupported`] on other systems.
pub fn watch<T>(place: *const T) -> Result<Watch, Error> {
    here::watch(place.addr(), size_of::<T>()).map(|number| Watch { number })
}

impl Watch {
    /// Ends it. How many writes there were: those that the program has survived.
    pub fn end(self) -> u64 {
        let number = self.number;
        core::mem::forget(self);
        here::end(number)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        here::end(self.number);
    }
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod here {
    use crate::Error;
    use heapledger_process::watchpoint::{self, NotWatched};

    pub(super) fn watch(address: usize, bytes: usize) -> Result<u32, Error> {
        watchpoint::watch(address, bytes).map_err(|why| match why {
            NotWatched::Invalid => Error::TooSmall,
            NotWatched::TooMany => Error::TooMany,
            NotWatched::System(_) | NotWatched::Unknown => Error::Refused,
        })
    }

    pub(super) fn end(number: u32) -> u64 {
        watchpoint::unwatch(number).unwrap_or(0)
    }
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
mod here {
    use crate::Error;

    pub(super) fn watch(_: usize, _: usize) -> Result<u32, Error> {
        Err(Error::Unsupported)
    }

    pub(super) fn end(_: u32) -> u64 {
        0
    }
}
