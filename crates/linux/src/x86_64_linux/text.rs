//! Text put together without allocation.
#![forbid(unsafe_code)]

use core::ffi::CStr;

/// Bytes on the stack, always followed by a zero. What does not fit is cut, and remembered.
pub struct Text<const N: usize> {
    bytes: [u8; N],
    length: usize,
    /// Not 0: something was. No `bool`, because an absent text is to be zeros: `None` of something that has a `bool` in it is
    /// a 2 there, and statics that hold one have to lie in the library's file.
    cut: u8,
}

impl<const N: usize> Text<N> {
    /// Nothing.
    pub const fn new() -> Self {
        Text { bytes: [0; N], length: 0, cut: 0 }
    }

    /// Appends bytes; a zero byte would end the text early and is left out.
    pub fn push(&mut self, bytes: &[u8]) -> &mut Self {
        for byte in bytes.iter().copied().filter(|byte| *byte != 0) {
            match self.bytes.get_mut(self.length) {
                Some(place) if self.length.wrapping_add(1) < N => {
                    *place = byte;
                    self.length = self.length.wrapping_add(1);
                }
                _ => self.cut = 1,
            }
        }
        self
    }

    /// Appends a number in decimal.
    pub fn push_number(&mut self, number: u64) -> &mut Self {
        let mut digits = [0u8; 20];
        let mut rest = number;
        let mut first = digits.len();
        for place in digits.iter_mut().rev() {
            *place = b'0'.wrapping_add((rest % 10) as u8);
            rest /= 10;
            first = first.wrapping_sub(1);
            if rest == 0 {
                break;
            }
        }
        self.push(digits.get(first..).unwrap_or(&[]))
    }

    /// Appends a number as 16 hexadecimal digits.
    pub fn push_hex(&mut self, number: u64) -> &mut Self {
        self.push_hex_digits(number, 16)
    }

    /// Appends a number in hexadecimal, with so many digits at least.
    pub fn push_hex_digits(&mut self, number: u64, digits: u32) -> &mut Self {
        let needed = (u64::BITS.wrapping_sub(number.leading_zeros())).div_ceil(4);
        for shift in (0..digits.clamp(needed.max(1), 16)).rev() {
            let digit = (number >> shift.wrapping_mul(4) & 15) as u8;
            self.push(&[if digit < 10 { b'0'.wrapping_add(digit) } else { b'a'.wrapping_add(digit).wrapping_sub(10) }]);
        }
        self
    }

    /// The text.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or(&[])
    }

    /// The text as C wants it.
    pub fn c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or(c"")
    }

    /// Whether something did not fit.
    pub fn is_cut(&self) -> bool {
        self.cut != 0
    }

    /// Back to nothing.
    pub fn clear(&mut self) {
        *self = Text::new();
    }
}

impl<const N: usize> Default for Text<N> {
    fn default() -> Self {
        Self::new()
    }
}

/// Reads a decimal number; `None` unless it is one and fits.
pub fn number(bytes: &[u8]) -> Option<u64> {
    if bytes.is_empty() {
        return None;
    }
    bytes.iter().try_fold(0u64, |value, byte| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit < 10)?;
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// Reads a hexadecimal number; `None` unless it is one and fits.
pub fn hex(bytes: &[u8]) -> Option<u64> {
    if bytes.is_empty() || bytes.len() > 16 {
        return None;
    }
    bytes.iter().try_fold(0u64, |value, byte| {
        let digit = (*byte as char).to_digit(16)?;
        Some(value << 4 | u64::from(digit))
    })
}

/// The text that this one stands for: `%2C` is a comma, and whatever is no such code stands for itself.
pub fn percent_decoded<const N: usize>(value: &[u8]) -> Text<N> {
    let mut decoded = Text::new();
    let mut rest = value;
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        let code = after.get(..2).and_then(hex).filter(|_| *first == b'%');
        match code {
            Some(code) => {
                decoded.push(&[code as u8]);
                rest = after.get(2..).unwrap_or(&[]);
            }
            None => {
                decoded.push(&[*first]);
            }
        }
    }
    decoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_cuts() {
        let mut text = Text::<12>::new();
        text.push(b"a").push_number(0).push_number(1234567);
        assert_eq!(text.bytes(), b"a01234567");
        assert!(!text.is_cut());
        text.push(b"xyz");
        assert_eq!(text.c_str(), c"a01234567xy");
        assert!(text.is_cut());
        assert_eq!(number(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(number(b"18446744073709551616"), None);
        assert_eq!(hex(b"ffffffffffffffff"), Some(u64::MAX));
        assert_eq!((number(b""), number(b"1x"), hex(b"")), (None, None, None));
    }
}
