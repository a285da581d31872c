//! How a process ends that is recorded since `attach`, seen by somebody who is not its parent; and its ledger, if it could not write that out.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use heapledger_format::session::process as key;
use heapledger_source::{Ledger, MemberEnd, More};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::error::LaunchError;
use crate::family::told_end::ToldEnd;
use crate::finish::{Finisher, Written};
use crate::recover::{self, Hands, Killed, UnfinishedState};

/// Between two looks whether it has become another program: the system tells of an end, but not of that.
const PAUSE_MS: u16 = 200;

/// What became of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachedEnd {
    /// It exited with this status.
    Exit(i32),
    /// This signal ended it.
    Signal(i32),
    /// It goes on, as another program, which nobody records.
    Exec,
    /// It has ended; how is not known.
    Ended,
}

/// A process whose end is waited for.
pub struct Awaited {
    /// `None` if it has ended before, or the system does not tell.
    end: Option<ToldEnd>,
    process: i32,
    memory: Option<File>,
}

impl Awaited {
    /// The process that has this number now.
    pub fn of(process: i32) -> Awaited {
        let end = u32::try_from(process).ok().and_then(ToldEnd::of);
        Awaited { end, process, memory: File::open(format!("/proc/{process}/mem")).ok() }
    }

    /// Waits until the program has ended.
    ///
    /// # Errors
    /// If the kernel does not tell.
    pub fn wait(&self) -> io::Result<AttachedEnd> {
        let Some(end) = &self.end else { return Ok(AttachedEnd::Ended) };
        let mut news = [PollFd::new(end.fd(), PollFlags::POLLIN)];
        loop {
            match poll(&mut news, PollTimeout::from(PAUSE_MS)) {
                Ok(0) if self.is_another_program() => return Ok(AttachedEnd::Exec),
                Ok(0) | Err(Errno::EINTR) => {}
                Ok(_) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(match end.how() {
            Some(MemberEnd::Exit(status)) => AttachedEnd::Exit(status),
            Some(MemberEnd::Signal(signal)) => AttachedEnd::Signal(signal),
            _ => AttachedEnd::Ended,
        })
    }

    /// Whether the memory that was opened is gone, and the process has another one. Of memory that is there the kernel says that nothing is
    /// at address 0, and of what is gone that it has ended; that keeps no page of it.
    fn is_another_program(&self) -> bool {
        let gone = self.memory.as_ref().is_some_and(|memory| matches!(memory.read_at(&mut [0], 0), Ok(0)));
        gone && fs::read_link(format!("/proc/{}/exe", self.process)).is_ok()
    }
}

/// Finishes the ledger at `live`, of a process that ended so. `None` if that is done, or there never was one. `pattern` is where it goes.
///
/// # Errors
/// Why it could not be written; the unfinished one is still there then.
pub fn finish_for(
    live: &Path,
    finisher: &mut Finisher,
    end: AttachedEnd,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Option<Written>, LaunchError> {
    if !live.exists() {
        return Ok(None); // the program itself has done it
    }
    let finds = recover::find(&[live.to_owned()])?;
    let Some(unfinished) = finds.ledgers.first() else { return Ok(None) };
    let UnfinishedState::Recorded(ledger, Hands::Nobody) = unfinished.state(Killed::Awaited)? else { return Ok(None) };
    let how = match end {
        AttachedEnd::Exit(status) => Some((key::EXIT, status.to_string())),
        AttachedEnd::Signal(signal) => Some((key::SIGNAL, signal.to_string())),
        AttachedEnd::Exec => Some((key::ENDED, key::BY_EXEC.to_owned())),
        AttachedEnd::Ended => None,
    };
    let pairs: Vec<_> = how.into_iter().collect();
    finisher.finish(&unfinished.live, &ledger, More { pairs: &pairs, timeline: &[] }, progress).map(Some)
}

/// Where the unfinished ledger of a process lies.
pub fn live_ledger(process: i32) -> Option<PathBuf> {
    Some(Ledger::open_process(u32::try_from(process).ok()?).ok()?.path().to_owned())
}
