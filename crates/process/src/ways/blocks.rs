//! Blocks of [inner](crate::inner) allocators, told by one copy of this code to another.

use super::own::{answered, text};
use super::{
    BeginHeapFn, CallsInsideFn, FullWay, GivesFn, RefusesFn, ResizedFn, ResizesFn, SHARED, TakesFn, Way, WorkFn,
};
use crate::marks::NotTold;
use crate::reallocation::Reallocation;
use crate::shared::Shared;
use crate::{heaps, inner};
use core::mem::offset_of;
use core::ptr;
use heapledger_format::Kind;
use heapledger_unwind::Registers;

/// A block that an inner allocator gives, or has been asked for. Its order never changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct InnerBlock {
    /// Where it begins; 0: there is none.
    pub address: usize,
    /// Bytes asked for.
    pub bytes: usize,
    /// The alignment that was asked for; 0: none.
    pub alignment: usize,
    /// The function: a [`Kind`].
    pub kind: u32,
    /// The row of its heap.
    pub heap: u32,
}

/// # Safety
/// Both must be there.
pub(super) unsafe extern "C" fn gives(registers: *const Registers, block: *const InnerBlock) -> u32 {
    let mut follows = false;
    // SAFETY: the caller's.
    with(registers, |shared, registers| follows = inner::gives(shared, registers, unsafe { &*block }));
    u32::from(follows)
}

/// # Safety
/// The registers must be there.
pub(super) unsafe extern "C" fn takes(registers: *const Registers, address: usize, kind: u32) {
    with(registers, |shared, registers| inner::takes(shared, registers, address, Kind(kind as u8)));
}

/// # Safety
/// The registers must be there, and a place for what is kept.
pub(super) unsafe extern "C" fn resizes(registers: *const Registers, address: usize, kept: *mut Reallocation) {
    let mut begun = Reallocation::default();
    with(registers, |shared, registers| begun = inner::resizes(shared, registers, address));
    // SAFETY: the caller's.
    unsafe { kept.write(begun) };
}

/// # Safety
/// All three must be there.
pub(super) unsafe extern "C" fn resized(
    registers: *const Registers,
    kept: *const Reallocation,
    block: *const InnerBlock,
) {
    // SAFETY: the caller's.
    with(registers, |shared, registers| unsafe { inner::resized(shared, registers, &*kept, &*block) });
}

/// # Safety
/// Both must be there.
pub(super) unsafe extern "C" fn refuses(registers: *const Registers, asked: *const InnerBlock) {
    // SAFETY: the caller's.
    with(registers, |shared, registers| inner::refuses(shared, registers, unsafe { &*asked }));
}

fn with(registers: *const Registers, then: impl FnOnce(&'static Shared, &Registers)) {
    if let Some(shared) = SHARED.get() {
        // SAFETY: who calls one of the functions above promises that they are there.
        then(shared, unsafe { &*registers });
    }
}

/// # Safety
/// The name must be there.
pub(super) unsafe extern "C" fn begin_heap(
    name: *const u8,
    bytes: usize,
    low: usize,
    end: usize,
    capabilities: u32,
) -> i64 {
    let Some(shared) = SHARED.get() else { return NotTold::Off.number() };
    // SAFETY: the caller's.
    let name = unsafe { text(name, bytes) };
    answered(heaps::begin(shared, name, low..end, capabilities).map(u32::from))
}

pub(super) extern "C" fn end_heap(row: u32) -> i64 {
    answered(SHARED.get().ok_or(NotTold::Off).and_then(|shared| heaps::end(shared, row)).map(|()| 0))
}

pub(super) extern "C" fn heap_takes_blocks(row: u32) -> i64 {
    let shared = SHARED.get().ok_or(NotTold::Off);
    answered(shared.and_then(|shared| heaps::takes_blocks(shared, row)).map(|()| 0))
}

/// # Safety
/// The data must be what the function takes.
#[unsafe(link_section = "heapledger_entry")]
pub(super) unsafe extern "C" fn calls_inside(work: WorkFn, data: *mut ()) -> i64 {
    let mut here = 0u64;
    let registers = Registers { sp: &raw mut here as u64, ..Registers::default() };
    let calls = SHARED.get().and_then(|shared| {
        // SAFETY: the caller's.
        inner::calls_inside(shared, &registers, || unsafe { work(data) })
    });
    // Not a last call: the frame stays as long as the work runs.
    core::hint::black_box(&mut here);
    calls.map_or(-1, |calls| calls as i64)
}

impl Way {
    /// An inner allocator has given a block: [`inner::gives`].
    pub fn gives(&'static self, registers: &Registers, block: &InnerBlock) -> bool {
        let gives = self.later::<GivesFn>(offset_of!(FullWay, gives));
        // SAFETY: both are there.
        gives.is_some_and(|gives| unsafe { gives(registers, block) } != 0)
    }

    /// An inner allocator is about to take a block back: [`inner::takes`].
    pub fn takes(&'static self, registers: &Registers, address: usize, kind: Kind) {
        if let Some(takes) = self.later::<TakesFn>(offset_of!(FullWay, takes)) {
            // SAFETY: they are there.
            unsafe { takes(registers, address, u32::from(kind.0)) };
        }
    }

    /// An inner allocator is about to resize a block: [`inner::resizes`].
    pub fn resizes(&'static self, registers: &Registers, address: usize) -> Reallocation {
        let mut kept = Reallocation::default();
        if let Some(resizes) = self.later::<ResizesFn>(offset_of!(FullWay, resizes)) {
            // SAFETY: both are there.
            unsafe { resizes(registers, address, ptr::from_mut(&mut kept)) };
        }
        kept
    }

    /// It has, or could not: [`inner::resized`].
    pub fn resized(&'static self, registers: &Registers, kept: &Reallocation, block: &InnerBlock) {
        if let Some(resized) = self.later::<ResizedFn>(offset_of!(FullWay, resized)) {
            // SAFETY: all three are there.
            unsafe { resized(registers, kept, block) };
        }
    }

    /// An inner allocator had no block: [`inner::refuses`].
    pub fn refuses(&'static self, registers: &Registers, asked: &InnerBlock) {
        if let Some(refuses) = self.later::<RefusesFn>(offset_of!(FullWay, refuses)) {
            // SAFETY: both are there.
            unsafe { refuses(registers, asked) };
        }
    }

    /// A heap of the program's own begins: [`heaps::begin`]. Gives its row.
    ///
    /// # Errors
    /// If it is not in the ledger.
    pub fn begin_heap(
        &'static self,
        name: &[u8],
        addresses: core::ops::Range<usize>,
        capabilities: u32,
    ) -> Result<u32, NotTold> {
        let begin: BeginHeapFn = self.later(offset_of!(FullWay, begin_heap)).ok_or(NotTold::Off)?;
        // SAFETY: the name is there.
        NotTold::check(unsafe { begin(name.as_ptr(), name.len(), addresses.start, addresses.end, capabilities) })
    }

    /// It is gone: [`heaps::end`].
    ///
    /// # Errors
    /// If it is none.
    pub fn end_heap(&'static self, row: u32) -> Result<(), NotTold> {
        let end: extern "C" fn(u32) -> i64 = self.later(offset_of!(FullWay, end_heap)).ok_or(NotTold::Off)?;
        NotTold::check(end(row)).map(drop)
    }

    /// Whether blocks may begin in a heap of the program's own: [`heaps::takes_blocks`]. A recorder that cannot say it takes them.
    ///
    /// # Errors
    /// If there is none in this row, or it is gone.
    pub fn heap_takes_blocks(&'static self, row: u32) -> Result<(), NotTold> {
        let takes = self.later::<extern "C" fn(u32) -> i64>(offset_of!(FullWay, heap_takes_blocks));
        takes.map_or(Ok(()), |takes| NotTold::check(takes(row)).map(drop))
    }

    /// Whether it can be told of blocks of inner allocators.
    pub fn knows_inner(&'static self) -> bool {
        self.later::<CallsInsideFn>(offset_of!(FullWay, calls_inside)).is_some()
    }

    /// How many calls of the `malloc` that it records come from this thread while `work` runs: [`inner::calls_inside`].
    pub fn calls_inside(&'static self, mut work: impl FnMut()) -> Option<usize> {
        unsafe extern "C" fn call<F: FnMut()>(work: *mut ()) {
            // SAFETY: it is the function that was given with this one.
            unsafe { (*work.cast::<F>())() };
        }
        fn caller_of<F: FnMut()>(_: &F) -> WorkFn {
            call::<F>
        }
        let inside: CallsInsideFn = self.later(offset_of!(FullWay, calls_inside))?;
        // SAFETY: the function is there, and is what `call` takes.
        let calls = unsafe { inside(caller_of(&work), ptr::from_mut(&mut work).cast()) };
        usize::try_from(calls).ok()
    }
}
