//! Lines of libwebsockets in logs: `~m#` and `~b#` anywhere in a line, and lines that another one has cut in two.

use std::collections::VecDeque;
use std::io::{self, BufRead};

use heapledger_lws::base64::{self, Base64Error};
use heapledger_lws::{DecodeError, Dialect, Width, decode, extension};

use crate::lines::{LogLine, LogLines};

/// Most bytes of a blob that is taken for one.
const BLOB_BYTES_MAX: usize = 4096;
/// So many lines further on the rest of a line is looked for.
const REST_LINES: usize = 3;
/// Most characters of a line that was cut which may be another line's.
const FOREIGN_MAX: usize = 200;

/// What a line in words begins with.
const SIZE: &[u8] = b"size: ";

/// Where backtraces are taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeadIn {
    /// Behind their three characters only.
    Needed,
    /// A line may also be nothing but base64.
    Optional,
}

/// Why a backtrace cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadTrace {
    /// Its base64.
    Base64(Base64Error),
    /// Its blob.
    Blob(DecodeError),
    /// A line in words that does not say size and frames.
    Words,
}

impl std::fmt::Display for BadTrace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            BadTrace::Base64(error) => error.fmt(f),
            BadTrace::Blob(error) => error.fmt(f),
            BadTrace::Words => f.write_str("it is not \"size: N, \" and frames"),
        }
    }
}

impl std::error::Error for BadTrace {}

/// What a backtrace says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedTrace {
    /// Frames, innermost first.
    pub frames: Vec<u64>,
    /// Bytes asked for.
    pub size: u64,
    /// Who wrote it; `None` if it was in words.
    pub dialect: Option<Dialect>,
    /// The upper bits of a value are lost.
    pub high_lost: bool,
    /// What is not as an encoder writes it.
    pub lenient: Option<heapledger_lws::Problem>,
}

/// A place in the log that holds a backtrace, or should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceAt {
    /// The line, from 1.
    pub line: u64,
    /// Whether it had its three characters: else it may be other text.
    pub marked: bool,
    /// What it says, or why it cannot be read.
    pub trace: Result<LoggedTrace, BadTrace>,
}

/// Reads single backtraces, in memory of its own.
#[derive(Debug)]
pub struct TraceReader {
    width: Width,
    restores: bool,
    blob: Vec<u8>,
    frames: Vec<u64>,
    narrow: Vec<u64>,
}

impl TraceReader {
    /// For values of that width.
    pub fn new(width: Width) -> TraceReader {
        let frames = || vec![0; extension::DEPTH_MAX];
        TraceReader { width, restores: false, blob: vec![0; BLOB_BYTES_MAX], frames: frames(), narrow: frames() }
    }

    /// Values of exactly 32 bits are what they were, and not what the original makes of them: a build for 32 bits has written them whole, and
    /// of one for 64 bits nothing is lost that their length does not say.
    #[must_use]
    pub fn restoring(self) -> TraceReader {
        TraceReader { restores: true, ..self }
    }

    /// Reads base64, blanks and all, as the original's tool does.
    ///
    /// # Errors
    /// If it is none, or no backtrace.
    pub fn read(&mut self, text: &[u8]) -> Result<LoggedTrace, BadTrace> {
        // Millions of them are nothing but digits.
        let bytes = match digits(text, &mut self.blob) {
            Some(bytes) => bytes,
            None => base64::read(text, &mut self.blob).map_err(BadTrace::Base64)?,
        };
        let blob = self.blob.get(..bytes).unwrap_or(&[]);
        let mut decoded = decode(blob, self.width, &mut self.frames).map_err(BadTrace::Blob)?;
        if self.restores
            && decoded.high_lost
            && let Ok(narrow) = decode(blob, Width::W32, &mut self.narrow)
            && narrow.lenient.is_none()
        {
            decoded = narrow;
        }
        Ok(LoggedTrace {
            frames: decoded.frames.to_vec(),
            size: decoded.size,
            dialect: Some(decoded.dialect),
            high_lost: decoded.high_lost,
            lenient: decoded.lenient,
        })
    }

    /// Reads what somebody typed: a line with or without its three characters.
    ///
    /// # Errors
    /// If it is no backtrace.
    pub fn read_line(&mut self, text: &[u8]) -> Result<LoggedTrace, BadTrace> {
        match text.get(..3) {
            Some(b"~b#") if text.get(3..).is_some_and(|rest| rest.starts_with(SIZE)) => {
                self.plain(text.get(3..).unwrap_or(&[]))
            }
            // The original does not look at the letter.
            Some([b'~', _, b'#']) => self.read(text.get(3..).unwrap_or(&[])),
            _ => self.read(text),
        }
    }

    fn plain(&mut self, text: &[u8]) -> Result<LoggedTrace, BadTrace> {
        if text.starts_with(SIZE) {
            return words(text).ok_or(BadTrace::Words);
        }
        // The original does not look at the letter.
        let own = text.get(..run(text)).unwrap_or(&[]);
        if own.is_empty() { Err(BadTrace::Words) } else { self.read(own) }
    }

    /// What is said behind the three characters, and the line in which the rest of it was.
    fn compressed(&mut self, text: &[u8], behind: &VecDeque<LogLine>) -> Result<(LoggedTrace, Option<u64>), BadTrace> {
        let own = text.get(..run(text)).unwrap_or(&[]);
        let error = match self.read(own) {
            Ok(trace) => return Ok((trace, None)),
            Err(error) => error,
        };
        // What came between may begin with characters that could be ours: the length at the end tells how many are not.
        for line in behind.iter().take(REST_LINES) {
            let more = line.bytes.trim_ascii();
            let more = more.get(..run(more)).unwrap_or(&[]);
            let most = own.len().min(FOREIGN_MAX);
            for foreign in (0..=most).filter(|foreign| (own.len() - foreign + more.len()) % 4 == 0 && !more.is_empty())
            {
                let ours = own.get(..own.len() - foreign).unwrap_or(&[]);
                if let Ok(trace) = self.read(&[ours, more].concat())
                    && trace.lenient.is_none()
                {
                    return Ok((trace, Some(line.number)));
                }
            }
        }
        Err(error)
    }
}

/// Takes backtraces out of the lines of a log.
#[derive(Debug)]
pub struct TraceScanner {
    reader: TraceReader,
    lead_in: LeadIn,
    found: VecDeque<TraceAt>,
    /// The line that was taken for the rest of another one.
    taken: Option<u64>,
}

impl TraceScanner {
    /// Values are of that width.
    pub fn new(width: Width, lead_in: LeadIn) -> TraceScanner {
        TraceScanner { reader: TraceReader::new(width), lead_in, found: VecDeque::new(), taken: None }
    }

    /// Values of 32 bits are what they were: see [`TraceReader::restoring`].
    #[must_use]
    pub fn restoring(self) -> TraceScanner {
        TraceScanner { reader: self.reader.restoring(), ..self }
    }

    /// Takes what `line` holds. Rests of it may stand in the lines behind it.
    pub fn line(&mut self, line: &LogLine, behind: &VecDeque<LogLine>) {
        let mut rest = line.bytes.as_slice();
        let mut any = false;
        while let Some(at) = memchr::memchr(b'~', rest) {
            rest = rest.get(at..).unwrap_or(&[]);
            let text = rest.get(3..).unwrap_or(&[]);
            let trace = match rest.get(..3) {
                Some(b"~m#") => Some(self.reader.compressed(text, behind).map(|(trace, rest)| {
                    self.taken = rest.or(self.taken);
                    trace
                })),
                Some(b"~b#") => Some(self.reader.plain(text)),
                // The original does not look at the letter.
                Some([b'~', _, b'#']) if self.lead_in == LeadIn::Optional && at == 0 && !any => {
                    self.reader.read(text).ok().map(Ok)
                }
                _ => None,
            };
            if let Some(trace) = trace {
                any = true;
                self.found.push_back(TraceAt { line: line.number, marked: true, trace });
            }
            rest = rest.get(1..).unwrap_or(&[]);
        }
        let text = line.bytes.trim_ascii();
        any |= self.taken == Some(line.number);
        if !any && self.lead_in == LeadIn::Optional && !text.is_empty() && run(text) == text.len() {
            self.found.push_back(TraceAt { line: line.number, marked: false, trace: self.reader.read(text) });
        }
    }

    /// The next backtrace of those that were found.
    pub fn next_found(&mut self) -> Option<TraceAt> {
        self.found.pop_front()
    }
}

/// `size: 100, 0x1 0x2 `, and what another one says behind it.
fn words(text: &[u8]) -> Option<LoggedTrace> {
    let text = text.strip_prefix(SIZE)?;
    let ascii = text.iter().take_while(|byte| byte.is_ascii()).count();
    let text = std::str::from_utf8(text.get(..ascii)?).ok()?;
    let (size, frames) = text.split_once(',')?;
    let size = size.parse().ok()?;
    let frame = |word: &str| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok();
    let frames: Vec<u64> = frames.split_ascii_whitespace().map_while(frame).take(extension::DEPTH_MAX).collect();
    Some(LoggedTrace { frames, size, dialect: None, high_lost: false, lenient: None })
}

/// What a line in words says, anywhere in it behind its three characters, or without these at its beginning.
pub fn words_of_line(line: &[u8]) -> Option<LoggedTrace> {
    const LEAD_IN: &[u8] = b"~b#";
    let at = line.windows(LEAD_IN.len()).position(|part| part == LEAD_IN).map_or(0, |at| at + LEAD_IN.len());
    words(line.get(at..)?)
}

/// What no digit of base64 stands for.
const NO_DIGIT: u8 = 64;

/// What each character stands for.
const DIGITS: [u8; 256] = {
    let (mut digits, mut byte) = ([NO_DIGIT; 256], 0usize);
    while byte < digits.len() {
        if let Some(digit) = base64::digit(byte as u8) {
            digits[byte] = digit;
        }
        byte += 1;
    }
    digits
};

/// Bytes of text that is digits of base64 and the padding that it takes, and nothing else; `None` if it is anything else.
fn digits(text: &[u8], out: &mut [u8]) -> Option<usize> {
    let padding = text.iter().rev().take_while(|byte| **byte == b'=').count();
    let text = text.get(..text.len().checked_sub(padding)?)?;
    // One digit too many, or another padding than it takes: base64 says what is wrong, or takes it all the same.
    if text.len() % 4 == 1 || padding != (4 - text.len() % 4) % 4 {
        return None;
    }
    let (groups, rest) = text.as_chunks::<4>();
    let whole = groups.len().checked_mul(3)?;
    let mut wrong = 0;
    let mut bits = |group: &[u8]| {
        group.iter().fold(0u32, |bits, byte| {
            let digit = DIGITS.get(usize::from(*byte)).copied().unwrap_or(NO_DIGIT);
            wrong |= digit;
            bits << 6 | u32::from(digit)
        })
    };
    let (places, last) = out.split_at_mut_checked(whole)?;
    for (group, place) in groups.iter().zip(places.as_chunks_mut::<3>().0) {
        let [_, bytes @ ..] = bits(group).to_be_bytes();
        *place = bytes;
    }
    let more = rest.len().saturating_sub(1);
    let [_, bytes @ ..] = (bits(rest) << (6 * (4 - rest.len()))).to_be_bytes();
    last.get_mut(..more)?.copy_from_slice(bytes.get(..more)?);
    (wrong & NO_DIGIT == 0).then_some(whole + more)
}

/// How many characters of base64 text begins with, padding included.
fn run(text: &[u8]) -> usize {
    let digits = text.iter().take_while(|byte| DIGITS.get(usize::from(**byte)) != Some(&NO_DIGIT)).count();
    let padding = text.get(digits..).unwrap_or(&[]).iter().take_while(|byte| **byte == b'=').count();
    digits + padding
}

/// Calls `each` with every backtrace of a log, in order.
///
/// # Errors
/// Those of the input, and of `each`.
pub fn each_trace<R: BufRead>(
    lines: &mut LogLines<R>,
    scanner: &mut TraceScanner,
    each: &mut dyn FnMut(TraceAt) -> io::Result<()>,
) -> io::Result<()> {
    let mut window = LineWindow::default();
    while window.advance(lines)? {
        scanner.line(&window.line, &window.behind);
        while let Some(found) = scanner.next_found() {
            each(found)?;
        }
    }
    Ok(())
}

/// A line, and those behind it.
#[derive(Debug, Default)]
pub struct LineWindow {
    /// The line.
    pub line: LogLine,
    /// The ones behind it.
    pub behind: VecDeque<LogLine>,
}

impl LineWindow {
    /// Goes one line further; false at the end.
    ///
    /// # Errors
    /// Those of the input.
    pub fn advance<R: BufRead>(&mut self, lines: &mut LogLines<R>) -> io::Result<bool> {
        // The line that is done gives its memory to one that comes.
        let mut spare = std::mem::take(&mut self.line);
        while self.behind.len() <= REST_LINES {
            if !lines.next_into(&mut spare)? {
                break;
            }
            self.behind.push_back(std::mem::take(&mut spare));
        }
        match self.behind.pop_front() {
            Some(line) => {
                self.line = line;
                Ok(true)
            }
            None => Ok(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever is read the short way is what base64 says, and all that an encoder writes is.
    #[test]
    fn digits_alone_say_the_same() {
        let (mut state, mut short) = (0x2545_f491_4f6c_dd1d_u64, 0);
        let mut next = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        for round in 0..20_000 {
            let bytes: Vec<u8> = (0..next(40)).map(|_| next(256) as u8).collect();
            let mut text = String::new();
            base64::write(&bytes, &mut text).expect("a String has room");
            let mut text = text.into_bytes();
            if round % 2 == 0 {
                for _ in 0..1 + next(3) {
                    let at = next(text.len() as u64 + 1) as usize;
                    match next(3) {
                        0 => text.insert(at, b"=-_ \r\n~A*\xff"[next(10) as usize]),
                        1 if at < text.len() => drop(text.remove(at)),
                        _ if at < text.len() => text[at] = next(256) as u8,
                        _ => {}
                    }
                }
            }
            let (mut one, mut other) = ([0; 64], [0; 64]);
            let read = base64::read(&text, &mut other).map(|count| other[..count].to_vec());
            if let Some(count) = digits(&text, &mut one) {
                short += 1;
                assert_eq!(Ok(one[..count].to_vec()), read, "{text:?}");
            } else {
                assert!(round % 2 == 0, "{text:?}");
            }
        }
        assert!(short > 10_000);
        // Without room the other one says so.
        assert_eq!(digits(b"AAAA", &mut [0; 2]), None);
    }
}
