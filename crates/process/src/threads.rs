//! Which state belongs to which thread.
//!
//! A thread finds its state through its TLS word. No destructor tells of its end: pthread keys are
//! the program's (there are 1,024 in all), and C++ thread destructors allocate. Instead a new
//! thread asks the kernel about a few others, and takes over the state of one that is gone. So
//! there are about as many states as threads at a time, however many come and go.

#![forbid(unsafe_code)]

use crate::ledger::CODEC;
use crate::places::{Claimed, OwnedPlace, Places, ThreadIds};
use crate::private::Alone;
use crate::shared::{PENDING_UPDATES_MAX, Shared};
use crate::state::{Entered, NewState, StateRoom, ThreadState, change_row};
use core::mem;
use core::sync::atomic::{AtomicU32, Ordering, compiler_fence};
use heapledger_format::bytes::WordSize;
use heapledger_format::section::{thread, thread_state};
use heapledger_format::{GlobalCounter, SectionKind, TallyCounter, ThreadRow, Ticks};
use heapledger_linux::stack::StackRange;
use heapledger_linux::{apart, syscall, tls};

/// Most states: threads at a time.
pub const STATES_MAX: usize = 1 << 15;
/// Other threads that a new one asks about.
const QUESTIONS: usize = 4;

/// The states.
pub struct Threads {
    places: Places<[OwnedPlace; STATES_MAX]>,
    ever: AtomicU32,
}

impl Threads {
    /// No states.
    pub const fn new() -> Threads {
        Threads { places: Places::over([const { OwnedPlace::new() }; STATES_MAX]), ever: AtomicU32::new(0) }
    }

    /// States in use, or a few more.
    pub fn in_use(&self) -> u64 {
        self.places.in_use()
    }

    /// Whether only one thread has ever been seen.
    #[inline(always)]
    pub fn is_single(&self) -> bool {
        self.ever.load(Ordering::Relaxed) <= 1
    }

    /// Bytes of the states that are present in memory. Asks the kernel: `all` states or, if there are many, the first ones and
    /// every so many-th of the others, which are alike.
    pub(crate) fn resident_bytes(&self, room: StateRoom, all: bool) -> u64 {
        const FIRST: usize = 64;
        const OTHERS: usize = 128;
        let bytes = room.bytes();
        let of = |state| syscall::resident_bytes(state, bytes);
        let step = if all { 1 } else { (self.places.count().saturating_sub(FIRST) / OTHERS).max(1) };
        let first: u64 = self.places.states().take(FIRST).map(of).sum();
        let (asked, others) = self
            .places
            .states()
            .skip(FIRST)
            .step_by(step)
            .fold((0u64, 0u64), |(count, sum), state| (count.wrapping_add(1), sum.wrapping_add(of(state))));
        let there = self.places.states().skip(FIRST).count() as u64;
        first.wrapping_add(others.wrapping_mul(there).checked_div(asked).unwrap_or(0))
    }

    /// What threads have leased of the numbers is over.
    pub(crate) fn end_leases(&self) {
        for state in ThreadState::each(&self.places) {
            state.step.end();
        }
    }

    /// Gives the memory of all states back.
    pub(crate) fn discard(&self, room: StateRoom, alone: &Alone) {
        ThreadState::discard_all(&self.places, room, alone);
    }

    /// Tells of the row, the next number and the time of the lease of each thread that had a state, or still has one.
    pub(crate) fn each_cut(&self, alone: &Alone, tell: &mut dyn FnMut(usize, u64, Ticks)) {
        ThreadState::each_books(&self.places, alone, &mut |books| {
            if books.row != ThreadRow::OTHER {
                tell(books.row.0 as usize, books.next_number, books.ticks);
            }
        });
    }

    /// The state that a kernel thread owns.
    pub fn by_tid(&self, tid: u32) -> Option<&'static ThreadState> {
        ThreadState::of_tid(&self.places, tid)
    }

    /// Gives the calling thread a state. `None` if there is no memory or there are too many threads.
    #[cold]
    pub fn register(&self, shared: &'static Shared, tid: u32, stack_pointer: usize) -> Option<&'static ThreadState> {
        // A filter of system calls may keep the number from us.
        let who = ThreadIds::new(syscall::getpid(), tid)?;
        let mut found = self.places.claim_earlier(tid).map(|claimed| retired(shared, claimed));
        for _ in 0..QUESTIONS.min(self.places.count()) {
            match self.take_over_next_gone(shared) {
                Some(taken) if found.is_none() => found = Some(taken),
                Some(taken) => self.places.give_up(taken),
                None => {}
            }
        }
        let create = || self.create(shared, NewState::create(shared.state_room())?);
        let mut claimed = found.or_else(|| self.places.claim_free()).or_else(create)?;
        activate(shared, Entered::of(&mut claimed), who, stack_pointer);
        let state = Entered::of(&mut claimed).thread();
        claimed.settle(who);
        Some(state)
    }

    /// Asks about the next thread in turn; if it is gone, claims its state and ends its affairs.
    fn take_over_next_gone(&self, shared: &Shared) -> Option<Claimed<'_>> {
        let exists = |who: ThreadIds| syscall::thread_exists(who.tgid, who.tid);
        self.places.claim_next_gone(exists).map(|claimed| retired(shared, claimed))
    }

    /// Finds out now and then that a thread is gone, even if no new one comes.
    pub fn look_after_one(&self, shared: &Shared) {
        if !self.is_single()
            && let Some(taken) = self.take_over_next_gone(shared)
        {
            self.places.give_up(taken);
        }
    }

    /// The program begins to end: notes which threads are still there, and which are gone. Not every end is seen: a
    /// signal or `_exit` tells nobody.
    pub fn note_exit(&self, shared: &Shared) {
        for _ in 0..self.places.count() {
            if let Some(taken) = self.take_over_next_gone(shared) {
                self.places.give_up(taken);
            }
        }
        shared.measure(true);
        let rows = shared.ledger().section(SectionKind::Threads);
        for row in 0..rows.used() {
            change_row(rows.element(row), Some(thread_state::ALIVE), thread_state::AT_EXIT);
        }
    }

    /// Gives the one thread of a forked child its state again, which lies where it did, if that `had` the room for what is recorded now: see
    /// [`ThreadState::discard_all`].
    pub(crate) fn register_again(
        &self,
        shared: &'static Shared,
        stack_pointer: usize,
        (state, had): (&'static ThreadState, StateRoom),
        alone: &Alone,
    ) -> Option<()> {
        let who = ThreadIds::new(syscall::getpid(), syscall::gettid())?;
        let mut claimed = self.create(shared, NewState::again(state, had, shared.state_room(), alone)?)?;
        activate(shared, Entered::of(&mut claimed), who, stack_pointer);
        claimed.settle(who);
        tls::set(state.address());
        Some(())
    }

    fn create(&self, shared: &'static Shared, state: NewState) -> Option<Claimed<'_>> {
        // In this order: whoever gets no state asks again at each call, and must not use up what there is.
        let tally = shared.ledger().lease(SectionKind::Tallies, 1)?;
        let reserved = self.places.reserve()?;
        let count = reserved.index;
        let mut claimed = state.put(reserved, shared.ledger().section(SectionKind::Tallies).element(tally));
        let mut state = Entered::of(&mut claimed);
        state.number_plus_1 = (count as u32).wrapping_add(1);
        state.generation = shared.modules.generation();
        // Each time that there are an eighth more than before, what the others have taken is measured.
        if count > 0 && count.is_multiple_of(1 << count.ilog2().saturating_sub(3)) {
            shared.measure(false);
        }
        Some(claimed)
    }
}

impl Default for Threads {
    fn default() -> Self {
        Self::new()
    }
}

fn activate(shared: &'static Shared, mut state: Entered, who: ThreadIds, stack_pointer: usize) {
    let thread = state.thread();
    thread.guard.store(0, Ordering::Relaxed);
    thread.asking.store(0, Ordering::Relaxed);
    thread.calling.store(0, Ordering::Relaxed);
    thread.label.store(0, Ordering::Relaxed);
    thread.failed_inside.store(0, Ordering::Relaxed);
    thread.native.set(StackRange::default());
    thread.own.set(StackRange::default());
    thread.memory_changes.set(shared.memory_changes.load(Ordering::Relaxed));
    if !syscall::on_alternate_stack(stack_pointer) {
        thread.stand_on(shared, who.tid, stack_pointer);
    }
    thread.on_alternate.set(false);
    thread.tid.set(who.tid);
    state.name = [0; 16];
    state.leases = 0;
    state.random = 0;
    state.turns = crate::rarely::Turns::default();
    state.set_row(None);
    state.accounts.begin_thread();
    // Nothing is known of the process yet: the first update is folded in at once.
    (state.folded_bytes, state.folded_blocks, state.headroom) = (0, 0, i64::MAX);
    state.pending_updates = PENDING_UPDATES_MAX;
    state.row = ThreadRow::OTHER;
    (state.cut, state.before_lease) = (None, 0);
    let mut element = [0; thread::bytes(WordSize::W64)];
    let mut put = |field: fn(WordSize) -> usize, width, value| {
        CODEC.put(&mut element, field(WordSize::W64), width, value);
    };
    put(thread::id, 4, u64::from(who.tid));
    put(thread::handle, 8, tls::thread_pointer() as u64);
    put(thread::started, 8, shared.now().0);
    match shared.ledger().enter(SectionKind::Threads, &element) {
        Some(row) => {
            let words = shared.ledger().section(SectionKind::Threads).element(row);
            state.set_row(Some(words));
            // The state last: without one a row is nobody's.
            change_row(words, None, thread_state::ALIVE);
            state.row = ThreadRow(row as u32);
            thread.row_plus_1.set(state.row.into());
            if shared.ledger().ensure(SectionKind::PeakCuts, row.wrapping_add(1)) {
                state.cut = Some(shared.ledger().section(SectionKind::PeakCuts).element(row));
                // Nothing of what it will do lies before the peak of now.
                let peak = shared.ledger().global(GlobalCounter::PeakBytes).load(Ordering::SeqCst);
                state.note_cut(0, peak);
            }
        }
        None => state.count(TallyCounter::ThreadsUnnamed, 1),
    }
    refresh_name(&mut state);
    // As long as it is alone its peak is exact, whatever it keeps to itself. Whoever comes second finds that counted.
    if shared.threads.ever.load(Ordering::Relaxed) == 0 {
        state.allowance = shared.peak.give_first();
    }
    if shared.threads.ever.fetch_add(1, Ordering::SeqCst) != 0 {
        shared.peak.give_back(&mut state.allowance);
    }
}

/// Threads name themselves after they started: look again now and then.
pub fn refresh_name(state: &mut Entered) {
    state.set_name(syscall::thread_name());
}

fn retired<'p>(shared: &Shared, mut claimed: Claimed<'p>) -> Claimed<'p> {
    let state = Entered::of(&mut claimed);
    // The last word of a thread that has gone: what it did before is to be seen here. (That the kernel says it is gone means as much, but
    // not to a compiler.)
    state.thread().guard.load(Ordering::Acquire);
    retire(shared, state);
    claimed
}

/// Ends the affairs of a thread that is gone: what it had leased goes back.
fn retire(shared: &Shared, mut state: Entered) {
    // First, and then: whoever is left out in the middle (a handler that jumps, a fork) has them in no two places.
    let count = mem::take(&mut state.slot_count);
    compiler_fence(Ordering::Release);
    for batch in state.slots.get(..count as usize).unwrap_or(&[]).chunks(crate::slots::BATCH) {
        shared.pool.push(shared, batch);
    }
    if state.entries != 0 {
        // Whoever looks after others may have little room on its stack.
        apart::run(&mut || state.end_entries(shared, 0));
    }
    // Nobody had a stack to spare.
    if state.entries != 0 {
        state.end_entries(shared, 0);
    }
    // A hook that was left by a jump has not come to that.
    state.add_at_hand(shared);
    state.entries_filled = 0;
    state.count(TallyCounter::NumbersUnused, state.end_number.wrapping_sub(state.next_number));
    state.next_number = state.end_number;
    shared.fold_last(&mut state);
    if let Some(row) = state.row_words() {
        change_row(row, None, thread_state::gone_by(shared.now()));
        state.set_row(None);
    }
}
