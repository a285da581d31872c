//! What this process was started with, noted before Rust's runtime changes it: ignored signals, the signal mask,
//! and which of the standard streams were closed. The program that we start gets exactly that.
//!
//! The runtime sets `SIGPIPE` to "ignore" and opens `/dev/null` in place of a closed standard stream, both before
//! `main`; an ignored signal is inherited through exec, so `yes | head` under us would never end.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

/// Bit n-1: signal n was ignored.
static IGNORED: AtomicU64 = AtomicU64::new(0);
/// Bit n-1: signal n was blocked.
static BLOCKED: AtomicU64 = AtomicU64::new(0);
/// Bit n: descriptor n, one of the three standard ones, was closed.
static CLOSED: AtomicU8 = AtomicU8::new(0);

/// Said where the runtime would only abort.
const NO_POLL: &str = "heapledger: the system call `poll` is refused here, as by a sandbox's filter (seccomp), and heapledger \
                       does not work without it. Nothing was started. What helps: to permit `poll`, or to call heapledger \
                       outside of the sandbox\n";

/// Signals that a process can be sent, real-time ones included.
const SIGNALS: std::ops::RangeInclusive<i32> = 1..=64;

#[used]
// SAFETY: `.init_array` holds pointers to functions that the loader calls before `main`, with arguments that
// `note` does not take (permitted by the platform's calling convention).
#[unsafe(link_section = ".init_array")]
static NOTE: extern "C" fn() = note;

/// Runs before `main`: nothing of `std` that needs its runtime, no allocation.
extern "C" fn note() {
    let mut ignored = 0;
    let mut blocked = 0;
    // SAFETY: both structures are plain data for which all zeros is a valid value.
    let (mut action, mut mask): (libc::sigaction, libc::sigset_t) = unsafe { std::mem::zeroed() };
    // SAFETY: a null new mask only reads the present one into a valid place.
    unsafe { libc::sigprocmask(libc::SIG_BLOCK, std::ptr::null(), &mut mask) };
    for signal in SIGNALS {
        let bit = 1_u64 << (signal - 1);
        // SAFETY: a null new action only reads the present one into a valid place.
        let read = unsafe { libc::sigaction(signal, std::ptr::null(), &mut action) };
        if read == 0 && action.sa_sigaction == libc::SIG_IGN {
            ignored |= bit;
        }
        // SAFETY: reads a valid mask.
        if unsafe { libc::sigismember(&mask, signal) } == 1 {
            blocked |= bit;
        }
    }
    IGNORED.store(ignored, Relaxed);
    BLOCKED.store(blocked, Relaxed);
    for descriptor in 0..3 {
        // SAFETY: asks for a flag of a descriptor, open or not.
        if unsafe { libc::fcntl(descriptor, libc::F_GETFD) } == -1 {
            CLOSED.fetch_or(1 << descriptor, Relaxed);
        }
    }
    if !can_poll() {
        // SAFETY: reads a text of so many bytes; nothing of this process needs to be cleaned up yet.
        unsafe {
            libc::write(libc::STDERR_FILENO, NO_POLL.as_ptr().cast(), NO_POLL.len());
            libc::_exit(i32::from(crate::OWN_FAILURE));
        }
    }
}

/// Whether Rust's runtime will get to `main`: it asks `poll` which of the standard streams are closed, and ends the process
/// without a word where that fails in any way but these.
fn can_poll() -> bool {
    let mut streams = [0, 1, 2].map(|fd| libc::pollfd { fd, events: 0, revents: 0 });
    // SAFETY: the structures are as many as is said, and valid.
    let asked = unsafe { libc::poll(streams.as_mut_ptr(), streams.len() as libc::nfds_t, 0) };
    let problem = || std::io::Error::last_os_error().raw_os_error();
    asked != -1 || matches!(problem(), Some(libc::EINTR | libc::EINVAL | libc::EAGAIN | libc::ENOMEM))
}

/// Puts everything back as it was. For the child, immediately before exec.
pub fn restore() {
    for descriptor in 0..3 {
        if CLOSED.load(Relaxed) & 1 << descriptor != 0 {
            // SAFETY: the descriptor is the runtime's own `/dev/null`; nothing in this process uses it any more.
            unsafe { libc::close(descriptor) };
        }
    }
    // SAFETY: both structures are plain data for which all zeros is a valid value.
    let (mut action, mut mask): (libc::sigaction, libc::sigset_t) = unsafe { std::mem::zeroed() };
    for signal in SIGNALS {
        let bit = 1_u64 << (signal - 1);
        let ignored = IGNORED.load(Relaxed) & bit != 0;
        action.sa_sigaction = if ignored { libc::SIG_IGN } else { libc::SIG_DFL };
        // SAFETY: sets "default" or "ignore", no handler; the few numbers that cannot be set fail and stay.
        unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) };
        if BLOCKED.load(Relaxed) & bit != 0 {
            // SAFETY: changes a valid mask.
            unsafe { libc::sigaddset(&mut mask, signal) };
        }
    }
    // SAFETY: reads a valid mask. Last, so that a signal that waited meets the right disposition.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, &mask, std::ptr::null_mut()) };
}

/// Whether this process was started with the descriptor, one of the three standard ones, closed.
pub fn was_closed(descriptor: u8) -> bool {
    CLOSED.load(Relaxed) & 1 << descriptor != 0
}

/// Whether this process was started with the signal ignored.
pub fn was_ignored(signal: i32) -> bool {
    IGNORED.load(Relaxed) & 1 << (signal - 1) != 0
}
