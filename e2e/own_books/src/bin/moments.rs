//! A program that calls all of the crate at odd moments: before its first block, after it began to exit, in destructors of threads, in
//! forked children, in a signal handler on a stack of its own. Its argument says when. The crate must answer, whatever it answers.

use std::alloc::System;
use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::{env, process, thread};

use heapledger::stack::{Capture, stack_id, stack_of};
use heapledger::{Fault, Heapledger, Options, Recording, Window, WindowOptions};

#[global_allocator]
static HEAP: Heapledger<System> = Heapledger::with(System, Options::new().off().history(1000));

unsafe extern "C" {
    fn atexit(function: extern "C" fn()) -> i32;
    fn fork() -> i32;
    fn exit(status: i32) -> !;
    fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
    fn pthread_key_create(key: *mut u32, destructor: extern "C" fn(*mut c_void)) -> i32;
    fn pthread_setspecific(key: u32, value: *const c_void) -> i32;
    fn sigaction(signal: i32, new: *const SignalAction, old: *mut SignalAction) -> i32;
    fn sigaltstack(new: *const SignalStack, old: *mut SignalStack) -> i32;
    fn setitimer(which: i32, new: *const [i64; 4], old: *mut [i64; 4]) -> i32;
    fn write(file: i32, text: *const u8, bytes: usize) -> isize;
}

#[repr(C)]
struct SignalAction {
    handler: usize,
    mask: [u64; 16],
    flags: i32,
    restorer: usize,
}

#[repr(C)]
struct SignalStack {
    first: *mut u8,
    flags: i32,
    bytes: usize,
}

const CALLS: usize = 12;

/// Each call once, without an allocation: which of them did what they were asked to. What needs no ledger comes last.
fn each(with_snapshot: bool) -> [bool; CALLS] {
    let mut frames = [0; 64];
    let taken = Capture::new().here(&mut frames);
    let frames = &frames[..taken.frames];
    let kept = stack_id(frames).is_ok_and(|id| stack_of(id, &mut [0; 64]) == Ok(frames.len()));
    let windows = [WindowOptions::new(), WindowOptions::new().of_this_thread()].map(|options| {
        Window::start_with("window", options)
            .is_ok_and(|window| window.pause().is_ok() && window.resume().is_ok() && window.figures().is_ok())
    });
    let paused = heapledger::pause();
    let resumed = heapledger::resume();
    [
        heapledger::mark("mark"),
        heapledger::mark_thread("mark"),
        heapledger::scope("scope").is_recorded(),
        heapledger::label("key", "value").is_in_force(),
        windows[0],
        windows[1],
        kept,
        paused && resumed,
        with_snapshot && heapledger::snapshot("moment.hl").is_ok(),
        heapledger::region().is_ok_and(|region| region.stats().failures == 0),
        heapledger::thread_region().is_ok_and(|region| region.stats().failures == 0),
        heapledger::fail(Fault::nth(0)).is_ok() && heapledger::fail_all(Fault::nth(0)).is_ok() && taken.frames > 0,
    ]
}

/// Those that need a ledger.
const OF_A_LEDGER: usize = 9;

/// What a process without a ledger must answer.
fn check_without() {
    let answers = each(true);
    assert_eq!(answers, std::array::from_fn(|call| call >= OF_A_LEDGER), "without a ledger");
    assert_eq!(heapledger::recording(), Recording::Off);
}

fn check_with() {
    assert_eq!(each(true), [true; CALLS], "with a ledger");
    assert_eq!(heapledger::recording(), Recording::On);
}

fn say(text: &str) {
    // SAFETY: a text that is there.
    unsafe { write(1, text.as_ptr(), text.len()) };
}

#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE: extern "C" fn() = {
    extern "C" fn before() {
        // Nobody has allocated yet: there is no allocator, as far as anybody knows, so there is nothing to measure.
        let answers = each(true);
        assert!(answers.iter().all(|is_done| !is_done) && heapledger::start() == Err(heapledger::Error::NoAllocator));
        heapledger::stop();
        heapledger::discard();
    }
    before
};

static PARENT: AtomicUsize = AtomicUsize::new(0);

/// Runs behind all functions that are called at the end: the ledger is finished then.
extern "C" fn after() {
    check_without();
    assert_eq!(heapledger::start(), Err(heapledger::Error::Ended));
    drop(black_box(vec![1u8; 1000]));
    if PARENT.load(Ordering::Relaxed) == process::id() as usize {
        say("after\n");
    }
}

// A piece of the function `_fini`.
std::arch::global_asm!(".pushsection .fini,\"ax\",@progbits", "call {}", ".popsection", sym after);

extern "C" fn at_exit() {
    check_with();
    drop(black_box(vec![1u8; 1000]));
    say("exit\n");
}

struct AtEnd;

impl Drop for AtEnd {
    fn drop(&mut self) {
        check_with();
        drop(black_box(vec![1u8; 1000]));
        // And once more, after all that Rust does at a thread's end.
        KEY.with(|key| {
            // SAFETY: a key of ours.
            assert_eq!(unsafe { pthread_setspecific(key.get(), (&raw const LAST).cast()) }, 0);
        });
    }
}

thread_local! {
    static AT_END: RefCell<Option<AtEnd>> = const { RefCell::new(None) };
    static KEY: Cell<u32> = const { Cell::new(0) };
}

static LAST: AtomicUsize = AtomicUsize::new(0);

extern "C" fn last(_: *mut c_void) {
    check_with();
    drop(black_box(vec![1u8; 1000]));
    LAST.fetch_add(1, Ordering::SeqCst);
}

fn thread_ends() {
    let mut key = 0;
    // SAFETY: `last` takes anything.
    assert_eq!(unsafe { pthread_key_create(&mut key, last) }, 0);
    for _ in 0..10 {
        thread::spawn(move || {
            KEY.set(key);
            AT_END.set(Some(AtEnd));
        })
        .join()
        .expect("it ends");
    }
    assert_eq!(LAST.load(Ordering::SeqCst), 10);
}

/// Children of a process whose other threads are in the middle of anything.
fn forks() {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for round in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                    drop(black_box(vec![0u8; 1 + round % 500]));
                    each(false);
                }
            });
        }
        for _ in 0..30 {
            // SAFETY: the child does what it may: it does not wait for other threads.
            let pid = unsafe { fork() };
            if pid == 0 {
                // Faults of other threads were copied with them, and go on in no thread.
                let answers = each(true);
                assert!(answers.iter().take(OF_A_LEDGER).all(|is_done| !is_done), "{answers:?}");
                drop(black_box(vec![1u8; 1000]));
                // Not Rust's own way out: its standard library waits there for a lock that a thread which was just beginning may have had.
                // SAFETY: no thread of this process exits at the same time.
                unsafe { exit(0) };
            }
            let mut status = 0;
            // SAFETY: our child.
            assert!(unsafe { waitpid(pid, &mut status, 0) } == pid && status == 0, "a child ended with {status}");
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

static SIGNALS: AtomicUsize = AtomicUsize::new(0);

extern "C" fn handler(_: i32) {
    let number = SIGNALS.fetch_add(1, Ordering::SeqCst);
    each(number.is_multiple_of(20));
}

/// A handler of signals that come at any instruction.
fn signals() {
    const STACK_BYTES: usize = 64 << 10;
    let stack = vec![0u8; STACK_BYTES].leak();
    let stack = SignalStack { first: stack.as_mut_ptr(), flags: 0, bytes: STACK_BYTES };
    // On that stack, and calls of the system go on.
    let action = SignalAction {
        handler: handler as extern "C" fn(i32) as usize,
        mask: [0; 16],
        flags: 0x1800_0000,
        restorer: 0,
    };
    // SAFETY: a stack that stays, a handler of this type, and the timer of this process.
    unsafe {
        assert_eq!(sigaltstack(&stack, std::ptr::null_mut()), 0);
        assert_eq!(sigaction(14, &action, std::ptr::null_mut()), 0);
        assert_eq!(setitimer(0, &[0, 300, 0, 300], std::ptr::null_mut()), 0);
    }
    let mut round = 0;
    while SIGNALS.load(Ordering::SeqCst) < 1000 {
        let kept = black_box(vec![0u8; 1 + round % 500]);
        each(false);
        drop(kept);
        round += 1;
    }
    // SAFETY: the timer of this process.
    assert_eq!(unsafe { setitimer(0, &[0; 4], std::ptr::null_mut()) }, 0);
    // What was in force is in force again, and nothing fails any more.
    let mut vector: Vec<u8> = Vec::new();
    assert!(vector.try_reserve(1000).is_ok());
}

fn main() {
    PARENT.store(process::id() as usize, Ordering::Relaxed);
    check_without();
    heapledger::start().expect("nothing else is recorded");
    check_with();
    match env::args().nth(1).unwrap_or_default().as_str() {
        // SAFETY: a function that takes nothing.
        "exit" => assert_eq!(unsafe { atexit(at_exit) }, 0),
        "thread_ends" => thread_ends(),
        "forks" => forks(),
        "signals" => signals(),
        other => panic!("{other:?}"),
    }
}
