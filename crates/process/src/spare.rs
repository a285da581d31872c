//! Mappings that a forked child uses again.
//!
//! A room with `unsafe`: gives memory back that was mapped.

use crate::ledger::PAGE_BYTES;
use crate::private::{Alone, PRESENT_BYTES_MAX};
use core::ops::Range;
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicUsize, Ordering};
use heapledger_linux::syscall::{self, advice};

/// Memory that a forked child has of its parent's tables, all zeros by now. It will need the same: to have that costs the kernel less than to
/// take it away and to give it again.
pub(crate) struct Spare {
    address: AtomicUsize,
    bytes: AtomicUsize,
}

/// Zeros: none.
static SPARE: [Spare; 8] = [const { Spare { address: AtomicUsize::new(0), bytes: AtomicUsize::new(0) } }; 8];

impl Spare {
    /// Less is [all there](PRESENT_BYTES_MAX) at once; more would be address space in vain.
    const BYTES: Range<usize> = PRESENT_BYTES_MAX.wrapping_add(1)..(1 << 20) + 1;

    /// Keeps the memory for [`Spare::take`], or gives it back.
    ///
    /// # Safety
    /// It was mapped by us with so many bytes, and nobody uses it any more, nor will.
    pub(crate) unsafe fn put(address: *mut u8, bytes: usize, _: &Alone) {
        let vacant = SPARE.iter().find(|spare| spare.address.load(Ordering::Relaxed) == 0);
        // SAFETY: the caller's promise.
        let is_zeros =
            Self::BYTES.contains(&bytes) && unsafe { syscall::change(address, bytes, advice::DONT_NEED) }.is_ok();
        match vacant.filter(|_| is_zeros) {
            Some(spare) => {
                spare.bytes.store(bytes, Ordering::Relaxed);
                spare.address.store(address as usize, Ordering::Release);
            }
            // SAFETY: the caller's promise.
            None => unsafe { syscall::unmap(address, bytes) },
        }
    }

    /// Memory of exactly so many bytes. Only who is alone puts something there: what a place has been seen to hold it holds until it is taken.
    pub(crate) fn take(bytes: usize) -> Option<*mut u8> {
        let holds =
            |spare: &&Spare| spare.address.load(Ordering::Acquire) != 0 && spare.bytes.load(Ordering::Relaxed) == bytes;
        let taken = SPARE.iter().filter(holds).map(|spare| spare.address.swap(0, Ordering::AcqRel));
        taken.into_iter().find(|address| *address != 0).map(|address| address as *mut u8)
    }
}

/// A page that stays for good, in forked children, too.
pub(crate) struct KeptPage(AtomicPtr<[AtomicU8; PAGE_BYTES]>);

impl KeptPage {
    /// Not mapped.
    pub(crate) const fn new() -> KeptPage {
        KeptPage(AtomicPtr::new(core::ptr::null_mut()))
    }

    /// Its bytes; of a fresh one `when_fresh` is told the address. `None` if there is no memory. For one thread.
    pub(crate) fn get(&self, when_fresh: impl FnOnce(*mut u8)) -> Option<&'static [AtomicU8; PAGE_BYTES]> {
        if self.0.load(Ordering::Relaxed).is_null() {
            let fresh = syscall::map_anonymous(PAGE_BYTES).ok()?.cast::<[AtomicU8; PAGE_BYTES]>();
            when_fresh(fresh.cast());
            self.0.store(fresh, Ordering::Relaxed);
        }
        // SAFETY: null, or mapped for that many bytes, and never unmapped.
        unsafe { self.0.load(Ordering::Relaxed).as_ref() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_up_is_had_again_as_zeros() {
        const BYTES: usize = 7 * 4096;
        let first = syscall::map_anonymous(BYTES).expect("memory");
        // SAFETY: fresh memory of our own.
        unsafe { first.write(7) };
        // SAFETY: mapped with so many bytes, and only this test asks for as many.
        unsafe { Spare::put(first, BYTES, &Alone::new()) };
        assert_eq!((Spare::take(BYTES + 4096), Spare::take(BYTES)), (None, Some(first)));
        // SAFETY: it is ours again.
        assert_eq!(unsafe { first.read() }, 0);
        assert_eq!(Spare::take(BYTES), None);
    }
}
