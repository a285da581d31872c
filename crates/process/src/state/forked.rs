//! The states of a parent's threads in a forked child, where these threads are not.
//!
//! A room with `unsafe`: who is [`Alone`] looks at books that are nobody's any more, and gives their memory back.

use super::{Entered, NewState, StateRoom, ThreadBooks, ThreadState};
use crate::places::{OwnedPlace, Places};
use crate::private::Alone;
use core::cell::UnsafeCell;
use core::ptr::NonNull;
use core::sync::atomic::Ordering;
use heapledger_linux::syscall::{self, advice};

impl NewState {
    /// A state whose memory was [discarded](ThreadState::discard_all) before. It is never given back. `None`: it `had` less room than
    /// is wanted.
    pub(crate) fn again(state: &'static ThreadState, had: StateRoom, wanted: StateRoom, _: &Alone) -> Option<NewState> {
        if !had.holds(wanted) {
            return None;
        }
        // SAFETY: memory of a state with this room, all zeros, which nobody looks at meanwhile.
        unsafe { ThreadBooks::set_up(UnsafeCell::raw_get(&raw const state.books), wanted) };
        Some(NewState { state: NonNull::from(state), bytes: 0 })
    }
}

impl ThreadState {
    /// Whether a hook of this thread is inside of the recorder, or was left there.
    pub(crate) fn is_guarded(&self) -> bool {
        self.guard.load(Ordering::Relaxed) != 0
    }

    /// Gives the memory of all states back, but not their addresses: a hook that a signal handler has interrupted just before it was
    /// inside, in which the process was forked, comes back and goes on with what lies there. So the thread's own state is made again in
    /// the same place.
    pub(crate) fn discard_all<P: AsRef<[OwnedPlace]>>(places: &Places<P>, room: StateRoom, _: &Alone) {
        for state in places.states() {
            // SAFETY: a state, of so many bytes, of which zeros are a value; nobody else is there.
            unsafe {
                // Of what the program has locked in memory the kernel gives nothing back.
                if syscall::change(state as *mut u8, room.bytes(), advice::DONT_NEED).is_err() {
                    core::ptr::write_bytes(state as *mut u8, 0, room.bytes());
                }
            }
        }
    }

    /// Tells of the books of all states that there are, of threads that are gone, too.
    pub(crate) fn each_books<P: AsRef<[OwnedPlace]>>(
        places: &Places<P>,
        _: &Alone,
        tell: &mut dyn FnMut(&ThreadBooks),
    ) {
        for state in places.states() {
            // SAFETY: nobody else is there.
            let entered = unsafe { Entered::new(ThreadState::at(state)) };
            tell(&entered);
        }
    }
}
