//! Parts of the bitmap of dressed blocks that come into being as they are needed.

use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// So many words of the bitmap.
pub type Leaf<const WORDS: usize> = [AtomicU32; WORDS];

/// Where leaves come from: memory of the caller's.
pub trait Pages<const WORDS: usize> {
    /// A leaf that nobody else has, all zeros, for good; `None` if there is no more.
    fn take(&self) -> Option<&'static Leaf<WORDS>>;

    /// Has back one that was not needed: another thread was faster. It is all zeros.
    fn give_back(&self, leaf: &'static Leaf<WORDS>);
}

/// The place of one leaf: empty, and then full for good.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct LeafSlot<const WORDS: usize>(AtomicPtr<Leaf<WORDS>>);

impl<const WORDS: usize> LeafSlot<WORDS> {
    pub(crate) const fn empty() -> Self {
        Self(AtomicPtr::new(core::ptr::null_mut()))
    }

    /// The leaf, if there is one.
    pub(crate) fn get(&self) -> Option<&'static Leaf<WORDS>> {
        // SAFETY: null or what `get_or_take` stored, which is a reference for good to words that all may share. Acquire pairs
        // with its release: whoever sees the leaf sees what made it zeros.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    /// Writes what is there, if that is nothing.
    pub(crate) fn touch(&self) {
        let null = core::ptr::null_mut();
        let _ = self.0.compare_exchange(null, null, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// The leaf, or a new one.
    pub(crate) fn get_or_take(&self, pages: &impl Pages<WORDS>) -> Option<&'static Leaf<WORDS>> {
        if let Some(leaf) = self.get() {
            return Some(leaf);
        }
        let new = pages.take()?;
        let stored = core::ptr::from_ref(new).cast_mut();
        match self.0.compare_exchange(core::ptr::null_mut(), stored, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Some(new),
            Err(_) => {
                pages.give_back(new);
                self.get()
            }
        }
    }
}
