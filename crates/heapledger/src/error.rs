//! Why nothing is recorded, counted, measured.
#![forbid(unsafe_code)]

use core::fmt;

/// Why nothing is recorded in this process, or what was asked for cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// It has begun before, or begins at this moment in another thread.
    Begun,
    /// It was stopped, or this is a forked child: what is in the ledger may be gone, so nobody can go on with it.
    Ended,
    /// No [`Heapledger`](crate::Heapledger) has been called yet: it is not the program's allocator.
    NoAllocator,
    /// `heapledger run` records another process, of which this is a child.
    OfAnother,
    /// Another recorder is at work in this process: that of `heapledger run`, or another library's.
    Elsewhere,
    /// A sanitizer is linked into the program, which replaces the allocator itself.
    Sanitizer,
    /// The C library is none that can be followed, or asked: glibc 2.35 or later is needed, and its `malloc`.
    Library,
    /// There can be no ledger: no directory is usable, or there is no room.
    NoLedger,
    /// There is no memory for the recorder.
    NoMemory,
    /// This is not x86-64 Linux.
    Unsupported,
    /// Calls are not counted from the first on; see [`Options::counted`](crate::Options::counted).
    NotCounted,
    /// There are as many already as there can be at the same time.
    TooMany,
    /// Nothing is recorded in this process at this moment.
    Off,
    /// There is no room for it in the ledger, which counts that.
    NoRoom,
    /// The buffer has no room for a record, or a record is to have more frames than there can be.
    TooSmall,
    /// The call came from a signal handler, in the middle of an allocation, or another thread does the same for too long.
    Busy,
    /// It is not in a state for that, or another thread's.
    NotSo,
    /// There is no function at this address, as far as unwind tables say.
    NoFunction,
    /// Blocks are not guarded: nobody has asked for it by [`Options::guard`](crate::Options::guard) or `heapledger run --guard=LEVEL`.
    NotGuarded,
    /// The system does not allow it, or cannot do it.
    Refused,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Error::Begun => "recording has begun before",
            Error::Ended => "recording was stopped, or this is a forked child",
            Error::NoAllocator => "no Heapledger is the program's allocator",
            Error::OfAnother => "heapledger records another process, of which this is a child",
            Error::Elsewhere => "another recorder is at work in this process",
            Error::Sanitizer => "a sanitizer is linked into the program, which replaces the allocator itself",
            Error::Library => "the C library is not glibc 2.35 or later",
            Error::NoLedger => "no directory for the ledger is usable, or there is no room for it",
            Error::NoMemory => "there is no memory for the recorder",
            Error::Unsupported => "this is not x86-64 Linux",
            Error::NotCounted => "calls are not counted from the first on",
            Error::TooMany => "there are as many already as there can be",
            Error::Off => "nothing is recorded in this process; `heapledger::start()` says why",
            Error::NoRoom => "there is no room for it in the ledger",
            Error::TooSmall => "the buffer has no room for a record",
            Error::Busy => "the thread is in the middle of an allocation, or another one does the same",
            Error::NotSo => "it is not in a state for that, or another thread's",
            Error::NoFunction => "there is no function at this address",
            Error::NotGuarded => {
                "blocks are not guarded: `Options::guard` or `heapledger run --guard=light` guards them"
            }
            Error::Refused => "the system does not allow it, or cannot do it",
        })
    }
}

impl core::error::Error for Error {}
