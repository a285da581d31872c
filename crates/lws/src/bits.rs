//! Bits in a row, the most significant of each byte first.

/// Writes them. What has no room is left out and counted, so that the end says how much room it takes.
pub(crate) struct Writer<'o> {
    out: &'o mut [u8],
    at_bit: usize,
}

impl<'o> Writer<'o> {
    pub(crate) fn new(out: &'o mut [u8]) -> Writer<'o> {
        Writer { out, at_bit: 0 }
    }

    /// The lowest `count` bits of `value`, 32 at most.
    #[inline(never)]
    pub(crate) fn put(&mut self, value: u32, count: u32) {
        let mut left = count.min(32);
        while left != 0 {
            let (place, used) = (self.at_bit >> 3, (self.at_bit & 7) as u32);
            let free = 8u32.saturating_sub(used);
            let taken = free.min(left);
            left = left.saturating_sub(taken);
            let part = value.wrapping_shr(left) & mask(taken);
            if let Some(byte) = self.out.get_mut(place) {
                let part = part.wrapping_shl(free.saturating_sub(taken)) as u8;
                *byte = if used == 0 { part } else { *byte | part };
            }
            self.at_bit = self.at_bit.saturating_add(taken as usize);
        }
    }

    /// Fills the last byte with zeros; how many bytes there are, or would be.
    pub(crate) fn end(self) -> usize {
        self.at_bit.div_ceil(8)
    }
}

/// The lowest `count` bits, below 32.
const fn mask(count: u32) -> u32 {
    1u32.wrapping_shl(count).wrapping_sub(1)
}

/// Reads them.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'b> {
    bytes: &'b [u8],
    at_bit: usize,
}

impl<'b> Reader<'b> {
    pub(crate) fn new(bytes: &'b [u8]) -> Reader<'b> {
        Reader { bytes, at_bit: 0 }
    }

    /// Bits that were read.
    pub(crate) fn at_bit(&self) -> usize {
        self.at_bit
    }

    /// The next `count` bits, 64 at most; `None` if there are not so many.
    #[inline]
    pub(crate) fn get(&mut self, count: u32) -> Option<u64> {
        let (place, skipped) = (self.at_bit >> 3, (self.at_bit & 7) as u32);
        let last = skipped.saturating_add(count);
        let value = match self.bytes.get(place..).and_then(|rest| rest.first_chunk()) {
            // The first bit of these is at the top; what stands behind the last one goes.
            Some(eight) if last <= 64 && count != 0 => {
                let word = u64::from_be_bytes(*eight);
                word.wrapping_shl(skipped).wrapping_shr(64u32.saturating_sub(count))
            }
            _ => self.slowly(count)?,
        };
        self.at_bit = self.at_bit.saturating_add(count as usize);
        Some(value)
    }

    fn slowly(&self, count: u32) -> Option<u64> {
        let mut value = 0;
        for bit in 0..count as usize {
            value = value << 1 | u64::from(self.bit(self.at_bit.saturating_add(bit))?);
        }
        Some(value)
    }

    fn bit(&self, at_bit: usize) -> Option<u8> {
        let byte = *self.bytes.get(at_bit >> 3)?;
        Some(byte >> (7 ^ at_bit & 7) & 1)
    }

    /// Whether only filler bits are left, in a byte that was begun, and whether they are all 0.
    pub(crate) fn rest(&self) -> Rest {
        let bits = self.bytes.len().saturating_mul(8).saturating_sub(self.at_bit);
        if bits >= 8 {
            return Rest::Bytes;
        }
        match self.slowly(bits as u32) {
            Some(0) | None => Rest::Filler,
            Some(_) => Rest::SetBits,
        }
    }
}

/// What stands behind all that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// Nothing, or zeros up to the end of the byte.
    Filler,
    /// Ones among them.
    SetBits,
    /// More bytes.
    Bytes,
}
