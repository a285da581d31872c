//! Knowing that one is a forked child, without asking the kernel each time.
//!
//! A page marked `MADV_WIPEONFORK` reads as zero in every child that got a copy of the address
//! space, however it was made: `fork`, `_Fork`, a raw `clone`. A child that shares the address
//! space (`vfork`, `CLONE_VM`) shares the heap too, and rightly counts as the same process.

use crate::syscall::{self, Errno, advice};
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// A word that keeps its value in the process that made it and is 0 in its children.
pub struct ForkWord {
    page: AtomicUsize,
}

const PAGE_BYTES: usize = 4096;

impl ForkWord {
    /// No page yet: the word is 0.
    pub const fn new() -> Self {
        ForkWord { page: AtomicUsize::new(0) }
    }

    /// Maps and marks the page, if there is none yet, and sets the word.
    ///
    /// # Errors
    /// If there is no memory, or the kernel (before 4.14) cannot wipe on fork.
    pub fn start(&self, value: u32) -> Result<(), Errno> {
        if self.word().is_none() {
            let page = syscall::map_anonymous(PAGE_BYTES)?;
            if let Err(error) = syscall::advise(page, PAGE_BYTES, advice::WIPE_ON_FORK) {
                // SAFETY: nobody else has seen the page.
                unsafe { syscall::unmap(page, PAGE_BYTES) };
                return Err(error);
            }
            self.page.store(page as usize, Ordering::Release);
        }
        if let Some(word) = self.word() {
            word.store(value, Ordering::Release);
        }
        Ok(())
    }

    /// In a forked child: takes the page of the parent's word, which was wiped.
    pub fn take_from(&self, parents: &ForkWord) {
        self.page.store(parents.page.load(Ordering::Acquire), Ordering::Release);
    }

    #[inline(always)]
    fn word(&self) -> Option<&AtomicU32> {
        let page = self.page.load(Ordering::Acquire) as *const AtomicU32;
        // SAFETY: null, or a page that stays mapped for ever, in children too (they see zeros).
        unsafe { page.as_ref() }
    }

    /// Its value; 0 in a process that did not call [`ForkWord::start`] itself.
    #[inline(always)]
    pub fn get(&self) -> u32 {
        self.word().map_or(0, |word| word.load(Ordering::Relaxed))
    }

    /// Whether it has this value, which is not 0.
    #[inline(always)]
    pub fn is(&self, value: u32) -> bool {
        self.word().is_some_and(|word| word.load(Ordering::Relaxed) == value)
    }

    /// Changes it, if it has the value `from`.
    pub fn change(&self, from: u32, to: u32) -> bool {
        let change = |word: &AtomicU32| word.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        self.word().is_some_and(change)
    }

    /// Sets it. Returns what it was; `None` if there is no word.
    pub fn swap(&self, to: u32) -> Option<u32> {
        self.word().map(|word| word.swap(to, Ordering::AcqRel))
    }

    /// Waits until it is no longer `expected`, or `milliseconds` have passed, or for no reason.
    pub fn wait(&self, expected: u32, milliseconds: u32) {
        if let Some(word) = self.word() {
            syscall::futex_wait(word, expected, milliseconds);
        }
    }

    /// Wakes all who wait.
    pub fn wake(&self) {
        if let Some(word) = self.word() {
            syscall::futex_wake(word);
        }
    }

    /// Makes it 0 in this process.
    pub fn clear(&self) {
        if let Some(word) = self.word() {
            word.store(0, Ordering::Release);
        }
    }
}

impl Default for ForkWord {
    fn default() -> Self {
        Self::new()
    }
}
