//! Windows, accounts of tasks and hooks: 3,000 random commands from three tasks, two windows of which one pauses, and the most that lived for a while. What it says, the
//! test `firmware_windows` of `e2e` holds against a model; `windows.c` does the same in C.
#![no_std]
#![no_main]

mod inner;
mod start;

use core::alloc::{GlobalAlloc, Layout};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use heapledger::chip::{Address, Board, ChipAccount, ChipAllocator, ChipWindow, Config, Entered, PeakWatch};
use inner::Inner;
use start::{fail, say};

struct Chip;

static RUNNING: AtomicU32 = AtomicU32::new(0x1000);
static TOLD: [AtomicU32; 3] = [const { AtomicU32::new(0) }; 3];
static BYTES_TOLD: AtomicU32 = AtomicU32::new(0);
static MOST: PeakWatch = PeakWatch::new();

fn add(to: &AtomicU32, amount: u32) {
    to.store(to.load(Relaxed).wrapping_add(amount), Relaxed);
}

// SAFETY: there is one core, and no interrupt comes.
unsafe impl Board for Chip {
    const CONFIG: Config<'static> = Config { history: 16, tasks: 4, depth: 2, ..Config::minimal(64, 64) };

    fn alone<T>(work: impl FnOnce() -> T) -> T {
        inner::without_interrupts(work)
    }
    fn task() -> Option<Address> {
        Some(RUNNING.load(Relaxed))
    }
    #[cfg(target_arch = "riscv32")]
    fn stack_end(_: usize) -> usize {
        0
    }
    fn entered(what: &Entered<'_, Self>) {
        MOST.entered(what);
        let nth = match what {
            Entered::Block { size, .. } => {
                add(&BYTES_TOLD, *size);
                0
            }
            Entered::End { .. } => 1,
            Entered::Failed { .. } => 2,
        };
        TOLD.get(nth).into_iter().for_each(|told| add(told, 1));
    }
}

heapledger::chip_ledger!(Chip);

static HEAP: ChipAllocator<Inner, Chip> = ChipAllocator::new(Inner::new());

fn number(seed: &mut u32) -> u32 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 17;
    *seed ^= *seed << 5;
    *seed
}

fn layout(bytes: u32) -> Layout {
    Layout::from_size_align(bytes as usize, 8).unwrap_or(Layout::new::<u64>())
}

#[inline(never)]
fn command(random: u32, slots: &mut [(*mut u8, u32); 32]) {
    let Some((block, bytes)) = slots.get_mut((random % 32) as usize) else { return };
    RUNNING.store(0x1000 + (random >> 8) % 3 * 0x1000, Relaxed);
    if block.is_null() {
        *bytes = 1 + (random >> 16) % 200;
        // SAFETY: the layout has bytes.
        *block = unsafe { HEAP.alloc(layout(*bytes)) };
        if block.is_null() {
            fail(3);
        }
    } else {
        // SAFETY: it was given so.
        unsafe { HEAP.dealloc(*block, layout(*bytes)) };
        *block = core::ptr::null_mut();
    }
}

fn say_window(window: &ChipWindow<Address>) {
    let sums = window.sums(HEAP.books().sums());
    say("allocations", sums.allocations);
    say("bytes_allocated", sums.bytes_allocated);
    say("frees", sums.frees);
    say("bytes_freed", sums.bytes_freed);
    say("failed_calls", sums.failed_calls);
    say("lost", sums.lost);
}

fn opened() -> ChipWindow<Address> {
    HEAP.books().window().unwrap_or_else(|| fail(4))
}

#[unsafe(no_mangle)]
extern "C" fn start() -> ! {
    let books = HEAP.books();
    let mut slots = [(core::ptr::null_mut(), 0); 32];
    let mut seed = 2_463_534_242;
    let (mut first, mut second) = (opened(), opened());
    let mut most = 0;
    for step in 0..3000 {
        match step {
            500 => first = opened(),
            800 => MOST.start(books.live_bytes()),
            1000 => second = opened(),
            1200 => second.pause(books.sums()),
            1400 => second.resume(books.sums()),
            1450 | 1700 => {
                // SAFETY: the layout has bytes.
                if !unsafe { HEAP.alloc(layout(1 << 20)) }.is_null() {
                    fail(5);
                }
            }
            1500 => first.pause(books.sums()),
            1600 => most = MOST.stop(),
            1650 => {
                // It is over: this changes nothing.
                first.pause(books.sums());
                second.resume(books.sums());
            }
            _ => {}
        }
        command(number(&mut seed), &mut slots);
    }
    say_window(&first);
    say_window(&second);
    books.task_ends(0x3000);
    for handle in [0x1000, 0x2000, 0x3000] {
        let ChipAccount { allocations, bytes_allocated, frees, live_blocks, live_bytes } =
            books.account(handle).unwrap_or_else(|| fail(6));
        say("allocations", allocations);
        say("bytes_allocated", bytes_allocated);
        say("frees", frees);
        say("live_blocks", live_blocks);
        say("live_bytes", live_bytes);
    }
    // Nobody has this one, and no interrupt has allocated.
    if books.account(0x4000).is_some() || books.account(!0).is_some() {
        fail(7);
    }
    say("most", most);
    for (word, told) in ["began", "ended", "gave_none"].iter().zip(&TOLD) {
        say(word, told.load(Relaxed));
    }
    say("bytes_told", BYTES_TOLD.load(Relaxed));
    say("first", second.first());
    // What began in the second window, its pause too, and lives.
    let (mut after, mut kept) = (second.after(), 0);
    while let Some(block) = books.live_after(after, &mut []) {
        (after, kept) = (Some(block.number), kept + 1);
    }
    say("kept", kept);
    fail(0)
}
