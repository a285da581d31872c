//! Text piece by piece, for whoever takes it.

/// Who takes text.
pub trait Sink {
    /// Takes a piece. False: it takes no more.
    fn take(&mut self, text: &[u8]) -> bool;
}

/// Bytes that are gathered before they go out.
const BYTES: usize = 256;

/// Gathers text, and hands it on a few lines at a time.
pub struct Writer<'a, S: Sink> {
    sink: &'a mut S,
    bytes: [u8; BYTES],
    used: usize,
    is_refused: bool,
}

impl<'a, S: Sink> Writer<'a, S> {
    /// Nothing yet.
    pub fn new(sink: &'a mut S) -> Self {
        Writer { sink, bytes: [0; BYTES], used: 0, is_refused: false }
    }

    /// Adds some.
    pub fn push(&mut self, text: &[u8]) -> &mut Self {
        for byte in text {
            if self.used == BYTES {
                self.hand_on();
            }
            if let Some(place) = self.bytes.get_mut(self.used) {
                *place = *byte;
                self.used = self.used.saturating_add(1);
            }
        }
        self
    }

    fn hand_on(&mut self) {
        let text = self.bytes.get(..self.used).unwrap_or(&[]);
        self.is_refused |= !text.is_empty() && !self.is_refused && !self.sink.take(text);
        self.used = 0;
    }

    /// Whether nothing more is taken.
    pub fn is_refused(&self) -> bool {
        self.is_refused
    }

    /// A number in decimal, with blanks before it up to so many columns.
    pub fn number(&mut self, number: u64, columns: usize) -> &mut Self {
        self.digits(number, 10, (columns, b' '), b'a')
    }

    /// Text with blanks before it up to so many columns.
    pub fn right(&mut self, text: &[u8], columns: usize) -> &mut Self {
        // Bytes that go on with a character take no column.
        let taken = text.iter().filter(|byte| **byte & 0xC0 != 0x80).count();
        for _ in taken..columns {
            self.push(b" ");
        }
        self.push(text)
    }

    /// An address: `0x` and eight digits, or more if it has more.
    pub fn address(&mut self, address: u64) -> &mut Self {
        self.push(b"0x").digits(address, 16, (8, b'0'), b'a')
    }

    /// Eight digits or more, letters in upper case.
    pub fn upper_hex(&mut self, number: u64) -> &mut Self {
        self.push(b"0x").digits(number, 16, (8, b'0'), b'A')
    }

    fn digits(&mut self, number: u64, base: u64, (columns, fill): (usize, u8), ten: u8) -> &mut Self {
        let mut digits = [fill; 32];
        let (mut rest, mut columns_used) = (number, 0usize);
        for place in digits.iter_mut().rev() {
            let digit = rest.checked_rem(base).unwrap_or(0) as u8;
            *place = if digit < 10 { b'0'.wrapping_add(digit) } else { ten.wrapping_add(digit).wrapping_sub(10) };
            rest = rest.checked_div(base).unwrap_or(0);
            columns_used = columns_used.saturating_add(1);
            if rest == 0 {
                break;
            }
        }
        let shown = columns_used.max(columns).min(digits.len());
        let first = digits.len().saturating_sub(shown);
        self.push(digits.get(first..).unwrap_or(&[]))
    }

    /// That is all. False if not all of it was taken.
    pub fn end(mut self) -> bool {
        self.hand_on();
        !self.is_refused
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::string::String;
    use std::vec::Vec;

    /// Takes all, or so many pieces.
    #[derive(Default)]
    pub(crate) struct Taken {
        pub(crate) bytes: Vec<u8>,
        pub(crate) pieces_max: Option<usize>,
        pieces: usize,
    }

    impl Sink for Taken {
        fn take(&mut self, text: &[u8]) -> bool {
            self.pieces += 1;
            self.bytes.extend_from_slice(text);
            self.pieces_max.is_none_or(|most| self.pieces < most)
        }
    }

    /// What is written.
    pub(crate) fn written(write: impl FnOnce(&mut Writer<Taken>)) -> String {
        let mut taken = Taken::default();
        let mut writer = Writer::new(&mut taken);
        write(&mut writer);
        assert!(writer.end());
        String::from_utf8(taken.bytes).expect("UTF-8")
    }

    #[test]
    fn numbers_and_columns() {
        let text = written(|text| {
            text.number(0, 0).push(b",").number(1_234_567, 3).push(b",").number(7, 5).push(b",");
            text.right("äb".as_bytes(), 4).push(b",").right(b"abc", 2).push(b",");
            text.address(0).push(b",").address(0x7fff_0000_1234).push(b",").upper_hex(0xab).push(b",");
            text.number(u64::MAX, 0);
        });
        assert_eq!(text, "0,1234567,    7,  äb,abc,0x00000000,0x7fff00001234,0x000000AB,18446744073709551615");
    }

    #[test]
    fn long_text_goes_out_in_pieces_until_nobody_takes_it() {
        assert_eq!(written(|text| (0..1000).for_each(|_| _ = text.push(b"abc"))).len(), 3000);
        let mut taken = Taken { pieces_max: Some(2), ..Taken::default() };
        let mut writer = Writer::new(&mut taken);
        (0..1000).for_each(|_| _ = writer.push(b"abc"));
        assert!(!writer.end());
        assert_eq!(taken.bytes.len(), 2 * BYTES);
    }
}
