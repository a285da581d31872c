//! Messages of protocol buffers, as bytes: <https://protobuf.dev/programming-guides/encoding/>.

use std::io::{self, Write};

/// A message as it grows. Fields that hold 0 or nothing are left out, as version 3 of the language has it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Message(Vec<u8>);

impl Message {
    /// A number.
    pub(crate) fn number(&mut self, field: u32, value: u64) -> &mut Self {
        if value != 0 {
            self.always(field, value);
        }
        self
    }

    /// A number, 0 too.
    pub(crate) fn always(&mut self, field: u32, value: u64) -> &mut Self {
        self.varint(u64::from(field) << 3);
        self.varint(value);
        self
    }

    /// A number of 64 bits that is not shortened.
    pub(crate) fn fixed(&mut self, field: u32, value: u64) -> &mut Self {
        if value != 0 {
            self.varint(u64::from(field) << 3 | 1);
            self.0.extend_from_slice(&value.to_le_bytes());
        }
        self
    }

    /// Numbers, packed.
    pub(crate) fn numbers(&mut self, field: u32, values: impl IntoIterator<Item = u64>) -> &mut Self {
        let mut packed = Message::default();
        values.into_iter().for_each(|value| packed.varint(value));
        if !packed.0.is_empty() {
            self.message(field, &packed);
        }
        self
    }

    /// A text; the empty one too, for tables.
    pub(crate) fn text(&mut self, field: u32, text: &str) -> &mut Self {
        self.bytes(field, text.as_bytes())
    }

    /// A message inside.
    pub(crate) fn message(&mut self, field: u32, inner: &Message) -> &mut Self {
        self.bytes(field, &inner.0)
    }

    /// Bytes.
    pub(crate) fn bytes(&mut self, field: u32, bytes: &[u8]) -> &mut Self {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    /// Writes what there is, and begins anew: the fields of the outermost message follow each other.
    pub(crate) fn flush(&mut self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(&self.0)?;
        self.0.clear();
        Ok(())
    }

    /// How many bytes there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_as_the_specification_shows_them() {
        // Its own examples: 150 in field 1, "testing" in field 2, and that message in field 3.
        let mut inner = Message::default();
        assert_eq!(inner.number(1, 150).0, [0x08, 0x96, 0x01]);
        let mut text = Message::default();
        assert_eq!(text.text(2, "testing").0, [0x12, 0x07, 0x74, 0x65, 0x73, 0x74, 0x69, 0x6e, 0x67]);
        let mut outer = Message::default();
        assert_eq!(outer.message(3, &inner).0, [0x1a, 0x03, 0x08, 0x96, 0x01]);
        let mut packed = Message::default();
        assert_eq!(packed.numbers(6, [3, 270, 86942]).0, [0x32, 0x06, 0x03, 0x8e, 0x02, 0x9e, 0xa7, 0x05]);
        let mut negative = Message::default();
        assert_eq!(
            negative.number(1, (-2i64).cast_unsigned()).0,
            [8, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]
        );
        let mut fixed = Message::default();
        assert_eq!(fixed.fixed(1, 0x0102).0, [9, 2, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(Message::default().number(1, 0).fixed(2, 0).numbers(3, []).0, [0u8; 0]);
    }
}
