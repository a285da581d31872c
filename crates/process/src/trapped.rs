//! Watchpoints that fire: who has written is an error of the ledger, with the stack, and the program goes on.
//!
//! A room with `unsafe`: has the kernel call a handler, and reads what it tells that.

use crate::watchpoint;
use core::ffi::{c_int, c_void};
use heapledger_linux::{context, syscall};

const SIGTRAP: usize = 5;
const DEFAULT: usize = 0;

/// From now on, unless the program handles the signal itself: who does so later stands in our place, and has it as without us.
#[cold]
pub(crate) fn begin() {
    const SIGINFO: u32 = 4;
    const ON_STACK: u32 = 0x0800_0000;
    const RESTART: u32 = 0x1000_0000;
    if syscall::action(SIGTRAP).is_ok_and(|[handler, ..]| handler == DEFAULT as u64) {
        // SAFETY: `fired` bears being called in the middle of anything, and else has what is usual happen.
        unsafe { syscall::handle(SIGTRAP, fired as *const () as usize, SIGINFO | ON_STACK | RESTART, 0) };
    }
}

extern "C" fn fired(_: c_int, info: *const c_void, context: *mut c_void) {
    const CODE: usize = 8;
    const ADDRESS: usize = 16;
    /// Of an event that was asked for with this signal.
    const OF_EVENT: c_int = 6;
    // SAFETY: the kernel's `siginfo_t`, whose fields of this signal lie there, and what it has interrupted.
    let (code, address, interrupted) = unsafe {
        let word = |at: usize| info.cast::<u8>().add(at);
        let (code, address) = (word(CODE).cast::<c_int>().read(), word(ADDRESS).cast::<u64>().read());
        (code, address, context::interrupted(context))
    };
    if code != OF_EVENT || !watchpoint::fired(address, &interrupted) {
        // It dies where it was, when this handler is over: until then the signal is blocked.
        // SAFETY: what is usual calls nobody.
        unsafe { syscall::handle(SIGTRAP, DEFAULT, 0, 0) };
        syscall::raise(SIGTRAP);
    }
}
