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

    /// A second word, which is 0 in children, too, and before it was set. Without a page nothing is kept.
    pub fn note(&self, value: u32) {
        if let Some(word) = self.second() {
            word.store(value, Ordering::Release);
        }
    }

    /// What the second word holds.
    pub fn noted(&self) -> u32 {
        self.second().map_or(0, |word| word.load(Ordering::Acquire))
    }

    fn second(&self) -> Option<&AtomicU32> {
        let page = self.page.load(Ordering::Acquire) as *const [AtomicU32; 2];
        // SAFETY: as of the first word.
        unsafe { page.as_ref() }.map(|[_, second]| second)
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

/// Whose memory this is: told apart from a child that only borrows it (`vfork`), and must not speak for its parent.
pub struct Owner {
    pid: ForkWord,
}

impl Owner {
    /// Nobody's yet.
    pub const fn new() -> Self {
        Owner { pid: ForkWord::new() }
    }

    /// It is the calling process's.
    ///
    /// # Errors
    /// As of [`ForkWord::start`]; then nobody is taken for a child that borrows it.
    pub fn start(&self) -> Result<(), Errno> {
        self.pid.start(syscall::getpid())
    }

    /// Whether the calling process only borrows it. A forked child has a copy of its own, from its first question on.
    pub fn is_borrowed(&self) -> bool {
        let pid = syscall::getpid();
        match self.pid.get() {
            0 => {
                self.pid.swap(pid);
                false
            }
            // 0: a filter of system calls keeps it from us.
            owner => pid != 0 && owner != pid,
        }
    }
}

impl Default for Owner {
    fn default() -> Self {
        Self::new()
    }
}

/// Counts of threads that are at something at this moment: none in a forked child, which has not those threads.
pub struct ForkCounts<const COUNT: usize> {
    page: AtomicUsize,
    /// Where no page can be had.
    here: [AtomicU32; COUNT],
}

impl<const COUNT: usize> ForkCounts<COUNT> {
    /// All of them 0.
    pub const fn new() -> Self {
        const { assert!(COUNT <= PAGE_BYTES / size_of::<AtomicU32>()) };
        ForkCounts { page: AtomicUsize::new(0), here: [const { AtomicU32::new(0) }; COUNT] }
    }

    /// The count of this number.
    pub fn at(&self, number: usize) -> Option<&AtomicU32> {
        let page = match self.page.load(Ordering::Acquire) {
            0 => self.map(),
            page => page,
        };
        match page {
            Self::NONE => self.here.get(number),
            // SAFETY: a page that stays mapped for ever, in children too (they see zeros), and has room for so many.
            page => (number < COUNT).then(|| unsafe { &*(page as *const AtomicU32).add(number) }),
        }
    }

    /// No page's address.
    const NONE: usize = 1;

    #[cold]
    fn map(&self) -> usize {
        let page = syscall::map_anonymous(PAGE_BYTES).ok();
        let wiped = page.filter(|page| syscall::advise(*page, PAGE_BYTES, advice::WIPE_ON_FORK).is_ok());
        let found = wiped.map_or(Self::NONE, |page| page as usize);
        let known = self.page.compare_exchange(0, found, Ordering::AcqRel, Ordering::Acquire);
        if let Some(page) = page.filter(|_| known.is_err() || wiped.is_none()) {
            // SAFETY: nobody else has seen the page.
            unsafe { syscall::unmap(page, PAGE_BYTES) };
        }
        known.err().unwrap_or(found)
    }

    /// One thread more is at it.
    pub fn enter(&self, number: usize) {
        if let Some(count) = self.at(number) {
            count.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// One fewer: it may have come there before the fork, when it counted elsewhere.
    pub fn leave(&self, number: usize) {
        if let Some(count) = self.at(number) {
            let _ = count.fetch_update(Ordering::SeqCst, Ordering::Relaxed, |count| count.checked_sub(1));
        }
    }

    /// How many are at it.
    pub fn get(&self, number: usize) -> u32 {
        self.at(number).map_or(0, |count| count.load(Ordering::SeqCst))
    }
}

impl<const COUNT: usize> Default for ForkCounts<COUNT> {
    fn default() -> Self {
        Self::new()
    }
}
