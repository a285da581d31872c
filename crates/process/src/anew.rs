//! Beginning a second time: a forked child that is to be recorded by itself, in a ledger of its own.
//!
//! A child is off from its first instruction on. What the parent's recorder knew is of the parent's blocks and threads; of it
//! nothing is kept, and blocks that the child has inherited are not in its ledger.

use crate::family::{self, Cuts};
use crate::modules::Landmarks;
use crate::options::Request;
use crate::periodic::PERIODIC;
use crate::private::Alone;
use crate::shared::{Phase, Shared};
use crate::start::{self, Hooks, NotStarted};
use crate::state::ThreadState;
use crate::switch::Switch;
use core::sync::atomic::Ordering;
use heapledger_linux::clock::Clock;
use heapledger_linux::{syscall, tls};

/// Starts recording in a forked child, as `request` says. The child has one thread, and that is not inside the recorder: a
/// child that was forked from a signal handler in the middle of a hook is refused. `stack_pointer`: where the program stands.
///
/// # Errors
/// If this is not such a child, and whatever else keeps a process from being recorded.
pub fn begin_in_child(
    shared: &'static Shared,
    hooks: &Hooks,
    request: &Request,
    stack_pointer: usize,
) -> Result<(), NotStarted> {
    let _signals = syscall::SignalsBlocked::new();
    let phase = shared.phase.load(Ordering::Acquire);
    let has_begun = phase == Phase::On as u8 || phase == Phase::Off as u8;
    // A child that shares the parent's memory is entered like the parent, and one that was stopped is no child.
    let is_child = !shared.switch.follows() && shared.switch.owner() == 0;
    let state = ThreadState::of_this_thread();
    let is_inside = state.is_some_and(ThreadState::is_guarded);
    if !has_begun || shared.ledger().mapping().is_none() || !is_child || is_inside {
        return Err(NotStarted::Again);
    }
    // SAFETY: this process has one thread, no signal can interrupt it, and it is not inside the recorder.
    let alone = unsafe { Alone::new() };
    let kept = SameAsInParent::of(shared);
    let cuts = Cuts::taken(&|tell| shared.threads.each_cut(&alone, tell));
    let had = shared.state_room();
    // SAFETY: as above.
    unsafe { forget(shared) };
    kept.give_to(shared);
    family::has_forked();
    PERIODIC.begin_anew();
    start::start(shared, hooks, request)?;
    if let Some(state) = state {
        // If there is no room for it, the thread gets another one with its next call.
        let _ = shared.threads.register_again(shared, stack_pointer, (state, had), &alone);
    }
    if request.forked.is_some() {
        cuts.write(shared);
    }
    Ok(())
}

/// What is in a child as it was in its parent: to find it again takes as long as all the rest.
struct SameAsInParent {
    clock: Clock,
    landmarks: Landmarks,
    switch: Switch,
    first_stack_end: usize,
}

impl SameAsInParent {
    fn of(shared: &Shared) -> SameAsInParent {
        let first_stack_end = shared.first_stack_end.load(Ordering::Relaxed);
        let kept =
            SameAsInParent { clock: Clock::new(), landmarks: Landmarks::new(), switch: Switch::new(), first_stack_end };
        kept.clock.take_from(&shared.clock);
        kept.landmarks.take_from(shared.modules.landmarks());
        kept.switch.take_from(&shared.switch);
        kept
    }

    fn give_to(&self, shared: &Shared) {
        shared.clock.take_from(&self.clock);
        shared.modules.landmarks().take_from(&self.landmarks);
        shared.switch.take_from(&self.switch);
        shared.first_stack_end.store(self.first_stack_end, Ordering::Relaxed);
    }
}

/// Makes the tables those of a process in which nothing was recorded, and gives their memory back.
///
/// # Safety
/// Nobody else may use them, nor anything that lies in them.
unsafe fn forget(shared: &'static Shared) {
    // SAFETY: the caller's.
    unsafe {
        let alone = Alone::new();
        shared.threads.discard(shared.state_room(), &alone);
        shared.index.unmap(&alone);
        shared.inner.unmap(&alone);
        shared.sites.unmap(&alone);
        shared.history.unmap(&alone);
        shared.texts.unmap(&alone);
        shared.modules.python.unmap(&alone);
        shared.labels.unmap(&alone);
        shared.accounts.unmap(&alone);
        shared.sums.unmap(&alone);
        shared.windows.unmap(&alone);
        shared.heap_books.unmap(&alone);
        // The file is the parent's, and stays.
        shared.ledger().leave(&alone);
        // Zeros are what `Shared::new` makes: a static of them has no bytes in the library's file.
        alone.make_zeros((&raw const *shared).cast_mut());
    }
    tls::set(0);
    tls::set_gap(0);
}
