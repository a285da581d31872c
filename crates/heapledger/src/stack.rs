//! Call stacks for a program's own use.
//!
//! What the recorder does for each block, without a recorder: into a buffer of the caller's, without an allocation, with nothing
//! locked. Whether anything is recorded does not matter. It works in threads that nobody knows, on stacks of coroutines, and in
//! signal handlers, on an alternate stack as well; there a stack goes on with what the signal has interrupted.
//!
//! ```
//! use heapledger::stack::{Capture, End};
//!
//! let mut frames = [0; 64];
//! let taken = Capture::new().here(&mut frames);
//! # if cfg!(not(all(target_os = "linux", target_arch = "x86_64"))) { return }
//! assert_eq!(taken.end, End::Outermost);
//! assert!(taken.guessed_from.is_none());
//! let stack: &[usize] = &frames[..taken.frames];
//! assert!(stack.len() > 2);
//! ```
//!
//! [`stack_id`] keeps a stack in the ledger for a number, which [`stack_of`] gives back for it.
//!
//! Each frame is an address of code such that the byte before it lies in the instruction that was executing: a return
//! address, or, of what a signal has interrupted, the interrupted address plus one. Whoever looks for names subtracts one.

use core::ffi::c_void;

pub use crate::depot::{NotKept, StackId, stack_id, stack_of};

/// By what the next frame is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unwinding {
    /// Unwind tables, which compilers write for all code of Rust and C++; frame pointers where there are none. Exact up to
    /// [`Taken::guessed_from`].
    #[default]
    Exact,
    /// Frame pointers. If they lead to fewer than three frames, as [`Unwinding::Exact`]. Quick, and right in programs that are built with
    /// them (`-C force-frame-pointers`) throughout; others' frames are left out without notice.
    Fast,
    /// Unwind tables, and nothing else.
    Tables,
    /// Frame pointers, and nothing else.
    FramePointers,
}

/// Why a stack has no more frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum End {
    /// The outermost one was reached: it is complete.
    Outermost,
    /// There is no room for more.
    Cut,
    /// Nothing says how to go on: neither tables nor frame pointers, or what they say cannot be.
    Broken,
}

/// What was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Taken {
    /// How many frames lie in the buffer, the innermost first.
    pub frames: usize,
    /// Why there are no more.
    pub end: End,
    /// The first of them that rests on a frame pointer which nothing proves: this and what follows may be wrong, or not all.
    pub guessed_from: Option<usize>,
}

/// How a stack is to be taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capture {
    unwinding: Unwinding,
    before: usize,
    after: usize,
}

impl Capture {
    /// All frames, exactly.
    pub const fn new() -> Capture {
        Capture { unwinding: Unwinding::Exact, before: 0, after: 0 }
    }

    /// By what frames are found.
    ///
    /// ```
    /// use heapledger::stack::{Capture, Unwinding};
    ///
    /// let taken = Capture::new().unwinding(Unwinding::Tables).here(&mut [0; 8]);
    /// assert!(taken.frames <= 8 && taken.guessed_from.is_none());
    /// ```
    #[must_use]
    pub const fn unwinding(self, unwinding: Unwinding) -> Capture {
        Capture { unwinding, ..self }
    }

    /// Leaves out so many of the innermost frames: functions of a wrapper.
    ///
    /// ```
    /// use heapledger::stack::Capture;
    ///
    /// let (mut all, mut less) = ([0; 64], [0; 64]);
    /// let taken = Capture::new().here(&mut all);
    /// let fewer = Capture::new().without_innermost(1).without_outermost(1).here(&mut less);
    /// # if cfg!(not(all(target_os = "linux", target_arch = "x86_64"))) { return }
    /// assert_eq!(fewer.frames, taken.frames - 2);
    /// assert_eq!(less[..fewer.frames], all[1..taken.frames - 1]);
    /// ```
    #[must_use]
    pub const fn without_innermost(self, frames: usize) -> Capture {
        Capture { before: frames, ..self }
    }

    /// Leaves out so many of the outermost frames: what leads to `main`. Of a stack that is cut nobody knows them, and it
    /// stays as it is.
    #[must_use]
    pub const fn without_outermost(self, frames: usize) -> Capture {
        Capture { after: frames, ..self }
    }

    /// Takes the stack of the caller, whose frame is the first. As deep as there is room.
    #[inline(always)]
    pub fn here(&self, into: &mut [usize]) -> Taken {
        #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
        {
            let mut registers = heapledger_unwind::Registers::default();
            crate::registers::of_caller(&mut registers);
            self.take(&registers, into)
        }
        #[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
        self.nothing(into)
    }

    /// Takes the stack that a signal has interrupted: `context` is the third argument of a handler with `SA_SIGINFO`. Its first frame
    /// is what was interrupted, and nothing of the handler is in it.
    ///
    /// A program that does so takes some stack before, anywhere: the first time the loader's function that finds unwind
    /// tables is looked for, among modules that should not be loaded in this moment.
    ///
    /// # Safety
    /// It must be that argument, or a `ucontext_t` that `getcontext` has filled, of a stack that is still there.
    pub unsafe fn interrupted(&self, context: *const c_void, into: &mut [usize]) -> Taken {
        #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
        {
            // SAFETY: the caller's.
            let registers = unsafe { crate::registers::of_context(context) };
            self.take(&registers, into)
        }
        #[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
        {
            let _ = context;
            self.nothing(into)
        }
    }

    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    #[inline(never)]
    fn take(&self, registers: &heapledger_unwind::Registers, into: &mut [usize]) -> Taken {
        use heapledger_process::backtrace::{StackMethod, take};
        use heapledger_unwind::End as WalkEnd;
        let how = match self.unwinding {
            Unwinding::Exact => StackMethod::Auto,
            Unwinding::Fast => StackMethod::Fast,
            Unwinding::Tables => StackMethod::Tables,
            Unwinding::FramePointers => StackMethod::FramePointers,
        };
        let taken = take(registers, how, (self.before, self.after), into);
        let end = match taken.end {
            WalkEnd::Outermost => End::Outermost,
            WalkEnd::LimitReached => End::Cut,
            _ => End::Broken,
        };
        Taken { frames: taken.frames, end, guessed_from: taken.guessed_from }
    }

    #[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
    fn nothing(&self, _: &mut [usize]) -> Taken {
        Taken { frames: 0, end: End::Broken, guessed_from: None }
    }
}
