//! A program whose functions are told of its calls. Its argument says what they do.

#[path = "../blocks.rs"]
mod blocks;

use std::alloc::{System, realloc};
use std::cell::Cell;
use std::env;
use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use heapledger::{Error, Event, EventCall, Fault, Heapledger, Hook, Options};

use blocks::{gives_back, layout, takes};

#[global_allocator]
static HEAP: Heapledger<System> = Heapledger::with(System, Options::new().history(10_000).counted());

const BYTES: usize = 1234;

/// What was told of blocks of [`BYTES`] and twice as many.
static TOLD: Mutex<Vec<(bool, Event)>> = Mutex::new(Vec::new());

fn notes(gave: bool, event: &Event) {
    if event.size == BYTES || event.size == 2 * BYTES {
        // It allocates, and nobody is told of that.
        TOLD.lock().expect("nobody panics").push((gave, *event));
    }
}

fn tells() {
    let hooks = [heapledger::on_alloc(|event| notes(true, event)), heapledger::on_free(|event| notes(false, event))];
    let hooks = hooks.map(|hook| hook.expect("room"));
    let block = takes(BYTES);
    let (small, large) = (layout(BYTES), 2 * BYTES);
    // SAFETY: it was asked for so.
    let moved = black_box(unsafe { realloc(block, small, large) });
    let failing = heapledger::fail(Fault::nth(1)).expect("room");
    // SAFETY: as above; it fails before anybody is told.
    assert!(unsafe { realloc(moved, layout(large), 7) }.is_null());
    drop(failing);
    gives_back(moved, large);
    let at = |gave, call, address: *mut u8, size| (gave, call, address as usize, size, 32);
    let told = TOLD.lock().expect("nobody panics");
    let told = told.iter().map(|(gave, event)| (*gave, event.call, event.address, event.size, event.align));
    assert_eq!(
        told.collect::<Vec<_>>(),
        [
            at(true, EventCall::Alloc, block, BYTES),
            at(false, EventCall::Realloc, block, BYTES),
            at(true, EventCall::Realloc, moved, large),
            at(false, EventCall::Dealloc, moved, large),
        ]
    );
    assert!(hooks.iter().all(|hook| hook.calls() > 0 && hook.running() == 0));
    let (calls, nested) = (hooks.each_ref().map(Hook::calls), heapledger::hook_figures().nested);
    assert!(nested > 0, "what a hook allocates is told to nobody");
    gives_back(takes(BYTES), BYTES);
    assert_eq!(hooks.each_ref().map(Hook::calls), calls, "they are called no longer");
    drop(hooks);
    let many: Vec<_> = (0..).map(|_| heapledger::on_free(|_| {})).take_while(Result::is_ok).collect();
    assert_eq!((many.len(), heapledger::on_alloc(|_| {}).err()), (32, Some(Error::TooMany)));
}

static ITS_OWN: Mutex<Option<Hook>> = Mutex::new(None);

fn misbehaves() {
    // It gives back what it is told of, or resizes it.
    let hook = heapledger::on_alloc(|event| {
        if event.size == BYTES {
            gives_back(event.address as *mut u8, BYTES);
            // SAFETY: it is not done.
            assert!(unsafe { realloc(event.address as *mut u8, layout(BYTES), 7) }.is_null());
        }
    });
    let block = takes(BYTES);
    drop(hook.expect("room"));
    assert_eq!(heapledger::hook_figures().refused, 2);
    // SAFETY: it is there all the same.
    unsafe { block.write_bytes(7, BYTES) };
    let hook = heapledger::on_free(|event| {
        if event.size == BYTES {
            gives_back(event.address as *mut u8, BYTES);
        }
    });
    gives_back(block, BYTES);
    drop(hook.expect("room"));
    assert_eq!(heapledger::hook_figures().refused, 3);

    // It unregisters itself.
    let hook = heapledger::on_alloc(|event| {
        if event.size == BYTES {
            drop(ITS_OWN.lock().expect("nobody panics").take());
        }
    });
    *ITS_OWN.lock().expect("nobody panics") = Some(hook.expect("room"));
    gives_back(takes(BYTES), BYTES);
    assert!(ITS_OWN.lock().expect("nobody panics").is_none());

    if cfg!(panic = "unwind") {
        let hook = heapledger::on_alloc(|event| assert_ne!(event.size, BYTES, "a hook panics")).expect("room");
        gives_back(takes(BYTES), BYTES);
        assert!(hook.has_panicked());
        let calls = hook.calls();
        gives_back(takes(BYTES), BYTES);
        assert_eq!(hook.calls(), calls, "it is not called again");
    }
}

thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

static STOP: AtomicBool = AtomicBool::new(false);
static CALLS: AtomicUsize = AtomicUsize::new(0);

fn is_alone(_: &Event) {
    let depth = DEPTH.get();
    assert_eq!(depth, 0, "called inside of itself");
    DEPTH.set(depth + 1);
    drop(black_box(vec![1u8; 50]));
    CALLS.fetch_add(1, Ordering::Relaxed);
    DEPTH.set(depth);
}

/// Threads call, register and unregister, while recording is switched on and off.
fn hammers() {
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            thread::spawn(move || {
                let mut round = 0;
                while !STOP.load(Ordering::Relaxed) || round < 100 {
                    round += 1;
                    let hooks = if thread < 2 {
                        [heapledger::on_alloc(is_alone), heapledger::on_free(is_alone)].map(Result::ok)
                    } else {
                        [None, None]
                    };
                    for bytes in 1..50 {
                        gives_back(takes(bytes), bytes);
                    }
                    assert!(hooks.iter().flatten().all(|hook| hook.calls() > 0 && !hook.has_panicked()));
                }
            })
        })
        .collect();
    for _ in 0..200 {
        assert!(heapledger::pause());
        thread::yield_now();
        assert!(heapledger::resume());
    }
    STOP.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
    let figures = heapledger::hook_figures();
    assert!(CALLS.load(Ordering::Relaxed) > 1000 && figures.nested > 0);
    assert_eq!((figures.left, figures.untold, figures.refused), (0, 0, 0));
}

const LARGE_BYTES: usize = 4 << 20;

/// Limits are passed up and down, by a new block and by one that grows.
fn passes_limits() {
    let live = heapledger::stats().expect("it counts").bytes() as usize;
    let hooks = [1 << 20, 3 << 20, 16 << 20].map(|above| {
        heapledger::on_live_above(live + above, |event| assert!(event.size >= LARGE_BYTES || event.size < 1 << 16))
            .expect("room")
    });
    let told = || hooks.each_ref().map(Hook::calls);
    for round in 1..=10u64 {
        gives_back(takes(LARGE_BYTES), LARGE_BYTES);
        assert_eq!(told(), [2 * round - 1, 2 * round - 1, 0]);
        let block = takes(BYTES);
        // SAFETY: it was asked for so.
        let block = black_box(unsafe { realloc(block, layout(BYTES), LARGE_BYTES) });
        gives_back(takes(LARGE_BYTES), LARGE_BYTES);
        assert_eq!(told(), [2 * round, 2 * round, 0], "nobody is told again while it is above");
        gives_back(block, LARGE_BYTES);
    }
    assert!(hooks.iter().all(|hook| !hook.has_panicked()));
}

/// The calling thread, as the kernel has it.
fn own_thread() -> u64 {
    let link = std::fs::read_link("/proc/thread-self").expect("a thread");
    link.file_name().and_then(|name| name.to_str()?.parse().ok()).expect("a number")
}

fn told_last() -> Event {
    TOLD.lock().expect("nobody panics").last().expect("it was told").1
}

/// Whose call it is, when it was, and whether its block is in the ledger.
fn says_who_and_when() {
    let hooks = [heapledger::on_alloc(|event| notes(true, event)), heapledger::on_free(|event| notes(false, event))];
    let hooks = hooks.map(|hook| hook.expect("room"));
    let block = takes(BYTES);
    let event = told_last();
    assert_eq!((event.thread, event.recorded, event.granted), (own_thread(), true, true));
    assert!(heapledger::pause());
    let passed_by = takes(BYTES);
    assert!(!told_last().recorded, "recording is paused");
    gives_back(block, BYTES);
    assert!(told_last().recorded, "it came before");
    assert!(heapledger::resume());
    gives_back(passed_by, BYTES);
    assert!(!told_last().recorded);
    let other = thread::spawn(|| {
        gives_back(takes(BYTES), BYTES);
        own_thread()
    });
    let other = other.join().expect("it ends");
    assert_ne!(other, own_thread());
    assert_eq!(told_last().thread, other);
    let told = TOLD.lock().expect("nobody panics");
    assert!(told.len() == 6 && told.is_sorted_by_key(|(_, event)| event.time_ns));
    drop(hooks);
}

static REQUESTS: Mutex<Vec<Event>> = Mutex::new(Vec::new());

/// Large requests are told of, whatever comes of them.
fn asks_for_much() {
    const LIMIT: usize = 1 << 20;
    REQUESTS.lock().expect("nobody panics").reserve(16);
    let hook = heapledger::on_request_above(LIMIT, |event| REQUESTS.lock().expect("nobody panics").push(*event));
    let hook = hook.expect("room");
    let fails = || heapledger::fail(Fault::nth(1)).expect("room");
    gives_back(takes(LIMIT), LIMIT);
    let block = takes(LIMIT + 1);
    let failing = fails();
    assert!(takes(LIMIT + 2).is_null());
    drop(failing);
    let failing = fails();
    // SAFETY: it was asked for so, and stays.
    assert!(unsafe { realloc(block, layout(LIMIT + 1), LIMIT + 3) }.is_null());
    drop(failing);
    // The allocator itself has not so much.
    assert!(takes(usize::MAX / 4).is_null());
    // SAFETY: it was asked for so.
    let small = black_box(unsafe { realloc(block, layout(LIMIT + 1), 100) });
    // SAFETY: as above.
    let grown = black_box(unsafe { realloc(small, layout(100), LIMIT + 4) });
    gives_back(grown, LIMIT + 4);
    assert_eq!(hook.calls(), 5);
    let told = REQUESTS.lock().expect("nobody panics");
    let told = told.iter().map(|event| (event.call, event.address, event.size - LIMIT, event.granted, event.recorded));
    assert_eq!(
        told.collect::<Vec<_>>(),
        [
            (EventCall::Alloc, block as usize, 1, true, true),
            (EventCall::Alloc, 0, 2, false, false),
            (EventCall::Realloc, 0, 3, false, false),
            (EventCall::Alloc, 0, usize::MAX / 4 - LIMIT, false, false),
            (EventCall::Realloc, grown as usize, 4, true, true),
        ]
    );
}

// As `setjmp` and `longjmp`: `guarded` calls a function, and comes back with 1 if that calls `jump`.
core::arch::global_asm!(
    ".pushsection .text",
    ".type guarded, @function",
    "guarded:",
    ".cfi_startproc",
    "push rbx; push rbp; push r12; push r13; push r14; push r15",
    "sub rsp, 8",
    ".cfi_def_cfa_offset 64",
    ".cfi_offset rbx, -16; .cfi_offset rbp, -24; .cfi_offset r12, -32",
    ".cfi_offset r13, -40; .cfi_offset r14, -48; .cfi_offset r15, -56",
    "mov [rip + {place}], rsp",
    "call rdi",
    "xor eax, eax",
    "jmp 2f",
    "jump:",
    "mov rsp, [rip + {place}]",
    "mov eax, 1",
    "2:",
    "add rsp, 8",
    "pop r15; pop r14; pop r13; pop r12; pop rbp; pop rbx",
    ".cfi_def_cfa_offset 8",
    "ret",
    ".cfi_endproc",
    ".size guarded, . - guarded",
    ".popsection",
    place = sym PLACE,
);
static mut PLACE: usize = 0;

unsafe extern "C" {
    fn guarded(work: extern "C" fn()) -> u32;
    fn jump() -> !;
}

static JUMPS: AtomicBool = AtomicBool::new(false);
/// The block of which the hook was told that jumped.
static JUMPED_OVER: AtomicUsize = AtomicUsize::new(0);

fn jumps_once(event: &Event) {
    if event.size == BYTES && JUMPS.swap(false, Ordering::Relaxed) {
        JUMPED_OVER.store(event.address, Ordering::Relaxed);
        // SAFETY: it was called by what `guarded` called; what lies between holds nothing that has to be dropped.
        unsafe { jump() }
    }
}

/// Calls a function from far below.
#[inline(never)]
fn deep(levels: usize, work: fn()) -> usize {
    if levels > 0 {
        return black_box(deep(levels - 1, work) + 1);
    }
    work();
    0
}

extern "C" fn takes_deep() {
    deep(20, || _ = takes(BYTES));
}

extern "C" fn gives_back_deep() {
    deep(20, || gives_back(JUMPED_OVER.load(Ordering::Relaxed) as *mut u8, BYTES));
}

/// Hooks that do not come back: each is counted, others are told again, and what was allocated can be given back.
fn jumps() {
    const ROUNDS: u64 = 1000;
    let took = heapledger::on_alloc(jumps_once).expect("a hook");
    let gave_back = heapledger::on_free(jumps_once).expect("a hook");
    let before = heapledger::hook_figures();
    for round in 1..=ROUNDS {
        JUMPS.store(true, Ordering::Relaxed);
        // SAFETY: nothing that is jumped over has to be dropped.
        assert_eq!(unsafe { guarded(takes_deep) }, 1, "{round}: of an allocation");
        // Deeper than the hook was, it cannot be told from one that goes on.
        let calls = took.calls();
        deep(300, || gives_back(takes(100), 100));
        assert_eq!(took.calls(), calls, "{round}: from below");
        // The next one from above finds out.
        let calls = took.calls();
        gives_back(takes(100), 100);
        assert_eq!(took.calls(), calls + 1, "{round}: nobody was told after a jump");
        // A free that a hook jumps out of was none: the block is still there.
        JUMPS.store(true, Ordering::Relaxed);
        // SAFETY: as above.
        assert_eq!(unsafe { guarded(gives_back_deep) }, 1, "{round}: of a free");
        gives_back(JUMPED_OVER.load(Ordering::Relaxed) as *mut u8, BYTES);
    }
    let figures = heapledger::hook_figures();
    assert_eq!((figures.left - before.left, figures.refused), (2 * ROUNDS, 0), "{figures:?}");
    // They never come back.
    assert_eq!((took.running(), gave_back.running()), (ROUNDS, ROUNDS));
}

fn main() {
    match env::args().nth(1).unwrap_or_default().as_str() {
        "tells" => tells(),
        "misbehaves" => misbehaves(),
        "who" => says_who_and_when(),
        "requests" => asks_for_much(),
        "limits" => passes_limits(),
        "hammers" => hammers(),
        "jumps" => jumps(),
        other => panic!("{other:?}"),
    }
}
