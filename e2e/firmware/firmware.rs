//! Firmware for a Cortex-M3 that keeps its ledger in its own memory: two tasks and an interrupt allocate and free; what is live at
//! the end stands in a table beside the ledger. Then it asks for a reset, and the test reads the memory.
//! Built by `xtask/src/thumb.sh`, read by `e2e/tests/firmware.rs`.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::alloc::{GlobalAlloc, Layout};
use core::arch::{asm, global_asm};
use core::cell::UnsafeCell;
use core::hint::black_box;
use core::ptr::{null_mut, with_exposed_provenance_mut};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use heapledger::chip::{Board, ChipAllocator, ChipRegion, Config, FRAMES_MAX, HeapDescription, Options, Shape};

global_asm!(
    ".section .vectors, \"a\"",
    ".word stack_top, Reset",
    ".rept 13",
    ".word Fault",
    ".endr",
    ".word Tick",
    ".text",
    ".thumb_func",
    ".global Reset",
    "Reset:",
    "movs r7, #0",
    "ldr r0, =bss_start",
    "ldr r1, =bss_end",
    "movs r2, #0",
    "0: cmp r0, r1",
    "bhs 1f",
    "str r2, [r0], #4",
    "b 0b",
    "1: ldr r0, =data_start",
    "ldr r1, =data_end",
    "ldr r3, =data_load",
    "2: cmp r0, r1",
    "bhs 3f",
    "ldr r2, [r3], #4",
    "str r2, [r0], #4",
    "b 2b",
    "3: bl start",
    ".thumb_func",
    "Fault: movs r0, #99",
    "bl fail",
);

/// Ends QEMU with this status.
#[unsafe(no_mangle)]
extern "C" fn fail(status: u32) -> ! {
    let block = [0x2_0026, status];
    // SAFETY: the semihosting call SYS_EXIT_EXTENDED.
    unsafe { asm!("bkpt #0xab", in("r0") 0x20, in("r1") &raw const block) };
    loop {}
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    fail(101)
}

fn write(register: usize, value: u32) {
    // SAFETY: a register of the system control space.
    unsafe { with_exposed_provenance_mut::<u32>(register).write_volatile(value) };
}

/// Runs something without interrupts.
fn without_interrupts<T>(work: impl FnOnce() -> T) -> T {
    let mask: u32;
    // SAFETY: only whether interrupts are taken changes.
    unsafe { asm!("mrs {}, primask", "cpsid i", out(reg) mask) };
    let result = work();
    // SAFETY: as above; it is as it was.
    unsafe { asm!("msr primask, {}", in(reg) mask) };
    result
}

fn is_in_interrupt() -> bool {
    let number: u32;
    // SAFETY: reads a register.
    unsafe { asm!("mrs {}, ipsr", out(reg) number) };
    number != 0
}

/// Blocks of powers of two bytes; what is given back is given again, the last first.
struct Inner(UnsafeCell<Books>);

struct Books {
    used: usize,
    free: [*mut *mut u8; 16],
}

// SAFETY: only looked at without interrupts.
unsafe impl Sync for Inner {}

/// What it gives. Beside it: what is not zero has a copy of all of itself in the flash.
struct Memory(UnsafeCell<[u64; 2048]>);

// SAFETY: nobody looks at it as a whole.
unsafe impl Sync for Memory {}

static MEMORY: Memory = Memory(UnsafeCell::new([0; 2048]));

fn class(layout: Layout) -> usize {
    layout.size().max(layout.align()).max(8).next_power_of_two().trailing_zeros() as usize
}

// SAFETY: a block is given to one at a time, and lies at a multiple of its size's power of two within aligned memory.
unsafe impl GlobalAlloc for Inner {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        without_interrupts(|| {
            // SAFETY: nobody else looks at it meanwhile.
            let books = unsafe { &mut *self.0.get() };
            let (class, bytes) = (class(layout), 1 << class(layout));
            let first = books.free[class];
            if !first.is_null() {
                // SAFETY: a free block begins with the address of the next one.
                books.free[class] = unsafe { first.read() }.cast();
                return first.cast();
            }
            let memory = MEMORY.0.get().cast::<u8>();
            let base = memory as usize;
            let at = (base + books.used).next_multiple_of(bytes.min(64)) - base;
            if layout.align() > 64 || at + bytes > size_of::<Memory>() {
                return null_mut();
            }
            books.used = at + bytes;
            memory.wrapping_add(at)
        })
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        without_interrupts(|| {
            // SAFETY: as above.
            let books = unsafe { &mut *self.0.get() };
            // SAFETY: the block is ours again, and has room for an address.
            unsafe { block.cast::<*mut u8>().write(books.free[class(layout)].cast()) };
            books.free[class(layout)] = block.cast();
        })
    }
}

struct Firmware;

static TICKS: AtomicU32 = AtomicU32::new(0);
static TASK: AtomicU32 = AtomicU32::new(0);

impl Shape for Firmware {
    type Word = u32;
    const OPTIONS: Options = Options(Options::ALL.0 & !Options::ACTUAL_SIZE);
    const SITES_MAX: u32 = 512;
    const TASKS_MAX: u32 = 4;
    const HEAPS_MAX: u32 = 1;

    fn ticks() -> u32 {
        TICKS.load(Relaxed)
    }
}

// SAFETY: there is one core, and no interrupt comes.
unsafe impl Board for Firmware {
    const CONFIG: Config<'static> = Config {
        history: 32,
        tasks: 4,
        heaps: &[HeapDescription { name: "sram", low: 0x2000_0000, high: 0x2001_0000 }],
        process: b"program=firmware\0",
        machine: 40,
        tick_ns: 2_000_000,
        ..Config::minimal(200, 512)
    };

    fn alone<T>(work: impl FnOnce() -> T) -> T {
        without_interrupts(work)
    }

    fn task() -> Option<u32> {
        (!is_in_interrupt()).then(|| TASK.load(Relaxed))
    }

    /// Along frame pointers, as far as they lead upwards through the RAM.
    #[inline(always)]
    fn stack(frames: &mut [u32; FRAMES_MAX]) -> usize {
        let mut pointer: u32;
        // SAFETY: reads a register.
        unsafe { asm!("mov {}, r7", out(reg) pointer) };
        let mut count = 0;
        while count < 6 && (0x2000_0000..0x2000_FFF8).contains(&pointer) && pointer % 4 == 0 {
            let frame = with_exposed_provenance_mut::<[u32; 2]>(pointer as usize);
            // SAFETY: in the RAM, as was just looked at.
            let [outer, code] = unsafe { frame.read_volatile() };
            if code >= 0xFFFF_FFE0 {
                break; // no code, but the end of an interrupt
            }
            // Not the bit that says that it is Thumb code.
            frames[count] = code & !1;
            count += 1;
            if outer <= pointer {
                break;
            }
            pointer = outer;
        }
        count
    }
}

const WORDS: usize = Firmware::CONFIG.words::<Firmware>();

#[unsafe(export_name = "heapledger_ledger")]
static LEDGER: ChipRegion<Firmware, WORDS> = ChipRegion::new();

#[global_allocator]
static HEAP: ChipAllocator<Inner, Firmware, WORDS> =
    ChipAllocator::new(Inner(UnsafeCell::new(Books { used: 0, free: [null_mut(); 16] })), &LEDGER);

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
    without_interrupts(|| {
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
    HEAP.with(|ledger| {
        ledger.task_begins(0x1000, 1, "sensors");
        ledger.task_begins(0x2000, 2, "radio");
    });
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
    // A reset: QEMU was told to stop there.
    write(0xE000_ED0C, 0x05FA_0004);
    loop {}
}
