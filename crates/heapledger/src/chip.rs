//! A program without an operating system keeps its books in a region of its own memory.
//!
//! [`Heapledger`](crate::Heapledger) needs a Linux process. [`ChipAllocator`] needs `core` and what a [`Board`] says: how to
//! run without being interrupted, and, if that shall be recorded, what time it is, which task runs and who calls. All that it
//! knows lies in a [`ChipRegion`]. A debugger, or whatever brings the memory out of the device, saves the region or the whole RAM to a
//! file, and `heapledger dump FILE` reads it; with `gdb/heapledger.gdb` gdb does both.
//!
//! ```
//! use heapledger::chip::{self, Board, Config, Shape};
//! # use std::alloc::System as Inner; // a firmware's own, for example one of `linked_list_allocator`
//!
//! struct Firmware;
//!
//! impl Shape for Firmware {
//!     # #[cfg(not(target_pointer_width = "64"))]
//!     type Word = u32;
//!     # #[cfg(target_pointer_width = "64")]
//!     # type Word = u64;
//! }
//!
//! // SAFETY: nothing else runs meanwhile.
//! unsafe impl Board for Firmware {
//!     const CONFIG: Config<'static> = Config::minimal(500, 300);
//!
//!     fn alone<T>(work: impl FnOnce() -> T) -> T {
//!         // On a Cortex-M: cortex_m::interrupt::free(|_| work())
//!         # use std::sync::{Mutex, PoisonError};
//!         # static ALONE: Mutex<()> = Mutex::new(());
//!         # let _held = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
//!         work()
//!     }
//! }
//!
//! const WORDS: usize = Firmware::CONFIG.words::<Firmware>();
//!
//! // The name by which gdb finds it.
//! #[unsafe(export_name = "heapledger_ledger")]
//! static LEDGER: chip::ChipRegion<Firmware, WORDS> = chip::ChipRegion::new();
//!
//! #[global_allocator]
//! static HEAP: chip::ChipAllocator<Inner, Firmware, WORDS> = chip::ChipAllocator::new(Inner, &LEDGER);
//!
//! fn main() {
//!     let kept = Box::new(7u64);
//!     let known = HEAP.with(|ledger| ledger.region().len());
//!     assert_eq!(known, Some(WORDS));
//!     # drop(kept);
//! }
//! ```
//!
//! Several such allocators can be in one program, each with a region of its own. A program that calls its allocator otherwise (a pool,
//! C code) enters blocks by hand: [`ChipAllocator::with`] lends the ledger.
//!
//! # Safety
//! A room with `unsafe`: it passes calls on to the allocator inside, and lends the books to one at a time.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::{Cell, UnsafeCell};
use heapledger_recorder::policy::Reallocated;

pub use heapledger_format::{Kind, record::Options};
pub use heapledger_recorder::chip::{Caller, ChipError, ChipLedger, Config, HeapDescription, NewBlock, Shape, Word};

/// Most frames of a call stack.
pub const FRAMES_MAX: usize = 32;

/// What a program without an operating system says of itself, beside the [`Shape`] of its ledger.
///
/// # Safety
/// While [`Board::alone`] runs something, no other code of the program may run it or anything that is called by `alone` of another
/// board: no interrupt that allocates or frees, no other task, no other core.
pub unsafe trait Board: Shape {
    /// How much there is room for. What a ledger cannot hold is refused when the program is compiled.
    const CONFIG: Config<'static>;

    /// Runs `work` alone, and once: with interrupts off, say. It is short, and calls nothing of the program but what [`Shape`] asks for and
    /// what [`ChipAllocator::with`] is given. If those allocate, this is called within itself.
    fn alone<T>(work: impl FnOnce() -> T) -> T;

    /// The handle of the task that runs; `None` in an interrupt, or where there are no tasks.
    #[inline(always)]
    fn task() -> Option<Self::Word> {
        None
    }

    /// Writes return addresses, the innermost first, and returns how many. Asked for each block that begins; for each that ends only where
    /// there is a history. Without this, records have no call stack.
    #[inline(always)]
    fn stack(frames: &mut [Self::Word; FRAMES_MAX]) -> usize {
        let _ = frames;
        0
    }
}

/// Memory for a ledger. Its first bytes are the ledger's.
#[repr(C)]
pub struct ChipRegion<B: Board, const WORDS: usize> {
    words: UnsafeCell<[B::Word; WORDS]>,
    is_taken: Cell<bool>,
}

// SAFETY: `take` alone looks at it, which is only called alone.
unsafe impl<B: Board, const WORDS: usize> Sync for ChipRegion<B, WORDS> {}

impl<B: Board, const WORDS: usize> Default for ChipRegion<B, WORDS> {
    fn default() -> Self {
        ChipRegion::new()
    }
}

impl<B: Board, const WORDS: usize> ChipRegion<B, WORDS> {
    /// Nothing but zeros: it takes no place in the program's image.
    pub const fn new() -> Self {
        ChipRegion { words: UnsafeCell::new([B::Word::ZERO; WORDS]), is_taken: Cell::new(false) }
    }

    /// The memory, for the first who asks.
    ///
    /// # Safety
    /// The caller is run by [`Board::alone`].
    #[expect(clippy::mut_from_ref, reason = "a cell's memory, given once")]
    unsafe fn take(&'static self) -> Option<&'static mut [B::Word]> {
        if self.is_taken.replace(true) {
            return None;
        }
        // SAFETY: nobody else was given it or will be.
        Some(unsafe { &mut *self.words.get() })
    }
}

/// The ledger of a [`ChipAllocator`], as [`ChipAllocator::with`] lends it.
pub type Ledger<B> = ChipLedger<B, &'static mut [<B as Shape>::Word]>;

/// What the first call finds, and what it makes of it.
enum Books<B: Board> {
    NotBegun,
    Kept(Ledger<B>),
    /// The region is another allocator's.
    None,
}

/// An allocator around another one, which records each block in a region of memory. See the [module](self) for an example.
///
/// The ledger begins with the first call: before `main`, if that is where it comes from.
pub struct ChipAllocator<A, B: Board, const WORDS: usize> {
    allocator: A,
    region: &'static ChipRegion<B, WORDS>,
    books: UnsafeCell<Books<B>>,
    /// Somebody has the books: what is called from within cannot have them too.
    are_lent: Cell<bool>,
    /// Blocks that began meanwhile.
    missed: Cell<u32>,
}

// SAFETY: books and what belongs to them are only looked at by what `Board::alone` runs.
unsafe impl<A: Sync, B: Board, const WORDS: usize> Sync for ChipAllocator<A, B, WORDS> {}

/// The books are back when this is dropped.
struct Lent<'a>(&'a Cell<bool>);

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

impl<A, B: Board, const WORDS: usize> ChipAllocator<A, B, WORDS> {
    /// Around an allocator, with a region that no other one has: a second one records nothing. A region that is too small for
    /// [`Board::CONFIG`] does not compile.
    ///
    /// ```compile_fail
    /// # use heapledger::chip::{Board, ChipAllocator, ChipRegion, Config, Shape};
    /// # struct Firmware;
    /// # impl Shape for Firmware { type Word = u64; }
    /// # unsafe impl Board for Firmware {
    /// #     const CONFIG: Config<'static> = Config::minimal(500, 300);
    /// #     fn alone<T>(work: impl FnOnce() -> T) -> T { work() }
    /// # }
    /// static LEDGER: ChipRegion<Firmware, 100> = ChipRegion::new();
    /// static HEAP: ChipAllocator<(), Firmware, 100> = ChipAllocator::new((), &LEDGER);
    /// ```
    pub const fn new(allocator: A, region: &'static ChipRegion<B, WORDS>) -> Self {
        const {
            assert!(B::CONFIG.check::<B>().is_ok(), "the ledger cannot hold what the board's CONFIG asks for");
            assert!(B::CONFIG.words::<B>() <= WORDS, "the region has less than CONFIG.words()");
        }
        ChipAllocator {
            allocator,
            region,
            books: UnsafeCell::new(Books::NotBegun),
            are_lent: Cell::new(false),
            missed: Cell::new(0),
        }
    }

    /// The allocator inside.
    pub const fn inner(&self) -> &A {
        &self.allocator
    }

    /// Lends the ledger: to give tasks their names, to enter blocks that were allocated otherwise, to stop. `None` if it is lent already
    /// (this is called from within), or another allocator has its region.
    ///
    /// `work` runs alone ([`Board::alone`]): it must not allocate. (What does, all the same, is not recorded; that is counted.)
    pub fn with<T>(&self, work: impl FnOnce(&mut Ledger<B>) -> T) -> Option<T> {
        B::alone(|| {
            if self.are_lent.replace(true) {
                return None;
            }
            let _back = Lent(&self.are_lent);
            // SAFETY: nobody else runs, and nobody who waits for this has them: that was just looked at.
            let books = unsafe { &mut *self.books.get() };
            if let Books::NotBegun = books {
                // SAFETY: this is run alone.
                let region = unsafe { self.region.take() };
                let ledger = region.and_then(|region| ChipLedger::new(region, &B::CONFIG).ok());
                *books = ledger.map_or(Books::None, Books::Kept);
            }
            let Books::Kept(ledger) = books else { return None };
            if self.missed.get() != 0 {
                ledger.calls_missed(self.missed.replace(0));
            }
            Some(work(ledger))
        })
    }

    /// Runs `work` with the ledger and who calls.
    #[inline(always)]
    fn note<T>(&self, wants_stack: bool, work: impl FnOnce(&mut Ledger<B>, &Caller<B::Word>) -> T) -> Option<T> {
        let mut frames = [B::Word::ZERO; FRAMES_MAX];
        let count = if wants_stack && B::OPTIONS.has(Options::STACK) { B::stack(&mut frames) } else { 0 };
        let task = if B::OPTIONS.has(Options::THREAD) { B::task() } else { None };
        self.with(|ledger| work(ledger, &Caller { frames: frames.get(..count).unwrap_or(&frames), task }))
    }

    fn begins(&self, kind: Kind, block: *mut u8, layout: Layout) {
        let entered = match block.is_null() {
            true => self.with(|ledger| ledger.call_failed()),
            false => self.note(true, |ledger, caller| {
                ledger.allocated(&new_block::<B>(kind, block, layout.size()), caller);
            }),
        };
        self.count_missed(entered);
    }

    fn count_missed<T>(&self, noted: Option<T>) {
        if noted.is_none() {
            B::alone(|| self.missed.set(self.missed.get().saturating_add(1)));
        }
    }
}

fn word<B: Board>(number: usize) -> B::Word {
    B::Word::cut(number as u64)
}

fn new_block<B: Board>(kind: Kind, block: *mut u8, bytes: usize) -> NewBlock<B::Word> {
    NewBlock { kind, address: word::<B>(block as usize), size: word::<B>(bytes), actual: None, heap: 0 }
}

// SAFETY: every call goes on to an allocator that keeps the contract, once, with the same arguments.
unsafe impl<A: GlobalAlloc, B: Board, const WORDS: usize> GlobalAlloc for ChipAllocator<A, B, WORDS> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the program's own call.
        let block = unsafe { self.allocator.alloc(layout) };
        self.begins(Kind::RUST_ALLOC, block, layout);
        block
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the program's own call.
        let block = unsafe { self.allocator.alloc_zeroed(layout) };
        self.begins(Kind::RUST_ALLOC_ZEROED, block, layout);
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // Before: then nobody can have been given the address again.
        let has_history = B::OPTIONS.has(Options::HISTORY);
        self.note(has_history, |ledger, caller| {
            ledger.freed(word::<B>(block as usize), Kind::RUST_DEALLOC, caller);
        });
        // SAFETY: the program's own call.
        unsafe { self.allocator.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // Between the two others may allocate: interrupts are not off for as long as the allocator takes.
        let detached = self.with(|ledger| ledger.realloc_begins(word::<B>(block as usize))).flatten();
        // SAFETY: the program's own call.
        let new = unsafe { self.allocator.realloc(block, layout, new_size) };
        let kind = Kind::RUST_REALLOC;
        let outcome = match new.is_null() {
            true => Reallocated::Failed,
            false => Reallocated::Gave(new_block::<B>(kind, new, new_size)),
        };
        let noted = self.note(true, |ledger, caller| {
            ledger.realloc_ends(detached, kind, outcome, caller);
        });
        self.count_missed(noted);
        new
    }
}
