//! The one door for text that comes from outside: names in a ledger, paths, programs, lines of source, the environment.
//!
//! What could steer whatever shows it is written out, in the way of each form: `\u{9b}` for a person (and in CSV, pages and
//! pictures), `\u009b` in JSON, `&#x9b;` in XML. [`Net`] stands behind all of it where text goes to a terminal: what one
//! report forgot to clean does not get there.

use std::borrow::Cow;
use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter};

/// Whether a letter could steer a terminal, or turn the order round in which others are shown: C0, delete, C1; marks,
/// embeddings, overrides and isolates of writing direction; ends of lines and paragraphs that are no line ends of ours.
pub fn steers(letter: char) -> bool {
    letter.is_control()
        || matches!(
            letter,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

/// Text from a ledger or a program, for a person: what steers is written out.
pub fn clean(text: &str) -> Cow<'_, str> {
    if !text.chars().any(steers) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len() + 16);
    text.chars().for_each(|letter| written(letter, &mut out));
    out.into()
}

/// One letter as [`clean`] writes it.
fn written(letter: char, out: &mut String) {
    match letter {
        '\n' | '\t' | '\r' => out.extend(letter.escape_default()),
        letter if steers(letter) => out.extend(letter.escape_unicode()),
        letter => out.push(letter),
    }
}

/// Writes an object as JSON on one line. Strings keep every letter; those that steer are escaped.
pub(crate) fn json(out: impl Write, object: &impl Serialize) -> io::Result<()> {
    let mut serializer = serde_json::Serializer::with_formatter(out, Escaping(CompactFormatter));
    object.serialize(&mut serializer).map_err(io::Error::from)
}

/// The same over several lines.
pub(crate) fn pretty_json(out: impl Write, object: &impl Serialize) -> io::Result<()> {
    let mut serializer = serde_json::Serializer::with_formatter(out, Escaping(PrettyFormatter::new()));
    object.serialize(&mut serializer).map_err(io::Error::from)
}

/// A form of JSON in which letters that steer are escaped.
struct Escaping<F>(F);

macro_rules! as_the_other {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {
        $(fn $name<W: ?Sized + Write>(&mut self, writer: &mut W $(, $argument: $type)*) -> io::Result<()> {
            self.0.$name(writer $(, $argument)*)
        })*
    };
}

impl<F: Formatter> Formatter for Escaping<F> {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        let mut rest = fragment;
        while let Some((at, letter)) = rest.char_indices().find(|(_, letter)| steers(*letter)) {
            let (before, behind) = rest.split_at(at);
            writer.write_all(before.as_bytes())?;
            // All of them lie in the first plane.
            write!(writer, "\\u{:04x}", u32::from(letter))?;
            rest = behind.get(letter.len_utf8()..).unwrap_or_default();
        }
        writer.write_all(rest.as_bytes())
    }

    as_the_other! {
        begin_array();
        end_array();
        begin_array_value(first: bool);
        end_array_value();
        begin_object();
        end_object();
        begin_object_key(first: bool);
        end_object_key();
        begin_object_value();
        end_object_value();
    }
}

/// A writer of text for people that lets nothing through which steers, but line ends, tabs and, if `colour`, sequences
/// that change nothing but colour and weight. Bytes that are not UTF-8 become `\x..`.
#[derive(Debug)]
pub struct Net<W> {
    out: W,
    colour: bool,
    open: bool,
    /// The beginning of a letter or a sequence whose end has not come yet.
    rest: Vec<u8>,
}

impl<W: Write> Net<W> {
    /// Writes to `out`.
    pub fn new(out: W, colour: bool) -> Net<W> {
        Net { out, colour, open: false, rest: Vec::new() }
    }

    /// From now on everything goes through.
    pub fn open(&mut self) {
        self.open = true;
    }

    /// What is written to.
    pub fn get_mut(&mut self) -> &mut W {
        &mut self.out
    }

    fn pass(&mut self, bytes: &[u8], last: bool) -> io::Result<()> {
        let mut chunks = bytes.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            let odd = chunk.invalid();
            let end = chunks.peek().is_none() && !last;
            let kept = self.text(chunk.valid(), end && odd.is_empty())?;
            if !kept.is_empty() {
                self.rest = kept.as_bytes().to_vec();
            } else if end && std::str::from_utf8(odd).is_err_and(|error| error.error_len().is_none()) {
                self.rest = odd.to_vec();
            } else {
                odd.iter().try_for_each(|byte| write!(self.out, "\\x{byte:02x}"))?;
            }
        }
        Ok(())
    }

    /// Writes text. If it may go on, returns what of its end has to wait.
    fn text<'t>(&mut self, text: &'t str, goes_on: bool) -> io::Result<&'t str> {
        let mut rest = text;
        let stops = |letter: char| steers(letter) && !matches!(letter, '\n' | '\r' | '\t');
        while let Some(at) = rest.find(stops) {
            let (before, behind) = rest.split_at(at);
            self.out.write_all(before.as_bytes())?;
            let mut length = behind.chars().next().map_or(0, char::len_utf8);
            match sequence(behind).filter(|_| self.colour) {
                Some(Sequence::Whole(bytes)) => {
                    length = bytes;
                    self.out.write_all(behind.get(..bytes).unwrap_or_default().as_bytes())?;
                }
                Some(Sequence::Begun) if goes_on => return Ok(behind),
                _ => {
                    let mut shown = String::new();
                    behind.chars().take(1).for_each(|letter| written(letter, &mut shown));
                    self.out.write_all(shown.as_bytes())?;
                }
            }
            rest = behind.get(length..).unwrap_or_default();
        }
        self.out.write_all(rest.as_bytes())?;
        Ok("")
    }
}

enum Sequence {
    /// So many bytes.
    Whole(usize),
    /// It may be one; its end is not here.
    Begun,
}

/// The sequence of colour and weight that `text` begins with.
fn sequence(text: &str) -> Option<Sequence> {
    let behind = text.strip_prefix('\u{1b}')?;
    let Some(numbers) = behind.strip_prefix('[') else {
        return behind.is_empty().then_some(Sequence::Begun);
    };
    match numbers.find(|letter: char| !letter.is_ascii_digit() && letter != ';') {
        Some(end) if numbers.get(end..).is_some_and(|rest| rest.starts_with('m')) => Some(Sequence::Whole(2 + end + 1)),
        Some(_) => None,
        None => Some(Sequence::Begun),
    }
}

impl<W: Write> Write for Net<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let harmless = |byte: &u8| matches!(byte, b' '..=b'~' | b'\n');
        if self.open || self.rest.is_empty() && bytes.iter().all(harmless) {
            self.out.write_all(bytes)?;
        } else {
            let mut whole = std::mem::take(&mut self.rest);
            whole.extend_from_slice(bytes);
            self.pass(&whole, false)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl<W> Net<W> {
    /// What still waits is no whole letter: it is written out as it is.
    pub fn end(&mut self) -> io::Result<()>
    where
        W: Write,
    {
        let rest = std::mem::take(&mut self.rest);
        self.pass(&rest, true)?;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEERING: &[char] = &[
        '\u{0}', '\u{7}', '\u{1b}', '\u{7f}', '\u{80}', '\u{85}', '\u{9b}', '\u{9f}', '\u{61c}', '\u{200e}',
        '\u{200f}', '\u{2028}', '\u{2029}', '\u{202a}', '\u{202e}', '\u{2066}', '\u{2069}',
    ];

    #[test]
    fn a_name_cannot_steer_the_terminal() {
        assert_eq!(clean("a\x1b[31mb\n\t"), "a\\u{1b}[31mb\\n\\t");
        assert!(matches!(clean("größer"), Cow::Borrowed("größer")));
        for letter in STEERING {
            let text = format!("a{letter}b");
            assert_eq!(clean(&text), format!("a\\u{{{:x}}}b", u32::from(*letter)));
        }
        for kept in ['ä', 'ש', 'ع', '\u{200d}', '字', '…', '\u{a0}'] {
            assert_eq!(clean(&kept.to_string()), kept.to_string());
        }
    }

    #[test]
    fn json_keeps_every_letter_and_shows_none_that_steers() {
        let text: String = STEERING.iter().chain(&['ä', '"', '\\', '\n']).collect();
        for pretty in [false, true] {
            let mut out = Vec::new();
            let object = serde_json::json!({ &text: [&text, &text], "n": [1, null, 1.5, true] });
            if pretty { pretty_json(&mut out, &object) } else { json(&mut out, &object) }.expect("written");
            let written = String::from_utf8(out).expect("text");
            assert!(!written.chars().any(|letter| steers(letter) && letter != '\n'), "{written:?}");
            assert_eq!(serde_json::from_str::<serde_json::Value>(&written).expect("JSON"), object);
        }
        let mut out = Vec::new();
        json(&mut out, &"\u{9b}\u{202e}").expect("written");
        assert_eq!(out, br#""\u009b\u202e""#);
    }

    #[test]
    fn the_net_lets_colour_through_if_there_is_any_and_nothing_else() {
        let through = |bytes: &[u8], colour: bool, cut: usize| {
            let mut out = Vec::new();
            let mut net = Net::new(&mut out, colour);
            let (first, second) = bytes.split_at(cut);
            net.write_all(first).and_then(|()| net.write_all(second)).and_then(|()| net.end()).expect("written");
            String::from_utf8(out).expect("text")
        };
        let text = "\x1b[1mbold\x1b[0m\x1b[38;5;1m x\x1b]0;t\x07\x1b[2J\u{9b}31m\u{202e}ä\tb\r\n\x1b".as_bytes();
        let odd = [text, b"\xff\x9b\xe2y\xe2\x80"].concat();
        for cut in 0..=odd.len() {
            assert_eq!(
                through(&odd, true, cut),
                "\x1b[1mbold\x1b[0m\x1b[38;5;1m x\\u{1b}]0;t\\u{7}\\u{1b}[2J\\u{9b}31m\\u{202e}ä\tb\r\n\\u{1b}\
                 \\xff\\x9b\\xe2y\\xe2\\x80",
                "cut at {cut}"
            );
            let plain = through(&odd, false, cut);
            assert!(plain.starts_with("\\u{1b}[1mbold\\u{1b}[0m") && !plain.contains('\x1b'), "{plain:?}");
        }
    }
}
