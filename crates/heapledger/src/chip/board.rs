//! What a firmware says of itself, and what it is told.
//!
//! # Safety
//! A room with `unsafe`: the trait asks for a promise.

use super::{Address, Caller, Config, Frame, FrameList, GuardedHeap, HeapDamage, Kind, Stacks, breaks, walk};
use core::marker::PhantomData;

/// What a program without an operating system says of itself. All of it is fixed when the program is compiled; what is left as it is costs nothing.
///
/// # Safety
/// While [`Board::alone`] runs something, no other code of the program may run it or anything that is called by `alone` of a board with the same
/// ledger: no other task, no other core. (An interrupt that comes all the same and allocates is not entered, and counted.) What this asks
/// for neither allocates nor frees.
pub unsafe trait Board: Sized + 'static {
    /// What is recorded, and how much there is room for. What a ledger cannot hold is refused when the program is compiled.
    const CONFIG: Config<'static>;
    /// How call stacks are found.
    const STACKS: Stacks = Stacks::FramePointers;
    /// The region survives a reset: it lies where nothing sets it to zero (`.noinit`, `.uninit`, memory of a real-time clock). See [`Books::survivor`].
    const SURVIVES: bool = false;

    /// Runs `work` alone, and once: with interrupts off, say. It is short. Without this, whoever allocates does so alone: in one task, or
    /// under a lock that is held around the whole allocator.
    #[inline(always)]
    fn alone<T>(work: impl FnOnce() -> T) -> T {
        work()
    }

    /// The clock, if [`Config::clock`] says that there is one.
    #[inline(always)]
    fn ticks() -> u32 {
        0
    }

    /// The handle of the task that runs, if [`Config::tasks`] says that tasks are recorded.
    #[inline(always)]
    fn task() -> Option<Address> {
        None
    }

    /// Whether an interrupt's handler runs. Asked where tasks are recorded.
    #[inline(always)]
    fn is_in_interrupt() -> bool {
        false
    }

    /// One past the last byte of the stack that has a word at this address. Memory up to there is read.
    /// 0: not known, and stacks are as deep as the address behind the call.
    #[inline(always)]
    fn stack_end(within: usize) -> usize {
        let _ = within;
        walk::main_stack_end()
    }

    /// Where code lies: what a stack holds of other addresses is no frame.
    #[inline(always)]
    fn code() -> core::ops::Range<usize> {
        0..usize::MAX
    }

    /// Finds return addresses, the innermost first. `from` is where the allocator was called.
    #[inline(always)]
    fn stack(from: Frame, frames: &mut FrameList) {
        walk::take::<Self>(from, frames);
    }

    /// The build id that the linker gave the firmware, if [`Config::build_id_bytes`] says that it is recorded: `linked_build_id` finds it.
    #[inline(always)]
    fn build_id() -> &'static [u8] {
        &[]
    }

    /// An update is complete.
    #[inline(always)]
    fn update_done() {
        breaks::update_done();
    }

    /// The history ring is full: from the next free on, the oldest entries are overwritten.
    #[inline(always)]
    fn history_full() {
        breaks::history_full();
    }

    /// So many records are in use, for the first time, as [`Config::warn_records`] says: the next image is to be taken soon.
    #[inline(always)]
    fn records_scarce() {}

    /// A block found no room.
    #[inline(always)]
    fn records_full() {
        breaks::records_full();
    }

    /// A stack found no room.
    #[inline(always)]
    fn sites_full() {
        breaks::sites_full();
    }

    /// Heaps whose blocks are guarded: [`guarded_heaps!`](crate::guarded_heaps) has them. Only [`GuardedAllocator`] asks, and whoever calls [`Books::dress`].
    #[inline(always)]
    fn guarded() -> &'static [GuardedHeap] {
        &[]
    }

    /// Whether freed memory of these is filled, and new memory.
    #[inline(always)]
    fn fills_freed() -> bool {
        false
    }

    /// Damage was found, or a wrong call of a guarded allocator's: it is in the ledger, if that has room for errors. Neither allocates nor frees.
    #[inline(always)]
    fn damaged(_found: &HeapDamage) {}

    /// An error was entered: debuggers stop here.
    #[inline(always)]
    fn error_found() {
        breaks::error_found();
    }

    /// Is told what was just entered, to pass it on: over a line, say ([`Sending`]). It runs alone.
    #[inline(always)]
    fn entered(_what: &Entered<'_, Self>) {}
}

/// What was just entered into the ledger of a board, or found no room in it. Whoever has this is alone, as [`Board::alone`] says.
pub enum Entered<'c, B> {
    /// A block.
    Block {
        /// The function that returned it.
        kind: Kind,
        /// What it returned.
        address: Address,
        /// Bytes asked for.
        size: Address,
        /// Who called.
        caller: &'c Caller<'c, Address>,
        /// When, in ticks of the ledger; 0 where time is not recorded.
        time: Address,
        /// Bytes asked for in all blocks that live now.
        live_bytes: Address,
        /// Nobody else makes one of these.
        alone: AloneOn<B>,
    },
    /// The end of a block, also of one that is not in the ledger.
    End {
        /// The function that was called.
        by: Kind,
        /// Where the block lay.
        address: Address,
        /// Who called. Without a history nobody asks for the stack.
        caller: &'c Caller<'c, Address>,
        /// When.
        time: Address,
        /// Bytes asked for in all blocks that live now.
        live_bytes: Address,
        /// Nobody else makes one of these.
        alone: AloneOn<B>,
    },
    /// A call returned no block.
    Failed {
        /// When.
        time: Address,
        /// Nobody else makes one of these.
        alone: AloneOn<B>,
    },
}

/// Shows that its owner is alone, as a board's [`Board::alone`] says. It goes to nobody else.
pub struct AloneOn<B> {
    board: PhantomData<fn() -> B>,
    here: PhantomData<*const ()>,
}

impl<B> AloneOn<B> {
    /// For whoever is.
    pub(super) const fn new() -> Self {
        AloneOn { board: PhantomData, here: PhantomData }
    }
}
