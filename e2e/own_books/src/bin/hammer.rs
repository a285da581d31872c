//! A program whose threads call each function of the allocator all the time, while recording, regions and faults are switched on and
//! off. Prints how many calls failed, and how many of them surely while all was recorded.

use std::alloc::{Layout, System, alloc, alloc_zeroed, dealloc, realloc};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use heapledger::{Fault, Heapledger, Options};

#[global_allocator]
static HEAP: Heapledger<System> = Heapledger::with(System, Options::new().history(10_000));

static STOP: AtomicBool = AtomicBool::new(false);
static FAILED: AtomicUsize = AtomicUsize::new(0);

fn failed(block: *mut u8) -> bool {
    if block.is_null() {
        FAILED.fetch_add(1, Ordering::SeqCst);
    }
    block.is_null()
}

/// One call of each. What failed did nothing.
fn calls_each(round: usize) {
    let layout = |bytes| Layout::from_size_align(bytes, 8).expect("a layout");
    let (first, then) = (layout(round % 300 + 1), layout(round % 700 + 1));
    // SAFETY: layouts are those with which the blocks were allocated.
    unsafe {
        let block = black_box(if round.is_multiple_of(2) { alloc(first) } else { alloc_zeroed(first) });
        if failed(block) {
            return;
        }
        assert!(round.is_multiple_of(2) || *block == 0);
        *block = 7;
        let new = black_box(realloc(block, first, then.size()));
        let (block, layout) = if failed(new) { (block, first) } else { (new, then) };
        assert_eq!(*block, 7, "a block that was not resized stays as it is");
        dealloc(block, layout);
    }
}

/// This thread's calls, of which each second or third fails.
fn fails_here(rounds: usize) {
    for round in 0..rounds {
        let failing = heapledger::fail(Fault::every(2 + round % 2)).expect("room");
        let region = heapledger::thread_region().expect("room");
        let before = FAILED.load(Ordering::SeqCst);
        (0..10).for_each(calls_each);
        let stats = region.stats();
        assert_eq!((stats.failures, stats.blocks(), stats.bytes()), (failing.failed(), 0, 0));
        assert_eq!(stats.allocations + stats.failures, failing.calls());
        assert!(failing.failed() > 0 && FAILED.load(Ordering::SeqCst) > before);
    }
}

fn main() {
    // Nobody else is there yet, so it is known what is recorded.
    let failing = heapledger::fail(Fault::every(3)).expect("room");
    (0..1000).for_each(calls_each);
    let surely = failing.failed();
    drop(failing);
    assert_eq!(FAILED.load(Ordering::SeqCst) as u64, surely);
    let whole = heapledger::region().expect("room");
    let threads: Vec<_> = (0..2)
        .map(|_| {
            thread::spawn(|| {
                let mut round = 0;
                while !STOP.load(Ordering::SeqCst) {
                    calls_each(round);
                    round += 1;
                }
            })
        })
        .collect();
    for round in 0..300 {
        assert!(heapledger::pause());
        fails_here(1);
        assert!(heapledger::resume());
        fails_here(2);
        let region = heapledger::region().expect("room");
        thread::yield_now();
        drop(region);
        if round % 10 == 0 {
            // For a moment only: threads that begin and end must be able to allocate.
            let failing = heapledger::fail_all(Fault::every(2)).expect("room");
            while failing.failed() == 0 {
                thread::yield_now();
            }
            drop(failing);
        }
    }
    STOP.store(true, Ordering::SeqCst);
    threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
    let stats = whole.stats();
    drop(whole);
    assert_eq!(stats.failures + surely, FAILED.load(Ordering::SeqCst) as u64);
    println!("{} {surely}", FAILED.load(Ordering::SeqCst));
}
