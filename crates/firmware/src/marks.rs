//! Calls within calls: `new` calls `malloc`, and newlib's `malloc` calls `_malloc_r`. Each is led here, and the outermost is entered.
//!
//! Whoever is the outermost leaves a mark for as long as the allocator's own function runs: where its frame lies, and whose stack that is (the
//! task's handle, or the number of the interrupt). Who finds a mark of the same stack further out is a part of that call. A mark
//! is believed only if a word of the frame still says so: an exception or a `longjmp` may have left it behind. Where more calls are under way
//! than there is room for marks (many tasks wait for the allocator) each call is entered as one of its own, which is
//! counted: as a free of no block, or as a block that was displaced.
//!
//! # Safety
//! A room with `unsafe`: it looks at words of the stack that runs.

use core::cell::Cell;

use crate::board::told;

/// A call that is under way: `struct heapledger_mark`.
#[repr(C)]
pub(crate) struct Mark {
    /// Where the word lies that says so; 0: there is none.
    cookie: Cell<usize>,
    /// Whose stack it is.
    context: Cell<usize>,
}

/// What a call is.
#[derive(Clone, Copy)]
pub(crate) enum Entered {
    /// A part of another one, which is entered.
    Nested,
    /// A part of `new`, which has this mark, with this word.
    OfNew(&'static Mark, usize),
    /// One that is entered, without a mark.
    Unmarked,
    /// One that is entered, with a mark.
    Marked(&'static Mark),
}

/// A word says that it is a mark by being its own address, changed by these bits.
const KEY: usize = 0x5A3C_96E1;
/// The same of a call of `new`.
const KEY_OF_NEW: usize = 0x96E1_5A3C;

impl Entered {
    /// It is a part of another one.
    pub(crate) fn is_nested(self) -> bool {
        matches!(self, Entered::Nested | Entered::OfNew(..))
    }
}

/// What others may do while a call is under way.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Within {
    /// It calls no other function that is led here.
    Nobody,
    /// What is called is a part of it.
    Others,
    /// The same, until one of them has no block: then it throws, and what is allocated for that is not a part of it.
    New,
}

/// The marks there may be.
fn marks() -> &'static [Mark] {
    let told = told();
    // SAFETY: the header has made so many; they are only looked at alone, by this module.
    unsafe { core::slice::from_raw_parts(told.marks, told.mark_count) }
}

/// Whose stack the one is that runs. Handles are even.
fn context() -> usize {
    match told().interrupt() {
        0 => told().task(),
        number => number.wrapping_mul(2).wrapping_add(1),
    }
}

/// What the word of a mark says.
fn says(at: usize) -> usize {
    // SAFETY: a word of the stack that runs, where something is or was.
    unsafe { core::ptr::with_exposed_provenance::<usize>(at).read_volatile() }
}

/// A call begins. `cookie`: a word of its frame.
#[inline(never)]
pub(crate) fn enter(cookie: *mut usize, within: Within) -> Entered {
    told().alone(|| {
        let context = context();
        let mut vacant = None;
        for mark in marks() {
            let at = mark.cookie.get();
            if at != 0 && mark.context.get() == context {
                let key = says(at) ^ at;
                if at > cookie.addr() && key == KEY {
                    return Entered::Nested;
                }
                if at > cookie.addr() && key == KEY_OF_NEW {
                    return Entered::OfNew(mark, at);
                }
                // Whoever left it has not come back.
                mark.cookie.set(0);
            }
            if mark.cookie.get() == 0 {
                vacant = Some(mark);
            }
        }
        match vacant {
            Some(mark) if within != Within::Nobody => {
                mark.cookie.set(cookie.expose_provenance());
                mark.context.set(context);
                // SAFETY: a word of the caller's frame.
                unsafe { cookie.write_volatile(cookie.addr() ^ if within == Within::New { KEY_OF_NEW } else { KEY }) };
                Entered::Marked(mark)
            }
            _ => Entered::Unmarked,
        }
    })
}

/// It ends. False, if its mark was [spent](Mark::spend).
#[inline(always)]
pub(crate) fn leave(entered: Entered, cookie: *mut usize) -> bool {
    let Entered::Marked(mark) = entered else { return true };
    if says(cookie.addr()) == 0 {
        return false;
    }
    // One store: nobody else changes a mark that is taken.
    mark.cookie.set(0);
    // SAFETY: a word of the caller's frame.
    unsafe { cookie.write_volatile(0) };
    true
}

impl Mark {
    /// A call within `new`, of which this was the mark with the word `at`, had no block: this is over. It may throw now, or try again, and is no
    /// longer what is entered. False, if it was before.
    pub(crate) fn spend(&self, at: usize) -> bool {
        if self.cookie.get() != at {
            return false;
        }
        // SAFETY: a word of the frame of that call, which has not returned.
        unsafe { core::ptr::with_exposed_provenance_mut::<usize>(at).write_volatile(0) };
        self.cookie.set(0);
        true
    }
}
