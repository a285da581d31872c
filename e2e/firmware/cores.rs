//! Two RISC-V cores that allocate and free at the same time from one heap: 5,000 random commands each on blocks of their own, then as many on those of the other. With
//! `--cfg lock="around"` a lock is held around the whole allocator, which records under it; without, the allocator has a lock of its own, and recording another one.
//! What is live at the end stands in a table; then it asks for a reset, and the test `firmware_cores` of `e2e` reads the memory.
#![no_std]
#![no_main]

mod inner;
mod start;

use core::alloc::{GlobalAlloc, Layout};
use core::arch::{asm, global_asm};
use core::cell::UnsafeCell;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use heapledger::chip::{Address, Board, Books, ChipAllocator, Clock, Config};
use inner::Inner;
use start::{fail, reset};

const COMMANDS: u32 = 5000;
const SLOTS: usize = 48;
/// Bytes of the second core's stack.
const STACK_BYTES: usize = 4096;

/// One holds it, of two cores.
struct Lock(AtomicBool);

/// How often somebody came to a lock that was held.
#[unsafe(no_mangle)]
static WAITED: AtomicU32 = AtomicU32::new(0);
/// Of each core: it waits for a lock now; it is to stay in the middle of the next update until the other one waits; it has done so; how many rounds are over.
static WAITS: [AtomicBool; 2] = [const { AtomicBool::new(false) }; 2];
static HOLDS: [AtomicBool; 2] = [const { AtomicBool::new(false) }; 2];
static HANDS_ON: [AtomicBool; 2] = [const { AtomicBool::new(false) }; 2];
static ROUNDS: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];

impl Lock {
    fn with<T>(&self, work: impl FnOnce() -> T) -> T {
        let own = core_number();
        let is_free = || self.0.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if !is_free() {
            WAITED.fetch_add(1, Ordering::Relaxed);
            of(&WAITS, own).store(true, Ordering::SeqCst);
            while !is_free() {
                core::hint::spin_loop();
            }
            of(&WAITS, own).store(false, Ordering::SeqCst);
        }
        let result = work();
        self.0.store(false, Ordering::Release);
        // Now it is the other one's turn.
        if core::ptr::eq(self, &LOCK) && of(&HANDS_ON, own).swap(false, Ordering::Relaxed) {
            while of(&WAITS, 1 - own).load(Ordering::SeqCst) {
                core::hint::spin_loop();
            }
        }
        result
    }
}

fn of<T>(both: &[T; 2], core: usize) -> &T {
    let [first, second] = both;
    if core == 0 { first } else { second }
}

fn core_number() -> usize {
    let number: usize;
    // SAFETY: reads a register.
    unsafe { asm!("csrr {}, mhartid", out(reg) number, options(nomem, nostack)) };
    number & 1
}

static LOCK: Lock = Lock(AtomicBool::new(false));

struct Chip;
heapledger::chip_ledger!(Chip);

// SAFETY: a lock is held while anything is recorded: this one, or that around the allocator.
unsafe impl Board for Chip {
    const CONFIG: Config<'static> = Config {
        history: 16,
        tasks: 3,
        depth: 4,
        clock: Some(Clock { tick_ns: 0, bits: 32 }),
        ..Config::minimal(128, 256)
    };

    #[cfg(not(lock = "around"))]
    fn alone<T>(work: impl FnOnce() -> T) -> T {
        LOCK.with(work)
    }
    /// Asked in the middle of an update.
    fn ticks() -> u32 {
        static TICKS: AtomicU32 = AtomicU32::new(0);
        let own = core_number();
        if of(&HOLDS, own).swap(false, Ordering::Relaxed) {
            of(&HANDS_ON, own).store(true, Ordering::Relaxed);
            // It comes here, too, if it is not through with this round.
            let round = of(&ROUNDS, own).load(Ordering::Relaxed);
            while !of(&WAITS, 1 - own).load(Ordering::SeqCst) && of(&ROUNDS, 1 - own).load(Ordering::SeqCst) <= round {
                core::hint::spin_loop();
            }
        }
        TICKS.fetch_add(1, Ordering::Relaxed)
    }
    fn task() -> Option<Address> {
        Some(0x1000 + core_number() as Address)
    }
    fn stack_end(within: usize) -> usize {
        unsafe extern "C" {
            static stack_top: u8;
        }
        let second = SECOND_STACK.0.get().addr();
        if (second..second + STACK_BYTES).contains(&within) {
            second + STACK_BYTES
        } else {
            (&raw const stack_top).addr()
        }
    }
}

/// Another allocator under a lock.
struct Locked<A>(A, &'static Lock);

// SAFETY: each call goes on to the one inside, with the same arguments.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Locked<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's own call.
        self.1.with(|| unsafe { self.0.alloc(layout) })
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        self.1.with(|| unsafe { self.0.dealloc(block, layout) });
    }
}

#[cfg(lock = "around")]
static HEAP: Locked<ChipAllocator<Inner, Chip>> = Locked(ChipAllocator::new(Inner::new()), &LOCK);
#[cfg(not(lock = "around"))]
static HEAP: ChipAllocator<Locked<Inner>, Chip> = {
    static OF_ALLOCATOR: Lock = Lock(AtomicBool::new(false));
    ChipAllocator::new(Locked(Inner::new(), &OF_ALLOCATOR))
};

/// A block, its bytes, and the core that began it.
#[derive(Clone, Copy)]
struct Held(*mut u8, usize, u32);

struct Slots(UnsafeCell<[Held; SLOTS]>);

// SAFETY: each round they belong to one core.
unsafe impl Sync for Slots {}

static HELD: [Slots; 2] = [const { Slots(UnsafeCell::new([Held(null_mut(), 0, 0); SLOTS])) }; 2];

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, 8).unwrap_or(Layout::new::<u64>())
}

#[inline(never)]
fn command(random: u32, held: &mut Held) {
    // SAFETY: blocks go with the layout that they came with.
    unsafe {
        if held.0.is_null() {
            let bytes = 1 + (random >> 16) as usize % 100;
            *held = Held(HEAP.alloc(layout(bytes)), bytes, core_number() as u32);
            if held.0.is_null() {
                fail(3);
            }
            // Nobody else has it.
            held.0.write_bytes(core_number() as u8 + 1, bytes);
        } else {
            let mut bytes = core::slice::from_raw_parts(held.0, held.1).iter();
            if !bytes.all(|byte| u32::from(*byte) == held.2 + 1) {
                fail(4);
            }
            HEAP.dealloc(held.0, layout(held.1));
            held.0 = null_mut();
        }
    }
}

/// What a core does: with its own blocks, then with those of the other one.
#[inline(never)]
fn works(own: usize) {
    let mut random = 2_463_534_242 + own as u32;
    for round in 0..2 {
        // SAFETY: in this round they belong to this core.
        let slots = unsafe { &mut *of(&HELD, (own + round) & 1).0.get() };
        for nth in 0..COMMANDS {
            random ^= random << 13;
            random ^= random >> 17;
            random ^= random << 5;
            if nth % 250 == 50 {
                of(&HOLDS, own).store(true, Ordering::Relaxed);
            }
            if let Some(held) = slots.get_mut(random as usize % SLOTS) {
                command(random, held);
            }
        }
        of(&HOLDS, own).store(false, Ordering::Relaxed);
        of(&ROUNDS, own).fetch_add(1, Ordering::SeqCst);
        while of(&ROUNDS, 1 - own).load(Ordering::SeqCst) <= round as u32 {
            core::hint::spin_loop();
        }
    }
}

#[repr(C, align(16))]
struct Stack(UnsafeCell<[u8; STACK_BYTES]>);

// SAFETY: nobody looks at it as a whole.
unsafe impl Sync for Stack {}

#[unsafe(no_mangle)]
static SECOND_STACK: Stack = Stack(UnsafeCell::new([0; STACK_BYTES]));

/// Variables are as they are to be at first. (Memory is zeros before.)
#[unsafe(no_mangle)]
static HAS_BEGUN: AtomicU32 = AtomicU32::new(0);

global_asm!(
    ".global Second",
    "Second:",
    "la t0, Trap",
    "csrw mtvec, t0",
    "la sp, SECOND_STACK",
    "li t0, {bytes}",
    "add sp, sp, t0",
    "li s0, 0",
    "la t0, HAS_BEGUN",
    "0: lw t1, 0(t0)",
    "beqz t1, 0b",
    "fence",
    "call second",
    bytes = const STACK_BYTES,
);

#[unsafe(no_mangle)]
extern "C" fn second() -> ! {
    works(1);
    loop {
        core::hint::spin_loop();
    }
}

/// What is live: address, size, and who began it.
#[repr(C)]
struct Truth {
    magic: [u8; 16],
    count: u32,
    blocks: [[u32; 3]; SLOTS * 2],
}

#[repr(transparent)]
struct Told(UnsafeCell<Truth>);

// SAFETY: one core looks at it.
unsafe impl Sync for Told {}

#[used]
static TRUTH: Told =
    Told(UnsafeCell::new(Truth { magic: *b"what is live is:", count: 0, blocks: [[0; 3]; SLOTS * 2] }));

#[unsafe(no_mangle)]
extern "C" fn start() -> ! {
    let books = Books::<Chip>::of();
    books.task_begins(0x1000, 1, "first");
    books.task_begins(0x1001, 2, "second");
    HAS_BEGUN.store(1, Ordering::SeqCst);
    works(0);
    // SAFETY: the other core is through with its work.
    let (truth, held) = unsafe { (&mut *TRUTH.0.get(), HELD.each_ref().map(|slots| &*slots.0.get())) };
    let live = held.iter().flat_map(|slots| slots.iter()).filter(|held| !held.0.is_null());
    for (to, held) in truth.blocks.iter_mut().zip(live) {
        *to = [held.0.addr() as u32, held.1 as u32, held.2];
        truth.count += 1;
    }
    reset()
}
