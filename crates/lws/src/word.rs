//! Values of 32 and of 64 bits, and what the original makes of those from 2^31 on.

/// How wide a value is: that of whoever decodes decides what comes of values from 2^31 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// 32 bits: every value is as it was.
    W32,
    /// 64 bits, as the original's tool: bit 31 of a value fills all above.
    W64,
}

impl Width {
    /// A number of which the bits from 32 on do not count if this is 32.
    pub(crate) const fn fit(self, value: u64) -> u64 {
        match self {
            Width::W32 => value & 0xffff_ffff,
            Width::W64 => value,
        }
    }
}

/// The values from here on have no faithful form in 64-bit builds of the original.
pub(crate) const HIGH: u64 = 1 << 31;

mod sealed {
    pub trait Sealed {}
    impl Sealed for u32 {}
    impl Sealed for u64 {}
}

/// A value of a blob: `u32` or `u64`.
pub trait Word: Copy + Ord + sealed::Sealed {
    /// Whether values from 2^31 on come back.
    const KEEPS_HIGH: bool;
    /// Significant bits; 1 for 0.
    fn significant(self) -> u32;
    /// What is written of the value: its 31 lowest bits, and above them whether it is 2^31 or more. Of a wide value the
    /// original writes this twice, one behind the other.
    fn pattern(self) -> u32;
    /// How far apart the two are.
    fn distance(self, other: Self) -> Self;
    /// As 64 bits.
    fn wide(self) -> u64;
}

impl Word for u32 {
    const KEEPS_HIGH: bool = true;

    fn significant(self) -> u32 {
        u32::BITS.saturating_sub((self | 1).leading_zeros())
    }
    fn pattern(self) -> u32 {
        self
    }
    fn distance(self, other: Self) -> Self {
        self.abs_diff(other)
    }
    fn wide(self) -> u64 {
        u64::from(self)
    }
}

impl Word for u64 {
    const KEEPS_HIGH: bool = false;

    fn significant(self) -> u32 {
        u64::BITS.saturating_sub((self | 1).leading_zeros())
    }
    fn pattern(self) -> u32 {
        let low = self as u32 & 0x7fff_ffff;
        if self >= HIGH { low | 1 << 31 } else { low }
    }
    fn distance(self, other: Self) -> Self {
        self.abs_diff(other)
    }
    fn wide(self) -> u64 {
        self
    }
}
