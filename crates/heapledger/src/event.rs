//! What functions of the program are told of a call: which it was, whose, when, and whether its block is in the ledger.
//!
//! It is found out only when somebody is about to be told.
#![forbid(unsafe_code)]

use heapledger_format::Kind;
use heapledger_watch::hooks::{Stage, Told};

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

/// What a hook is told. See [`on_alloc`](crate::on_alloc), [`on_free`](crate::on_free) and
/// [`on_request_above`](crate::on_request_above).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// What was called.
    pub call: EventCall,
    /// Where the block is; 0 of a request that was not granted.
    pub address: usize,
    /// Its bytes, or those that were asked for.
    pub size: usize,
    /// Its alignment.
    pub align: usize,
    /// False of a request that came back without a block, and of the block that stays as it was because a `realloc` of it did so.
    pub granted: bool,
    /// Whose call it is. On x86-64 Linux the kernel's number of the thread (`gettid`), which the ledger has, too: a thread that has
    /// called before is known without a system call, but for those of a forked child and beyond 1,024 threads at the same time.
    /// On other systems a number that no other thread has at this moment.
    pub thread: u64,
    /// When it was, in nanoseconds: since the ledger began, as in the ledger; where nothing has been recorded yet, what
    /// `CLOCK_MONOTONIC` says. On other systems than x86-64 Linux, since the first event.
    pub time_ns: u64,
    /// Whether the block is in the ledger at this moment: false of one that passed by because recording was paused, or off, or
    /// because only samples are recorded. (Of one that is about to be given back this says what was.) In a program
    /// that itself records nothing ([`Options::off`](crate::Options::off), [`Options::counting`](crate::Options::counting)) it is false under
    /// `heapledger run`, too.
    pub recorded: bool,
}

impl EventCall {
    fn of(kind: Kind) -> EventCall {
        match kind {
            Kind::RUST_ALLOC => EventCall::Alloc,
            Kind::RUST_ALLOC_ZEROED => EventCall::AllocZeroed,
            Kind::RUST_REALLOC => EventCall::Realloc,
            _ => EventCall::Dealloc,
        }
    }
}

impl Event {
    pub(crate) fn new(told: &Told) -> Event {
        let address = told.block.address;
        Event {
            call: EventCall::of(told.block.kind),
            address,
            size: told.block.size,
            align: told.block.align,
            granted: !matches!(told.stage, Stage::Stays | Stage::Refused),
            thread: here::thread(),
            time_ns: here::now_ns(),
            recorded: address != 0 && here::is_recorded(address),
        }
    }
}

/// What is needed to find these things out cheaply: before the first function is called.
pub(crate) fn prepare() {
    here::prepare();
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod here {
    use heapledger_linux::clock::Clock;
    use heapledger_process::ways;
    use heapledger_watch::caller;

    /// Where there is no ledger. It begins when the computer does.
    static CLOCK: Clock = Clock::new();

    pub(super) fn prepare() {
        CLOCK.find();
        caller::prepare();
    }

    pub(super) fn thread() -> u64 {
        caller::thread().into()
    }

    pub(super) fn now_ns() -> u64 {
        ways::recorder().and_then(|way| way.now_ns()).unwrap_or_else(|| CLOCK.now_ns())
    }

    pub(super) fn is_recorded(address: usize) -> bool {
        ways::recorder().is_some_and(|way| way.holds(address))
    }
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
mod here {
    pub(super) fn prepare() {}

    pub(super) fn thread() -> u64 {
        heapledger_watch::thread_id() as u64
    }

    #[cfg(feature = "std")]
    pub(super) fn now_ns() -> u64 {
        static FIRST: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
        let ns = FIRST.get_or_init(std::time::Instant::now).elapsed().as_nanos();
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    /// Nobody can be told there.
    #[cfg(not(feature = "std"))]
    pub(super) fn now_ns() -> u64 {
        0
    }

    pub(super) fn is_recorded(_: usize) -> bool {
        false
    }
}
