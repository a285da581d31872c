//! Code that comes and goes: what a library of hooks tells when the program loads and unloads libraries.
#![forbid(unsafe_code)]

use crate::access::count_apart;
use crate::capture;
use crate::hooks::follows;
use crate::shared::Shared;
use crate::state::ThreadState;
use core::sync::atomic::Ordering;
use heapledger_format::{GlobalCounter, TallyCounter};
use heapledger_unwind::Registers;

/// Whether the loader may want so many bytes for what it keeps of a library: of other things it allocates, few are so large.
#[inline(always)]
pub fn is_like_a_library(bytes: usize) -> bool {
    const LIBRARY_BYTES_MIN: usize = 1000;
    bytes >= LIBRARY_BYTES_MIN
}

/// The same where another library may stand between the loader and us: looks a few frames outwards.
#[cold]
pub fn is_behind_loader(shared: &Shared, registers: &Registers) -> bool {
    let Some(state) = ThreadState::of_this_thread() else { return true };
    let stack = state.native.get();
    !stack.contains(registers.sp as usize) || capture::loader_is_near(shared, stack, registers)
}

/// Whether a call comes from the loader itself. If it allocates, it may be about to load a library, where code may have been
/// that nobody saw go: converters of characters come and go like that, and libraries that could not be loaded after all.
#[inline(always)]
pub fn is_loader(shared: &Shared, caller: usize) -> bool {
    shared.modules.is_loader(caller)
}

/// Code is about to be loaded: addresses that were known to hold other code, or none, are no longer trusted.
#[cold]
pub fn loads(shared: &Shared) {
    shared.modules.next_generation();
}

/// A library is about to be loaded that will find the C library's functions, and not the replaced ones.
#[cold]
pub fn is_bound_past_us(shared: &'static Shared) {
    if follows(shared) {
        count_apart(shared, TallyCounter::DeepBound);
    }
}

/// A library was to be loaded so, and will not be.
#[cold]
pub fn is_not_bound_past_us(shared: &'static Shared) {
    if follows(shared) {
        count_apart(shared, TallyCounter::DeepUnbound);
    }
}

/// Only calls of the file that we are in are seen: those of so many others go past.
#[cold]
pub fn go_past_us(shared: &'static Shared, files: usize) {
    if follows(shared) {
        (0..files).for_each(|_| count_apart(shared, TallyCounter::FilesUnseen));
    }
}

/// Code is about to be unloaded: known code addresses are no longer trusted.
pub fn unloads(shared: &'static Shared) {
    shared.modules.next_generation();
}

/// Code has just been unloaded.
pub fn unloaded(shared: &'static Shared) {
    // Once more: what was looked up while the module went must not be believed from now on.
    shared.modules.next_generation();
    if follows(shared) {
        shared.ledger().global(GlobalCounter::Generation).fetch_add(1, Ordering::Relaxed);
    }
}
