//! Words of structures that somebody else keeps in this process, and of which only their layout is known.

use crate::syscall;
use core::sync::atomic::{AtomicU64, Ordering};

/// No such structure lies in the first page, and none in the kernel's half.
const ADDRESSES: core::ops::Range<u64> = 0x1000..1 << 47;

/// Reads them.
#[derive(Clone, Copy, Debug)]
pub struct Peek {
    asks: bool,
}

impl Peek {
    /// The kernel is asked of each word whether it can be read: nothing that is there is believed.
    pub const fn asking() -> Peek {
        Peek { asks: true }
    }

    /// Only what can be no address is not read.
    ///
    /// # Safety
    /// Where it is asked for words, there is a structure of the layout that is believed, and stays there meanwhile.
    pub const unsafe fn trusting() -> Peek {
        Peek { asks: false }
    }

    /// The word at `address`, which must be aligned; `None` if it cannot be read.
    #[inline(always)]
    pub fn word(self, address: u64) -> Option<u64> {
        if address & 7 != 0 || !ADDRESSES.contains(&address) || self.asks && !syscall::readable(address as usize) {
            return None;
        }
        // SAFETY: aligned, and it can be read: the kernel says so, or whoever made this. Others may write to it meanwhile, so it is
        // read as an atomic word.
        Some(unsafe { AtomicU64::from_ptr(address as *mut u64) }.load(Ordering::Relaxed))
    }

    /// The four bytes at `address`, a multiple of 4.
    #[inline(always)]
    pub fn half(self, address: u64) -> Option<u32> {
        let word = self.word(address & !7)?;
        Some((word >> ((address & 4) << 3)) as u32)
    }

    /// The byte at `address`.
    #[inline(always)]
    pub fn byte(self, address: u64) -> Option<u8> {
        let word = self.word(address & !7)?;
        Some((word >> ((address & 7) << 3)) as u8)
    }
}
