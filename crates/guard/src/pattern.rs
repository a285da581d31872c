//! Sixteen bytes of memory at once: stored, and compared with one byte.
//!
//! Where the processor has vectors they are used, from within assembly: a volatile access, which memory that the program may write to at
//! any time has to have, is one byte at a time otherwise.

/// What is read and written at once, at any address.
pub(crate) const PATTERN_BYTES: u64 = 16;

/// Starts to load what lies there, of this process, into the cache. Does nothing where nothing is mapped, or where there is no cache.
#[inline(always)]
pub(crate) fn fetch_soon<T>(place: *const T) {
    #[cfg(all(target_arch = "x86_64", target_feature = "sse"))]
    // SAFETY: a hint; it reads nothing and cannot fault.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(place.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", target_feature = "sse")))]
    let _ = place;
}

#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
use core::arch::x86_64::__m128i as Sixteen;
#[cfg(not(all(target_arch = "x86_64", target_feature = "sse2")))]
type Sixteen = [u8; PATTERN_BYTES as usize];

/// One byte, sixteen times.
#[derive(Clone, Copy)]
pub(crate) struct Pattern(Sixteen);

#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
impl Pattern {
    #[inline(always)]
    pub(crate) fn of(byte: u8) -> Self {
        // SAFETY: sse2 is there.
        Self(unsafe { core::arch::x86_64::_mm_set1_epi8(byte as i8) })
    }

    /// # Safety
    /// As of a volatile write of so many bytes.
    #[inline(always)]
    pub(crate) unsafe fn store(self, address: usize) {
        // SAFETY: as the caller says; the compiler does not look inside, so it supposes nothing of what others do there.
        unsafe {
            core::arch::asm!("movdqu [{0}], {1}", in(reg) address, in(xmm_reg) self.0, options(nostack, preserves_flags));
        }
    }

    /// Whether other bytes lie there.
    ///
    /// # Safety
    /// As of a volatile read of so many bytes.
    #[inline(always)]
    pub(crate) unsafe fn differs(self, address: usize) -> bool {
        const ALL_SAME: u32 = 0xFFFF;
        let same: u32;
        // SAFETY: as in `store`.
        unsafe {
            core::arch::asm!(
                "movdqu {0}, [{1}]",
                "pcmpeqb {0}, {2}",
                "pmovmskb {3:e}, {0}",
                out(xmm_reg) _,
                in(reg) address,
                in(xmm_reg) self.0,
                lateout(reg) same,
                options(nostack, readonly, preserves_flags),
            );
        }
        same != ALL_SAME
    }
}

#[cfg(not(all(target_arch = "x86_64", target_feature = "sse2")))]
impl Pattern {
    pub(crate) fn of(byte: u8) -> Self {
        Self([byte; PATTERN_BYTES as usize])
    }

    /// # Safety
    /// As of a volatile write of so many bytes.
    pub(crate) unsafe fn store(self, address: usize) {
        let place: *mut Sixteen = core::ptr::with_exposed_provenance_mut(address);
        // SAFETY: as the caller says.
        unsafe { place.write_volatile(self.0) };
    }

    /// Whether other bytes lie there.
    ///
    /// # Safety
    /// As of a volatile read of so many bytes.
    pub(crate) unsafe fn differs(self, address: usize) -> bool {
        let place: *const Sixteen = core::ptr::with_exposed_provenance(address);
        // SAFETY: as the caller says.
        unsafe { place.read_volatile() != self.0 }
    }
}
