//! A program that traces itself in buffers of its own. Its arguments say what it does, and whether its calls are recorded meanwhile.

#[path = "../blocks.rs"]
mod blocks;

use std::alloc::{System, alloc_zeroed, realloc};
use std::collections::BTreeMap;
use std::env;
use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use heapledger::stack::Capture;
use heapledger::{Error, Fault, Heapledger, Options, Trace, TraceOptions};

use blocks::{gives_back, layout, takes};

#[global_allocator]
static HEAP: Heapledger<System> = Heapledger::with(System, Options::new());

fn resizes(block: *mut u8, size: usize, to: usize) -> *mut u8 {
    // SAFETY: it was asked for so.
    black_box(unsafe { realloc(block, layout(size), to) })
}

fn buffer(options: TraceOptions, records: usize) -> &'static mut [usize] {
    Box::leak(vec![0; options.words(records)].into_boxed_slice())
}

fn starts(options: TraceOptions, records: usize) -> Trace {
    Trace::start(buffer(options, records), options).expect("a trace")
}

const OWN: TraceOptions = TraceOptions::new().of_this_thread();

/// Addresses and sizes of all records, and whether they are freed.
fn shown(trace: &Trace) -> Vec<(usize, usize, bool)> {
    // What this allocates is no record.
    let was_running = trace.pause().is_ok();
    let shown = trace.records().map(|record| (record.address, record.size, record.freed.is_some())).collect();
    if was_running {
        trace.resume().expect("it was paused");
    }
    shown
}

fn at(block: *mut u8, size: usize, is_freed: bool) -> (usize, usize, bool) {
    (block as usize, size, is_freed)
}

fn keeps_what_lives() {
    let trace = starts(OWN, 8);
    let (one, two) = (takes(64), takes(96));
    assert_eq!(shown(&trace), [at(one, 64, false), at(two, 96, false)]);
    assert_eq!(trace.get(1).map(|record| (record.address, record.number)), Some((two as usize, 2)));
    assert!(trace.get(2).is_none());
    gives_back(one, 64);
    assert_eq!(shown(&trace), [at(two, 96, false)]);
    trace.pause().expect("it runs");
    assert_eq!(trace.pause(), Err(Error::NotSo));
    let passed = takes(40);
    let two = resizes(two, 96, 5000);
    assert_eq!(shown(&trace), [at(two, 5000, false)], "it follows");
    trace.resume().expect("it is paused");
    assert_eq!(trace.resume(), Err(Error::NotSo));
    let unknown = trace.figures().expect("it is there").unknown_frees;
    gives_back(passed, 40);
    gives_back(two, 5000);
    let figures = trace.figures().expect("it is there");
    assert_eq!((figures.records, figures.allocations, figures.frees, figures.unknown_frees), (0, 2, 2, unknown + 1));
    assert_eq!((figures.most_records, figures.live_bytes, figures.peak_bytes), (2, 0, 5000));

    // One more than there is room for, and then another one.
    trace.restart().expect("it is there");
    let blocks: Vec<*mut u8> = {
        trace.pause().expect("it runs");
        let mut blocks = Vec::with_capacity(9);
        trace.resume().expect("it is paused");
        blocks.extend((0..9).map(|_| takes(24)));
        blocks
    };
    let last = takes(25);
    let figures = trace.figures().expect("it is there");
    assert_eq!((figures.lost_live, figures.lost_live_bytes, figures.most_records), (2, 48, 8));
    blocks.iter().for_each(|block| gives_back(*block, 24));
    assert_eq!(shown(&trace), [at(last, 25, false)]);
    trace.freeze().expect("it runs");
    assert_eq!(trace.freeze(), Err(Error::NotSo));
    gives_back(last, 25);
    assert_eq!(shown(&trace), [at(last, 25, false)]);
    let words = trace.stop().expect("nobody holds it");
    assert_eq!(words.len(), OWN.words(8));
    // The same words serve again.
    let again = Trace::start(words, OWN.keeps_freed().depth(2)).expect("room");
    assert_eq!(again.figures().expect("it is there").allocations, 0);
}

fn keeps_what_was_freed() {
    let trace = starts(OWN.keeps_freed().depth(32), 16);
    let block = takes(10);
    gives_back(block, 10);
    // SAFETY: its size is not 0.
    let block = black_box(unsafe { alloc_zeroed(layout(16)) });
    let failing = heapledger::fail(Fault::nth(1)).expect("room");
    assert!(resizes(block, 16, 100).is_null());
    drop(failing);
    assert!(shown(&trace).contains(&at(block, 16, false)), "it is as it was");
    let moved = resizes(block, 16, 100_000);
    gives_back(moved, 100_000);
    trace.freeze().expect("it runs");
    let records = shown(&trace);
    assert_eq!(
        records.iter().map(|record| (record.1, record.2)).collect::<Vec<_>>(),
        [(10, true), (16, true), (100_000, true)]
    );
    let figures = trace.figures().expect("it is there");
    assert_eq!((figures.allocations, figures.frees, figures.live_blocks), (3, 3, 0));
    for record in trace.records() {
        let freed = record.freed.expect("it is freed");
        assert!(record.stack().len() > 2 && freed.stack().len() > 2, "{record:?}");
        assert!(record.thread == freed.thread && record.time <= freed.time);
    }
    assert!(trace.records().zip(trace.records().skip(1)).all(|(one, other)| one.time <= other.time));
}

#[inline(never)]
fn allocates(frames: &mut [usize]) -> (*mut u8, usize) {
    let block = takes(77);
    (block, Capture::new().here(frames).frames)
}

fn stack_of(trace: &Trace, block: *mut u8) -> Vec<usize> {
    let record = trace.records().find(|record| record.address == block as usize && record.freed.is_none());
    record.expect("it is a record").stack().to_vec()
}

fn keeps_stacks() {
    let mut frames = [0; 64];
    let all = starts(OWN.depth(32), 100);
    let none = starts(OWN.depth(0), 100);
    let inner = starts(OWN.depth(1), 100);
    let (block, count) = allocates(&mut frames);
    let stack = stack_of(&all, block);
    // What leads to the function is the same, of which the first frame is its own.
    let outer = frames[1..count].to_vec();
    assert!(outer.len() > 2 && stack.ends_with(&outer), "{stack:x?} does not end in {outer:x?}");
    assert!(stack_of(&none, block).is_empty());
    assert_eq!(stack_of(&inner, block), stack[..1]);
    let left_out = stack.len() - outer.len();
    let less = starts(OWN.depth(32).without_innermost(left_out), 100);
    let (other, _) = allocates(&mut frames);
    let stack_of_less = stack_of(&less, other);
    assert_eq!((stack_of_less.len(), stack_of_less.last()), (outer.len(), stack.last()));
    gives_back(block, 77);
    gives_back(other, 77);
}

fn refuses() {
    let too_small = Trace::start(buffer(OWN, 0), OWN).expect_err("there is no room");
    assert_eq!((too_small.error, too_small.buffer.len()), (Error::TooSmall, 0));
    let too_deep = Trace::start(buffer(OWN, 10), OWN.depth(33)).expect_err("so many frames");
    assert_eq!(Error::from(too_deep), Error::TooSmall);
    let traces: Vec<Trace> = (0..8).map(|_| starts(OWN, 100)).collect();
    let one_more = Trace::start(buffer(OWN, 1), OWN).expect_err("there are eight");
    assert_eq!((one_more.error, one_more.buffer.len()), (Error::TooMany, OWN.words(1)));
    let block = takes(999);
    assert!(traces.iter().all(|trace| trace.records().any(|record| record.address == block as usize)));
    gives_back(block, 999);
    drop(traces);
    drop(starts(OWN, 1));
}

/// Sizes of blocks that threads take below: nobody else has such.
const OWN_SIZES: std::ops::Range<usize> = 7000..8000;
const KEPT: usize = 500;

/// Takes, gives back, resizes, and hands over to the next thread. Returns what lives at the end.
fn hammers(seed: usize, operations: usize) -> BTreeMap<usize, usize> {
    let mut blocks: Vec<(*mut u8, usize)> = Vec::with_capacity(KEPT);
    let mut random = seed * 2 + 1;
    for _ in 0..operations {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let size = OWN_SIZES.start + (random >> 40) % OWN_SIZES.len();
        let index = (random >> 20) % KEPT;
        match blocks.get_mut(index) {
            None => blocks.push((takes(size), size)),
            Some((block, old)) if random >> 60 == 0 => (*block, *old) = (resizes(*block, *old, size), size),
            Some(_) => {
                let (block, old) = blocks.swap_remove(index);
                gives_back(block, old);
            }
        }
    }
    blocks.into_iter().map(|(block, size)| (block as usize, size)).collect()
}

/// The records of such blocks are what lives.
fn check_exact(trace: &Trace, live: &BTreeMap<usize, usize>) {
    let figures = trace.figures().expect("it is there");
    assert_eq!((figures.lost_live, figures.lost_freed, figures.missed_calls), (0, 0, 0));
    assert_eq!(figures.allocations, figures.frees + figures.live_blocks);
    assert_eq!(figures.allocated_bytes, figures.freed_bytes + figures.live_bytes);
    let records = trace.records().filter(|record| record.freed.is_none() && OWN_SIZES.contains(&record.size));
    let records: BTreeMap<usize, usize> = records.map(|record| (record.address, record.size)).collect();
    assert!(records == *live, "{} records, {} blocks", records.len(), live.len());
}

const THREADS: usize = 3;

fn is_exact(operations: usize) {
    let options = TraceOptions::new().depth(0);
    let trace = starts(options, 10 * KEPT);
    let some_stacks = starts(OWN, 100);
    let barrier = Barrier::new(THREADS);
    let live: BTreeMap<usize, usize> = thread::scope(|scope| {
        let barrier = &barrier;
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn(move || {
                    barrier.wait();
                    hammers(thread, operations / THREADS)
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("it ends")).collect()
    });
    assert!(trace.figures().expect("it is there").allocations as usize > operations / 4);
    drop(some_stacks);
    trace.freeze().expect("it runs");
    check_exact(&trace, &live);
    live.into_iter().for_each(|(block, size)| gives_back(block as *mut u8, size));
}

unsafe extern "C" {
    fn fork() -> i32;
    fn waitpid(child: i32, status: *mut i32, flags: i32) -> i32;
    fn _exit(status: i32) -> !;
    fn signal(number: i32, handler: usize) -> usize;
    fn kill(process: i32, number: i32) -> i32;
}

static STOP: AtomicBool = AtomicBool::new(false);

fn goes_on_in_children() {
    let trace = starts(TraceOptions::new().keeps_freed().depth(2), 4000);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..2)
            .map(|thread| {
                scope.spawn(move || {
                    let mut live = BTreeMap::new();
                    while !STOP.load(Ordering::Relaxed) {
                        live.into_iter().for_each(|(block, size)| gives_back(block as *mut u8, size));
                        live = hammers(thread, 500);
                    }
                    live.into_iter().for_each(|(block, size)| gives_back(block as *mut u8, size));
                })
            })
            .collect();
        for _ in 0..50 {
            // SAFETY: the child does nothing but allocate, which glibc keeps in order across a fork, and ends.
            match unsafe { fork() } {
                0 => {
                    let before = trace.figures();
                    let block = takes(123);
                    let is_there =
                        trace.records().any(|record| record.address == block as usize && record.freed.is_none());
                    gives_back(block, 123);
                    let is_gone =
                        !trace.records().any(|record| record.address == block as usize && record.freed.is_none());
                    let well = before.is_ok_and(|before| {
                        trace.figures().is_ok_and(|figures| {
                            figures.allocations == figures.frees + figures.live_blocks + figures.lost_live
                                && figures.frees == before.frees + 1
                        })
                    });
                    // SAFETY: it ends.
                    unsafe { _exit(if is_there && is_gone && well { 0 } else { 9 }) }
                }
                child => {
                    let mut status = -1;
                    // SAFETY: the status is there.
                    assert_eq!(unsafe { waitpid(child, &mut status, 0) }, child);
                    assert_eq!(status, 0);
                }
            }
        }
        STOP.store(true, Ordering::Relaxed);
        threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
    });
    let figures = trace.figures().expect("it is there");
    assert_eq!(figures.missed_calls, 0);
    assert_eq!(figures.allocations, figures.frees + figures.live_blocks + figures.lost_live);
}

static TRACE: std::sync::OnceLock<Trace> = std::sync::OnceLock::new();
static HANDLED: AtomicU64 = AtomicU64::new(0);

extern "C" fn asks(_: i32) {
    let figures = TRACE.get().map(Trace::figures);
    if figures.is_some_and(|figures| figures.is_ok_and(|figures| figures.missed_calls == 0)) {
        HANDLED.fetch_add(1, Ordering::Relaxed);
    }
}

/// Signal handlers ask for figures while their thread notes a call.
fn is_asked_by_handlers() {
    const USR1: i32 = 10;
    TRACE.set(starts(TraceOptions::new().depth(0), 10 * KEPT)).expect("it is the first");
    let trace = TRACE.get().expect("it is set");
    // SAFETY: the handler takes no lock that a handler may not take.
    unsafe { signal(USR1, asks as extern "C" fn(i32) as usize) };
    let live = thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let mut sent = 0;
            while !STOP.load(Ordering::Relaxed) || sent < 100 {
                // SAFETY: the handler is set.
                assert_eq!(unsafe { kill(std::process::id() as i32, USR1) }, 0);
                sent += 1;
                thread::yield_now();
            }
        });
        let live = hammers(1, 20_000);
        STOP.store(true, Ordering::Relaxed);
        sender.join().expect("it ends");
        live
    });
    assert!(HANDLED.load(Ordering::Relaxed) > 0);
    trace.freeze().expect("it runs");
    check_exact(trace, &live);
}

fn main() {
    let arguments: Vec<String> = env::args().collect();
    match arguments.get(2).map(String::as_str) {
        Some("off") => heapledger::stop(),
        Some("paused") => assert!(heapledger::pause(), "it was recorded"),
        _ => {}
    }
    match arguments.get(1).map(String::as_str) {
        Some("cases") => {
            keeps_what_lives();
            keeps_what_was_freed();
            keeps_stacks();
            refuses();
        }
        Some("exact") => is_exact(60_000),
        Some("million") => is_exact(1_000_000),
        Some("children") => goes_on_in_children(),
        Some("handlers") => is_asked_by_handlers(),
        other => panic!("{other:?}"),
    }
}
