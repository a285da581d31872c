//! Starting the program and staying beside it until it ends.
//!
//! The program is our child in our own process group: what the terminal sends reaches it without us. What another
//! process sends to *us* is passed on. All signals concerned are blocked and read from a descriptor one by one, so
//! that none is lost between looking and waiting, and no handler is needed.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd, siginfo};
use nix::unistd::pipe2;

use super::options::{Settings, VARIABLE};
use crate::exec::{Image, exit_code};
use crate::startup;
use crate::sys::{self, Forked};

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
pub(crate) struct Signals(SignalFd);

impl Signals {
    /// Blocks them and opens the descriptor. Before the program is started, so that none is missed.
    pub(crate) fn catch() -> Result<Signals> {
        // Ignored, it would take the program's status with it.
        sys::set_default(libc::SIGCHLD);
        let mut set = SigSet::empty();
        FORWARDED.iter().chain(&[Signal::SIGCHLD]).for_each(|signal| set.add(*signal));
        set.thread_block().context("cannot block signals")?;
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        Ok(Signals(SignalFd::with_flags(&set, flags).context("cannot open a descriptor for signals")?))
    }

    /// The next signal, if one came within this time. `None` as a limit waits for ever.
    fn next(&self, limit: Option<Duration>) -> Option<siginfo> {
        if let Ok(Some(signal)) = self.0.read_signal() {
            return Some(signal);
        }
        let timeout = limit.map_or(PollTimeout::NONE, |limit| PollTimeout::try_from(limit).unwrap_or(PollTimeout::MAX));
        let mut descriptors = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        // Interrupted, or nothing in time: the caller looks again.
        let _ = poll(&mut descriptors, timeout);
        self.0.read_signal().ok().flatten()
    }

    /// Forgets what has come so far: it was meant for the program.
    pub(crate) fn drain(&self) {
        while self.next(Some(Duration::ZERO)).is_some() {}
    }

    /// Waits for ever until somebody wants us to end.
    pub(crate) fn wait_for_end(&self) {
        loop {
            if let Some(signal) = self.next(None)
                && ENDING.iter().any(|ending| *ending as u32 == signal.ssi_signo)
            {
                return;
            }
        }
    }
}

/// How the program ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// What `waitpid` said.
    pub(crate) status: ExitStatus,
    /// From start to end.
    pub(crate) span: Duration,
    /// The kernel refused to execute it: why.
    pub(crate) refused: Option<Errno>,
}

/// A program that was started.
pub(crate) struct Running {
    /// Its process id.
    pub(crate) pid: i32,
    started: Instant,
    refusal: File,
}

/// Starts `program`. With `settings`, the recorder is told them and that it is in this very process.
pub(crate) fn start(
    program: &Path,
    arguments: &[OsString],
    environment: &[(OsString, OsString)],
    settings: Option<Settings>,
) -> Result<Running> {
    let Some(mut image) = Image::new(program, arguments, environment) else {
        bail!("an argument has a zero byte inside");
    };
    let (reading, writing): (OwnedFd, OwnedFd) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).context("no pipe")?;
    let started = Instant::now();
    match sys::fork().context("cannot start a process")? {
        Forked::Parent(pid) => Ok(Running { pid, started, refusal: File::from(reading) }),
        Forked::Child => {
            if let Some(mut settings) = settings {
                settings.set("pid", std::process::id().to_string().into());
                image.set(VARIABLE, &settings.variable());
            }
            startup::restore();
            let Err(reason) = image.become_it();
            let _ = File::from(writing).write_all(&(reason as i32).to_ne_bytes());
            sys::exit_now(i32::from(exit_code(reason)))
        }
    }
}

impl Running {
    /// Waits for its end, passing signals on, stopping and continuing with it.
    pub(crate) fn wait(mut self, signals: &Signals) -> Result<Ended> {
        loop {
            match sys::look_at_child(self.pid).context("cannot wait for the program")? {
                Some(status) => match status.stopped_signal() {
                    Some(signal) => stop_too(signal),
                    None => {
                        let mut reason = [0; 4];
                        let refused = self.refusal.read_exact(&mut reason).is_ok();
                        let refused = refused.then(|| Errno::from_raw(i32::from_ne_bytes(reason)));
                        return Ok(Ended { status, span: self.started.elapsed(), refused });
                    }
                },
                None => {
                    if let Some(signal) = signals.next(None) {
                        self.pass_on(&signal);
                    }
                }
            }
        }
    }

    /// What the terminal sends (`si_code` above 0) has reached the program by itself: it is in our process group. A
    /// signal that comes from the program was for its group, or for its parent; it does not want it back.
    fn pass_on(&self, signal: &siginfo) {
        let from_a_process = signal.ssi_code <= 0;
        let number = signal.ssi_signo.cast_signed();
        if from_a_process && number != libc::SIGCHLD && signal.ssi_pid != self.pid.cast_unsigned() {
            // It may have ended just now: the next look will tell.
            let _ = sys::send(self.pid, number);
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
