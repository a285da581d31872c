//! What a thread's state has room for: arrays behind it, as long as the options say.
//!
//! A room with `unsafe`: fresh memory is divided into these arrays.

use super::{ThreadBooks, ThreadState};
use crate::options::Scripts;
use crate::python::Chain;
use core::mem::offset_of;
use core::slice::from_raw_parts_mut as slice;
use heapledger_unwind::{FrameNote, Fresh, Head, LastStack, Taken, Word};

/// How much room a state has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StateRoom {
    /// Most frames of a stack.
    pub(crate) depth_limit: usize,
    /// Whose lines stacks may have.
    pub(crate) scripts: Scripts,
}

/// Bytes of a kept frame: a word, a place, two further words.
const KEPT_BYTES: usize = 3 * size_of::<Word>() + size_of::<FrameNote>();
/// Bytes behind a state for each frame of a stack: in both last stacks, a fresh frame, a pc.
const FRAME_BYTES: usize = 2 * KEPT_BYTES + size_of::<Fresh>() + 8;

impl StateRoom {
    /// Bytes of a state with this room.
    pub(crate) const fn bytes(self) -> usize {
        let frames = self.depth_limit.wrapping_mul(FRAME_BYTES);
        size_of::<ThreadState>().wrapping_add(frames).wrapping_add(self.chain_bytes()).next_multiple_of(4096)
    }

    /// Bytes for frames of scripts: a fifth of a state, which most programs never use.
    const fn chain_bytes(self) -> usize {
        match self.scripts {
            Scripts::None => 0,
            Scripts::Python => size_of::<Chain>(),
        }
    }

    /// Whether a state with this room has as much as another.
    pub(crate) const fn holds(self, other: StateRoom) -> bool {
        self.depth_limit >= other.depth_limit && self.chain_bytes() >= other.chain_bytes()
    }
}

impl ThreadBooks {
    /// Gives fresh books the arrays that lie behind the state.
    ///
    /// # Safety
    /// The books are those of a state with this room or more, all of it zeros, that nobody uses yet.
    pub(super) unsafe fn set_up(books: *mut ThreadBooks, room: StateRoom) {
        const { assert!(offset_of!(ThreadState, books) + size_of::<ThreadBooks>() == size_of::<ThreadState>()) };
        const { assert!(size_of::<ThreadState>().is_multiple_of(8) && align_of::<Chain>() <= 8) };
        let depth_limit = room.depth_limit;
        // SAFETY: the caller vouches for the room, which is divided here; all of it is zeros, and those are values of each type.
        unsafe {
            let mut at = books.add(1).cast::<u8>();
            let mut last = || {
                let frames = at.cast::<Word>();
                let words = frames.add(depth_limit);
                let places = words.add(depth_limit.wrapping_mul(2)).cast::<FrameNote>();
                at = places.add(depth_limit).cast();
                LastStack {
                    head: Head::new(),
                    frames: slice(frames, depth_limit),
                    places: slice(places, depth_limit),
                    words: slice(words, depth_limit.wrapping_mul(2)),
                }
            };
            (&raw mut (*books).last).write([last(), last()]);
            let fresh = at.cast::<Fresh>();
            (&raw mut (*books).fresh).write(slice(fresh, depth_limit));
            (&raw mut (*books).taken).write(Taken::NOTHING);
            let pcs = fresh.add(depth_limit).cast::<u64>();
            (&raw mut (*books).pcs).write(slice(pcs, depth_limit));
            if room.scripts == Scripts::Python {
                let chain = pcs.add(depth_limit).cast::<Chain>();
                (&raw mut (*books).python).write(chain.as_mut());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_scripts_take_room_only_where_they_are_wanted() {
        let room = |depth_limit, scripts| StateRoom { depth_limit, scripts };
        let (without, with) = (room(128, Scripts::None), room(128, Scripts::Python));
        // Both are whole pages, so one of them may have been rounded by up to one.
        assert!(with.bytes() > without.bytes() + size_of::<Chain>() - 4096);
        assert!(size_of::<ThreadState>() < without.bytes() && without.bytes() < size_of::<ThreadState>() + (1 << 17));
        assert!(with.holds(without) && with.holds(with) && !without.holds(with));
        assert!(!without.holds(room(129, Scripts::None)) && without.holds(room(127, Scripts::None)));
    }
}
