//! Which state belongs to which thread.
//!
//! A thread finds its state through its TLS word. No destructor tells of its end: pthread keys are
//! the program's (there are 1,024 in all), and C++ thread destructors allocate. Instead a new
//! thread asks the kernel about a few others, and takes over the state of one that is gone. So
//! there are about as many states as threads at a time, however many come and go.

use super::history::CHUNK_ENTRIES;
use super::ledger::CODEC;
use super::shared::{PENDING_UPDATES_MAX, Shared};
use super::state::ThreadState;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use heapledger_format::bytes::WordSize;
use heapledger_format::section::{thread, thread_state};
use heapledger_format::{SectionKind, TallyCounter, record};
use heapledger_linux::stack::StackRange;
use heapledger_linux::{syscall, tls};

/// Most states: threads at a time.
pub const STATES_MAX: usize = 1 << 15;
/// Other threads that a new one asks about.
const QUESTIONS: usize = 4;
const FREE: u32 = 0;
const CLAIMED: u32 = u32::MAX;

/// The states.
pub struct Threads {
    /// Who owns a state: a kernel thread id, [`FREE`], or [`CLAIMED`] while it changes hands.
    owners: [AtomicU32; STATES_MAX],
    states: [AtomicUsize; STATES_MAX],
    count: AtomicUsize,
    free: AtomicU32,
    cursor: AtomicUsize,
    ever: AtomicU32,
}

impl Threads {
    /// No states.
    pub const fn new() -> Threads {
        Threads {
            owners: [const { AtomicU32::new(0) }; STATES_MAX],
            states: [const { AtomicUsize::new(0) }; STATES_MAX],
            count: AtomicUsize::new(0),
            free: AtomicU32::new(0),
            cursor: AtomicUsize::new(0),
            ever: AtomicU32::new(0),
        }
    }

    /// Whether only one thread has ever been seen.
    #[inline(always)]
    pub fn is_single(&self) -> bool {
        self.ever.load(Ordering::Relaxed) <= 1
    }

    /// States in use, about.
    pub fn in_use(&self) -> u64 {
        let count = self.count.load(Ordering::Relaxed) as u64;
        count.saturating_sub(u64::from(self.free.load(Ordering::Relaxed)))
    }

    /// Bytes of the states that are present in memory. Asks the kernel.
    pub fn resident_bytes(&self, depth_limit: usize) -> u64 {
        let known = self.all().map(|(_, state)| state.load(Ordering::Acquire)).filter(|state| *state != 0);
        known.map(|state| syscall::resident_bytes(state, ThreadState::bytes(depth_limit))).sum()
    }

    fn all(&self) -> impl Iterator<Item = (&AtomicU32, &AtomicUsize)> {
        let count = self.count.load(Ordering::Acquire).min(STATES_MAX);
        self.owners.iter().zip(&self.states).take(count)
    }

    /// The state that a kernel thread owns.
    pub fn by_tid(&self, tid: u32) -> Option<*mut ThreadState> {
        self.all()
            .find(|(owner, _)| owner.load(Ordering::Acquire) == tid)
            .map(|(_, state)| state.load(Ordering::Acquire) as *mut ThreadState)
            .filter(|state| !state.is_null())
    }

    /// Claims the state of `owner` if it still has it, and ends that owner's affairs.
    fn take_over(&self, shared: &Shared, owner: &AtomicU32, tid: u32, state: &AtomicUsize) -> Option<*mut ThreadState> {
        owner.compare_exchange(tid, CLAIMED, Ordering::AcqRel, Ordering::Relaxed).ok()?;
        let state = state.load(Ordering::Acquire) as *mut ThreadState;
        // SAFETY: claimed, and its thread no longer exists (or is the caller, who has no other state).
        retire(shared, unsafe { &mut *state });
        Some(state)
    }

    /// Gives the calling thread a state. `None` if there is no memory or there are too many threads.
    #[cold]
    pub fn register(&self, shared: &Shared, tid: u32, stack_pointer: usize) -> Option<*mut ThreadState> {
        if tid == FREE || tid == CLAIMED {
            return None; // a filter of system calls keeps the number from us
        }
        let mut found = None;
        // An earlier thread with this id is gone, or the kernel could not have given it out again.
        for (owner, state) in self.all() {
            if owner.load(Ordering::Acquire) == tid {
                found = found.or_else(|| self.take_over(shared, owner, tid, state));
            }
        }
        let count = self.count.load(Ordering::Acquire).min(STATES_MAX);
        for _ in 0..QUESTIONS.min(count) {
            let Some((owner, taken)) = self.take_over_next_gone(shared) else { continue };
            if found.is_none() {
                found = Some(taken);
            } else {
                self.set_free(owner);
            }
        }
        let state = found.or_else(|| self.reuse()).or_else(|| self.create(shared))?;
        // SAFETY: claimed for us.
        let thread = unsafe { &mut *state };
        let ready = activate(shared, thread, tid, stack_pointer);
        let index = thread.number_plus_1 as usize - 1;
        let owner = self.owners.get(index)?;
        if ready {
            owner.store(tid, Ordering::Release);
        } else {
            self.set_free(owner);
        }
        ready.then_some(state)
    }

    /// Asks about the next thread in turn, and claims its state if it is gone.
    fn take_over_next_gone(&self, shared: &Shared) -> Option<(&AtomicU32, *mut ThreadState)> {
        let count = self.count.load(Ordering::Acquire).min(STATES_MAX);
        let index = self.cursor.fetch_add(1, Ordering::Relaxed).checked_rem(count)?;
        let (owner, state) = (self.owners.get(index)?, self.states.get(index)?);
        let other = owner.load(Ordering::Acquire);
        if other == FREE || other == CLAIMED {
            return None;
        }
        let pointer = state.load(Ordering::Acquire) as *const ThreadState;
        // SAFETY: states are never unmapped; the process id is only written while claimed, and a stale
        // one makes us ask about a thread that does not exist in it, then fail to claim.
        let tgid = unsafe { (&raw const (*pointer).tgid).read_volatile() };
        if syscall::thread_exists(tgid, other) {
            return None;
        }
        self.take_over(shared, owner, other, state).map(|taken| (owner, taken))
    }

    fn set_free(&self, owner: &AtomicU32) {
        owner.store(FREE, Ordering::Release);
        self.free.fetch_add(1, Ordering::Relaxed);
    }

    /// Finds out now and then that a thread is gone, even if no new one comes.
    pub fn look_after_one(&self, shared: &Shared) {
        if !self.is_single()
            && let Some((owner, _)) = self.take_over_next_gone(shared)
        {
            self.set_free(owner);
        }
    }

    /// The program begins to end: notes which threads are still there, and which are gone. Not every end is seen: a
    /// signal or `_exit` tells nobody.
    pub fn note_exit(&self, shared: &Shared) {
        for _ in 0..self.count.load(Ordering::Acquire).min(STATES_MAX) {
            if let Some((owner, _)) = self.take_over_next_gone(shared) {
                self.set_free(owner);
            }
        }
        let rows = shared.ledger().section(SectionKind::Threads);
        for row in 0..rows.used() {
            // SAFETY: rows that were handed out are backed; the first word of each is its state.
            let word = unsafe { &*rows.at(row).cast::<AtomicU32>() };
            let (alive, at_exit) = (thread_state::ALIVE, thread_state::AT_EXIT);
            let _ = word.compare_exchange(alive, at_exit, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    fn reuse(&self) -> Option<*mut ThreadState> {
        if self.free.load(Ordering::Relaxed) == 0 {
            return None;
        }
        for (owner, state) in self.all() {
            if owner.load(Ordering::Relaxed) == FREE
                && owner.compare_exchange(FREE, CLAIMED, Ordering::AcqRel, Ordering::Relaxed).is_ok()
            {
                self.free.fetch_sub(1, Ordering::Relaxed);
                return Some(state.load(Ordering::Acquire) as *mut ThreadState);
            }
        }
        None
    }

    fn create(&self, shared: &Shared) -> Option<*mut ThreadState> {
        let bytes = ThreadState::bytes(shared.depth_limit());
        let tally = shared.ledger().lease(SectionKind::Tallies, 1)?;
        let state = syscall::map_anonymous(bytes).ok()? as *mut ThreadState;
        let index = self.count.load(Ordering::Relaxed);
        let index = if index < STATES_MAX { self.count.fetch_add(1, Ordering::AcqRel) } else { index };
        let (Some(owner), Some(place)) = (self.owners.get(index), self.states.get(index)) else {
            // SAFETY: nobody else has seen the state.
            unsafe { syscall::unmap(state.cast(), bytes) };
            return None;
        };
        // SAFETY: fresh memory of a state's size that nobody else has seen.
        unsafe {
            (*state).number_plus_1 = index as u32 + 1;
            (*state).generation = shared.modules.generation();
            (*state).tally = shared.ledger().section(SectionKind::Tallies).at(tally).cast::<AtomicU64>();
        }
        // A place that was counted but not filled yet looks free; claim it before the pointer is seen.
        owner.store(CLAIMED, Ordering::Release);
        place.store(state as usize, Ordering::Release);
        Some(state)
    }
}

impl Default for Threads {
    fn default() -> Self {
        Self::new()
    }
}

fn activate(shared: &Shared, state: &mut ThreadState, tid: u32, stack_pointer: usize) -> bool {
    if state.tally.is_null() {
        return false;
    }
    state.guard.store(0, Ordering::Relaxed);
    state.calling.store(0, Ordering::Relaxed);
    state.native = StackRange::default();
    state.own = StackRange::default();
    state.memory_changes = shared.memory_changes.load(Ordering::Relaxed);
    if !syscall::on_alternate_stack(stack_pointer) {
        state.stand_on(shared, tid, stack_pointer);
    }
    state.on_alternate = false;
    state.tid = tid;
    state.tgid = syscall::getpid();
    state.name = [0; 16];
    state.leases = 0;
    state.random = 0;
    state.row_bytes = core::ptr::null_mut();
    state.counts = (&raw mut state.no_row).cast();
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
            CODEC.put(element, thread::id(word), 4, u64::from(tid));
            CODEC.put(element, thread::handle(word), 8, tls::thread_pointer() as u64);
            CODEC.put(element, thread::started(word), 8, shared.now());
            CODEC.put(element, thread::state(word), 4, u64::from(thread_state::ALIVE));
            state.row_bytes = bytes;
            state.counts = bytes;
            state.row = row as u32;
        }
        None => state.count(TallyCounter::ThreadsUnnamed, 1),
    }
    refresh_name(state);
    shared.threads.ever.fetch_add(1, Ordering::Relaxed);
    true
}

/// Threads name themselves after they started: look again now and then.
pub fn refresh_name(state: &mut ThreadState) {
    let name = syscall::thread_name();
    if name != state.name && !state.row_bytes.is_null() {
        state.name = name;
        // SAFETY: the row is leased to this thread and has room for a name.
        unsafe {
            let place = state.row_bytes.add(thread::name(WordSize::W64));
            core::ptr::copy_nonoverlapping(name.as_ptr(), place, name.len());
        }
    }
}

/// Adds to a counter of the thread's row.
#[inline(always)]
pub fn add_to_row(state: &ThreadState, field: fn(WordSize) -> usize, amount: u64) {
    // SAFETY: an aligned word of a row that only this thread writes, or of the place that stands for one.
    let word = unsafe { &*state.counts.add(field(WordSize::W64)).cast::<AtomicU64>() };
    word.store(word.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
}

/// Ends the affairs of a thread that is gone: what it had leased goes back.
fn retire(shared: &Shared, state: &mut ThreadState) {
    let slots = state.slots.get(..state.slot_count as usize).unwrap_or(&[]);
    for batch in slots.chunks(super::slots::BATCH) {
        shared.pool.push(shared, batch);
    }
    state.slot_count = 0;
    if state.end_entry != 0 {
        shared.history.release(state.end_entry - CHUNK_ENTRIES);
        state.next_entry = 0;
        state.end_entry = 0;
    }
    state.count(TallyCounter::NumbersUnused, state.end_number - state.next_number);
    state.next_number = state.end_number;
    shared.fold(state);
    if !state.row_bytes.is_null() {
        // SAFETY: the row was leased to that thread; its first word is the state.
        let word = unsafe { &*state.row_bytes.cast::<AtomicU32>() };
        word.store(thread_state::gone_by(shared.now()), Ordering::Release);
        state.row_bytes = core::ptr::null_mut();
        state.counts = (&raw mut state.no_row).cast();
    }
}
