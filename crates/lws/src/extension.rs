//! What the original's format cannot hold: values of 2^31 and above on 64 bits, more than 31 frames.
//!
//! ```text
//! 0x0A | version 1 | bits … | length, 2 bytes: bit 15 set, below it bytes of the whole
//!
//! bits: depth 8; of each frame flag 1, then  0: count 7, value
//!                                            1: index 3, sign 1, count 7, delta
//!       count 7, size; zeros up to the end of the byte
//! ```
//!
//! As in the original, but nothing stands between fields, counts go up to 64, and the first frame may be a base. The
//! first byte is, to the original, a depth of 1 and a frame that is a delta of one before it: it refuses that. Its tool
//! refuses it before that, by the length. So nobody reads it as something else.

use crate::bits::{Reader, Rest, Writer};
use crate::decode::{Decoded, Dialect};
use crate::error::{DecodeError, EncodeError, Problem, What};
use crate::word::Word;

/// The first byte.
pub const MARK: u8 = 0x0a;
/// The second byte.
pub const VERSION: u8 = 1;
/// Set in the length.
pub const LENGTH_MARK: u16 = 0x8000;
/// Most frames.
pub const DEPTH_MAX: usize = 255;

const WINDOW: usize = 8;
const HEAD_BITS: u32 = 16;
/// What a delta costs more than a literal, beside the value.
const DELTA_MORE: u32 = 4;

/// Whether a blob with this length is an extension.
pub(crate) const fn is_marked(length: u16) -> bool {
    length & LENGTH_MARK != 0
}

/// Writes one; how many bytes it has.
///
/// # Errors
/// If there are more than 255 frames, or `out` has no room.
pub fn encode(frames: &[u64], size: u64, out: &mut [u8]) -> Result<usize, EncodeError> {
    if frames.len() > DEPTH_MAX {
        return Err(EncodeError::Depth(frames.len(), DEPTH_MAX));
    }
    let mut bits = Writer::new(out);
    bits.put(u32::from(MARK), 8);
    bits.put(u32::from(VERSION), 8);
    bits.put(frames.len() as u32, 8);
    for (index, frame) in frames.iter().enumerate() {
        let first = index.saturating_sub(WINDOW);
        let bases = frames.iter().enumerate().take(index).skip(first);
        let nearest = bases.min_by_key(|(place, base)| (frame.distance(**base), usize::MAX.wrapping_sub(*place)));
        let delta = nearest.map(|(place, base)| (place, *base, frame.distance(*base)));
        let is_less = |delta: u64| delta.significant().saturating_add(DELTA_MORE) < frame.significant();
        match delta.filter(|(_, _, delta)| is_less(*delta)) {
            Some((place, base, delta)) => {
                bits.put(1, 1);
                bits.put(index.saturating_sub(place).saturating_sub(1) as u32, 3);
                bits.put(u32::from(*frame < base), 1);
                counted(&mut bits, delta);
            }
            None => {
                bits.put(0, 1);
                counted(&mut bits, *frame);
            }
        }
    }
    counted(&mut bits, size);
    let payload = bits.end();
    let whole = payload.saturating_add(crate::LENGTH_BYTES);
    match out.get_mut(payload..).and_then(|rest| rest.first_chunk_mut()) {
        Some(place) => *place = (whole as u16 | LENGTH_MARK).to_be_bytes(),
        None => return Err(EncodeError::Room(whole)),
    }
    Ok(whole)
}

fn counted(bits: &mut Writer<'_>, value: u64) {
    let count = value.significant();
    bits.put(count, 7);
    bits.put((value >> 32) as u32, count.saturating_sub(32));
    bits.put(value as u32, count.min(32));
}

/// Reads one: everything before the length, and the length.
pub(crate) fn decode<'f>(payload: &[u8], length: u16, frames: &'f mut [u64]) -> Result<Decoded<'f>, DecodeError> {
    let (says, is) = (length & !LENGTH_MARK, payload.len().saturating_add(crate::LENGTH_BYTES));
    if usize::from(says) != is || payload.first() != Some(&MARK) {
        return Err(DecodeError::Length(length, is));
    }
    let (depth, size) = parse(payload, frames).map_err(DecodeError::At)?;
    let frames = frames.get(..depth).unwrap_or(&[]);
    Ok(Decoded { frames, size, dialect: Dialect::Extension, high_lost: false, lenient: None })
}

fn parse(payload: &[u8], frames: &mut [u64]) -> Result<(usize, u64), Problem> {
    let mut bits = Reader::new(payload);
    let version = field(&mut bits, HEAD_BITS, "the head")? as u8;
    if version != VERSION {
        return Err(Problem { bit: 8, what: What::Newer(version) });
    }
    let depth = field(&mut bits, 8, "the depth")? as usize;
    if depth > frames.len() {
        return Err(Problem { bit: HEAD_BITS, what: What::Frames(depth as u8) });
    }
    for index in 0..depth {
        let frame = if field(&mut bits, 1, "a frame's flag")? == 0 {
            value(&mut bits, "a frame")?
        } else {
            let bit = bits.at_bit() as u32;
            let back = (field(&mut bits, 3, "an index")? as usize).saturating_add(1);
            let base = index.checked_sub(back).and_then(|base| frames.get(base)).copied();
            let base = base.ok_or(Problem { bit, what: What::BeforeFirst(back as u8, index as u8) })?;
            let subtracts = field(&mut bits, 1, "a sign")? != 0;
            let delta = value(&mut bits, "a delta")?;
            if subtracts { base.wrapping_sub(delta) } else { base.wrapping_add(delta) }
        };
        if let Some(place) = frames.get_mut(index) {
            *place = frame;
        }
    }
    let size = value(&mut bits, "the size")?;
    let problem = |what| Err(Problem { bit: bits.at_bit() as u32, what });
    match bits.rest() {
        Rest::Filler => Ok((depth, size)),
        Rest::SetBits => problem(What::FillerSet),
        Rest::Bytes => problem(What::MoreFollows),
    }
}

fn field(bits: &mut Reader<'_>, count: u32, name: &'static str) -> Result<u64, Problem> {
    let bit = bits.at_bit() as u32;
    bits.get(count).ok_or(Problem { bit, what: What::Ended(name) })
}

fn value(bits: &mut Reader<'_>, name: &'static str) -> Result<u64, Problem> {
    let bit = bits.at_bit() as u32;
    let count = field(bits, 7, name)? as u32;
    let value = if count > 64 { 0 } else { field(bits, count, name)? };
    if value.significant() != count {
        return Err(Problem { bit, what: What::NotMinimal(name) });
    }
    Ok(value)
}
