//! Exchanges of words that threads share: as cheap as can be, as long as there is one thread.
//!
//! Such an exchange waits until all that was stored before has reached the cache, which is most of what a pair of `malloc` and `free`
//! costs whose bookkeeping is in no cache. In a process of one thread one instruction without that wait does: neither a signal
//! nor another thread comes in the middle of one. That is what glibc does in its own allocator, by the same sign.

use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// What stands for a sign that there is not: nobody is alone.
static NEVER: u8 = 0;
static SIGN: AtomicPtr<u8> = AtomicPtr::new((&raw const NEVER).cast_mut());

/// From now on a byte of the C library's says whether there is one thread.
///
/// # Safety
///
/// It can be read for good, and is not 0 only while no other thread of the process exists that calls this crate: who makes one clears it
/// before.
pub unsafe fn watch(sign: *const u8) {
    SIGN.store(sign.cast_mut(), Ordering::Release);
}

/// Whether the process has one thread. `false` if that is not certain.
#[inline(always)]
pub fn is_alone() -> bool {
    // SAFETY: as `watch` was told.
    unsafe { SIGN.load(Ordering::Relaxed).read_volatile() != 0 }
}

/// [`AtomicU64::compare_exchange`].
#[inline(always)]
pub(crate) fn exchange(word: &AtomicU64, from: u64, to: u64, done: Ordering, failed: Ordering) -> Result<u64, u64> {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if is_alone() {
        let found: u64;
        // SAFETY: the word is borrowed, and an atomic one: it may be written. The one instruction is all that happens to it, since nobody
        // else is there; the compiler takes it for an access of all memory.
        unsafe {
            core::arch::asm!("cmpxchg [{0}], {1}", in(reg) word.as_ptr(), in(reg) to, inout("rax") from => found, options(nostack));
        }
        return if found == from { Ok(found) } else { Err(found) };
    }
    word.compare_exchange(from, to, done, failed)
}

/// Adds to a count, whose value nobody needs.
#[inline(always)]
pub(crate) fn add(word: &AtomicU64, more: u64) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if is_alone() {
        // SAFETY: as in `exchange`.
        unsafe {
            core::arch::asm!("add [{0}], {1}", in(reg) word.as_ptr(), in(reg) more, options(nostack));
        }
        return;
    }
    word.fetch_add(more, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_do_the_same() {
        static ONE: u8 = 1;
        // Other tests of this process have threads, each with words of its own: the sign is of no concern to them but here.
        for sign in [&raw const NEVER, &raw const ONE] {
            let before = SIGN.swap(sign.cast_mut(), Ordering::Relaxed);
            let word = AtomicU64::new(5);
            let done = exchange(&word, 5, 7, Ordering::AcqRel, Ordering::Acquire);
            let failed = exchange(&word, 5, 9, Ordering::AcqRel, Ordering::Acquire);
            add(&word, 3);
            add(&word, 1u64.wrapping_neg());
            SIGN.store(before, Ordering::Relaxed);
            assert_eq!((done, failed, word.into_inner()), (Ok(5), Err(7), 9));
        }
    }
}
