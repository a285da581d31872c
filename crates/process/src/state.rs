//! What the recorder keeps for a thread, in private memory of its own.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use heapledger_format::bytes::WordSize;
use heapledger_format::counter::TALLY_KINDS_AT;
use heapledger_format::kind::KIND_LIMIT;
use heapledger_format::section::thread;
use heapledger_format::{Kind, TallyCounter};
use heapledger_linux::clock::Moment;
use heapledger_linux::stack::StackRange;
use heapledger_unwind::{Fresh, Head, LastStack, Memo, Place, RuleCache, Word};

use crate::slots::LOCAL_MAX;

/// Sets of a thread's rule cache: 128 KiB, of which only what is used is ever touched.
pub const CACHE_SETS: usize = 4096;

/// Sets of a thread's memory of whole stacks, and words of all stacks in it: 712 KiB, of which only what is used is ever touched.
pub const MEMO_SETS: usize = 2048;
/// See [`MEMO_SETS`].
pub const MEMO_WORDS: usize = 48 << 10;

/// Heaps whose ranges are followed.
pub const HEAPS_MAX: usize = 4;

/// An address range. All zeros: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeapRange {
    /// The complement of the lowest address, so that 0 means none.
    pub below_low: usize,
    /// The end of the highest block.
    pub high: usize,
}

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
    /// The stack that the thread began on.
    pub own: StackRange,
    /// Changes of memory that this thread has taken note of.
    pub memory_changes: u32,
    /// The alternate signal stack, while the thread is on it.
    pub alternate: StackRange,
    /// Whether the present call came in on the alternate stack.
    pub on_alternate: bool,
    /// Number of this state plus 1.
    pub number_plus_1: u32,
    /// Kernel id of the thread that owns this state.
    pub tid: u32,
    /// Its row in the ledger.
    pub row: u32,
    /// Code unloadings at the time the rule cache was last flushed.
    pub generation: u32,
    /// The first number that was taken from the lease, or will be.
    pub first_number: u64,
    /// Next sequence number of the lease.
    pub next_number: u64,
    /// End of the lease.
    pub end_number: u64,
    /// Rules made that have been counted.
    pub rules_counted: u64,
    /// Leases so far.
    pub leases: u32,
    /// Requested bytes not yet folded into the ledger's live bytes.
    pub pending_bytes: i64,
    /// How many there may be, either way.
    pub allowance: i64,
    /// Blocks not yet folded in.
    pub pending_blocks: i64,
    /// Updates since the last folding.
    pub pending_updates: u32,
    /// Live bytes of the process when this thread last folded its own in.
    pub folded_bytes: i64,
    /// Live blocks then.
    pub folded_blocks: i64,
    /// Pending bytes above which the peak is exceeded, as far as this thread can know.
    pub headroom: i64,
    /// What the next gap between samples is drawn from; 0: none has been drawn.
    pub random: u64,
    /// The clock when the numbers were leased.
    pub moment: Moment,
    /// Vacant slots in `slots`.
    pub slot_count: u32,
    /// Next entry of the history that is leased.
    pub next_entry: u64,
    /// End of that lease.
    pub end_entry: u64,
    /// How many entries it has; 0: none are leased.
    pub entries: u64,
    /// Entries of the history that were leased so far, all of them filled but for those up to `end_entry`.
    pub entries_filled: u64,
    /// The thread's row, or null.
    pub row_bytes: *mut u8,
    /// Where the thread's own counts go: its row, or `no_row`.
    pub counts: *mut u8,
    /// The tally element of this state.
    pub tally: *mut AtomicU64,
    /// The thread's name as last seen.
    pub name: [u8; 16],
    /// Vacant slots, last given back first.
    pub slots: [u32; LOCAL_MAX],
    /// Rules by code address.
    pub cache: RuleCache<CACHE_SETS>,
    /// The address ranges of the heaps, as far as this thread has seen them.
    pub ranges: [HeapRange; HEAPS_MAX],
    /// Takes the counts of a thread without a row.
    pub no_row: [u64; 8],
    /// Stacks that were taken lately.
    pub memo: Memo<MEMO_SETS, MEMO_WORDS>,
    /// The last stacks: of a call that gave a block, and of one that took one. A program goes to and fro between the
    /// two, and each resembles the last of its kind.
    pub last: [Head; 2],
    // Arrays follow, each as long as the depth limit says: see `ThreadState::stacks`.
}

/// Bytes of a kept frame: a word, a place, two further words.
const KEPT_BYTES: usize = 3 * size_of::<Word>() + size_of::<Place>();
/// Bytes behind a state for each frame of a stack: in both last stacks, a fresh frame, a pc.
const FRAME_BYTES: usize = 2 * KEPT_BYTES + size_of::<Fresh>() + 8;
const _: () = assert!(size_of::<heapledger_unwind::Word>() == 16 && thread::bytes(WordSize::W64) <= 64);

/// Room for stacks behind a state.
pub struct Stacks<'a> {
    /// The thread's last stack.
    pub last: LastStack<'a>,
    /// Room for program counters.
    pub pcs: &'a mut [u64],
    /// The rule cache.
    pub cache: &'a mut RuleCache<CACHE_SETS>,
    /// Stacks taken lately.
    pub memo: &'a mut Memo<MEMO_SETS, MEMO_WORDS>,
}

impl ThreadState {
    /// Bytes of a state with room for a stack.
    pub const fn bytes(depth_limit: usize) -> usize {
        (size_of::<ThreadState>() + depth_limit * FRAME_BYTES).next_multiple_of(4096)
    }

    /// Forgets what was learnt about code.
    pub fn forget_code(&mut self) {
        self.cache.flush();
        self.last.iter_mut().for_each(Head::forget);
    }

    /// The arrays behind this state. `gives`: with the last stack of a call that gave a block.
    ///
    /// # Safety
    /// The state must have been mapped with [`ThreadState::bytes`] of this limit, and the arrays not be in use.
    #[inline(always)]
    pub unsafe fn stacks<'a>(&mut self, depth_limit: usize, gives: bool) -> Stacks<'a> {
        use core::slice::from_raw_parts_mut as slice;
        const { assert!(size_of::<ThreadState>().is_multiple_of(8)) };
        // SAFETY: the caller vouches for the room; all of it is zero or was written as what it is, and both are values.
        unsafe {
            let state = &raw mut *self;
            let kept = state.add(1).cast::<u8>();
            let fresh = kept.add(2 * KEPT_BYTES * depth_limit).cast::<Fresh>();
            let pcs = fresh.add(depth_limit).cast::<u64>();
            let [taking, giving] = &mut (*state).last;
            let (head, kept) = if gives { (giving, kept) } else { (taking, kept.add(KEPT_BYTES * depth_limit)) };
            let frames = kept.cast::<Word>();
            let words = frames.add(depth_limit);
            let places = words.add(2 * depth_limit).cast::<Place>();
            Stacks {
                last: LastStack {
                    head,
                    frames: slice(frames, depth_limit),
                    places: slice(places, depth_limit),
                    words: slice(words, 2 * depth_limit),
                    fresh: slice(fresh, depth_limit),
                },
                pcs: slice(pcs, depth_limit),
                cache: &mut (*state).cache,
                memo: &mut (*state).memo,
            }
        }
    }

    /// Adds to a counter of this state's tally. Only its thread does, so no locked instruction is needed.
    #[inline(always)]
    pub fn count(&self, counter: TallyCounter, amount: u64) {
        self.add(counter as usize, amount);
    }

    /// Counts so many calls that gave (`began`) or took a block.
    #[inline(always)]
    pub fn count_call(&self, kind: Kind, began: bool, amount: u64) {
        let half = if began { 0 } else { KIND_LIMIT };
        self.add(TALLY_KINDS_AT + half + usize::from(kind.0) % KIND_LIMIT, amount);
    }

    #[inline(always)]
    fn add(&self, word: usize, amount: u64) {
        // SAFETY: a backed element of `TALLY_WORDS` words, leased to this state before it was handed out.
        let word = unsafe { &*self.tally.add(word) };
        word.store(word.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
    }
}
