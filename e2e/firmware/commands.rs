//! Firmware that allocates and frees as random numbers say, 10,000 times: from two tasks and from an interrupt, from stacks of one to
//! five equal frames, which are found along frame pointers, or (`--cfg scan`) by a scan of the stack, with blocks that are guarded (`--cfg guard="light"`, `"full"`) or not; it leaks, asks for too much, and says
//! of blocks that they are freed which are not there any more. The test `firmware_commands` of `e2e` does the same with a model, and compares.
#![no_std]
#![no_main]

mod inner;
mod start;

use core::alloc::{GlobalAlloc, Layout};
use core::hint::black_box;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering::Relaxed};

use heapledger::chip::{Address, Board, Clock, Config, Frame, HeapDescription, Kind};
use inner::Inner;
use start::{fail, reset, write};

struct Chip;

/// What random numbers begin with: `cargo xtask firmware` changes it in the linked file.
#[unsafe(no_mangle)]
static FIRST_RANDOM: u32 = 1;

static TICKS: AtomicU32 = AtomicU32::new(0);
static TASK: AtomicU32 = AtomicU32::new(0);
static IN_INTERRUPT: AtomicU32 = AtomicU32::new(0);

// SAFETY: there is one core, and no interrupt comes.
unsafe impl Board for Chip {
    const CONFIG: Config<'static> = Config {
        history: 200,
        tasks: 3,
        // Guesses are many different ones, for which there is to be room.
        depth: if cfg!(scan) { 9 } else { 12 },
        largest_bytes: 0xFFFE,
        clock: Some(Clock { tick_ns: 1_000_000, bits: 8 }),
        heaps: &[
            HeapDescription { name: "elsewhere", low: 0x1000, high: 0x2000 },
            HeapDescription { name: "sram", low: 0x2000_0000, high: 0x9000_0000 },
        ],
        errors: if cfg!(any(guard = "light", guard = "full")) { 4 } else { 0 },
        guarded_heaps: if cfg!(any(guard = "light", guard = "full")) { 1 } else { 0 },
        process: b"program=commands\0build_id=commands of the tests\0",
        ..Config::minimal(100, if cfg!(scan) { 4600 } else { 512 })
    };

    fn alone<T>(work: impl FnOnce() -> T) -> T {
        inner::without_interrupts(work)
    }
    fn ticks() -> u32 {
        TICKS.load(Relaxed)
    }
    fn task() -> Option<Address> {
        Some(TASK.load(Relaxed))
    }
    fn is_in_interrupt() -> bool {
        IN_INTERRUPT.load(Relaxed) != 0
    }
    #[cfg(target_arch = "riscv32")]
    fn stack_end(_: usize) -> usize {
        unsafe extern "C" {
            static stack_top: u8;
        }
        (&raw const stack_top).addr()
    }
    #[cfg(guard = "light")]
    heapledger::guarded_heaps!(light, (inner::MEMORY.first(), inner::MEMORY_BYTES));
    #[cfg(guard = "full")]
    heapledger::guarded_heaps!(full, (inner::MEMORY.first(), inner::MEMORY_BYTES));
    /// Nothing is wrong here.
    fn damaged(_: &heapledger::chip::HeapDamage) {
        fail(77)
    }
    #[cfg(scan)]
    const STACKS: heapledger::chip::Stacks = heapledger::chip::Stacks::Scan;
    #[cfg(scan)]
    fn code() -> core::ops::Range<usize> {
        unsafe extern "C" {
            static code_start: u8;
            static code_end: u8;
        }
        (&raw const code_start).addr()..(&raw const code_end).addr()
    }
}

heapledger::chip_ledger!(Chip);

#[cfg(not(any(guard = "light", guard = "full")))]
use heapledger::chip::ChipAllocator as Recorded;
#[cfg(any(guard = "light", guard = "full"))]
use heapledger::chip::GuardedAllocator as Recorded;

static HEAP: Recorded<Inner, Chip> = Recorded::new(Inner::new());

/// Blocks that are known by a number.
struct Slot {
    block: AtomicPtr<u8>,
    bytes: AtomicU32,
}

const SLOTS: usize = 48;

static SLOT: [Slot; SLOTS] =
    [const { Slot { block: AtomicPtr::new(null_mut()), bytes: AtomicU32::new(0) } }; SLOTS];

/// What is to be done, packed into a random number; the test unpacks it in the same way.
static COMMAND: AtomicU32 = AtomicU32::new(0);

fn layout(bytes: u32) -> Layout {
    Layout::from_size_align(bytes as usize, 8).unwrap_or(Layout::new::<u64>())
}

/// The innermost frame. What it does follows from the command and the slot.
#[inline(never)]
fn perform(command: u32) {
    let Some(slot) = SLOT.get((command % SLOTS as u32) as usize) else { return };
    let what = command >> 8 & 0x1F;
    let bytes = 1 + (command >> 16) % 96;
    let (block, had) = (slot.block.load(Relaxed), slot.bytes.load(Relaxed));
    // SAFETY: blocks are given back once, with the layout that they were asked for with.
    let (block, bytes) = unsafe {
        match (block.is_null(), what) {
            // More than there is.
            (true, 0) => (HEAP.alloc(layout(40_000)), 0),
            // A block that nobody knows any more.
            (true, 1) => {
                HEAP.books().freed(0x1230, Kind::RUST_DEALLOC, Frame::NONE);
                (null_mut(), 0)
            }
            (true, 2..8) => (HEAP.alloc_zeroed(layout(bytes)), bytes),
            (true, _) => (HEAP.alloc(layout(bytes)), bytes),
            // Lost, if that does not happen too often.
            (false, 0) if command >> 16 & 0x1F == 0 => (null_mut(), 0),
            (false, 0..12) => (HEAP.realloc(block, layout(had), bytes as usize), bytes),
            (false, 12) => {
                // It fails, and nothing has changed.
                HEAP.realloc(block, layout(had), 40_000);
                (block, had)
            }
            (false, _) => {
                HEAP.dealloc(block, layout(had));
                (null_mut(), 0)
            }
        }
    };
    slot.block.store(block, Relaxed);
    slot.bytes.store(bytes, Relaxed);
}

/// So many frames more.
#[inline(never)]
fn deeper(levels: u32, command: u32) {
    if levels == 0 {
        perform(command);
    } else {
        deeper(levels - 1, command);
    }
    // Not the last thing that it does: it stays on the stack.
    black_box(levels);
}

/// An interrupt does it.
#[unsafe(no_mangle)]
extern "C" fn Tick() {
    #[cfg(target_arch = "riscv32")]
    write(0x200_0000, 0);
    IN_INTERRUPT.store(1, Relaxed);
    let command = COMMAND.load(Relaxed);
    deeper(command >> 24 & 3, command);
    IN_INTERRUPT.store(0, Relaxed);
    COMMAND.store(0, Relaxed);
}

/// Has the interrupt come now.
#[inline(never)]
fn interrupted() {
    #[cfg(target_arch = "arm")]
    write(0xE000_ED04, 1 << 26);
    #[cfg(target_arch = "riscv32")]
    write(0x200_0000, 1);
    while COMMAND.load(Relaxed) != 0 {
        core::hint::spin_loop();
    }
    black_box(());
}

/// Turns the floating-point unit on, and uses it: what the processor saves for an interrupt is larger then.
#[cfg(target_abi = "eabihf")]
fn floats() {
    write(0xE000_ED88, 0xF << 20);
    // SAFETY: what follows sees the unit.
    unsafe { core::arch::asm!("dsb", "isb", "vmov s0, r0", out("s0") _) };
}

#[unsafe(no_mangle)]
extern "C" fn start() -> ! {
    #[cfg(target_arch = "riscv32")]
    // SAFETY: interrupts by software, and no others, are let in.
    unsafe {
        core::arch::asm!("csrs mie, {}", "csrs mstatus, {}", in(reg) 8, in(reg) 8)
    };
    #[cfg(target_abi = "eabihf")]
    floats();
    HEAP.books().task_begins(0x1000, 1, "first");
    HEAP.books().task_begins(0x2000, 2, "second");
    // SAFETY: a constant.
    let mut random = unsafe { (&raw const FIRST_RANDOM).read_volatile() };
    for _ in 0..10_000 {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        // The upper bits of such numbers are the better ones.
        let command = random.rotate_left(16) | 1 << 31;
        TICKS.store(TICKS.load(Relaxed) + 1, Relaxed);
        COMMAND.store(command, Relaxed);
        TASK.store(if command >> 26 & 1 == 0 { 0x1000 } else { 0x2000 }, Relaxed);
        if command >> 27 & 7 == 0 {
            interrupted();
        } else {
            deeper(command >> 24 & 3, command);
        }
    }
    #[cfg(any(guard = "light", guard = "full"))]
    if HEAP.books().check_integrity() != 0 {
        fail(78)
    }
    reset()
}
