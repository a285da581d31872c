//! The word of a ledger, as a type: what is reckoned with it is compiled for it.

use heapledger_format::WordSize;

mod sealed {
    pub trait Sealed {}
    impl Sealed for u32 {}
    impl Sealed for u64 {}
}

/// The word of a ledger, in which its addresses, sizes and counters are kept: `u32` for microcontrollers, `u64` for machines with
/// 64-bit addresses.
pub trait Word: sealed::Sealed + Copy + Ord + core::fmt::Debug + Default + 'static {
    /// Its size.
    const SIZE: WordSize;
    /// Nothing.
    const ZERO: Self;
    /// From a number, whose upper bits are cut off.
    fn cut(number: u64) -> Self;
    /// As a number.
    fn widen(self) -> u64;
    /// With its bytes the other way round.
    #[must_use]
    fn swapped(self) -> Self;
    /// Moved up; not by all bits.
    #[must_use]
    fn up(self, bits: u32) -> Self;
    /// Moved down; not by all bits.
    #[must_use]
    fn down(self, bits: u32) -> Self;
    /// The bits that are set in both.
    #[must_use]
    fn and(self, other: Self) -> Self;
    /// The bits that are set in one or both.
    #[must_use]
    fn or(self, other: Self) -> Self;
    /// The bits that are not set.
    #[must_use]
    fn not(self) -> Self;
    /// The sum, which goes round at the end of a word.
    #[must_use]
    fn plus(self, other: Self) -> Self;
    /// The difference, which goes round at the other end.
    #[must_use]
    fn minus(self, other: Self) -> Self;
}

macro_rules! word {
    ($type:ty, $size:ident) => {
        impl Word for $type {
            const SIZE: WordSize = WordSize::$size;
            const ZERO: Self = 0;
            #[inline(always)]
            fn cut(number: u64) -> Self {
                number as $type
            }
            #[inline(always)]
            fn widen(self) -> u64 {
                self as u64
            }
            #[inline(always)]
            fn swapped(self) -> Self {
                self.swap_bytes()
            }
            #[inline(always)]
            fn up(self, bits: u32) -> Self {
                self.wrapping_shl(bits)
            }
            #[inline(always)]
            fn down(self, bits: u32) -> Self {
                self.wrapping_shr(bits)
            }
            #[inline(always)]
            fn and(self, other: Self) -> Self {
                self & other
            }
            #[inline(always)]
            fn or(self, other: Self) -> Self {
                self | other
            }
            #[inline(always)]
            fn not(self) -> Self {
                !self
            }
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
        }
    };
}

word!(u32, W32);
word!(u64, W64);
