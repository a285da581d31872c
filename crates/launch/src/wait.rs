//! Starting the program and staying beside it until it ends.
//!
//! The program is our child in our own process group: what the terminal sends reaches it without us. What another
//! process sends to *us* is passed on. All signals concerned are blocked and taken one by one, so that none is lost
//! between looking and waiting, and no handler is needed. Nor is a descriptor: there may be none.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::thread;
use std::time::{Duration, Instant};

use heapledger_format::session::{Key, VARIABLE};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use crate::deep::deep;
use crate::door::Door;
use crate::entered::Reports;
use crate::error::LaunchError;
use crate::exec::{Invocation, exit_code};
use crate::keep::{Keeper, LOOK_AGAIN};
use crate::options::Settings;
use crate::sys::{self, Forked, Sent, SharedNumber};
use crate::threshold::Thresholds;
use crate::{OWN_FAILURE, startup};

/// Between two looks where nothing wakes us.
const PAUSE: Duration = Duration::from_millis(20);
/// How often the kernel may fail to say how the program is.
const FAILURES_MAX: u32 = 50;

/// What is passed on when a process sends it to us.
const FORWARDED: &[Signal] = &[
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGALRM,
    Signal::SIGTERM,
    Signal::SIGCONT,
    Signal::SIGTSTP,
    Signal::SIGWINCH,
    Signal::SIGIO,
    Signal::SIGPWR,
];

/// What makes us give up on finishing the ledger, once the program has ended.
const ENDING: &[Signal] = &[Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM, Signal::SIGHUP];

/// The signals that are sent to us.
#[derive(Clone, Copy)]
pub struct Signals {
    set: SigSet,
    blocked: bool,
}

impl Signals {
    /// Blocks them. Before the program is started, so that none is missed.
    pub fn catch() -> Signals {
        // Ignored, it would take the program's status with it.
        sys::set_default(libc::SIGCHLD);
        let mut set = SigSet::empty();
        FORWARDED.iter().chain(&[Signal::SIGCHLD]).for_each(|signal| set.add(*signal));
        let blocked = set.thread_block().is_ok();
        Signals { set, blocked }
    }

    /// The next signal, if one came within this time. `None` as a limit waits as long as one may come, so that nobody
    /// need look at anything else meanwhile.
    fn next(&self, limit: Option<Duration>) -> Option<Sent> {
        sys::next_signal(&self.set, limit.or((!self.blocked).then_some(PAUSE)))
    }

    /// The same, but not beyond the moment when one of `news` becomes readable, which `waker` helps to wait for.
    fn next_or(&self, limit: Option<Duration>, waker: Option<&SignalFd>, news: &[BorrowedFd<'_>]) -> Option<Sent> {
        let limit = limit.or((!self.blocked).then_some(PAUSE));
        let Some(waker) = waker.filter(|_| !news.is_empty()) else { return self.next(limit) };
        let timeout = limit.map_or(PollTimeout::NONE, poll_timeout);
        let all = std::iter::once(waker.as_fd()).chain(news.iter().copied());
        let mut descriptors: Vec<PollFd> = all.map(|descriptor| PollFd::new(descriptor, PollFlags::POLLIN)).collect();
        // Interrupted, or nothing in time: the caller looks again.
        let _ = poll(&mut descriptors, timeout);
        self.next(Some(Duration::ZERO))
    }

    /// Forgets what has come so far: it was meant for the program.
    pub fn drain(&self) {
        while self.next(Some(Duration::ZERO)).is_some() {}
    }

    /// Waits for so long at most. Whether somebody wants us to end.
    pub fn asks_to_end(&self, limit: Duration) -> bool {
        self.next(Some(limit)).is_some_and(|sent| is_ending(&sent))
    }

    /// Waits for ever until somebody wants us to end.
    pub fn wait_for_end(&self) {
        while !self.next(None).is_some_and(|sent| is_ending(&sent)) {}
    }
}

fn is_ending(sent: &Sent) -> bool {
    ENDING.iter().any(|ending| *ending as i32 == sent.signal)
}

/// Whole milliseconds, which is what `poll` knows, and not less than the limit: whoever wakes before it has nothing to do yet, and would
/// come back at once, again and again, until it is there.
pub(crate) fn poll_timeout(limit: Duration) -> PollTimeout {
    PollTimeout::try_from(limit.as_micros().div_ceil(1000)).unwrap_or(PollTimeout::MAX)
}

/// How the program ended.
#[derive(Debug)]
pub struct Ended {
    /// What `waitpid` said.
    pub status: ExitStatus,
    /// From start to end.
    pub span: Duration,
    /// The kernel refused to execute it: why.
    pub refused: Option<Errno>,
    /// What the process was called in the end, as far as the kernel keeps names: by exec, or because it called itself so.
    pub last_name: Option<String>,
    /// Why it is not to be found out how it ended, if so; `status` is then our own failure.
    pub unknown: Option<io::Error>,
}

/// A program that was started.
pub struct Running {
    /// Its process id.
    pub pid: i32,
    started: Instant,
    /// Why the kernel refused to execute it; 0: it did not.
    refusal: SharedNumber,
}

/// A program that can be started.
pub struct Start {
    image: Invocation,
    settings: Option<Settings>,
}

impl Start {
    /// With `settings`, the recorder is told them and that it is in this very process.
    pub fn new(
        program: &Path,
        arguments: &[OsString],
        environment: &[(OsString, OsString)],
        settings: Option<Settings>,
    ) -> Result<Start, LaunchError> {
        let image = Invocation::new(program, arguments, environment).ok_or(LaunchError::ZeroByte)?;
        Ok(Start { image, settings })
    }

    /// Starts it as a child.
    ///
    /// # Errors
    /// Why there is no child; it can still be started in this very process.
    pub fn beside(self) -> Result<Running, (Start, io::Error)> {
        let (refusal, started) = (SharedNumber::new(), Instant::now());
        match sys::fork() {
            Err(reason) => Err((self, reason)),
            Ok(Forked::Parent(pid)) => Ok(Running { pid, started, refusal }),
            Ok(Forked::Child) => {
                let reason = self.in_place();
                refusal.set(reason as i32);
                sys::exit_now(i32::from(exit_code(reason)))
            }
        }
    }

    /// Becomes it. Comes back with the reason if the kernel refuses.
    pub fn in_place(mut self) -> Errno {
        if let Some(settings) = &mut self.settings {
            settings.set(Key::Pid, std::process::id().to_string().into());
            self.image.set(VARIABLE, &settings.variable());
        }
        startup::restore();
        let Err(reason) = self.image.become_it();
        reason
    }
}

impl Running {
    /// Waits for its end, passing signals on, stopping and continuing with it, holding its ledgers, and looking at what it holds.
    pub fn wait(
        self,
        signals: &Signals,
        mut keeper: Option<&mut Keeper>,
        mut thresholds: Thresholds,
        reports: &mut Reports,
        door: Option<&Door>,
    ) -> Ended {
        // Tells of signals together with other news. Where there is no descriptor for it, we look now and then.
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        let waker = keeper.as_ref().and_then(|_| SignalFd::with_flags(&signals.set, flags).ok());
        keeper.iter_mut().for_each(|keeper| keeper.look_at(self.pid));
        let mut failures = 0;
        let mut last_name = None;
        loop {
            if sys::has_ended(self.pid) {
                let name = fs::read_to_string(format!("/proc/{}/comm", self.pid)).ok();
                last_name = name.map(|name| name.trim_end_matches('\n').to_owned());
            }
            match sys::look_at_child(self.pid) {
                Ok(Some(status)) => match status.stopped_signal() {
                    Some(signal) => stop_too(signal),
                    None => {
                        let refused = Some(self.refusal.get()).filter(|reason| *reason != 0).map(Errno::from_raw);
                        let span = self.started.elapsed();
                        return Ended { status, span, refused, last_name, unknown: None };
                    }
                },
                Ok(None) => {
                    let (limit, news) = keeper.as_ref().map_or((None, None), |keeper| {
                        let patience = if waker.is_some() { keeper.patience() } else { Some(LOOK_AGAIN) };
                        let looks = thresholds.patience().into_iter().chain(reports.patience());
                        (patience.into_iter().chain(looks).min(), keeper.descriptor())
                    });
                    let news: Vec<BorrowedFd> = news.into_iter().chain(door.map(Door::descriptor)).collect();
                    if let Some(sent) = signals.next_or(limit, waker.as_ref(), &news) {
                        self.pass_on(&sent);
                    }
                    if let Some(door) = door {
                        door.answer();
                    }
                    if let Some(keeper) = &mut keeper {
                        keeper.look();
                        thresholds.look(keeper, self.pid);
                        reports.look(keeper);
                    }
                }
                // It cannot be: nobody else waits for our child.
                Err(problem) if failures == FAILURES_MAX => {
                    let status = ExitStatus::from_raw(i32::from(OWN_FAILURE) << 8);
                    let span = self.started.elapsed();
                    return Ended { status, span, refused: None, last_name, unknown: Some(problem) };
                }
                Err(_) => {
                    failures += 1;
                    thread::sleep(PAUSE);
                }
            }
        }
    }

    /// What the terminal sends (`si_code` above 0) has reached the program by itself: it is in our process group. A
    /// signal that comes from the program was for its group, or for its parent; it does not want it back.
    fn pass_on(&self, sent: &Sent) {
        if sent.by_process && sent.signal != libc::SIGCHLD && sent.pid != self.pid {
            // It may have ended just now: the next look will tell.
            let _ = sys::send(self.pid, sent.signal);
        }
    }
}

/// The program was stopped: stop as well, so that a shell sees its job stopped. It is continued together with us,
/// either by whoever continues the whole group, or because we pass `SIGCONT` on.
///
/// `SIGSTOP` is for one process: whoever sent it to the program may continue it without knowing of us, and without
/// job control nobody would ever continue us. Then we stay awake.
fn stop_too(signal: i32) {
    if signal != libc::SIGSTOP {
        sys::raise_default(signal);
    } else if File::open("/dev/tty").is_ok() {
        let _ = sys::send(std::process::id().cast_signed(), signal);
    }
}

/// In which process the work is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishingProcess {
    /// In the one that must end as the program did.
    Here,
    /// In one whose end means nothing.
    Aside,
}

/// Does work that only this tool cares for in a process of its own, so that whatever becomes of it (no memory, no stack, a
/// limit on processor time, a mistake of ours) is not taken for the program's end. It ends with this process. Says
/// how it ended if that was not as it should.
pub fn aside(signals: &Signals, work: impl FnOnce(FinishingProcess) + Send) -> Option<ExitStatus> {
    let pid = match sys::fork() {
        // No process is to be had: then it must go well here.
        Err(_) => {
            deep(|| work(FinishingProcess::Here));
            return None;
        }
        Ok(Forked::Child) => {
            sys::end_with_parent();
            deep(|| work(FinishingProcess::Aside));
            sys::exit_now(0)
        }
        Ok(Forked::Parent(pid)) => pid,
    };
    let mut failures = 0;
    loop {
        match sys::look_at_child(pid) {
            Ok(Some(status)) if status.stopped_signal().is_none() => return Some(status).filter(|end| !end.success()),
            Ok(_) => match signals.next(None) {
                // What the terminal sends reaches it by itself.
                Some(sent) if sent.by_process && is_ending(&sent) => _ = sys::send(pid, sent.signal),
                _ => {}
            },
            Err(_) if failures == FAILURES_MAX => return None,
            Err(_) => {
                failures += 1;
                thread::sleep(PAUSE);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_wakes_before_a_limit() {
        let milliseconds = |limit: Duration| poll_timeout(limit).as_millis();
        assert_eq!(milliseconds(Duration::ZERO), Some(0));
        assert_eq!(milliseconds(Duration::from_micros(1)), Some(1));
        assert_eq!(milliseconds(Duration::from_micros(9001)), Some(10));
        assert_eq!(milliseconds(Duration::from_millis(10)), Some(10));
        assert_eq!(poll_timeout(Duration::MAX), PollTimeout::MAX);
    }
}
