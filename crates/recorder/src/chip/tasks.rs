//! The table of tasks. A gone task keeps its row.

use super::config::task_bytes;
use super::shape::{Fixed, Shape};
use super::word::Word;
use super::{Caller, ChipLedger};
use core::borrow::BorrowMut;
use heapledger_format::section::{THREAD_NAME_BYTES, thread, thread_state};
use heapledger_format::{TallyCounter, ThreadRow, WordSize};

impl<S: Shape, R: BorrowMut<[S::Word]>> ChipLedger<S, R> {
    /// Gives a task its row, with a name; a task that was never introduced gets a nameless one on its first call.
    /// Returns false if the table is full: its blocks are entered without a task.
    pub fn task_begins(&mut self, handle: S::Word, id: u32, name: &str) -> bool {
        self.update(&Caller::default(), |ledger| {
            ledger.end_task(handle); // one of that handle that nobody took leave of
            let Some(row) = ledger.new_task_row(handle) else { return false };
            let element = ledger.task_at(row);
            ledger.put(element.wrapping_add(thread::id(S::Word::SIZE)), 4, u64::from(id));
            let name = name.as_bytes();
            ledger
                .copy(element.wrapping_add(thread::name(S::Word::SIZE)), name.get(..THREAD_NAME_BYTES).unwrap_or(name));
            true
        })
    }

    /// A task is gone: its handle may be given to another.
    pub fn task_ends(&mut self, handle: S::Word) {
        self.update(&Caller::default(), |ledger| ledger.end_task(handle));
    }

    /// Where a row lies, in bytes.
    fn task_at(&self, row: ThreadRow) -> usize {
        let first = self.places.tasks.at.wrapping_mul(S::WORD_BYTES);
        first.wrapping_add((row.0 as usize).wrapping_mul(task_bytes::<S>()))
    }

    fn end_task(&mut self, handle: S::Word) {
        if let Some(row) = self.known_task_row(handle) {
            self.put(self.task_at(row).wrapping_add(thread::state(S::Word::SIZE)), 4, u64::from(thread_state::GONE));
        }
    }

    fn known_task_row(&self, handle: S::Word) -> Option<ThreadRow> {
        (0..self.tasks_used).map(ThreadRow).find(|row| {
            let element = self.task_at(*row);
            self.get(element.wrapping_add(thread::state(S::Word::SIZE)), 4).widen() == u64::from(thread_state::ALIVE)
                && self.get(element.wrapping_add(thread::handle(S::Word::SIZE)), S::WORD_BYTES) == handle
        })
    }

    fn new_task_row(&mut self, handle: S::Word) -> Option<ThreadRow> {
        let row = ThreadRow(self.tasks_used);
        if row.0 == self.places.tasks.count {
            if self.places.tasks.count != 0 {
                self.add_tally(TallyCounter::ThreadsUnnamed, 1);
            }
            return None;
        }
        self.tasks_used = self.tasks_used.wrapping_add(1);
        let element = self.task_at(row);
        let now = self.time();
        self.put(element.wrapping_add(thread::handle(S::Word::SIZE)), S::WORD_BYTES, handle.widen());
        let most = S::Word::default().not().widen();
        self.put(element.wrapping_add(thread::started(S::Word::SIZE)), S::WORD_BYTES, now.0.min(most));
        self.put(element.wrapping_add(thread::state(S::Word::SIZE)), 4, u64::from(thread_state::ALIVE));
        self.put(S::TASKS_USED_AT, S::WORD_BYTES, u64::from(self.tasks_used));
        Some(row)
    }

    /// The row of the calling task.
    pub(super) fn task_row(&mut self, handle: S::Word) -> Option<ThreadRow> {
        self.known_task_row(handle).or_else(|| self.new_task_row(handle))
    }

    /// Adds to a counter of the calling task's row.
    pub(super) fn add_to_task(&mut self, field: fn(WordSize) -> usize, amount: u64) {
        if let (true, Some(row)) = (S::HAS_TASKS, self.task) {
            self.add(self.task_at(row).wrapping_add(field(S::Word::SIZE)), amount);
        }
    }
}
