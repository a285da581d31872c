//! What the recorder keeps for a thread, in private memory of its own.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use heapledger_format::counter::TALLY_KINDS_AT;
use heapledger_format::kind::KIND_LIMIT;
use heapledger_format::{Kind, TallyCounter};
use heapledger_linux::stack::StackRange;
use heapledger_unwind::RuleCache;

use super::slots::LOCAL_MAX;

/// Sets of a thread's rule cache: 128 KiB, of which only what is used is ever touched.
pub const CACHE_SETS: usize = 4096;

/// A thread's state. Fresh memory, all zeros, is a valid one that belongs to nobody.
///
/// It is entered by one kernel thread at a time: the one whose id is [`ThreadState::tid`]. Within
/// that thread a signal handler can interrupt an update; [`ThreadState::guard`] tells it so.
#[repr(C)]
pub struct ThreadState {
    /// Address of the sign on the stack of the hook that is updating this state; 0 if none.
    pub guard: AtomicUsize,
    /// Stack address of the hook whose real function may call another replaced one; 0 if none.
    pub calling: AtomicUsize,
    /// What that call is about: a size, a block, or both.
    pub calling_about: [AtomicUsize; 2],
    /// Not 0 while the allocator is asked for the size of a block: what it allocates then is its own.
    pub asking: AtomicUsize,
    /// The stack that the thread was last seen on (not an alternate signal stack).
    pub native: StackRange,
    /// The alternate signal stack, while the thread is on it.
    pub alternate: StackRange,
    /// Whether the present call came in on the alternate stack.
    pub on_alternate: bool,
    /// Number of this state plus 1.
    pub number_plus_1: u32,
    /// Kernel id of the thread that owns this state.
    pub tid: u32,
    /// Process id of that thread (a raw `clone` can share memory and still be another process).
    pub tgid: u32,
    /// Its row in the ledger.
    pub row: u32,
    /// Code unloadings at the time the rule cache was last flushed.
    pub generation: u32,
    /// Next sequence number of the lease.
    pub next_number: u64,
    /// End of the lease.
    pub end_number: u64,
    /// Requested bytes not yet folded into the ledger's live bytes.
    pub pending_bytes: i64,
    /// Blocks not yet folded in.
    pub pending_blocks: i64,
    /// Updates since the last folding.
    pub pending_updates: u32,
    /// Vacant slots in `slots`.
    pub slot_count: u32,
    /// Next entry of the leased history chunk.
    pub next_entry: u64,
    /// End of that chunk; 0 if none is leased.
    pub end_entry: u64,
    /// The thread's row, or null.
    pub row_bytes: *mut u8,
    /// The tally element of this state.
    pub tally: *mut AtomicU64,
    /// The thread's name as last seen.
    pub name: [u8; 16],
    /// Vacant slots, last given back first.
    pub slots: [u32; LOCAL_MAX],
    /// Rules by code address.
    pub cache: RuleCache<CACHE_SETS>,
    /// Frames of the last stack that `nodes` knows.
    pub known_depth: u32,
    // Three arrays follow, each as long as the depth limit says: see `ThreadState::stacks`.
}

/// Room for stacks behind a state.
pub struct Stacks<'a> {
    /// The stack being taken, innermost frame first.
    pub frames: &'a mut [u64],
    /// The last stack, outermost frame first.
    pub known: &'a mut [u64],
    /// Its nodes in the trie.
    pub nodes: &'a mut [u32],
}

impl ThreadState {
    /// Bytes of a state with room for a stack.
    pub const fn bytes(depth_limit: usize) -> usize {
        (core::mem::size_of::<ThreadState>() + depth_limit * (8 + 8 + 4)).next_multiple_of(4096)
    }

    /// The arrays behind this state.
    ///
    /// # Safety
    /// The state must have been mapped with [`ThreadState::bytes`] of this limit, and the arrays not be in use.
    pub unsafe fn stacks<'a>(&mut self, depth_limit: usize) -> Stacks<'a> {
        // SAFETY: the caller vouches for the room; the state's size is a multiple of 8.
        unsafe {
            let frames = (&raw mut *self).add(1).cast::<u64>();
            let known = frames.add(depth_limit);
            let nodes = known.add(depth_limit).cast::<u32>();
            Stacks {
                frames: core::slice::from_raw_parts_mut(frames, depth_limit),
                known: core::slice::from_raw_parts_mut(known, depth_limit),
                nodes: core::slice::from_raw_parts_mut(nodes, depth_limit),
            }
        }
    }

    /// Adds to a counter of this state's tally. Only its thread does, so no locked instruction is needed.
    #[inline]
    pub fn count(&self, counter: TallyCounter, amount: u64) {
        self.add(counter as usize, amount);
    }

    /// Counts a call that gave (`began`) or took a block.
    #[inline]
    pub fn count_call(&self, kind: Kind, began: bool) {
        let half = if began { 0 } else { KIND_LIMIT };
        self.add(TALLY_KINDS_AT + half + usize::from(kind.0) % KIND_LIMIT, 1);
    }

    #[inline]
    fn add(&self, word: usize, amount: u64) {
        // SAFETY: a backed element of `TALLY_WORDS` words, leased to this state before it was handed out.
        let word = unsafe { &*self.tally.add(word) };
        word.store(word.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
    }
}
