//! Recording begins in a program that was started without us: one of its threads is made to open the library.
//!
//! That needs no debugger, and leaves nothing behind. No instruction of the program is changed, and no breakpoint is set: threads are
//! stopped for an instant, one after the other, until one is at a place where a signal handler could open a library
//! (`place.rs`). That one calls `dlopen` as if it were such a handler, while all others run: it returns to where it was by itself
//! (`frame.rs`), also if this process is killed meanwhile. The library's constructor does the rest, inside of the program.

pub mod ending;
mod frame;
mod image;
mod memory;
mod order;
mod place;
#[allow(unsafe_code, reason = "requests of ptrace without a safe door in our dependencies")]
mod registers;
mod target;
mod thread;

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use heapledger_format::handover::{REASON_BYTES_MAX, at, state};
use thiserror::Error;

use self::frame::{Laid, State, calling, lay};
use self::memory::TargetMemory;
use self::place::{LOADER, Modules, ThreadPlace};
use self::thread::HeldThread;
use crate::freeze::{HeldProcess, Trace, threads, waits_in_kernel};
use crate::sys::Stop;

/// How long a place is looked for.
const SEARCH: Duration = Duration::from_secs(10);
/// How long the library may take to begin.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks at all threads, at first and at most.
const PAUSE: [Duration; 2] = [Duration::from_micros(200), Duration::from_millis(3)];

/// Why a program is not recorded. Unless it says otherwise, the program is as it was, and goes on.
#[derive(Debug, Error)]
pub enum AttachError {
    /// There is none of this number.
    #[error("there is no process {0}")]
    NoProcess(i32),
    /// It is a thread's number.
    #[error("{thread} is a thread of process {process}: attach to that")]
    Thread {
        /// What was asked for.
        thread: i32,
        /// Whose it is.
        process: String,
    },
    /// It is a zombie, or has just ended.
    #[error("process {0} has ended")]
    Ended(i32),
    /// Its first thread has ended, and others go on.
    #[error(
        "the main thread of process {0} has ended (pthread_exit), while others go on: such a program cannot be attached to; start it with `heapledger run`"
    )]
    WithoutMainThread(i32),
    /// It is this one.
    #[error("a process cannot attach to itself")]
    Itself,
    /// No program runs in it.
    #[error("process {0} is the kernel's own")]
    Kernel(i32),
    /// It has been stopped, by SIGSTOP or a terminal.
    #[error("process {0} is stopped: no thread of it can begin to record; let it go on (kill -CONT {0}), then attach")]
    Stopped(i32),
    /// A debugger has it.
    #[error("process {process} is traced already by process {tracer} ({name}): end that one, then attach")]
    Traced {
        /// The process.
        process: i32,
        /// Who.
        tracer: String,
        /// What that one is called.
        name: String,
    },
    /// It is recorded.
    #[error("process {0} is recorded already: look with `heapledger stats {0}` or `heapledger top {0}`")]
    Recorded(i32),
    /// The library is there, and not at work.
    #[error(
        "process {0} has the library of heapledger inside, which does not record, or not any more: it begins once in a process"
    )]
    LibraryThere(i32),
    /// It may only make certain system calls.
    #[error(
        "process {0} has forbidden itself system calls (seccomp), and could be ended for opening a library: start it with `heapledger run`"
    )]
    Filtered(i32),
    /// Its program is none that can be recorded.
    #[error("{0}")]
    Program(String),
    /// It has no C library of GNU's.
    #[error("process {0} has not loaded glibc, without which nothing can be opened in it")]
    NotGlibc(i32),
    /// It sees other files than we.
    #[error("process {process} does not find {} where it runs (a container, or another root): copy heapledger in there, and attach from inside", library.display())]
    OutOfReach {
        /// The process.
        process: i32,
        /// What it does not find.
        library: PathBuf,
    },
    /// It is another user's.
    #[error("process {process} belongs to another user ({user}): attach as that one, or as root")]
    OtherUser {
        /// The process.
        process: i32,
        /// Whose.
        user: String,
    },
    /// The machine does not let us.
    #[error(
        "process {process} may not be attached to: kernel.yama.ptrace_scope is {scope}; as root it may, or after `sysctl kernel.yama.ptrace_scope=0`"
    )]
    Scope {
        /// The process.
        process: i32,
        /// The setting.
        scope: String,
    },
    /// The process does not want to be looked at.
    #[error("process {0} may not be attached to: it is protected, or this user may not trace here (CAP_SYS_PTRACE)")]
    Protected(i32),
    /// Something else.
    #[error("process cannot be traced: {0}")]
    Trace(io::Error),
    /// The processor keeps return addresses twice.
    #[error("process {0} runs with a shadow stack, with which no call can be put in: start it with `heapledger run`")]
    ShadowStack(i32),
    /// None of its threads comes to a place where it can open a library.
    #[error("in {} s no thread of process {process} was where it could open a library: {why}; try again, or start it with `heapledger run`", SEARCH.as_secs())]
    NoPlace {
        /// The process.
        process: i32,
        /// The last reason of all.
        why: &'static str,
    },
    /// The loader does not load the library.
    #[error(
        "process {0} cannot open the library: there is no room for its thread-local words, it lies where no code may be run (noexec), or a filter forbids it"
    )]
    NotOpened(i32),
    /// The library does not record: why.
    #[error("{0}: nothing is recorded")]
    NotRecorded(String),
    /// It is not known whether it records: the thread did not come back.
    #[error("the library has not begun after {} s: a thread of the program waits for another one. It begins when that is over; look with `heapledger stats`", .0.as_secs())]
    NotBack(Duration),
    /// It has ended, by itself or of what was done.
    #[error("the process has ended while the library was opened")]
    EndedMeanwhile,
    /// Somebody has stopped it.
    #[error("the process was stopped while the library was opened; it begins to record when it goes on")]
    StoppedMeanwhile,
}

/// What is recorded, and what is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attached {
    /// Words of the program's modules that lead to the library's functions now.
    pub rebound: u64,
    /// Words that could not be changed: calls through them are not seen.
    pub not_rebound: u64,
    /// Whether libraries that the program loads from now on are seen, too.
    pub sees_later_libraries: bool,
}

/// Has `process` open `library`, and record what the words ask for, which are a value of the variable `HEAPLEDGER`.
///
/// # Errors
/// If that cannot be: why.
pub fn attach(process: i32, library: &Path, words: &[u8]) -> Result<Attached, AttachError> {
    target::examine(process, library)?;
    let memory = TargetMemory::open(process).map_err(|reason| target::refused(process, reason))?;
    let modules = Modules::read(process, &memory).ok_or(AttachError::NotGlibc(process))?;
    let (mut thread, state, modules) = find_place(process, &memory, modules)?;
    let restorer = restorer(&memory, &modules).ok_or(AttachError::NotGlibc(process))?;
    let address = |name: &str| modules.exports.address(name).ok_or(AttachError::NotGlibc(process));
    let open = address("dlopen")?;
    let laid = lay(&state, &library.to_string_lossy(), words, restorer);
    for part in &laid.parts {
        memory.write(part.address, &part.bytes).map_err(AttachError::Trace)?;
    }
    let flags = libc::RTLD_NOW | libc::RTLD_GLOBAL | libc::RTLD_NODELETE;
    thread.call(calling(&state, &laid, open, [laid.path, flags.unsigned_abs().into()]), &laid, PATIENCE)?;
    let outcome = outcome(process, &memory, &laid);
    thread.go_back(&state).map_err(AttachError::Trace)?;
    let (attached, [first, own]) = outcome?;
    let sees_later_libraries = first != 0 && put_in_front(process, &memory, &modules, first, own);
    Ok(Attached { sees_later_libraries, ..attached })
}

/// Stops one thread after the other until one is fit; that one stands.
fn find_place(
    process: i32,
    memory: &TargetMemory,
    mut modules: Modules,
) -> Result<(HeldThread, State, Modules), AttachError> {
    let deadline = Instant::now() + SEARCH;
    let (mut why, mut rounds) = ("all of them wait in the kernel", 0);
    loop {
        modules = modules.refreshed(process, memory).ok_or(AttachError::Ended(process))?;
        let mut fit = None;
        let mut loader_is_free = true;
        for id in threads(process).into_iter().filter(|id| !waits_in_kernel(process, *id)) {
            let held = HeldThread::stop(id).map_err(|reason| target::refused(process, reason))?;
            let Some(held) = held else { continue };
            match look(process, memory, &modules, &held)? {
                ThreadPlace::Fit if fit.is_none() => fit = Some(held),
                ThreadPlace::Fit => {}
                ThreadPlace::InLoader => loader_is_free = false,
                ThreadPlace::Unfit(reason) => why = reason,
            }
        }
        match fit {
            Some(held) if loader_is_free => {
                let state = held.state().map_err(AttachError::Trace)?;
                return Ok((held, state, modules));
            }
            Some(_) => why = "another thread loads a library",
            None => {}
        }
        if threads(process).is_empty() {
            return Err(AttachError::Ended(process));
        }
        if Instant::now() > deadline {
            return Err(AttachError::NoPlace { process, why });
        }
        rounds += 1;
        sleep(PAUSE[0].saturating_mul(rounds).min(PAUSE[1]));
    }
}

/// Looks at where a thread stands.
fn look(process: i32, memory: &TargetMemory, modules: &Modules, held: &HeldThread) -> Result<ThreadPlace, AttachError> {
    const CODE_64: u64 = 0x33;
    match held.stopped() {
        Some(Stop::Asked) => {}
        Some(Stop::Group(_)) => return Err(AttachError::Stopped(process)),
        _ => return Ok(ThreadPlace::Unfit("a thread is about to handle a signal")),
    }
    let Ok(registers) = held.registers() else { return Ok(ThreadPlace::Unfit("a thread cannot be looked at")) };
    if registers.cs != CODE_64 {
        return Ok(ThreadPlace::Unfit("a thread runs 32-bit code"));
    }
    let place = modules.place(memory, held.id, &registers);
    if place == ThreadPlace::Fit && registers::has_shadow_stack(held.id) {
        return Err(AttachError::ShadowStack(process));
    }
    Ok(place)
}

/// Code of the C library that asks the kernel to restore all registers: it is what handlers of signals return to.
fn restorer(memory: &TargetMemory, modules: &Modules) -> Option<u64> {
    // mov rax, 15 (rt_sigreturn); syscall
    const CODE: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];
    modules.image(place::C_LIBRARY)?.find_code(memory, &CODE)
}

/// What has become of it: figures, and what the loader keeps of the executable and of the library.
fn outcome(process: i32, memory: &TargetMemory, laid: &Laid) -> Result<(Attached, [u64; 2]), AttachError> {
    let word = |offset: usize| memory.word(laid.handover.wrapping_add(offset as u64)).map_err(AttachError::Trace);
    match word(at::STATE)? {
        state::RECORDS => {
            let (rebound, not_rebound) = (word(at::REBOUND)?, word(at::NOT_REBOUND)?);
            let attached = Attached { rebound, not_rebound, sees_later_libraries: false };
            Ok((attached, [word(at::FIRST_MODULE)?, word(at::OWN_MODULE)?]))
        }
        state::REFUSED => {
            let count = usize::try_from(word(at::REASON_BYTES)?).unwrap_or(0).min(REASON_BYTES_MAX);
            Err(AttachError::NotRecorded(memory.text(laid.handover.wrapping_add(at::REASON as u64), count)))
        }
        state::READ => Err(AttachError::NotRecorded("the library has not finished its work".to_owned())),
        _ => Err(AttachError::NotOpened(process)),
    }
}

/// Puts the library behind the executable in the loader's order, while no thread is in the loader's code.
fn put_in_front(process: i32, memory: &TargetMemory, modules: &Modules, first: u64, own: u64) -> bool {
    let Some(loader) = modules.image(LOADER) else { return false };
    let code: Vec<_> = loader.code().collect();
    let held = HeldProcess::hold_outside(process, &Trace::Awake(BTreeSet::new()), &code);
    held.is_ok_and(|_held| order::put_in_front(memory, first, own))
}

/// For how long a process has been running; `None` if there is none.
pub fn age(process: i32) -> Option<Duration> {
    // The kernel counts in these, whatever its own ticks are.
    const TICKS_PER_SECOND: f64 = 100.0;
    let started = heapledger_source::start_ticks(u32::try_from(process).ok()?)? as f64 / TICKS_PER_SECOND;
    let uptime = std::fs::read_to_string("/proc/uptime").ok()?;
    let uptime: f64 = uptime.split_ascii_whitespace().next()?.parse().ok()?;
    Some(Duration::try_from_secs_f64(uptime - started).unwrap_or_default())
}
