//! Which threads are inside of a function that they tell of a call, and what was odd about such functions.

use crate::thread_word;
use core::sync::atomic::{AtomicUsize, Ordering};

/// Threads that can be inside of hooks at the same time.
const THREADS: usize = 64;

/// A thread that is inside of a hook.
pub struct Inside {
    /// 0: vacant.
    thread: AtomicUsize,
    /// About where its stack was when the hook was called.
    stack: AtomicUsize,
    /// The block that it is told of.
    block: AtomicUsize,
}

static INSIDE: [Inside; THREADS] =
    [const { Inside { thread: AtomicUsize::new(0), stack: AtomicUsize::new(0), block: AtomicUsize::new(0) } }; THREADS];

static NESTED: AtomicUsize = AtomicUsize::new(0);
static LEFT: AtomicUsize = AtomicUsize::new(0);
static UNTOLD: AtomicUsize = AtomicUsize::new(0);
static REFUSED: AtomicUsize = AtomicUsize::new(0);

/// What hooks were not told, and what was odd about them, since the program began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HookFigures {
    /// Calls that hooks made themselves: nobody is told of these.
    pub nested: u64,
    /// Hooks that did not come back, by `longjmp` say, as was found out when their thread called again from a frame above that of the
    /// hook. Until then it cannot be told whether a call is the hook's, and hooks are told of none (see `nested`).
    pub left: u64,
    /// Calls of which nobody was told because 64 threads were inside of hooks already.
    pub untold: u64,
    /// Hooks that gave back, or resized, the block that they were just told of: that was not done.
    pub refused: u64,
}

/// See [`HookFigures`].
pub fn hook_figures() -> HookFigures {
    let get = |figure: &AtomicUsize| figure.load(Ordering::Relaxed) as u64;
    HookFigures { nested: get(&NESTED), left: get(&LEFT), untold: get(&UNTOLD), refused: get(&REFUSED) }
}

/// How many places are taken: most calls look no further.
static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// Where the calling thread is noted, if it is inside of a hook.
fn own() -> Option<&'static Inside> {
    if TAKEN.load(Ordering::Relaxed) == 0 {
        return None;
    }
    let thread = thread_word::id();
    INSIDE.iter().find(|inside| inside.thread.load(Ordering::Relaxed) == thread)
}

/// A place for the calling thread, which is about to be inside of a hook; `None`: it is inside already, or there is none.
pub fn enter(stack: usize) -> Option<&'static Inside> {
    if let Some(own) = own() {
        // Stacks grow down: what lies above this call encloses it.
        if stack < own.stack.load(Ordering::Relaxed) {
            NESTED.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        LEFT.fetch_add(1, Ordering::Relaxed);
        own.stack.store(stack, Ordering::Relaxed);
        return Some(own);
    }
    let claim =
        |inside: &&Inside| inside.thread.compare_exchange(0, usize::MAX, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    let Some(own) = INSIDE.iter().find(claim) else {
        UNTOLD.fetch_add(1, Ordering::Relaxed);
        return None;
    };
    // A thread sees its own; others do not look for it.
    TAKEN.fetch_add(1, Ordering::Relaxed);
    own.stack.store(stack, Ordering::Relaxed);
    own.thread.store(thread_word::id(), Ordering::Release);
    Some(own)
}

impl Inside {
    /// It is about to be told of this block; 0: of none.
    pub fn note_block(&self, address: usize) {
        self.block.store(address, Ordering::Relaxed);
    }

    /// It has come out. (Where a signal handler on a stack of its own took it for one that had been left, that has come out for it.)
    pub fn leave(&self) {
        if self.thread.load(Ordering::Relaxed) == thread_word::id() {
            self.block.store(0, Ordering::Relaxed);
            TAKEN.fetch_sub(1, Ordering::Relaxed);
            self.thread.store(0, Ordering::Release);
        }
    }
}

/// Whether a hook gives a block back, or resizes it, that it is just told of: that is not done, and counted.
#[cold]
#[inline(never)]
pub fn refuses(block: usize) -> bool {
    // What is called from above the hook is not called by it: that was left by `longjmp`, and the block may be given back.
    let here = (&raw const block).addr();
    let is_told = own().is_some_and(|inside| {
        block != 0 && inside.block.load(Ordering::Relaxed) == block && here < inside.stack.load(Ordering::Relaxed)
    });
    if is_told {
        REFUSED.fetch_add(1, Ordering::Relaxed);
    }
    is_told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_out_twice_is_out_once() {
        let hook = enter(1000).expect("a place");
        assert!(enter(900).is_none(), "its own calls");
        // From a frame above it: by a handler on another stack, or after a `longjmp`.
        let handler = enter(2000).expect("the same place");
        handler.leave();
        hook.leave();
        let again = enter(1000).expect("a place");
        assert!(enter(900).is_none(), "its own calls");
        again.leave();
        assert!(own().is_none());
    }
}
