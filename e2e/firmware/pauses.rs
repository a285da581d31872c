//! For how many instructions a chip's interrupts are off while something is recorded: of each call by itself, with 10, 100, 1,000 and 10,000 blocks
//! live, which come and go in no order and in several sizes, from 40 stacks of five frames. It is linked once for each set of switches (`--cfg set="…"`); the test
//! `firmware_pauses` of `e2e` runs them.
#![no_std]
#![no_main]

mod inner;
mod start;

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::hint::black_box;
use core::ptr::null_mut;

use heapledger::chip::{Address, Board, ChipAllocator, Clock, Config, HeapDescription};
use inner::Inner;
use start::{fail, say};

#[cfg(target_arch = "arm")]
use heapledger::chip::cortex_m as processor;
#[cfg(target_arch = "riscv32")]
use heapledger::chip::riscv as processor;

const STACKS: usize = 40;
/// Most blocks that live.
const BLOCKS: usize = 10_000;
/// Calls that are measured with each number of blocks: so many come, and so many go.
const CALLS: usize = 10_000;

struct Chip;
heapledger::chip_ledger!(Chip);

static HEAP: ChipAllocator<Inner, Chip> = ChipAllocator::new(Inner::new());

// SAFETY: there is one core, and no interrupt comes.
unsafe impl Board for Chip {
    const CONFIG: Config<'static> = {
        // Without history for `minimal`; `full`: nobody but the first few finds room for a stack.
        let (sites, history) = if cfg!(set = "full") { (20, 64) } else { (1024, if cfg!(set = "minimal") { 0 } else { 64 }) };
        let all = cfg!(not(set = "minimal"));
        Config {
            depth: 5,
            largest_bytes: 0xFFFE,
            history,
            clock: if all { Some(Clock { tick_ns: 40, bits: 24 }) } else { None },
            tasks: if all { 4 } else { 0 },
            heaps: if all { &[HeapDescription { name: "sram", low: 0x2000_0000, high: 0x9000_0000 }] } else { &[] },
            actual_sizes: all,
            // As full as ledgers are where there is some room to spare.
            ..Config::minimal(BLOCKS as u32 * 6 / 5, sites)
        }
    };

    #[inline(always)]
    fn alone<T>(work: impl FnOnce() -> T) -> T {
        inner::without_interrupts(|| {
            let before = clock();
            let result = work();
            let after = clock();
            PAUSES.add(instructions(before, after));
            result
        })
    }
    #[inline(always)]
    fn ticks() -> u32 {
        clock()
    }
    #[inline(always)]
    fn task() -> Option<Address> {
        Some(0x1000)
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

/// How often interrupts were off for so many instructions.
struct Pauses(UnsafeCell<[u16; Pauses::MOST]>);

// SAFETY: nothing else runs.
unsafe impl Sync for Pauses {}

static PAUSES: Pauses = Pauses(UnsafeCell::new([0; Pauses::MOST]));

impl Pauses {
    /// Longer ones are counted as this.
    const MOST: usize = 4096;

    fn add(&self, instructions: u32) {
        // SAFETY: nothing else runs.
        let counts = unsafe { &mut *self.0.get() };
        let place = (instructions as usize).min(Self::MOST - 1);
        if let Some(count) = counts.get_mut(place) {
            *count = count.wrapping_add(1);
        }
    }

    /// Says what was counted, and begins anew.
    fn say(&self) {
        // SAFETY: as above.
        let counts = unsafe { &mut *self.0.get() };
        for (instructions, count) in counts.iter_mut().enumerate().filter(|(_, count)| **count != 0) {
            say("off", instructions as u32);
            say("times", u32::from(*count));
            *count = 0;
        }
    }

    fn forget(&self) {
        // SAFETY: as above.
        unsafe { (*self.0.get()).fill(0) };
    }
}

/// Counts up by one for each 40 ns on the Cortex-M3, each ns on RISC-V.
#[inline(always)]
fn clock() -> u32 {
    #[cfg(target_arch = "arm")]
    return processor::systick();
    #[cfg(target_arch = "riscv32")]
    return processor::cycles();
}

/// Instructions between two looks at the clock. One takes 64 ns (`-icount shift=6`).
fn instructions(before: u32, after: u32) -> u32 {
    let ticks = after.wrapping_sub(before) & 0xFF_FFFF;
    if cfg!(target_arch = "arm") { (ticks * 40 + 32) / 64 } else { ticks / 64 }
}

/// A block that lives, and its bytes; null: it does not.
#[derive(Clone, Copy)]
struct Held(*mut u8, u32);

struct AllHeld(UnsafeCell<[Held; BLOCKS]>);

// SAFETY: nothing else runs.
unsafe impl Sync for AllHeld {}

static HELD: AllHeld = AllHeld(UnsafeCell::new([const { Held(null_mut(), 0) }; BLOCKS]));

fn layout(bytes: u32) -> Layout {
    Layout::from_size_align(bytes as usize, 8).unwrap_or(Layout::new::<u64>())
}

/// Who calls, one of 40: a block comes, if there is none, or goes.
#[inline(never)]
fn innermost<const NUMBER: usize>(held: &mut Held) {
    black_box(NUMBER);
    // SAFETY: blocks go with the layout that they came with.
    unsafe {
        if held.0.is_null() {
            held.0 = HEAP.alloc(layout(held.1));
        } else {
            HEAP.dealloc(held.0, layout(held.1));
            held.0 = null_mut();
        }
    }
    black_box(&held);
}

macro_rules! table {
    ($($number:literal)*) => { [$(innermost::<$number>),*] };
}

static INNERMOST: [fn(&mut Held); STACKS] = table!(
    0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39
);

#[inline(never)]
fn third(number: usize, held: &mut Held) {
    if let Some(function) = INNERMOST.get(number) {
        function(held);
    }
    black_box(&held);
}

#[inline(never)]
fn second(number: usize, held: &mut Held) {
    third(number, held);
    black_box(&held);
}

#[inline(never)]
fn first(number: usize, held: &mut Held) {
    second(number, held);
    black_box(&held);
}

#[unsafe(no_mangle)]
extern "C" fn start() -> ! {
    #[cfg(target_arch = "arm")]
    {
        // SysTick: all of its bits, by the processor's clock, without interrupts.
        for (register, value) in [(0xE000_E014, 0xFF_FFFF), (0xE000_E018, 0), (0xE000_E010, 5)] {
            // SAFETY: a register of the system control space.
            unsafe { core::ptr::with_exposed_provenance_mut::<u32>(register).write_volatile(value) };
        }
    }
    let (mut random, mut live) = (1u32, 0usize);
    for level in [10, 100, 1000, BLOCKS] {
        while live < level {
            comes(&mut live, &mut random);
        }
        PAUSES.forget();
        for _ in 0..CALLS {
            goes(&mut live, &mut random);
            comes(&mut live, &mut random);
        }
        say("live", live as u32);
        PAUSES.say();
    }
    fail(0)
}

/// A number below another one.
fn below(most: usize, random: &mut u32) -> usize {
    *random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
    ((u64::from(*random) * most as u64) >> 32) as usize
}

/// One more block lives.
fn comes(live: &mut usize, random: &mut u32) {
    // SAFETY: nothing else runs.
    let all = unsafe { &mut *HELD.0.get() };
    let Some(held) = all.get_mut(*live) else { fail(1) };
    // Classes of 8, 16, 32 and 64 bytes.
    held.1 = 8 + below(7, random) as u32 * 8;
    first(below(STACKS, random), held);
    *live += 1;
}

/// One of those that live goes; the last one lies in its place.
fn goes(live: &mut usize, random: &mut u32) {
    // SAFETY: as above.
    let all = unsafe { &mut *HELD.0.get() };
    let place = below(*live, random);
    let Some(held) = all.get_mut(place) else { fail(2) };
    first(below(STACKS, random), held);
    *live -= 1;
    all.swap(place, *live);
}
