//! Which part of a stack may be read.
//!
//! Unwinding reads words above the stack pointer. With right tables it stays inside the stack;
//! with wrong ones it must not fault. A range of pages known to be readable is kept and extended
//! page by page with a question to the kernel, which costs once per page of a thread's life.
//!
//! What was readable once may be taken away. A thread's own stack is not, as long as the thread runs on it:
//! between its stack pointer and its end, the range can be believed for good. Nothing beyond the end is ever
//! believed; there the kernel is asked each time. Of other stacks (coroutines') nobody tells the end: their range
//! is to be forgotten when memory is given back ([`StackRange::is_own`]).

use crate::syscall;

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

/// A thread's stack pointer is at most so far from the end of its stack when it is first seen: 16 MiB.
const FIRST_SEEN_PAGES_MAX: usize = 4096;

impl StackRange {
    /// Only the page of `stack_pointer`, which the caller is standing on.
    pub fn around(stack_pointer: usize) -> StackRange {
        let low = stack_pointer & !(PAGE - 1);
        StackRange { low, high: low + PAGE, end: 0 }
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

    /// Whether `address` is in the known range.
    #[inline(always)]
    pub fn contains(&self, address: usize) -> bool {
        address.wrapping_sub(self.low) < self.high.wrapping_sub(self.low)
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
        if page >= self.low || (self.low - page) / PAGE > DOWN_PAGES_MAX {
            return false;
        }
        let mut at = self.low;
        while at > page {
            at -= PAGE;
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
        if address < self.high || (address - self.high) / PAGE >= pages_max {
            return false;
        }
        while self.high <= address {
            if !syscall::readable(self.high) {
                return false;
            }
            self.high += PAGE;
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
        let own = StackRange::of_thread(memory + 16, memory + 2 * PAGE);
        assert!(own.is_own() && own.contains(memory + 2 * PAGE - 8));
        let mut own = own;
        assert!(own.may_read(memory + 2 * PAGE, 8) && !own.contains(memory + 2 * PAGE), "read, and not believed");
        assert!(!StackRange::of_thread(memory + 16, memory + 4 * PAGE).is_own(), "not to be read to its end");
        assert!(!StackRange::of_thread(memory + 16, memory).is_own(), "the end lies below");
        assert!(!range.holds(memory + 3 * PAGE));
    }
}
