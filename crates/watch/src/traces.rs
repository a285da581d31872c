//! Traces: exact books of a while, in buffers of the program's own. A place for each.

use crate::state::{self, Want};
use core::sync::atomic::{AtomicUsize, Ordering};
use heapledger_process::traces::{NewTrace, NoTrace, SharedTrace};
use heapledger_recorder::trace::TraceBuffer;
use heapledger_unwind::Registers;

/// Traces at the same time.
pub const TRACES_MAX: usize = 8;

static TRACES: [SharedTrace; TRACES_MAX] = [const { SharedTrace::new() }; TRACES_MAX];
/// How many there are.
static OPEN: AtomicUsize = AtomicUsize::new(0);

/// Begins one, which runs; gives its number.
///
/// # Errors
/// The buffer comes back with the reason: [`NoTrace::Taken`] if there are as many as there can be.
pub fn start(buffer: &'static mut [usize], new: &NewTrace) -> Result<usize, (NoTrace, &'static mut [usize])> {
    if !state::join(Want::Asked) {
        return Err((NoTrace::Taken, buffer));
    }
    let mut not_started = (NoTrace::Taken, buffer);
    for (place, trace) in TRACES.iter().enumerate() {
        // Before it runs, so that who is told of it comes here.
        OPEN.fetch_add(1, Ordering::SeqCst);
        match trace.start(not_started.1, new) {
            Ok(()) => return Ok(place),
            Err(why) => not_started = why,
        }
        OPEN.fetch_sub(1, Ordering::SeqCst);
        if not_started.0 != NoTrace::Taken {
            break;
        }
    }
    state::leave(Want::Asked);
    Err(not_started)
}

/// Ends one, and gives its buffer back.
///
/// # Errors
/// If there is none of this number, or others keep the calling thread waiting.
pub fn end(trace: usize) -> Result<&'static mut [usize], NoTrace> {
    let buffer = TRACES.get(trace).ok_or(NoTrace::None)?.end()?;
    OPEN.fetch_sub(1, Ordering::SeqCst);
    state::leave(Want::Asked);
    Ok(buffer)
}

/// Does something with one.
///
/// # Errors
/// As of [`end`].
pub fn with<T>(trace: usize, f: impl FnOnce(&mut TraceBuffer<'static>) -> T) -> Result<T, NoTrace> {
    TRACES.get(trace).ok_or(NoTrace::None)?.with(f)
}

#[cold]
#[inline(never)]
fn each(tell: impl Fn(&SharedTrace)) {
    TRACES.iter().for_each(tell);
}

fn is_any_open() -> bool {
    OPEN.load(Ordering::Relaxed) != 0
}

/// A call has given a block, or none.
pub fn gave(registers: &Registers, address: usize, size: usize) {
    if is_any_open() && address != 0 {
        each(|trace| trace.allocated(registers, address, size));
    }
}

/// A block is about to be given back.
pub fn frees(registers: &Registers, address: usize) {
    if is_any_open() {
        each(|trace| trace.freed(registers, address));
    }
}

/// A block is about to be resized.
pub fn resizes(address: usize) {
    if is_any_open() {
        each(|trace| trace.resizes(address));
    }
}

/// A call has given a block for another one, with its size, or none.
pub fn gave_anew(registers: &Registers, old: usize, new: Option<(usize, usize)>) {
    if is_any_open() {
        each(|trace| trace.resized(registers, old, new));
    }
}
