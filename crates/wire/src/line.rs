//! Ways to send a frame, and to find it again on a line.

use core::fmt;

use heapledger_lws::base64;

use crate::{FRAME_BYTES_MAX, cobs};

/// What stands before a frame in a log.
pub const LEAD_IN: &str = "~h#";

/// What a host sends to have all live blocks told: see [`crate::message::Mark::LiveBegins`].
pub const ASK: &[u8; 4] = b"~h?\n";

/// Looks for [`ASK`] in what a host sends, byte by byte.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked(u8);

impl Asked {
    /// Whether this byte is the last one of it.
    pub fn byte(&mut self, byte: u8) -> bool {
        let place =
            if ASK.get(usize::from(self.0)) == Some(&byte) { self.0.wrapping_add(1) } else { u8::from(byte == ASK[0]) };
        self.0 = if usize::from(place) == ASK.len() { 0 } else { place };
        usize::from(place) == ASK.len()
    }
}

/// Takes frames.
pub trait Line {
    /// Takes a whole frame, or nothing of it. It must not wait: false says that there is no room now, and the events of the
    /// frame are counted as lost.
    fn send(&mut self, frame: &[u8]) -> bool;
}

/// A line of its own: bytes between zeros. The function takes all of them, or none.
#[derive(Clone, Copy, Debug)]
pub struct Binary<F>(pub F);

impl<F: FnMut(&[u8]) -> bool> Line for Binary<F> {
    fn send(&mut self, frame: &[u8]) -> bool {
        let mut packed = [0; FRAME_BYTES_MAX + cobs::OVERHEAD_BYTES];
        match cobs::pack(frame, &mut packed) {
            Some(bytes) => (self.0)(packed.get(..bytes).unwrap_or(&[])),
            None => false,
        }
    }
}

/// A console on which other text is printed, too: a line of text with the three characters before it.
#[derive(Clone, Copy, Debug)]
pub struct Text<F>(pub F);

impl<F: FnMut(&str) -> bool> Line for Text<F> {
    fn send(&mut self, frame: &[u8]) -> bool {
        let mut text = TextLine { bytes: [0; TEXT_BYTES_MAX], at: 0 };
        let written = write_text(frame, &mut text);
        match core::str::from_utf8(text.bytes.get(..text.at).unwrap_or(&[])) {
            Ok(line) if written.is_ok() => (self.0)(line),
            _ => false,
        }
    }
}

/// A frame as text, with its line end.
const TEXT_BYTES_MAX: usize = 3 + FRAME_BYTES_MAX.div_ceil(3) * 4 + 1;

struct TextLine {
    bytes: [u8; TEXT_BYTES_MAX],
    at: usize,
}

impl fmt::Write for TextLine {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.at.saturating_add(text.len());
        let places = self.bytes.get_mut(self.at..end).ok_or(fmt::Error)?;
        for (place, byte) in places.iter_mut().zip(text.bytes()) {
            *place = byte;
        }
        self.at = end;
        Ok(())
    }
}

/// Writes a frame as a line of text.
///
/// # Errors
/// Those of `out`.
pub fn write_text(frame: &[u8], out: &mut impl fmt::Write) -> fmt::Result {
    out.write_str(LEAD_IN)?;
    base64::write(frame, out)?;
    out.write_str("\n")
}
