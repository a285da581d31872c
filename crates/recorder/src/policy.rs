//! What an allocation, a free and a realloc mean for the ledger.
//!
//! Where speed counts the steps are compiled into their callers: they run twice per block.
//!
//! The order of steps is what other threads and readers rely on: a record is complete before the
//! index leads to it, and out of the index before the allocator can hand its address out again.

use heapledger_format::record::LATER_MAX;
use heapledger_format::{Entry, Kind, TallyCounter};

/// What became of [`Backend::insert`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted<S> {
    /// The address leads to the slot.
    Done,
    /// It does, and it led to this other slot before, whose free nobody saw.
    Displaced(S),
    /// The index has no room, or cannot hold such an address.
    Full,
}

/// How a ledger is kept on one kind of target.
///
/// `&mut self` stands for the calling thread's access: a backend for many threads hands each
/// thread its own value over shared tables.
pub trait Backend {
    /// A place for a record.
    type Slot: Copy + PartialEq + core::fmt::Debug;

    /// Does what is rarely done. A backend that is compiled into its callers can have it done with a copy of itself, so that its
    /// own fields need not lie in memory for it.
    #[inline(always)]
    fn aside<R>(&mut self, work: impl FnOnce(&mut Self) -> R) -> R
    where
        Self: Sized,
    {
        work(self)
    }
    /// Ticks since the ledger began.
    fn now(&mut self) -> u64;
    /// The next sequence number; `None` when they have run out.
    fn number(&mut self) -> Option<u64>;
    /// The number of a block that begins: higher than those of the ends of all that were where it is.
    #[inline(always)]
    fn number_of(&mut self, block: &Begun) -> Option<u64> {
        let _ = block;
        self.number()
    }
    /// The number of the end of the block in a slot, which the index no longer leads to: higher than the block's own.
    #[inline(always)]
    fn number_of_end(&mut self, slot: Self::Slot, address: u64) -> Option<u64> {
        let _ = (slot, address);
        self.number()
    }
    /// The number of the block that a `realloc` gave, when `number` was taken as it began: the same, if it is higher than those
    /// of the ends of all blocks that were where it is.
    #[inline(always)]
    fn number_of_moved(&mut self, number: u64, block: &Begun) -> u64 {
        let _ = block;
        number
    }
    /// The calling thread's row.
    fn thread(&mut self) -> Option<u32>;
    /// A vacant slot.
    fn take_slot(&mut self) -> Option<Self::Slot>;
    /// Gives a vacant slot back.
    fn release_slot(&mut self, slot: Self::Slot);
    /// Makes the record visible: its commit word last.
    fn publish(&mut self, slot: Self::Slot, entry: &Entry);
    /// For how many blocks of its size a block stands: 1, unless the ledger samples.
    fn weight(&self, bytes: u64, number: u64) -> u64 {
        let _ = (bytes, number);
        1
    }
    /// Whether a free of an unknown block is worth counting: not, where most blocks are unknown.
    fn counts_unknown(&self) -> bool {
        true
    }
    /// Size and weight of the block whose record is in a slot that the caller owns; `None` if the slot is vacant.
    fn measure(&mut self, slot: Self::Slot) -> Option<Measure>;
    /// Makes the slot vacant: its commit word is 0 from now on.
    fn vacate(&mut self, slot: Self::Slot);
    /// Lets `address` lead to `slot`.
    fn insert(&mut self, address: u64, slot: Self::Slot) -> Inserted<Self::Slot>;
    /// The slot that `address` leads to, which it no longer does. At most one caller gets it.
    fn remove(&mut self, address: u64) -> Option<Self::Slot>;
    /// Enters the block whose record is in a slot into the history, if there is one, with what freed it.
    fn history(&mut self, slot: Self::Slot, freed: &Freed);
    /// Adds to a counter.
    fn count(&mut self, counter: TallyCounter, amount: u64);
    /// Counts so many calls that gave (`began`) or took a block.
    fn count_call(&mut self, kind: Kind, began: bool, amount: u64);
    /// Follows live bytes and blocks, and with them the peak.
    fn live(&mut self, bytes: i64, blocks: i64, time: u64);
}

/// A block that an allocation function just returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begun {
    /// The function.
    pub kind: Kind,
    /// What it returned.
    pub address: u64,
    /// Bytes asked for.
    pub size: u64,
    /// Bytes it really has, if asked.
    pub actual: Option<u64>,
    /// Call site, 0 if none.
    pub site: u32,
    /// The heap it came from.
    pub heap: u8,
}

/// A call that frees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The function.
    pub by: Kind,
    /// Call site, 0 if none.
    pub site: u32,
}

/// How much a record stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measure {
    /// Bytes asked for.
    pub bytes: u64,
    /// For how many such blocks.
    pub weight: u64,
}

/// The end of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freed {
    /// Sequence number of the free. That of the new block if `realloc` freed.
    pub number: u64,
    /// By how much that of the new block is higher after all.
    pub later: u32,
    /// The call.
    pub ended: Ended,
    /// When.
    pub time: u64,
}

/// A block taken out of the index while `realloc` decides over it. Readers still see its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detached<S> {
    slot: S,
    address: u64,
    number: u64,
    time: u64,
}

impl<S> Detached<S> {
    /// Takes it apart, to be kept in raw words between two hooks.
    pub fn into_parts(self) -> (S, u64, u64, u64) {
        (self.slot, self.address, self.number, self.time)
    }

    /// Undoes [`Detached::into_parts`].
    pub fn from_parts((slot, address, number, time): (S, u64, u64, u64)) -> Self {
        Detached { slot, address, number, time }
    }
}

/// Enters a block. Returns whether it is in the ledger now; if not, the reason was counted.
#[cfg_attr(target_arch = "x86_64", inline(always))]
pub fn begin<B: Backend>(backend: &mut B, block: &Begun) -> bool {
    let kind = block.kind;
    let Some(slot) = backend.take_slot() else {
        return backend.aside(|backend| not_entered(backend, kind, None));
    };
    let Some(number) = backend.number_of(block) else {
        return backend.aside(|backend| not_entered(backend, kind, Some(slot)));
    };
    let weight = backend.weight(block.size, number);
    backend.count_call(block.kind, true, weight);
    let time = backend.now();
    enter(backend, block, slot, (number, time), weight)
}

#[cold]
#[inline(never)]
fn not_entered<B: Backend>(backend: &mut B, kind: Kind, slot: Option<B::Slot>) -> bool {
    if let Some(slot) = slot {
        backend.release_slot(slot);
    }
    backend.count_call(kind, true, 1);
    backend.count(TallyCounter::LostNoRecord, 1);
    false
}

#[cfg_attr(target_arch = "x86_64", inline(always))]
fn enter<B: Backend>(backend: &mut B, block: &Begun, slot: B::Slot, (number, time): (u64, u64), weight: u64) -> bool {
    let entry = Entry {
        number,
        address: block.address,
        size: Some(block.size),
        actual: block.actual,
        kind: block.kind,
        site: block.site,
        thread: backend.thread(),
        heap: Some(block.heap),
        time: Some(time),
    };
    backend.publish(slot, &entry);
    match backend.insert(block.address, slot) {
        Inserted::Done => {}
        Inserted::Displaced(old) => backend.aside(|backend| displaced(backend, old, number, time)),
        Inserted::Full => {
            backend.vacate(slot);
            backend.release_slot(slot);
            backend.count(TallyCounter::LostNoIndex, 1);
            return false;
        }
    }
    let bytes = block.size.wrapping_mul(weight);
    backend.count(TallyCounter::Allocations, weight);
    backend.count(TallyCounter::BytesAllocated, bytes);
    backend.live(bytes as i64, weight as i64, time);
    true
}

/// The address belonged to another block, whose free nobody saw.
#[cold]
#[inline(never)]
fn displaced<B: Backend>(backend: &mut B, old: B::Slot, number: u64, time: u64) {
    backend.count(TallyCounter::Displaced, 1);
    close(backend, old, number, &Ended { by: Kind::UNSEEN, site: 0 }, time);
}

/// Takes a block out of the ledger, before the real free. Returns whether the ledger knew it.
#[cfg_attr(target_arch = "x86_64", inline(always))]
pub fn end<B: Backend>(backend: &mut B, address: u64, ended: &Ended) -> bool {
    let Some(slot) = backend.remove(address) else {
        let by = ended.by;
        backend.aside(|backend| unknown(backend, by));
        return false;
    };
    let number = backend.number_of_end(slot, address).unwrap_or(heapledger_format::record::NUMBER_MAX);
    let time = backend.now();
    close(backend, slot, number, ended, time);
    true
}

/// Counts a free of a block that the ledger does not know.
pub fn unknown<B: Backend>(backend: &mut B, by: Kind) {
    if backend.counts_unknown() {
        backend.count_call(by, false, 1);
        backend.count(TallyCounter::UnknownFrees, 1);
    }
}

#[cfg_attr(target_arch = "x86_64", inline(always))]
fn close<B: Backend>(backend: &mut B, slot: B::Slot, number: u64, ended: &Ended, time: u64) {
    retire(backend, slot, (number, 0), ended, time);
    backend.vacate(slot);
    backend.release_slot(slot);
}

/// Books the end of the record in `slot`, whose slot stays with the caller.
#[cfg_attr(target_arch = "x86_64", inline(always))]
fn retire<B: Backend>(backend: &mut B, slot: B::Slot, (number, later): (u64, u32), ended: &Ended, time: u64) {
    let Some(Measure { bytes, weight }) = backend.measure(slot) else { return };
    backend.history(slot, &Freed { number, later, ended: *ended, time });
    let bytes = bytes.wrapping_mul(weight);
    backend.count_call(ended.by, false, weight);
    backend.count(TallyCounter::Frees, weight);
    backend.count(TallyCounter::BytesFreed, bytes);
    backend.live(-(bytes as i64), -(weight as i64), time);
}

/// Before the real `realloc`: takes the block out of the index, so that nobody who gets its address
/// next can be confused with it. `None` if the ledger does not know the block.
pub fn detach<B: Backend>(backend: &mut B, address: u64) -> Option<Detached<B::Slot>> {
    let slot = backend.remove(address)?;
    let number = backend.number_of_end(slot, address).unwrap_or(heapledger_format::record::NUMBER_MAX);
    Some(Detached { slot, address, number, time: backend.now() })
}

/// The real `realloc` failed: nothing has changed.
pub fn reattach<B: Backend>(backend: &mut B, detached: Detached<B::Slot>) {
    match backend.insert(detached.address, detached.slot) {
        Inserted::Done => backend.count(TallyCounter::NumbersUnused, 1),
        Inserted::Displaced(other) => {
            // Someone was given an address that was not free: the allocator's books are broken. Keep ours whole.
            displaced(backend, other, detached.number, detached.time);
        }
        Inserted::Full => {
            // Its free could never be followed: it leaves the ledger now.
            backend.count(TallyCounter::LostNoIndex, 1);
            close(backend, detached.slot, detached.number, &Ended { by: Kind::UNSEEN, site: 0 }, detached.time);
        }
    }
}

/// The real `realloc` gave `block` for the detached one: both halves share one number, if they can.
pub fn replace<B: Backend>(backend: &mut B, detached: Detached<B::Slot>, block: &Begun, ended: &Ended) -> bool {
    let number = backend.number_of_moved(detached.number, block);
    let begins = (number, if number == detached.number { detached.time } else { backend.now() });
    // Somebody may have been given the old place meanwhile: its end keeps the number that was taken before.
    let (ends, time) = match number - detached.number {
        later if later <= u64::from(LATER_MAX) => ((detached.number, later as u32), detached.time),
        _ => ((number, 0), begins.1),
    };
    let weight = backend.weight(block.size, number);
    backend.count_call(block.kind, true, weight);
    retire(backend, detached.slot, ends, ended, time);
    backend.vacate(detached.slot);
    enter(backend, block, detached.slot, begins, weight)
}

/// The real `realloc` freed the detached block and returned none (size 0).
pub fn drop_detached<B: Backend>(backend: &mut B, detached: Detached<B::Slot>, ended: &Ended) {
    close(backend, detached.slot, detached.number, ended, detached.time);
}
