//! Firmware that is reset again and again, with its ledger in memory that nothing sets to zero: each time it says what it finds there.
#![no_std]
#![no_main]

mod inner;
mod start;

use core::alloc::{GlobalAlloc, Layout};
use core::hint::black_box;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use heapledger::chip::{Address, Board, ChipAllocator, Config, Placed};
use inner::Inner;
use start::{fail, reset, say};

struct Chip;

/// How often the firmware has started; what else it is that survives.
#[unsafe(link_section = ".noinit")]
static STARTS: AtomicU32 = AtomicU32::new(0);
/// Whether a stack without room is to end in a reset.
static IS_CUT: AtomicU32 = AtomicU32::new(0);

// SAFETY: there is one core, and no interrupt comes.
unsafe impl Board for Chip {
    const CONFIG: Config<'static> = Config {
        depth: 1,
        largest_bytes: 0xFFFE,
        history: 8,
        id: *b"this very build.",
        ..Config::minimal(50, 6)
    };
    const SURVIVES: bool = true;

    fn alone<T>(work: impl FnOnce() -> T) -> T {
        inner::without_interrupts(work)
    }

    /// In the middle of an update.
    fn sites_full() {
        if IS_CUT.load(Relaxed) != 0 {
            reset();
        }
    }
}

heapledger::chip_ledger!(#[unsafe(link_section = ".noinit")] Chip);

static HEAP: ChipAllocator<Inner, Chip> = ChipAllocator::new(Inner::new());

#[inline(never)]
fn allocates<const NUMBER: usize>() {
    black_box(NUMBER);
    // SAFETY: the layout has bytes.
    black_box(unsafe { HEAP.alloc(Layout::new::<[u32; 4]>()) });
}

/// What is found of the time before.
fn say_what_survived() {
    let found = HEAP.books().survivor(|words| {
        let sum = words.iter().fold(0x811C_9DC5, |sum: Address, word| (sum ^ word).wrapping_mul(0x0100_0193));
        // What allocates here is not entered.
        allocates::<0>();
        (sum, words.get(13).copied().unwrap_or(0) >> 16)
    });
    match found {
        Some((sum, busy)) => {
            say("survived", sum);
            say("busy", busy);
        }
        None => say("nothing", 1),
    }
    // Once is enough.
    if HEAP.books().survivor(|_| ()).is_some() && found.is_some() {
        fail(1);
    }
}

#[unsafe(no_mangle)]
extern "C" fn start() -> ! {
    const FIRST: u32 = 0x5AFE_0000;
    let starts = STARTS.load(Relaxed);
    let starts = if starts >> 16 == FIRST >> 16 { starts } else { FIRST };
    STARTS.store(starts + 1, Relaxed);
    // The region's own memory, to damage it.
    let word = |at: usize| Chip::region().wrapping_add(at);
    match starts - FIRST {
        0 => {
            // SAFETY: nobody has the region yet.
            (0..60).for_each(|at| unsafe { word(at).write_volatile(0xA5A5_A5A5) });
            say_what_survived();
            (0..3).for_each(|_| allocates::<1>());
            allocates::<2>();
            say("live", HEAP.books().live_bytes());
            reset()
        }
        1 => {
            say_what_survived();
            say("live", HEAP.books().live_bytes());
            IS_CUT.store(1, Relaxed);
            (allocates::<1>(), allocates::<2>(), allocates::<3>(), allocates::<4>(), allocates::<5>());
            (allocates::<6>(), allocates::<7>());
            fail(2)
        }
        2 => {
            say_what_survived();
            allocates::<1>();
            // SAFETY: the last word of the header's table, in the middle of nothing.
            unsafe { word(15).write_volatile(0x1234_5678) };
            reset()
        }
        _ => {
            say_what_survived();
            allocates::<1>();
            say("live", HEAP.books().live_bytes());
            fail(0)
        }
    }
}
