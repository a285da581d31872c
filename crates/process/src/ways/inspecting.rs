//! What heaps and blocks there are, told by one copy of this code to another.

use super::own::answered;
use super::{FullWay, HeapFactsFn, NextBlockFn, NextRecordFn, SHARED, ShapeHeapFn, Way};
use crate::marks::NotTold;
use crate::thread_facts::{self, AccountFacts, ThreadFacts};
use crate::walk::{self, BlockFacts, Direction, HeapFacts};
use core::mem::offset_of;
use core::ptr;
use heapledger_recorder::inspect::heaps::HeapShape;

/// Stores as much of some facts as there is room for.
///
/// # Safety
/// There must be so much.
unsafe fn store<T: Copy>(facts: &T, into: *mut u8, room: usize) {
    // SAFETY: the caller's, and no more than there is.
    unsafe { ptr::copy_nonoverlapping(ptr::from_ref(facts).cast(), into, size_of::<T>().min(room)) };
}

/// # Safety
/// There must be so much room.
pub(super) unsafe extern "C" fn heap_facts(row: u32, into: *mut u8, room: usize) -> i64 {
    let facts = SHARED.get().ok_or(NotTold::Off).and_then(|shared| walk::heap(shared, row));
    // SAFETY: the caller's.
    answered(facts.map(|facts| unsafe { store(&facts, into, room) }).map(|()| 0))
}

/// # Safety
/// The shape must be there.
pub(super) unsafe extern "C" fn shape_heap(row: u32, shape: *const HeapShape) -> i64 {
    // SAFETY: the caller's.
    let set = SHARED.get().ok_or(NotTold::Off).and_then(|shared| shared.heap_books.set_shape(row, unsafe { &*shape }));
    answered(set.map(|()| 0))
}

pub(super) extern "C" fn watch_minimum(begins: u32) -> i64 {
    answered(SHARED.get().ok_or(NotTold::Off).and_then(|shared| shared.heap_books.watch(begins != 0)).map(|()| 0))
}

/// # Safety
/// There must be so much room.
pub(super) unsafe extern "C" fn next_block(low: u64, end: u64, direction: u32, into: *mut u8, room: usize) -> i64 {
    let (Some(shared), Some(direction)) = (SHARED.get(), Direction::of(direction)) else { return 0 };
    let Some(block) = walk::next_block(shared, low, end, direction) else { return 0 };
    // SAFETY: the caller's.
    unsafe { store(&block, into, room) };
    1
}

/// # Safety
/// There must be so much room.
pub(super) unsafe extern "C" fn next_record(slot: u64, into: *mut u8, room: usize) -> i64 {
    let Some((slot, block)) = SHARED.get().and_then(|shared| walk::next_record(shared, slot)) else { return -1 };
    // SAFETY: the caller's.
    unsafe { store(&block, into, room) };
    slot as i64
}

/// # Safety
/// There must be so much room.
pub(super) unsafe extern "C" fn thread_facts(row: u32, into: *mut u8, room: usize) -> i64 {
    let facts = SHARED.get().ok_or(NotTold::Off).and_then(|shared| thread_facts::thread(shared, row));
    // SAFETY: the caller's.
    answered(facts.map(|facts| unsafe { store(&facts, into, room) }).map(|()| 0))
}

/// # Safety
/// There must be so much room.
pub(super) unsafe extern "C" fn account_facts(row: u64, into: *mut u8, room: usize) -> i64 {
    let Some(facts) = SHARED.get().and_then(|shared| thread_facts::account(shared, row)) else { return 0 };
    // SAFETY: the caller's.
    unsafe { store(&facts, into, room) };
    1
}

pub(super) extern "C" fn own_row() -> i64 {
    answered(SHARED.get().ok_or(NotTold::Off).and_then(thread_facts::own_row))
}

impl Way {
    /// What is known of a thread: [`thread_facts::thread`].
    ///
    /// # Errors
    /// If there is none in this row.
    pub fn thread_facts(&'static self, row: u32) -> Result<ThreadFacts, NotTold> {
        let ask: HeapFactsFn = self.later(offset_of!(FullWay, thread_facts)).ok_or(NotTold::Off)?;
        let mut facts = ThreadFacts::default();
        // SAFETY: there is room for so many bytes.
        NotTold::check(unsafe { ask(row, ptr::from_mut(&mut facts).cast(), size_of::<ThreadFacts>()) })?;
        Ok(facts)
    }

    /// An account: [`thread_facts::account`].
    pub fn account_facts(&'static self, row: u64) -> Option<AccountFacts> {
        let ask: NextRecordFn = self.later(offset_of!(FullWay, account_facts))?;
        let mut facts = AccountFacts::default();
        // SAFETY: there is room for so many bytes.
        let found = unsafe { ask(row, ptr::from_mut(&mut facts).cast(), size_of::<AccountFacts>()) };
        (found == 1).then_some(facts)
    }

    /// The row of the calling thread: [`thread_facts::own_row`].
    ///
    /// # Errors
    /// If it has none.
    pub fn own_row(&'static self) -> Result<u32, NotTold> {
        let ask: extern "C" fn() -> i64 = self.later(offset_of!(FullWay, own_row)).ok_or(NotTold::Off)?;
        NotTold::check(ask())
    }

    /// What is known of a heap: [`walk::heap`].
    ///
    /// # Errors
    /// If there is none in this row.
    pub fn heap_facts(&'static self, row: u32) -> Result<HeapFacts, NotTold> {
        let ask: HeapFactsFn = self.later(offset_of!(FullWay, heap_facts)).ok_or(NotTold::Off)?;
        let mut facts = HeapFacts::NONE;
        // SAFETY: there is room for so many bytes.
        NotTold::check(unsafe { ask(row, ptr::from_mut(&mut facts).cast(), size_of::<HeapFacts>()) })?;
        Ok(facts)
    }

    /// Says what a heap's allocator takes beside what it is asked for.
    ///
    /// # Errors
    /// If it is too late for that, or cannot be.
    pub fn shape_heap(&'static self, row: u32, shape: &HeapShape) -> Result<(), NotTold> {
        let tell: ShapeHeapFn = self.later(offset_of!(FullWay, shape_heap)).ok_or(NotTold::Off)?;
        // SAFETY: the shape is there.
        NotTold::check(unsafe { tell(row, shape) }).map(drop)
    }

    /// The least that is free in each heap is watched from now on, or no longer.
    ///
    /// # Errors
    /// If it was not.
    pub fn watch_minimum(&'static self, begins: bool) -> Result<(), NotTold> {
        let at = offset_of!(FullWay, watch_minimum);
        let watch: extern "C" fn(u32) -> i64 = self.later(at).ok_or(NotTold::Off)?;
        NotTold::check(watch(u32::from(begins))).map(drop)
    }

    /// The block between two addresses that is the first in a direction: [`walk::next_block`].
    pub fn next_block(&'static self, low: u64, end: u64, direction: Direction) -> Option<BlockFacts> {
        let ask: NextBlockFn = self.later(offset_of!(FullWay, next_block))?;
        let mut facts = BlockFacts::default();
        let into = ptr::from_mut(&mut facts).cast();
        // SAFETY: there is room for so many bytes.
        let found = unsafe { ask(low, end, direction as u32, into, size_of::<BlockFacts>()) };
        (found == 1).then_some(facts)
    }

    /// The first record from a slot on that is of a live block: [`walk::next_record`].
    pub fn next_record(&'static self, from: u64) -> Option<(u64, BlockFacts)> {
        let ask: NextRecordFn = self.later(offset_of!(FullWay, next_record))?;
        let mut facts = BlockFacts::default();
        // SAFETY: there is room for so many bytes.
        let slot = unsafe { ask(from, ptr::from_mut(&mut facts).cast(), size_of::<BlockFacts>()) };
        u64::try_from(slot).ok().map(|slot| (slot, facts))
    }
}
