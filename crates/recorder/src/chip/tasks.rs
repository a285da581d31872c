//! The table of tasks. A gone task keeps its row; interrupts together have one.

use super::memory::{Memory, Table, ordered};
use super::shape::{Fixed, Shape, counter_word};
use super::word::Word;
use super::{ChipLedger, Running};
use heapledger_format::section::{THREAD_NAME_BYTES, thread, thread_state};
use heapledger_format::{GlobalCounter, TallyCounter, ThreadRow};

/// The name of the row of interrupts, whose handle is all ones.
const INTERRUPTS: &str = "interrupts";

/// A task's row as it is in records: all ones, if it has none.
#[derive(Clone, Copy)]
pub(super) struct Row(u32);

impl Row {
    pub(super) const NONE: Row = Row(u32::MAX);

    pub(super) fn figure<W: Word>(self) -> W {
        if self.0 == u32::MAX { W::ZERO.not() } else { W::cut(u64::from(self.0)) }
    }

    /// The number that errors have for it: 0 if it has none.
    pub(super) const fn plus_1(self) -> u32 {
        self.0.wrapping_add(1)
    }
}

impl<S: Shape, R: Memory<S::Word>> ChipLedger<S, R> {
    /// Gives a task its row, with a name; a task that was never introduced gets a nameless one on its first call.
    /// Returns false if the table is full: its blocks are entered without a task.
    pub fn task_begins(&mut self, handle: S::Word, id: u32, name: impl AsRef<[u8]>) -> bool {
        self.update(|ledger| {
            ledger.end_task(handle); // one of that handle that nobody took leave of
            let Some(row) = ledger.new_task_row(handle) else { return false };
            ledger.name_task(row, id, name.as_ref());
            true
        })
    }

    /// A task is gone: its handle may be given to another.
    pub fn task_ends(&mut self, handle: S::Word) {
        self.update(|ledger| ledger.end_task(handle));
    }

    /// The table, and which element of it a row is.
    #[inline(always)]
    fn task(row: ThreadRow) -> (Table, u32) {
        let words = S::TASK_BYTES.wrapping_shr(S::WORD_BYTES.trailing_zeros());
        (Table { at: S::room().tasks_at as usize, words, count: S::room().tasks }, row.0)
    }

    /// The handle of a task.
    #[inline(always)]
    pub(super) fn handle_of(&self, row: ThreadRow) -> S::Word {
        self.get_part(Self::task(row), thread::handle(S::Word::SIZE), S::WORD_BYTES)
    }

    /// A figure of a row, at its place in bytes.
    pub(super) fn task_figure(&self, row: ThreadRow, place: usize) -> S::Word {
        self.get_part(Self::task(row), place, S::WORD_BYTES)
    }

    fn name_task(&mut self, row: ThreadRow, id: u32, name: &[u8]) {
        self.put_part(Self::task(row), thread::id(S::Word::SIZE), 4, S::Word::cut(u64::from(id)));
        let (table, nth) = Self::task(row);
        let first = table.at.wrapping_mul(S::WORD_BYTES);
        let element = first.wrapping_add((nth as usize).wrapping_mul(S::TASK_BYTES));
        self.copy(element.wrapping_add(thread::name(S::Word::SIZE)), name.get(..THREAD_NAME_BYTES).unwrap_or(name));
    }

    fn end_task(&mut self, handle: S::Word) {
        if !S::HAS_TASKS {
            return;
        }
        // What is known of the last caller may be of this one.
        self.set_word(S::NOTES.row, S::Word::ZERO);
        if let Some(row) = self.known_task_row(handle) {
            let gone = S::Word::cut(u64::from(thread_state::GONE));
            self.put_part(Self::task(row), thread::state(S::Word::SIZE), 4, gone);
        }
    }

    fn known_task_row(&self, handle: S::Word) -> Option<ThreadRow> {
        let used = (self.word(S::TASKS_USED).widen() as u32).min(S::room().tasks);
        (0..used).map(ThreadRow).find(|row| {
            let state = self.get_part(Self::task(*row), thread::state(S::Word::SIZE), 4);
            state.widen() == u64::from(thread_state::ALIVE) && self.handle_of(*row) == handle
        })
    }

    fn new_task_row(&mut self, handle: S::Word) -> Option<ThreadRow> {
        if !S::HAS_TASKS {
            return None;
        }
        let row = ThreadRow(self.word(S::TASKS_USED).widen() as u32);
        if row.0 >= S::room().tasks {
            self.count(TallyCounter::ThreadsUnnamed);
            return None;
        }
        let word = S::Word::SIZE;
        let now = if S::HAS_TIME { self.global(GlobalCounter::LastTime) } else { S::Word::ZERO };
        let (task, alive) = (Self::task(row), S::Word::cut(u64::from(thread_state::ALIVE)));
        self.put_part(task, thread::handle(word), S::WORD_BYTES, handle);
        self.put_part(task, thread::started(word), S::WORD_BYTES, now);
        self.put_part(task, thread::state(word), 4, alive);
        self.set_word(S::TASKS_USED, S::Word::cut(u64::from(row.0.wrapping_add(1))));
        Some(row)
    }

    /// The row of whoever calls.
    #[inline(always)]
    pub(super) fn row_of(&mut self, running: Running<S::Word>) -> Row {
        if !S::HAS_TASKS {
            return Row::NONE;
        }
        let handle = match running {
            Running::Unknown => return Row::NONE,
            Running::Task(handle) => handle,
            Running::Interrupt => S::Word::ZERO.not(),
        };
        let row = self.word(S::NOTES.row).widen() as u32;
        if row != 0 && self.word(S::NOTES.task) == handle {
            return Row(row.wrapping_sub(1));
        }
        self.other_row(handle)
    }

    /// The same, if somebody else called last.
    #[inline(never)]
    fn other_row(&mut self, handle: S::Word) -> Row {
        let row = self.known_task_row(handle).or_else(|| {
            let row = self.new_task_row(handle)?;
            if handle == S::Word::ZERO.not() {
                self.name_task(row, 0, INTERRUPTS.as_bytes());
            }
            Some(row)
        });
        let Some(row) = row else { return Row::NONE };
        self.set_word(S::NOTES.task, handle);
        self.set_word(S::NOTES.row, S::Word::cut(u64::from(row.0.wrapping_add(1))));
        Row(row.0)
    }

    /// Adds a block that began to the figures of a row.
    #[inline(always)]
    pub(super) fn add_to_row(&mut self, row: Row, bytes: S::Word) {
        let word = S::Word::SIZE;
        self.add_to_figures(
            row,
            [(thread::allocations(word), S::Word::cut(1)), (thread::bytes_allocated(word), bytes)],
        );
    }

    /// Adds a free to them.
    #[inline(always)]
    pub(super) fn add_free_to_row(&mut self, row: Row) {
        self.add_to_figures(row, [(thread::frees(S::Word::SIZE), S::Word::cut(1))]);
    }

    /// Adds to figures of a row, if there is one, at their places in bytes.
    #[inline(always)]
    fn add_to_figures<const COUNT: usize>(&mut self, row: Row, amounts: [(usize, S::Word); COUNT]) {
        if !S::HAS_TASKS {
            return;
        }
        let (table, nth) = Self::task(ThreadRow(row.0));
        let figures = self.region.element_mut(table, nth);
        for (place, amount) in amounts {
            if let Some(figure) = figures.get_mut(place.wrapping_shr(S::WORD_BYTES.trailing_zeros())) {
                *figure = ordered::<S>(ordered::<S>(*figure).plus(amount));
            }
        }
    }

    #[inline(always)]
    pub(super) fn global(&self, counter: GlobalCounter) -> S::Word {
        self.word(counter_word(S::Word::SIZE, counter as usize))
    }

    #[inline(always)]
    pub(super) fn set_global(&mut self, counter: GlobalCounter, value: S::Word) {
        self.set_word(counter_word(S::Word::SIZE, counter as usize), value);
    }

    /// Adds 1 to a counter that is summed.
    #[inline(always)]
    pub(super) fn count(&mut self, counter: TallyCounter) {
        self.add_tally(counter, S::Word::cut(1));
    }

    /// Adds to a counter that is summed. It goes round at the end of a word.
    #[inline(always)]
    pub(super) fn add_tally(&mut self, counter: TallyCounter, amount: S::Word) {
        let index = S::PLAN.globals.wrapping_add(counter as usize);
        if index < S::PLAN.counters {
            self.add(counter_word(S::Word::SIZE, index), amount);
        }
    }

    #[inline(always)]
    pub(super) fn tally(&self, counter: TallyCounter) -> S::Word {
        self.word(counter_word(S::Word::SIZE, S::PLAN.globals.wrapping_add(counter as usize)))
    }
}
