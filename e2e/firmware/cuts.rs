//! Firmware that a debugger resets in the middle of an update, at whichever instruction it wants: its ledger lies in memory that nothing sets to zero, and each start says what it finds
//! there. `cargo xtask firmware` does so at each instruction.
#![no_std]
#![no_main]

mod inner;
mod start;

use core::alloc::{GlobalAlloc, Layout};
use core::hint::black_box;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use heapledger::chip::{Address, Board, ChipAllocator, Clock, Config, HeapDescription};
use inner::Inner;
use start::{fail, say};

struct Chip;

/// Which update is under way: 0 a block begins, 1 one ends, 2 one is resized. A debugger says so.
#[unsafe(no_mangle)]
#[unsafe(link_section = ".noinit")]
static KIND: AtomicU32 = AtomicU32::new(0);
static TICKS: AtomicU32 = AtomicU32::new(0);

// SAFETY: there is one core, and no interrupt comes.
unsafe impl Board for Chip {
    const CONFIG: Config<'static> = Config {
        depth: 2,
        largest_bytes: 0xFFFE,
        history: 4,
        tasks: 2,
        clock: Some(Clock { tick_ns: 1_000_000, bits: 16 }),
        heaps: &[HeapDescription { name: "sram", low: 0x2000_0000, high: 0x9000_0000 }],
        id: *b"build with cuts.",
        ..Config::minimal(20, 40)
    };
    const SURVIVES: bool = true;

    fn alone<T>(work: impl FnOnce() -> T) -> T {
        inner::without_interrupts(work)
    }
    fn ticks() -> u32 {
        let now = TICKS.load(Relaxed);
        TICKS.store(now + 1, Relaxed);
        now
    }
    fn task() -> Option<Address> {
        Some(0x1000)
    }
    #[cfg(target_arch = "riscv32")]
    fn stack_end(_: usize) -> usize {
        unsafe extern "C" {
            static stack_top: u8;
        }
        (&raw const stack_top).addr()
    }
}

heapledger::chip_ledger!(#[unsafe(link_section = ".noinit")] Chip);

static HEAP: ChipAllocator<Inner, Chip> = ChipAllocator::new(Inner::new());

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, 8).unwrap_or(Layout::new::<u64>())
}

#[inline(never)]
fn allocates<const NUMBER: usize>(bytes: usize) -> *mut u8 {
    black_box(NUMBER);
    // SAFETY: the layout has bytes.
    black_box(unsafe { HEAP.alloc(layout(bytes)) })
}

#[inline(never)]
fn frees(block: *mut u8, bytes: usize) {
    // SAFETY: it was given so.
    unsafe { HEAP.dealloc(black_box(block), layout(bytes)) };
}

/// A debugger stops here.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn cut_begins() {
    black_box(1);
}

/// And here, at the latest.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn cut_ends() {
    // (Two equal functions become one.)
    black_box(2);
}

#[unsafe(no_mangle)]
extern "C" fn start() -> ! {
    let found = HEAP.books().survivor(|words| {
        let sum = words.iter().fold(0x811C_9DC5, |sum: Address, word| (sum ^ word).wrapping_mul(0x0100_0193));
        (sum, words.get(13).copied().unwrap_or(0) >> 16)
    });
    match found {
        Some((sum, busy)) => {
            say("survived", sum);
            say("busy", busy);
        }
        None => {
            say("survived", 0);
            say("busy", 0);
        }
    }
    // The history is full, there are blocks before and behind, and a stack that is new comes.
    let kept = [allocates::<1>(24), allocates::<1>(40), allocates::<2>(100), allocates::<3>(16)];
    for _ in 0..5 {
        frees(allocates::<4>(64), 64);
    }
    let [first, second, ..] = kept;
    let kind = KIND.load(Relaxed);
    cut_begins();
    match kind {
        0 => {
            black_box(allocates::<5>(72));
        }
        1 => frees(second, 40),
        // SAFETY: it was given so.
        _ => {
            black_box(unsafe { HEAP.realloc(first, layout(24), 200) });
        }
    }
    cut_ends();
    fail(0)
}
