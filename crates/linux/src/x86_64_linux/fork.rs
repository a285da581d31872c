//! Knowing that one is a forked child, without asking the kernel each time.
//!
//! A page marked `MADV_WIPEONFORK` reads as zero in every child that got a copy of the address
//! space, however it was made: `fork`, `_Fork`, a raw `clone`. A child that shares the address
//! space (`vfork`, `CLONE_VM`) shares the heap too, and rightly counts as the same process.

use crate::syscall::{self, Errno, advice};
use core::sync::atomic::{AtomicUsize, Ordering};

/// A word that is non-zero in the process that made it and zero in its children.
pub struct ForkMark {
    page: AtomicUsize,
}

const PAGE_BYTES: usize = 4096;
const ALIVE: u32 = 0x4C45_4447;

impl ForkMark {
    /// No page yet: [`ForkMark::holds`] is false.
    pub const fn new() -> Self {
        ForkMark { page: AtomicUsize::new(0) }
    }

    /// Maps and marks the page.
    ///
    /// # Errors
    /// If there is no memory, or the kernel (before 4.14) cannot wipe on fork.
    pub fn set(&self) -> Result<(), Errno> {
        let page = syscall::map_anonymous(PAGE_BYTES)?;
        if let Err(error) = syscall::advise(page, PAGE_BYTES, advice::WIPE_ON_FORK) {
            // SAFETY: nobody else has seen the page.
            unsafe { syscall::unmap(page, PAGE_BYTES) };
            return Err(error);
        }
        // SAFETY: the page was just mapped, is writable and aligned.
        unsafe { page.cast::<u32>().write(ALIVE) };
        self.page.store(page as usize, Ordering::Release);
        Ok(())
    }

    /// Whether the calling process is the one that called [`ForkMark::set`].
    #[inline(always)]
    pub fn holds(&self) -> bool {
        let page = self.page.load(Ordering::Acquire) as *const u32;
        // SAFETY: once set, the page stays mapped for ever, in children too (they see zeros).
        !page.is_null() && unsafe { page.read_volatile() } == ALIVE
    }

    /// Clears the mark in this process.
    pub fn clear(&self) {
        let page = self.page.load(Ordering::Acquire) as *mut u32;
        if !page.is_null() {
            // SAFETY: as in `holds`; every thread only ever stores this zero.
            unsafe { page.write_volatile(0) };
        }
    }
}

impl Default for ForkMark {
    fn default() -> Self {
        Self::new()
    }
}
