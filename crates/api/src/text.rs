//! Texts as C passes them.

use crate::error::ApiError;
use core::ffi::c_char;

/// Longer ones are cut there: no name in a ledger is as long.
const BYTES_MAX: usize = 4096;

/// A text without its zero byte.
///
/// # Errors
/// If there is none.
///
/// # Safety
/// It must end with a zero byte, or be longer than what is read.
pub(crate) unsafe fn text<'a>(first: *const c_char) -> Result<&'a [u8], ApiError> {
    if first.is_null() {
        return Err(ApiError::INVALID);
    }
    let mut bytes = 0usize;
    // SAFETY: it goes on as long as no zero byte was seen.
    while bytes < BYTES_MAX && unsafe { *first.add(bytes) } != 0 {
        bytes = bytes.wrapping_add(1);
    }
    // SAFETY: so many bytes were read.
    Ok(unsafe { core::slice::from_raw_parts(first.cast(), bytes) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_end_with_a_zero_byte_or_are_cut() {
        // SAFETY: they end with zero bytes.
        unsafe {
            assert_eq!(text(c"".as_ptr()), Ok(&b""[..]));
            assert_eq!(text(c"name".as_ptr()), Ok(&b"name"[..]));
            assert_eq!(text(core::ptr::null()), Err(ApiError::INVALID));
            let long = std::vec![1; 3 * BYTES_MAX];
            assert_eq!(text(long.as_ptr()).map(<[u8]>::len), Ok(BYTES_MAX));
        }
    }
}
