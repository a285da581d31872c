//! Calls inside of calls: a mark that a hook leaves whose real function may call another replaced one.
#![forbid(unsafe_code)]

use crate::access::{Access, Sign};
use crate::hooks::follows;
use crate::shared::Shared;
use crate::state::ThreadState;
use core::sync::atomic::Ordering;
use heapledger_linux::{apart, tls};
use heapledger_unwind::Registers;

/// A call of a function of the next allocator that may itself call replaced ones. All zeros: none.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Call {
    /// Stack address of the hook that makes it.
    pub stack_pointer: usize,
    /// What it is about: a size, a block, or both.
    pub about: [usize; 2],
    /// Bytes until the thread's next sample, which are put aside as long as the call runs: the calls that it makes for its
    /// own sake must not count them down too, or its block would have two chances to be a sample.
    pub gap: usize,
}

/// Of the stack address of a call: the guard has called the allocator. Stack addresses are even.
const INSIDE: usize = 1;

impl Call {
    /// Whether the allocator itself runs, called by the guard with words of its own.
    #[inline(always)]
    pub fn is_inside(&self) -> bool {
        self.stack_pointer & INSIDE != 0
    }
}

/// The guard calls the allocator for the call that was begun last, or the allocator has returned; whether it was called before.
pub fn goes_inside(goes: bool) -> bool {
    let Some(state) = ThreadState::of_this_thread() else { return false };
    let before = state.calling.load(Ordering::Relaxed);
    if before != 0 {
        state.calling.store(before & !INSIDE | usize::from(goes), Ordering::Relaxed);
    }
    before & INSIDE != 0
}

/// Such a call begins: `operator new` will call `malloc`, `operator delete` `free`, `reallocarray` `realloc`,
/// `about` the same size or block. That second call must not be booked again. Returns the call that
/// encloses this one.
#[inline]
pub fn call_begins(shared: &'static Shared, call: Call) -> Call {
    if ThreadState::of_this_thread().is_none() {
        // The thread's very first call: entering once gives it its state.
        let registers = Registers { sp: call.stack_pointer as u64, ..Registers::default() };
        let sign = Sign::new();
        apart::run(&mut || drop(Access::enter(shared, &registers, &sign)));
    }
    match ThreadState::of_this_thread().filter(|_| follows(shared)) {
        Some(state) => {
            let before = set_call(state, call);
            let gap = tls::gap();
            if shared.sampling.is_on() {
                tls::set_gap(0);
            }
            Call { gap, ..before }
        }
        None => Call::default(),
    }
}

/// It has returned; `enclosing` is in force again. After an exception or a jump nobody says so: a mark can be stale.
#[inline]
pub fn call_ends(shared: &'static Shared, enclosing: &Call) {
    if let Some(state) = ThreadState::of_this_thread().filter(|_| follows(shared)) {
        set_call(state, *enclosing);
        if shared.sampling.is_on() {
            tls::set_gap(enclosing.gap);
        }
    }
}

fn set_call(state: &ThreadState, call: Call) -> Call {
    let before = Call {
        stack_pointer: state.calling.load(Ordering::Relaxed),
        about: [state.calling_about[0].load(Ordering::Relaxed), state.calling_about[1].load(Ordering::Relaxed)],
        gap: 0,
    };
    // Only this thread writes; a handler in between sees no mark rather than half of one.
    state.calling.store(0, Ordering::Relaxed);
    state.calling_about[0].store(call.about[0], Ordering::Relaxed);
    state.calling_about[1].store(call.about[1], Ordering::Relaxed);
    state.calling.store(call.stack_pointer, Ordering::Relaxed);
    before
}

/// The call that encloses this one, if one was begun and not ended.
#[inline(always)]
pub fn enclosing_call(shared: &'static Shared) -> Option<Call> {
    of(ThreadState::of_this_thread()?).filter(|_| follows(shared))
}

#[inline(always)]
pub(crate) fn of(state: &ThreadState) -> Option<Call> {
    let stack_pointer = state.calling.load(Ordering::Relaxed);
    if stack_pointer == 0 {
        return None;
    }
    let about = [state.calling_about[0].load(Ordering::Relaxed), state.calling_about[1].load(Ordering::Relaxed)];
    Some(Call { stack_pointer, about, gap: 0 })
}
