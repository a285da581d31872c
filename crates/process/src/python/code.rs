//! What a code object of CPython says: which line an instruction is of, in which function of which file.
//!
//! Everything is read as if it could be anything: lengths are bounded, types compared. The objects are those of frames that run, so
//! that nobody frees them meanwhile.
#![forbid(unsafe_code)]

use super::layout::{self, Layout};
use heapledger_format::label::TEXT_BYTES_MAX;
use heapledger_linux::peek::Peek;

/// Bytes of a line table that are read at most; that of a module with 100,000 lines has about a megabyte.
const TABLE_BYTES_MAX: u64 = 4 << 20;
/// Characters of a text that are read.
const TEXT_MAX: u64 = TEXT_BYTES_MAX as u64;

/// Types of objects, by their addresses.
#[derive(Clone, Copy)]
pub(super) struct Types {
    pub(super) code: u64,
    pub(super) text: u64,
    pub(super) bytes: u64,
}

/// A code object.
#[derive(Clone, Copy)]
pub(super) struct PythonCode<'l> {
    pub(super) layout: &'l Layout,
    pub(super) peek: Peek,
    pub(super) at: u64,
}

/// Two words as one, from which each of them changes many bits.
#[inline(always)]
pub(super) fn mixed(sum: u64, word: u64) -> u64 {
    (sum ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(27)
}

impl PythonCode<'_> {
    #[inline(always)]
    fn field(self, offset: u16) -> Option<u64> {
        self.peek.word(self.at.wrapping_add(offset.into()))
    }

    #[inline(always)]
    fn first_line(self) -> Option<u32> {
        self.peek.half(self.at.wrapping_add(self.layout.first_line.into()))
    }

    /// Tells it from most objects that lay here before: memory of code that was freed is soon that of other code. Cheap, as it is asked
    /// for each frame of each stack.
    #[inline(always)]
    pub(super) fn identity(self) -> Option<u64> {
        let table = self.field(self.layout.line_table)?;
        let sum = mixed(self.first_line()?.into(), self.field(self.layout.file)?);
        let sum = mixed(mixed(sum, self.field(self.layout.function)?), table);
        let sum = mixed(sum, self.peek.word(table.wrapping_add(layout::COUNT))?);
        Some(mixed(sum, self.peek.word(table.wrapping_add(layout::BYTES))?))
    }

    /// The same of all that its lines and names are made of, in full.
    pub(super) fn checksum(self, types: &Types) -> Option<u64> {
        if self.peek.word(self.at.wrapping_add(layout::TYPE))? != types.code {
            return None;
        }
        let mut sum = u64::from(self.first_line()?);
        let (table, bytes) = self.table(types)?;
        sum = self.summed(sum, table, bytes)?;
        for text in [self.layout.file, self.layout.function] {
            let text = self.text(text, types)?;
            sum = self.summed(mixed(sum, text.kind), text.at, text.bytes()?)?;
        }
        Some(sum)
    }

    fn summed(self, mut sum: u64, at: u64, bytes: u64) -> Option<u64> {
        sum = mixed(sum, bytes);
        for word in 0..bytes / 8 {
            sum = mixed(sum, self.peek.word(at.wrapping_add(word << 3))?);
        }
        if bytes & 7 != 0 {
            // What lies behind the last byte is anybody's.
            let last = self.peek.word(at.wrapping_add(bytes & !7))?;
            sum = mixed(sum, last & (1u64 << ((bytes & 7) << 3)).wrapping_sub(1));
        }
        Some(sum)
    }

    /// Where its line table lies, and its bytes.
    fn table(self, types: &Types) -> Option<(u64, u64)> {
        let object = self.field(self.layout.line_table)?;
        let is_bytes = self.peek.word(object.wrapping_add(layout::TYPE))? == types.bytes;
        let bytes = self.peek.word(object.wrapping_add(layout::COUNT))?;
        (is_bytes && bytes <= TABLE_BYTES_MAX).then_some((object.wrapping_add(layout::BYTES), bytes))
    }

    /// The line of an instruction; 0 if it has none. An instruction before the first is that of a frame that has not begun.
    ///
    /// The table is described in `Objects/locations.md` (3.11) and `InternalDocs/code_objects.md` (later) of CPython.
    pub(super) fn line(self, instruction: u64, types: &Types) -> Option<u32> {
        let first = self.first_line()?;
        let Some(offset) = instruction.checked_sub(self.at.wrapping_add(self.layout.instructions.into())) else {
            return Some(first);
        };
        let (at, bytes) = self.table(types)?;
        let mut table = Bytes { peek: self.peek, at, end: at.wrapping_add(bytes), word: 0, is_read: false };
        let (mut line, mut start) = (i64::from(first), 0u64);
        while let Some(head) = table.next() {
            if head & 0x80 == 0 {
                continue; // the rest of an entry
            }
            let kind = head >> 3 & 15;
            let step = match kind {
                10..=12 => i64::from(kind).wrapping_sub(10),
                13 | 14 => table.signed()?,
                _ => 0,
            };
            line = line.wrapping_add(step);
            // Of two bytes each.
            start = start.wrapping_add(u64::from(head & 7).wrapping_add(1) << 1);
            if start > offset {
                return if kind == 15 { Some(0) } else { u32::try_from(line).ok() };
            }
        }
        Some(0)
    }

    /// Writes the path of its file. Returns how many bytes.
    pub(super) fn file(self, types: &Types, into: &mut [u8]) -> Option<usize> {
        self.written(self.layout.file, types, into)
    }

    /// The same of the name of its function.
    pub(super) fn function(self, types: &Types, into: &mut [u8]) -> Option<usize> {
        self.written(self.layout.function, types, into)
    }

    fn text(self, field: u16, types: &Types) -> Option<PythonText> {
        const COMPACT: u32 = 1 << 5;
        const ASCII: u32 = 1 << 6;
        let object = self.field(field)?;
        if self.peek.word(object.wrapping_add(layout::TYPE))? != types.text {
            return None;
        }
        let state = self.peek.half(object.wrapping_add(layout::TEXT_STATE))?;
        let kind = u64::from(state >> 2 & 7);
        let [ascii, other] = self.layout.text_heads;
        let head = if state & ASCII != 0 { ascii } else { other };
        let characters = self.peek.word(object.wrapping_add(layout::COUNT))?;
        let is_one = state & COMPACT != 0 && matches!(kind, 1 | 2 | 4) && characters <= TABLE_BYTES_MAX;
        is_one.then_some(PythonText { at: object.wrapping_add(head.into()), kind, characters })
    }

    /// Writes a text in UTF-8, cut to what there is room for.
    fn written(self, field: u16, types: &Types, into: &mut [u8]) -> Option<usize> {
        let text = self.text(field, types)?;
        let mut count = 0usize;
        for index in 0..text.characters.min(TEXT_MAX) {
            let at = text.at.wrapping_add(index.wrapping_mul(text.kind));
            let number = match text.kind {
                1 => self.peek.byte(at)?.into(),
                2 => self.peek.half(at & !3)? >> ((at & 2) << 3) & 0xFFFF,
                _ => self.peek.half(at)?,
            };
            // Half of a pair, by which Python keeps what is no text in a file's name.
            let character = char::from_u32(number).unwrap_or(char::REPLACEMENT_CHARACTER);
            let end = count.wrapping_add(character.len_utf8());
            let Some(place) = into.get_mut(count..end) else { break };
            character.encode_utf8(place);
            count = end;
        }
        Some(count)
    }
}

struct PythonText {
    at: u64,
    /// Bytes of a character.
    kind: u64,
    characters: u64,
}

impl PythonText {
    fn bytes(&self) -> Option<u64> {
        self.characters.checked_mul(self.kind)
    }
}

/// Bytes one after the other.
struct Bytes {
    peek: Peek,
    at: u64,
    end: u64,
    word: u64,
    is_read: bool,
}

impl Bytes {
    #[inline(always)]
    fn next(&mut self) -> Option<u8> {
        if self.at >= self.end {
            return None;
        }
        if self.at & 7 == 0 || !self.is_read {
            self.word = self.peek.word(self.at & !7)?;
            self.is_read = true;
        }
        let byte = (self.word >> ((self.at & 7) << 3)) as u8;
        self.at = self.at.wrapping_add(1);
        Some(byte)
    }

    /// Six bits in each byte, the lowest first; the lowest of all is the sign.
    fn signed(&mut self) -> Option<i64> {
        let (mut value, mut shift) = (0u64, 0u32);
        loop {
            let byte = self.next()?;
            value |= u64::from(byte & 63) << shift;
            if byte & 64 == 0 {
                break;
            }
            shift = shift.wrapping_add(6);
            if shift > 36 {
                return None;
            }
        }
        let amount = (value >> 1) as i64;
        Some(if value & 1 != 0 { amount.wrapping_neg() } else { amount })
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::LAYOUTS;
    use super::*;
    use std::vec::Vec;

    /// Objects as CPython has them, one behind the other: code, line table, file, function.
    struct Objects(Vec<u64>);

    const TABLE: usize = 64;
    const FILE: usize = 96;
    const FUNCTION: usize = 128;
    const TYPES: Types = Types { code: 0x1111_0000, text: 0x2222_0000, bytes: 0x3333_0000 };

    impl Objects {
        fn new(layout: &Layout, table: &[u8], file: &str, function: &[u16]) -> Objects {
            let mut words = Objects(std::vec![0; 192]);
            let base = words.at();
            words.put(layout::TYPE as usize, &TYPES.code.to_le_bytes());
            words.put(layout.first_line.into(), &10u32.to_le_bytes());
            for (field, place) in [(layout.line_table, TABLE), (layout.file, FILE), (layout.function, FUNCTION)] {
                words.put(field.into(), &(base + place as u64 * 8).to_le_bytes());
            }
            let [ascii, other] = layout.text_heads.map(usize::from);
            let function_bytes: Vec<u8> = function.iter().flat_map(|unit| unit.to_le_bytes()).collect();
            for (place, of, count, state, head, bytes) in [
                (TABLE, TYPES.bytes, table.len(), 0u32, layout::BYTES as usize, table),
                (FILE, TYPES.text, file.len(), 1 << 2 | 1 << 5 | 1 << 6, ascii, file.as_bytes()),
                (FUNCTION, TYPES.text, function.len(), 2 << 2 | 1 << 5, other, &function_bytes),
            ] {
                words.put(place * 8 + 8, &of.to_le_bytes());
                words.put(place * 8 + 16, &(count as u64).to_le_bytes());
                words.put(place * 8 + 32, &state.to_le_bytes());
                words.put(place * 8 + head, bytes);
            }
            words
        }

        fn at(&self) -> u64 {
            self.0.as_ptr() as u64
        }

        fn put(&mut self, at: usize, bytes: &[u8]) {
            for (index, byte) in bytes.iter().enumerate() {
                let (word, shift) = ((at + index) / 8, (at + index) % 8 * 8);
                self.0[word] = self.0[word] & !(0xFF << shift) | u64::from(*byte) << shift;
            }
        }

        fn code<'l>(&self, layout: &'l Layout) -> PythonCode<'l> {
            PythonCode { layout, peek: Peek::asking(), at: self.at() }
        }
    }

    /// Two units on line 10 in the short form; one on line 12; one without a line; one on 9; three on 1,009.
    const LINES: [u8; 18] = [
        0x80 | 3 << 3 | 1,
        0x22,
        0x80 | 12 << 3,
        1,
        2,
        0x80 | 15 << 3,
        0x80 | 13 << 3,
        7,
        0x80 | 14 << 3 | 2,
        0x40 | 16,
        31,
        0,
        1,
        1,
        0x80 | 10 << 3,
        5,
        6,
        0x80 | 15 << 3,
    ];

    #[test]
    fn lines_are_read_from_the_table() {
        for layout in &LAYOUTS {
            let objects = Objects::new(layout, &LINES, "/srv/a.py", &[0x66, 0xE9, 0x4E2D, 0xD800]);
            let code = objects.code(layout);
            let first = objects.at() + u64::from(layout.instructions);
            let line = |unit: u64| code.line(first + unit * 2, &TYPES);
            let lines: Vec<_> = (0..10).map(line).collect();
            let expected = [10, 10, 12, 0, 9, 1009, 1009, 1009, 1009, 0].map(Some);
            assert_eq!(lines, expected, "3.{}", layout.minor());
            assert_eq!(code.line(first - 2, &TYPES), Some(10), "it has not begun");
            let mut text = [0; 64];
            let bytes = code.file(&TYPES, &mut text).expect("a text");
            assert_eq!(&text[..bytes], b"/srv/a.py");
            let bytes = code.function(&TYPES, &mut text).expect("a text");
            assert_eq!(std::str::from_utf8(&text[..bytes]), Ok("f\u{E9}\u{4E2D}\u{FFFD}"));
            let bytes = code.function(&TYPES, &mut text[..4]).expect("a text");
            assert_eq!(std::str::from_utf8(&text[..bytes]), Ok("f\u{E9}"), "cut between two characters");
        }
    }

    #[test]
    fn other_code_in_the_same_place_has_another_sum() {
        let layout = &LAYOUTS[0];
        let mut objects = Objects::new(layout, &LINES, "/srv/a.py", &[0x66]);
        let sum = objects.code(layout).checksum(&TYPES).expect("a code object");
        for (at, byte) in [
            (usize::from(layout.first_line), 11),
            (TABLE * 8 + 32 + 7, 9),
            (TABLE * 8 + 32 + 17, 0x80),
            (FILE * 8 + usize::from(layout.text_heads[0]) + 8, b'x'),
            (FUNCTION * 8 + usize::from(layout.text_heads[1]), b'g'),
        ] {
            let before = objects.0.clone();
            objects.put(at, &[byte]);
            assert_ne!(objects.code(layout).checksum(&TYPES), Some(sum), "{at}");
            objects.0.copy_from_slice(&before);
        }
        // What lies behind the last byte is nobody's.
        objects.put(TABLE * 8 + 32 + LINES.len(), &[0xFF]);
        assert_eq!(objects.code(layout).checksum(&TYPES), Some(sum));
    }

    #[test]
    fn nothing_is_believed() {
        for layout in &LAYOUTS {
            let sound = Objects::new(layout, &LINES, "/srv/a.py", &[0x66, 0xE9]);
            for word in 0..sound.0.len() {
                for junk in [0, 1, 8, u64::MAX, 1 << 46, 0x7FFF_FFFF_F000, 1 << 40, sound.at() + 4] {
                    let mut objects = Objects(sound.0.clone());
                    // The copy lies elsewhere: its pointers lead into the sound one, which stays.
                    objects.0[word] = junk;
                    let code = objects.code(layout);
                    let _ = (code.identity(), code.checksum(&TYPES), code.line(objects.at() + 204, &TYPES));
                    let mut text = [0; 64];
                    let _ = (code.file(&TYPES, &mut text), code.function(&TYPES, &mut text));
                }
            }
        }
    }
}
