//! A thread's access to the recorder: who it is, whether it may enter, and the backend it then has.

use super::capture;
use super::cells::Addresses as _;
use super::history::{self, CHUNK_ENTRIES};
use super::hooks::NewBlock;
use super::index::Insert;
use super::ledger::CODEC;
use super::publication;
use super::shared::{NUMBER_LEASE, ORDER_BOUND, Phase, Shared, TICK_NS};
use super::slots::{BATCH, LOCAL_MAX};
use super::state::ThreadState;
use super::threads::{add_to_row, refresh_name};
use crate::policy::{Backend, Ended, Freed, Inserted, Measure};
use core::sync::atomic::{AtomicU64, Ordering, compiler_fence};
use heapledger_format::header::State;
use heapledger_format::record::{NUMBER_MAX, Options, RECORD_WORDS};
use heapledger_format::section::{thread, wide};
use heapledger_format::{Entry, FreedEntry, GlobalCounter, Kind, SectionKind, TallyCounter, sample};
use heapledger_linux::stack::StackRange;
use heapledger_linux::{syscall, tls};
use heapledger_unwind::Registers;

/// A block of so many bytes may be a stack, and may be given back to the system when it is freed.
const UNMAPPED_BYTES_MIN: u64 = 16 << 10;
const NUMBER_MASK: u64 = heapledger_format::layout::mask(48);

/// Leases of numbers after which a thread looks for a new name of its own, and for another one that is gone.
const LOOK_EVERY: u32 = 16;
/// Leases of numbers after which memory is measured again.
const MEASURE_EVERY: u64 = 4096;

/// A mark on the stack of a hook that is inside the recorder. If control leaves the hook by a jump, other
/// frames overwrite it sooner or later, and it no longer vouches for the guard that points to it.
pub struct Sign(AtomicU64);

const SIGN: u64 = 0x4845_4150_4C45_4447;

impl Sign {
    /// A mark that says nothing yet.
    pub const fn new() -> Sign {
        Sign(AtomicU64::new(0))
    }
}

impl Default for Sign {
    fn default() -> Self {
        Self::new()
    }
}

/// The calling thread's state, as long as the hook runs.
pub struct Access<'hook> {
    pub(super) shared: &'static Shared,
    pub(super) state: &'static mut ThreadState,
    sign: &'hook Sign,
    /// See [`NewBlock::is_apart`], of the block that is being entered.
    is_apart: bool,
}

/// Why a hook may not enter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Nothing is recorded in this process.
    Off,
    /// The thread is inside the recorder already: a signal handler.
    Busy,
    /// There is no state to be had for this thread.
    NoState,
}

impl<'hook> Access<'hook> {
    /// Enters, if this process records and the thread is not inside already. `sign` lies on the hook's stack.
    #[inline(always)]
    pub fn enter(shared: &'static Shared, registers: &Registers, sign: &'hook Sign) -> Result<Self, Refused> {
        Self::enter_ready(shared, None, registers, sign)
    }

    /// The same with the state of a thread that is known to have one, in a process that records.
    #[inline(always)]
    pub(super) fn enter_ready(
        shared: &'static Shared,
        state: Option<&'static mut ThreadState>,
        registers: &Registers,
        sign: &'hook Sign,
    ) -> Result<Self, Refused> {
        if let Some(state) = state {
            // On its own stack it is this thread that came in; what else there is, `enter_slowly` finds out.
            if state.native.contains(registers.sp as usize)
                && state.guard.load(Ordering::Relaxed) == 0
                && state.is_believed(shared)
            {
                state.on_alternate = false;
                return Ok(Access::inside(shared, state, sign));
            }
        }
        Self::enter_slowly(shared, registers, sign)
    }

    #[inline(always)]
    fn inside(shared: &'static Shared, state: &'static mut ThreadState, sign: &'hook Sign) -> Self {
        state.asking.store(0, Ordering::Relaxed);
        sign.0.store(SIGN, Ordering::Relaxed);
        state.guard.store(&raw const sign.0 as usize, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst); // a handler of this thread must see the guard before any update
        Access { shared, state, sign, is_apart: false }
    }

    #[cold]
    #[inline(never)]
    fn enter_slowly(shared: &'static Shared, registers: &Registers, sign: &'hook Sign) -> Result<Self, Refused> {
        let stack_pointer = registers.sp as usize;
        if shared.phase.load(Ordering::Acquire) != Phase::On as u8 {
            return Err(Refused::Off);
        }
        if !shared.mark.holds() {
            super::start::note_forked_child(shared);
            return Err(Refused::Off);
        }
        let word = tls::get();
        let mut state = word as *mut ThreadState;
        if word == 0 {
            state = Self::first_time(shared, stack_pointer)?;
        }
        // SAFETY: the TLS word is only ever set to a state of this thread, and states are never
        // unmapped. Whether it really is this thread that came in is checked next.
        let mut state = unsafe { &mut *state };
        // Only looked at: on another stack it may be another thread that shares our TLS word.
        if !state.native.contains(stack_pointer) || !state.is_believed(shared) {
            state = Self::on_another_stack(shared, state, registers)?;
        } else if state.guard.load(Ordering::Relaxed) != 0
            // An alternate stack may lie inside the range of this one: a local array of `main`.
            && (is_inside(shared, state, registers) || syscall::on_alternate_stack())
        {
            // What an allocator allocates for its own answer to our question is not the program's.
            let own = state.asking.load(Ordering::Relaxed) != 0;
            return Err(if own { Refused::Off } else { Refused::Busy });
        } else {
            state.on_alternate = false;
        }
        if state.guard.load(Ordering::Relaxed) != 0 {
            // A hook was left by a jump, perhaps in the middle of remembering a stack.
            state.forget_stacks();
        }
        Ok(Access::inside(shared, state, sign))
    }

    #[cold]
    fn first_time(shared: &'static Shared, stack_pointer: usize) -> Result<*mut ThreadState, Refused> {
        // No handler may come in between and register the same thread again.
        let _signals = syscall::SignalsBlocked::new();
        let state = shared.threads.register(shared, syscall::gettid(), stack_pointer).ok_or(Refused::NoState)?;
        tls::set(state as usize);
        Ok(state)
    }

    /// The stack pointer is not on the stack where this thread was last seen: an alternate signal
    /// stack, a coroutine, or another kernel thread that a raw `clone` gave our TLS word.
    #[cold]
    fn on_another_stack(
        shared: &'static Shared,
        state: &'static mut ThreadState,
        registers: &Registers,
    ) -> Result<&'static mut ThreadState, Refused> {
        let stack_pointer = registers.sp as usize;
        let tid = syscall::gettid();
        if tid != state.tid {
            let other = match shared.threads.by_tid(tid) {
                Some(other) => other,
                None => {
                    let _signals = syscall::SignalsBlocked::new();
                    shared.threads.register(shared, tid, stack_pointer).ok_or(Refused::NoState)?
                }
            };
            // SAFETY: the state that this kernel thread owns; states are never unmapped.
            let other = unsafe { &mut *other };
            other.on_alternate = false;
            other.note_changes(shared);
            if !other.native.holds(stack_pointer) {
                other.stand_on(shared, tid, stack_pointer);
                other.forget_stacks();
                other.guard.store(0, Ordering::Relaxed);
            }
            if other.guard.load(Ordering::Relaxed) != 0 && is_inside(shared, other, registers) {
                return Err(Refused::Busy);
            }
            return Ok(other);
        }
        state.on_alternate = false;
        state.note_changes(shared);
        let guard = state.guard.load(Ordering::Relaxed);
        if state.native.holds(stack_pointer) {
            // The same one, further down or with its range forgotten.
            // An alternate stack may lie inside the range of this one: a local array of `main`.
            if guard != 0 && (is_inside(shared, state, registers) || syscall::on_alternate_stack()) {
                let own = state.asking.load(Ordering::Relaxed) != 0;
                return Err(if own { Refused::Off } else { Refused::Busy });
            }
        } else if syscall::on_alternate_stack() {
            // The hook that holds the guard is the interrupted one, unless it is an outer one on this stack
            // that was left by a jump.
            let stale = state.alternate.contains(guard) && stack_pointer >= guard;
            if guard != 0 && !stale {
                return Err(Refused::Busy);
            }
            state.on_alternate = true;
            state.alternate = StackRange::around(stack_pointer);
        } else {
            // Another stack of this thread, to which control went for good or for now. A hook does not
            // switch stacks, so one that was running when control left was abandoned.
            state.stand_on(shared, tid, stack_pointer);
        }
        Ok(state)
    }
}

/// Whether the hook that holds the guard encloses this call. Stacks grow down: an enclosing hook lies
/// above; one at or below was left by `longjmp` or an exception. So was one whose sign is gone, or of
/// which the stack from here outwards knows nothing.
#[cold]
fn is_inside(shared: &Shared, state: &ThreadState, registers: &Registers) -> bool {
    let guard = state.guard.load(Ordering::Relaxed);
    state.native.contains(guard)
        && (registers.sp as usize) < guard
        // SAFETY: an aligned word in the range of this stack that is known to be readable.
        && unsafe { (guard as *const u64).read_volatile() } == SIGN
        && capture::own_code_is_on_stack(shared, state.native, registers)
}

impl Drop for Access<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        compiler_fence(Ordering::SeqCst);
        self.state.guard.store(0, Ordering::Relaxed);
        self.sign.0.store(0, Ordering::Relaxed);
    }
}

/// Counts something for a thread that could not enter.
#[cold]
pub fn count_refused(shared: &'static Shared, refused: Refused, began: bool) {
    let counter = match (refused, began) {
        (Refused::Off, _) => return,
        (Refused::Busy, true) => TallyCounter::LostBusy,
        (Refused::Busy, false) => TallyCounter::FreesBusy,
        (Refused::NoState, true) => TallyCounter::LostNoThread,
        (Refused::NoState, false) => TallyCounter::UnknownFrees,
    };
    // The header's own share of the counter, by a locked instruction: rare, and from any thread.
    let at = heapledger_format::header::counter_at(
        heapledger_format::WordSize::W64,
        GlobalCounter::COUNT + counter as usize,
    );
    if let Some(mapping) = shared.ledger().mapping() {
        // SAFETY: an aligned word of the backed header page.
        unsafe { &*mapping.base().add(at).cast::<AtomicU64>() }.fetch_add(1, Ordering::Relaxed);
    }
}

impl Access<'_> {
    /// Whether a block of so many bytes is to be entered; if the ledger samples, one in so many bytes is.
    #[inline(always)]
    pub(super) fn takes(&mut self, bytes: usize) -> bool {
        self.shared.settings().sample == 0 || self.takes_sample(bytes as u64)
    }

    #[cold]
    #[inline(never)]
    fn takes_sample(&mut self, bytes: u64) -> bool {
        let step = bytes.max(1);
        let gap = tls::gap() as u64;
        // A thread that has not drawn yet begins with a gap of its own. So does a call that runs inside of another one, which
        // has put its gap aside, or after one that never came back: the distribution has no memory.
        let gap = if gap == 0 || self.state.random == 0 { self.draw() } else { gap };
        if gap > step {
            tls::set_gap((gap - step) as usize);
            return false;
        }
        let gap = self.draw();
        tls::set_gap(gap as usize);
        true
    }

    fn draw(&mut self) -> u64 {
        let state = &mut *self.state;
        if state.random == 0 {
            state.random = syscall::random() | 1;
        }
        state.random = state.random.wrapping_add(sample::STEP);
        sample::next_gap(sample::scramble(state.random), self.shared.settings().sample)
    }

    /// Starts to load what entering the block will change, while its stack is taken.
    #[inline(always)]
    pub(super) fn prepare(&mut self, block: &NewBlock) {
        self.is_apart = block.is_apart;
        self.shared.index.fetch_cell_soon(block.address as u64);
        let next = self.state.slot_count.wrapping_sub(1) as usize;
        if let Some(slot) = self.state.slots.get(next) {
            self.shared.fetch_soon(*slot);
        }
    }

    #[cold]
    #[inline(never)]
    fn more_slots(&mut self) -> Option<u32> {
        let shared = self.shared;
        let count = shared.pool.pop(shared, self.state.slots.get_mut(..BATCH)?);
        self.state.slot_count = count as u32;
        if count > 0 {
            return self.state.pop_slot();
        }
        let lease = || shared.ledger().lease(SectionKind::Records, BATCH as u64);
        let first = match lease() {
            Some(first) => first,
            None => {
                // Live blocks matter more than freed ones.
                if !shared.history.shrink(shared.ledger()) {
                    shared.ledger().set_state(State::Full);
                    return None;
                }
                shared.ledger().retry(SectionKind::Records);
                lease()?
            }
        };
        shared.ledger().set_state(State::Recording);
        // In reverse, so that they are used in the order in which they lie.
        for (place, slot) in self.state.slots.iter_mut().zip((first..first + BATCH as u64).rev()) {
            *place = slot as u32;
        }
        self.state.slot_count = BATCH as u32;
        self.state.pop_slot()
    }

    #[cold]
    #[inline(never)]
    fn new_lease(&mut self) -> bool {
        let counter = self.shared.ledger().global(GlobalCounter::NextNumber);
        let unused = self.state.end_number - self.state.next_number;
        if unused > 0 {
            self.state.count(TallyCounter::NumbersUnused, unused);
        }
        let first = counter.fetch_add(NUMBER_LEASE, Ordering::Relaxed);
        if first + NUMBER_LEASE > NUMBER_MAX {
            self.state.next_number = 0;
            self.state.end_number = 0;
            return false;
        }
        self.state.next_number = first;
        self.state.end_number = first + NUMBER_LEASE;
        let now = self.shared.now();
        self.shared.ledger().global(GlobalCounter::LastTime).store(now, Ordering::Relaxed);
        self.state.leases += 1;
        if self.state.leases.is_power_of_two() || self.state.leases.is_multiple_of(LOOK_EVERY) {
            refresh_name(self.state);
            self.shared.threads.look_after_one(self.shared);
        }
        let made = self.state.cache.counters().made;
        self.state.count(TallyCounter::RulesMade, made - self.state.rules_counted);
        self.state.rules_counted = made;
        let leases = first / NUMBER_LEASE;
        if leases.is_power_of_two() || leases.is_multiple_of(MEASURE_EVERY) {
            self.shared.measure();
        }
        true
    }

    /// Leases the next chunk of the history.
    #[cold]
    #[inline(never)]
    fn new_chunk(&mut self) -> bool {
        if self.state.end_entry != 0 {
            self.shared.history.release(self.state.end_entry - CHUNK_ENTRIES);
        }
        match self.shared.history.lease(self.shared.ledger(), self.state.number_plus_1) {
            Some(first) => {
                self.state.next_entry = first;
                self.state.end_entry = first + CHUNK_ENTRIES;
                true
            }
            None => {
                self.state.next_entry = 0;
                self.state.end_entry = 0;
                self.state.count(TallyCounter::HistoryLost, 1);
                false
            }
        }
    }

    /// The record in a slot that this thread owns.
    #[cold]
    fn load(&self, slot: u32) -> Option<Entry> {
        let words = core::array::from_fn(|index| self.shared.record_word(slot, index).load(Ordering::Acquire));
        let mut entry = Entry::unpack(&words)?;
        if entry.size.is_none() || entry.actual.is_none() {
            self.wide_get(&mut entry);
        }
        if !self.shared.settings().options.has(Options::ACTUAL_SIZE) {
            entry.actual = None;
        }
        Some(entry)
    }

    #[inline(always)]
    fn is_wide(&self, slot: u32) -> bool {
        let words = core::array::from_fn(|index| self.shared.record_word(slot, index).load(Ordering::Relaxed));
        Entry::packed_actual(&words).is_none()
    }

    /// A huge block, whose size may have found no place: then it stands for itself.
    #[cold]
    fn measure_wide(&self, slot: u32) -> Option<Measure> {
        self.shared.memory_changes.fetch_add(1, Ordering::Relaxed);
        let entry = self.load(slot)?;
        Some(Measure { bytes: entry.size.unwrap_or(0), weight: entry.weight(self.shared.settings().sample) })
    }

    /// The one figure of a huge block that the history has room for.
    #[cold]
    fn wide_figure(&self, slot: u32) -> u64 {
        self.load(slot).map_or(0, |entry| entry.history_figure())
    }

    fn wide_places(&self, number: u64) -> impl Iterator<Item = *mut u8> + use<> {
        const PROBES: u64 = 32;
        let section = self.shared.ledger().section(SectionKind::Wide);
        let used = section.used();
        (0..PROBES.min(used)).map(move |probe| section.at((number.wrapping_mul(0x9E37_79B9) + probe) % used))
    }

    /// Finds the element of a number, or a vacant one for number 0.
    fn wide_find(&self, number: u64, commit: u64) -> Option<*mut u8> {
        self.wide_places(number).find(|place| {
            // SAFETY: an aligned element of a backed section.
            unsafe { &*place.cast::<AtomicU64>() }.load(Ordering::Acquire) == commit
        })
    }

    #[cold]
    #[inline(never)]
    fn wide_put(&mut self, entry: &Entry) {
        let ledger = self.shared.ledger();
        if ledger.section(SectionKind::Wide).used() == 0 {
            ledger.lease(SectionKind::Wide, ledger.section(SectionKind::Wide).capacity());
        }
        const CLAIMED: u64 = u64::MAX;
        for place in self.wide_places(entry.number) {
            // SAFETY: an aligned element of 4 words of a backed section.
            let word = |at: usize| unsafe { &*place.add(at).cast::<AtomicU64>() };
            let commit = word(wide::NUMBER);
            if commit.compare_exchange(0, CLAIMED, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                word(wide::SIZE).store(entry.size.unwrap_or(0), Ordering::Relaxed);
                word(wide::ACTUAL).store(entry.actual.unwrap_or(0), Ordering::Relaxed);
                commit.store(entry.number + 1, Ordering::Release);
                return;
            }
        }
        self.state.count(TallyCounter::WideLost, 1);
    }

    #[cold]
    fn wide_get(&self, entry: &mut Entry) {
        if let Some(place) = self.wide_find(entry.number, entry.number + 1) {
            let mut element = [0u8; wide::BYTES];
            // SAFETY: a backed element that only the owner of this record changes.
            unsafe { core::ptr::copy_nonoverlapping(place, element.as_mut_ptr(), wide::BYTES) };
            entry.size = Some(CODEC.u64(&element, wide::SIZE));
            entry.actual = Some(CODEC.u64(&element, wide::ACTUAL)).filter(|actual| *actual != 0);
        }
    }

    #[cold]
    #[inline(never)]
    fn wide_clear(&self, number: u64) {
        if let Some(place) = self.wide_find(number, number + 1) {
            // SAFETY: as in `wide_get`.
            unsafe { &*place.cast::<AtomicU64>() }.store(0, Ordering::Release);
        }
    }
}

impl ThreadState {
    /// The thread is on a stack on which it was not before.
    #[cold]
    pub(super) fn stand_on(&mut self, shared: &Shared, tid: u32, stack_pointer: usize) {
        if !self.own.is_own() {
            // glibc keeps a thread's control block at the end of its stack; the first thread's lies elsewhere.
            let is_first = tid == syscall::getpid();
            let first_end = shared.first_stack_end.load(Ordering::Relaxed);
            let end = if is_first { first_end } else { tls::thread_pointer() };
            self.own = StackRange::of_thread(stack_pointer, end);
        }
        self.native = if self.own.is_own() && self.own.holds(stack_pointer) {
            self.own
        } else {
            StackRange::around(stack_pointer)
        };
    }

    /// Whether what is known of the present stack still holds. Where blocks are sampled, most frees are not seen, and a stack
    /// may go with any; a sample is rare, and asking the kernel again is cheap.
    #[inline(always)]
    fn is_believed(&self, shared: &Shared) -> bool {
        self.native.is_own()
            || !shared.sampling.is_on() && self.memory_changes == shared.memory_changes.load(Ordering::Relaxed)
    }

    /// Forgets what was known of a stack that is not the thread's own, if memory was given back since.
    fn note_changes(&mut self, shared: &Shared) {
        if self.is_believed(shared) || self.guard.load(Ordering::Relaxed) != 0 {
            return;
        }
        self.memory_changes = shared.memory_changes.load(Ordering::Relaxed);
        // The caller looks where it stands.
        self.native = StackRange::default();
    }

    /// Forgets all stacks that were taken.
    #[cold]
    fn forget_stacks(&mut self) {
        self.forget_code();
        self.memo.forget();
    }

    /// The batch that was given back first leaves; the warm ones stay.
    #[cold]
    #[inline(never)]
    fn give_batch(&mut self, shared: &Shared) {
        if let Some(batch) = self.slots.get(..BATCH) {
            shared.pool.push(shared, batch);
        }
        self.slots.copy_within(BATCH.., 0);
        self.slot_count -= BATCH as u32;
    }

    #[inline(always)]
    fn pop_slot(&mut self) -> Option<u32> {
        let count = self.slot_count.checked_sub(1)?;
        self.slot_count = count;
        self.slots.get(count as usize).copied()
    }
}

impl Backend for Access<'_> {
    type Slot = u32;

    #[inline(always)]
    fn now(&mut self) -> u64 {
        if !self.shared.settings().options.has(Options::TIME) {
            return 0;
        }
        self.shared.clock.about_now_ns(&mut self.state.moment) / u64::from(TICK_NS)
    }

    #[inline(always)]
    fn number(&mut self) -> Option<u64> {
        let counter = self.shared.ledger().global(GlobalCounter::NextNumber).load(Ordering::Relaxed);
        let state = &mut *self.state;
        let expired = counter.wrapping_sub(state.end_number) > ORDER_BOUND - NUMBER_LEASE;
        if (state.next_number == state.end_number || expired) && !self.new_lease() {
            return None;
        }
        let number = self.state.next_number;
        self.state.next_number += 1;
        Some(number)
    }

    #[inline(always)]
    fn thread(&mut self) -> Option<u32> {
        Some(self.state.row)
    }

    #[inline(always)]
    fn take_slot(&mut self) -> Option<u32> {
        match self.state.pop_slot() {
            Some(slot) => Some(slot),
            None => self.more_slots(),
        }
    }

    #[inline(always)]
    fn release_slot(&mut self, slot: u32) {
        let state = &mut *self.state;
        if state.slot_count as usize == LOCAL_MAX {
            state.give_batch(self.shared);
        }
        if let Some(place) = state.slots.get_mut(state.slot_count as usize) {
            *place = slot;
            state.slot_count += 1;
        }
    }

    #[inline(always)]
    fn publish(&mut self, slot: u32, entry: &Entry) {
        if entry.is_wide() {
            self.wide_put(entry);
        }
        let words: [u64; RECORD_WORDS] = entry.pack();
        // The slot's commit word is 0: it was vacated, perhaps by another thread, or is fresh.
        publication::publish(|index| self.shared.record_word(slot, index), 0, &words);
    }

    #[inline(always)]
    fn weight(&self, bytes: u64, number: u64) -> u64 {
        match self.shared.settings().sample {
            0 => 1,
            interval => sample::weight(bytes, number, interval),
        }
    }

    #[inline(always)]
    fn counts_unknown(&self) -> bool {
        self.shared.settings().sample == 0
    }

    #[inline(always)]
    fn measure(&mut self, slot: u32) -> Option<Measure> {
        let number = (self.shared.record_word(slot, 0).load(Ordering::Acquire) & NUMBER_MASK).checked_sub(1)?;
        let bytes = Entry::packed_size(self.shared.record_word(slot, 2).load(Ordering::Relaxed));
        match bytes {
            Some(bytes) => {
                if bytes >= UNMAPPED_BYTES_MIN {
                    self.shared.memory_changes.fetch_add(1, Ordering::Relaxed);
                }
                Some(Measure { bytes, weight: self.weight(bytes, number) })
            }
            None => self.measure_wide(slot),
        }
    }

    #[inline(always)]
    fn vacate(&mut self, slot: u32) {
        let commit = self.shared.record_word(slot, 0);
        if self.is_wide(slot) {
            self.wide_clear((NUMBER_MASK & commit.load(Ordering::Relaxed)).wrapping_sub(1));
        }
        publication::retract(commit);
    }

    #[inline(always)]
    fn insert(&mut self, address: u64, slot: u32) -> Inserted<u32> {
        self.shared.sampling.note(address);
        match self.shared.index.insert(self.shared, address, slot, self.is_apart) {
            Insert::Done => Inserted::Done,
            Insert::Displaced(old) => {
                self.shared.sampling.forget(address); // the other one's
                Inserted::Displaced(old)
            }
            Insert::Full => {
                self.shared.sampling.forget(address);
                Inserted::Full
            }
        }
    }

    #[inline(always)]
    fn remove(&mut self, address: u64) -> Option<u32> {
        let slot = self.shared.index.remove(self.shared, address, self.shared.threads.is_single());
        if slot.is_some() {
            self.shared.sampling.forget(address);
        }
        slot
    }

    #[inline(always)]
    fn history(&mut self, slot: u32, freed: &Freed) {
        if !self.shared.history.is_on() || self.state.next_entry == self.state.end_entry && !self.new_chunk() {
            return;
        }
        let entry = self.shared.ledger().section(SectionKind::History).at(self.state.next_entry);
        self.state.next_entry += 1;
        let block: [u64; RECORD_WORDS] =
            core::array::from_fn(|index| self.shared.record_word(slot, index).load(Ordering::Relaxed));
        let actual = match Entry::packed_actual(&block) {
            Some(actual) if self.shared.settings().options.has(Options::ACTUAL_SIZE) => actual,
            Some(_) => 0,
            None => self.wide_figure(slot),
        };
        let Freed { number, ended: Ended { by, site }, time } = *freed;
        let end = FreedEntry::pack_end(number, by, site, self.state.row, time);
        let words = [block[0], block[1], block[2], block[3], end[0], end[1], end[2], actual];
        // SAFETY: inside the chunk that this thread has leased.
        unsafe { history::write(entry, &words) };
        self.state.count(TallyCounter::HistoryEntered, 1);
    }

    #[inline(always)]
    fn count(&mut self, counter: TallyCounter, amount: u64) {
        match counter {
            TallyCounter::Allocations => add_to_row(self.state, thread::allocations, amount),
            TallyCounter::BytesAllocated => add_to_row(self.state, thread::bytes_allocated, amount),
            TallyCounter::Frees => add_to_row(self.state, thread::frees, amount),
            _ => {}
        }
        self.state.count(counter, amount);
    }

    #[inline(always)]
    fn count_call(&mut self, kind: Kind, began: bool, amount: u64) {
        self.state.count_call(kind, began, amount);
    }

    #[inline(always)]
    fn live(&mut self, bytes: i64, blocks: i64, _time: u64) {
        self.shared.live(self.state, bytes, blocks);
    }
}
