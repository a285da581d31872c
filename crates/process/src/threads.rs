//! Which state belongs to which thread.
//!
//! A thread finds its state through its TLS word. No destructor tells of its end: pthread keys are
//! the program's (there are 1,024 in all), and C++ thread destructors allocate. Instead a new
//! thread asks the kernel about a few others, and takes over the state of one that is gone. So
//! there are about as many states as threads at a time, however many come and go.

use crate::ledger::CODEC;
use crate::places::{Claimed, OwnedPlace, Places, Who};
use crate::shared::{PENDING_UPDATES_MAX, Shared};
use crate::state::{Entered, ThreadState};
use core::sync::atomic::{AtomicU32, Ordering};
use heapledger_format::bytes::WordSize;
use heapledger_format::section::{thread, thread_state};
use heapledger_format::{SectionKind, TallyCounter, record};
use heapledger_linux::stack::StackRange;
use heapledger_linux::{syscall, tls};

/// Most states: threads at a time.
pub const STATES_MAX: usize = 1 << 15;
/// Other threads that a new one asks about.
const QUESTIONS: usize = 4;

/// The states.
pub struct Threads {
    places: Places<[OwnedPlace; STATES_MAX]>,
    ever: AtomicU32,
}

/// The state in a claimed place.
fn state_in<'c>(claimed: &'c mut Claimed) -> Entered<'c> {
    // SAFETY: places are filled with states; who has claimed one is alone with it.
    unsafe { Entered::new(ThreadState::at(claimed.state())) }
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
    pub fn resident_bytes(&self, depth_limit: usize, all: bool) -> u64 {
        const FIRST: usize = 64;
        const OTHERS: usize = 128;
        let bytes = ThreadState::bytes(depth_limit);
        let of = |state| syscall::resident_bytes(state, bytes);
        let step = if all { 1 } else { (self.places.count().saturating_sub(FIRST) / OTHERS).max(1) };
        let first: u64 = self.places.states().take(FIRST).map(of).sum();
        let (asked, others) = self
            .places
            .states()
            .skip(FIRST)
            .step_by(step)
            .fold((0, 0), |(count, sum), state| (count + 1, sum + of(state)));
        let there = self.places.states().skip(FIRST).count() as u64;
        first + (others * there).checked_div(asked).unwrap_or(0)
    }

    /// Gives the memory of all states back.
    ///
    /// # Safety
    /// Nobody may use a state any more.
    pub(crate) unsafe fn unmap(&self, depth_limit: usize) {
        for state in self.places.states() {
            // SAFETY: places are filled with states; the caller vouches that nobody uses them.
            unsafe { ThreadState::at(state).destroy(depth_limit) };
        }
    }

    /// The state that a kernel thread owns.
    pub fn by_tid(&self, tid: u32) -> Option<&'static ThreadState> {
        // SAFETY: places are filled with states.
        self.places.state_of(tid).map(|state| unsafe { ThreadState::at(state) })
    }

    /// Gives the calling thread a state. `None` if there is no memory or there are too many threads.
    #[cold]
    pub fn register(&self, shared: &Shared, tid: u32, stack_pointer: usize) -> Option<&'static ThreadState> {
        // A filter of system calls may keep the number from us.
        let who = Who::new(syscall::getpid(), tid)?;
        let mut found = self.places.claim_earlier(tid).map(|claimed| retired(shared, claimed));
        for _ in 0..QUESTIONS.min(self.places.count()) {
            match self.take_over_next_gone(shared) {
                Some(taken) if found.is_none() => found = Some(taken),
                Some(taken) => self.places.give_up(taken),
                None => {}
            }
        }
        let mut claimed = found.or_else(|| self.places.claim_free()).or_else(|| self.create(shared))?;
        activate(shared, state_in(&mut claimed), who, stack_pointer);
        let state = state_in(&mut claimed).thread();
        claimed.settle(who);
        Some(state)
    }

    /// Asks about the next thread in turn; if it is gone, claims its state and ends its affairs.
    fn take_over_next_gone(&self, shared: &Shared) -> Option<Claimed<'_>> {
        let exists = |who: Who| syscall::thread_exists(who.tgid, who.tid);
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
            // SAFETY: rows that were handed out are backed; the first word of each is its state.
            let word = unsafe { &*rows.at(row).cast::<AtomicU32>() };
            let (alive, at_exit) = (thread_state::ALIVE, thread_state::AT_EXIT);
            let _ = word.compare_exchange(alive, at_exit, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    fn create(&self, shared: &Shared) -> Option<Claimed<'_>> {
        let state = ThreadState::create(shared.depth_limit())?;
        // In this order: whoever gets no state asks again at each call, and must not use up what there is.
        let tally = shared.ledger().lease(SectionKind::Tallies, 1);
        let Some((tally, reserved)) = tally.and_then(|tally| Some((tally, self.places.reserve()?))) else {
            // SAFETY: nobody else has seen the state.
            unsafe { state.destroy(shared.depth_limit()) };
            return None;
        };
        state.count_in(shared.ledger().section(SectionKind::Tallies).at(tally));
        let count = reserved.index;
        let mut claimed = reserved.fill(state.address());
        let mut state = state_in(&mut claimed);
        state.number_plus_1 = count as u32 + 1;
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

fn activate(shared: &Shared, mut state: Entered, who: Who, stack_pointer: usize) {
    let thread = state.thread();
    thread.guard.store(0, Ordering::Relaxed);
    thread.asking.store(0, Ordering::Relaxed);
    thread.calling.store(0, Ordering::Relaxed);
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
    state.set_row(None);
    // Nothing is known of the process yet: the first update is folded in at once.
    (state.folded_bytes, state.folded_blocks, state.headroom) = (0, 0, i64::MAX);
    state.pending_updates = PENDING_UPDATES_MAX;
    state.row = record::THREAD_OTHER;
    match shared.ledger().lease(SectionKind::Threads, 1) {
        Some(row) => {
            let bytes = shared.ledger().section(SectionKind::Threads).at(row);
            // SAFETY: the row was just leased to us.
            let element = unsafe { core::slice::from_raw_parts_mut(bytes, thread::bytes(WordSize::W64)) };
            let word = WordSize::W64;
            CODEC.put(element, thread::id(word), 4, u64::from(who.tid));
            CODEC.put(element, thread::handle(word), 8, tls::thread_pointer() as u64);
            CODEC.put(element, thread::started(word), 8, shared.now());
            // The state last: without one a row is nobody's.
            state.set_row(Some(bytes));
            if let Some(word) = state.row_state() {
                word.store(thread_state::ALIVE, Ordering::Release);
            }
            state.row = row as u32;
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
    retire(shared, state_in(&mut claimed));
    claimed
}

/// Ends the affairs of a thread that is gone: what it had leased goes back.
fn retire(shared: &Shared, mut state: Entered) {
    let slots = state.slots.get(..state.slot_count as usize).unwrap_or(&[]);
    for batch in slots.chunks(crate::slots::BATCH) {
        shared.pool.push(shared, batch);
    }
    state.slot_count = 0;
    state.end_entries(shared);
    state.entries_filled = 0;
    state.count(TallyCounter::NumbersUnused, state.end_number - state.next_number);
    state.next_number = state.end_number;
    shared.fold_last(&mut state);
    if let Some(word) = state.row_state() {
        word.store(thread_state::gone_by(shared.now()), Ordering::Release);
        state.set_row(None);
    }
}
