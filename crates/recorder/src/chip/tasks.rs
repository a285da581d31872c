//! The table of tasks. A gone task keeps its row.

use super::{Caller, ChipLedger};
use heapledger_format::section::{THREAD_NAME_BYTES, thread, thread_state};
use heapledger_format::{SectionKind, TallyCounter, ThreadRow, WordSize};

const WORD: WordSize = WordSize::W32;

impl ChipLedger<'_> {
    /// Gives a task its row, with a name; a task that was never introduced gets a nameless one on its first call.
    /// Returns false if the table is full: its blocks are entered without a task.
    pub fn task_begins(&mut self, handle: u32, id: u32, name: &str) -> bool {
        self.update(&Caller::default(), |ledger| {
            ledger.end_task(handle); // one of that handle that nobody took leave of
            let Some(row) = ledger.new_task_row(handle) else { return false };
            let element = ledger.plan.tasks.element(row.0);
            ledger.put(element.wrapping_add(thread::id(WORD)), 4, u64::from(id));
            let name = name.as_bytes();
            ledger.copy(element.wrapping_add(thread::name(WORD)), name.get(..THREAD_NAME_BYTES).unwrap_or(name));
            true
        })
    }

    /// A task is gone: its handle may be given to another.
    pub fn task_ends(&mut self, handle: u32) {
        self.update(&Caller::default(), |ledger| ledger.end_task(handle));
    }

    fn end_task(&mut self, handle: u32) {
        if let Some(row) = self.known_task_row(handle) {
            self.put(
                self.plan.tasks.element(row.0).wrapping_add(thread::state(WORD)),
                4,
                u64::from(thread_state::GONE),
            );
        }
    }

    fn known_task_row(&self, handle: u32) -> Option<ThreadRow> {
        (0..self.tasks_used).map(ThreadRow).find(|row| {
            let element = self.plan.tasks.element(row.0);
            self.get(element.wrapping_add(thread::state(WORD)), 4) == u64::from(thread_state::ALIVE)
                && self.get(element.wrapping_add(thread::handle(WORD)), 4) == u64::from(handle)
        })
    }

    fn new_task_row(&mut self, handle: u32) -> Option<ThreadRow> {
        let row = self.tasks_used;
        if row == self.plan.tasks.count {
            if self.plan.tasks.count != 0 {
                self.add_tally(TallyCounter::ThreadsUnnamed, 1);
            }
            return None;
        }
        self.tasks_used = self.tasks_used.wrapping_add(1);
        let element = self.plan.tasks.element(row);
        let now = self.time();
        self.put(element.wrapping_add(thread::handle(WORD)), 4, u64::from(handle));
        self.put(element.wrapping_add(thread::started(WORD)), 4, now.0.min(u64::from(u32::MAX)));
        self.put(element.wrapping_add(thread::state(WORD)), 4, u64::from(thread_state::ALIVE));
        self.set_used(SectionKind::Threads, self.tasks_used);
        Some(ThreadRow(row))
    }

    /// The row of the calling task.
    pub(super) fn task_row(&mut self, handle: u32) -> Option<ThreadRow> {
        self.known_task_row(handle).or_else(|| self.new_task_row(handle))
    }

    /// Adds to a counter of the calling task's row.
    pub(super) fn add_to_task(&mut self, field: fn(WordSize) -> usize, amount: u64) {
        if let Some(row) = self.task {
            let place = self.plan.tasks.element(row.0).wrapping_add(field(WORD));
            self.put(place, 4, self.get(place, 4).wrapping_add(amount));
        }
    }
}
