//! Text that fits into a terminal: measured as it will be printed, broken between its parts, cut at its end.

use std::borrow::Cow;
use std::io::{self, Write};

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::form::ascii::ascii;
use crate::form::units::Paint;

/// Columns that a text takes.
pub(crate) fn width(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.width() }
}

impl Paint {
    /// The text as it will be printed: what is to be measured.
    pub(crate) fn printed(self, text: &str) -> Cow<'_, str> {
        if self.ascii { ascii(text) } else { Cow::Borrowed(text) }
    }

    /// The beginning of a text that is wider than `room`, with a sign that there is more.
    pub(crate) fn cut(self, text: &str, room: usize) -> String {
        let text = self.printed(text);
        if width(&text) <= room {
            return text.into_owned();
        }
        let more = self.signs().ellipsis;
        format!("{}{more}", first(&text, room.saturating_sub(width(more))))
    }

    /// The end of such a text: of paths, where the file and the line are.
    pub(crate) fn cut_front(self, text: &str, room: usize) -> String {
        let text = self.printed(text);
        if width(&text) <= room {
            return text.into_owned();
        }
        let more = self.signs().ellipsis;
        format!("{more}{}", last(&text, room.saturating_sub(width(more))))
    }

    /// The beginning and the end of such a text: names of templates differ in either.
    pub(crate) fn cut_middle(self, text: &str, room: usize) -> String {
        let text = self.printed(text);
        let more = self.signs().ellipsis;
        let Some(kept) = room.checked_sub(width(more)).filter(|_| width(&text) > room) else {
            return text.into_owned();
        };
        format!("{}{more}{}", first(&text, kept - kept / 3), last(&text, kept / 3))
    }

    /// A line of the terminal, cut where it is wider.
    pub fn fitted(self, line: &str) -> String {
        fitted(line, self)
    }

    /// A text in lines of at most as many columns as the terminal has: broken behind `, ` and `; `, and between words
    /// where such a part is too long for a line. The first line begins behind `begin` columns that are there already;
    /// the others are indented by `indent`. One line where there is no terminal.
    pub fn lines(self, text: &str, begin: usize, indent: usize) -> String {
        let text = self.printed(text);
        if self.columns == 0 || begin + width(&text) <= self.columns {
            return text.into_owned();
        }
        let mut out = String::with_capacity(text.len() + 32);
        let mut column = begin;
        let mut fresh = true;
        let mut put = |words: &str, out: &mut String| {
            let gap = usize::from(!fresh);
            if column + gap + width(words) > self.columns && !fresh {
                out.push('\n');
                out.push_str(&" ".repeat(indent));
                column = indent;
            } else if !fresh {
                out.push(' ');
                column += 1;
            }
            out.push_str(words);
            column += width(words);
            fresh = false;
        };
        for part in parts(&text) {
            if indent + width(part) <= self.columns {
                put(part, &mut out);
            } else {
                part.split(' ').for_each(|word| put(word, &mut out));
            }
        }
        out
    }

    /// A line of a summary that proposes a command about `path`, to be copied: it has a line of its own where the terminal has no room for it
    /// behind `begin` columns, which the name takes, and two where it has none at all.
    pub(crate) fn command(self, name: &str, words: &str, path: &str, begin: usize) -> String {
        const OWN: usize = 4;
        let fits = |begin: usize| self.columns == 0 || begin + width(words) + 1 + width(path) <= self.columns;
        match () {
            () if fits(begin) => format!("  {name:<0$}{words} {path}", begin - 2),
            () if fits(OWN) => format!("  {name}\n{:OWN$}{words} {path}", ""),
            // As a shell reads on in the next line.
            () => format!("  {name}\n{:OWN$}{words} \\\n{:OWN$}{path}", "", ""),
        }
    }
}

/// Parts of a sentence, each with the sign that ends it.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let end = text.match_indices([',', ';', ':']).map(|(at, _)| at + 1).find(|at| text[*at..].starts_with(' '));
        rest = end.map(|at| &text[at + 1..]);
        Some(&text[..end.unwrap_or(text.len())])
    })
}

fn first(text: &str, room: usize) -> &str {
    let mut column = 0;
    let end = text.char_indices().find(|(_, letter)| {
        column += letter.width().unwrap_or(0);
        column > room
    });
    &text[..end.map_or(text.len(), |(at, _)| at)]
}

fn last(text: &str, room: usize) -> &str {
    let mut column = 0;
    let begin = text.char_indices().rev().find(|(_, letter)| {
        column += letter.width().unwrap_or(0);
        column > room
    });
    &text[begin.map_or(0, |(at, letter)| at + letter.len_utf8())..]
}

/// A writer that cuts lines which are wider than the terminal. It is what stands behind all text for people: whatever a
/// name or a path may be, a line stays a line. Where there is no terminal, lines are whole.
#[derive(Debug)]
pub(crate) struct Fit<W: Write> {
    out: W,
    paint: Paint,
    line: Vec<u8>,
}

impl<W: Write> Fit<W> {
    pub(crate) fn new(out: W, paint: Paint) -> Fit<W> {
        Fit { out, paint, line: Vec::new() }
    }

    fn put(&mut self) -> io::Result<()> {
        let line = std::mem::take(&mut self.line);
        match std::str::from_utf8(&line) {
            Ok(text) => self.out.write_all(fitted(text, self.paint).as_bytes()),
            Err(_) => self.out.write_all(&line),
        }
    }
}

impl<W: Write> Write for Fit<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.paint.columns == 0 {
            return self.out.write(bytes);
        }
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                self.put()?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.put()?;
        self.out.flush()
    }
}

/// Begins an escape sequence, which takes no column.
const ESCAPE: char = '\u{1b}';

/// A line, with its end, in the terminal's columns. Colours are kept, those behind the cut too: they end there.
pub(crate) fn fitted(line: &str, paint: Paint) -> String {
    let text = paint.printed(line);
    let plain: String = pieces(&text).filter(|piece| !piece.starts_with(ESCAPE)).collect();
    if paint.columns == 0 || width(plain.trim_end_matches('\n')) <= paint.columns || is_command(&plain) {
        return text.into_owned();
    }
    let more = paint.signs().ellipsis;
    let room = paint.columns.saturating_sub(width(more));
    let (mut out, mut column, mut cut) = (String::with_capacity(text.len()), 0, false);
    for piece in pieces(&text) {
        if piece.starts_with(ESCAPE) {
            out.push_str(piece);
        } else if !cut {
            let kept = first(piece, room - column);
            out.push_str(kept);
            column += width(kept);
            cut = kept.len() < piece.len();
            if cut {
                out.truncate(out.trim_end_matches(' ').len());
                out.push_str(more);
            }
        }
    }
    if text.ends_with('\n') && !out.ends_with('\n') {
        out.push('\n');
    }
    out
}

/// Whether a line is one word to be typed, which notes put between backticks: half of it is of no use. The terminal folds it,
/// and it can be copied.
fn is_command(line: &str) -> bool {
    let word = line.trim().trim_end_matches('.');
    word.len() > 2 && word.starts_with('`') && word.ends_with('`') && !word.contains(' ')
}

/// Escape sequences and what is between them.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = match rest.strip_prefix(ESCAPE) {
            _ if rest.is_empty() => return None,
            Some(sequence) => {
                sequence.find(|letter: char| letter.is_ascii_alphabetic()).map_or(rest.len(), |at| at + 2)
            }
            None => rest.find(ESCAPE).unwrap_or(rest.len()),
        };
        let (piece, behind) = rest.split_at(end);
        rest = behind;
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paint(columns: usize, ascii: bool) -> Paint {
        Paint { columns, ascii, ..Paint::default() }
    }

    fn through(paint: Paint, text: &str) -> String {
        let mut fit = Fit::new(Vec::new(), paint);
        // In pieces, as `write!` does.
        text.as_bytes().chunks(3).for_each(|chunk| fit.write_all(chunk).expect("written"));
        fit.flush().expect("written");
        String::from_utf8(fit.out).expect("text")
    }

    #[test]
    fn lines_are_cut_as_they_are_printed() {
        for (columns, ascii, text, shown) in [
            (0, false, "a long line\n", "a long line\n"),
            (11, false, "a long line\nb\n", "a long line\nb\n"),
            (8, false, "a long line\nb", "a long…\nb"),
            (7, false, "a long line\n", "a long…\n"),
            (8, true, "a long line\n", "a lon...\n"),
            (6, true, "a…b\n", "a...b\n"),
            (4, true, "a…b\n", "a...\n"),
            (7, false, "\u{1b}[1ma long line\u{1b}[0m b\n", "\u{1b}[1ma long…\u{1b}[0m\n"),
            (11, false, "\u{1b}[1ma long line\u{1b}[0m\n", "\u{1b}[1ma long line\u{1b}[0m\n"),
            (8, false, "  `A=long://line`.\n", "  `A=long://line`.\n"),
            (8, false, "  `A=long line`\n", "  `A=lo…\n"),
            (8, false, "  `A=longlonglong\n", "  `A=lo…\n"),
            (5, false, "日本語語\n", "日本…\n"),
            (9, false, "größer ist\n", "größer i…\n"),
            (8, false, "größer ist\n", "größer…\n"),
        ] {
            assert_eq!(through(paint(columns, ascii), text), shown, "{columns} {ascii} {text}");
        }
    }

    #[test]
    fn sentences_are_broken_between_their_parts() {
        let lines = |columns, text: &str| paint(columns, false).lines(text, 4, 2);
        assert_eq!(lines(0, "one two, three; four"), "one two, three; four");
        assert_eq!(lines(24, "one two, three; four"), "one two, three; four");
        assert_eq!(lines(19, "one two, three; four"), "one two, three;\n  four");
        assert_eq!(lines(12, "one two, three; four"), "one two,\n  three;\n  four");
        assert_eq!(lines(8, "one two three, four"), "one\n  two\n  three,\n  four");
        assert_eq!(lines(8, "averylongword b"), "averylongword\n  b");
        assert_eq!(lines(8, ""), "");
        assert_eq!(paint(9, true).lines("1 ± 2, b", 0, 0), "1 +- 2, b");
        assert_eq!(paint(8, true).lines("1 ± 2, b", 0, 0), "1 +- 2,\nb");
    }

    #[test]
    fn either_end_or_the_middle_is_left_out() {
        for (ascii, front, end, middle) in
            [(false, "…file.c:7", "/usr/src…", "/usr/s…:7"), (true, "...e.c:7", "/usr/...", "/usr...7")]
        {
            let (paint, room) = (paint(80, ascii), if ascii { 8 } else { 9 });
            let path = "/usr/src/file.c:7";
            assert_eq!(
                (paint.cut_front(path, room), paint.cut_middle(path, room)),
                (front.to_owned(), middle.to_owned())
            );
            assert_eq!(paint.cut(path, room).trim_end_matches('/'), end);
            assert_eq!(paint.cut_front(path, 17), path);
            assert!(width(&paint.cut_middle(path, 4)) <= 4 && width(&paint.cut(path, 1)) <= 3);
        }
    }
}
