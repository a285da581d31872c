//! Signals: who handles them, who is sent one, which are blocked.
//!
//! A room with `unsafe`: has the kernel call a function.

use super::{Result, call, checked, gettid, number};
use crate::apart;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// What a process sends itself when it gives up.
pub const SIGNAL_ABORT: usize = 6;

/// Has a signal that nobody handles call `handler`, once: what is usual is in force again when it runs. False if somebody handles or
/// ignores it, or it cannot be done.
///
/// # Safety
/// The handler runs in the middle of anything, and must bear that.
pub unsafe fn handle_once(signal: usize, handler: extern "C" fn(i32)) -> bool {
    const ON_STACK: u32 = 0x0800_0000;
    const RESET: u32 = 0x8000_0000;
    // SAFETY: the caller vouches for the handler.
    action(signal).is_ok_and(|[old, ..]| old == 0) && unsafe { handle(signal, handler as usize, ON_STACK | RESET, 0) }
}

/// What becomes of a signal, as the kernel has it: handler, flags, where that returns to, what is blocked meanwhile.
pub fn action(signal: usize) -> Result<[u64; 4]> {
    let mut old = [0u64; 4];
    checked(number::RT_SIGACTION, [signal, 0, (&raw mut old) as usize, SIGNAL_SET_BYTES, 0, 0]).map(|_| old)
}

/// Has a signal call `handler`, which may be one of the kernel's numbers for none, with these flags and with the signals of `mask` blocked.
///
/// # Safety
/// The handler runs in the middle of anything, and must bear that.
pub unsafe fn handle(signal: usize, handler: usize, flags: u32, mask: u64) -> bool {
    let new = [handler as u64, RESTORER | u64::from(flags), returns as *const () as u64, mask];
    // SAFETY: the kernel reads our array; the caller vouches for the handler.
    unsafe { call(number::RT_SIGACTION, [signal, (&raw const new) as usize, 0, SIGNAL_SET_BYTES, 0, 0]).is_ok() }
}

/// Flag: where the handler returns to is given.
const RESTORER: u64 = 0x0400_0000;
/// Bytes of the kernel's sets of signals.
const SIGNAL_SET_BYTES: usize = 8;

/// Where a handler returns to.
#[unsafe(naked)]
extern "C" fn returns() {
    core::arch::naked_asm!("mov eax, {number}", "syscall", number = const number::RT_SIGRETURN)
}

/// Sends the calling thread a signal.
pub fn raise(signal: usize) {
    let _ = checked(number::TGKILL, [getpid() as usize, gettid() as usize, signal, 0, 0, 0]);
}

/// The program would die of a system call of ours.
static NO_CALLS: AtomicBool = AtomicBool::new(false);
/// The process's number, from before.
static PID: AtomicU32 = AtomicU32::new(0);

/// From now on the kernel is asked for nothing that can be left: signals are not blocked, and memory that may not be there is not looked at.
pub fn make_no_calls() {
    PID.store(getpid(), Ordering::Relaxed);
    NO_CALLS.store(true, Ordering::SeqCst);
}

/// Id of the calling process; where the kernel may not be asked any more what it was before, of a forked child its parent's.
pub fn getpid() -> u32 {
    if may_be_asked() { checked(number::GETPID, [0; 6]).unwrap_or(0) as u32 } else { PID.load(Ordering::Relaxed) }
}

/// Whether the kernel may be asked for such.
#[inline(always)]
pub(crate) fn may_be_asked() -> bool {
    !NO_CALLS.load(Ordering::Relaxed)
}

/// Signals of the calling thread, to be restored.
pub struct SignalsBlocked {
    old: u64,
    /// They were not before.
    by_us: bool,
}

const SETMASK: usize = 2;

/// Blocks every signal of the calling thread, and says in `old` which were blocked before: for [`restore_signals`].
#[inline(always)]
pub(crate) fn block_signals(old: &mut u64) {
    let all: &'static u64 = &u64::MAX;
    let _ = checked(number::RT_SIGPROCMASK, [SETMASK, &raw const *all as usize, &raw mut *old as usize, 8, 0, 0]);
}

/// Undoes [`block_signals`].
#[inline(always)]
pub(crate) fn restore_signals(old: &u64) {
    let _ = checked(number::RT_SIGPROCMASK, [SETMASK, &raw const *old as usize, 0, 8, 0, 0]);
}

impl SignalsBlocked {
    /// Blocks every signal of the calling thread until dropped.
    #[inline(always)]
    pub fn new() -> Self {
        // On a stack of ours they are already.
        let mut blocked = SignalsBlocked { old: 0, by_us: !apart::is_here() && may_be_asked() };
        if blocked.by_us {
            block_signals(&mut blocked.old);
        }
        blocked
    }
}

impl Default for SignalsBlocked {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for SignalsBlocked {
    #[inline(always)]
    fn drop(&mut self) {
        if self.by_us {
            restore_signals(&self.old);
        }
    }
}

/// Whether a stack pointer of the calling thread lies on its alternate signal stack.
pub fn on_alternate_stack(stack_pointer: usize) -> bool {
    const DISABLED: u32 = 2;
    let mut stack = [0usize; 3]; // pointer, flags, size
    match checked(number::SIGALTSTACK, [0, stack.as_mut_ptr() as usize, 0, 0, 0, 0]) {
        // As the kernel reckons, which would take the present stack pointer.
        Ok(_) => {
            let [first, flags, bytes] = stack;
            flags as u32 & DISABLED == 0 && stack_pointer > first && stack_pointer.wrapping_sub(first) <= bytes
        }
        Err(_) => false,
    }
}

/// Ends the process with a status, and does nothing else.
#[cold]
pub fn exit(status: u8) {
    let _ = checked(number::EXIT_GROUP, [usize::from(status), 0, 0, 0, 0, 0]);
}

/// Ends the process by SIGABRT, whoever handles, ignores or blocks that.
#[cold]
pub fn abort() {
    const SETMASK: usize = 2;
    let (usual, none) = ([0u64; 4], 0u64);
    let _ = checked(number::RT_SIGACTION, [SIGNAL_ABORT, &raw const usual as usize, 0, SIGNAL_SET_BYTES, 0, 0]);
    let _ = checked(number::RT_SIGPROCMASK, [SETMASK, &raw const none as usize, 0, SIGNAL_SET_BYTES, 0, 0]);
    raise(SIGNAL_ABORT);
}
