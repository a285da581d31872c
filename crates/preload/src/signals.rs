//! Faults of the processor: we look at them first, and the program's own handlers get those that are none of ours, as they came.
//!
//! Where blocks are guarded, `SIGSEGV` and `SIGBUS` are handled by [`front`] for good. It has the flags, the mask and hence the stack of
//! the program's own handler, and *jumps* to that with the registers and the stack that the kernel has made: nobody can tell that it was
//! not called. What the program sets is noted here, and what it asks for is told from here. Where it has no handler, the blocks are looked
//! at a last time and the usual thing happens, at the same instruction: registers and core dump are those of the fault.
//!
//! The kernel ends a program that faults while the signal is blocked. So where pages are closed neither signal is ever blocked: they are left
//! out of the masks that the program sets, for threads and for its handlers. At other levels there are no faults but the program's, and what it
//! blocks or ignores is as it says.
//!
//! The replaced functions come here only at a guard level: [`instead`] is asked by their stubs whom to jump to.

use crate::SHARED;
use crate::guard;
use crate::hooked::Hook;
use crate::next;
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use heapledger_format::errors::FoundAt;
use heapledger_linux::fork::Owner;
use heapledger_linux::{apart, context, syscall};
use heapledger_process::faults;
use heapledger_process::guarded::GUARD;

const SIGBUS: c_int = 7;
const SIGSEGV: c_int = 11;
/// Both of them.
const FAULTS: [c_int; 2] = [SIGSEGV, SIGBUS];
/// As bits of a mask.
const FAULT_BITS: u64 = 1 << (SIGSEGV - 1) | 1 << (SIGBUS - 1);

const DEFAULT: usize = 0;
const IGNORE: usize = 1;
const ERROR: usize = usize::MAX;

const SA_SIGINFO: c_int = 4;
const SA_RESTORER: c_int = 0x0400_0000;
const SA_ONSTACK: c_int = 0x0800_0000;
const SA_RESTART: c_int = 0x1000_0000;
const SA_NODEFER: c_int = 0x4000_0000;
const SA_RESETHAND: c_int = 0x8000_0000_u32 as c_int;

/// `struct sigaction` of the C library. Of its mask the kernel takes the first word.
#[derive(Clone, Copy)]
#[repr(C)]
struct Action {
    handler: usize,
    mask: u64,
    more_mask: [u64; 15],
    flags: c_int,
    restorer: usize,
}

impl Action {
    const NONE: Action = Action { handler: DEFAULT, mask: 0, more_mask: [0; 15], flags: 0, restorer: 0 };
}

/// What the program has set for one of the two.
struct Own {
    handler: AtomicUsize,
    mask: AtomicU64,
    flags: AtomicI32,
    /// Where it returns to, which the C library sets and tells.
    restorer: AtomicUsize,
}

impl Own {
    const fn new() -> Own {
        Own {
            handler: AtomicUsize::new(DEFAULT),
            mask: AtomicU64::new(0),
            flags: AtomicI32::new(0),
            restorer: AtomicUsize::new(0),
        }
    }
}

static OWN: [Own; 2] = [const { Own::new() }; 2];
/// Which of the two the program wants blocked while a handler of the signal runs: bit 0 and bit 1.
static LEFT_OUT: [AtomicU8; 65] = [const { AtomicU8::new(0) }; 65];
/// We are in front.
static IS_ON: AtomicBool = AtomicBool::new(false);
/// Whose all this is. A child that borrows the memory (`vfork`) has handlers of its own, for which the kernel calls nobody here; what it sets
/// must not become its parent's, and goes past us.
static OWNER: Owner = Owner::new();

/// Whether the calling process is a child that borrows its parent's memory (`vfork`). Known where blocks are guarded, as long as it may be asked.
pub(crate) fn is_borrowed() -> bool {
    GUARD.makes_calls() && OWNER.is_borrowed()
}

/// What is left out of the program's masks.
fn never_blocked() -> u64 {
    if GUARD.has_closed_pages() { FAULT_BITS } else { 0 }
}

fn own(signal: c_int) -> Option<&'static Own> {
    FAULTS.iter().zip(&OWN).find(|(own, _)| **own == signal).map(|(_, own)| own)
}

/// From now on we look first.
pub(crate) fn begin() {
    let _ = OWNER.start();
    for (signal, own) in FAULTS.iter().zip(&OWN) {
        // What was set before us.
        let [handler, flags, restorer, mask] = syscall::action(*signal as usize).unwrap_or_default();
        own.handler.store(handler as usize, Ordering::Relaxed);
        own.flags.store(flags as c_int, Ordering::Relaxed);
        own.mask.store(mask, Ordering::Relaxed);
        own.restorer.store(restorer as usize, Ordering::Relaxed);
        let flags = front_flags(handler as usize, flags as c_int);
        if is_left_to_kernel(handler as usize) {
            continue;
        }
        // SAFETY: `front` bears being called in the middle of anything, and goes on with whatever is usual.
        unsafe {
            syscall::handle(*signal as usize, front as *const () as usize, flags as u32, mask & !never_blocked())
        };
    }
    IS_ON.store(true, Ordering::Release);
}

/// A signal that is ignored stays so in what the program becomes by `exec`, or starts: only where nobody waits for faults.
fn is_left_to_kernel(handler: usize) -> bool {
    handler == IGNORE && !GUARD.has_closed_pages()
}

/// The flags with which we stand before a handler that has these.
fn front_flags(handler: usize, flags: c_int) -> c_int {
    match handler {
        DEFAULT | IGNORE => SA_SIGINFO | SA_ONSTACK,
        _ => flags & !SA_RESETHAND | SA_SIGINFO,
    }
}

/// Whom the stub of a function of signals jumps to.
pub(crate) fn instead(hook: usize) -> usize {
    const SIGACTION: usize = Hook::Sigaction as usize;
    const SIGNAL: usize = Hook::Signal as usize;
    const BSD_SIGNAL: usize = Hook::BsdSignal as usize;
    const SSIGNAL: usize = Hook::Ssignal as usize;
    const SYSV_SIGNAL: usize = Hook::SysvSignal as usize;
    const UNDER_SYSV_SIGNAL: usize = Hook::UnderSysvSignal as usize;
    const SIGPROCMASK: usize = Hook::Sigprocmask as usize;
    const PTHREAD_SIGMASK: usize = Hook::PthreadSigmask as usize;
    if !IS_ON.load(Ordering::Acquire) {
        return next::next(hook);
    }
    match hook {
        SIGACTION => sigaction as *const () as usize,
        SIGNAL => signal::<SIGNAL> as *const () as usize,
        BSD_SIGNAL => signal::<BSD_SIGNAL> as *const () as usize,
        SSIGNAL => signal::<SSIGNAL> as *const () as usize,
        SYSV_SIGNAL => signal::<SYSV_SIGNAL> as *const () as usize,
        UNDER_SYSV_SIGNAL => signal::<UNDER_SYSV_SIGNAL> as *const () as usize,
        SIGPROCMASK => mask::<SIGPROCMASK> as *const () as usize,
        PTHREAD_SIGMASK => mask::<PTHREAD_SIGMASK> as *const () as usize,
        _ => next::next(hook),
    }
}

/// The real `sigaction`.
fn set(signal: c_int, action: *const Action, old: *mut Action) -> c_int {
    let function = next::next_of(Hook::Sigaction);
    // SAFETY: the C library's function of that name; the pointers are the program's, or to values of ours.
    unsafe {
        core::mem::transmute::<usize, extern "C" fn(c_int, *const Action, *mut Action) -> c_int>(function)(
            signal, action, old,
        )
    }
}

extern "C" fn sigaction(signal: c_int, action: *const Action, old: *mut Action) -> c_int {
    // SAFETY: the program says where it has it, as it would to the C library, which reads it in the same way.
    let wanted = (!action.is_null()).then(|| unsafe { action.read() });
    let is_borrowed = wanted.is_some() && is_borrowed();
    let Some(own) = own(signal) else { return of_another(signal, wanted, old, is_borrowed) };
    let before = Action {
        handler: own.handler.load(Ordering::Acquire),
        mask: own.mask.load(Ordering::Relaxed),
        flags: own.flags.load(Ordering::Relaxed),
        restorer: own.restorer.load(Ordering::Relaxed),
        ..Action::NONE
    };
    if let Some(wanted) = wanted {
        let result = if is_borrowed { set(signal, action, core::ptr::null_mut()) } else { put(signal, own, &wanted) };
        if result != 0 {
            return result;
        }
    }
    if !old.is_null() {
        // SAFETY: the program says where it wants it.
        unsafe { old.write(before) };
    }
    0
}

/// Notes what the program wants, and has ourselves called in that way.
fn put(signal: c_int, own: &Own, wanted: &Action) -> c_int {
    let mut front = Action {
        handler: front as *const () as usize,
        mask: wanted.mask & !never_blocked(),
        flags: front_flags(wanted.handler, wanted.flags),
        ..*wanted
    };
    if is_left_to_kernel(wanted.handler) {
        front = *wanted;
    }
    // What we jump to is known before we are called for it.
    own.mask.store(wanted.mask, Ordering::Relaxed);
    own.flags.store(wanted.flags | SA_RESTORER, Ordering::Relaxed);
    own.handler.store(wanted.handler, Ordering::Release);
    let mut now = Action::NONE;
    let result = set(signal, &raw const front, core::ptr::null_mut());
    if set(signal, core::ptr::null(), &raw mut now) == 0 {
        own.restorer.store(now.restorer, Ordering::Relaxed);
    }
    result
}

/// A signal that is none of ours: nothing but its mask.
fn of_another(signal: c_int, wanted: Option<Action>, old: *mut Action, is_borrowed: bool) -> c_int {
    let left_out = usize::try_from(signal).ok().and_then(|signal| LEFT_OUT.get(signal));
    let known = left_out.map_or(0, |bits| bits.load(Ordering::Relaxed));
    let shortened = wanted.map(|wanted| Action { mask: wanted.mask & !never_blocked(), ..wanted });
    let action = shortened.as_ref().map_or(core::ptr::null(), |action| &raw const *action);
    let result = set(signal, action, old);
    if result == 0 {
        if let (Some(place), Some(wanted)) = (left_out, &wanted)
            && !is_borrowed
        {
            place.store(packed(wanted.mask), Ordering::Relaxed);
        }
        if !old.is_null() {
            // SAFETY: the C library has just written there.
            let old = unsafe { &mut *old };
            old.mask |= unpacked(known);
            if guard::is_ours(old.handler) {
                *old = Action::NONE;
            }
        }
    }
    result
}

fn packed(mask: u64) -> u8 {
    FAULTS.iter().zip([1, 2]).filter(|(signal, _)| mask & bit(**signal) != 0).map(|(_, bit)| bit).sum()
}

fn unpacked(bits: u8) -> u64 {
    FAULTS.iter().zip([1, 2]).filter(|(_, bit)| bits & bit != 0).map(|(signal, _)| bit(*signal)).sum()
}

fn bit(signal: c_int) -> u64 {
    1u64.wrapping_shl(signal.wrapping_sub(1) as u32)
}

/// `signal`, and what else it is called.
extern "C" fn signal<const HOOK: usize>(signal: c_int, handler: usize) -> usize {
    const SYSV_SIGNAL: usize = Hook::SysvSignal as usize;
    const UNDER_SYSV_SIGNAL: usize = Hook::UnderSysvSignal as usize;
    // SAFETY: the C library's function of that name, with the program's arguments.
    let passed_on = || unsafe {
        core::mem::transmute::<usize, extern "C" fn(c_int, usize) -> usize>(next::next(HOOK))(signal, handler)
    };
    let Some(own) = own(signal) else {
        let before = passed_on();
        return if guard::is_ours(before) { DEFAULT } else { before };
    };
    let is_sysv = HOOK == SYSV_SIGNAL || HOOK == UNDER_SYSV_SIGNAL;
    let (flags, mask) = if is_sysv { (SA_RESETHAND | SA_NODEFER, 0) } else { (SA_RESTART, bit(signal)) };
    let before = own.handler.load(Ordering::Acquire);
    if is_borrowed() {
        return if passed_on() == ERROR { ERROR } else { before };
    }
    match put(signal, own, &Action { handler, mask, flags, ..Action::NONE }) {
        0 => before,
        _ => ERROR,
    }
}

/// `sigprocmask` and `pthread_sigmask`: with a mask that leaves ours out.
extern "C" fn mask<const HOOK: usize>(how: c_int, wanted: *const u64, old: *mut u64) -> c_int {
    const SIG_UNBLOCK: c_int = 1;
    let function = next::next(HOOK);
    let call = |wanted: *const u64| {
        // SAFETY: the C library's function of that name; a mask is sixteen words, of which it reads the first.
        unsafe {
            core::mem::transmute::<usize, extern "C" fn(c_int, *const u64, *mut u64) -> c_int>(function)(
                how, wanted, old,
            )
        }
    };
    if wanted.is_null() || how == SIG_UNBLOCK || never_blocked() == 0 {
        return call(wanted);
    }
    // SAFETY: the program says where it has it.
    let shortened = [unsafe { wanted.read() } & !never_blocked(), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    call(&raw const shortened as *const u64)
}

/// The handler. Its arguments are the kernel's; it looks at nothing of the stack it is called on, and leaves that as it was.
#[unsafe(naked)]
extern "C" fn front(_: c_int, _: *const c_void, _: *mut c_void) {
    core::arch::naked_asm!(
        "endbr64",
        "push rdi",
        "push rsi",
        "push rdx",
        "call {goes_on}",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "test rax, rax",
        "je 4f",
        "jmp rax",
        "4: ret",
        goes_on = sym goes_on,
    )
}

/// Looks at a fault. Returns whom to jump to; 0: nobody, what was interrupted goes on.
extern "C" fn goes_on(signal: c_int, info: *const c_void, context: *mut c_void) -> usize {
    const CODE: usize = 8;
    const ADDRESS: usize = 16;
    // SAFETY: the kernel's `siginfo_t`, whose fields of these signals lie there.
    let (code, address) = unsafe {
        let word = |at: usize| info.cast::<u8>().add(at);
        (word(CODE).cast::<c_int>().read(), word(ADDRESS).cast::<u64>().read())
    };
    // What somebody has sent has no address.
    let is_fault = code > 0;
    if is_fault {
        // SAFETY: the argument of a handler of these signals.
        let fault = unsafe { context::fault(context) };
        if faults::at(&SHARED, address, &fault) {
            return 0;
        }
    }
    let Some(own) = own(signal) else { return 0 };
    match own.handler.load(Ordering::Acquire) {
        IGNORE if !is_fault => 0,
        DEFAULT | IGNORE => {
            ends(signal, is_fault);
            0
        }
        handler => {
            // As the kernel would: once.
            if own.flags.load(Ordering::Relaxed) & SA_RESETHAND != 0 && !is_borrowed() {
                own.handler.store(DEFAULT, Ordering::Release);
            }
            handler
        }
    }
}

/// The program is about to die of it: a last look at all blocks, and then it does, where it was.
#[cold]
fn ends(signal: c_int, is_fault: bool) {
    apart::run(&mut || guard::last_look(FoundAt::Signal));
    // SAFETY: what is usual calls nobody.
    unsafe { syscall::handle(signal as usize, DEFAULT, 0, 0) };
    if !is_fault {
        syscall::raise(signal as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_come_back_as_they_were() {
        for mask in [0, bit(SIGSEGV), bit(SIGBUS), FAULT_BITS, u64::MAX] {
            assert_eq!(unpacked(packed(mask)), mask & FAULT_BITS);
        }
        assert_eq!(FAULT_BITS, bit(SIGSEGV) | bit(SIGBUS));
        assert_eq!((size_of::<Action>(), core::mem::offset_of!(Action, flags)), (152, 136));
    }

    #[test]
    fn we_stand_where_the_program_would() {
        assert_eq!(front_flags(DEFAULT, SA_RESETHAND), SA_SIGINFO | SA_ONSTACK);
        assert_eq!(front_flags(4096, SA_RESETHAND | SA_NODEFER), SA_SIGINFO | SA_NODEFER);
        assert_eq!(front_flags(4096, SA_ONSTACK), SA_SIGINFO | SA_ONSTACK);
    }
}
