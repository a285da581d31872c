//! What a library of hooks calls.
//!
//! Every function here takes the registers at the hook's caller, returns without having touched
//! `errno`, and does nothing where nothing is recorded.

use super::access::{Access, Sign, count_refused};
use super::capture::capture;
use super::shared::{Phase, Shared};
use super::state::ThreadState;
use crate::policy::{self, Begun, Detached, Ended};
use core::sync::atomic::Ordering;
use heapledger_format::record::Options;
use heapledger_format::section::heap;
use heapledger_format::{GlobalCounter, Kind, SectionKind, TallyCounter, WordSize};
use heapledger_linux::tls;
use heapledger_unwind::Registers;

/// A block that an allocation function just returned.
#[derive(Clone, Copy, Debug)]
pub struct NewBlock {
    /// The function.
    pub kind: Kind,
    /// What it returned.
    pub address: usize,
    /// Bytes asked for.
    pub size: usize,
    /// Asks the allocator how many bytes a block really has. Called from inside the recorder, since
    /// some allocators allocate when they are asked.
    pub usable_size: fn(usize) -> usize,
    /// Row of its heap.
    pub heap: u8,
}

/// What is remembered between the two halves of a `realloc` hook. All zeros: nothing.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Reallocation {
    slot_plus_1: u64,
    address: u64,
    number: u64,
}

fn site_of(access: &mut Access, registers: &Registers, options: u32) -> u32 {
    if access.shared.settings().options.has(options) { capture(access.shared, access.state, registers) } else { 0 }
}

fn begun(access: &mut Access, registers: &Registers, block: &NewBlock) -> Begun {
    let options = access.shared.settings().options;
    let wanted = options.has(Options::ACTUAL_SIZE);
    let mut actual = block.size;
    if wanted {
        access.state.asking.store(1, Ordering::Relaxed);
        actual = actual.max((block.usable_size)(block.address));
        access.state.asking.store(0, Ordering::Relaxed);
    }
    note_range(access.shared, block, actual);
    Begun {
        kind: block.kind,
        address: block.address as u64,
        size: block.size as u64,
        actual: wanted.then_some(actual as u64),
        site: site_of(access, registers, Options::STACK),
        heap: block.heap,
    }
}

fn ended(access: &mut Access, registers: &Registers, by: Kind) -> Ended {
    // The stack of a free is only kept in the history.
    let wanted = access.shared.history.is_on();
    Ended { by, site: if wanted { site_of(access, registers, Options::STACK) } else { 0 } }
}

/// Whether anything is recorded in this process at this moment.
#[inline]
pub fn is_on(shared: &Shared) -> bool {
    shared.phase.load(Ordering::Acquire) == Phase::On as u8 && shared.mark.holds()
}

/// A block begins.
pub fn block_begins(shared: &'static Shared, registers: &Registers, block: &NewBlock) {
    let sign = Sign::new();
    match Access::enter(shared, registers, &sign) {
        Ok(mut access) => {
            let block = begun(&mut access, registers, block);
            policy::begin(&mut access, &block);
        }
        Err(refused) => count_refused(shared, refused, true),
    }
}

/// A block ends; called before the real free.
pub fn block_ends(shared: &'static Shared, registers: &Registers, address: usize, by: Kind) {
    let sign = Sign::new();
    match Access::enter(shared, registers, &sign) {
        Ok(mut access) => {
            let ended = ended(&mut access, registers, by);
            policy::end(&mut access, address as u64, &ended);
        }
        Err(refused) => count_refused(shared, refused, false),
    }
}

/// An allocation function returned no block.
pub fn call_failed(shared: &'static Shared, registers: &Registers) {
    let sign = Sign::new();
    if let Ok(access) = Access::enter(shared, registers, &sign) {
        access.state.count(TallyCounter::FailedCalls, 1);
    }
}

/// Before the real `realloc` of a block.
pub fn realloc_begins(shared: &'static Shared, registers: &Registers, address: usize) -> Reallocation {
    let sign = Sign::new();
    let Ok(mut access) = Access::enter(shared, registers, &sign) else { return Reallocation::default() };
    match policy::detach(&mut access, address as u64) {
        Some(detached) => {
            let (slot, address, number) = detached.into_parts();
            Reallocation { slot_plus_1: u64::from(slot) + 1, address, number }
        }
        None => Reallocation::default(),
    }
}

/// After the real `realloc`. `freed` says that the old block is gone even if there is no new one.
pub fn realloc_ends(
    shared: &'static Shared,
    registers: &Registers,
    reallocation: &Reallocation,
    kind: Kind,
    new: Option<&NewBlock>,
    freed: bool,
) {
    let detached = reallocation
        .slot_plus_1
        .checked_sub(1)
        .map(|slot| Detached::from_parts((slot as u32, reallocation.address, reallocation.number)));
    let sign = Sign::new();
    let mut access = match Access::enter(shared, registers, &sign) {
        Ok(access) => access,
        Err(refused) => {
            if new.is_some() {
                count_refused(shared, refused, true);
            }
            return;
        }
    };
    let access = &mut access;
    match (new, detached) {
        (Some(new), detached) => {
            let block = begun(access, registers, new);
            let ended = Ended { by: kind, site: block.site };
            match detached {
                Some(detached) => {
                    policy::replace(access, detached, &block, &ended);
                }
                None => {
                    access.state.count_call(kind, false);
                    access.state.count(TallyCounter::UnknownFrees, 1);
                    policy::begin(access, &block);
                }
            }
        }
        (None, detached) if freed => {
            let ended = ended(access, registers, kind);
            match detached {
                Some(detached) => policy::drop_detached(access, detached, &ended),
                None => {
                    access.state.count_call(kind, false);
                    access.state.count(TallyCounter::UnknownFrees, 1);
                }
            }
        }
        (None, Some(detached)) => {
            access.state.count(TallyCounter::FailedCalls, 1);
            policy::reattach(access, detached);
        }
        (None, None) => access.state.count(TallyCounter::FailedCalls, 1),
    }
}

fn own_state() -> Option<&'static ThreadState> {
    let word = tls::get() as *const ThreadState;
    // SAFETY: the TLS word is 0 or a state, and states are never unmapped. Only atomics are used through it.
    unsafe { word.as_ref() }
}

/// A call of a function of the next allocator that may itself call replaced ones. All zeros: none.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Call {
    /// Stack address of the hook that makes it.
    pub stack_pointer: usize,
    /// What it is about: a size, a block, or both.
    pub about: [usize; 2],
}

/// Such a call begins: `operator new` will call `malloc`, `operator delete` `free`, `reallocarray` `realloc`,
/// `about` the same size or block. That second call must not be booked again. Returns the call that
/// encloses this one.
pub fn call_begins(shared: &'static Shared, call: Call) -> Call {
    if own_state().is_none() {
        // The thread's very first call: entering once gives it its state.
        let registers = Registers { sp: call.stack_pointer as u64, ..Registers::default() };
        drop(Access::enter(shared, &registers, &Sign::new()));
    }
    match own_state().filter(|_| is_on(shared)) {
        Some(state) => set_call(state, call),
        None => Call::default(),
    }
}

/// It has returned; `enclosing` is in force again. After an exception or a jump nobody says so: a mark can be stale.
pub fn call_ends(shared: &'static Shared, enclosing: Call) {
    if let Some(state) = own_state().filter(|_| is_on(shared)) {
        set_call(state, enclosing);
    }
}

fn set_call(state: &ThreadState, call: Call) -> Call {
    let before = Call {
        stack_pointer: state.calling.load(Ordering::Relaxed),
        about: [state.calling_about[0].load(Ordering::Relaxed), state.calling_about[1].load(Ordering::Relaxed)],
    };
    // Only this thread writes; a handler in between sees no mark rather than half of one.
    state.calling.store(0, Ordering::Relaxed);
    state.calling_about[0].store(call.about[0], Ordering::Relaxed);
    state.calling_about[1].store(call.about[1], Ordering::Relaxed);
    state.calling.store(call.stack_pointer, Ordering::Relaxed);
    before
}

/// The call that encloses this one, if one was begun and not ended.
pub fn enclosing_call(shared: &'static Shared) -> Option<Call> {
    let state = own_state().filter(|_| is_on(shared))?;
    let stack_pointer = state.calling.load(Ordering::Relaxed);
    let about = [state.calling_about[0].load(Ordering::Relaxed), state.calling_about[1].load(Ordering::Relaxed)];
    (stack_pointer != 0).then_some(Call { stack_pointer, about })
}

/// Nothing is recorded here: if that is because this is a forked child, it says so, once.
#[inline]
pub fn note_fork(shared: &'static Shared) {
    if shared.phase.load(Ordering::Relaxed) == Phase::On as u8 && !shared.mark.holds() {
        super::start::note_forked_child(shared);
    }
}

/// Code is about to be unloaded, or (`done`) has just been: known code addresses are no longer trusted.
pub fn code_unloads(shared: &'static Shared, done: bool) {
    // Twice: what is looked up while the module goes must not be believed afterwards.
    shared.modules.next_generation();
    if done && is_on(shared) {
        shared.ledger().global(GlobalCounter::Generation).fetch_add(1, Ordering::Relaxed);
    }
}

/// Widens the address range of a block's heap.
fn note_range(shared: &Shared, block: &NewBlock, actual: usize) {
    let heaps = shared.ledger().section(SectionKind::Heaps);
    if u64::from(block.heap) >= heaps.used() {
        return;
    }
    let row = heaps.at(u64::from(block.heap));
    // SAFETY: an aligned word of a backed row.
    let word = |field: fn(WordSize) -> usize| unsafe {
        &*row.add(field(WordSize::W64)).cast::<core::sync::atomic::AtomicU64>()
    };
    let (low, high) = (block.address as u64, (block.address + actual) as u64);
    // Looking first keeps the line shared: ranges widen rarely.
    if low < word(heap::low).load(Ordering::Relaxed) {
        word(heap::low).fetch_min(low, Ordering::Relaxed);
    }
    if high > word(heap::high).load(Ordering::Relaxed) {
        word(heap::high).fetch_max(high, Ordering::Relaxed);
    }
}
