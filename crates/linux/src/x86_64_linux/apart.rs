//! Rare work on a stack of our own: the program's may be small, an alternate signal stack or a coroutine's.
//!
//! There are a few such stacks for the whole process. Signals are blocked while one is used, so no handler of the program
//! ever runs on it. Unwinders pass: the frame below the switch says where the caller's stack goes on.

use crate::syscall::{self, SignalsBlocked, advice};
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Unwinding through an unknown module, and entering it, takes 8 KiB.
const STACK_BYTES: usize = 32 << 10;
const STACKS: usize = 8;
/// So much of a fresh stack is used each time.
const LIKELY_BYTES: usize = 24 << 10;
const FREE: u32 = 0;
const USED: u32 = 1;
/// Used, and somebody waits for it.
const WANTED: u32 = 2;
const WAIT_MS: u32 = 5;
const WAITS_MAX: u32 = 100;

#[repr(align(4096))]
struct Stack {
    bytes: UnsafeCell<[u8; STACK_BYTES]>,
}

// SAFETY: who has claimed the word beside it is alone on a stack.
unsafe impl Sync for Stack {}

static ALL: [Stack; STACKS] = [const { Stack { bytes: UnsafeCell::new([0; STACK_BYTES]) } }; STACKS];
static WORDS: [AtomicU32; STACKS] = [const { AtomicU32::new(FREE) }; STACKS];

/// First address and bytes of the one fresh stack that is known ([`run_in`]); zeros if there is none.
static FRESH: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// Whether the caller is on one of these stacks: its signals are blocked, then.
#[inline(always)]
pub(crate) fn is_here() -> bool {
    let here: usize;
    // SAFETY: it reads a register. The address of a variable would do, and would take room for it on the program's stack.
    unsafe { core::arch::asm!("mov {}, rsp", out(reg) here, options(nomem, nostack, preserves_flags)) };
    let [first, bytes] = &FRESH;
    here.wrapping_sub(&raw const ALL as usize) < core::mem::size_of_val(&ALL)
        || here.wrapping_sub(first.load(Ordering::Relaxed)) < bytes.load(Ordering::Relaxed)
}

/// Makes a fresh stack known, if none is; or forgets it.
fn know(first: usize, bytes: usize) -> bool {
    let [known, known_bytes] = &FRESH;
    let is_first = known.compare_exchange(0, first, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    if is_first {
        known_bytes.store(bytes, Ordering::Release);
    }
    is_first
}

fn forget_fresh() {
    let [known, known_bytes] = &FRESH;
    known_bytes.store(0, Ordering::Release);
    known.store(0, Ordering::Release);
}

#[inline(always)]
fn claim_free() -> Option<usize> {
    let take = |word: &AtomicU32| word.compare_exchange(FREE, USED, Ordering::Acquire, Ordering::Relaxed).is_ok();
    WORDS.iter().position(take)
}

/// Not compiled into its caller, on whose stack the work stands.
#[cold]
#[inline(never)]
fn claim_waiting() -> Option<usize> {
    for wait in 0..WAITS_MAX {
        // Whoever has one gives it back soon: nothing waits there but for a token, not for long.
        let word = WORDS.get(wait as usize % STACKS)?;
        let seen = word.compare_exchange(USED, WANTED, Ordering::Relaxed, Ordering::Relaxed);
        if seen != Err(FREE) {
            syscall::futex_wait(word, WANTED, WAIT_MS);
        }
        if let Some(index) = claim_free() {
            return Some(index);
        }
    }
    None
}

type Work<'a> = &'a mut dyn FnMut();

extern "C" fn work_on(work: &mut Work) {
    work();
}

/// Does work on a stack of our own, with signals blocked. If all of them stay taken, on the caller's: nobody waits without bound.
#[cold]
#[inline(never)]
pub fn run(mut work: Work) {
    if is_here() || !syscall::may_be_asked() {
        return work();
    }
    // By hand: a value that restores them when it is dropped takes twice the room on the program's stack.
    let mut old_signals = 0;
    syscall::block_signals(&mut old_signals);
    match claim_free().or_else(claim_waiting).and_then(|index| Some((ALL.get(index)?, WORDS.get(index)?))) {
        Some((stack, word)) => {
            let end = (stack.bytes.get() as usize).wrapping_add(STACK_BYTES);
            // SAFETY: the stack is ours alone until the word is free again, and `work_on` returns.
            unsafe { call_on(end, work_on, &mut work) };
            if word.swap(FREE, Ordering::Release) == WANTED {
                syscall::futex_wake(word);
            }
        }
        None => work(),
    }
    syscall::restore_signals(&old_signals);
}

/// Calls `function(work)` with the stack pointer `stack_end`, a multiple of 16.
///
/// # Safety
/// The memory below `stack_end` is used by nobody else, and is enough for the function, which returns.
#[unsafe(naked)]
unsafe extern "C" fn call_on(stack_end: usize, function: extern "C" fn(&mut Work), work: &mut Work) {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "push rbp
        .cfi_def_cfa_offset 16
        .cfi_offset rbp, -16
        mov rbp, rsp
        .cfi_def_cfa_register rbp
        mov rsp, rdi
        mov rdi, rdx
        call rsi
        leave
        .cfi_def_cfa rsp, 8
        ret",
        ".cfi_endproc",
    )
}

/// Does work on a fresh stack of so many bytes, with signals blocked. False if there is no memory for it; then it is not done.
#[cold]
#[inline(never)]
pub fn run_in(bytes: usize, mut work: Work) -> bool {
    let _signals = SignalsBlocked::new();
    let bytes = bytes.next_multiple_of(4096);
    let Ok(stack) = syscall::map_anonymous(bytes) else { return false };
    // One by one, as they are touched, takes longer. A kernel before 5.14 cannot.
    let likely = bytes.min(LIKELY_BYTES);
    let _ = syscall::advise(stack.wrapping_add(bytes.wrapping_sub(likely)), likely, advice::POPULATE_WRITE);
    let is_known = know(stack as usize, bytes);
    // SAFETY: fresh memory that nobody else knows, and `work_on` returns.
    unsafe { call_on((stack as usize).wrapping_add(bytes), work_on, &mut work) };
    if is_known {
        forget_fresh();
    }
    // SAFETY: nothing stands on it any more.
    unsafe { syscall::unmap(stack, bytes) };
    true
}

/// The same, on the caller's stack if there is no memory for a fresh one.
#[inline(always)]
pub fn with_room(bytes: usize, work: Work) {
    if !run_in(bytes, work) {
        work();
    }
}

/// In a forked child, which has one thread: the stacks that others were on at the fork are free, since these are not there.
pub fn forget_others() {
    if !is_here() {
        WORDS.iter().for_each(|word| word.store(FREE, Ordering::Relaxed));
        forget_fresh();
    }
}

/// As [`run`], with a result.
#[inline(always)]
pub fn result_of<T: Copy>(otherwise: T, work: impl FnOnce() -> T) -> T {
    let (mut work, mut result) = (Some(work), otherwise);
    run(&mut || {
        if let Some(work) = work.take() {
            result = work();
        }
    });
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deep(levels: usize) -> usize {
        let room = core::hint::black_box([levels as u8; 100]);
        if levels == 0 { 0 } else { deep(levels - 1) + usize::from(room[levels % 100] == levels as u8) }
    }

    #[test]
    fn many_threads_work_apart_at_once() {
        let threads: std::vec::Vec<_> = (0..4 * STACKS)
            .map(|thread| {
                std::thread::spawn(move || {
                    for round in 0..200 {
                        let here = 0u8;
                        let (there, sum) = result_of((0, 0), || {
                            assert!(is_here());
                            let there = 0u8;
                            let nested = result_of(0, || deep(20));
                            (&raw const there as usize, nested + thread * round)
                        });
                        assert_eq!(sum, 20 + thread * round);
                        assert!(there.abs_diff(&raw const here as usize) > STACK_BYTES && !is_here());
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("thread");
        }
        assert!(WORDS.iter().all(|word| word.load(Ordering::Relaxed) == FREE));
    }
}
