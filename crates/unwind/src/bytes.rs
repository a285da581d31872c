//! Reading numbers out of a memory segment. Every read is checked; running out is `None`.

/// How an address is stored in `.eh_frame` and `.eh_frame_hdr` (`DW_EH_PE_*`).
pub(crate) mod encoding {
    /// Bits that say how many bytes the number takes and whether it is signed.
    pub(crate) const FORMAT_MASK: u8 = 0x0f;
    /// Bits that say to what the number is added.
    pub(crate) const BASE_MASK: u8 = 0x70;
    /// The number is added to nothing.
    pub(crate) const ABSOLUTE: u8 = 0x00;
    /// The number is added to its own address.
    pub(crate) const TO_ITSELF: u8 = 0x10;
    /// The number is added to the data base: in `.eh_frame_hdr`, that section's address.
    pub(crate) const TO_DATA: u8 = 0x30;
    /// An absolute number, preceded by padding up to its natural alignment.
    pub(crate) const ALIGNED: u8 = 0x50;
    /// The number is the address of the address.
    pub(crate) const INDIRECT: u8 = 0x80;
    /// There is no number.
    pub(crate) const OMITTED: u8 = 0xff;
}

/// A position in a segment, and the end behind which nothing is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Cursor<'a> {
    /// Reads `segment` from `position` on, up to `end`.
    pub(crate) fn new(segment: &'a [u8], position: usize, end: usize) -> Option<Self> {
        let bytes = segment.get(..end)?;
        if position > end {
            return None;
        }
        Some(Self { bytes, position })
    }

    pub(crate) fn position(&self) -> usize {
        self.position
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.position >= self.bytes.len()
    }

    /// The next `count` bytes.
    pub(crate) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let end = self.position.checked_add(count)?;
        let taken = self.bytes.get(self.position..end)?;
        self.position = end;
        Some(taken)
    }

    /// Moves by a signed distance, as branches in expressions do.
    pub(crate) fn jump(&mut self, distance: i16) -> Option<()> {
        let target = self.position.checked_add_signed(isize::from(distance))?;
        if target > self.bytes.len() {
            return None;
        }
        self.position = target;
        Some(())
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn i32(&mut self) -> Option<i32> {
        self.array().map(i32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// An unsigned number in groups of seven bits. More than 64 bits are refused.
    pub(crate) fn uleb(&mut self) -> Option<u64> {
        let mut value = 0u64;
        let mut shift = 0u32;
        loop {
            let byte = self.u8()?;
            let group = u64::from(byte & 0x7f);
            // The tenth byte holds bit 63 only.
            if shift > 63 || (shift == 63 && group > 1) {
                return None;
            }
            value |= group << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
            shift = shift.wrapping_add(7);
        }
    }

    /// A signed number in groups of seven bits. More than 64 bits are refused.
    pub(crate) fn sleb(&mut self) -> Option<i64> {
        let mut value = 0u64;
        let mut shift = 0u32;
        loop {
            let byte = self.u8()?;
            let group = u64::from(byte & 0x7f);
            if shift > 63 || (shift == 63 && group != 0 && group != 0x7f) {
                return None;
            }
            value |= group << shift;
            shift = shift.wrapping_add(7);
            if byte & 0x80 == 0 {
                if shift < 64 && byte & 0x40 != 0 {
                    value |= u64::MAX << shift;
                }
                return Some(value.cast_signed());
            }
        }
    }

    /// The bytes up to the next zero byte, which is skipped.
    pub(crate) fn string(&mut self) -> Option<&'a [u8]> {
        let rest = self.bytes.get(self.position..)?;
        let length = rest.iter().position(|&byte| byte == 0)?;
        let string = self.take(length)?;
        self.u8()?;
        Some(string)
    }

    /// A number in the format part of `encoding`, sign-extended where the format is signed.
    pub(crate) fn number(&mut self, encoding: u8) -> Option<u64> {
        Some(match encoding & encoding::FORMAT_MASK {
            0x00 | 0x04 | 0x0c => self.u64()?,
            0x01 => self.uleb()?,
            0x02 => u64::from(self.u16()?),
            0x03 => u64::from(self.u32()?),
            0x09 => self.sleb()?.cast_unsigned(),
            0x0a => i64::from(self.u16()?.cast_signed()).cast_unsigned(),
            0x0b => i64::from(self.i32()?).cast_unsigned(),
            _ => return None,
        })
    }

    /// An address in `encoding`.
    ///
    /// Refused are the bases that x86-64 does not use, and indirect addresses, which could only
    /// be followed in writable memory: neither occurs where unwinding needs the value.
    pub(crate) fn pointer(&mut self, encoding: u8, segment_address: u64, data_base: Option<u64>) -> Option<u64> {
        if encoding & encoding::INDIRECT != 0 {
            return None;
        }
        let base = match encoding & encoding::BASE_MASK {
            encoding::ABSOLUTE => 0,
            encoding::TO_ITSELF => segment_address.wrapping_add(self.position as u64),
            encoding::TO_DATA => data_base?,
            _ => return None,
        };
        Some(self.number(encoding)?.wrapping_add(base))
    }

    /// Passes over an address whose value is of no interest, whatever its base.
    pub(crate) fn skip_pointer(&mut self, encoding: u8, segment_address: u64) -> Option<()> {
        if encoding == encoding::OMITTED {
            return Some(());
        }
        if encoding & encoding::BASE_MASK == encoding::ALIGNED {
            let address = segment_address.wrapping_add(self.position as u64);
            // At most seven bytes, so the narrowing loses nothing.
            let padding = (address.wrapping_neg() & 7) as usize;
            self.take(padding)?;
            self.take(8)?;
            return Some(());
        }
        self.number(encoding).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cursor(bytes: &[u8]) -> Cursor<'_> {
        Cursor::new(bytes, 0, bytes.len()).unwrap()
    }

    #[test]
    fn numbers_in_groups_of_seven_bits() {
        assert_eq!(cursor(&[0x02]).uleb(), Some(2));
        assert_eq!(cursor(&[0xe5, 0x8e, 0x26]).uleb(), Some(624_485));
        assert_eq!(cursor(&[0x7f]).sleb(), Some(-1));
        assert_eq!(cursor(&[0x80, 0x7f]).sleb(), Some(-128));
        assert_eq!(cursor(&[0x80]).uleb(), None);
        let most = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(cursor(&most).uleb(), Some(u64::MAX));
        let least = [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x7f];
        assert_eq!(cursor(&least).sleb(), Some(i64::MIN));
        assert_eq!(cursor(&[0x80; 12]).uleb(), None);
    }

    #[test]
    fn pointers_are_added_to_their_base() {
        let minus_four = [0xfc, 0xff, 0xff, 0xff];
        assert_eq!(cursor(&minus_four).pointer(0x1b, 0x1000, None), Some(0xffc));
        assert_eq!(cursor(&minus_four).pointer(0x3b, 0, Some(0x2000)), Some(0x1ffc));
        assert_eq!(cursor(&minus_four).pointer(0x3b, 0, None), None);
        assert_eq!(cursor(&minus_four).pointer(0x9b, 0, None), None);
        let mut aligned = cursor(&[0; 16]);
        assert_eq!(aligned.skip_pointer(0x50, 0x1003), Some(()));
        assert_eq!(aligned.position(), 13);
    }
}
