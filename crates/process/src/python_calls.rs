//! The two functions of CPython that are called: both load a word or two, take no lock and allocate nothing.
//!
//! A room with `unsafe`: it calls functions by the addresses that their module says, and believes that structures are where frames
//! that run say they are.

use core::sync::atomic::{AtomicUsize, Ordering};
use heapledger_linux::peek::Peek;

/// Their addresses; 0 before they are known.
pub(crate) struct PythonCalls {
    thread_state: AtomicUsize,
    is_finalizing: AtomicUsize,
}

impl PythonCalls {
    pub(crate) const fn new() -> PythonCalls {
        PythonCalls { thread_state: AtomicUsize::new(0), is_finalizing: AtomicUsize::new(0) }
    }

    /// Notes where `PyGILState_GetThisThreadState` and `Py_IsFinalizing` are.
    pub(crate) fn set(&self, thread_state: usize, is_finalizing: usize) {
        self.thread_state.store(thread_state, Ordering::Relaxed);
        self.is_finalizing.store(is_finalizing, Ordering::Relaxed);
    }

    /// The calling thread's own state, whether or not it has the lock of the interpreter; 0: it has none, or there is none any more.
    /// When the interpreter ends, states of threads that still run are freed.
    #[inline(always)]
    pub(crate) fn thread_state(&self) -> u64 {
        let (state, is_finalizing) =
            (self.thread_state.load(Ordering::Relaxed), self.is_finalizing.load(Ordering::Relaxed));
        if state == 0 || is_finalizing == 0 {
            return 0;
        }
        // SAFETY: the functions of these names and of no others, of a version that is known to have them so.
        unsafe {
            let is_finalizing = core::mem::transmute::<usize, extern "C" fn() -> i32>(is_finalizing);
            let state = core::mem::transmute::<usize, extern "C" fn() -> u64>(state);
            if is_finalizing() != 0 { 0 } else { state() }
        }
    }

    /// Reads what belongs to the calling thread's state.
    #[inline(always)]
    pub(crate) fn trusting(&self) -> Peek {
        // SAFETY: frames of a thread that runs, and their code objects with what these hold, stay as long as it is here; that they
        // lie as the version says was found out by asking first.
        unsafe { Peek::trusting() }
    }
}
