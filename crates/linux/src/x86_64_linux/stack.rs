//! Which part of a stack may be read.
//!
//! Unwinding reads words above the stack pointer. With right tables it stays inside the stack;
//! with wrong ones it must not fault. A range of pages known to be readable is kept and extended
//! page by page with a question to the kernel, which costs once per page of a thread's life.

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
}

impl StackRange {
    /// Only the page of `stack_pointer`, which the caller is standing on.
    pub fn around(stack_pointer: usize) -> StackRange {
        let low = stack_pointer & !(PAGE - 1);
        StackRange { low, high: low + PAGE }
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
        address & 7 == 0 && (self.contains(address) || self.extend_up(address, pages_max))
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
        assert!(!range.holds(memory + 3 * PAGE));
    }
}
