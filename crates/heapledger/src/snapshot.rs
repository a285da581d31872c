//! The ledger of a moment as a file, while the program goes on.
#![forbid(unsafe_code)]

use core::ffi::CStr;
use core::fmt;

/// Why no snapshot, or not all [lines](crate::LiveLines), were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotWritten {
    /// Nothing is recorded in this process: it has not begun, was stopped, or this is a forked child.
    NotRecorded,
    /// The path is longer than 480 bytes or so, empty, or has a zero byte.
    Path,
    /// What `heapledger run` has brought is older than this crate, and writes no snapshots.
    TooOld,
    /// What the system says: an error number, as of `errno`.
    System(i32),
    /// Who was to take the text takes no more of it.
    Refused,
}

impl fmt::Display for NotWritten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotWritten::NotRecorded => {
                f.write_str("nothing is recorded in this process; `heapledger::start()` says why")
            }
            NotWritten::Path => f.write_str("the path is empty, too long, or has a zero byte"),
            NotWritten::TooOld => f.write_str("the recorder of this process is too old to write snapshots"),
            NotWritten::Refused => f.write_str("who was to take the text takes no more of it"),
            #[cfg(feature = "std")]
            NotWritten::System(number) => std::io::Error::from_raw_os_error(*number).fmt(f),
            #[cfg(not(feature = "std"))]
            NotWritten::System(number) => write!(f, "error number {number}"),
        }
    }
}

impl core::error::Error for NotWritten {}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn write(path: &CStr) -> Result<(), NotWritten> {
    use heapledger_linux::syscall::Errno;
    use heapledger_process::ways;

    let way = ways::recorder().ok_or(NotWritten::NotRecorded)?;
    match way.snapshot(path).ok_or(NotWritten::TooOld)? {
        Ok(()) => Ok(()),
        Err(Errno::SRCH) => Err(NotWritten::NotRecorded),
        Err(Errno::INVAL) => Err(NotWritten::Path),
        Err(other) => Err(NotWritten::System(other.0)),
    }
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn write(_: &CStr) -> Result<(), NotWritten> {
    Err(NotWritten::NotRecorded)
}

/// Writes what the ledger holds now to a file, which `heapledger` reads like any other: `heapledger dump PATH`,
/// `heapledger diff BEFORE AFTER`. A file of that name is replaced; before all is written, nothing has it.
///
/// Other threads go on meanwhile. Each block is in the file as it was at some time between the beginning and the end of the
/// call, whole, with its stack: of blocks that are allocated or freed meanwhile some are there and some are not. What this
/// thread has done before is in it exactly. Totals are those of the end; reports say by how much they may be apart.
/// `heapledger snapshot PID` can hold the program instead, from outside.
///
/// It takes as long as the ledger takes to be written, no memory from the program's allocator, and may be called from several
/// threads at once. Under `heapledger run` its recorder writes the file.
///
/// ```
/// # use heapledger::Heapledger;
/// # use std::alloc::System;
/// # #[global_allocator]
/// # static HEAP: Heapledger<System> = Heapledger::system();
/// fn main() -> Result<(), Box<dyn std::error::Error>> {
///     # if cfg!(not(all(target_os = "linux", target_arch = "x86_64"))) { return Ok(()) }
///     # let directory = std::env::temp_dir().join(format!("heapledger-doc-{}", std::process::id()));
///     # std::fs::create_dir_all(&directory)?;
///     # std::env::set_current_dir(&directory)?;
///     let cache = vec![0u8; 100_000];
///     heapledger::snapshot("warm.hl")?;
///     drop(cache);
///     # assert!(std::fs::metadata("warm.hl")?.len() > 1000);
///     # std::fs::remove_dir_all(&directory)?;
///     # heapledger::discard();
///     # assert_eq!(heapledger::snapshot("late.hl"), Err(heapledger::NotWritten::NotRecorded));
///     Ok(())
/// }
/// ```
///
/// # Errors
/// If nothing is recorded, or the file cannot be written. Then nothing is left behind, and a file that had the name keeps it.
#[cfg(feature = "std")]
pub fn snapshot(path: impl AsRef<std::path::Path>) -> Result<(), NotWritten> {
    // No allocation: in a signal handler there may be none.
    const BYTES_MAX: usize = 512;
    let path = path.as_ref().as_os_str().as_encoded_bytes();
    let mut bytes = [0; BYTES_MAX];
    bytes.get_mut(..path.len()).ok_or(NotWritten::Path)?.copy_from_slice(path);
    let path = bytes.get(..=path.len()).and_then(|path| CStr::from_bytes_with_nul(path).ok());
    snapshot_to(path.ok_or(NotWritten::Path)?)
}

/// As `snapshot`, by a path as C has it: for programs without `std`.
///
/// ```
/// # use heapledger::Heapledger;
/// # use std::alloc::System;
/// # #[global_allocator]
/// # static HEAP: Heapledger<System> = Heapledger::system();
/// # fn main() {
/// # if cfg!(not(all(target_os = "linux", target_arch = "x86_64"))) { return }
/// assert!(heapledger::snapshot_to(c"/no/such/directory/warm.hl").is_err());
/// # heapledger::discard();
/// # }
/// ```
///
/// # Errors
/// If nothing is recorded, or the file cannot be written.
pub fn snapshot_to(path: &CStr) -> Result<(), NotWritten> {
    write(path)
}
