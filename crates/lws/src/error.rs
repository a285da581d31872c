//! What is wrong with a blob, and where.

use core::fmt;

/// What is wrong at some bit of a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum What {
    /// The bits end inside of this field.
    Ended(&'static str),
    /// The first frame is told by its distance from one before.
    FirstIsDelta,
    /// A frame refers to one before the first: how far back, and how many frames there are.
    BeforeFirst(u8, u8),
    /// A frame refers to the first one, which no encoder does.
    AgainstFirst,
    /// A value has more bits than it needs.
    NotMinimal(&'static str),
    /// A value of 2^31 or more is not one that the original writes.
    Unlikely,
    /// Bits behind the last one of the last byte are not 0.
    FillerSet,
    /// More bytes follow than the fields need: a user's own fields, perhaps.
    MoreFollows,
    /// There are more frames than there is room for: this many.
    Frames(u8),
    /// It is an extension of ours, but of a later version than this.
    Newer(u8),
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            What::Ended(field) => write!(f, "it ends inside {field}"),
            What::FirstIsDelta => f.write_str("the first frame is a delta, and there is none before it"),
            What::BeforeFirst(back, known) => {
                write!(f, "a frame refers to one that is {back} back, and only {known} are there")
            }
            What::AgainstFirst => f.write_str("a frame refers to the first one, which no encoder does"),
            What::NotMinimal(field) => write!(f, "{field} has more bits than its value needs"),
            What::Unlikely => f.write_str("a value of 2^31 or more is not as an encoder writes it"),
            What::FillerSet => f.write_str("bits behind the last field are set"),
            What::MoreFollows => f.write_str("bytes follow behind the last field"),
            What::Frames(depth) => write!(f, "it has {depth} frames, more than there is room for"),
            What::Newer(version) => {
                write!(f, "it is an extension of version {version}, which this version does not read")
            }
        }
    }
}

/// Something wrong, and the bit of the blob at which it begins, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The first bit of the field.
    pub bit: u32,
    /// What is wrong with it.
    pub what: What,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at bit {}: {}", self.bit, self.what)
    }
}

/// Why a blob cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// It is shorter than any blob: so many bytes.
    Short(usize),
    /// Its last two bytes say another length than it has: what they say, and what there is.
    Length(u16, usize),
    /// A field of it.
    At(Problem),
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecodeError::Short(bytes) => write!(f, "{bytes} bytes are no backtrace"),
            DecodeError::Length(says, is) => {
                write!(
                    f,
                    "its length does not match: it says {says} bytes (at bit {}), and there are {is}",
                    bit_of(*is)
                )
            }
            DecodeError::At(problem) => problem.fmt(f),
        }
    }
}

/// Where the length stands in a blob of so many bytes.
fn bit_of(bytes: usize) -> usize {
    bytes.saturating_sub(crate::LENGTH_BYTES).saturating_mul(8)
}

impl core::error::Error for DecodeError {}

/// Why a backtrace cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncodeError {
    /// More frames than can be written: how many there are, and how many can.
    Depth(usize, usize),
    /// A frame that would not come back: which one.
    Frame(usize),
    /// The size would not come back.
    Size,
    /// So many bytes are needed.
    Room(usize),
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EncodeError::Depth(frames, most) => write!(f, "{frames} frames are too many: {most} can be written"),
            EncodeError::Frame(index) => {
                write!(f, "frame {index} is 2^31 or more, which libwebsockets' format cannot hold on 64 bits")
            }
            EncodeError::Size => {
                f.write_str("the size is 2^31 or more, which libwebsockets' format cannot hold on 64 bits")
            }
            EncodeError::Room(bytes) => write!(f, "it takes {bytes} bytes, and there is less room"),
        }
    }
}

impl core::error::Error for EncodeError {}
