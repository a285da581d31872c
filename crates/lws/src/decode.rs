//! From a blob to frames, whichever build of the original wrote it.
//!
//! The original leaves one bit behind each field, the *spacer*, whose value and presence depend on the compiler that
//! built it. Three dialects are told apart by reading strictly: what no encoder writes is not of that dialect.

use crate::bits::{Reader, Rest};
use crate::error::{DecodeError, Problem, What};
use crate::{LENGTH_BYTES, Width, extension};

/// Who wrote a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// A spacer behind each field: gcc, and clang up to 14. Only this one is read by the original itself.
    Canonical,
    /// None behind depth, index, sign and the size's count: clang from 15 on at `-O2`.
    FewSpacers,
    /// None behind any of these and behind frames' counts: clang from 15 on at `-O3`.
    FewestSpacers,
    /// Our own, for what the format cannot hold.
    Extension,
}

impl Dialect {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Dialect::Canonical => "canonical",
            Dialect::FewSpacers => "few-spacers",
            Dialect::FewestSpacers => "fewest-spacers",
            Dialect::Extension => "extension",
        }
    }

    /// Bits behind depth, index, sign and the size's count; and behind a frame's count.
    const fn spacers(self) -> (u32, u32) {
        match self {
            Dialect::FewSpacers => (0, 1),
            Dialect::FewestSpacers => (0, 0),
            _ => (1, 1),
        }
    }
}

/// What a blob says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoded<'f> {
    /// The frames, innermost first.
    pub frames: &'f [u64],
    /// Bytes that were asked for.
    pub size: u64,
    /// Who wrote it.
    pub dialect: Dialect,
    /// A value was 2^31 or more where its writer had 64 bits: its upper bits are lost, and shown as ones.
    pub high_lost: bool,
    /// It is not as an encoder writes it, from here on, and was read as the original would.
    pub lenient: Option<Problem>,
}

/// Reads a blob, its length at the end included, into `frames`.
///
/// # Errors
/// If it is none, or was cut or damaged; or if it has more frames than `frames` has room for.
pub fn decode<'f>(blob: &[u8], width: Width, frames: &'f mut [u64]) -> Result<Decoded<'f>, DecodeError> {
    let short = DecodeError::Short(blob.len());
    let (payload, length) = blob.split_last_chunk::<LENGTH_BYTES>().ok_or(short)?;
    let length = u16::from_be_bytes(*length);
    if extension::is_marked(length) {
        return extension::decode(payload, length, frames);
    }
    if usize::from(length) != blob.len() {
        return Err(DecodeError::Length(length, blob.len()));
    }
    if payload.is_empty() {
        return Err(short);
    }
    let mut last = None;
    for (dialect, reading) in READINGS {
        let bits = Reader::new(payload);
        let mut parser = Parser {
            bits,
            width,
            dialect,
            reading,
            high_lost: false,
            spacers_set: false,
            astray: false,
            lenient: None,
        };
        match parser.parse(frames) {
            Ok((depth, size)) => {
                let (high_lost, lenient) = (parser.high_lost, parser.lenient);
                let frames = frames.get(..depth).unwrap_or(&[]);
                return Ok(Decoded { frames, size, dialect, high_lost, lenient });
            }
            Err(problem) => last = Some(problem),
        }
    }
    Err(last.map_or(short, DecodeError::At))
}

/// How strictly a blob is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// Only what encoders write.
    Strict,
    /// What the original's decoder takes, too.
    Lenient,
}

const READINGS: [(Dialect, Reading); 4] = [
    (Dialect::Canonical, Reading::Strict),
    (Dialect::FewSpacers, Reading::Strict),
    (Dialect::FewestSpacers, Reading::Strict),
    (Dialect::Canonical, Reading::Lenient),
];

struct Parser<'b> {
    bits: Reader<'b>,
    width: Width,
    dialect: Dialect,
    reading: Reading,
    high_lost: bool,
    spacers_set: bool,
    /// A count has wrapped: what follows are no fields, and is taken for some as the original does it, spacers included.
    astray: bool,
    lenient: Option<Problem>,
}

impl Parser<'_> {
    fn parse(&mut self, frames: &mut [u64]) -> Result<(usize, u64), Problem> {
        let (spacer, count_spacer) = self.dialect.spacers();
        let depth = self.field("the depth", 5, spacer)? as usize;
        if depth > frames.len() {
            return Err(Problem { bit: 0, what: What::Frames(depth as u8) });
        }
        for index in 0..depth {
            let bit = self.bit();
            let frame = if self.field("a frame's flag", 1, 1)? == 0 {
                self.counted("a frame", count_spacer)?
            } else {
                if index == 0 {
                    return Err(Problem { bit, what: What::FirstIsDelta });
                }
                let bit = self.bit();
                let back = (self.field("an index", 3, spacer)? as usize).saturating_add(1);
                let base = index.checked_sub(back).and_then(|base| Some((base, *frames.get(base)?)));
                let Some((base, value)) = base else {
                    return Err(Problem { bit, what: What::BeforeFirst(back as u8, index as u8) });
                };
                if base == 0 {
                    self.breach(bit, What::AgainstFirst)?;
                }
                let subtracts = self.field("a sign", 1, spacer)? != 0;
                let delta = self.counted("a delta", count_spacer)?;
                self.width.fit(if subtracts { value.wrapping_sub(delta) } else { value.wrapping_add(delta) })
            };
            if let Some(place) = frames.get_mut(index) {
                *place = frame;
            }
        }
        let size = self.counted("the size", spacer)?;
        let bit = self.bit();
        match self.bits.rest() {
            Rest::Filler => {}
            Rest::SetBits => self.breach(bit, What::FillerSet)?,
            Rest::Bytes => self.breach(bit, What::MoreFollows)?,
        }
        Ok((depth, size))
    }

    fn bit(&self) -> u32 {
        self.bits.at_bit() as u32
    }

    /// What no encoder writes: an error, or a remark.
    fn breach(&mut self, bit: u32, what: What) -> Result<(), Problem> {
        let problem = Problem { bit, what };
        if self.reading == Reading::Strict {
            return Err(problem);
        }
        self.lenient.get_or_insert(problem);
        Ok(())
    }

    fn get(&mut self, name: &'static str, count: u32) -> Result<u64, Problem> {
        let bit = self.bit();
        self.bits.get(count).ok_or(Problem { bit, what: What::Ended(name) })
    }

    /// A field and its spacer, which says nothing.
    fn field(&mut self, name: &'static str, count: u32, spacer: u32) -> Result<u64, Problem> {
        let field = self.get(name, count.saturating_add(spacer))?;
        let is_set = spacer != 0 && field & 1 != 0;
        self.spacers_set |= is_set;
        if self.astray && is_set {
            return Ok(field >> 1 | !0 << 31);
        }
        Ok(field >> spacer)
    }

    /// How many bits a value has, and the value.
    fn counted(&mut self, name: &'static str, spacer: u32) -> Result<u64, Problem> {
        let bit = self.bit();
        let count = self.field(name, 6, spacer)? as u32;
        if count > 63 {
            // Astray: the original reads nothing then.
            return Ok(0);
        }
        let with_spacer = self.get(name, count.saturating_add(1))?;
        let written = with_spacer >> 1;
        let low = written & 0xffff_ffff;
        let is_minimal = match count {
            1 => true,
            2..=32 => written >> count.saturating_sub(1) != 0,
            _ => false,
        };
        if count <= 32 {
            if !is_minimal {
                self.breach(bit, What::NotMinimal(name))?;
            }
        } else if !self.is_doubled(written, count) {
            self.breach(bit, What::Unlikely)?;
        }
        // A count of 64 has wrapped: the original takes the first bit of the value for its spacer, and goes astray behind it.
        // (Not where the spacers of other fields are set: there they mean nothing.)
        let wraps = self.reading == Reading::Lenient && self.width == Width::W64 && !self.spacers_set;
        let wrapped = wraps && count == 0 && with_spacer != 0;
        self.astray |= wrapped;
        let folded = low | written >> 32 | if wrapped { 1 << 31 } else { 0 };
        Ok(if folded >> 31 & 1 == 0 {
            folded
        } else {
            self.high_lost |= self.width == Width::W64;
            self.width.fit(folded | !0 << 31)
        })
    }

    /// Whether so many bits are what a 64-bit build of the original writes of a large value: its 31 lowest bits and a 1,
    /// and that again.
    fn is_doubled(&self, written: u64, count: u32) -> bool {
        let upper = written >> 32;
        let shown = 1u64.wrapping_shl(count.saturating_sub(32)).wrapping_sub(1);
        self.width == Width::W64 && written >> 31 & 1 == 1 && upper == written & shown
    }
}
