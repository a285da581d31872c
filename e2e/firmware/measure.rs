//! What recording costs on a chip: instructions and stack of an allocation and of a free, from 40 call stacks, counted by a clock of
//! QEMU's that goes on with each instruction. It is linked once for each set of switches (`--cfg set="…"`) and number of blocks (`--cfg room="…"`),
//! and once with nothing recorded; the test `firmware_costs` of `e2e` runs them and shows the differences.
#![no_std]
#![no_main]

mod inner;
mod start;

use core::alloc::{GlobalAlloc, Layout};
use core::hint::black_box;
use core::ptr::{null_mut, with_exposed_provenance_mut};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use heapledger::chip::{Clock, Config, HeapDescription, RegionBytes};
use inner::Inner;
use start::{fail, say};

/// Stacks.
const STACKS: usize = 40;
/// Room for so many blocks. Of these, 83 of 100 live while it is measured.
const BLOCKS: usize = if cfg!(room = "10000") {
    10_000
} else if cfg!(room = "1000") {
    1000
} else {
    100
};
const LIVE: usize = BLOCKS * 83 / 100;
/// Freed blocks that are kept, and nodes of stacks.
const ROOM: (u32, u32) = match BLOCKS {
    10_000 => (2048, 4096),
    1000 => (256, 1024),
    _ => (64, 512),
};

#[cfg(set = "none")]
static HEAP: Inner = Inner::new();

#[cfg(not(any(set = "none", set = "light", set = "filled")))]
static HEAP: heapledger::chip::ChipAllocator<Inner, Chip> = heapledger::chip::ChipAllocator::new(Inner::new());

/// Over `minimal`: with canaries, and with fills as well.
#[cfg(any(set = "light", set = "filled"))]
static HEAP: heapledger::chip::GuardedAllocator<Inner, Chip> = heapledger::chip::GuardedAllocator::new(Inner::new());

const IS_GUARDED: bool = cfg!(any(set = "light", set = "filled"));

#[cfg(not(set = "none"))]
struct Chip;

#[cfg(not(set = "none"))]
heapledger::chip_ledger!(Chip);

const CONFIG: Config<'static> = {
    let sites = if cfg!(set = "bare") {
        0
    } else if cfg!(any(set = "crowded", set = "full")) {
        // Nobody but the first few finds room.
        20
    } else {
        ROOM.1
    };
    let everything = cfg!(set = "everything");
    let has_time = everything || cfg!(any(set = "time", set = "tasks"));
    Config {
        depth: 5,
        largest_bytes: 0xFFFE,
        history: if cfg!(any(set = "bare", set = "minimal", set = "crowded")) || IS_GUARDED { 0 } else { ROOM.0 },
        errors: if IS_GUARDED { 8 } else { 0 },
        guarded_heaps: if IS_GUARDED { 1 } else { 0 },
        clock: if has_time { Some(Clock { tick_ns: 40, bits: 24 }) } else { None },
        tasks: if cfg!(set = "tasks") || everything { 4 } else { 0 },
        heaps: if everything { &[HeapDescription { name: "sram", low: 0x2000_0000, high: 0x9000_0000 }] } else { &[] },
        actual_sizes: everything,
        ..Config::minimal(BLOCKS as u32, sites)
    }
};

// SAFETY: there is one core, and no interrupt comes.
#[cfg(not(set = "none"))]
unsafe impl heapledger::chip::Board for Chip {
    const CONFIG: Config<'static> = CONFIG;

    #[inline(always)]
    fn alone<T>(work: impl FnOnce() -> T) -> T {
        inner::without_interrupts(work)
    }
    #[inline(always)]
    fn ticks() -> u32 {
        clock()
    }
    #[inline(always)]
    fn task() -> Option<u32> {
        Some(0x1000)
    }
    #[cfg(set = "light")]
    heapledger::guarded_heaps!(light, (inner::MEMORY.first(), inner::MEMORY_BYTES));
    #[cfg(set = "filled")]
    heapledger::guarded_heaps!(full, (inner::MEMORY.first(), inner::MEMORY_BYTES));
    #[cfg(target_arch = "arm")]
    #[inline(always)]
    fn is_in_interrupt() -> bool {
        heapledger::chip::cortex_m::is_in_interrupt()
    }
    #[cfg(target_arch = "riscv32")]
    #[inline(always)]
    fn stack_end(_: usize) -> usize {
        unsafe extern "C" {
            static stack_top: u8;
        }
        (&raw const stack_top).addr()
    }
}

/// Counts up by one for each 40 ns on the Cortex-M3, each ns on RISC-V.
#[inline(always)]
fn clock() -> u32 {
    #[cfg(target_arch = "arm")]
    return heapledger::chip::cortex_m::systick();
    #[cfg(target_arch = "riscv32")]
    return heapledger::chip::riscv::cycles();
}

/// Instructions between two looks at the clock. One takes 64 ns (`-icount shift=6`).
fn instructions(before: u32, after: u32) -> u32 {
    let ticks = after.wrapping_sub(before) & 0xFF_FFFF;
    if cfg!(target_arch = "arm") { (ticks * 40 + 32) / 64 } else { ticks / 64 }
}

const LAYOUT: Layout = Layout::new::<[u32; 6]>();

#[inline(never)]
fn give() -> *mut u8 {
    // SAFETY: the layout has bytes.
    unsafe { HEAP.alloc(LAYOUT) }
}

#[inline(never)]
fn take_back(block: *mut u8) {
    // SAFETY: it was given so.
    unsafe { HEAP.dealloc(block, LAYOUT) };
}

/// Who calls, one of 40. What comes of it is in `block`.
#[inline(never)]
fn innermost<const NUMBER: usize>(block: &mut *mut u8) -> u32 {
    black_box(NUMBER);
    let before = clock();
    if block.is_null() {
        *block = give();
    } else {
        take_back(*block);
        *block = null_mut();
    }
    let after = clock();
    instructions(before, after)
}

macro_rules! table {
    ($($number:literal)*) => { [$(innermost::<$number>),*] };
}

static INNERMOST: [fn(&mut *mut u8) -> u32; STACKS] = table!(
    0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39
);

#[inline(never)]
fn third(number: usize, block: &mut *mut u8) -> u32 {
    let function = INNERMOST.get(number);
    let cost = function.map_or(0, |function| function(block));
    black_box(cost)
}

#[inline(never)]
fn second(number: usize, block: &mut *mut u8) -> u32 {
    black_box(third(number, block))
}

/// With this there are five frames: this, `second`, `third`, one of 40, and that of `give` or `take_back`.
#[inline(never)]
fn first(number: usize, block: &mut *mut u8) -> u32 {
    black_box(second(number, block))
}

/// Bytes below the caller's frame that are looked at.
const PAINTED_BYTES: usize = 2048;

fn stack_pointer() -> usize {
    let pointer: usize;
    #[cfg(target_arch = "arm")]
    // SAFETY: reads a register.
    unsafe {
        core::arch::asm!("mov {}, sp", out(reg) pointer)
    };
    #[cfg(target_arch = "riscv32")]
    // SAFETY: reads a register.
    unsafe {
        core::arch::asm!("mv {}, sp", out(reg) pointer)
    };
    pointer
}

/// Bytes of stack that a call takes, seen from here.
#[inline(never)]
fn stack_bytes(block: &mut *mut u8) -> u32 {
    const PAINT: u32 = 0xA5A5_5A5A;
    let top = (stack_pointer() - 16) & !3;
    let word = |number: usize| with_exposed_provenance_mut::<u32>(top - 4 - number * 4);
    for number in 0..PAINTED_BYTES / 4 {
        // SAFETY: below the stack pointer, where nothing is that anybody wants; interrupts do not come.
        unsafe { word(number).write_volatile(PAINT) };
    }
    first(0, block);
    let mut deepest = PAINTED_BYTES / 4;
    // SAFETY: as above.
    while deepest > 0 && unsafe { word(deepest - 1).read_volatile() } == PAINT {
        deepest -= 1;
    }
    (deepest * 4) as u32
}

#[derive(Default)]
struct Costs {
    sum: u32,
    most: u32,
}

impl Costs {
    fn add(&mut self, cost: u32) {
        self.sum += cost;
        self.most = self.most.max(cost);
    }
}

/// A store here is what a plugin of QEMU's counts from and to (`accesses.c`). It lies behind all else, so that all else lies where it would without it.
#[unsafe(no_mangle)]
#[unsafe(link_section = ".noinit")]
static MARK: AtomicU32 = AtomicU32::new(0);

fn marks() {
    MARK.store(1, Relaxed);
}

#[unsafe(no_mangle)]
extern "C" fn start() -> ! {
    #[cfg(target_arch = "arm")]
    {
        // SysTick: all of its bits, by the processor's clock, without interrupts.
        for (register, value) in [(0xE000_E014, 0xFF_FFFF), (0xE000_E018, 0), (0xE000_E010, 5)] {
            // SAFETY: a register of the system control space.
            unsafe { with_exposed_provenance_mut::<u32>(register).write_volatile(value) };
        }
    }
    for number in 0..LIVE {
        // It is never given back.
        first(number % STACKS, &mut null_mut());
    }
    let nothing = instructions(clock(), clock());
    let (mut begins, mut ends) = (Costs::default(), Costs::default());
    marks();
    for _ in 0..4 {
        for number in 0..STACKS {
            let mut block = null_mut();
            begins.add(first(number, &mut block));
            ends.add(first(number, &mut block));
        }
    }
    marks();
    say("pairs", 4 * STACKS as u32);
    say("nothing", nothing);
    say("alloc", begins.sum);
    say("alloc_most", begins.most);
    say("free", ends.sum);
    say("free_most", ends.most);
    let mut block = null_mut();
    say("alloc_stack", stack_bytes(&mut block));
    say("free_stack", stack_bytes(&mut block));
    // (Also where nothing is recorded: saying it is not a part of what recording takes.)
    let RegionBytes { header, records, index, history, sites, others } = const { CONFIG.region_bytes::<u32>() };
    for (word, bytes) in [
        ("header_bytes", header),
        ("records_bytes", records),
        ("index_bytes", index),
        ("history_bytes", history),
        ("sites_bytes", sites),
        ("others_bytes", others),
    ] {
        say(word, bytes as u32);
    }
    // Not where it would be counted as that.
    #[cfg(any(set = "crowded", set = "full"))]
    say("live_bytes", HEAP.books().live_bytes());
    fail(0)
}
