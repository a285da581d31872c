//! Calls that fail on purpose, for tests of what a program does then.
#![forbid(unsafe_code)]

use crate::Error;
use core::marker::PhantomData;
use core::ops::Range;
use heapledger_watch::faults::{self, Of, Rule};
use heapledger_watch::{state, thread_id};

/// Which calls fail: those for which it says so, of the calls that ask for a block, a `realloc` too, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    rule: Rule,
}

impl Fault {
    /// The n-th call fails, and no other; 1 is the next one. None, if 0.
    pub const fn nth(n: usize) -> Fault {
        Fault { rule: Rule::nth(n) }
    }

    /// The n-th call fails, and all after it: there is no memory any more. With 0 as with 1.
    pub const fn from_nth(n: usize) -> Fault {
        Fault { rule: Rule::from_nth(n) }
    }

    /// One in n calls fails: the n-th, the 2n-th, and so on. None, if 0.
    pub const fn every(n: usize) -> Fault {
        Fault { rule: Rule::every(n) }
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
        Fault { rule: self.rule.within_code(code) }
    }
}

/// Code that is nowhere.
const NO_CODE: Range<usize> = 1..1;

/// Calls fail as long as this is there.
///
/// See [`fail`] and [`fail_all`].
#[derive(Debug)]
#[must_use = "calls fail no longer when it is dropped"]
pub struct Failing {
    number: usize,
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
    if thread_id() == 0 {
        return Err(Error::Unsupported);
    }
    begin(fault, Of::OwnThread)
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
    begin(fault, Of::All)
}

fn begin(fault: Fault, of: Of) -> Result<Failing, Error> {
    if state::base() == state::UNSTARTED {
        return Err(Error::NoAllocator);
    }
    if fault.rule.has_no_code() {
        return Err(if cfg!(all(target_os = "linux", target_arch = "x86_64")) {
            Error::NoFunction
        } else {
            Error::Unsupported
        });
    }
    let number = faults::begin(fault.rule, of).ok_or(Error::TooMany)?;
    Ok(Failing { number, thread: PhantomData })
}

impl Failing {
    fn figures(&self) -> [u64; 2] {
        faults::figures(self.number).unwrap_or_default()
    }

    /// Calls until now that it was asked about.
    pub fn calls(&self) -> u64 {
        self.figures()[0]
    }

    /// Calls that failed by it until now.
    pub fn failed(&self) -> u64 {
        self.figures()[1]
    }
}

impl Drop for Failing {
    fn drop(&mut self) {
        faults::end(self.number);
    }
}
