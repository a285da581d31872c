//! Firmware for a Cortex-M3 that keeps its ledger in its own memory: two tasks and an interrupt allocate and free; what is live at
//! the end stands in a table beside the ledger. Then it asks for a reset, and the test reads the memory.
//! Built by `xtask/src/thumb.sh`, read by `e2e/tests/firmware.rs`.
#![no_std]
#![no_main]

extern crate alloc;

mod inner;
mod start;

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::arch::asm;
use core::hint::black_box;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use heapledger::chip::{Board, ChipAllocator, Clock, Config, HeapDescription, cortex_m};
use inner::Inner;
use start::{reset, write};

struct Firmware;

static TICKS: AtomicU32 = AtomicU32::new(0);
static TASK: AtomicU32 = AtomicU32::new(0);

// SAFETY: there is one core, and no interrupt comes.
unsafe impl Board for Firmware {
    const CONFIG: Config<'static> = Config {
        history: 32,
        tasks: 4,
        depth: 8,
        largest_bytes: 0xFFFE,
        clock: Some(Clock { tick_ns: 2_000_000, bits: 32 }),
        heaps: &[HeapDescription { name: "sram", low: 0x2000_0000, high: 0x2001_0000 }],
        process: b"program=firmware\0",
        build_id_bytes: 20,
        ..Config::minimal(200, 512)
    };

    fn alone<T>(work: impl FnOnce() -> T) -> T {
        inner::without_interrupts(work)
    }

    fn build_id() -> &'static [u8] {
        heapledger::chip::linked_build_id()
    }

    fn ticks() -> u32 {
        TICKS.load(Relaxed)
    }

    fn task() -> Option<u32> {
        Some(TASK.load(Relaxed))
    }

    fn is_in_interrupt() -> bool {
        cortex_m::is_in_interrupt()
    }
}

heapledger::chip_ledger!(Firmware);

#[global_allocator]
static HEAP: ChipAllocator<Inner, Firmware> = ChipAllocator::new(Inner::new());

/// What is live: address, size, and who allocated it (the task's number, 0 in an interrupt).
#[repr(C)]
struct Truth {
    magic: [u8; 16],
    count: AtomicU32,
    blocks: [[AtomicU32; 3]; 120],
}

#[used]
static TRUTH: Truth = Truth {
    magic: *b"what is live is:",
    count: AtomicU32::new(0),
    blocks: [const { [const { AtomicU32::new(0) }; 3] }; 120],
};

/// Says that a block is kept.
fn keep<T>(block: *const T, bytes: usize, who: u32) {
    inner::without_interrupts(|| {
        let at = TRUTH.count.load(Relaxed);
        let words = [block as usize as u32, bytes as u32, who];
        TRUTH.blocks[at as usize].iter().zip(words).for_each(|(to, word)| to.store(word, Relaxed));
        TRUTH.count.store(at + 1, Relaxed);
    });
}

/// Every 50,000 cycles of 25 MHz: three blocks of the interrupt's are kept, all others given back.
#[unsafe(no_mangle)]
extern "C" fn Tick() {
    let tick = TICKS.load(Relaxed) + 1;
    TICKS.store(tick, Relaxed);
    let mut block = Vec::<u8>::with_capacity(20 + tick as usize % 8);
    black_box(&mut block);
    if tick <= 3 {
        keep(block.as_ptr(), block.capacity(), 0);
        core::mem::forget(block);
    }
}

/// A task that keeps every fourth of its blocks.
#[inline(never)]
fn hoards(task: u32, random: &mut u32) {
    TASK.store(0x1000 * task, Relaxed);
    let mut held: Vec<Vec<u8>> = Vec::with_capacity(8);
    for turn in 0..200 {
        *random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let size = 1 + (*random >> 16) as usize % 120;
        match turn % 4 {
            0 if turn % 20 == 0 => keeps_for_ever(size, task),
            0 | 1 if held.len() < 8 => held.push(black_box(Vec::with_capacity(size))),
            2 if !held.is_empty() => drop(held.swap_remove(size % held.len())),
            _ => {
                if let Some(last) = held.last_mut() {
                    last.reserve_exact(last.capacity() + size);
                    if last.capacity() > 400 {
                        held.pop();
                    }
                }
            }
        }
    }
    for left in held {
        keep(left.as_ptr(), left.capacity(), task);
        core::mem::forget(left);
    }
}

#[inline(never)]
fn keeps_for_ever(size: usize, task: u32) {
    let block = black_box(Vec::<u8>::with_capacity(size));
    keep(block.as_ptr(), size, task);
    core::mem::forget(block);
}

#[unsafe(no_mangle)]
extern "C" fn start() -> ! {
    HEAP.books().task_begins(0x1000, 1, "sensors");
    HEAP.books().task_begins(0x2000, 2, "radio");
    // SysTick: so many cycles, then on, with interrupts, by the processor's clock.
    write(0xE000_E014, 50_000);
    write(0xE000_E018, 0);
    write(0xE000_E010, 7);
    let mut random = 7;
    for round in 0..4 {
        hoards(1 + round % 2, &mut random);
    }
    // What the standard library's types do with an allocator leaves nothing behind.
    let mut names = BTreeMap::new();
    for number in 0..20u32 {
        let mut name = String::from("a name of so many letters");
        (0..number).for_each(|_| name.push('!'));
        names.insert(number, name);
    }
    drop(black_box(names));
    while TICKS.load(Relaxed) < 50 {
        core::hint::spin_loop();
    }
    write(0xE000_E010, 0);
    // SAFETY: nothing else is to be done.
    unsafe { asm!("cpsid i") };
    reset()
}
