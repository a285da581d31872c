//! What heaps have: figures, all blocks, text.

use crate::error::{ApiError, answer};
use crate::moments::number;
use crate::output::{Output, written};
use crate::recording::recorder;
use core::ffi::{c_int, c_uint, c_void};
use core::ptr;
use heapledger_format::section::heap_state;
use heapledger_process::c_heap;
use heapledger_process::heap_books::flag;
use heapledger_process::walk::{BlockFacts, Direction, HeapFacts};
use heapledger_process::ways::{OurMalloc, Way};
use heapledger_recorder::inspect::heaps::{Gaps, HeapFigures, HeapShape, Taken, known};
use heapledger_recorder::inspect::heaps_text;

/// In place of a heap's number: that of the C library.
pub const C_HEAP: c_int = -1;
/// Most rows of heaps.
const ROWS_MAX: u32 = 256;

/// What is known of a heap, or of several.
pub const KNOWN: &[(&str, c_int)] = &[
    ("TOTAL", known::TOTAL as c_int),
    ("OVERHEAD", known::OVERHEAD as c_int),
    ("GAPS", known::GAPS as c_int),
    ("MINIMUM", known::MINIMUM as c_int),
    ("ALL_BLOCKS", known::ALL_BLOCKS as c_int),
];

/// What heaps have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Figures {
    /// Bytes of this structure, as the caller knows it.
    pub size: usize,
    /// What it says.
    pub figures: HeapFigures,
}

/// What an allocator takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Shape {
    /// Bytes of this structure, as the caller knows it.
    pub size: usize,
    /// What it says.
    pub shape: HeapShape,
}

/// A block of a heap, or a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Block {
    /// Bytes of this structure.
    pub size: usize,
    /// Where it begins.
    pub address: *const c_void,
    /// Bytes asked for; of a gap: of the largest block that it has room for.
    pub bytes: usize,
    /// Bytes that it really has, as far as is known.
    pub usable_bytes: usize,
    /// With what its allocator takes; of a gap: all of it.
    pub taken_bytes: usize,
    /// The number of its allocation.
    pub number: u64,
    /// The heap's number, or [`C_HEAP`].
    pub heap: c_int,
    /// 0: it is a gap.
    pub is_used: c_int,
    /// Where its heap begins, if that is known.
    pub heap_first: *const c_void,
    /// Bytes of its heap; 0: not known.
    pub heap_bytes: usize,
    /// The function that gave it.
    pub kind: c_int,
    /// Nothing yet.
    pub spare: c_int,
}

const _: () = assert!(size_of::<Figures>() == 96 && size_of::<Shape>() == 56 && size_of::<Block>() == 80);

/// Is told of a block; 0: no more of this heap.
pub type WalkFn = unsafe extern "C" fn(block: *const Block, user: *mut c_void) -> c_int;

/// A heap of the program's own.
#[derive(Clone, Copy)]
struct OwnHeap {
    way: &'static Way,
    row: u32,
    facts: HeapFacts,
}

/// Capabilities of the innermost heap of the program's own in which an address lies.
pub(crate) fn capabilities_at(address: usize) -> Option<u32> {
    OwnHeap::around(recorder().ok()?, address).map(|heap| heap.facts.capabilities)
}

/// The innermost heap of the program's own in which an address lies.
pub(crate) fn heap_at(address: usize) -> Option<u32> {
    OwnHeap::around(recorder().ok()?, address).map(|heap| heap.row)
}

/// Capabilities of a heap of the program's own.
pub(crate) fn capabilities_of(row: u32) -> Option<u32> {
    Some(OwnHeap::of(recorder().ok()?, row).ok()?.facts.capabilities)
}

/// A block, or a gap.
enum Piece {
    Block(BlockFacts),
    Gap(core::ops::Range<usize>),
}

impl OwnHeap {
    fn of(way: &'static Way, row: u32) -> Result<OwnHeap, ApiError> {
        let facts = way.heap_facts(row)?;
        let is_there = facts.is_own != 0 && facts.state == heap_state::IN_USE;
        is_there.then_some(OwnHeap { way, row, facts }).ok_or(ApiError::UNKNOWN)
    }

    /// Those that have all of some capabilities.
    fn all(way: &'static Way, capabilities: u32) -> impl Iterator<Item = OwnHeap> {
        let rows = (0..ROWS_MAX).map_while(move |row| match OwnHeap::of(way, row) {
            Err(ApiError::UNKNOWN) if way.heap_facts(row).is_ok() => Some(None),
            heap => heap.ok().map(Some),
        });
        rows.flatten().filter(move |heap| heap.facts.capabilities & capabilities == capabilities)
    }

    /// Of heaps whose range has an address in it, the innermost.
    fn around(way: &'static Way, address: usize) -> Option<OwnHeap> {
        let around = OwnHeap::all(way, 0).filter(|heap| heap.facts.range().contains(&address));
        around.min_by_key(|heap| heap.facts.range().len())
    }

    fn has_range(&self) -> bool {
        !self.facts.range().is_empty()
    }

    /// Tells of all blocks and gaps in the order of addresses; without a range of its blocks in no order. False: no more.
    fn pieces(&self, mut tell: impl FnMut(&Piece) -> bool) {
        let is_mine = |block: &BlockFacts| block.heap == self.row;
        if !self.has_range() {
            let mut from = 0;
            while let Some((slot, block)) = self.way.next_record(from) {
                if is_mine(&block) && !tell(&Piece::Block(block)) {
                    return;
                }
                from = slot.wrapping_add(1);
            }
            return;
        }
        let (mut gaps, mut low) = (Gaps::new(&self.facts.range(), &self.facts.shape), self.facts.low);
        while let Some(block) = self.way.next_block(low, self.facts.end, Direction::OwnUp) {
            low = block.address.wrapping_add(1);
            if !is_mine(&block) {
                continue;
            }
            let gap = gaps.before(block.address as usize, block.bytes as usize);
            if gap.is_some_and(|gap| !tell(&Piece::Gap(gap))) || !tell(&Piece::Block(block)) {
                return;
            }
        }
        if let Some(gap) = gaps.last() {
            tell(&Piece::Gap(gap));
        }
    }

    fn figures(&self) -> HeapFigures {
        let [used_bytes, blocks, now, most, most_watched] = self.facts.sums.map(|sum| sum as usize);
        let is_late = self.facts.flags & flag::LATE != 0;
        let mut figures =
            HeapFigures { heaps: 1, used_bytes, used_blocks: blocks, late_heaps: is_late.into(), ..HeapFigures::NONE };
        if self.has_range() {
            let bytes = self.facts.range().len();
            figures.set_bytes(bytes, &self.facts.shape, &Taken { used_bytes, now, most, most_watched });
            self.pieces(|piece| {
                if let Piece::Gap(gap) = piece {
                    figures.add_gap(gap, &self.facts.shape);
                }
                true
            });
        } else {
            figures.known &= !(known::TOTAL | known::GAPS | known::MINIMUM | known::OVERHEAD);
        }
        if self.facts.flags & flag::SHAPE == 0 {
            figures.known &= !known::OVERHEAD;
        }
        if self.facts.flags & flag::PARTIAL != 0 {
            figures.known &= !known::ALL_BLOCKS;
        }
        figures
    }

    fn told(&self, piece: &Piece) -> Block {
        let range = self.facts.range();
        let of_heap =
            Block { heap: self.row as c_int, heap_first: range.start as _, heap_bytes: range.len(), ..NO_BLOCK };
        match piece {
            Piece::Block(block) => {
                let bytes = block.bytes as usize;
                let shape = self.facts.shape;
                let (usable_bytes, taken_bytes) = (shape.usable(bytes), shape.taken(bytes));
                Block { usable_bytes, taken_bytes, ..of_block(block, of_heap) }
            }
            Piece::Gap(gap) => {
                let bytes = self.facts.shape.fits(gap.len());
                let address = gap.start as *const c_void;
                Block { address, bytes, usable_bytes: bytes, taken_bytes: gap.len(), ..of_heap }
            }
        }
    }
}

const NO_BLOCK: Block = Block {
    size: size_of::<Block>(),
    address: ptr::null(),
    bytes: 0,
    usable_bytes: 0,
    taken_bytes: 0,
    number: 0,
    heap: C_HEAP,
    is_used: 0,
    heap_first: ptr::null(),
    heap_bytes: 0,
    kind: 0,
    spare: 0,
};

fn of_block(block: &BlockFacts, of_heap: Block) -> Block {
    let (bytes, usable_bytes) = (block.bytes as usize, block.usable as usize);
    Block {
        address: block.address as *const c_void,
        bytes,
        usable_bytes,
        taken_bytes: usable_bytes,
        number: block.number,
        is_used: 1,
        kind: block.kind as c_int,
        ..of_heap
    }
}

/// Tells of the C library's blocks, in no order. False: no more.
fn c_blocks(way: &'static Way, mut tell: impl FnMut(&BlockFacts) -> bool) {
    let mut from = 0;
    while let Some((slot, block)) = way.next_record(from) {
        if block.is_of_own_heap == 0 && !tell(&block) {
            return;
        }
        from = slot.wrapping_add(1);
    }
}

/// The C library's heap, by its own word and the ledger's.
fn c_figures(way: &'static Way) -> Result<HeapFigures, ApiError> {
    let heap = c_heap::info(OurMalloc::PassesOn).ok_or(ApiError::UNSUPPORTED)?;
    let mut figures = HeapFigures { heaps: 1, total_bytes: heap.system_bytes, ..HeapFigures::NONE };
    c_blocks(way, |block| {
        figures.used_bytes = figures.used_bytes.saturating_add(block.bytes as usize);
        figures.used_blocks = figures.used_blocks.saturating_add(1);
        true
    });
    figures.used_bytes = figures.used_bytes.min(heap.in_use_bytes);
    figures.free_bytes = heap.free_bytes;
    figures.overhead_bytes = heap.system_bytes.saturating_sub(heap.free_bytes).saturating_sub(figures.used_bytes);
    figures.known = known::TOTAL | known::OVERHEAD;
    Ok(figures)
}

/// What an allocator takes beside what it is asked for: said before its heap has given a block.
///
/// # Safety
/// There must be a structure whose size stands in it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapledger_heap_shape(heap: c_int, shape: *const Shape) -> c_int {
    if shape.is_null() {
        return ApiError::INVALID.0;
    }
    // SAFETY: it begins with its size.
    if unsafe { (*shape).size } < size_of::<Shape>() {
        return ApiError::TOO_SMALL.0;
    }
    // SAFETY: it is all there.
    let shape = unsafe { (*shape).shape };
    answer(number(heap).and_then(|row| Ok(recorder()?.shape_heap(row, &shape).map(|()| 0)?)))
}

/// # Safety
/// There must be a structure whose size stands in it.
unsafe fn stored(into: *mut Figures, figures: impl FnOnce() -> Result<HeapFigures, ApiError>) -> c_int {
    if into.is_null() {
        return ApiError::INVALID.0;
    }
    // SAFETY: it begins with its size.
    let size = unsafe { (*into).size };
    if size < size_of::<Figures>() {
        return ApiError::TOO_SMALL.0;
    }
    answer(figures().map(|figures| {
        // SAFETY: there is room for it.
        unsafe { *into = Figures { size, figures } };
        0
    }))
}

/// What a heap has.
///
/// # Safety
/// There must be a structure whose size stands in it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapledger_heap_figures(heap: c_int, into: *mut Figures) -> c_int {
    let figures = || match heap {
        C_HEAP => c_figures(recorder()?),
        heap => number(heap).and_then(|row| Ok(OwnHeap::of(recorder()?, row)?.figures())),
    };
    // SAFETY: the caller's.
    unsafe { stored(into, figures) }
}

/// What all heaps have that have some capabilities.
///
/// # Safety
/// There must be a structure whose size stands in it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapledger_heaps_figures(capabilities: c_uint, into: *mut Figures) -> c_int {
    let figures = || {
        let mut all = HeapFigures::NONE;
        OwnHeap::all(recorder()?, capabilities).for_each(|heap| all.add(&heap.figures()));
        Ok(all)
    };
    // SAFETY: the caller's.
    unsafe { stored(into, figures) }
}

/// The least that is free counts from now on.
#[unsafe(no_mangle)]
pub extern "C" fn heapledger_minimum_watch_start() -> c_int {
    answer(recorder().and_then(|way| Ok(way.watch_minimum(true).map(|()| 0)?)))
}

/// It counts from the beginning again.
#[unsafe(no_mangle)]
pub extern "C" fn heapledger_minimum_watch_stop() -> c_int {
    answer(recorder().and_then(|way| Ok(way.watch_minimum(false).map(|()| 0)?)))
}

/// All blocks and gaps of a heap.
///
/// # Safety
/// The function must take what it is given.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapledger_heap_walk(heap: c_int, each: Option<WalkFn>, user: *mut c_void) -> c_int {
    let Some(each) = each else { return ApiError::INVALID.0 };
    // SAFETY: the caller's.
    let tell = |block: &Block| unsafe { each(block, user) } != 0;
    answer(recorder().and_then(|way| {
        if heap == C_HEAP {
            c_blocks(way, |block| tell(&of_block(block, NO_BLOCK)));
        } else {
            let heap = OwnHeap::of(way, number(heap)?)?;
            heap.pieces(|piece| tell(&heap.told(piece)));
        }
        Ok(0)
    }))
}

/// All blocks and gaps of all heaps that have some capabilities.
///
/// # Safety
/// The function must take what it is given.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapledger_heaps_walk(capabilities: c_uint, each: Option<WalkFn>, user: *mut c_void) -> c_int {
    let Some(each) = each else { return ApiError::INVALID.0 };
    answer(recorder().map(|way| {
        // SAFETY: the caller's.
        let tell = |block: &Block| unsafe { each(block, user) } != 0;
        OwnHeap::all(way, capabilities).for_each(|heap| heap.pieces(|piece| tell(&heap.told(piece))));
        0
    }))
}

/// The block in which an address lies: of a heap of the program's own, else of the C library's.
///
/// # Safety
/// There must be a structure whose size stands in it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapledger_block_at(address: *const c_void, into: *mut Block) -> c_int {
    if into.is_null() {
        return ApiError::INVALID.0;
    }
    // SAFETY: it begins with its size.
    let size = unsafe { (*into).size };
    if size < size_of::<Block>() {
        return ApiError::TOO_SMALL.0;
    }
    let found = recorder().and_then(|way| block_at(way, address as u64).ok_or(ApiError::UNKNOWN));
    answer(found.map(|block| {
        // SAFETY: there is room for it.
        unsafe { *into = Block { size, ..block } };
        0
    }))
}

fn block_at(way: &'static Way, address: u64) -> Option<Block> {
    let holds = |block: &BlockFacts| address.wrapping_sub(block.address) < block.usable.max(1);
    // Further down than the nearest one lie those of heaps around.
    let lows = OwnHeap::all(way, 0).filter(|heap| heap.facts.range().contains(&(address as usize)));
    let low = lows.map(|heap| heap.facts.low).min();
    let mut end = address.saturating_add(1);
    while let Some(block) = way.next_block(low.unwrap_or(0), end, Direction::OwnDown) {
        if holds(&block) {
            let heap = OwnHeap::of(way, block.heap).ok();
            // Of a heap that is gone no more is known than its number.
            let of_gone = Block { heap: block.heap as c_int, ..NO_BLOCK };
            return Some(heap.map_or_else(|| of_block(&block, of_gone), |heap| heap.told(&Piece::Block(block))));
        }
        if low.is_none() {
            break;
        }
        end = block.address;
    }
    let block = way.next_block(0, address.saturating_add(1), Direction::OthersDown)?;
    holds(&block).then(|| of_block(&block, NO_BLOCK))
}

/// Prints what heaps have that have some capabilities.
///
/// # Safety
/// An output must be there, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapledger_heaps_print(capabilities: c_uint, output: *const Output) -> c_int {
    // SAFETY: the caller's.
    answer(recorder().and_then(|way| unsafe {
        written(output, |text| {
            heaps_text::summary_begins(text, capabilities);
            let mut all = HeapFigures::NONE;
            for heap in OwnHeap::all(way, capabilities) {
                let figures = heap.figures();
                heaps_text::summary_heap(text, heap.facts.low, &figures);
                all.add(&figures);
            }
            heaps_text::summary_ends(text, &all);
        })
    }))
}

/// Prints all blocks and gaps of heaps that have some capabilities.
///
/// # Safety
/// An output must be there, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn heapledger_heaps_dump(capabilities: c_uint, output: *const Output) -> c_int {
    // SAFETY: the caller's.
    answer(recorder().and_then(|way| unsafe {
        written(output, |text| {
            for heap in OwnHeap::all(way, capabilities) {
                heaps_text::dump_begins(text, heap.facts.low);
                heap.pieces(|piece| {
                    let Block { address, usable_bytes, taken_bytes, is_used, .. } = heap.told(piece);
                    let bytes = if is_used == 0 { taken_bytes } else { usable_bytes };
                    heaps_text::dump_block(text, address as u64, bytes as u64, is_used == 0);
                    true
                });
            }
        })
    }))
}
