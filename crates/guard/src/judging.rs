//! What a library that judges calls of the C library asks the one that has the blocks.
//!
//! Both are in one process, and may be of two versions: what stands here keeps its order, and a later version only adds to its end.

#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicU64, Ordering};

/// Under this name the library that has the blocks exports its [`Judging`].
pub const SYMBOL: &[u8] = b"heapledger_judging";
/// Of what stands here.
pub const VERSION: u32 = 4;
/// Bytes of a function's name, with the zero behind it.
pub const NAME_BYTES: usize = 32;

/// What can be asked.
#[derive(Debug)]
#[repr(C)]
pub struct Judging {
    version: u32,
    bytes: u32,
    /// First address of all memory in which blocks lie, and how many bytes it has: 0 as long as nothing is to be judged.
    range: [AtomicU64; 2],
    /// The block in whose place an address lies.
    find: FindFn,
    /// An access is wrong.
    report: ReportFn,
    /// The kernel is about to access so many bytes from an address on: it must be able to.
    prepare: PrepareFn,
    /// 1: there is memory that nobody can access before that was called.
    is_closed: AtomicU64,
    /// How much of this memory there is, and in use.
    heap: HeapFn,
    /// Whether so many bytes from an address on all lie in one live block: the commonest question, and the one that is answered soonest.
    holds: HoldsFn,
}

/// 1: there is one.
pub type FindFn = extern "C" fn(u64, &mut FoundBlock) -> u32;
/// See [`Judging`].
pub type ReportFn = extern "C" fn(&WrongCall);
/// See [`Judging`].
pub type PrepareFn = extern "C" fn(u64, u64);
/// See [`Judging`].
pub type HeapFn = extern "C" fn(&mut OwnHeap);
/// 1: they do. 0: they do not, or it is not known.
pub type HoldsFn = extern "C" fn(u64, u64) -> u32;

/// The memory in which guarded blocks lie, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct OwnHeap {
    /// Bytes of it that were ever used.
    pub bytes: u64,
    /// Live blocks.
    pub blocks: u64,
    /// Their bytes, with all that lies around them.
    pub in_use_bytes: u64,
}

/// A block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct FoundBlock {
    /// Its first byte.
    pub start: u64,
    /// What was asked for.
    pub bytes: u64,
    /// 1: it was freed.
    pub is_freed: u64,
}

/// A call that accesses what is not a live block's.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct WrongCall {
    /// Its caller's: return address, stack pointer behind it, `rbp`, `rbx`, `r12` to `r15`.
    pub registers: [u64; 8],
    /// Where the access begins.
    pub address: u64,
    /// How many bytes it has, as far as that is known.
    pub bytes: u64,
    /// 1: it writes.
    pub writes: u64,
    /// The other range of a copy that has bytes in common with this one and may not: where it begins, and how many bytes it has. Else zeros.
    pub other: [u64; 2],
    /// The function's name, and zeros.
    pub function: [u8; NAME_BYTES],
}

impl Judging {
    /// Nothing is judged yet.
    pub const fn new(find: FindFn, report: ReportFn, prepare: PrepareFn, heap: HeapFn, holds: HoldsFn) -> Judging {
        let bytes = size_of::<Judging>() as u32;
        let range = [const { AtomicU64::new(0) }; 2];
        Judging { version: VERSION, bytes, range, find, report, prepare, is_closed: AtomicU64::new(0), heap, holds }
    }

    /// From now on calls are judged that concern this memory. `is_closed`: not all of it can be accessed by everybody.
    pub fn begin(&self, (first, bytes): (u64, u64), is_closed: bool) {
        let [place, count] = &self.range;
        self.is_closed.store(u64::from(is_closed), Ordering::Relaxed);
        // Between the two nothing lies in it.
        count.store(0, Ordering::Relaxed);
        place.store(first, Ordering::Relaxed);
        count.store(bytes, Ordering::Release);
    }

    /// Whether it is as this version knows it, or has more.
    pub fn is_known(&self) -> bool {
        self.version == VERSION && self.bytes as usize >= size_of::<Judging>()
    }

    /// First address and bytes of the memory in which blocks lie.
    pub fn range(&self) -> &[AtomicU64; 2] {
        &self.range
    }

    /// Whether so many bytes from an address on concern no block, or all lie in one live block.
    #[inline(always)]
    pub fn is_right(&self, address: u64, bytes: u64) -> bool {
        let [first, count] = self.range.each_ref().map(|word| word.load(Ordering::Relaxed));
        address.wrapping_sub(first) >= count || (self.holds)(address, bytes) == 1
    }

    /// The block in whose place an address lies.
    #[inline]
    pub fn find(&self, address: u64) -> Option<FoundBlock> {
        let [first, bytes] = self.range.each_ref().map(|word| word.load(Ordering::Relaxed));
        let mut place = FoundBlock::default();
        (address.wrapping_sub(first) < bytes && (self.find)(address, &mut place) == 1).then_some(place)
    }

    /// Tells of a call.
    pub fn report(&self, wrong: &WrongCall) {
        (self.report)(wrong);
    }

    /// Whether the kernel must not access memory before [`prepare`](Self::prepare) was called.
    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed) != 0
    }

    /// How much of the memory in which blocks lie is there, and in use.
    pub fn heap(&self) -> OwnHeap {
        let mut heap = OwnHeap::default();
        (self.heap)(&mut heap);
        heap
    }

    /// The kernel is about to access memory.
    pub fn prepare(&self, address: u64, bytes: u64) {
        (self.prepare)(address, bytes);
    }
}

impl WrongCall {
    /// The function's name.
    pub fn name(&self) -> &[u8] {
        self.function.split(|byte| *byte == 0).next().unwrap_or_default()
    }
}
