//! Text for terminals and locales that know nothing but ASCII.

use std::borrow::Cow;
use std::io::{self, Write};

use crate::form::units::Paint;

/// Signs that reports draw with. Each has the same width in both sets, so a column stays where it is; only
/// [`Signs::ellipsis`] has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signs {
    /// What stands for a part that was left out: `…`, `...`.
    pub ellipsis: &'static str,
    /// A line from left to right.
    pub horizontal: &'static str,
    /// A line from top to bottom.
    pub vertical: &'static str,
    /// A branch of a tree that is followed by others.
    pub branch: &'static str,
    /// The last branch of a tree.
    pub last: &'static str,
    /// Part of a bar.
    pub bar: &'static str,
    /// Heights of a sparkline, lowest first.
    pub levels: [&'static str; 8],
    /// From one thing to the next.
    pub arrow: &'static str,
}

const UNICODE: Signs = Signs {
    ellipsis: "…",
    horizontal: "─",
    vertical: "│",
    branch: "├",
    last: "└",
    bar: "█",
    levels: ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"],
    arrow: "→",
};

const ASCII: Signs = Signs {
    ellipsis: "...",
    horizontal: "-",
    vertical: "|",
    branch: "|",
    last: "`",
    bar: "#",
    levels: ["_", ".", ",", "-", "=", "+", "*", "#"],
    arrow: ">",
};

impl Paint {
    /// What to draw with.
    pub fn signs(self) -> &'static Signs {
        if self.ascii { &ASCII } else { &UNICODE }
    }
}

/// The signs of our own text that are not ASCII, and what stands for them.
const REPLACED: &[(char, &str)] = &[
    ('…', "..."),
    ('µ', "u"),
    ('←', "<"),
    ('±', "+-"),
    ('×', "x"),
    ('·', "."),
    ('–', "-"),
    ('—', "-"),
    ('−', "-"),
    ('─', "-"),
    ('│', "|"),
    ('├', "|"),
    ('└', "`"),
    ('┌', "+"),
    ('┐', "+"),
    ('┘', "+"),
    ('▁', "_"),
    ('▂', "."),
    ('▃', ","),
    ('▄', "-"),
    ('▅', "="),
    ('▆', "+"),
    ('▇', "*"),
    ('█', "#"),
    ('→', ">"),
    ('▼', "v"),
    ('≥', ">="),
    ('≤', "<="),
    ('≈', "~"),
    ('\u{a0}', " "),
];

/// The text in ASCII: our own signs are replaced by others, letters of names are escaped (`\u{e4}`).
pub fn ascii(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        if letter.is_ascii() {
            out.push(letter);
        } else if let Some((_, replacement)) = REPLACED.iter().find(|(sign, _)| *sign == letter) {
            out.push_str(replacement);
        } else {
            out.extend(letter.escape_unicode());
        }
    }
    Cow::Owned(out)
}

/// A writer that passes everything on in ASCII, as [`ascii`] does. Bytes that are not UTF-8 become `\x..`.
#[derive(Debug)]
pub struct AsciiWriter<W> {
    out: W,
    /// The beginning of a letter whose end has not come yet.
    rest: Vec<u8>,
}

impl<W: Write> AsciiWriter<W> {
    /// Writes to `out`.
    pub fn new(out: W) -> AsciiWriter<W> {
        AsciiWriter { out, rest: Vec::new() }
    }

    /// What is written to.
    pub fn get_mut(&mut self) -> &mut W {
        &mut self.out
    }

    fn pass(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut chunks = bytes.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            self.out.write_all(ascii(chunk.valid()).as_bytes())?;
            let odd = chunk.invalid();
            // At the very end it may be half a letter.
            if chunks.peek().is_none() && is_cut(odd) {
                self.rest = odd.to_vec();
            } else {
                self.escape(odd)?;
            }
        }
        Ok(())
    }

    fn escape(&mut self, bytes: &[u8]) -> io::Result<()> {
        bytes.iter().try_for_each(|byte| write!(self.out, "\\x{byte:02x}"))
    }
}

/// Whether these bytes begin a letter and do not end it.
fn is_cut(bytes: &[u8]) -> bool {
    !bytes.is_empty() && std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

impl<W: Write> Write for AsciiWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.rest.is_empty() && bytes.is_ascii() {
            self.out.write_all(bytes)?;
        } else {
            let mut whole = std::mem::take(&mut self.rest);
            whole.extend_from_slice(bytes);
            self.pass(&whole)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_are_replaced_and_letters_escaped() {
        assert_eq!(ascii("1.0 µs ± 4 %, größer… ├─"), "1.0 us +- 4 %, gr\\u{f6}\\u{df}er... |-");
        assert!(matches!(ascii("plain"), Cow::Borrowed("plain")));
    }

    #[test]
    fn both_sets_have_the_same_width_and_one_is_ascii() {
        for signs in [UNICODE, ASCII] {
            let one = [signs.horizontal, signs.vertical, signs.branch, signs.last, signs.bar, signs.arrow];
            assert!(one.iter().chain(&signs.levels).all(|sign| sign.chars().count() == 1));
        }
        assert!(ASCII.levels.iter().all(|sign| sign.is_ascii()) && ASCII.ellipsis.is_ascii());
        for (sign, instead) in UNICODE.levels.iter().zip(&ASCII.levels) {
            assert_eq!(ascii(sign), *instead);
        }
    }

    #[test]
    fn a_letter_may_come_in_pieces() {
        let text = "a…ä€𝄞b\u{a0}c";
        let bytes = text.as_bytes();
        for cut in 0..=bytes.len() {
            let mut out = Vec::new();
            let mut writer = AsciiWriter::new(&mut out);
            for part in [&bytes[..cut], &bytes[cut..]] {
                writer.write_all(part).expect("written");
            }
            assert_eq!(String::from_utf8_lossy(&out), ascii(text), "cut at {cut}");
        }
        let mut out = Vec::new();
        AsciiWriter::new(&mut out).write_all(b"x\xff\xe2y").expect("written");
        assert_eq!(out, b"x\\xff\\xe2y");
    }
}
