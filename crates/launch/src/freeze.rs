//! Holding all threads of a process still for a moment, and letting them go.
//!
//! A stop signal would be seen by the parent: a shell would take the terminal back and call the job stopped. It would
//! also stay if we were killed in between. So we trace: nobody but the kernel and we know of it, and whatever becomes of
//! us, the kernel lets the threads go. A process that was stopped before stays stopped.
//!
//! A thread that sleeps stands still by itself. It is not woken, since many a system call does not go on where it was
//! woken: time-outs begin anew, a `write` that has written a part returns with that. Whether it slept all the while is
//! looked at afterwards ([`HeldProcess::woken`]); if it did not, it is traced the next time, and set back to its system call
//! where the kernel does not do that itself.

mod asleep;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::ops::Range;
use std::thread::sleep;
use std::time::{Duration, Instant};

use thiserror::Error;

use crate::sys::{self, Stop};
use asleep::Asleep;

/// A thread that does not stop in this time waits in the kernel for something that cannot be interrupted.
const PATIENCE: Duration = Duration::from_secs(2);
/// Between two looks at a thread that is to stop.
const LOOK: Duration = Duration::from_micros(20);
/// How long a thread that is in the middle of an entry gets, to finish it.
const NUDGE: Duration = Duration::from_micros(50);
/// How often.
const NUDGES: u32 = 400;
/// How the name of the library begins that does the entering.
const LIBRARY: &str = "libheapledger";

/// How often a thread that sleeps may wake while others are brought to stand, before it is brought to stand as well.
const NAPS: u32 = 3;

/// Whom to trace.
#[derive(Clone, Debug)]
pub enum Trace {
    /// Threads that do not sleep, and these.
    Awake(BTreeSet<i32>),
    /// All threads.
    All,
}

/// Why a process cannot be held; it runs on then.
#[derive(Debug, Error)]
pub enum HoldError {
    /// It is not there any more.
    #[error("process {0} has ended")]
    Ended(i32),
    /// A thread does not come to stand.
    #[error("thread {thread} of process {process} cannot be held: it waits in the kernel")]
    InKernel {
        /// The process.
        process: i32,
        /// Which of its threads.
        thread: i32,
    },
    /// Somebody else has it: a debugger.
    #[error("process {process} cannot be held: process {tracer} ({name}) traces it already")]
    Traced {
        /// The process.
        process: i32,
        /// Who.
        tracer: String,
        /// What that one is called.
        name: String,
    },
    /// The machine does not let us.
    #[error(
        "process {process} cannot be held by you: kernel.yama.ptrace_scope is {scope}; try as root, or without --freeze"
    )]
    Scope {
        /// The process.
        process: i32,
        /// The setting.
        scope: String,
    },
    /// It is not ours to hold.
    #[error("process {0} cannot be held by you: it belongs to another user, or is protected")]
    Protected(i32),
    /// Something else.
    #[error("process {process} cannot be held: {reason}")]
    Refused {
        /// The process.
        process: i32,
        /// What the system says.
        reason: io::Error,
    },
    /// A thread cannot be looked at.
    #[error("{0}")]
    System(io::Error),
}

/// A process whose threads stand still as long as this value lives.
#[derive(Debug)]
pub struct HeldProcess {
    process: i32,
    /// Those that are traced.
    threads: Vec<TracedThread>,
    /// Those that slept when all others stood.
    asleep: BTreeMap<i32, Asleep>,
    since: Instant,
}

#[derive(Debug)]
struct TracedThread {
    id: i32,
    stopped: Option<Stop>,
}

impl HeldProcess {
    /// Stops all threads, none of them in the middle of an entry as far as that can be told.
    ///
    /// # Errors
    /// If the process may not be traced, is traced by somebody else, is gone, or does not stop. Then it runs.
    pub fn hold(process: i32, trace: &Trace) -> Result<HeldProcess, HoldError> {
        HeldProcess::hold_outside(process, trace, &library_code(process))
    }

    /// The same, with none in this code, as far as that can be told.
    ///
    /// # Errors
    /// As [`HeldProcess::hold`].
    pub fn hold_outside(process: i32, trace: &Trace, code: &[Range<u64>]) -> Result<HeldProcess, HoldError> {
        let mut held = HeldProcess { process, threads: Vec::new(), asleep: BTreeMap::new(), since: Instant::now() };
        let mut traced = BTreeSet::new();
        let mut naps: BTreeMap<i32, u32> = BTreeMap::new();
        // Threads that run begin new ones, and wake others, until all of them stand.
        loop {
            let before = held.threads.len();
            let mut all_stand = true;
            for id in threads(process) {
                if traced.contains(&id) || held.asleep.get(&id).is_some_and(Asleep::still) {
                    continue;
                }
                all_stand = false;
                let naps = naps.entry(id).or_default();
                *naps += 1;
                let may_sleep = matches!(trace, Trace::Awake(but) if *naps <= NAPS && !but.contains(&id));
                let sleeper = Asleep::look(process, id).filter(|found| may_sleep && !found.is_in(code));
                held.asleep.remove(&id);
                if let Some(sleeper) = sleeper {
                    held.asleep.insert(id, sleeper);
                } else {
                    traced.insert(id);
                    held.trace(id)?;
                }
            }
            held.wait_for(before)?;
            if all_stand {
                break;
            }
        }
        held.asleep.retain(|id, _| !is_gone(process, *id));
        if held.threads.is_empty() && held.asleep.is_empty() {
            return Err(HoldError::Ended(process));
        }
        held.leave_entries(code)?;
        Ok(held)
    }

    /// Becomes the tracer of a thread and asks it to stop.
    fn trace(&mut self, id: i32) -> Result<(), HoldError> {
        match sys::seize(id) {
            Ok(()) => {
                self.threads.push(TracedThread { id, stopped: None });
                // One that has ended since is found out when it is waited for.
                let _ = sys::interrupt(id);
                Ok(())
            }
            Err(error) if is_gone(self.process, id) => {
                drop(error);
                Ok(())
            }
            Err(error) => Err(refused(self.process, error)),
        }
    }

    /// The threads that were left asleep and did not sleep all the while, or began since. None: it stood still.
    pub fn woken(&self) -> BTreeSet<i32> {
        let traced: BTreeSet<i32> = self.threads.iter().map(|thread| thread.id).collect();
        // The first thread of a program stays in the list when it has ended before the others, and wakes never.
        let is_new = |id: &i32| !traced.contains(id) && !self.asleep.contains_key(id) && !is_gone(self.process, *id);
        let mut woken: BTreeSet<i32> = threads(self.process).into_iter().filter(is_new).collect();
        woken.extend(self.asleep.iter().filter(|(_, sleeper)| !sleeper.still()).map(|(id, _)| *id));
        woken
    }

    /// For how long it has been standing.
    pub fn span(&self) -> Duration {
        self.since.elapsed()
    }

    /// Waits until the threads from `first` on stand; forgets those that are gone.
    fn wait_for(&mut self, first: usize) -> Result<(), HoldError> {
        let began = Instant::now();
        for thread in self.threads.iter_mut().skip(first) {
            while thread.stopped.is_none() {
                thread.stopped = sys::look_at_thread(thread.id).map_err(HoldError::System)?;
                if thread.stopped.is_none() {
                    if began.elapsed() > PATIENCE {
                        return Err(HoldError::InKernel { process: self.process, thread: thread.id });
                    }
                    sleep(LOOK);
                }
            }
        }
        self.threads.retain(|thread| thread.stopped != Some(Stop::Gone));
        Ok(())
    }

    /// Lets threads that stopped inside our library go on alone until they are out of it.
    fn leave_entries(&mut self, code: &[Range<u64>]) -> Result<(), HoldError> {
        for _ in 0..NUDGES {
            let mut inside: Vec<usize> = Vec::new();
            for (index, thread) in self.threads.iter().enumerate() {
                // A process that somebody else stopped does not take a step on our account.
                let may_step = !matches!(thread.stopped, Some(Stop::Group(_)));
                let address = instruction(self.process, thread.id).filter(|_| may_step);
                if address.is_some_and(|address| code.iter().any(|range| range.contains(&address))) {
                    inside.push(index);
                }
            }
            if inside.is_empty() {
                break;
            }
            for index in &inside {
                let Some(thread) = self.threads.get_mut(*index) else { continue };
                let _ = sys::enter_again(thread.id);
                let _ = sys::resume(thread.id, pending(thread.stopped.take()));
            }
            sleep(NUDGE);
            for thread in self.threads.iter().filter(|thread| thread.stopped.is_none()) {
                let _ = sys::interrupt(thread.id);
            }
            self.wait_for(0)?;
        }
        Ok(())
    }
}

impl Drop for HeldProcess {
    fn drop(&mut self) {
        // Only a thread that stands can be let go. Those that do not are let go when this process ends.
        if self.threads.iter().any(|thread| thread.stopped.is_none()) {
            let _ = self.wait_for(0);
        }
        for thread in self.threads.iter().filter(|thread| thread.stopped.is_some()) {
            let _ = sys::enter_again(thread.id);
            let _ = sys::detach(thread.id, pending(thread.stopped));
        }
    }
}

/// The signal that a stopped thread was about to get; 0 for none.
fn pending(stop: Option<Stop>) -> i32 {
    match stop {
        Some(Stop::Signal(signal)) => signal,
        _ => 0,
    }
}

/// The threads of a process; none if there is no such process.
pub(crate) fn threads(process: i32) -> Vec<i32> {
    let number = |item: io::Result<fs::DirEntry>| item.ok()?.file_name().to_str()?.parse().ok();
    fs::read_dir(format!("/proc/{process}/task"))
        .map_or_else(|_| Vec::new(), |items| items.filter_map(number).collect())
}

/// A thread of the process that has not ended: the first, as long as that has not.
pub(crate) fn living(process: i32) -> Option<i32> {
    std::iter::once(process)
        .chain(std::iter::once_with(|| threads(process)).flatten())
        .find(|thread| !is_gone(process, *thread))
}

/// Ended, or about to.
fn is_gone(process: i32, thread: i32) -> bool {
    state(process, thread).is_none_or(|state| matches!(state, 'Z' | 'X'))
}

/// Whether a thread waits where nothing interrupts it: for a disk, or for the child that it has begun with `vfork`.
pub(crate) fn waits_in_kernel(process: i32, thread: i32) -> bool {
    state(process, thread) == Some('D')
}

fn state(process: i32, thread: i32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{process}/task/{thread}/stat")).ok()?;
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

/// Why a process cannot be held, in words.
fn refused(process: i32, error: io::Error) -> HoldError {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:")).map_or("0", str::trim);
    if tracer != "0" {
        let name = fs::read_to_string(format!("/proc/{tracer}/comm")).unwrap_or_default();
        return HoldError::Traced { process, tracer: tracer.to_owned(), name: name.trim().to_owned() };
    }
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    match error.raw_os_error() {
        Some(libc::EPERM) if !matches!(scope.trim(), "" | "0") => {
            HoldError::Scope { process, scope: scope.trim().to_owned() }
        }
        Some(libc::EPERM) => HoldError::Protected(process),
        Some(libc::ESRCH) => HoldError::Ended(process),
        _ => HoldError::Refused { process, reason: error },
    }
}

/// Where our library's code lies in the process, and the code that the kernel gives it, which our library calls.
fn library_code(process: i32) -> Vec<Range<u64>> {
    // Of a thread that has ended nothing is mapped, be it the first.
    let thread = living(process).unwrap_or(process);
    let maps = fs::read(format!("/proc/{process}/task/{thread}/maps")).unwrap_or_default();
    let maps = String::from_utf8_lossy(&maps);
    let ours = |line: &&str| {
        let name = line.rsplit('/').next().unwrap_or_default();
        line.split_ascii_whitespace().nth(1).is_some_and(|rights| rights.contains('x'))
            && (line.ends_with("[vdso]") || line.contains('/') && name.starts_with(LIBRARY))
    };
    let range = |line: &str| {
        let (low, high) = line.split_ascii_whitespace().next()?.split_once('-')?;
        Some(u64::from_str_radix(low, 16).ok()?..u64::from_str_radix(high, 16).ok()?)
    };
    maps.lines().filter(ours).filter_map(range).collect()
}

/// Where a thread that stands would go on.
fn instruction(process: i32, thread: i32) -> Option<u64> {
    Asleep::place(process, thread).and_then(|place| asleep::instruction(&place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_threads_and_no_library() {
        let own = std::process::id() as i32;
        assert!(threads(own).contains(&own));
        assert!(!is_gone(own, own));
        assert!(is_gone(own, i32::MAX));
        assert_eq!(library_code(own).len(), 1, "the vdso");
        for trace in [Trace::All, Trace::Awake(BTreeSet::new())] {
            assert!(HeldProcess::hold(i32::MAX, &trace).is_err());
        }
    }
}
