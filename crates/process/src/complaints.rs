//! Lines on standard error, for what the person must know.
//!
//! Where the program's messages go is noted when recording begins. Later that descriptor may be of a file with the program's data, or of
//! somebody to whom it talks, which is no place for ours.
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use heapledger_linux::syscall::{self, Errno, FileIdentity};
use heapledger_linux::text::Text;

const STANDARD_ERROR: usize = 2;

/// What the descriptor stood for when recording began, and in the processes from which this one was forked: device and inode.
static FIRST: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
/// Whether that is known.
static KNOWN: AtomicU8 = AtomicU8::new(NOT_ASKED);
const NOT_ASKED: u8 = 0;
/// Somebody asks, or nobody is told.
const UNKNOWN: u8 = 1;
const CLOSED: u8 = 2;
const A_FILE: u8 = 3;

/// To write a line would be the end of the program.
static FORBIDDEN: AtomicBool = AtomicBool::new(false);

/// Notes what standard error is, if that was not done before.
pub(crate) fn note_standard_error() {
    if KNOWN.compare_exchange(NOT_ASKED, UNKNOWN, Ordering::Relaxed, Ordering::Relaxed).is_err() {
        return;
    }
    let known = match syscall::identify(STANDARD_ERROR) {
        Ok(file) => {
            let [device, inode] = &FIRST;
            device.store(file.device, Ordering::Relaxed);
            inode.store(file.inode, Ordering::Relaxed);
            A_FILE
        }
        Err(Errno::BADF) => CLOSED,
        Err(_) => UNKNOWN,
    };
    KNOWN.store(known, Ordering::Release);
}

/// No line is written any more: the program is about to put on a filter by which it would die of that.
#[cold]
pub fn forbid() {
    FORBIDDEN.store(true, Ordering::Relaxed);
}

/// One line on standard error, only for what the person must know.
pub fn complain(parts: &[&[u8]]) {
    if FORBIDDEN.load(Ordering::Relaxed) {
        return;
    }
    note_standard_error();
    if let Ok(file) = syscall::identify(STANDARD_ERROR) {
        // A write beyond the limit of file sizes would be a signal.
        let may_write =
            (is_first(&file) || is_for_messages(&file)) && !(file.is_regular() && near_file_limit(file.bytes));
        if !may_write {
            return;
        }
    }
    let mut line = Text::<256>::new();
    line.push(b"heapledger: ");
    for part in parts {
        line.push(part);
    }
    line.push(b"\n");
    let _ = syscall::write(STANDARD_ERROR, line.bytes());
}

fn is_first(file: &FileIdentity) -> bool {
    match KNOWN.load(Ordering::Acquire) {
        A_FILE => {
            let [device, inode] = &FIRST;
            (file.device, file.inode) == (device.load(Ordering::Relaxed), inode.load(Ordering::Relaxed))
        }
        known => known != CLOSED,
    }
}

/// Whether a program would open such a file for its messages: of regular files, one that it cannot read, as those that `freopen` opens.
fn is_for_messages(file: &FileIdentity) -> bool {
    file.is_pipe() || file.is_terminal_or_null() || file.is_regular() && syscall::is_write_only(STANDARD_ERROR)
}

/// Whether a few lines more might make a file of this length too long for the process.
pub(crate) fn near_file_limit(bytes: u64) -> bool {
    const SPARE_BYTES: u64 = 4096; // others may write at the same time
    syscall::limit(syscall::LIMIT_FILE_BYTES).is_some_and(|limit| bytes.saturating_add(SPARE_BYTES) > limit)
}
