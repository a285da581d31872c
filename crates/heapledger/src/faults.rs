//! Calls that fail on purpose, for tests of what a program does then.
#![forbid(unsafe_code)]

use crate::state::{self, Want};
use crate::{Error, thread_word};
use core::marker::PhantomData;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Which calls fail: those for which it says so, of the calls that ask for a block, a `realloc` too, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    rule: usize,
    /// Code that has to be in the stack of a call, from here to there; both 0: anywhere.
    code: (usize, usize),
}

/// The upper bits of [`Fault::rule`]; the others are its number.
const NTH: usize = 0;
const FROM: usize = 1;
const EVERY: usize = 2;
const RULE_SHIFT: u32 = usize::BITS - 2;
const NUMBER_MAX: usize = (1 << RULE_SHIFT) - 1;

impl Fault {
    const fn new(rule: usize, number: usize) -> Fault {
        let number = if number > NUMBER_MAX { NUMBER_MAX } else { number };
        Fault { rule: rule << RULE_SHIFT | number, code: (0, 0) }
    }

    /// The n-th call fails, and no other; 1 is the next one. None, if 0.
    pub const fn nth(n: usize) -> Fault {
        Fault::new(NTH, n)
    }

    /// The n-th call fails, and all after it: there is no memory any more. With 0 as with 1.
    pub const fn from_nth(n: usize) -> Fault {
        Fault::new(FROM, n)
    }

    /// One in n calls fails: the n-th, the 2n-th, and so on. None, if 0.
    pub const fn every(n: usize) -> Fault {
        Fault::new(EVERY, n)
    }

    /// Of calls that come from this function only, however deep: those whose stack has it in its innermost 256 frames. Others are not
    /// counted either.
    ///
    /// It is found by its code, so it must be there: a function that is inlined (`#[inline(never)]` helps) or has become a part of
    /// another one is never met. Each call of a thread then takes a stack, as long as the fault is there.
    ///
    /// ```
    /// # use heapledger::Heapledger;
    /// # use std::alloc::System;
    /// # #[global_allocator]
    /// # static HEAP: Heapledger<System> = Heapledger::system();
    /// use heapledger::Fault;
    ///
    /// #[inline(never)]
    /// fn loads(text: &mut String) -> bool {
    ///     text.try_reserve(1000).is_ok()
    /// }
    ///
    /// # fn main() -> Result<(), heapledger::Error> {
    /// # if cfg!(not(all(target_os = "linux", target_arch = "x86_64"))) { return Ok(()) }
    /// let mut text = String::new();
    /// let failing = heapledger::fail(Fault::nth(1).within(loads as fn(&mut String) -> bool as *const ()))?;
    /// assert!(text.try_reserve(10).is_ok());
    /// assert!(!loads(&mut text) && loads(&mut text));
    /// assert_eq!((failing.calls(), failing.failed()), (2, 1));
    /// # drop(failing);
    /// # let nowhere = heapledger::fail(Fault::nth(1).within(std::ptr::null()));
    /// # assert_eq!(nowhere.err(), Some(heapledger::Error::NoFunction));
    /// # heapledger::discard();
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn within(self, function: *const ()) -> Fault {
        #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
        let code = heapledger_process::backtrace::function_of(function.addr()).unwrap_or(NO_CODE);
        #[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
        let code = {
            let _ = function;
            NO_CODE
        };
        self.within_code(code)
    }

    /// The same by addresses: of calls whose stack has code from there in it.
    #[must_use]
    pub const fn within_code(self, code: Range<usize>) -> Fault {
        Fault { code: (code.start, code.end), ..self }
    }

    const fn has_no_code(self) -> bool {
        let (first, end) = self.code;
        end != 0 && first >= end
    }

    /// Whether the call of this number fails.
    const fn is_for(self, call: usize) -> bool {
        let number = self.rule & NUMBER_MAX;
        match self.rule >> RULE_SHIFT {
            NTH => call == number,
            FROM => call >= number,
            _ => number != 0 && call.is_multiple_of(number),
        }
    }
}

/// Code that is nowhere.
const NO_CODE: Range<usize> = 1..1;

/// Faults of one kind at the same time.
const FAULTS: usize = 32;

struct Slot {
    used: AtomicBool,
    thread: AtomicUsize,
    rule: AtomicUsize,
    code: [AtomicUsize; 2],
    calls: AtomicUsize,
    failed: AtomicUsize,
}

/// Those of threads, and those of all. What is of one thread is set and taken away by that one.
static OF_THREADS: [Slot; FAULTS] = [const { Slot::new() }; FAULTS];
static OF_ALL: [Slot; FAULTS] = [const { Slot::new() }; FAULTS];

impl Slot {
    const fn new() -> Slot {
        Slot {
            used: AtomicBool::new(false),
            thread: AtomicUsize::new(0),
            rule: AtomicUsize::new(0),
            code: [const { AtomicUsize::new(0) }; 2],
            calls: AtomicUsize::new(0),
            failed: AtomicUsize::new(0),
        }
    }

    /// Whether it is about a call, of which `is_within` says whether its stack has some code in it.
    fn concerns(&self, is_within: &dyn Fn(&Range<usize>) -> bool) -> bool {
        let [first, end] = self.code.each_ref().map(|word| word.load(Ordering::Relaxed));
        end == 0 || is_within(&(first..end))
    }

    /// Counts a call. Returns whether it fails.
    fn fails(&self) -> bool {
        let call = self.calls.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let fails = Fault { rule: self.rule.load(Ordering::Relaxed), code: (0, 0) }.is_for(call);
        if fails {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
        fails
    }
}

/// Whether a call fails. All faults that concern it count it.
#[cold]
#[inline(never)]
pub(crate) fn fails(is_within: &dyn Fn(&Range<usize>) -> bool) -> bool {
    let is_used = |slot: &&Slot| slot.used.load(Ordering::Acquire);
    let thread = thread_word::id();
    let own = OF_THREADS.iter().filter(is_used).filter(|slot| slot.thread.load(Ordering::Relaxed) == thread);
    let all = OF_ALL.iter().filter(is_used);
    own.chain(all).filter(|slot| slot.concerns(is_within) && slot.fails()).count() > 0
}

/// Calls fail as long as this is there.
///
/// See [`fail`] and [`fail_all`].
#[derive(Debug)]
#[must_use = "calls fail no longer when it is dropped"]
pub struct Failing {
    slot: usize,
    is_of_all: bool,
    /// It is the thread's own.
    thread: PhantomData<*const ()>,
}

/// Calls of this thread fail from now on, by a rule.
///
/// The allocator inside is not called; in the ledger and in figures each is a call that failed. Much code cannot go on then:
/// `Vec::push` and `Box::new` end the program ([`handle_alloc_error`](std::alloc::handle_alloc_error)). What can is
/// `Vec::try_reserve`, and what C code does.
///
/// ```
/// # use heapledger::Heapledger;
/// # use std::alloc::System;
/// # #[global_allocator]
/// # static HEAP: Heapledger<System> = Heapledger::system();
/// use heapledger::Fault;
///
/// # fn main() -> Result<(), heapledger::Error> {
/// let mut numbers: Vec<u32> = Vec::new();
/// let failing = heapledger::fail(Fault::nth(2))?;
/// assert!(numbers.try_reserve(10).is_ok());
/// assert!(numbers.try_reserve(1000).is_err());
/// assert!(numbers.capacity() >= 10 && numbers.try_reserve(1000).is_ok());
/// assert_eq!((failing.calls(), failing.failed()), (3, 1));
/// drop(failing);
/// # heapledger::discard();
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Error::NoAllocator`] if no [`Heapledger`](crate::Heapledger) is the program's allocator, [`Error::TooMany`] if 32 are there
/// already, [`Error::NoFunction`] if it is to be within a function that is none, [`Error::Unsupported`] where threads cannot be told apart.
pub fn fail(fault: Fault) -> Result<Failing, Error> {
    if thread_word::id() == 0 {
        return Err(Error::Unsupported);
    }
    begin(&OF_THREADS, fault)
}

/// Calls of all threads fail from now on, by a rule; they are counted together. See [`fail`].
///
/// ```
/// # use heapledger::Heapledger;
/// # use std::alloc::System;
/// # #[global_allocator]
/// # static HEAP: Heapledger<System> = Heapledger::system();
/// # fn main() -> Result<(), heapledger::Error> {
/// let mut text = String::new();
/// let failing = heapledger::fail_all(heapledger::Fault::from_nth(1))?;
/// let result = text.try_reserve(100);
/// drop(failing);
/// assert!(result.is_err());
/// # heapledger::discard();
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// As of [`fail`], but for threads.
pub fn fail_all(fault: Fault) -> Result<Failing, Error> {
    begin(&OF_ALL, fault)
}

fn begin(slots: &'static [Slot; FAULTS], fault: Fault) -> Result<Failing, Error> {
    if state::base() == state::UNSTARTED {
        return Err(Error::NoAllocator);
    }
    if fault.has_no_code() {
        return Err(if cfg!(all(target_os = "linux", target_arch = "x86_64")) {
            Error::NoFunction
        } else {
            Error::Unsupported
        });
    }
    // Whose thread is not 0 is taken.
    let claim = |slot: &Slot| slot.thread.compare_exchange(0, usize::MAX, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    let index = slots.iter().position(claim).ok_or(Error::TooMany)?;
    let slot = slots.get(index).ok_or(Error::TooMany)?;
    slot.calls.store(0, Ordering::Relaxed);
    slot.failed.store(0, Ordering::Relaxed);
    slot.rule.store(fault.rule, Ordering::Relaxed);
    for (word, address) in slot.code.iter().zip([fault.code.0, fault.code.1]) {
        word.store(address, Ordering::Relaxed);
    }
    let is_of_all = core::ptr::eq(slots, &raw const OF_ALL);
    slot.thread.store(if is_of_all { usize::MAX } else { thread_word::id() }, Ordering::Relaxed);
    slot.used.store(true, Ordering::Release);
    let failing = Failing { slot: index, is_of_all, thread: PhantomData };
    if state::join(Want::Asked) {
        return Ok(failing);
    }
    failing.give_back();
    core::mem::forget(failing);
    Err(Error::TooMany)
}

impl Failing {
    fn get(&self) -> Option<&'static Slot> {
        if self.is_of_all { OF_ALL.get(self.slot) } else { OF_THREADS.get(self.slot) }
    }

    fn give_back(&self) {
        if let Some(slot) = self.get() {
            slot.used.store(false, Ordering::Release);
            slot.thread.store(0, Ordering::Release);
        }
    }

    /// Calls until now that it was asked about.
    pub fn calls(&self) -> u64 {
        self.get().map_or(0, |slot| slot.calls.load(Ordering::Relaxed)) as u64
    }

    /// Calls that failed by it until now.
    pub fn failed(&self) -> u64 {
        self.get().map_or(0, |slot| slot.failed.load(Ordering::Relaxed)) as u64
    }
}

impl Drop for Failing {
    fn drop(&mut self) {
        state::leave(Want::Asked);
        self.give_back();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_say_which_calls_fail() {
        let failing = |fault: Fault| (1..=7).filter(|call| fault.is_for(*call)).collect::<std::vec::Vec<_>>();
        assert_eq!(failing(Fault::nth(3)), [3]);
        assert_eq!(failing(Fault::from_nth(6)), [6, 7]);
        assert_eq!(failing(Fault::every(3)), [3, 6]);
        assert_eq!(failing(Fault::every(1)).len(), 7);
        assert_eq!(failing(Fault::from_nth(0)).len(), 7);
        assert!(failing(Fault::nth(0)).is_empty() && failing(Fault::every(0)).is_empty());
        assert!(failing(Fault::nth(usize::MAX)).is_empty() && failing(Fault::every(usize::MAX)).is_empty());
    }
}
