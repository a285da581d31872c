//! Sums of a ledger, as its program asks for them: of all, of a window in time, of a task.

use super::ChipLedger;
use super::memory::{Memory, figure, ones};
use super::shape::{Fixed, Shape};
use super::word::Word;
use heapledger_format::section::thread;
use heapledger_format::{GlobalCounter, TallyCounter, ThreadRow};

/// What a ledger has counted. Numbers go round at the end of a word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct ChipSums<W = u32> {
    /// Blocks that began, and their bytes.
    pub allocations: W,
    /// Bytes.
    pub bytes_allocated: W,
    /// Blocks that ended, and their bytes.
    pub frees: W,
    /// Bytes.
    pub bytes_freed: W,
    /// Calls that gave no block.
    pub failed_calls: W,
    /// Blocks that found no room in the ledger: they are in none of the others.
    pub lost: W,
}

impl<W: Word> ChipSums<W> {
    fn each(self, other: Self, change: impl Fn(W, W) -> W) -> Self {
        ChipSums {
            allocations: change(self.allocations, other.allocations),
            bytes_allocated: change(self.bytes_allocated, other.bytes_allocated),
            frees: change(self.frees, other.frees),
            bytes_freed: change(self.bytes_freed, other.bytes_freed),
            failed_calls: change(self.failed_calls, other.failed_calls),
            lost: change(self.lost, other.lost),
        }
    }
}

/// A window in time: what was allocated and freed while it was open. It lies where its owner wants, takes nothing of the ledger, and there may be any
/// number. Readers of the ledger do not know of it: they find what it holds by [`ChipWindow::first`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct ChipWindow<W = u32> {
    /// What was counted before it last went on; while it is paused, what it has.
    since: ChipSums<W>,
    is_open: W,
    /// The number that the next block had when it opened.
    first: W,
}

impl<W: Word> ChipWindow<W> {
    /// One that opens now, when so much was counted, and the next block has this number.
    pub fn open(now: ChipSums<W>, first: W) -> ChipWindow<W> {
        ChipWindow { since: now, is_open: W::cut(1), first }
    }

    /// What it has, now that so much was counted.
    pub fn sums(&self, now: ChipSums<W>) -> ChipSums<W> {
        if self.is_open == W::ZERO { self.since } else { now.each(self.since, W::minus) }
    }

    /// It pauses, or is over: nothing counts from now on. (One that is paused already stays as it is.)
    pub fn pause(&mut self, now: ChipSums<W>) {
        (self.since, self.is_open) = (self.sums(now), W::ZERO);
    }

    /// It goes on.
    pub fn resume(&mut self, now: ChipSums<W>) {
        if self.is_open == W::ZERO {
            (self.since, self.is_open) = (now.each(self.since, W::minus), W::cut(1));
        }
    }

    /// What was counted before it opened, or last went on.
    pub fn opened_at(&self) -> ChipSums<W> {
        self.since
    }

    /// The number that the next block, or end of one, had when it opened: in the ledger `number >= …` are those that began since, pauses too. One that opens when this is
    /// over has the number with which they end.
    pub fn first(&self) -> W {
        self.first
    }

    /// The number of the last block before it: `live_after` has those that began since, pauses too. `None`: it is the first.
    pub fn after(&self) -> Option<W> {
        (self.first != W::ZERO).then(|| self.first.minus(W::cut(1)))
    }
}

/// What a task has done, and what it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct ChipAccount<W = u32> {
    /// Blocks that it began.
    pub allocations: W,
    /// Their bytes.
    pub bytes_allocated: W,
    /// Blocks that it ended, whoever began them.
    pub frees: W,
    /// Blocks that it began and that live, whoever knows of them.
    pub live_blocks: W,
    /// Their bytes.
    pub live_bytes: W,
}

impl<S: Shape, R: Memory<S::Word>> ChipLedger<S, R> {
    /// What it has counted so far.
    pub fn sums(&self) -> ChipSums<S::Word> {
        ChipSums {
            allocations: self.tally(TallyCounter::Allocations),
            bytes_allocated: self.tally(TallyCounter::BytesAllocated),
            frees: self.tally(TallyCounter::Frees),
            bytes_freed: self.tally(TallyCounter::BytesFreed),
            failed_calls: self.tally(TallyCounter::FailedCalls),
            lost: self.tally(TallyCounter::LostNoRecord).plus(self.tally(TallyCounter::LostNoIndex)),
        }
    }

    /// A window that opens now.
    pub fn window(&self) -> ChipWindow<S::Word> {
        ChipWindow::open(self.sums(), self.global(GlobalCounter::NextNumber))
    }

    /// The account of a task, also of one that is gone: the last one of this handle. `None`: there is no row of it. It takes one look at each record.
    pub fn account(&self, handle: S::Word) -> Option<ChipAccount<S::Word>> {
        if !S::HAS_TASKS {
            return None;
        }
        let used = (self.word(S::TASKS_USED).widen() as u32).min(S::room().tasks);
        let row = (0..used).rev().find(|row| self.handle_of(ThreadRow(*row)) == handle)?;
        let figure_of = |place| self.task_figure(ThreadRow(row), place);
        let word = S::Word::SIZE;
        let mut account = ChipAccount {
            allocations: figure_of(thread::allocations(word)),
            bytes_allocated: figure_of(thread::bytes_allocated(word)),
            frees: figure_of(thread::frees(word)),
            ..ChipAccount::default()
        };
        let used = self.word(S::RECORDS_USED).widen() as usize;
        let all = self.words(S::RECORDS_AT, used.wrapping_mul(S::RECORD_WORDS));
        for record in all.chunks_exact(S::RECORD_WORDS.max(1)) {
            let owner = figure::<S>(record, S::THREAD);
            let is_its = owner.widen() as u32 == row && owner != ones::<S>(S::THREAD.width_bits);
            if is_its && figure::<S>(record, S::NUMBER) != S::Word::ZERO {
                account.live_blocks = account.live_blocks.plus(S::Word::cut(1));
                account.live_bytes = account.live_bytes.plus(figure::<S>(record, S::SIZE));
            }
        }
        Some(account)
    }
}
