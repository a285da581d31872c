//! A program whose calls are counted, around an allocator that counts them, too: both must agree. Its argument says what it does.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::RefCell;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::{env, process, ptr, thread};

use heapledger::{Error, Heapledger, Options, Recording, Stats};

#[global_allocator]
static HEAP: Heapledger<Counts> = Heapledger::with(Counts, Options::new().counting());

/// Counts, and passes calls on. While signals come, blocks come from an array, which a handler may use at any moment.
struct Counts;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);
static ALLOCATED_BYTES: AtomicUsize = AtomicUsize::new(0);
static FREES: AtomicUsize = AtomicUsize::new(0);
static FREED_BYTES: AtomicUsize = AtomicUsize::new(0);
/// One word, so that nobody sees one half of what another thread does: a peak would be off by all that is allocated meanwhile.
static LIVE_BYTES: AtomicUsize = AtomicUsize::new(0);
static PEAK_BYTES: AtomicUsize = AtomicUsize::new(0);

static FROM_ARRAY: AtomicBool = AtomicBool::new(false);
static ARRAY_USED: AtomicUsize = AtomicUsize::new(0);
const ARRAY_BYTES: usize = 256 << 20;
static mut ARRAY: [u8; ARRAY_BYTES] = [0; ARRAY_BYTES];

fn is_of_array(block: *mut u8) -> bool {
    let first = &raw mut ARRAY as usize;
    (first..first + ARRAY_BYTES).contains(&(block as usize))
}

impl Counts {
    fn note_allocation(bytes: usize) {
        ALLOCATIONS.fetch_add(1, Ordering::SeqCst);
        ALLOCATED_BYTES.fetch_add(bytes, Ordering::SeqCst);
        let live = LIVE_BYTES.fetch_add(bytes, Ordering::SeqCst) + bytes;
        PEAK_BYTES.fetch_max(live, Ordering::SeqCst);
    }

    fn note_free(bytes: usize) {
        FREES.fetch_add(1, Ordering::SeqCst);
        FREED_BYTES.fetch_add(bytes, Ordering::SeqCst);
        LIVE_BYTES.fetch_sub(bytes, Ordering::SeqCst);
    }

    fn stats() -> (u64, u64, u64, u64) {
        let get = |word: &AtomicUsize| word.load(Ordering::SeqCst) as u64;
        (get(&ALLOCATIONS), get(&ALLOCATED_BYTES), get(&FREES), get(&FREED_BYTES))
    }
}

// SAFETY: as `System`, or parts of an array that are never given twice.
unsafe impl GlobalAlloc for Counts {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Counts::note_allocation(layout.size());
        if FROM_ARRAY.load(Ordering::SeqCst) && layout.align() <= 16 {
            let at = ARRAY_USED.fetch_add(layout.size().next_multiple_of(16), Ordering::SeqCst);
            assert!(at + layout.size() < ARRAY_BYTES - 16);
            let first = (&raw mut ARRAY as usize).next_multiple_of(16);
            return ptr::with_exposed_provenance_mut(first + at);
        }
        // SAFETY: the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        Counts::note_free(layout.size());
        if !is_of_array(block) {
            // SAFETY: the caller's.
            unsafe { System.dealloc(block, layout) }
        }
    }
    // `realloc` and `alloc_zeroed` of the trait call the others.
}

/// Whether `heapledger run` records this program: then its recorder was asked whether it sees the blocks of this allocator, by some
/// blocks that nobody else asked for.
fn is_recorded() -> bool {
    env::var_os("HEAPLEDGER").is_some_and(|value| value.to_string_lossy().contains("session="))
}

/// Both agree, when nothing else is going on. A `realloc` is one allocation and one free in both.
fn agree() {
    const TRIED: u64 = 8;
    const TRIED_BYTES: u64 = TRIED * 48;
    let tried = if is_recorded() { (TRIED, TRIED_BYTES) } else { (0, 0) };
    let stats = heapledger::stats().expect("counted from the first call on");
    let own = (
        stats.allocations + tried.0,
        stats.allocated_bytes + tried.1,
        stats.frees + tried.0,
        stats.freed_bytes + tried.1,
    );
    assert_eq!(own, Counts::stats());
    let recording = if is_recorded() { Recording::On } else { Recording::Off };
    assert_eq!((stats.failures, heapledger::recording()), (0, recording));
    assert!(stats.peak_bytes >= stats.bytes() as u64);
}

/// A known number of calls. Returns the allocations, which are the frees too.
fn works(rounds: usize) -> u64 {
    for round in 0..rounds {
        let mut vector: Vec<u8> = Vec::with_capacity(black_box(round % 500 + 1));
        vector.reserve_exact(black_box(1000));
        drop(black_box(vec![0u8; black_box(round % 99 + 1)]));
        drop(black_box(vector));
    }
    rounds as u64 * 3
}

fn threads() {
    const ROUNDS: usize = 20_000;
    let begun = Arc::new(Barrier::new(8));
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let begun = Arc::clone(&begun);
            thread::spawn(move || {
                begun.wait();
                let before = heapledger::thread_stats().expect("a cell");
                let calls = works(ROUNDS);
                let after = heapledger::thread_stats().expect("a cell");
                assert_eq!(after.allocations - before.allocations, calls);
                assert_eq!((after.frees - before.frees, after.blocks()), (calls, before.blocks()));
                assert_eq!(after.bytes(), before.bytes());
                assert!(after.peak_bytes >= 1000 + after.bytes().max(0) as u64);
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("it agrees"));
    agree();
}

/// One thread after the other, and more at a time than there are cells.
fn many_threads() {
    for _ in 0..3000 {
        thread::spawn(|| {
            let before = heapledger::thread_stats().expect("cells of ended threads are used again");
            assert!(before.allocations < 100, "the figures of a thread before this one: {before:?}");
            works(2);
        })
        .join()
        .expect("it ends");
    }
    agree();
    const AT_ONCE: usize = 1200;
    let (all, without) = (Arc::new(Barrier::new(AT_ONCE)), Arc::new(AtomicUsize::new(0)));
    let threads: Vec<_> = (0..AT_ONCE)
        .map(|_| {
            let (all, without) = (Arc::clone(&all), Arc::clone(&without));
            let builder = thread::Builder::new().stack_size(64 << 10);
            let run = move || {
                works(1);
                all.wait();
                match heapledger::thread_stats() {
                    Ok(_) => assert_eq!(heapledger::thread_region().expect("a cell").stats(), Stats::default()),
                    Err(error) => {
                        assert_eq!((error, heapledger::thread_region().err()), (Error::TooMany, Some(Error::TooMany)));
                        without.fetch_add(1, Ordering::SeqCst);
                    }
                }
                works(10);
            };
            builder.spawn(run).expect("a thread")
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("it agrees"));
    let without = without.load(Ordering::SeqCst);
    assert!((AT_ONCE - 1024..AT_ONCE).contains(&without), "{without} threads without a cell");
    agree();
}

/// Allocates and frees after all others of its thread.
struct Late(Vec<u8>);

impl Drop for Late {
    fn drop(&mut self) {
        works(10);
        self.0 = vec![1; 100];
    }
}

thread_local! {
    static LATE: RefCell<Late> = const { RefCell::new(Late(Vec::new())) };
}

fn thread_ends() {
    for _ in 0..50 {
        thread::spawn(|| LATE.with_borrow_mut(|late| late.0.push(1))).join().expect("it ends");
    }
    agree();
}

/// Regions of the program and of threads, nested, and ended in any order.
fn regions() {
    let whole = heapledger::region().expect("room");
    let base = whole.stats();
    assert_eq!(base, Stats::default());
    let held = vec![0u8; 5000];
    let thread = thread::spawn(|| {
        let region = heapledger::thread_region().expect("room");
        let kept = vec![0u8; 300];
        let inner = heapledger::thread_region().expect("room");
        drop(vec![0u8; 7000]);
        assert_eq!((inner.stats().peak_bytes, inner.stats().blocks()), (7000, 0));
        drop(region);
        drop(kept);
        assert_eq!((inner.stats().bytes(), inner.stats().peak_bytes), (-300, 7000));
        let failed = heapledger::thread_stats().expect("a cell").failures;
        assert_eq!(failed, 0);
    });
    thread.join().expect("it agrees");
    let stats = whole.stats();
    assert!(stats.peak_bytes >= 12_300, "{stats:?}");
    assert!(stats.bytes() >= 5000);
    drop(held);
    let most: Vec<_> = (0..31).map(|_| heapledger::region().expect("room")).collect();
    assert_eq!(heapledger::region().err(), Some(Error::TooMany));
    let passing = vec![0u8; 100_000];
    drop(passing);
    assert!(most.iter().all(|region| region.stats().peak_bytes >= 100_000));
    drop(most);
    assert!(whole.stats().peak_bytes >= 100_000);
    // What is above the highest until now is a peak of all.
    let before = heapledger::stats().expect("counted").peak_bytes;
    drop(whole);
    drop(black_box(vec![1u8; 3_000_000]));
    let after = heapledger::stats().expect("counted").peak_bytes;
    assert!(after >= before.max(3_000_000), "{before} {after}");
    agree();
}

/// Many threads open regions of the program while others allocate: no peak is passed over.
fn peaks() {
    let stop = Arc::new(AtomicBool::new(false));
    let others: Vec<_> = (0..3)
        .map(|_| {
            let stop = Arc::clone(&stop);
            thread::spawn(move || {
                while !stop.load(Ordering::SeqCst) {
                    works(100);
                }
            })
        })
        .collect();
    for bytes in 0..2000 {
        let region = heapledger::region().expect("room");
        let bytes = 100_000 + bytes * 10;
        drop(black_box(vec![1u8; bytes]));
        // Others hold at most some kilobytes, which may have been freed meanwhile.
        let peak = region.stats().peak_bytes;
        assert!(peak + 10_000 > bytes as u64, "{peak} of {bytes}");
    }
    stop.store(true, Ordering::SeqCst);
    others.into_iter().for_each(|thread| thread.join().expect("it ends"));
    let peak = heapledger::stats().expect("counted").peak_bytes;
    let theirs = PEAK_BYTES.load(Ordering::SeqCst) as u64;
    assert!(peak.abs_diff(theirs) < 10_000, "{peak}, and {theirs}");
    agree();
}

unsafe extern "C" {
    fn fork() -> i32;
    fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
    fn signal(number: i32, handler: extern "C" fn(i32)) -> usize;
    fn ualarm(first: u32, then: u32) -> u32;
}

/// A forked child counts on, for itself.
fn forks() {
    let kept = vec![0u8; 1000];
    let other = thread::spawn(|| works(1000));
    // SAFETY: the child allocates, which glibc allows.
    let pid = unsafe { fork() };
    if pid == 0 {
        let region = heapledger::thread_region().expect("room");
        works(10);
        assert_eq!(region.stats().allocations, 30);
        drop(region);
        drop(kept);
        // Its threads take no cell from the one that forked.
        for _ in 0..1100 {
            thread::spawn(|| works(1)).join().expect("it ends");
        }
        works(1);
        process::exit(0);
    }
    let mut status = 0;
    // SAFETY: our child.
    assert!(unsafe { waitpid(pid, &mut status, 0) } == pid && status == 0, "the child ended with {status}");
    other.join().expect("it ends");
    drop(kept);
    agree();
}

static SIGNALS: AtomicUsize = AtomicUsize::new(0);

extern "C" fn handler(_: i32) {
    works(3);
    SIGNALS.fetch_add(1, Ordering::SeqCst);
}

/// A handler that allocates comes in at any place of our code.
fn signals() {
    FROM_ARRAY.store(true, Ordering::SeqCst);
    // SAFETY: what it does may be done at any moment, with this allocator.
    unsafe { signal(14, handler) };
    // SAFETY: as above.
    unsafe { ualarm(200, 200) };
    let mut rounds = 0;
    while SIGNALS.load(Ordering::SeqCst) < 200 && rounds < 400 {
        works(100);
        rounds += 1;
    }
    // SAFETY: as above.
    unsafe { ualarm(0, 0) };
    assert!(SIGNALS.load(Ordering::SeqCst) > 0);
    FROM_ARRAY.store(false, Ordering::SeqCst);
    agree();
}

/// What the C library says grows and falls with what is allocated, in small blocks and in one that has a mapping of its own.
fn heap() {
    let info = || heapledger::heap_info().expect("the C library's");
    let before = info();
    let small: Vec<Vec<u8>> = (0..1000).map(|_| black_box(Vec::with_capacity(1000))).collect();
    let large: Vec<u8> = black_box(Vec::with_capacity(64 << 20));
    let full = info();
    assert_eq!(full.system_bytes, full.in_use_bytes + full.free_bytes);
    assert_eq!(full.mapped_blocks, before.mapped_blocks + 1);
    assert!(full.mapped_bytes >= before.mapped_bytes + (64 << 20));
    let expected = 1_000_000 + (64 << 20);
    let grown = full.in_use_bytes - before.in_use_bytes;
    assert!((expected..expected + 100_000).contains(&grown), "{grown} of {expected}");
    drop((small, large));
    let after = info();
    assert!(
        after.in_use_bytes < before.in_use_bytes + 100_000 && after.mapped_blocks == before.mapped_blocks,
        "{after:?}"
    );
}

fn main() {
    match env::args().nth(1).unwrap_or_default().as_str() {
        "threads" => threads(),
        "many_threads" => many_threads(),
        "thread_ends" => thread_ends(),
        "regions" => regions(),
        "peaks" => peaks(),
        "forks" => forks(),
        "signals" => signals(),
        "heap" => heap(),
        "other_heap" => assert_eq!(heapledger::heap_info(), Err(Error::Library)),
        other => panic!("{other:?}"),
    }
}
