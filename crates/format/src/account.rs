//! Who holds how much of which heap.

use crate::element::{Word, published};
use crate::ids::ThreadRowPlus1;

published! {
    /// An element of `accounts`: a thread and a heap that ever met. A block is on the account of the thread that allocated
    /// it, until it is freed by whomever.
    Account by thread {
        /// The thread, or all [without a row](ThreadRowPlus1::WITHOUT_ROW); the commit word.
        thread: ThreadRowPlus1,
        /// Row in `heaps`.
        heap: u32,
        /// Bytes asked for in its blocks.
        bytes: Word,
        /// The most that was.
        peak_bytes: Word,
        /// Blocks.
        blocks: Word,
        /// The most that there were.
        peak_blocks: Word,
        /// Blocks that the thread allocated there.
        allocations: Word,
        /// Of these, those that it freed itself.
        frees: Word,
        /// Those that others freed.
        frees_by_others: Word,
    }
}

published! {
    /// An element of `account_frees`: what a thread freed of another's account, and is not in that yet.
    FreedOfOthers by account {
        /// Row in `accounts` plus 1; the commit word.
        account: u32,
        /// Who freed, or all [without a row](ThreadRowPlus1::WITHOUT_ROW).
        thread: ThreadRowPlus1,
        /// Blocks.
        blocks: Word,
        /// Bytes asked for in these.
        bytes: Word,
    }
}

impl Account {
    /// The account with what `freed` says of it: it may lag, so nothing falls below 0.
    #[must_use]
    pub fn less(mut self, freed: &FreedOfOthers) -> Account {
        self.blocks.0 = self.blocks.0.saturating_sub(freed.blocks.0);
        self.bytes.0 = self.bytes.0.saturating_sub(freed.bytes.0);
        self.frees_by_others.0 = self.frees_by_others.0.saturating_add(freed.blocks.0);
        self
    }
}
