//! Heaps and blocks of allocators of the program's own.

use crate::entry::with_registers;
use crate::error::{ApiError, answer};
use crate::heaps::{capabilities_of, heap_at};
use crate::hooks;
use crate::moments::number;
use crate::recording::recorder;
use crate::text::text;
use core::ffi::{c_char, c_int, c_uint, c_void};
use heapledger_format::Kind;
use heapledger_process::marks::NotTold;
use heapledger_process::reallocation::Reallocation;
use heapledger_process::ways::InnerBlock;
use heapledger_unwind::Registers;
use heapledger_watch::watched::{self, Block};
use heapledger_watch::{state, traces};

/// What is kept while a block is resized: opaque.
#[repr(C)]
pub struct Resize {
    kept: Reallocation,
    /// The block, and its bytes, for those who are told.
    address: usize,
    bytes: usize,
    /// Not 0: they have been told.
    told: usize,
}

const _: () = assert!(size_of::<Resize>() == 48);

/// A heap of the program's own; gives its number.
///
/// # Safety
/// The name must be a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapledger_heap_begin(
    name: *const c_char,
    first: *const c_void,
    bytes: usize,
    capabilities: c_uint,
) -> c_int {
    // SAFETY: the caller's.
    let name = unsafe { text(name) };
    let first = first as usize;
    let begin = |name| {
        let end = first.checked_add(bytes).ok_or(ApiError::INVALID)?;
        Ok(recorder()?.begin_heap(name, first..end, capabilities)?)
    };
    answer(name.and_then(begin))
}

/// It is gone.
#[unsafe(no_mangle)]
pub extern "C" fn heapledger_heap_end(heap: c_int) -> c_int {
    answer(number(heap).and_then(|heap| Ok(recorder()?.end_heap(heap).map(|()| 0)?)))
}

/// A block, by whichever function: 0 is that of a pool. Its heap is one that the program has told of, as far as anybody knows.
fn block(heap: c_int, address: *const c_void, bytes: usize, kind: c_int) -> Result<InnerBlock, ApiError> {
    let kind = giving(kind)?;
    let heap = u32::from(u8::try_from(number(heap)?).map_err(|_| ApiError::UNKNOWN)?);
    // Hooks and traces are told where nothing is recorded, too.
    if let Ok(Err(NotTold::Unknown)) = recorder().map(|way| way.heap_takes_blocks(heap)) {
        return Err(ApiError::UNKNOWN);
    }
    Ok(InnerBlock { address: address as usize, bytes, alignment: 0, kind: u32::from(kind.0), heap })
}

/// The kind of a function that gives blocks.
fn giving(kind: c_int) -> Result<Kind, ApiError> {
    match u8::try_from(kind).map(Kind) {
        Ok(Kind::NONE) => Ok(Kind::POOL_ALLOC),
        Ok(kind) if kind.allocates() => Ok(kind),
        _ => Err(ApiError::INVALID),
    }
}

/// The kind of a function that takes blocks back.
fn taking(kind: c_int) -> Result<Kind, ApiError> {
    let number = if kind == 0 { Ok(Kind::POOL_ALLOC.0) } else { u8::try_from(kind) };
    number.map(Kind::ended_by).ok().filter(|kind| kind.frees()).ok_or(ApiError::INVALID)
}

with_registers! {
    /// A block was given.
    ///
    /// # Safety
    /// None: nothing is read or stored where it lies.
    heapledger_allocated(heap: c_int, address: *const c_void, bytes: usize, kind: c_int) -> c_int = allocated
}

extern "C" fn allocated(
    heap: c_int,
    address: *const c_void,
    bytes: usize,
    kind: c_int,
    _: usize,
    registers: &Registers,
) -> c_int {
    answer(block(heap, address, bytes, kind).and_then(|block| {
        if block.address == 0 {
            return Err(ApiError::INVALID);
        }
        let given = recorder().map(|way| way.gives(registers, &block));
        if is_watched() {
            traces::gave(registers, block.address, block.bytes);
            watched::gave(watched_block(&block), hooks::call);
        }
        given.map(|_| 0)
    }))
}

/// Whether something is done beside recording.
fn is_watched() -> bool {
    state::flags() & state::WATCHED != 0
}

/// As hooks are told of it.
fn watched_block(block: &InnerBlock) -> Block {
    let kind = Kind(block.kind as u8);
    let InnerBlock { address, bytes, alignment, heap, .. } = *block;
    Block { kind, address, size: bytes, counted: bytes, align: alignment, heap }
}

/// A block that is there, as far as the ledger knows it.
fn known(address: usize, kind: Kind) -> Block {
    let bytes = recorder().ok().and_then(|way| way.size_of(address, true));
    let size = bytes.unwrap_or(0);
    Block { kind, address, size, counted: size, align: 0, heap: heap_at(address).unwrap_or(0) }
}

with_registers! {
    /// A block is about to be given back.
    ///
    /// # Safety
    /// None: nothing is read or stored where it lies.
    heapledger_freed(address: *const c_void, kind: c_int) -> c_int = freed
}

extern "C" fn freed(address: *const c_void, kind: c_int, _: usize, _: usize, _: usize, registers: &Registers) -> c_int {
    answer(taking(kind).and_then(|kind| {
        if is_watched() && !address.is_null() {
            if !watched::frees(known(address as usize, kind), hooks::call) {
                return Err(ApiError::NOT_SO);
            }
            traces::frees(registers, address as usize);
        }
        recorder()?.takes(registers, address as usize, kind);
        Ok(0)
    }))
}

with_registers! {
    /// A block is about to be resized: keeps what is needed when it was.
    ///
    /// # Safety
    /// There must be a place for that.
    heapledger_resizing(address: *const c_void, kept: *mut Resize) -> c_int = resizing
}

unsafe extern "C" fn resizing(
    address: *const c_void,
    kept: *mut Resize,
    _: usize,
    _: usize,
    _: usize,
    registers: &Registers,
) -> c_int {
    if kept.is_null() {
        return ApiError::INVALID.0;
    }
    let mut told = Resize { kept: Reallocation::default(), address: address as usize, bytes: 0, told: 0 };
    if is_watched() && !address.is_null() {
        let old = known(address as usize, Kind::POOL_ALLOC);
        if !watched::resizes(old, hooks::call) {
            // SAFETY: the caller's.
            unsafe { *kept = told };
            return ApiError::NOT_SO.0;
        }
        traces::resizes(address as usize);
        (told.bytes, told.told) = (old.size, 1);
    }
    let way = recorder();
    let begun = way.map_or_else(|_| Reallocation::default(), |way| way.resizes(registers, address as usize));
    // SAFETY: the caller's.
    unsafe { *kept = Resize { kept: begun, ..told } };
    answer(way.map(|_| 0))
}

with_registers! {
    /// It was, or could not be, if the address is null: then it is as it was.
    ///
    /// # Safety
    /// It must be what `heapledger_resizing` has kept, once.
    heapledger_resized(kept: *mut Resize, heap: c_int, address: *const c_void, bytes: usize, kind: c_int) -> c_int = resized
}

unsafe extern "C" fn resized(
    kept: *mut Resize,
    heap: c_int,
    address: *const c_void,
    bytes: usize,
    kind: c_int,
    registers: &Registers,
) -> c_int {
    if kept.is_null() {
        return ApiError::INVALID.0;
    }
    // SAFETY: the caller's. A second call finds nothing.
    let (begun, old) = unsafe {
        let told = core::mem::take(&mut (*kept).told);
        (core::mem::take(&mut (*kept).kept), (told != 0).then_some(((*kept).address, (*kept).bytes)))
    };
    // What was taken out goes back, whatever else is wrong.
    let (wrong, block) = match block(heap, address, bytes, kind) {
        Ok(block) => (None, block),
        Err(error) => (Some(error), InnerBlock { kind: u32::from(Kind::POOL_ALLOC.0), ..InnerBlock::default() }),
    };
    let resized = recorder().map(|way| way.resized(registers, &begun, &block));
    if let Some((address, size)) = old {
        let new = watched_block(&block);
        traces::gave_anew(registers, address, (block.address != 0).then_some((block.address, block.bytes)));
        watched::gave_anew(Block { address, size, counted: size, ..new }, new, true, hooks::call);
    }
    answer(wrong.map_or(resized.map(|()| 0), Err))
}

with_registers! {
    /// There was no block of so many bytes.
    ///
    /// # Safety
    /// None: nothing is read or stored.
    heapledger_refused(heap: c_int, bytes: usize, alignment: usize, kind: c_int) -> c_int = refused
}

extern "C" fn refused(
    heap: c_int,
    bytes: usize,
    alignment: usize,
    kind: c_int,
    _: usize,
    registers: &Registers,
) -> c_int {
    answer(block(heap, core::ptr::null(), bytes, kind).and_then(|block| {
        let block = InnerBlock { alignment, ..block };
        let told = recorder().map(|way| way.refuses(registers, &block));
        if is_watched() {
            watched::gave(watched_block(&block), hooks::call);
            hooks::refused(bytes, capabilities_of(block.heap));
        }
        told.map(|()| 0)
    }))
}
