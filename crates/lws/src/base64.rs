//! Base64 as libwebsockets writes it, and everything that it reads.

use core::fmt;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Why text is no base64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base64Error {
    /// This character, the one of this number from 0, is none of base64.
    Character(u8, usize),
    /// There are too many `=`, or something follows behind them.
    Padding(usize),
    /// It is longer than there is room for.
    Room,
}

impl fmt::Display for Base64Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Base64Error::Character(byte, at) if byte.is_ascii_graphic() => {
                write!(f, "character {at}, {}, is none of base64", char::from(*byte))
            }
            Base64Error::Character(byte, at) => write!(f, "character {at}, byte {byte:#04x}, is none of base64"),
            Base64Error::Padding(at) => write!(f, "the padding at character {at} is wrong"),
            Base64Error::Room => f.write_str("it is longer than any backtrace"),
        }
    }
}

impl core::error::Error for Base64Error {}

/// Writes `bytes`, filled up with `=`, without line breaks.
///
/// # Errors
/// Those of `out`.
pub fn write(bytes: &[u8], out: &mut impl fmt::Write) -> fmt::Result {
    for group in bytes.chunks(3) {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4u32 {
            let digit = bits >> (3 ^ place).wrapping_mul(6) & 63;
            let is_there = place as usize <= group.len();
            let letter = ALPHABET.get(digit as usize).filter(|_| is_there);
            out.write_char(letter.map_or('=', |letter| char::from(*letter)))?;
        }
    }
    Ok(())
}

/// What a character of either alphabet stands for.
pub const fn digit(byte: u8) -> Option<u8> {
    Some(match byte {
        b'A'..=b'Z' => byte.wrapping_sub(b'A'),
        b'a'..=b'z' => byte.wrapping_sub(b'a').wrapping_add(26),
        b'0'..=b'9' => byte.wrapping_sub(b'0').wrapping_add(52),
        b'+' | b'-' => 62,
        b'/' | b'_' => 63,
        _ => return None,
    })
}

/// Reads text as the original does: both alphabets, blanks and line ends anywhere, padding that is missing or mostly one
/// that is too long. How many bytes of `out` it filled.
///
/// # Errors
/// If there is another character, or no room.
pub fn read(text: &[u8], out: &mut [u8]) -> Result<usize, Base64Error> {
    let (mut bits, mut digits, mut padding, mut filled) = (0u32, 0usize, 0usize, 0usize);
    for (at, byte) in text.iter().enumerate() {
        match (byte, digit(*byte)) {
            (b'\n' | b'\r' | b' ' | b'\t', _) => {}
            (b'=', _) => {
                padding = padding.saturating_add(1);
                // The original counts one more than three digits need as another byte.
                if digits & 3 == 3 && padding > 1 {
                    return Err(Base64Error::Padding(at));
                }
            }
            (_, Some(_)) if padding != 0 => return Err(Base64Error::Padding(at)),
            (_, Some(digit)) => {
                bits = bits << 6 | u32::from(digit);
                digits = digits.wrapping_add(1);
                let byte = match digits & 3 {
                    0 => bits,
                    2 => bits >> 4,
                    3 => bits >> 2,
                    _ => continue,
                };
                *out.get_mut(filled).ok_or(Base64Error::Room)? = byte as u8;
                filled = filled.wrapping_add(1);
            }
            (_, None) => return Err(Base64Error::Character(*byte, at)),
        }
    }
    Ok(filled)
}
