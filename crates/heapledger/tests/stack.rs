//! Stacks for a program's own use, against what libgcc's unwinder says. Nothing is recorded, and nothing allocated for it.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ffi::c_void;
use std::hint::black_box;

use heapledger::stack::{Capture, End, Taken, Unwinding};

struct Counting;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call goes on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.set(CALLS.get() + 1);
        // SAFETY: the caller's.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static HEAP: Counting = Counting;

const ROOM: usize = 256;

struct Stack {
    frames: [usize; ROOM],
    count: usize,
}

impl Stack {
    const EMPTY: Stack = Stack { frames: [0; ROOM], count: 0 };

    fn all(&self) -> &[usize] {
        &self.frames[..self.count]
    }
}

unsafe extern "C" {
    fn _Unwind_Backtrace(callback: unsafe extern "C" fn(*mut c_void, *mut c_void) -> i32, data: *mut c_void) -> i32;
    fn _Unwind_GetIPInfo(context: *mut c_void, is_exact: *mut i32) -> usize;
}

unsafe extern "C" fn push(context: *mut c_void, data: *mut c_void) -> i32 {
    // SAFETY: `theirs` gives a stack.
    let stack = unsafe { &mut *data.cast::<Stack>() };
    let mut is_exact = 0;
    // SAFETY: the unwinder's own context.
    let ip = unsafe { _Unwind_GetIPInfo(context, &mut is_exact) };
    if ip != 0 && stack.count < ROOM {
        stack.frames[stack.count] = ip + usize::from(is_exact != 0);
        stack.count += 1;
    }
    0
}

/// The caller's stack by libgcc, without the caller: that one is somewhere else in its function by now.
#[inline(always)]
fn theirs() -> Stack {
    let mut stack = Stack::EMPTY;
    // SAFETY: the callback writes to the stack.
    unsafe { _Unwind_Backtrace(push, (&raw mut stack).cast()) };
    stack
}

#[inline(always)]
fn ours(capture: Capture) -> (Stack, Taken) {
    let mut stack = Stack::EMPTY;
    let before = CALLS.get();
    let taken = capture.here(&mut stack.frames);
    assert_eq!(CALLS.get(), before, "it has allocated");
    stack.count = taken.frames;
    (stack, taken)
}

#[inline(never)]
fn deep(levels: usize, at_the_end: &mut dyn FnMut()) {
    if levels == 0 {
        at_the_end();
    } else {
        deep(levels - 1, at_the_end);
    }
    black_box(levels);
}

/// Both stacks from one function: the same but for where in that function each was taken.
fn is_as_theirs() {
    let (own, taken) = ours(Capture::new());
    let theirs = theirs();
    assert_eq!((taken.end, taken.guessed_from), (End::Outermost, None));
    assert_eq!(own.all()[1..], theirs.all()[theirs.count + 1 - own.count..]);
    assert!(theirs.count - own.count <= 1, "{} frames of {}", own.count, theirs.count);
    let (tables, of_tables) = ours(Capture::new().unwinding(Unwinding::Tables));
    assert_eq!((&tables.all()[1..], of_tables.end), (&own.all()[1..], End::Outermost));
    // Whatever frame pointers lead to, it is inside of code, and said to be guessed.
    for unwinding in [Unwinding::Fast, Unwinding::FramePointers] {
        let (fast, taken) = ours(Capture::new().unwinding(unwinding));
        assert!(taken.frames > 0 && taken.frames <= ROOM);
        assert!(taken.frames == 1 || taken.guessed_from == Some(1) || fast.all()[1..] == own.all()[1..], "{taken:?}");
    }
}

#[test]
fn stacks_are_as_libgcc_takes_them() {
    is_as_theirs();
    for levels in [1, 40, 120] {
        deep(levels, &mut is_as_theirs);
    }
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            std::thread::spawn(move || (0..50).for_each(|round| deep((round * 7 + thread) % 60, &mut is_as_theirs)))
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
}

#[test]
fn frames_are_left_out_and_cut() {
    deep(20, &mut || {
        let (all, taken) = ours(Capture::new());
        let (less, fewer) = ours(Capture::new().without_innermost(5).without_outermost(3));
        assert_eq!((fewer.end, less.all()), (End::Outermost, &all.all()[5..taken.frames - 3]));
        let mut few = [0; 6];
        let cut = Capture::new().without_innermost(2).without_outermost(3).here(&mut few);
        assert_eq!((cut.frames, cut.end), (6, End::Cut));
        assert_eq!(few, all.all()[2..8]);
        assert_eq!((Capture::new().here(&mut []).frames, Capture::new().here(&mut []).end), (0, End::Cut));
        let none = Capture::new().without_innermost(1000).here(&mut few);
        assert_eq!((none.frames, none.end), (0, End::Outermost));
        let none = Capture::new().without_outermost(1000).here(&mut [0; ROOM]);
        assert_eq!((none.frames, none.end), (0, End::Outermost));
    });
}

thread_local! {
    static HANDLED: Cell<*mut Handled> = const { Cell::new(std::ptr::null_mut()) };
}

struct Handled {
    here: Stack,
    of_here: Option<Taken>,
    interrupted: Stack,
    of_interrupted: Option<Taken>,
    theirs: Stack,
}

extern "C" fn handle(_: libc::c_int, _: *mut c_void, context: *mut c_void) {
    // SAFETY: set by the test, on this thread.
    let handled = unsafe { &mut *HANDLED.get() };
    let (here, taken) = ours(Capture::new());
    (handled.here, handled.of_here, handled.theirs) = (here, Some(taken), theirs());
    // SAFETY: the handler's third argument.
    let taken = unsafe { Capture::new().interrupted(context, &mut handled.interrupted.frames) };
    handled.interrupted.count = taken.frames;
    handled.of_interrupted = Some(taken);
}

#[test]
fn handlers_see_what_they_interrupt_on_other_stacks_too() {
    let mut room = vec![0u64; 32 * 1024];
    let alternate = libc::stack_t { ss_sp: room.as_mut_ptr().cast(), ss_flags: 0, ss_size: room.len() * 8 };
    let mut old = alternate;
    // SAFETY: the memory is ours until the old stack is back.
    unsafe { assert_eq!(libc::sigaltstack(&raw const alternate, &raw mut old), 0) };
    Capture::new().here(&mut [0; 8]);
    for on_stack in [0, libc::SA_ONSTACK] {
        // SAFETY: a handler of that kind.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handle as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | on_stack;
            assert_eq!(libc::sigaction(libc::SIGUSR2, &raw const action, std::ptr::null_mut()), 0);
        }
        let mut handled = Handled {
            here: Stack::EMPTY,
            of_here: None,
            interrupted: Stack::EMPTY,
            of_interrupted: None,
            theirs: Stack::EMPTY,
        };
        HANDLED.set(&raw mut handled);
        let mut outside = Stack::EMPTY;
        deep(30, &mut || {
            outside = theirs();
            // SAFETY: handled above.
            unsafe { libc::raise(libc::SIGUSR2) };
        });
        let (here, of_here) = (handled.here.all(), handled.of_here.expect("it was handled"));
        assert_eq!((of_here.end, of_here.guessed_from), (End::Outermost, None));
        assert_eq!(here[1..], handled.theirs.all()[handled.theirs.count + 1 - here.len()..]);
        let of_interrupted = handled.of_interrupted.expect("it was handled");
        assert_eq!((of_interrupted.end, of_interrupted.guessed_from), (End::Outermost, None));
        // Handler and signal frame are what the two differ by.
        let interrupted = handled.interrupted.all();
        assert_eq!(interrupted, &here[here.len() - interrupted.len()..]);
        assert!((1..=3).contains(&(here.len() - interrupted.len())), "{} and {}", here.len(), interrupted.len());
        let common = outside.count - 4;
        assert_eq!(here[here.len() - common..], outside.all()[4..]);
    }
    // SAFETY: as it was before.
    unsafe { assert_eq!(libc::sigaltstack(&raw const old, std::ptr::null_mut()), 0) };
}
