//! An allocator around another one, on a chip, whose blocks are guarded as well.
//!
//! # Safety
//! A room with `unsafe`: it passes calls on to the allocator inside, with more bytes than it was asked for.

use super::books::{Books, Moved};
use super::entry::{self, GuardedCall};
use super::guard::TakenBack;
use super::{Address, Kind, Placed};
use core::alloc::{GlobalAlloc, Layout};
use core::marker::PhantomData;
use core::ptr::{null_mut, with_exposed_provenance_mut};

/// An allocator around another one, which records each block in the ledger of a [`Board`](super::Board), as [`ChipAllocator`](super::ChipAllocator) does, and guards
/// it: canaries stand on both sides of each block, and are looked at when it is given back or resized, and in [checks](Books::check_integrity). At the level `full` new memory
/// is filled with `CE` and freed memory with `FE`, and whether that was left alone is looked at when it is handed out again, and in checks.
///
/// Damage is entered as an error, with who allocated the block and, as far as the history reaches, who freed it; [`Board::damaged`](super::Board::damaged) is told, a debugger
/// stops at `heapledger_error`, and the firmware goes on. What is certainly no block (one that was freed before, an address in the middle of one) does not go to
/// the allocator inside; nor does a block of which nobody knows any more where it begins.
///
/// A block takes 12 bytes more, rounded up to eight, and as much as its alignment if that is 16, 32 or 64 (with more, or above 4 MiB, it is handed out as it
/// is, and counted). Beside the heap lies a bit for each eight of its bytes, at `full` two.
///
/// ```
/// use core::cell::UnsafeCell;
/// use heapledger::chip::{Board, Config, GuardedAllocator};
/// # use core::alloc::{GlobalAlloc, Layout};
/// # use core::sync::atomic::{AtomicUsize, Ordering};
/// # /// An allocator of the firmware's, in `HEAP_MEMORY`.
/// # struct Inner;
/// # static USED: AtomicUsize = AtomicUsize::new(0);
/// # unsafe impl GlobalAlloc for Inner {
/// #     unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
/// #         let bytes = (layout.size() + 63) & !63;
/// #         HEAP_MEMORY.0.get().cast::<u8>().wrapping_add(USED.fetch_add(bytes, Ordering::Relaxed))
/// #     }
/// #     unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
/// # }
/// # #[repr(align(64))]
/// struct HeapMemory(UnsafeCell<[u8; 32768]>);
/// # unsafe impl Sync for HeapMemory {}
/// static HEAP_MEMORY: HeapMemory = HeapMemory(UnsafeCell::new([0; 32768]));
///
/// struct Firmware;
/// // SAFETY: there is one task, and no interrupt allocates.
/// unsafe impl Board for Firmware {
///     const CONFIG: Config<'static> = Config { errors: 8, guarded_heaps: 1, ..Config::minimal(200, 300) };
///     heapledger::guarded_heaps!(full, (HEAP_MEMORY.0.get().cast(), 32768));
/// }
/// heapledger::chip_ledger!(Firmware);
///
/// static HEAP: GuardedAllocator<Inner, Firmware> = GuardedAllocator::new(Inner);
///
/// let layout = Layout::new::<[u8; 10]>();
/// // SAFETY: as the contract of `GlobalAlloc` says, but for what is written behind the end.
/// unsafe {
///     let block = HEAP.alloc(layout);
///     assert_eq!(HEAP.books().check_integrity(), 0);
///     block.add(10).write(7);
///     assert_eq!(HEAP.books().check_integrity(), 1);
///     HEAP.dealloc(block, layout);
/// }
/// ```
pub struct GuardedAllocator<A, B> {
    allocator: A,
    board: PhantomData<fn() -> B>,
}

impl<A, B: Placed> GuardedAllocator<A, B> {
    /// Around an allocator. Its blocks lie in the heaps of [`Board::guarded`](super::Board::guarded).
    pub const fn new(allocator: A) -> Self {
        GuardedAllocator { allocator, board: PhantomData }
    }

    /// The allocator inside.
    pub const fn inner(&self) -> &A {
        &self.allocator
    }

    /// The books, to look whether all is whole, to give tasks their names, and to enter blocks that were allocated otherwise.
    pub const fn books(&self) -> Books<B> {
        Books::of()
    }
}

/// What the allocator inside is asked for.
#[inline(always)]
fn inside(asked: &GuardedCall, layout: Layout) -> Layout {
    asked.plan().map_or(layout, |plan| of(plan.bytes(), plan.alignment(), layout))
}

#[inline(always)]
fn of(bytes: usize, alignment: usize, otherwise: Layout) -> Layout {
    Layout::from_size_align(bytes, alignment).unwrap_or(otherwise)
}

#[inline(always)]
fn asked(layout: Layout, kind: Kind) -> GuardedCall {
    GuardedCall { size: layout.size(), alignment: layout.align(), kind, kept: 0 }
}

impl<A: GlobalAlloc, B: Placed> GuardedAllocator<A, B> {
    /// Gives a block that was undressed back to the allocator inside.
    ///
    /// # Safety
    /// As of `dealloc`.
    #[inline(always)]
    unsafe fn give_back(&self, (given, lead, bytes): (usize, usize, usize), layout: Layout) {
        let books = Books::<B>::of();
        // SAFETY: nobody uses it any more, and so many bytes were asked for.
        unsafe {
            let before = books.fill_freed(given, bytes);
            self.allocator.dealloc(with_exposed_provenance_mut(given), of(bytes, lead, layout));
            books.returned(given, bytes, before);
        }
    }

    /// Resizes a block by another one. The ledger has both as two.
    ///
    /// # Safety
    /// As of `realloc`.
    #[cold]
    #[inline(never)]
    unsafe fn moves_apart(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the program's own block, and one of the size that it asks for.
        unsafe {
            let new = self.alloc(of(new_size, layout.align(), layout));
            if !new.is_null() {
                block.copy_to_nonoverlapping(new, layout.size().min(new_size));
                self.dealloc(block, layout);
            }
            new
        }
    }
}

// (Compiled into their callers: the innermost frame is theirs.)
// SAFETY: every call goes on to an allocator that keeps the contract, with a layout that holds what was asked for and what lies around it; where it
// does not go on, nobody was given anything, or nothing is taken.
unsafe impl<A: GlobalAlloc, B: Placed> GlobalAlloc for GuardedAllocator<A, B> {
    #[inline(always)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let asked = asked(layout, Kind::RUST_ALLOC);
        // SAFETY: more than the program asks for.
        let given = unsafe { self.allocator.alloc(inside(&asked, layout)) };
        entry::dress::<B>(given, &asked, 0)
    }

    #[inline(always)]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let asked = asked(layout, Kind::RUST_ALLOC_ZEROED);
        let inside = inside(&asked, layout);
        if B::fills_freed() {
            // What it was filled with is looked at first.
            // SAFETY: more than the program asks for.
            let block = entry::dress::<B>(unsafe { self.allocator.alloc(inside) }, &asked, 0);
            if !block.is_null() {
                // SAFETY: it has so many bytes.
                unsafe { block.write_bytes(0, layout.size()) };
            }
            return block;
        }
        // SAFETY: as above.
        let given = unsafe { self.allocator.alloc_zeroed(inside) };
        entry::dress::<B>(given, &asked, 0)
    }

    #[inline(always)]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let asked = asked(layout, Kind::RUST_DEALLOC);
        let mut taken = TakenBack::Plain;
        // Before: then nobody can have been given the address again.
        entry::undress::<B>(block, &asked, &mut taken);
        match taken {
            TakenBack::Refused => {}
            // SAFETY: the program's own call.
            TakenBack::Plain => unsafe { self.allocator.dealloc(block, inside(&asked, layout)) },
            TakenBack::Dressed { given, block, bytes, .. } => {
                // SAFETY: as above.
                unsafe { self.give_back((given, block.wrapping_sub(given), bytes), layout) };
            }
        }
    }

    #[inline(always)]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let books = Books::<B>::of();
        let mut old = asked(layout, Kind::RUST_REALLOC);
        let mut taken = TakenBack::Plain;
        entry::undress_to_resize::<B>(block, &old, &mut taken);
        let (given, bytes, size) = match taken {
            TakenBack::Refused => {
                books.call_failed();
                return null_mut();
            }
            // SAFETY: the program's own call.
            TakenBack::Plain => return unsafe { self.moves_apart(block, layout, new_size) },
            TakenBack::Dressed { given, bytes, size, .. } => (given, bytes, size),
        };
        let lead = block.addr().wrapping_sub(given);
        (old.size, old.alignment) = (size, lead);
        let new = GuardedCall { size: new_size, ..asked(of(new_size, lead, layout), Kind::RUST_REALLOC) };
        let Some((old, plan)) = old.plan().zip(new.plan()) else {
            if let Some(old) = old.plan() {
                // SAFETY: it was undressed just now.
                unsafe { books.dress_again(given, &old) };
            }
            // SAFETY: the program's own call.
            return unsafe { self.moves_apart(block, layout, new_size) };
        };
        let (kept, inner) = (size.min(new_size), of(plan.bytes(), lead, layout));
        // Between the two others may allocate: interrupts are not off for as long as the allocator takes.
        let detached = books.realloc_begins(block.addr() as Address);
        let mut moved = Moved { detached, old: block.addr() as Address, new: 0 };
        if B::fills_freed() {
            // SAFETY: more than the program asks for.
            let given_anew = unsafe { self.allocator.alloc(inner) };
            if !given_anew.is_null() {
                moved.new = given_anew.expose_provenance() as Address;
                let there = entry::dress_anew::<B>(&moved, &new, 0);
                // SAFETY: both have so many bytes; nobody uses the old one any more.
                unsafe {
                    block.copy_to_nonoverlapping(there, kept);
                    self.give_back((given, lead, bytes), layout);
                }
                return there;
            }
        }
        let start = with_exposed_provenance_mut::<u8>(given);
        // SAFETY: so many were asked for, and what is in front of the block stays there.
        let given_anew = unsafe { self.allocator.realloc(start, of(bytes, lead, layout), inner.size()) };
        if given_anew.is_null() {
            // SAFETY: it was undressed just now, and is as it was.
            unsafe { books.dress_again(given, &old) };
        }
        moved.new = given_anew.expose_provenance() as Address;
        // (Of no bytes one is said to be kept: memory in which something was stored is not looked at.)
        entry::dress_anew::<B>(&moved, &new, kept.max(1))
    }
}

/// Says which heaps of a [`Board`](crate::chip::Board) are guarded, among its functions: `light` or `full`, and of each heap where it begins (a pointer) and how many
/// bytes it has. Bits beside them know where blocks begin: a bit for each eight bytes, and at `full` another one.
#[macro_export]
macro_rules! guarded_heaps {
    (light, $(($first:expr, $bytes:expr)),+ $(,)?) => { $crate::guarded_heaps!(@ 0, $(($first, $bytes)),+); };
    (full, $(($first:expr, $bytes:expr)),+ $(,)?) => { $crate::guarded_heaps!(@ 1, $(($first, $bytes)),+); };
    (@ $fills:literal, $(($first:expr, $bytes:expr)),+) => {
        #[inline(always)]
        fn fills_freed() -> bool {
            $fills != 0
        }
        #[inline(always)]
        fn guarded() -> &'static [$crate::chip::GuardedHeap] {
            static HEAPS: &[$crate::chip::GuardedHeap] = &[$({
                const WORDS: usize = $crate::chip::guard_words($bytes);
                static BEGINS: $crate::chip::GuardBits<WORDS> = $crate::chip::GuardBits::new();
                static FILLED: $crate::chip::GuardBits<{ WORDS * $fills }> = $crate::chip::GuardBits::new();
                static GIVEN: $crate::chip::GuardBits<$fills> = $crate::chip::GuardBits::new();
                // SAFETY: the board's promise; nobody else can name the bits.
                unsafe { $crate::chip::GuardedHeap::new(($first, $bytes), &BEGINS, &FILLED, &GIVEN) }
            }),+];
            HEAPS
        }
    };
}
