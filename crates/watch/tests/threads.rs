//! Threads that come and go with what they want of calls, while others make these: each call is told of to whoever wants it, with its
//! own data, and to nobody who has gone.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;

use heapledger_format::Kind;
use heapledger_process::traces::NewTrace;
use heapledger_recorder::trace::{TraceMode, TraceShape, TraceState};
use heapledger_unwind::Registers;
use heapledger_watch::faults::{Of, Rule};
use heapledger_watch::hooks::{NewHook, Told, When};
use heapledger_watch::watched::{self, Block};
use heapledger_watch::{counting, faults, hooks, regions, state, traces};

const ROUNDS: usize = if cfg!(debug_assertions) { 60_000 } else { 200_000 };

/// Hooks are registered with a number and its complement: who is called with others has got another one's data.
static WRONG: AtomicUsize = AtomicUsize::new(0);
static CALLED: AtomicU64 = AtomicU64::new(0);

fn call(told: &Told, data: [usize; 2]) -> bool {
    CALLED.fetch_add(1, Ordering::Relaxed);
    if data[0] != !data[1] || told.block.address == 0 {
        WRONG.fetch_add(1, Ordering::Relaxed);
    }
    true
}

fn block(kind: Kind, address: usize, size: usize) -> Block {
    Block { kind, address, size, counted: size, align: 16, heap: 0 }
}

/// Gives and takes back blocks that nobody else has.
fn calls(thread: usize) {
    let registers = Registers::default();
    // On a loaded machine those who want to be told may not get to run for a while.
    const ROUNDS_MAX: usize = 1_000_000_000;
    for round in (0..ROUNDS_MAX).take_while(|round| *round < ROUNDS || CALLED.load(Ordering::Relaxed) == 0) {
        let (address, size) = ((thread + 1) << 32 | (round % 1000) << 4, 16 + round % 100);
        if watched::is_made(&|_| false) {
            traces::gave(&registers, address, size);
            watched::gave(block(Kind::MALLOC, address, size), call);
            let may_go = watched::frees(block(Kind::FREE, address, size), call);
            assert!(may_go, "nobody is inside of a hook that frees");
            traces::frees(&registers, address);
        }
    }
}

fn hooks_come_and_go(is_over: &AtomicBool, first: usize) {
    let mut number = first;
    while !is_over.load(Ordering::Relaxed) {
        let when = if number.is_multiple_of(2) { When::Gave } else { When::TakesBack };
        let new = NewHook { when, limit: 0, again_at: 0, data: [number, !number] };
        if let Some(hook) = hooks::register(&new) {
            thread::yield_now();
            while hooks::silence(hook).is_some_and(|running| running > 0) {
                thread::yield_now();
            }
            assert!(hooks::unregister(hook), "it was there");
        }
        number += 2;
    }
}

fn others_come_and_go(is_over: &AtomicBool) {
    let mut words = vec![0usize; 4096].leak();
    while !is_over.load(Ordering::Relaxed) {
        let fault = faults::begin(Rule::every(7), Of::OwnThread).expect("a place");
        let region = regions::begin().expect("a place");
        let shape = TraceShape { mode: TraceMode::Leaks, frames: 0 };
        let trace = match traces::start(words, &NewTrace { shape, without_innermost: 0, of_own_thread: false }) {
            Ok(trace) => trace,
            Err((why, _)) => panic!("{why:?}"),
        };
        let _ = traces::with(trace, |trace| trace.set_state(TraceState::Paused));
        thread::yield_now();
        let figures = traces::with(trace, |trace| trace.figures()).expect("it is there");
        assert_eq!(figures.allocations, figures.frees + figures.lost_live + figures.live_blocks);
        words = traces::end(trace).expect("it is there");
        assert!(regions::stats(region).is_some() && regions::may_end(region));
        regions::end(region);
        assert!(faults::end(fault) && !faults::end(fault));
    }
}

#[test]
fn each_is_told_with_its_own_data_while_others_come_and_go() {
    let is_over = AtomicBool::new(false);
    let before = counting::sums();
    thread::scope(|threads| {
        let callers: Vec<_> = (0..2).map(|thread| threads.spawn(move || calls(thread))).collect();
        threads.spawn(|| hooks_come_and_go(&is_over, 2));
        threads.spawn(|| hooks_come_and_go(&is_over, 3));
        threads.spawn(|| others_come_and_go(&is_over));
        let ended: Vec<_> = callers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        is_over.store(true, Ordering::Relaxed);
        assert!(ended.iter().all(Result::is_ok));
    });
    assert_eq!(WRONG.load(Ordering::Relaxed), 0);
    assert!(CALLED.load(Ordering::Relaxed) > 0, "nobody was told");
    assert!(counting::sums() != before, "nothing was counted");
    assert_eq!(state::flags() & state::WATCHED, 0, "nobody wants anything any more");
}
