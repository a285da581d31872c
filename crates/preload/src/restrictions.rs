//! Calls by which a program restricts itself: what must be done before they take effect, so that it does not fail,
//! or die, of us.

use crate::SHARED;
use crate::calls::ensure_started;
use crate::hooked::{Before, HOOKED, Hook, Shape};
use crate::{next, signals};
use heapledger_linux::{seccomp, syscall};
use heapledger_process::exit_status;
use heapledger_process::guarded::GUARD;
use heapledger_process::{arenas, complaints, hooks, room, start, watchpoint};

/// A call of the C library, whichever of its names it has, with its arguments from the first on.
enum Restriction {
    AddressSpace {
        pid: usize,
        limits: usize,
    },
    /// Private memory that can be written.
    Data {
        pid: usize,
        limits: usize,
    },
    Locks {
        flags: usize,
    },
    Counter,
    /// All but a few system calls are fatal from now on.
    SystemCalls,
    /// The process ends.
    End {
        status: usize,
    },
    /// A filter, of which this is the description, decides which are.
    Filter {
        program: usize,
    },
    Other,
}

fn limits(pid: usize, resource: usize, limits: usize) -> Restriction {
    // The C library's arguments are narrower than registers.
    match resource & 0xffff_ffff {
        syscall::LIMIT_ADDRESS_BYTES if limits != 0 => Restriction::AddressSpace { pid: pid & 0xffff_ffff, limits },
        syscall::LIMIT_DATA_BYTES if limits != 0 => Restriction::Data { pid: pid & 0xffff_ffff, limits },
        _ => Restriction::Other,
    }
}

fn control(option: usize, first: usize, second: usize) -> Restriction {
    const PR_SET_SECCOMP: usize = 22;
    const SECCOMP_MODE_STRICT: usize = 1;
    const SECCOMP_MODE_FILTER: usize = 2;
    const PR_SET_TSC: usize = 26;
    const PR_TSC_SIGSEGV: usize = 2;
    match (option & 0xffff_ffff, first) {
        (PR_SET_SECCOMP, SECCOMP_MODE_STRICT) => Restriction::SystemCalls,
        (PR_SET_SECCOMP, SECCOMP_MODE_FILTER) => Restriction::Filter { program: second },
        (PR_SET_TSC, mode) if mode & 0xffff_ffff == PR_TSC_SIGSEGV => Restriction::Counter,
        _ => Restriction::Other,
    }
}

fn of_system_call(args: &[usize; 6]) -> Restriction {
    const MLOCKALL: usize = 151;
    const SETRLIMIT: usize = 160;
    const PRCTL: usize = 157;
    const EXIT_GROUP: usize = 231;
    const PRLIMIT64: usize = 302;
    const SECCOMP: usize = 317;
    const SET_MODE_STRICT: usize = 0;
    const SET_MODE_FILTER: usize = 1;
    let [number, first, second, third, ..] = *args;
    match number {
        SETRLIMIT => limits(0, first, second),
        PRLIMIT64 => limits(first, second, third),
        MLOCKALL => Restriction::Locks { flags: first },
        PRCTL => control(first, second, third),
        EXIT_GROUP => Restriction::End { status: first },
        SECCOMP if first & 0xffff_ffff == SET_MODE_STRICT => Restriction::SystemCalls,
        SECCOMP if first & 0xffff_ffff == SET_MODE_FILTER => Restriction::Filter { program: third },
        _ => Restriction::Other,
    }
}

fn of_call(hook: usize, args: &[usize; 6]) -> Restriction {
    const SETRLIMIT: usize = Hook::Setrlimit as usize;
    const SETRLIMIT64: usize = Hook::Setrlimit64 as usize;
    const PRLIMIT: usize = Hook::Prlimit as usize;
    const PRLIMIT64: usize = Hook::Prlimit64 as usize;
    const MLOCKALL: usize = Hook::Mlockall as usize;
    const PRCTL: usize = Hook::Prctl as usize;
    const SYSCALL: usize = Hook::Syscall as usize;
    let [first, second, third, ..] = *args;
    match hook {
        SETRLIMIT | SETRLIMIT64 => limits(0, first, second),
        PRLIMIT | PRLIMIT64 => limits(first, second, third),
        MLOCKALL => Restriction::Locks { flags: first },
        PRCTL => control(first, second, third),
        SYSCALL => of_system_call(args),
        _ => Restriction::Other,
    }
}

/// What precedes such a call; returns the real function, to which the stub jumps.
pub(crate) extern "C" fn restricts(hook: usize, args: &[usize; 6]) -> usize {
    const MCL_CURRENT: usize = 1;
    let shape = HOOKED.get(hook).map(|hooked| hooked.shape);
    if shape == Some(Shape::JumpsOn(Before::Ends)) {
        let [status, ..] = *args;
        exit_status::note(&SHARED, status as i32);
        return next::next(hook);
    }
    ensure_started();
    if shape == Some(Shape::JumpsOn(Before::Signals)) {
        return signals::instead(hook);
    }
    match of_call(hook, args) {
        Restriction::Data { pid, limits } if is_own(pid) => {
            if let Some(soft) = soft_limit(limits) {
                leave_room(soft);
            }
        }
        Restriction::AddressSpace { pid, limits } if is_own(pid) => {
            if let Some(soft) = soft_limit(limits) {
                leave_room(soft);
                room::address_space_is_limited(&SHARED, Some(soft).filter(|soft| *soft != u64::MAX));
            }
        }
        Restriction::End { status } => exit_status::note(&SHARED, status as i32),
        Restriction::Counter => start::avoid_counter(&SHARED),
        // What a forked child would do at its first call could be fatal then.
        Restriction::Filter { program } => {
            hooks::note_fork_for_good(&SHARED);
            if let Some(filter) = filter_at(program) {
                is_filtered(filter);
            }
        }
        Restriction::SystemCalls => {
            hooks::note_fork_for_good(&SHARED);
            writes_no_lines();
            ends_no_watches();
            makes_no_calls();
        }
        Restriction::Locks { flags } if flags & MCL_CURRENT != 0 => {
            room::memory_is_locked(&SHARED);
            if !signals::is_borrowed() {
                arenas::give_back_unused();
            }
        }
        _ => {}
    }
    next::next(hook)
}

/// Whether a process is this one, as calls name it.
fn is_own(pid: usize) -> bool {
    pid == 0 || pid == syscall::getpid() as usize
}

/// Before there is a limit: what the guard has reserved and never used counts like what the program has.
fn leave_room(soft: u64) {
    if soft != u64::MAX && !arenas::leave_enough_below(soft) && !signals::is_borrowed() {
        arenas::give_back_unused();
    }
}

/// From now on the program would die of our system calls.
fn makes_no_calls() {
    start::stop(&SHARED, start::Stops::Early);
    // A child that borrows our memory (`vfork`) restricts nobody but itself.
    if !signals::is_borrowed() {
        GUARD.makes_no_calls();
        syscall::make_no_calls();
    }
}

fn is_filtered(filter: &[seccomp::Instruction]) {
    if !seccomp::lets_write_lines(filter) {
        writes_no_lines();
    }
    if !seccomp::lets_end_watchpoints(filter) {
        ends_no_watches();
    }
    if !seccomp::lets_record(filter) {
        makes_no_calls();
    }
}

/// The same of those by which a line is written.
fn writes_no_lines() {
    if !signals::is_borrowed() {
        complaints::forbid();
    }
}

/// The same of those by which a watchpoint ends.
fn ends_no_watches() {
    if !signals::is_borrowed() {
        watchpoint::end_no_more();
    }
}

/// A filter that the program is about to put on. One that cannot be read the kernel will not take.
fn filter_at(program: usize) -> Option<&'static [seccomp::Instruction]> {
    const PAGE: usize = 4096;
    let (length_at, filter_at) = (program, program.wrapping_add(8));
    if program == 0 || !syscall::readable(length_at) || !syscall::readable(filter_at) {
        return None;
    }
    // SAFETY: `struct sock_fprog`: both words were just found to be readable, and the kernel is about to read them.
    let (length, filter) =
        unsafe { ((length_at as *const u16).read_unaligned(), (filter_at as *const usize).read_unaligned()) };
    let length = usize::from(length).min(seccomp::INSTRUCTIONS_MAX);
    let bytes = length.wrapping_mul(size_of::<seccomp::Instruction>());
    let pages = (filter & !(PAGE - 1)..filter.saturating_add(bytes)).step_by(PAGE);
    if filter == 0 || !{ pages }.all(syscall::readable) {
        return None;
    }
    // SAFETY: the bytes of so many instructions, each page of which can be read, and which the program leaves alone during its call.
    Some(unsafe { core::slice::from_raw_parts(filter as *const seccomp::Instruction, length) })
}

/// The soft limit that the program is about to set, if it can be read: the kernel will say what is wrong with it otherwise.
fn soft_limit(limits: usize) -> Option<u64> {
    let is_readable = syscall::readable(limits) && syscall::readable(limits.wrapping_add(8));
    // SAFETY: the kernel has just read these 16 bytes.
    is_readable.then(|| unsafe { (limits as *const u64).read_unaligned() })
}
