//! Lines of logs: `~m#` and a blob, `~b#` and what it says.

use core::fmt;

use crate::base64;

/// Before a compressed backtrace.
pub const COMPRESSED: &str = "~m#";
/// Before one in words.
pub const PLAIN: &str = "~b#";

/// Writes `~m#` and the blob, without a line end.
///
/// # Errors
/// Those of `out`.
pub fn write_compressed(blob: &[u8], out: &mut impl fmt::Write) -> fmt::Result {
    out.write_str(COMPRESSED)?;
    base64::write(blob, out)
}

/// Writes `~b#size: …, ` and the frames as the original's tool does, the blank behind the last one included, without a
/// line end.
///
/// # Errors
/// Those of `out`.
pub fn write_plain(frames: &[u64], size: u64, out: &mut impl fmt::Write) -> fmt::Result {
    write!(out, "{PLAIN}size: {size}, ")?;
    frames.iter().try_for_each(|frame| write!(out, "{frame:#x} "))
}
