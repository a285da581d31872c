//! How a process ended that is not ours to wait for.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use heapledger_source::{MemberEnd, start_ticks_of_any, zombie_status};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::sys;

/// A process whose end the system tells of.
pub(crate) struct ToldEnd {
    fd: OwnedFd,
    pid: u32,
    start_ticks: u64,
}

impl ToldEnd {
    /// Of the process that has this number now; `None` if there is none, or the system does not tell.
    pub(crate) fn of(pid: u32) -> Option<ToldEnd> {
        let fd = sys::process_end(pid).ok()?;
        // Whoever has the number while the descriptor is open has it for good, or has ended.
        Some(ToldEnd { fd, pid, start_ticks: start_ticks_of_any(pid)? })
    }

    pub(crate) fn is_of(&self, pid: u32, start_ticks: u64) -> bool {
        (self.pid, self.start_ticks) == (pid, start_ticks)
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub(crate) fn is_over(&self) -> bool {
        let mut told = [PollFd::new(self.fd.as_fd(), PollFlags::POLLIN)];
        poll(&mut told, PollTimeout::ZERO).is_ok_and(|count| count > 0)
    }

    /// How it ended, when it is over.
    pub(crate) fn how(&self) -> Option<MemberEnd> {
        // Until somebody waits for it, `/proc` tells; then the descriptor does. That may happen in between.
        let waited = || sys::waited_status(self.fd.as_fd()).and_then(end_of);
        waited().or_else(|| how_unwaited(self.pid, self.start_ticks)).or_else(waited)
    }
}

/// How a process ended that nobody has waited for yet.
pub(crate) fn how_unwaited(pid: u32, start_ticks: u64) -> Option<MemberEnd> {
    zombie_status(pid, start_ticks).map(ExitStatus::from_raw).and_then(end_of)
}

/// What a status says.
pub(crate) fn end_of(status: ExitStatus) -> Option<MemberEnd> {
    status.code().map(MemberEnd::Exit).or_else(|| status.signal().map(MemberEnd::Signal))
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    fn child(script: &str) -> (Child, ToldEnd) {
        let child = Command::new("sh").args(["-c", script]).spawn().expect("a child");
        let end = ToldEnd::of(child.id()).expect("it is there, if only until somebody waits for it");
        (child, end)
    }

    fn wait_until_over(end: &ToldEnd) {
        let mut told = [PollFd::new(end.fd(), PollFlags::POLLIN)];
        assert_eq!(poll(&mut told, PollTimeout::NONE), Ok(1));
        assert!(end.is_over());
    }

    #[test]
    fn the_end_of_a_process_is_known_before_and_after_somebody_waits() {
        for (script, how) in
            [("exit 7", MemberEnd::Exit(7)), ("exit 0", MemberEnd::Exit(0)), ("kill -9 $$", MemberEnd::Signal(9))]
        {
            let (mut child, end) = child(script);
            wait_until_over(&end);
            assert_eq!((end.how(), how_unwaited(end.pid, end.start_ticks)), (Some(how), Some(how)), "{script}");
            assert_eq!(how_unwaited(end.pid, end.start_ticks + 1), None, "another one");
            child.wait().expect("ended");
            assert_eq!(how_unwaited(end.pid, end.start_ticks), None, "nobody has the number, or another one");
            // Where the kernel tells it afterwards, it is the same.
            assert!(end.how().is_none_or(|told| told == how), "{:?}", end.how());
        }
    }

    #[test]
    fn who_lives_has_no_end() {
        let (mut child, end) = child("exec sleep 60");
        assert_eq!((end.is_over(), end.how()), (false, None));
        assert!(end.is_of(child.id(), end.start_ticks) && !end.is_of(child.id() + 1, end.start_ticks));
        child.kill().expect("killed");
        child.wait().expect("ended");
        assert!(ToldEnd::of(0).is_none());
    }
}
