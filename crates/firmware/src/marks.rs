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

#[cfg(not(feature = "fixed"))]
use crate::board::told;

/// A call that is under way: `struct heapledger_mark`.
#[repr(C)]
pub(crate) struct Mark {
    /// Where the word lies that says so; 0: there is none.
    cookie: Cell<usize>,
    /// Whose stack it is.
    context: Cell<usize>,
}

/// What a call is: a number, so that it fits into a register, and odd if it is a part of another one. The address of its mark, or of that of `new`, plus 1; else one of
/// the two below.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Entered(usize);

/// A word says that it is a mark by being its own address, changed by these bits.
#[cfg(not(feature = "fixed"))]
const KEY: usize = 0x5A3C_96E1;
/// The same of a call of `new`.
#[cfg(not(feature = "fixed"))]
const KEY_OF_NEW: usize = 0x96E1_5A3C;

impl Entered {
    /// A part of another one, which is entered.
    #[cfg(not(feature = "fixed"))]
    pub(crate) const NESTED: Entered = Entered(1);
    /// One that is entered, without a mark.
    const UNMARKED: Entered = Entered(0);

    /// It is a part of another one.
    pub(crate) fn is_nested(self) -> bool {
        self.0 & 1 != 0
    }

    fn mark(address: usize) -> &'static Mark {
        // SAFETY: one of the marks, which are there for ever.
        unsafe { &*core::ptr::with_exposed_provenance(address) }
    }

    /// If it is a part of `new`: its mark.
    #[cfg(feature = "guard")]
    pub(crate) fn of_new(self) -> Option<&'static Mark> {
        (self.0 > 1 && self.0 & 1 != 0).then(|| Self::mark(self.0 & !1))
    }

    /// The number, for who keeps it in a word.
    #[cfg(not(feature = "fixed"))]
    pub(crate) fn number(self) -> usize {
        self.0
    }

    /// That again.
    #[cfg(not(feature = "fixed"))]
    pub(crate) fn of_number(number: usize) -> Self {
        Entered(number)
    }
}

/// What others may do while a call is under way.
#[cfg_attr(feature = "fixed", expect(dead_code, reason = "nobody looks"))]
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Within {
    /// It calls no other function that is led here.
    Nobody,
    /// What is called is a part of it.
    Others,
    /// The same, until one of them has no block: then it throws, and what is allocated for that is not a part of it.
    New,
}

/// The marks there may be.
#[cfg(not(feature = "fixed"))]
fn marks() -> &'static [Mark] {
    let told = told();
    // SAFETY: the header has made so many; they are only looked at alone, by this module.
    unsafe { core::slice::from_raw_parts(told.marks, told.mark_count) }
}

/// Whose stack the one is that runs. Handles are even.
#[cfg(not(feature = "fixed"))]
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

/// A call begins. `cookie`: a word of its frame. (In a library that is built for one firmware no call lies within another.)
#[cfg(feature = "fixed")]
#[inline(always)]
pub(crate) fn enter(_cookie: *mut usize, _within: Within) -> Entered {
    Entered::UNMARKED
}

/// A call begins. `cookie`: a word of its frame.
#[cfg(not(feature = "fixed"))]
#[inline(always)]
pub(crate) fn enter(cookie: *mut usize, within: Within) -> Entered {
    told().find_mark.map_or(Entered::UNMARKED, |find| find(cookie, within as usize))
}

/// A call within another one had no block: if that is `new`, it is over, and has none.
#[inline(always)]
pub(crate) fn had_none(entered: Entered, cookie: *mut usize) {
    #[cfg(not(feature = "fixed"))]
    if let (Some(find), true) = (told().find_mark, entered != Entered::NESTED) {
        find(cookie, entered.0);
    }
    #[cfg(feature = "fixed")]
    let _ = (entered, cookie);
}

/// The same as `enter`, where calls may lie within others: `what` is a [`Within`]. Or it is a part of `new` that had no block. (In one function, of which firmware
/// without such calls has nothing: the header names it, or not.)
#[cfg(not(feature = "fixed"))]
#[unsafe(no_mangle)]
extern "C" fn heapledger_find_mark(cookie: *mut usize, what: usize) -> Entered {
    if what <= Within::New as usize {
        return find(cookie, what);
    }
    // SAFETY: a word of the caller's frame.
    if Entered::mark(what & !1).spend(unsafe { cookie.read_volatile() }) {
        crate::entering::refused();
    }
    Entered::UNMARKED
}

#[cfg(not(feature = "fixed"))]
fn find(cookie: *mut usize, within: usize) -> Entered {
    told().alone(|| {
        let context = context();
        let mut vacant = None;
        for mark in marks() {
            let at = mark.cookie.get();
            if at != 0 && mark.context.get() == context {
                let key = says(at) ^ at;
                if at > cookie.addr() && key == KEY {
                    return Entered::NESTED;
                }
                if at > cookie.addr() && key == KEY_OF_NEW {
                    // Of which one, if that call goes on to have no block.
                    // SAFETY: a word of the caller's frame.
                    unsafe { cookie.write_volatile(at) };
                    return Entered((&raw const *mark).expose_provenance() | 1);
                }
                // Whoever left it has not come back.
                mark.cookie.set(0);
            }
            if mark.cookie.get() == 0 {
                vacant = Some(mark);
            }
        }
        match vacant {
            Some(mark) if within != Within::Nobody as usize => {
                mark.cookie.set(cookie.expose_provenance());
                mark.context.set(context);
                // SAFETY: a word of the caller's frame.
                unsafe {
                    cookie.write_volatile(cookie.addr() ^ if within == Within::New as usize { KEY_OF_NEW } else { KEY })
                };
                Entered((&raw const *mark).expose_provenance())
            }
            _ => Entered::UNMARKED,
        }
    })
}

/// It ends. False, if its mark was [spent](Mark::spend).
#[inline(always)]
pub(crate) fn leave(entered: Entered, cookie: *mut usize) -> bool {
    if entered == Entered::UNMARKED || entered.is_nested() {
        return true;
    }
    let mark = Entered::mark(entered.0);
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
    /// Runs a call within `new`, of which this is the mark: its own calls are a part of it, and not of `new` alone. `cookie`: a word that says where
    /// the word of `new` lies.
    #[cfg(feature = "guard")]
    pub(crate) fn closed<T>(&self, cookie: *const usize, work: impl FnOnce() -> T) -> T {
        // SAFETY: a word of the caller's frame.
        let at = unsafe { cookie.read_volatile() };
        let say = |key: usize| {
            if self.cookie.get() == at {
                // SAFETY: a word of the frame of that call, which has not returned.
                unsafe { core::ptr::with_exposed_provenance_mut::<usize>(at).write_volatile(at ^ key) };
            }
        };
        say(KEY);
        let result = work();
        say(KEY_OF_NEW);
        result
    }

    /// A call within `new`, of which this was the mark with the word `at`, had no block: this is over. It may throw now, or try again, and is no
    /// longer what is entered. False, if it was before.
    #[cfg(not(feature = "fixed"))]
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
