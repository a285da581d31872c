//! Numbers of few bytes if they are small: seven bits in each, the lowest first.

/// Bytes being written; what has no room is left out, and that is remembered.
pub(crate) struct Out<'o> {
    bytes: &'o mut [u8],
    pub(crate) at: usize,
    pub(crate) full: bool,
}

impl<'o> Out<'o> {
    pub(crate) fn new(bytes: &'o mut [u8], at: usize) -> Out<'o> {
        Out { bytes, at, full: false }
    }

    #[inline(always)]
    pub(crate) fn byte(&mut self, byte: u8) {
        match self.bytes.get_mut(self.at) {
            Some(place) => {
                *place = byte;
                self.at = self.at.wrapping_add(1);
            }
            None => self.full = true,
        }
    }

    #[inline(never)]
    pub(crate) fn number(&mut self, mut value: u32) {
        // In registers: each byte of an event is written here.
        let Some(places) = self.bytes.get_mut(self.at..) else { return self.full = true };
        let mut written = 0usize;
        for place in places {
            written = written.wrapping_add(1);
            if value < 0x80 {
                *place = value as u8;
                return self.at = self.at.wrapping_add(written);
            }
            *place = value as u8 | 0x80;
            value >>= 7;
        }
        self.full = true;
    }

    /// How far a value is from another, in either direction.
    pub(crate) fn step(&mut self, from: u32, to: u32) {
        let step = to.wrapping_sub(from) as i32;
        self.number((step << 1 ^ step >> 31) as u32);
    }
}

/// Bytes being read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct In<'b> {
    pub(crate) bytes: &'b [u8],
}

impl<'b> In<'b> {
    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(*first)
    }

    pub(crate) fn number(&mut self) -> Option<u32> {
        let mut value = 0u32;
        for place in 0..5u32 {
            let byte = self.byte()?;
            value |= u32::from(byte & 0x7f).wrapping_shl(place.wrapping_mul(7));
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    pub(crate) fn step(&mut self, from: u32) -> Option<u32> {
        let coded = self.number()?;
        let step = (coded >> 1) ^ (coded & 1).wrapping_neg();
        Some(from.wrapping_add(step))
    }

    pub(crate) fn take(&mut self, count: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(count)?;
        self.bytes = rest;
        Some(taken)
    }
}
