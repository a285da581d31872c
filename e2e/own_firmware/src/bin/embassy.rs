//! Two tasks of `embassy-executor`, over `linked_list_allocator`, in the critical section of the crate of that name.
#![no_std]
#![no_main]

use core::future::poll_fn;
use core::ptr::addr_of_mut;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use core::task::Poll;

use embassy_executor::Spawner;
use heapledger::chip::{Board, ChipAllocator, Config, HeapDescription, with_critical_section};
use linked_list_allocator::LockedHeap;
// Its vectors are linked.
use lm3s6965 as _;
use own_firmware::{HEAP_BYTES, end, turn};

struct Firmware;

/// Which task runs: whoever is asked to go on says it.
static TASK: AtomicU32 = AtomicU32::new(0x1000);
static ENDED: AtomicU32 = AtomicU32::new(0);

// SAFETY: there is one core, and the section lets nothing else run.
unsafe impl Board for Firmware {
    const CONFIG: Config<'static> = Config {
        history: 32,
        tasks: 4,
        depth: 8,
        largest_bytes: 0xFFFE,
        heaps: &[HeapDescription { name: "sram", low: 0x2000_0000, high: 0x2001_0000 }],
        process: b"program=embassy\0build_id=embassy of the tests\0",
        ..Config::minimal(200, 512)
    };

    fn alone<T>(work: impl FnOnce() -> T) -> T {
        with_critical_section(work)
    }
    fn task() -> Option<u32> {
        Some(TASK.load(Relaxed))
    }
    fn is_in_interrupt() -> bool {
        heapledger::chip::cortex_m::is_in_interrupt()
    }
}

heapledger::chip_ledger!(Firmware);

#[global_allocator]
static HEAP: ChipAllocator<LockedHeap, Firmware> = ChipAllocator::new(LockedHeap::empty());

static mut MEMORY: [u64; HEAP_BYTES / 8] = [0; HEAP_BYTES / 8];

/// Lets the other one go on.
async fn others_first(task: u32) {
    let mut has_waited = false;
    poll_fn(|context| {
        if has_waited {
            TASK.store(0x1000 * task, Relaxed);
            return Poll::Ready(());
        }
        has_waited = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[embassy_executor::task(pool_size = 2)]
async fn hoards(task: u32) {
    TASK.store(0x1000 * task, Relaxed);
    for number in 0..90 {
        turn(number, task);
        others_first(task).await;
    }
    if ENDED.fetch_add(1, Relaxed) == 1 {
        end();
    }
}

#[embassy_executor::main]
async fn main(spawner: Spawner) {
    // SAFETY: nobody else looks at it.
    unsafe { HEAP.inner().lock().init(addr_of_mut!(MEMORY).cast(), HEAP_BYTES) };
    HEAP.books().task_begins(0x1000, 1, "first");
    HEAP.books().task_begins(0x2000, 2, "second");
    for task in [1, 2] {
        match hoards(task) {
            Ok(token) => spawner.spawn(token),
            Err(_) => end(),
        }
    }
}
