//! Whether what lies around guarded blocks is whole, and how new ones are guarded.
#![forbid(unsafe_code)]

use crate::{Error, GuardLevel};

/// Looks at all guarded blocks of the process, and at freed ones that wait, and says how many are damaged. Each is entered as an error, with
/// who allocated it (and who freed it): `heapledger run` makes a report of it at once, and `heapledger errors` shows it.
///
/// Blocks are guarded if the program asks for it ([`Options::guard`](crate::Options::guard)), or under `heapledger run --guard=LEVEL`. Called here and there it says between which two calls the damage was done. Other threads go on meanwhile. It takes
/// five seconds at most, for some ten million blocks.
///
/// ```
/// match heapledger::check_integrity() {
///     Ok(damaged) => assert_eq!(damaged, 0),
///     Err(why) => eprintln!("nobody has looked: {why}"),
/// }
/// ```
///
/// # Errors
/// [`Error::NotGuarded`] if blocks are not guarded, [`Error::Off`] if nothing is recorded, [`Error::Busy`] if none is damaged of those that could
/// be looked at in time, [`Error::Unsupported`] on other systems.
pub fn check_integrity() -> Result<u64, Error> {
    here::check(0)
}

/// Looks at one block, and says whether it is damaged. If it is, that is entered as an error, as of [`check_integrity`].
///
/// # Errors
/// As of [`check_integrity`]; [`Error::NotSo`] if no guarded block begins there.
pub fn check_block<T: ?Sized>(block: *const T) -> Result<bool, Error> {
    match block.cast::<u8>().addr() {
        0 => Err(Error::NotSo),
        address => here::check(address).map(|damaged| damaged != 0),
    }
}

/// New blocks are guarded as at this level from now on, which is not above that of the beginning, nor above one that was set before. Blocks
/// that are there stay guarded as they are, and are looked at when they end, in checks and at the end. Under `heapledger run --guard=LEVEL` it is
/// that guard which is lowered.
///
/// ```
/// use heapledger::{Error, GuardLevel, Heapledger, Options};
/// use std::alloc::System;
///
/// #[global_allocator]
/// static HEAP: Heapledger<System> = Heapledger::with(System, Options::new().guard(GuardLevel::Full));
///
/// fn main() -> Result<(), Error> {
///     # if cfg!(not(all(target_os = "linux", target_arch = "x86_64"))) { return Ok(()) }
///     let start = vec![1u8; 1000];
///     heapledger::lower_guard(GuardLevel::Light)?;
///     let served = vec![1u8; 1000];
///     assert_eq!((heapledger::check_block(start.as_ptr()), heapledger::check_block(served.as_ptr())), (Ok(false), Ok(false)));
///     assert_eq!(heapledger::lower_guard(GuardLevel::Full), Err(Error::NotSo));
///     # heapledger::discard();
///     Ok(())
/// }
/// ```
///
/// # Errors
/// [`Error::NotSo`] if the level is above the present one, or `run` guards one block in so many and it is not [`GuardLevel::Off`]; [`Error::Off`] if nothing is
/// recorded in this process, [`Error::Unsupported`] on other systems.
pub fn lower_guard(level: GuardLevel) -> Result<(), Error> {
    here::lower(level)
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod here {
    use crate::{Error, GuardLevel};
    use heapledger_process::guarded::Level;
    use heapledger_process::marks::NotTold;
    use heapledger_process::ways;

    pub(super) fn check(block: usize) -> Result<u64, Error> {
        let way = ways::recorder().ok_or(Error::Off)?;
        way.check_integrity(block).map_err(|why| match why {
            NotTold::NotSo => Error::NotGuarded,
            NotTold::Unknown => Error::NotSo,
            NotTold::Busy => Error::Busy,
            _ => Error::Off,
        })
    }

    pub(super) fn lower(level: GuardLevel) -> Result<(), Error> {
        let way = ways::recorder().ok_or(Error::Off)?;
        let level = match level {
            GuardLevel::Off => Level::Off,
            GuardLevel::Light => Level::Light,
            GuardLevel::Full => Level::Full,
        };
        way.guard_level(Some(level as u8)).map(|_| ()).map_err(|_| Error::NotSo)
    }
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
mod here {
    use crate::{Error, GuardLevel};

    pub(super) fn check(_: usize) -> Result<u64, Error> {
        Err(Error::Unsupported)
    }

    pub(super) fn lower(_: GuardLevel) -> Result<(), Error> {
        Err(Error::Unsupported)
    }
}
