//! A program that tells what it does: marks, scopes, labels, windows. Its first argument says which.

use std::alloc::System;
use std::hint::black_box;
use std::io::{Read, Write};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::{env, process, thread};

use heapledger::{Error, Heapledger, LabelFuture, Recording, Window, WindowOptions};

#[global_allocator]
static HEAP: Heapledger<System> = Heapledger::system();

unsafe extern "C" {
    fn fork() -> i32;
    fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
}

/// Sizes that nobody else asks for.
const BEFORE_BYTES: usize = 12_345;
const AFTER_BYTES: usize = 54_321;
const LATER_BYTES: usize = 23_456;
const OUTSIDE_BYTES: usize = 34_567;

fn block(bytes: usize) -> Vec<u8> {
    black_box(Vec::with_capacity(black_box(bytes)))
}

/// Stands still until somebody lets us go on, or kills us.
fn hold() {
    // Its memory is allocated now: nothing moves once somebody has been told.
    let mut input = std::io::stdin();
    let mut out = std::io::stdout();
    out.write_all(b".").and_then(|()| out.flush()).expect("somebody listens");
    let _ = input.read(&mut [0]);
}

/// Begins what it is given in a forked child, which must come to its end.
fn in_child(child: impl FnOnce()) {
    // SAFETY: the child runs on with what this thread has.
    let pid = unsafe { fork() };
    if pid == 0 {
        child();
        process::exit(0);
    }
    let mut status = 0;
    // SAFETY: our child.
    assert!(unsafe { waitpid(pid, &mut status, 0) } == pid && status == 0, "the child ended with {status}");
}

struct TellsAtItsEnd;

impl Drop for TellsAtItsEnd {
    fn drop(&mut self) {
        assert!(heapledger::mark("a thread's end"));
        drop(heapledger::scope("a thread's end"));
    }
}

thread_local! {
    static AT_END: TellsAtItsEnd = const { TellsAtItsEnd };
}

fn marks() {
    let before = block(BEFORE_BYTES);
    assert!(heapledger::mark("ready"));
    let after = block(AFTER_BYTES);
    let loading = heapledger::scope("load");
    assert!(loading.is_recorded());
    assert!(heapledger::mark_thread("of this thread"));
    drop(loading);
    in_child(|| {
        assert!(!heapledger::mark("child") && !heapledger::mark_thread("child"));
        assert!(!heapledger::scope("child").is_recorded());
    });
    // A thread that has never allocated, or does no more.
    thread::spawn(|| AT_END.with(|_| ())).join().expect("it ends");
    assert!(heapledger::mark("later"));
    let later = block(LATER_BYTES);
    hold();
    drop((before, after, later));
}

/// A future that waits once, so that it can go on in another thread.
struct Waits {
    has_waited: bool,
    bytes: usize,
}

impl Future for Waits {
    type Output = Vec<u8>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Vec<u8>> {
        if self.has_waited {
            return Poll::Ready(block(self.bytes));
        }
        self.has_waited = true;
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

fn labels() {
    let without = block(BEFORE_BYTES);
    let route = heapledger::label("route", "/x");
    assert!(route.is_in_force());
    let user = heapledger::label("user", "7");
    let with_both = block(AFTER_BYTES);
    drop(user);
    let mut future = Waits { has_waited: false, bytes: LATER_BYTES }.labelled("task", "reads");
    drop(route);
    assert!(poll(&mut future).is_pending());
    // It goes on in another thread, and what that one does besides has no label.
    let (in_future, outside) = thread::spawn(move || match poll(&mut future) {
        Poll::Ready(in_future) => (in_future, block(OUTSIDE_BYTES)),
        Poll::Pending => panic!("it has waited"),
    })
    .join()
    .expect("it ends");
    assert!(!heapledger::label("", "no key").is_in_force());
    in_child(|| assert!(!heapledger::label("route", "/child").is_in_force()));
    hold();
    drop((without, with_both, in_future, outside));
}

fn windows() {
    let before = block(BEFORE_BYTES);
    let window = Window::start("load").expect("there is room");
    let own = Window::start_with("own", WindowOptions::new().of_this_thread()).expect("there is room");
    let in_window = block(AFTER_BYTES);
    let elsewhere = thread::spawn(|| block(OUTSIDE_BYTES)).join().expect("it ends");
    window.pause().expect("it is open");
    assert_eq!(window.pause(), Err(Error::NotSo));
    let paused = block(LATER_BYTES);
    window.resume().expect("it is paused");
    let figures = window.figures().expect("there is one");
    assert!(figures.live_bytes >= (AFTER_BYTES + OUTSIDE_BYTES) as u64 && figures.live_blocks >= 2, "{figures:?}");
    in_child(|| {
        assert_eq!(window.figures(), Err(Error::Off));
        assert!(Window::start("child").is_err());
    });
    let own = own.stop().expect("it is open");
    assert!(own.live_bytes < (AFTER_BYTES + LATER_BYTES + OUTSIDE_BYTES) as u64, "{own:?}");
    assert!(own.live_bytes >= (AFTER_BYTES + LATER_BYTES) as u64, "{own:?}");
    hold();
    drop((before, in_window, elsewhere, paused, window));
}

/// Two threads for each call, while recording toggles.
fn hammers() {
    const ROUNDS: usize = 3_000;
    let (is_over, is_set) = (AtomicBool::new(false), AtomicUsize::new(0));
    let calls: [fn(usize) -> bool; 5] = [
        |round| {
            round % 100 == 0
                && Window::start("window").is_ok_and(|window| window.pause().is_ok() && window.figures().is_ok())
        },
        |round| heapledger::label("round", ["one", "two", "three"][round % 3]).is_in_force(),
        |round| heapledger::mark(["one", "two", "three"][round % 3]),
        |round| heapledger::mark_thread(["one", "two", "three"][round % 3]),
        |round| heapledger::scope(["one", "two", "three"][round % 3]).is_recorded(),
    ];
    thread::scope(|scope| {
        let hammer = |call: fn(usize) -> bool| {
            let is_set = &is_set;
            move || {
                for round in 0..ROUNDS {
                    let kept = block(round);
                    is_set.fetch_add(usize::from(call(round)), Ordering::Relaxed);
                    drop(kept);
                }
            }
        };
        let hammers: Vec<_> =
            calls.iter().flat_map(|call| [*call, *call]).map(|call| scope.spawn(hammer(call))).collect();
        let toggles = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                heapledger::pause();
                thread::yield_now();
                heapledger::resume();
            }
        });
        for hammer in hammers {
            hammer.join().expect("it ends");
        }
        is_over.store(true, Ordering::Relaxed);
        toggles.join().expect("it ends");
    });
    assert!(is_set.load(Ordering::Relaxed) > 1000);
    hold();
}

/// Says to a counter of instructions where it is.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn segment() {
    black_box(());
}

/// Blocks that begin and end, in segments of so many.
fn pairs(is_labelled: bool) {
    let label = is_labelled.then(|| heapledger::label("route", "/x"));
    assert!(label.as_ref().is_none_or(heapledger::LabelGuard::is_in_force));
    for _ in 0..20 {
        segment();
        for _ in 0..1_000 {
            drop(block(100));
        }
    }
    segment();
}

fn main() {
    let what = env::args().nth(1).unwrap_or_default();
    assert_eq!(heapledger::recording(), Recording::On);
    match what.as_str() {
        "marks" => marks(),
        "windows" => windows(),
        "pairs" => pairs(false),
        "labelled-pairs" => pairs(true),
        "labels" => labels(),
        "hammers" => hammers(),
        other => panic!("{other:?}"),
    }
}
