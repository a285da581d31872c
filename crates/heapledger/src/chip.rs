//! A program without an operating system keeps its books in a region of its own memory.
//!
//! [`Heapledger`](crate::Heapledger) needs a Linux process. [`ChipAllocator`] needs `core` and what a [`Board`] says: how much there is
//! room for, how to run without being interrupted, and, if that shall be recorded, what time it is and which task runs. All that it
//! knows lies in a static that [`chip_ledger!`](crate::chip_ledger) makes. It works before `main`, there is nothing to start, and what is left
//! out takes no room. A debugger, or whatever brings the memory out of the device, saves the region or the whole RAM to a
//! file, and `heapledger dump FILE` reads it; with `gdb/heapledger.gdb` gdb does both.
//!
//! ```
//! use heapledger::chip::{Board, ChipAllocator, Config};
//! # use std::alloc::System as Inner; // a firmware's own, for example one of `linked_list_allocator`
//!
//! struct Firmware;
//! // SAFETY: `alone` lets nothing else run.
//! unsafe impl Board for Firmware {
//!     const CONFIG: Config<'static> = Config { history: 64, ..Config::minimal(500, 300) };
//!     # #[cfg(any())]
//!     fn alone<T>(work: impl FnOnce() -> T) -> T {
//!         heapledger::chip::cortex_m::without_interrupts(work)
//!     }
//!     # fn alone<T>(work: impl FnOnce() -> T) -> T {
//!     #     use std::sync::{Mutex, PoisonError};
//!     #     static ALONE: Mutex<()> = Mutex::new(());
//!     #     let _held = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
//!     #     work()
//!     # }
//! }
//! heapledger::chip_ledger!(Firmware);
//!
//! #[global_allocator]
//! static HEAP: ChipAllocator<Inner, Firmware> = ChipAllocator::new(Inner);
//!
//! fn main() {
//!     let kept = Box::new(7u64);
//!     assert!(HEAP.books().live_bytes() >= 8);
//!     # drop(kept);
//! }
//! ```
//!
//! Several such allocators can be in one program, each with a board and a ledger of its own, or some with the same. A program that calls its
//! allocator otherwise (a pool, C code) enters blocks by hand: [`ChipAllocator::books`], or [`Books::of`] without an allocator.
//!
//! # For debuggers
//!
//! The region has the symbol `heapledger_ledger`. On targets without an operating system empty functions are called, to break on:
//! `heapledger_update_done` (an update is complete), `heapledger_history_full` (from now on the oldest frees are overwritten),
//! `heapledger_records_full` (a block found no room) and `heapledger_sites_full` (a stack found none); and `heapledger_error` (an error was entered).
//!
//! # Call stacks
//!
//! The address behind the call is always right. Frames further out are found along frame pointers ([`Stacks`]), as LLVM lays them (Rust, clang):
//! build with `-C force-frame-pointers=yes`. On Thumb, gcc lays others: [`Stacks::Scan`] looks for return addresses.
//!
//! # After a reset
//!
//! The region of a board with [`Board::SURVIVES`] lies in memory that is not set to zero. After a watchdog, a fault or a brown-out the next start
//! finds the ledger there, and [`Books::survivor`] checks it and shows it, to be carried off before a new one begins.
//!
//! # Safety
//! Rooms with `unsafe`: this one has the region and lends it to one at a time, `chip/allocator` passes calls on to the allocator
//! inside, `chip/guarded` as well, `chip/guard` reads and writes around blocks, `chip/entry` stands before them in assembly, `chip/walk` reads words of stacks, `chip/cortex_m` and `chip/riscv` registers,
//! `chip/breaks` has functions under names of their own, `chip/build_id` asks the linker where it has put its note.

mod allocator;
mod board;
mod books;
mod breaks;
mod build_id;
#[cfg(target_arch = "arm")]
pub mod cortex_m;
#[cfg(any(target_arch = "arm", test))]
mod dwt;
mod entry;
mod faults;
mod guard;
mod guarded;
mod guarded_heap;
mod lent;
mod peak;
#[cfg(target_arch = "riscv32")]
pub mod riscv;
mod sending;
mod sweep;
#[cfg(any(target_arch = "riscv32", test))]
mod triggers;
mod walk;
mod watch;

pub use allocator::ChipAllocator;
pub use board::{AloneOn, Board, Entered};
pub use books::Books;
pub use build_id::build_id_in_note;
#[cfg(target_os = "none")]
pub use build_id::linked_build_id;
pub use faults::{ChipFault, Interrupted, Written};
pub use guard::{BlockPlan, HeapDamage, TakenBack};
pub use guarded::GuardedAllocator;
pub use guarded_heap::{GuardBits, GuardedHeap, guard_words};
pub use heapledger_format::Kind;
pub use heapledger_format::errors::{ErrorKind, FoundAt};
pub use heapledger_recorder::chip::{
    Caller, ChipAccount, ChipSums, ChipWindow, Clock, Config, HeapDescription, InRealloc, LiveBlock, NewBlock,
    NewError, RegionBytes, Room, Running, Shape, Word,
};
pub use heapledger_recorder::policy::Reallocated;
pub use peak::PeakWatch;
pub use sending::Sending;
pub use sweep::{Sweep, Swept};
pub use walk::{Frame, FrameList, Stacks, main_stack_end};
pub use watch::{CannotWatch, ChipWatch, Hit, unwatch, watch};

use core::cell::{Cell, UnsafeCell};
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use heapledger_recorder::chip::{header_unit_count, header_units};

/// A number as wide as addresses are.
#[cfg(not(target_pointer_width = "64"))]
pub use core::primitive::u32 as Address;
/// A number as wide as addresses are.
#[cfg(target_pointer_width = "64")]
pub use core::primitive::u64 as Address;

/// Runs something in the critical section that the firmware has chosen with the crate `critical-section`, as [`Board::alone`].
#[cfg(feature = "critical-section")]
#[inline(always)]
pub fn with_critical_section<T>(work: impl FnOnce() -> T) -> T {
    critical_section::with(|_| work())
}

/// A board's ledger, as [`chip_ledger!`](crate::chip_ledger) makes it.
///
/// # Safety
/// `region` has so many words as [`Placed::words`] says, which are nobody else's. They are enough for the header and the notes behind it
/// (`first_word` of the recorder), and what [`Placed::ROOM`] tells lies within them, each part apart from the others.
pub unsafe trait Placed: Board {
    /// How much there is room for, where a program tells that with which this is linked; see [`Shape::ROOM`].
    const ROOM: Option<fn() -> &'static Room> = None;
    /// Room for the frames of a stack.
    type Frames: FrameRoom;
    /// See [`Shape::HEADER`].
    const HEADER: &'static [u32];
    /// The first word.
    fn region() -> *mut Address;
    /// What is known since the last reset of a region that survives it.
    fn boot() -> &'static ChipBoot;

    /// Words of the region.
    #[inline(always)]
    fn words() -> usize {
        const { words::<Self>() }
    }
    /// Most frames of a stack, if fewer than there is room for.
    #[inline(always)]
    fn depth() -> usize {
        usize::MAX
    }
    /// See [`Shape::heap_range`].
    #[inline(always)]
    fn heap_range(nth: u32) -> (u64, u64) {
        Self::CONFIG.heaps.get(nth as usize).map_or((0, 0), |heap| (heap.low, heap.high))
    }
    /// See [`Shape::heap_name`].
    #[inline(always)]
    fn heap_name(nth: u32) -> &'static [u8] {
        Self::CONFIG.heaps.get(nth as usize).map_or(&[], |heap| heap.name.as_bytes())
    }
    /// See [`Shape::laid_out`].
    #[inline(always)]
    fn laid_out() {}
    /// See [`Shape::errors`].
    #[inline(always)]
    fn errors() -> u32 {
        Self::CONFIG.errors
    }
    /// See [`Shape::process`].
    #[inline(always)]
    fn process() -> &'static [u8] {
        Self::CONFIG.process
    }
}

/// Of a region that survives a reset: what was done with it since. It is set to zero when the firmware starts.
pub struct ChipBoot(Cell<u32>);

// SAFETY: only looked at alone.
unsafe impl Sync for ChipBoot {}

impl Default for ChipBoot {
    fn default() -> Self {
        ChipBoot::new()
    }
}

impl ChipBoot {
    /// Nothing was entered yet: what is in the region is of the time before.
    const BEFORE: u32 = 0;
    /// There is a ledger of this time.
    const BEGUN: u32 = 1;
    /// Somebody looks at what is of the time before. Numbers above: so many blocks began meanwhile.
    const LOOKED_AT: u32 = 2;

    /// At the reset.
    pub const fn new() -> Self {
        ChipBoot(Cell::new(Self::BEFORE))
    }
}

/// Room for frames, not filled with anything.
pub trait FrameRoom {
    /// That.
    const EMPTY: Self;
    /// To be filled.
    fn places(&mut self) -> &mut [MaybeUninit<Address>];
}

impl<const FRAMES: usize> FrameRoom for [MaybeUninit<Address>; FRAMES] {
    const EMPTY: Self = [MaybeUninit::uninit(); FRAMES];
    #[inline(always)]
    fn places(&mut self) -> &mut [MaybeUninit<Address>] {
        self
    }
}

/// The ledger of a board, as the recorder knows it.
pub struct On<B>(PhantomData<B>);

impl<B: Placed> Shape for On<B> {
    type Word = Address;
    const CONFIG: Config<'static> = B::CONFIG;
    const HEADER: &'static [u32] = B::HEADER;
    const ROOM: Option<fn() -> &'static Room> = B::ROOM;

    #[inline(always)]
    fn heap_range(nth: u32) -> (u64, u64) {
        B::heap_range(nth)
    }
    #[inline(always)]
    fn heap_name(nth: u32) -> &'static [u8] {
        B::heap_name(nth)
    }
    #[inline(always)]
    fn process() -> &'static [u8] {
        B::process()
    }
    #[inline(always)]
    fn ticks() -> u32 {
        B::ticks()
    }
    #[inline(always)]
    fn build_id() -> &'static [u8] {
        B::build_id()
    }
    #[inline(always)]
    fn laid_out() {
        B::laid_out();
    }
    #[inline(always)]
    fn errors() -> u32 {
        B::errors()
    }
    fn guard_word(nth: usize) -> Address {
        guard_word::<B>(nth)
    }
    #[inline(always)]
    fn update_done() {
        B::update_done();
    }
    #[inline(always)]
    fn history_full() {
        B::history_full();
    }
    #[inline(always)]
    fn records_scarce() {
        B::records_scarce();
    }
    #[inline(always)]
    fn records_full() {
        B::records_full();
    }
    #[inline(always)]
    fn sites_full() {
        B::sites_full();
    }
}

/// What a new ledger says of the guard.
fn guard_word<B: Placed>(nth: usize) -> Address {
    use heapledger_format::chip_guard::{HEAPS, LEDGER, LEVEL, ROW_WORDS};
    let heaps = B::guarded();
    let (row, place) = (nth.checked_div(ROW_WORDS).unwrap_or(0), nth.checked_rem(ROW_WORDS).unwrap_or(0));
    if let Some(row) = row.checked_sub(1) {
        return heaps.get(row).map_or(0, |heap| heap.word(place) as Address);
    }
    let word = match place {
        LEVEL => heaps.first().map_or(0, GuardedHeap::level),
        LEDGER => B::region().expose_provenance(),
        HEAPS => heaps.len(),
        _ => 0,
    };
    word as Address
}

/// Memory for a ledger. Its first bytes are the ledger's.
#[repr(transparent)]
pub struct ChipRegion<const WORDS: usize>(UnsafeCell<[Address; WORDS]>);

// SAFETY: it only tells where it lies; who reads and writes there is `Books`, and one at a time.
unsafe impl<const WORDS: usize> Sync for ChipRegion<WORDS> {}

impl<const WORDS: usize> Default for ChipRegion<WORDS> {
    fn default() -> Self {
        ChipRegion::new()
    }
}

impl<const WORDS: usize> ChipRegion<WORDS> {
    /// Nothing but zeros: it takes no place in the program's image.
    pub const fn new() -> Self {
        ChipRegion(UnsafeCell::new([0; WORDS]))
    }

    /// The first word.
    pub const fn first(&self) -> *mut Address {
        self.0.get().cast()
    }
}

/// The words that a board's ledger needs.
pub const fn words<B: Board>() -> usize {
    B::CONFIG.words::<Address>()
}

/// The frames of a stack that are looked for, those that are left out of it among them.
pub const fn frames<B: Board>() -> usize {
    let Config { depth, skip_frames, cut_frames, .. } = B::CONFIG;
    (depth as usize).saturating_add(skip_frames as usize).saturating_add(cut_frames as usize)
}

/// The length of [`header`].
pub const fn header_len<B: Placed>() -> usize {
    header_unit_count::<On<B>>()
}

/// The header of a board's ledger.
pub const fn header<B: Placed, const UNITS: usize>() -> [u32; UNITS] {
    header_units::<On<B>, UNITS>()
}

/// Makes a handler of exceptions on a Cortex-M, which hands `lr`, both stack pointers and `r7` to a function, as they are when it begins:
/// [`Interrupted::of_handler`](crate::chip::Interrupted) knows what to do with them. It returns if the function does.
///
/// ```
/// # #[cfg(any())] {
/// heapledger::exception_handler!(DebugMonitor, somebody_writes);
///
/// extern "C" fn somebody_writes(found: &[usize; 4]) {
///     // SAFETY: the stacks end there.
///     let by = unsafe { Interrupted::of_handler(*found, |_| heapledger::chip::main_stack_end()) };
///     if let Some(written) = HEAP.books().written(by) {
///         // Who it was is in the ledger, and here.
///     }
/// }
/// # }
/// ```
#[cfg(target_arch = "arm")]
#[macro_export]
macro_rules! exception_handler {
    ($name:ident, $work:path) => {
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        extern "C" fn $name() {
            ::core::arch::naked_asm!(
                "mov r0, lr",
                "mrs r1, msp",
                "mrs r2, psp",
                "mov r3, r7",
                "push {{r0, r1, r2, r3, r7, lr}}",
                "mov r0, sp",
                "bl {work}",
                "add sp, #16",
                "pop {{r7, pc}}",
                work = sym $work,
            )
        }
    };
}

/// Makes the ledger of a [`Board`](crate::chip::Board): a static of the size that it needs, with the symbol `heapledger_ledger` by which gdb finds it.
///
/// ```
/// # use heapledger::chip::{Board, Config};
/// # struct Firmware;
/// # struct Pool;
/// # unsafe impl Board for Firmware { const CONFIG: Config<'static> = Config::minimal(500, 300); }
/// # unsafe impl Board for Pool { const CONFIG: Config<'static> = Config::minimal(500, 300); }
/// heapledger::chip_ledger!(Firmware);
/// // Another one has another name. Attributes say where it is to lie.
/// heapledger::chip_ledger!(#[unsafe(link_section = ".noinit")] Pool, "ledger_of_the_pool");
/// ```
///
/// What a ledger cannot hold does not compile:
///
/// ```compile_fail
/// # use heapledger::chip::{Board, Config};
/// # struct Firmware;
/// # unsafe impl Board for Firmware { const CONFIG: Config<'static> = Config::minimal(0, 300); }
/// heapledger::chip_ledger!(Firmware);
/// heapledger::chip::Books::<Firmware>::of().stop();
/// ```
#[macro_export]
macro_rules! chip_ledger {
    ($(#[$attribute:meta])* $board:ty) => {
        $crate::chip_ledger!($(#[$attribute])* $board, "heapledger_ledger");
    };
    ($(#[$attribute:meta])* $board:ty, $symbol:literal) => {
        const _: () = {
            const WORDS: usize = $crate::chip::words::<$board>();
            const FRAMES: usize = $crate::chip::frames::<$board>();
            $(#[$attribute])*
            #[unsafe(export_name = $symbol)]
            static LEDGER: $crate::chip::ChipRegion<WORDS> = $crate::chip::ChipRegion::new();
            static BOOT: $crate::chip::ChipBoot = $crate::chip::ChipBoot::new();
            // SAFETY: the first static has so many words, and nobody else can name either.
            unsafe impl $crate::chip::Placed for $board {
                type Frames = [::core::mem::MaybeUninit<$crate::chip::Address>; FRAMES];
                const HEADER: &'static [u32] =
                    &$crate::chip::header::<$board, { $crate::chip::header_len::<$board>() }>();
                fn region() -> *mut $crate::chip::Address {
                    LEDGER.first()
                }
                fn boot() -> &'static $crate::chip::ChipBoot {
                    &BOOT
                }
            }
        };
    };
}
