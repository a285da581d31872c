//! Lines of a log as a terminal showed them: colours and carriage returns are taken out, nothing is too long.

use std::io::{self, BufRead};

/// Of longer lines the rest is left out.
pub const LINE_BYTES_MAX: usize = 16 << 10;
const ESCAPE: u8 = 0x1b;

/// A line and its number, from 1.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogLine {
    /// Without line end.
    pub bytes: Vec<u8>,
    /// From 1.
    pub number: u64,
    /// It was longer than any should be, and this is its beginning.
    pub is_cut: bool,
}

/// Reads lines one by one.
#[derive(Debug)]
pub struct LogLines<R> {
    input: R,
    read: u64,
}

impl<R: BufRead> LogLines<R> {
    /// The lines of `input`.
    pub fn new(input: R) -> LogLines<R> {
        LogLines { input, read: 0 }
    }

    /// The next line into `line`; false at the end.
    ///
    /// # Errors
    /// Those of the input.
    pub fn next_into(&mut self, line: &mut LogLine) -> io::Result<bool> {
        line.bytes.clear();
        let (mut any, mut whole) = (false, true);
        loop {
            let part = match self.input.fill_buf() {
                Ok(part) => part,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if part.is_empty() {
                break;
            }
            any = true;
            let end = memchr::memchr(b'\n', part);
            let text = part.get(..end.unwrap_or(part.len())).unwrap_or(&[]);
            let room = LINE_BYTES_MAX.saturating_sub(line.bytes.len()).min(text.len());
            whole &= room == text.len();
            line.bytes.extend_from_slice(text.get(..room).unwrap_or(&[]));
            let taken = end.map_or(part.len(), |end| end + 1);
            self.input.consume(taken);
            if end.is_some() {
                break;
            }
        }
        if any {
            self.read += 1;
            (line.number, line.is_cut) = (self.read, !whole);
            clean(&mut line.bytes);
        }
        Ok(any)
    }
}

/// Takes out what only a terminal needs.
fn clean(line: &mut Vec<u8>) {
    while line.last() == Some(&b'\r') {
        line.pop();
    }
    if memchr::memchr(ESCAPE, line).is_none() {
        return;
    }
    let mut kept = Vec::with_capacity(line.len());
    let mut rest = line.iter().copied();
    while let Some(byte) = rest.next() {
        if byte != ESCAPE {
            kept.push(byte);
        } else if rest.next() == Some(b'[') {
            // Parameters, and a letter that says what it is.
            while rest.next().is_some_and(|byte| !(0x40..0x7f).contains(&byte)) {}
        }
    }
    *line = kept;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[u8]) -> Vec<String> {
        let mut lines = LogLines::new(text);
        let (mut line, mut all) = (LogLine::default(), Vec::new());
        while lines.next_into(&mut line).expect("memory can be read") {
            all.push(String::from_utf8_lossy(&line.bytes).into_owned());
        }
        all
    }

    #[test]
    fn what_a_terminal_adds_is_taken_out() {
        assert_eq!(lines(b"a\r\nb\r\r\n\x1b[0;32mI (1) c\x1b[0m\nd"), ["a", "b", "I (1) c", "d"]);
        assert_eq!(lines(b"\n\n"), ["", ""]);
        assert_eq!(lines(b"\x1b"), [""]);
        assert_eq!(lines(b""), [""; 0]);
    }

    #[test]
    fn a_line_without_end_takes_no_more_memory_than_a_long_one() {
        let text = [vec![b'x'; 3 << 20], b"\nnext".to_vec()].concat();
        let mut input = LogLines::new(&text[..]);
        let mut line = LogLine::default();
        assert!(input.next_into(&mut line).expect("memory can be read"));
        assert_eq!((line.bytes.len(), line.is_cut), (LINE_BYTES_MAX, true));
        assert!(input.next_into(&mut line).expect("memory can be read"));
        assert_eq!((line.bytes.as_slice(), line.number, line.is_cut), (&b"next"[..], 2, false));
    }
}
