//! From frames to a blob.

use crate::bits::Writer;
use crate::word::{HIGH, Word};
use crate::{DEPTH_MAX, EncodeError, LENGTH_BYTES, extension};

/// How far back a frame's base may be.
const WINDOW: usize = 8;
/// What the original reckons a literal to cost beside its value, and a delta. Spacers are not in it, and it stays so:
/// another choice would be another blob.
const LITERAL_COST: u32 = 7;
const DELTA_COST: u32 = 11;

/// Which of the original's builds is followed, where they differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// What comes back as it was, and is refused if it would not. All spacers are 0.
    Exact,
    /// What most builds write, for any value: on 64 bits those from 2^31 on are destroyed.
    Original,
    /// The same of builds for 32-bit Arm: spacers of large values are 0.
    OriginalArm,
}

/// Writes a blob that every build of the original reads; how many bytes it has. Frames are innermost first.
///
/// # Errors
/// If there are more than 31 frames, a 64-bit value is 2^31 or more, or `out` has no room.
pub fn encode<W: Word>(frames: &[W], size: W, out: &mut [u8]) -> Result<usize, EncodeError> {
    encode_as(frames, size, Flavour::Exact, out)
}

/// The same; what the original's format cannot hold is written as an [`extension`], which the original refuses.
///
/// # Errors
/// If there are more frames than an extension can hold, or `out` has no room.
pub fn encode_any(frames: &[u64], size: u64, out: &mut [u8]) -> Result<usize, EncodeError> {
    match encode(frames, size, out) {
        Err(EncodeError::Depth(..) | EncodeError::Frame(_) | EncodeError::Size) => extension::encode(frames, size, out),
        written => written,
    }
}

/// The same as [`encode()`], as a build of the original does it.
///
/// # Errors
/// Those of [`encode()`]; of other flavours than [`Flavour::Exact`] not on account of values.
pub fn encode_as<W: Word>(frames: &[W], size: W, flavour: Flavour, out: &mut [u8]) -> Result<usize, EncodeError> {
    if frames.len() > DEPTH_MAX {
        return Err(EncodeError::Depth(frames.len(), DEPTH_MAX));
    }
    if flavour == Flavour::Exact && !W::KEEPS_HIGH {
        if let Some(frame) = frames.iter().position(|frame| frame.wide() >= HIGH) {
            return Err(EncodeError::Frame(frame));
        }
        if size.wide() >= HIGH {
            return Err(EncodeError::Size);
        }
    }
    let mut stream = Stream { bits: Writer::new(out), marks_high: flavour == Flavour::Original };
    stream.field(frames.len() as u32, 5);
    for (index, frame) in frames.iter().enumerate() {
        stream.frame(frames, index, *frame);
    }
    stream.counted(size);
    let payload = stream.bits.end();
    let whole = payload.saturating_add(LENGTH_BYTES);
    match out.get_mut(payload..).and_then(|rest| rest.first_chunk_mut()) {
        Some(place) => *place = (whole as u16).to_be_bytes(),
        None => return Err(EncodeError::Room(whole)),
    }
    Ok(whole)
}

struct Stream<'o> {
    bits: Writer<'o>,
    /// The spacer behind a value of 2^31 or more is 1.
    marks_high: bool,
}

impl Stream<'_> {
    /// A small field with its spacer.
    fn field(&mut self, value: u32, count: u32) {
        self.bits.put(value << 1, count.saturating_add(1));
    }

    /// How many bits a value has, and the value.
    fn counted<W: Word>(&mut self, value: W) {
        let (count, pattern) = (value.significant(), value.pattern());
        // 64 wraps to 0, as in the original.
        self.field(count & 63, 6);
        self.bits.put(pattern, count.saturating_sub(32));
        self.bits.put(pattern, count.min(32));
        self.bits.put(u32::from(self.marks_high && pattern >> 31 != 0), 1);
    }

    fn frame<W: Word>(&mut self, frames: &[W], index: usize, frame: W) {
        // The nearest of the last eight, and of several the oldest.
        let first = index.saturating_sub(WINDOW);
        let mut best: Option<(usize, W)> = None;
        for (place, base) in frames.iter().enumerate().take(index).skip(first) {
            let distance = frame.distance(*base);
            if best.is_none_or(|(_, least)| distance < least) {
                best = Some((place, distance));
            }
        }
        // Never against the first frame, even if that is the nearest.
        if let Some((place, distance)) = best.filter(|(place, _)| *place != 0) {
            let cost = distance.significant().saturating_add(DELTA_COST);
            if cost < frame.significant().saturating_add(LITERAL_COST) {
                let back = index.saturating_sub(place).saturating_sub(1) as u32;
                // Equal is "subtract 0".
                let subtracts = frames.get(place).is_none_or(|base| frame <= *base);
                self.field(1, 1);
                self.field(back, 3);
                self.field(u32::from(subtracts), 1);
                return self.counted(distance);
            }
        }
        self.field(0, 1);
        self.counted(frame);
    }
}
