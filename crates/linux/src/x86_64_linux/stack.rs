//! Which part of a stack may be read.
//!
//! Unwinding reads words above the stack pointer. With right tables it stays inside the stack;
//! with wrong ones it must not fault. A range of pages known to be readable is kept and extended
//! page by page with a question to the kernel, which costs once per page of a thread's life.
//!
//! What was readable once may be taken away. A thread's own stack is not, as long as the thread runs on it:
//! between its stack pointer and its end, the range can be believed for good. Nothing beyond the end is ever
//! believed; there the kernel is asked each time. Of other stacks (coroutines') nobody tells the end: their range
//! is to be forgotten when memory is given back ([`StackRange::is_own`]). That glibc makes its heap shorter is no call that
//! anybody could see; where the heap ends, the C library notes in a word ([`StackRange::is_cut`]).

use crate::loader::modules;
use crate::syscall;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

const PAGE: usize = 4096;
/// How far below the known range a stack pointer may be to count as the same stack: 64 MiB.
const DOWN_PAGES_MAX: usize = 16384;

/// Readable addresses around a stack pointer.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct StackRange {
    low: usize,
    high: usize,
    /// The end of the thread's own stack; 0 if this is another one.
    end: usize,
}

/// Words of a stack that are known to be readable.
#[derive(Clone, Copy)]
pub struct StackWords {
    low: u64,
    high: u64,
}

impl StackWords {
    /// The word at `address`, which must be one of them. Not looked at again but in our own tests (`checked`): a stack that is
    /// compared has dozens. Read as an atomic word: that costs nothing in debug builds of programs either, a volatile read does.
    #[inline(always)]
    pub fn word(&self, address: u64) -> u64 {
        if cfg!(feature = "checked") {
            assert!(address & 7 == 0 && (self.low..=self.high).contains(&address), "no word of this stack");
        }
        // SAFETY: aligned, and between two addresses of a range that is readable throughout; nobody else writes to it meanwhile but
        // by a race of the program's own, of which a torn word is the worst.
        unsafe { AtomicU64::from_ptr(address as *mut u64) }.load(Ordering::Relaxed)
    }
}

/// Address of the word in which the C library notes where the heap of `brk` ends (`__curbrk`); 0: it is not known.
static HEAP_END: AtomicUsize = AtomicUsize::new(0);

/// Looks where the C library notes the end of the heap.
pub fn find_heap_end() {
    if let Some(word) = modules().find_map(|module| module.symbol(b"__curbrk")) {
        HEAP_END.store(word.address, Ordering::Release);
    }
}

/// The first page behind the heap of `brk`; 0 if that is not known, or there is none yet.
fn heap_end() -> usize {
    let word = HEAP_END.load(Ordering::Acquire) as *mut usize;
    if word.is_null() {
        return 0;
    }
    // SAFETY: a word of the C library's, which stays; `brk` writes there at any time.
    let end = unsafe { AtomicUsize::from_ptr(word) }.load(Ordering::Relaxed);
    end.checked_next_multiple_of(PAGE).unwrap_or(0)
}

/// A thread's stack pointer is at most so far from the end of its stack when it is first seen: 16 MiB.
const FIRST_SEEN_PAGES_MAX: usize = 4096;

impl StackRange {
    /// Only the page of `stack_pointer`, which the caller is standing on.
    pub fn around(stack_pointer: usize) -> StackRange {
        let low = stack_pointer & !(PAGE - 1);
        StackRange { low, high: low.wrapping_add(PAGE), end: 0 }
    }

    /// The stack of a thread, which ends at `end`, down to the page of `stack_pointer`, if all of it is readable;
    /// else as [`StackRange::around`].
    pub fn of_thread(stack_pointer: usize, end: usize) -> StackRange {
        let mut range = StackRange::around(stack_pointer);
        let last = end.wrapping_sub(8);
        if stack_pointer < end && range.extend_up(last, FIRST_SEEN_PAGES_MAX) || range.contains(last) {
            range.end = end;
        }
        range
    }

    /// Whether this is the thread's own stack, which stays as it is.
    #[inline(always)]
    pub fn is_own(&self) -> bool {
        self.end != 0
    }

    /// Whether the heap has become shorter since, and ends within the range: what lies behind that is gone.
    pub fn is_cut(&self) -> bool {
        self.is_cut_by(heap_end())
    }

    fn is_cut_by(&self, heap_end: usize) -> bool {
        self.low < heap_end && heap_end < self.high
    }

    /// Whether `address` is in the known range.
    #[inline(always)]
    pub fn contains(&self, address: usize) -> bool {
        address.wrapping_sub(self.low) < self.high.wrapping_sub(self.low)
    }

    /// The word at `address`, if it is in the known range: whole pages, so that one that is not aligned might reach out of it.
    #[inline(always)]
    pub fn word(&self, address: u64) -> Option<u64> {
        let place = address as usize;
        // SAFETY: aligned, and in a page that is readable.
        (place & 7 == 0 && self.contains(place)).then(|| unsafe { (place as *const u64).read_volatile() })
    }

    /// The words from `low` to `high`, both of them words that can be read. `None` if the range does not hold all of them.
    #[inline(always)]
    pub fn words(&self, low: u64, high: u64) -> Option<StackWords> {
        (self.contains(low as usize) && self.contains(high as usize)).then_some(StackWords { low, high })
    }

    /// The word at `address`, which may be anywhere: as [`StackRange::may_read`].
    #[cold]
    pub fn ask_word(&mut self, address: u64, pages_max: usize) -> Option<u64> {
        let place = address as usize;
        // SAFETY: aligned, and the kernel says that it can be read.
        self.may_read(place, pages_max).then(|| unsafe { (place as *const u64).read_volatile() })
    }

    /// The page of an address, if it can be read.
    pub fn of_readable(address: usize) -> Option<StackRange> {
        (address & 7 == 0 && syscall::readable(address)).then(|| StackRange::around(address))
    }

    /// Whether a stack pointer belongs to this stack, extending the range down to it if every page
    /// in between is readable (between two stacks lies a guard page that is not).
    #[inline]
    pub fn holds(&mut self, stack_pointer: usize) -> bool {
        self.contains(stack_pointer) || self.extend_down(stack_pointer)
    }

    #[cold]
    fn extend_down(&mut self, stack_pointer: usize) -> bool {
        let page = stack_pointer & !(PAGE - 1);
        if page >= self.low || self.low.wrapping_sub(page) / PAGE > DOWN_PAGES_MAX {
            return false;
        }
        let mut at = self.low;
        while at > page {
            at = at.wrapping_sub(PAGE);
            if !syscall::readable(at) {
                return false;
            }
            self.low = at;
        }
        true
    }

    /// Whether the 8 bytes at `address` may be read, extending the range up by at most
    /// `pages_max` pages that the kernel says are readable.
    #[inline]
    pub fn may_read(&mut self, address: usize, pages_max: usize) -> bool {
        address & 7 == 0 && (self.contains(address) || self.ask(address, pages_max))
    }

    #[cold]
    fn ask(&mut self, address: usize, pages_max: usize) -> bool {
        if self.is_own() {
            // Not part of the stack: it can be gone the next time.
            return address >= self.high && syscall::readable(address);
        }
        self.extend_up(address, pages_max)
    }

    #[cold]
    fn extend_up(&mut self, address: usize, pages_max: usize) -> bool {
        if address < self.high || address.wrapping_sub(self.high) / PAGE >= pages_max {
            return false;
        }
        while self.high <= address {
            if !syscall::readable(self.high) {
                return false;
            }
            self.high = self.high.wrapping_add(PAGE);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stops_at_what_is_not_mapped() {
        let memory = syscall::tests::pages_of_which_the_last_cannot_be_read("stack", 4);
        let mut range = StackRange::around(memory + PAGE + 8);
        assert!(range.contains(memory + PAGE) && !range.contains(memory + 2 * PAGE));
        assert!(range.may_read(memory + 2 * PAGE, 8));
        assert!(!range.may_read(memory + 2 * PAGE + 4, 8), "unaligned");
        assert!(!range.may_read(memory + 3 * PAGE, 8), "unmapped");
        assert!(range.holds(memory + 16), "one page down");
        let at = memory as u64;
        assert!(range.word(at + 16).is_some() && range.word(at + 17).is_none() && range.word(at + 3 * 4096).is_none());
        assert!(range.words(at, at + 8).is_some() && range.words(at, at + 3 * 4096).is_none());
        assert!(range.ask_word(at + 3 * 4096, 8).is_none() && StackRange::of_readable(memory + 3 * PAGE).is_none());
        let own = StackRange::of_thread(memory + 16, memory + 2 * PAGE);
        assert!(own.is_own() && own.contains(memory + 2 * PAGE - 8));
        let mut own = own;
        assert!(own.may_read(memory + 2 * PAGE, 8) && !own.contains(memory + 2 * PAGE), "read, and not believed");
        assert!(!StackRange::of_thread(memory + 16, memory + 4 * PAGE).is_own(), "not to be read to its end");
        assert!(!StackRange::of_thread(memory + 16, memory).is_own(), "the end lies below");
        assert!(!range.holds(memory + 3 * PAGE));
    }

    #[test]
    fn a_range_in_which_the_heap_ends_is_cut() {
        find_heap_end();
        assert!(heap_end() != 0, "the C library has a word for that");
        let end = 64 * PAGE;
        let range = |low, high| StackRange { low, high, end: 0 };
        assert!(range(end - PAGE, end + PAGE).is_cut_by(end));
        assert!(!range(end - PAGE, end).is_cut_by(end), "up to there");
        assert!(!range(end, end + PAGE).is_cut_by(end), "behind it lies another one");
    }
}
