//! The ledger of this process as a file: at its end, when nobody waits for it, or of a moment, while the program goes on.
#![forbid(unsafe_code)]

use crate::copy::{CopyOf, Copying};
use crate::shared::{Phase, Shared};
use crate::start::is_ours;
use core::ffi::CStr;
use core::sync::atomic::{AtomicU32, Ordering};
use heapledger_linux::memory::PATH_BYTES_MAX;
use heapledger_linux::syscall::{self, Errno, open_flag};
use heapledger_linux::text::Text;

/// Writes the ledger of a process that has stopped recording to `path`, which is replaced if it exists.
///
/// # Errors
/// If there is no ledger, it is still written, or the file cannot be written; nothing is left behind then.
pub fn finish(shared: &Shared, path: &CStr) -> Result<(), Errno> {
    if shared.phase.load(Ordering::Acquire) != Phase::Off as u8 || shared.ledger().mapping().is_none() {
        return Err(Errno::INVAL);
    }
    write_to(shared, CopyOf::End, path)
}

/// Writes what the ledger holds now to `path`, which is replaced if it exists, while the program goes on. From any
/// thread, and from several at once.
///
/// # Errors
/// [`Errno::SRCH`] if nothing is recorded in this process (any more); else if the file cannot be written. Nothing is left behind then.
pub fn snapshot(shared: &Shared, path: &CStr) -> Result<(), Errno> {
    let is_there = shared.phase.load(Ordering::Acquire) == Phase::On as u8 && shared.switch.follows();
    if !is_there || !is_ours(shared) || shared.ledger().mapping().is_none() {
        return Err(Errno::SRCH);
    }
    write_to(shared, CopyOf::Present, path)
}

/// Whoever finds the name finds all of it.
fn write_to(shared: &Shared, of: CopyOf, path: &CStr) -> Result<(), Errno> {
    static WRITTEN: AtomicU32 = AtomicU32::new(0);
    let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
    let mut temporary = Text::<PATH_BYTES_MAX>::new();
    temporary.push(path.to_bytes()).push(b".").push_number(u64::from(syscall::getpid()));
    temporary.push(b"-").push_number(u64::from(number)).push(b".part");
    if temporary.is_cut() || path.is_empty() {
        return Err(Errno::INVAL);
    }
    // A file is replaced, and nothing else: no device, no pipe, no link.
    if let Ok(known) = syscall::open(path, open_flag::PATH_ONLY | open_flag::NO_FOLLOW | open_flag::CLOSE_ON_EXEC, 0) {
        let is_regular = syscall::identify(known).is_ok_and(|known| known.is_regular());
        syscall::close(known);
        if !is_regular {
            return Err(Errno::EXIST);
        }
    }
    match write_unnamed(shared, of, &temporary) {
        // Not every file system can, nor every process see its own files.
        Err(Unnamed::Impossible) => write_named(shared, of, &temporary)?,
        Err(Unnamed::Failed(why)) => return Err(why),
        Ok(()) => {}
    }
    let placed = syscall::rename(temporary.c_str(), path);
    if placed.is_err() {
        syscall::unlink(temporary.c_str());
    }
    placed
}

enum Unnamed {
    /// There is no such way here.
    Impossible,
    /// There is, and it went wrong.
    Failed(Errno),
}

/// To a file that has no name before it is whole: if the process is killed meanwhile, nothing of it is left.
fn write_unnamed(shared: &Shared, of: CopyOf, temporary: &Text<PATH_BYTES_MAX>) -> Result<(), Unnamed> {
    let mut directory = Text::<PATH_BYTES_MAX>::new();
    match temporary.bytes().iter().rposition(|byte| *byte == b'/') {
        Some(slash) => directory.push(temporary.bytes().get(..=slash).unwrap_or(b"/")),
        None => directory.push(b"."),
    };
    let flags = open_flag::UNNAMED | open_flag::READ_WRITE | open_flag::CLOSE_ON_EXEC;
    let file = syscall::open(directory.c_str(), flags, 0o600).map_err(|_| Unnamed::Impossible)?;
    let written = Copying::new(shared, of, file).and_then(Copying::write_all).map_err(Unnamed::Failed);
    let named = written.and_then(|()| syscall::give_name(file, temporary.c_str()).map_err(|_| Unnamed::Impossible));
    syscall::close(file);
    named
}

fn write_named(shared: &Shared, of: CopyOf, temporary: &Text<PATH_BYTES_MAX>) -> Result<(), Errno> {
    let flags = open_flag::READ_WRITE
        | open_flag::CREATE
        | open_flag::EXCLUSIVE
        | open_flag::NO_FOLLOW
        | open_flag::CLOSE_ON_EXEC;
    let file = syscall::open(temporary.c_str(), flags, 0o600)?;
    let written = Copying::new(shared, of, file).and_then(Copying::write_all);
    syscall::close(file);
    if written.is_err() {
        syscall::unlink(temporary.c_str());
    }
    written
}
