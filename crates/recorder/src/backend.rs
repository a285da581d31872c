//! What the policy needs of a kind of target, and what it tells it.

use heapledger_format::{Entry, Kind, Site, TallyCounter, ThreadRow, Ticks};

/// What became of [`Backend::insert`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// The address leads to the slot.
    Done,
    /// It does, and it led to this other slot before, whose free nobody saw.
    Displaced(Slot),
    /// The index has no room, or cannot hold such an address.
    Full,
}

/// What a call does to a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEffect {
    /// The program gets one.
    Gives,
    /// It gives one back.
    Takes,
}

/// A sequence number: the order of beginnings and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Number(pub u64);

impl Number {
    /// What stands in for a number when they have run out.
    pub const LAST: Number = Number(heapledger_format::record::NUMBER_MAX);
}

/// A place for a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Slot(pub u32);

/// By how much the live heap grows; below 0: shrinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Bytes asked for.
    pub bytes: i64,
    /// Blocks.
    pub blocks: i64,
}

/// How a ledger is kept on one kind of target.
///
/// `&mut self` stands for the calling thread's access: a backend for many threads hands each
/// thread its own value over shared tables.
pub trait Backend {
    /// Does what is rarely done. A backend that is compiled into its callers can have it done with a copy of itself, so that its
    /// own fields need not lie in memory for it.
    #[inline(always)]
    fn aside<R>(&mut self, work: impl FnOnce(&mut Self) -> R) -> R
    where
        Self: Sized,
    {
        work(self)
    }
    /// Ticks since the ledger began.
    fn now(&mut self) -> Ticks;
    /// The next sequence number; `None` when they have run out.
    fn number(&mut self) -> Option<Number>;
    /// The number of a block that begins: higher than those of the ends of all that were where it is.
    #[inline(always)]
    fn number_of(&mut self, block: &Begun) -> Option<Number> {
        let _ = block;
        self.number()
    }
    /// The number of the end of the block in a slot, which the index no longer leads to: higher than the block's own.
    #[inline(always)]
    fn number_of_end(&mut self, slot: Slot, address: u64) -> Option<Number> {
        let _ = (slot, address);
        self.number()
    }
    /// The number of the block that a `realloc` gave, when `number` was taken as it began: the same, if it is higher than those
    /// of the ends of all blocks that were where it is.
    #[inline(always)]
    fn number_of_moved(&mut self, number: Number, block: &Begun) -> Number {
        let _ = block;
        number
    }
    /// The calling thread's row.
    fn thread(&mut self) -> Option<ThreadRow>;
    /// A vacant slot.
    fn take_slot(&mut self) -> Option<Slot>;
    /// Gives a vacant slot back.
    fn release_slot(&mut self, slot: Slot);
    /// Makes the record visible: its commit word last. `alignment`: see [`Begun::alignment`].
    fn publish(&mut self, slot: Slot, entry: &Entry, alignment: u64);
    /// A block that begins is in the ledger, and on the calling thread's account, if there are accounts. Returns for how many blocks
    /// of its size it stands: 1, unless the ledger samples.
    fn weigh(&mut self, block: &Begun, number: Number) -> u64 {
        let _ = (block, number);
        1
    }
    /// Whether a free of an unknown block is worth counting: not, where most blocks are unknown.
    fn counts_unknown(&self) -> bool {
        true
    }
    /// Size and weight of the block whose record is in a slot that the caller owns, and which ends: it is on nobody's account any
    /// more. `None` if the slot is vacant.
    fn measure(&mut self, slot: Slot) -> Option<Measure>;
    /// Makes the slot vacant: its commit word is 0 from now on.
    fn vacate(&mut self, slot: Slot);
    /// Lets `address` lead to `slot`.
    fn insert(&mut self, address: u64, slot: Slot) -> Inserted;
    /// The slot that `address` leads to, which it no longer does. At most one caller gets it.
    fn remove(&mut self, address: u64) -> Option<Slot>;
    /// A block is about to be entered into the history: time to make room for it, as long as little stands on the stack.
    #[inline(always)]
    fn expect_history(&mut self) {}
    /// It has been entered, and less stands on the stack than when it was: time for what follows from it.
    #[inline(always)]
    fn expected_history(&mut self) {}
    /// Enters the block whose record is in a slot into the history, if there is one, with what freed it.
    fn history(&mut self, slot: Slot, freed: &Freed);
    /// Adds to a counter.
    fn count(&mut self, counter: TallyCounter, amount: u64);
    /// Counts so many calls that gave or took a block.
    fn count_call(&mut self, kind: Kind, effect: CallEffect, amount: u64);
    /// Follows live bytes and blocks, and with them the peak.
    fn live(&mut self, change: Change, time: Ticks);
}

/// A block that an allocation function just returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begun {
    /// The function.
    pub kind: Kind,
    /// What it returned.
    pub address: u64,
    /// Bytes asked for.
    pub size: u64,
    /// Bytes it really has, if asked.
    pub actual: Option<u64>,
    /// Who calls.
    pub site: Site,
    /// The heap it came from.
    pub heap: u8,
    /// Its alignment, where who gives it back will say so and records have room for it; else 0.
    pub alignment: u64,
}

/// A call that frees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The function.
    pub by: Kind,
    /// Who calls.
    pub site: Site,
}

/// How much a record stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measure {
    /// Bytes asked for.
    pub bytes: u64,
    /// For how many such blocks.
    pub weight: u64,
}

/// The end of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freed {
    /// Sequence number of the free. That of the new block if `realloc` freed.
    pub number: Number,
    /// By how much that of the new block is higher after all.
    pub later: u32,
    /// The call.
    pub ended: Ended,
    /// When.
    pub time: Ticks,
}
