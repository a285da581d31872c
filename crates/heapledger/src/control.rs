//! Beginning, pausing, going on, stopping.
#![forbid(unsafe_code)]

use crate::Error;

/// What is recorded at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recording {
    /// Nothing.
    Off,
    /// Frees of blocks that are in the ledger; new blocks pass by.
    Paused,
    /// Blocks, and their frees.
    On,
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod here {
    use super::Recording;
    use crate::{Error, begin};
    use heapledger_process::marks::NotTold;
    use heapledger_process::switch;
    use heapledger_process::ways;

    pub(super) fn begin_now() -> Result<(), Error> {
        begin::now()
    }

    pub(super) fn stop() {
        begin::stop();
    }

    pub(super) fn discard() {
        begin::discard();
    }

    pub(super) fn pause() -> bool {
        ways::recorder().is_some_and(|way| way.pause())
    }

    pub(super) fn resume() -> bool {
        ways::recorder().is_some_and(|way| way.resume())
    }

    pub(super) fn set_free_depth(frames: u64) -> Result<(), Error> {
        let way = ways::recorder().ok_or(Error::Off)?;
        way.set_free_depth(begin::free_depth(frames)).map_err(|why| match why {
            NotTold::Off => Error::Off,
            NotTold::NoRoom => Error::NoRoom,
            NotTold::Busy => Error::Busy,
            _ => Error::NotSo,
        })
    }

    pub(super) fn recording() -> Recording {
        match ways::recorder().map(|way| way.recording()) {
            Some(switch::Recording::On) => Recording::On,
            Some(switch::Recording::Paused) => Recording::Paused,
            Some(switch::Recording::Off) | None => Recording::Off,
        }
    }
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
mod here {
    use super::Recording;
    use crate::Error;

    pub(super) fn begin_now() -> Result<(), Error> {
        Err(Error::Unsupported)
    }
    pub(super) fn stop() {}
    pub(super) fn discard() {}
    pub(super) fn pause() -> bool {
        false
    }
    pub(super) fn resume() -> bool {
        false
    }
    pub(super) fn set_free_depth(_: u64) -> Result<(), Error> {
        Err(Error::Unsupported)
    }
    pub(super) fn recording() -> Recording {
        Recording::Off
    }
}

/// Begins to record, if the allocator was made with [`Options::off`](crate::Options::off). Blocks from before are not
/// in the ledger, and their frees pass by.
///
/// ```
/// use heapledger::{Heapledger, Options, Recording};
/// use std::alloc::System;
///
/// #[global_allocator]
/// static HEAP: Heapledger<System> = Heapledger::with(System, Options::new().off());
///
/// fn main() -> Result<(), heapledger::Error> {
///     assert_eq!(heapledger::recording(), Recording::Off);
///     # if cfg!(not(all(target_os = "linux", target_arch = "x86_64"))) { return Ok(()) }
///     heapledger::start()?;
///     assert_eq!(heapledger::recording(), Recording::On);
///     assert_eq!(heapledger::start(), Err(heapledger::Error::Begun));
///     # heapledger::discard();
///     Ok(())
/// }
/// ```
///
/// # Errors
/// If this process is recorded already, or cannot be. Of an allocator that records from its first call on, this says what came of
/// that: [`Error::Begun`] if it records.
pub fn start() -> Result<(), Error> {
    here::begin_now()
}

/// Stops recording for good. The ledger stays as it is. If nothing has begun, nothing is done.
pub fn stop() {
    here::stop();
}

/// Stops recording for good, and removes the ledger, unless `heapledger run` waits for it. If nothing has begun, nothing is done.
pub fn discard() {
    here::discard();
}

/// New blocks pass by from now on; frees of blocks that are in the ledger are still entered. False if nothing was
/// recorded, or this was so before.
///
/// ```
/// # use heapledger::Heapledger;
/// # use std::alloc::System;
/// # #[global_allocator]
/// # static HEAP: Heapledger<System> = Heapledger::system();
/// # fn main() {
/// # if cfg!(not(all(target_os = "linux", target_arch = "x86_64"))) { return }
/// assert!(heapledger::pause());
/// assert_eq!(heapledger::recording(), heapledger::Recording::Paused);
/// assert!(!heapledger::pause());
/// assert!(heapledger::resume());
/// # heapledger::discard();
/// # }
/// ```
pub fn pause() -> bool {
    here::pause()
}

/// New blocks are entered again. False if recording was not paused.
pub fn resume() -> bool {
    here::resume()
}

/// So many frames are taken of the stack of a call that frees from now on: 1 is its caller, 0 none, [`u64::MAX`] all of it, as
/// [`Options::free_depth`](crate::Options::free_depth) has it from the beginning. The ledger says when that changed, and reports say of each stack whether it
/// may have been cut. A call that is under way in another thread ends as before. For as long as a [`Window`](crate::Window) is open:
/// [`WindowOptions::whole_frees`](crate::WindowOptions::whole_frees).
///
/// ```
/// # use heapledger::{Error, Heapledger};
/// # use std::alloc::System;
/// # #[global_allocator]
/// # static HEAP: Heapledger<System> = Heapledger::system();
/// # fn main() -> Result<(), Error> {
/// # if cfg!(not(all(target_os = "linux", target_arch = "x86_64"))) { return Ok(()) }
/// heapledger::set_free_depth(u64::MAX)?;
/// drop(vec![0u8; 1000]);
/// heapledger::set_free_depth(1)?;
/// # heapledger::discard();
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Error::Off`] if nothing is recorded, [`Error::NotSo`] where blocks are guarded, for stacks are whole there; [`Error::NoRoom`] if the ledger has no room
/// to say so, [`Error::Busy`] if another thread is about to change it; [`Error::Unsupported`] on other systems.
pub fn set_free_depth(frames: u64) -> Result<(), Error> {
    here::set_free_depth(frames)
}

/// What is recorded in this process at this moment, by whichever recorder is at work in it.
pub fn recording() -> Recording {
    here::recording()
}
