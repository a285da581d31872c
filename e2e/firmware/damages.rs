//! Firmware that writes where it must not: past a block that it then frees, past one that stays, in front of one, into a freed one whose memory it is given again, and
//! into one that stays free; and it frees a block twice. Then it asks for a reset, and the test reads the memory (`--cfg guard="light"`, `"full"`).
#![no_std]
#![no_main]

mod inner;
mod start;

use core::alloc::{GlobalAlloc, Layout};
use core::hint::black_box;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use heapledger::chip::{Address, Board, Clock, Config, GuardedAllocator, HeapDamage};
use inner::{Inner, MEMORY, MEMORY_BYTES};
use start::{fail, reset};

struct Chip;

static TICKS: AtomicU32 = AtomicU32::new(0);

/// How often something was told, and how much a check has found.
#[repr(C)]
struct Truth {
    magic: [u8; 16],
    count: AtomicU32,
    /// A number, so that both are apart, that count, and a zero.
    blocks: [[AtomicU32; 3]; 2],
}

#[used]
static TRUTH: Truth = Truth {
    magic: *b"what is live is:",
    count: AtomicU32::new(2),
    blocks: [
        [AtomicU32::new(1), AtomicU32::new(0), AtomicU32::new(0)],
        [AtomicU32::new(2), AtomicU32::new(0), AtomicU32::new(0)],
    ],
};

// SAFETY: there is one core, and no interrupt comes.
unsafe impl Board for Chip {
    const CONFIG: Config<'static> = Config {
        errors: 8,
        guarded_heaps: 1,
        history: 16,
        tasks: 2,
        depth: 6,
        clock: Some(Clock { tick_ns: 1_000_000, bits: 32 }),
        process: b"program=damages\0",
        ..Config::minimal(50, 200)
    };

    #[cfg(guard = "light")]
    heapledger::guarded_heaps!(light, (MEMORY.first(), MEMORY_BYTES));
    #[cfg(guard = "full")]
    heapledger::guarded_heaps!(full, (MEMORY.first(), MEMORY_BYTES));

    fn alone<T>(work: impl FnOnce() -> T) -> T {
        inner::without_interrupts(work)
    }
    fn ticks() -> u32 {
        TICKS.load(Relaxed)
    }
    fn task() -> Option<Address> {
        Some(0x1000)
    }
    fn damaged(_: &HeapDamage) {
        let [[_, told, _], _] = &TRUTH.blocks;
        told.store(told.load(Relaxed) + 1, Relaxed);
    }
    #[cfg(target_arch = "riscv32")]
    fn stack_end(_: usize) -> usize {
        unsafe extern "C" {
            static stack_top: u8;
        }
        (&raw const stack_top).addr()
    }
}

heapledger::chip_ledger!(Chip);

static HEAP: GuardedAllocator<Inner, Chip> = GuardedAllocator::new(Inner::new());

fn later() {
    TICKS.store(TICKS.load(Relaxed) + 10, Relaxed);
}

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, 4).unwrap_or(Layout::new::<u32>())
}

#[inline(never)]
fn allocates(bytes: usize) -> *mut u8 {
    later();
    // SAFETY: it is given back with the same layout, if at all.
    black_box(unsafe { HEAP.alloc(layout(bytes)) })
}

#[inline(never)]
fn frees(block: *mut u8, bytes: usize) {
    later();
    // SAFETY: as above.
    unsafe { HEAP.dealloc(block, layout(bytes)) };
    black_box(block);
}

/// Writes a byte at a distance from a block.
fn writes(block: *mut u8, distance: isize) {
    // SAFETY: memory of the allocator inside.
    unsafe { block.wrapping_offset(distance).write_volatile(0x5A) };
}

#[inline(never)]
fn one_too_far() {
    let block = allocates(40);
    writes(block, 40);
    frees(block, 40);
    black_box(());
}

#[inline(never)]
fn twice() {
    let block = allocates(20);
    frees(block, 20);
    frees(block, 20);
    black_box(());
}

#[inline(never)]
fn after_free() {
    let block = allocates(100);
    frees(block, 100);
    writes(block, 50);
    // The same memory.
    frees(allocates(100), 100);
    black_box(());
}

#[unsafe(no_mangle)]
extern "C" fn start() -> ! {
    HEAP.books().task_begins(0x1000, 1, "careless");
    // The same once more is counted.
    for _ in 0..black_box(2) {
        one_too_far();
    }
    twice();
    after_free();
    // What nobody has seen yet.
    let (behind, in_front, whole, freed) = (allocates(33), allocates(64), allocates(7), allocates(200));
    writes(behind, 34);
    writes(in_front, -3);
    frees(freed, 200);
    writes(freed, 120);
    writes(whole, 6);
    let [_, [_, damaged, _]] = &TRUTH.blocks;
    // The ledger keeps what was found before: a check that is made to be compared with one from outside would add to it.
    if cfg!(target_arch = "riscv32") {
        damaged.store(HEAP.books().check_integrity(), Relaxed);
    }
    // SAFETY: nothing else is to be done.
    #[cfg(target_arch = "arm")]
    unsafe {
        core::arch::asm!("cpsid i")
    };
    reset()
}

#[allow(dead_code, reason = "the vector table names it")]
#[unsafe(no_mangle)]
extern "C" fn Tick() {
    fail(98)
}
