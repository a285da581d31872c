//! Firmware for a Cortex-M3 whose ledger is sent as it is entered: by its first serial line from the beginning, by a ring that a debugger reads at the end, by a small one that it empties all the while, and by
//! its second serial line from the middle on, when a host asks for all live blocks. At the end a debugger saves its memory: all of them
//! agree. Built by `xtask/src/thumb.sh`, read by `e2e/tests/sends.rs`.
#![no_std]
#![no_main]

extern crate alloc;

mod inner;
mod start;

use alloc::vec::Vec;
use core::fmt::{self, Write};
use core::hint::black_box;
use core::ptr::with_exposed_provenance;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use heapledger::chip::{Board, Books, ChipAllocator, Clock, Config, Entered, Sending, cortex_m};
use heapledger_wire::line::{Asked, Binary};
use heapledger_wire::message::Mark;
use heapledger_wire::rtt::Ring;
use inner::Inner;
use start::{fail, write};

fn get(register: usize) -> u32 {
    // SAFETY: a register of this machine.
    unsafe { with_exposed_provenance::<u32>(register).read_volatile() }
}

/// The serial lines of the machine: all of it, from the middle on, and lines of libwebsockets.
const FIRST: usize = 0x4000_4000;
const SECOND: usize = 0x4000_5000;
const THIRD: usize = 0x4000_6000;

/// QEMU's lines take what they are given: nothing waits for long here, and nothing is dropped.
fn send(line: usize, bytes: &[u8]) -> bool {
    for byte in bytes {
        while get(line + 4) & 1 != 0 {}
        write(line, u32::from(*byte));
    }
    true
}

static RING: Ring<12288> = Ring::new();
static FROM_THE_BEGINNING: Sending<Firmware, Binary<fn(&[u8]) -> bool>, 32> =
    Sending::new(Binary(|bytes| send(FIRST, bytes)), 0, 77);
static BY_RING: Sending<Firmware, &Ring<12288>, 32> = Sending::new(&RING, 1, 78);
static FROM_THE_MIDDLE: Sending<Firmware, Binary<fn(&[u8]) -> bool>, 32> =
    Sending::new(Binary(|bytes| send(SECOND, bytes)), 2, 79);

/// A ring that is far too small for all of it, unless a debugger empties it meanwhile.
static SMALL_RING: Ring<1024> = Ring::new();
static BY_SMALL_RING: Sending<Firmware, &Ring<1024>, 32> = Sending::new(&SMALL_RING, 3, 80);

struct Firmware;

static TASK: AtomicU32 = AtomicU32::new(0);

// SAFETY: there is one core, and no interrupt comes. What is told is sent without an allocation.
unsafe impl Board for Firmware {
    const CONFIG: Config<'static> = Config {
        history: 400,
        tasks: 4,
        depth: 8,
        clock: Some(Clock { tick_ns: 40, bits: 24 }),
        ..Config::minimal(150, 300)
    };

    fn alone<T>(work: impl FnOnce() -> T) -> T {
        inner::without_interrupts(work)
    }

    fn ticks() -> u32 {
        cortex_m::systick()
    }

    fn task() -> Option<u32> {
        Some(TASK.load(Relaxed))
    }

    fn entered(what: &Entered<'_, Self>) {
        FROM_THE_BEGINNING.entered(what);
        BY_RING.entered(what);
        BY_SMALL_RING.entered(what);
        FROM_THE_MIDDLE.entered(what);
    }
}

heapledger::chip_ledger!(Firmware);

#[global_allocator]
static HEAP: ChipAllocator<Inner, Firmware> = ChipAllocator::new(Inner::new());

/// Blocks of one place, which come, grow and go.
#[inline(never)]
fn works(task: u32, random: &mut u32, held: &mut [Option<Vec<u8>>; 12]) {
    TASK.store(task, Relaxed);
    for _ in 0..30 {
        *random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let (place, size) = ((*random >> 12) as usize % held.len(), 1 + (*random >> 20) as usize % 90);
        match &mut held[place] {
            Some(block) if *random >> 30 == 0 => block.reserve_exact(block.capacity() + size),
            Some(_) => held[place] = None,
            none => *none = Some(others(size)),
        }
    }
}

#[inline(never)]
fn others(size: usize) -> Vec<u8> {
    black_box(Vec::with_capacity(size))
}

/// A debugger stops here.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn finished() {
    black_box(0);
}

/// The third line.
struct Third;

impl Write for Third {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        send(THIRD, text.as_bytes());
        Ok(())
    }
}

#[unsafe(no_mangle)]
extern "C" fn start() -> ! {
    for line in [FIRST, SECOND, THIRD] {
        write(line + 0x10, 16);
        // The second one is asked as well.
        write(line + 8, if line == SECOND { 3 } else { 1 });
    }
    write(0xE000_E014, 0xff_ffff);
    write(0xE000_E018, 0);
    write(0xE000_E010, 5);
    SMALL_RING.begin();
    RING.begin();
    FROM_THE_MIDDLE.mark(Mark::Stops);
    for (task, name) in [(0x1000, "sensors"), (0x2000, "radio")] {
        Books::<Firmware>::of().task_begins(task, task >> 12, name);
        FROM_THE_BEGINNING.task(task, name);
        BY_RING.task(task, name);
        BY_SMALL_RING.task(task, name);
    }
    let (mut random, mut held) = (7, [const { None }; 12]);
    for round in 0..8 {
        works(0x1000 << (round % 2), &mut random, &mut held);
    }
    // Until the host asks: it may take its time.
    let mut asked = Asked::default();
    loop {
        if get(SECOND + 4) & 2 != 0 && asked.byte(get(SECOND) as u8) {
            break;
        }
    }
    FROM_THE_MIDDLE.mark(Mark::Starts);
    for (task, name) in [(0x1000, "sensors"), (0x2000, "radio")] {
        FROM_THE_MIDDLE.task(task, name);
    }
    FROM_THE_MIDDLE.tell_live();
    for round in 0..4 {
        works(0x1000 << (round % 2), &mut random, &mut held);
    }
    FROM_THE_BEGINNING.flush();
    BY_RING.flush();
    BY_SMALL_RING.flush();
    FROM_THE_MIDDLE.mark(Mark::Stops);
    if HEAP.books().write_compressed(&mut Third).is_err() {
        fail(3);
    }
    finished();
    fail(0)
}
