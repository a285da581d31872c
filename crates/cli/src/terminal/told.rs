//! A person who wants an end: Ctrl-C, heard while we sleep.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use heapledger_launch::startup;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// How often we look whether what is waited for is still there.
const LOOK: Duration = Duration::from_millis(100);

/// Hears when a person wants an end, and sleeps until then.
pub(crate) struct Told {
    signals: SignalFd,
    set: SigSet,
}

impl Told {
    pub(crate) fn listen() -> Result<Told> {
        let mut set = SigSet::empty();
        let wanted = [Signal::SIGINT, Signal::SIGTERM].into_iter();
        wanted.filter(|signal| !startup::was_ignored(*signal as i32)).for_each(|signal| set.add(signal));
        set.thread_block().context("cannot block signals")?;
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        Ok(Told { signals: SignalFd::with_flags(&set, flags).context("cannot open a descriptor for signals")?, set })
    }

    /// Sleeps; false if it was told to end, or if `runs` has become false.
    pub(crate) fn wait_until(&self, due: Instant, runs: impl Fn() -> bool) -> bool {
        loop {
            if matches!(self.signals.read_signal(), Ok(Some(_))) || !runs() {
                return false;
            }
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            // Whole milliseconds, and not none: that would be no sleep at all.
            let sleep = left.min(LOOK).max(Duration::from_millis(1));
            let mut descriptors = [PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
            // Interrupted, or nothing in time: looked at again above.
            let _ = poll(&mut descriptors, PollTimeout::try_from(sleep).unwrap_or(PollTimeout::MAX));
        }
    }
}

impl Drop for Told {
    /// Who presses Ctrl-C once more does not want to wait for the last report either.
    fn drop(&mut self) {
        let _ = self.set.thread_unblock();
    }
}
