//! Sixteen bytes of memory at once: stored, and compared with one byte.
//!
//! Where the processor has vectors they are used, from within assembly: a volatile access, which memory that the program may write to at
//! any time has to have, is one byte at a time otherwise.

/// What is read and written at once, at any address.
pub(crate) const PATTERN_BYTES: u64 = 16;
/// Where there is more, four of them are a step: there is less to do for the loop.
pub(crate) const STEP_BYTES: u64 = 4 * PATTERN_BYTES;

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

    /// A whole step.
    ///
    /// # Safety
    /// As of a volatile write of so many bytes.
    #[inline(always)]
    pub(crate) unsafe fn store_step(self, address: usize) {
        // SAFETY: as in `store`.
        unsafe {
            core::arch::asm!(
                "movdqu [{0}], {1}",
                "movdqu [{0} + 16], {1}",
                "movdqu [{0} + 32], {1}",
                "movdqu [{0} + 48], {1}",
                in(reg) address,
                in(xmm_reg) self.0,
                options(nostack, preserves_flags),
            );
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

/// In which bits places of sixteen bytes, any number of them, are not as they are to be.
#[derive(Clone, Copy)]
pub(crate) struct Differences(Sixteen);

#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
impl Differences {
    #[inline(always)]
    pub(crate) fn none() -> Self {
        // SAFETY: sse2 is there.
        Self(unsafe { core::arch::x86_64::_mm_setzero_si128() })
    }

    /// Some.
    #[cold]
    pub(crate) fn some() -> Self {
        Self(Pattern::of(u8::MAX).0)
    }

    /// Adds those of sixteen bytes at an address.
    ///
    /// # Safety
    /// As of a volatile read of so many bytes.
    #[inline(always)]
    pub(crate) unsafe fn add(&mut self, pattern: Pattern, address: usize) {
        // SAFETY: as in `Pattern::store`.
        unsafe {
            core::arch::asm!(
                "movdqu {0}, [{1}]",
                "pxor {0}, {2}",
                "por {3}, {0}",
                out(xmm_reg) _,
                in(reg) address,
                in(xmm_reg) pattern.0,
                inout(xmm_reg) self.0,
                options(nostack, readonly, preserves_flags),
            );
        }
    }

    /// Adds those of a whole step.
    ///
    /// # Safety
    /// As of a volatile read of so many bytes.
    #[inline(always)]
    pub(crate) unsafe fn add_step(&mut self, pattern: Pattern, address: usize) {
        // SAFETY: as in `Pattern::store`.
        unsafe {
            core::arch::asm!(
                "movdqu {0}, [{2}]",
                "movdqu {1}, [{2} + 16]",
                "pxor {0}, {3}",
                "pxor {1}, {3}",
                "por {4}, {0}",
                "por {4}, {1}",
                "movdqu {0}, [{2} + 32]",
                "movdqu {1}, [{2} + 48]",
                "pxor {0}, {3}",
                "pxor {1}, {3}",
                "por {4}, {0}",
                "por {4}, {1}",
                out(xmm_reg) _,
                out(xmm_reg) _,
                in(reg) address,
                in(xmm_reg) pattern.0,
                inout(xmm_reg) self.0,
                options(nostack, readonly, preserves_flags),
            );
        }
    }

    /// Whether there are any.
    #[inline(always)]
    pub(crate) fn is_any(self) -> bool {
        const ALL_SAME: i32 = 0xFFFF;
        // SAFETY: sse2 is there.
        unsafe {
            let same = core::arch::x86_64::_mm_cmpeq_epi8(self.0, core::arch::x86_64::_mm_setzero_si128());
            core::arch::x86_64::_mm_movemask_epi8(same) != ALL_SAME
        }
    }
}

#[cfg(not(all(target_arch = "x86_64", target_feature = "sse2")))]
impl Differences {
    pub(crate) fn none() -> Self {
        Self([0; PATTERN_BYTES as usize])
    }

    /// Some.
    pub(crate) fn some() -> Self {
        Self(Pattern::of(u8::MAX).0)
    }

    /// Adds those of sixteen bytes at an address.
    ///
    /// # Safety
    /// As of a volatile read of so many bytes.
    pub(crate) unsafe fn add(&mut self, pattern: Pattern, address: usize) {
        let place: *const Sixteen = core::ptr::with_exposed_provenance(address);
        // SAFETY: as the caller says.
        let found = u128::from_ne_bytes(unsafe { place.read_volatile() });
        let differs = u128::from_ne_bytes(self.0) | (found ^ u128::from_ne_bytes(pattern.0));
        self.0 = differs.to_ne_bytes();
    }

    /// Adds those of a whole step.
    ///
    /// # Safety
    /// As of a volatile read of so many bytes.
    pub(crate) unsafe fn add_step(&mut self, pattern: Pattern, address: usize) {
        for piece in 0..STEP_BYTES / PATTERN_BYTES {
            // SAFETY: as the caller says.
            unsafe { self.add(pattern, address.wrapping_add((piece * PATTERN_BYTES) as usize)) };
        }
    }

    /// Whether there are any.
    pub(crate) fn is_any(self) -> bool {
        self.0 != [0; PATTERN_BYTES as usize]
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

    /// A whole step.
    ///
    /// # Safety
    /// As of a volatile write of so many bytes.
    pub(crate) unsafe fn store_step(self, address: usize) {
        for piece in 0..STEP_BYTES / PATTERN_BYTES {
            // SAFETY: as the caller says.
            unsafe { self.store(address.wrapping_add((piece * PATTERN_BYTES) as usize)) };
        }
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
